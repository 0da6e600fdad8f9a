/* The tokenizer against goldens of the `tokenizers` library: every string, every way of opening, to the
 * token. */
#include "text_support.h"

#include "base/file.h"
#include "base/sha256.h"

/* What the vectors' files call it; NULL where a string has no such field. */
static void check_strings(const ew_tokenizer *tokenizer, const json_t *root, const char *preferred) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(root, "strings"), i, item) {
        const json_t *text = json_object_get(item, "text"), *ids = json_object_get(item, preferred);
        const json_t *as_text = json_object_get(item, "ids_specials_as_text");
        ids = ids ? ids : json_object_get(item, "ids");
        assert_encodes(tokenizer, text, EW_ENCODE_SPECIALS, ids);
        assert_encodes(tokenizer, text, EW_ENCODE_TEXT, as_text ? as_text : ids);
    }
}

static void digest_ids(const ew_tokens *tokens, char hex[65]) {
    ew_sha256 hash;
    ew_sha256_begin(&hash);
    ew_sha256_add(&hash, tokens->ids, tokens->count * sizeof *tokens->ids);
    ew_sha256_end_hex(&hash, hex);
}

static void check_long(const ew_tokenizer *tokenizer, const json_t *root) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(root, "long"), i, item) {
        const char *unit = json_string_value(json_object_get(item, "unit"));
        json_int_t times = json_integer_value(json_object_get(item, "times"));
        ew_buffer text = {0};
        ew_tokens tokens = {0};
        ew_error error = {0};
        char hex[65];
        for (json_int_t n = 0; n < times; n++) {
            ew_buffer_append_text(&text, unit);
        }
        assert_ok(ew_tokenizer_encode(tokenizer, text.data, text.length, EW_ENCODE_TEXT, &tokens, &error),
                  &error);
        assert_int_equal(tokens.count, json_integer_value(json_object_get(item, "count")));
        digest_ids(&tokens, hex);
        assert_string_equal(hex, json_string_value(json_object_get(item, "sha256_of_le_u32")));
        ew_tokens_free(&tokens);
        ew_buffer_free(&text);
    }
}

/* Opened as given, and again from the serialized tables: the same ids. Takes the tokenizer. */
static void check_vectors(ew_tokenizer *tokenizer, json_t *root, const char *preferred) {
    ew_buffer copy = {0};
    if (tokenizer && root) {
        ew_tokenizer *again = reopen_blob(tokenizer, &copy);
        check_strings(tokenizer, root, preferred);
        check_long(tokenizer, root);
        check_strings(again, root, preferred);
        check_long(again, root);
        ew_tokenizer_close(again);
    }
    ew_buffer_free(&copy);
    ew_tokenizer_close(tokenizer);
    json_decref(root);
}

static void test_smollm2_folder(void **state) {
    (void)state;
    check_vectors(open_folder("goldens/smollm2"), golden("goldens/smollm2/vectors.json"), "ids");
}

static void test_smollm2_gguf(void **state) {
    (void)state;
    check_vectors(open_smollm2_gguf(), golden("goldens/smollm2/vectors.json"), "ids");
}

static void test_qwen2_gguf(void **state) {
    (void)state;
    check_vectors(open_gguf("data/tokenizer/qwen2-vocab.gguf"),
                  golden("goldens/tokenizer/qwen2_vectors.json"), "ids");
}

/* llama.cpp's own strings: texts between separator lines, one line of ids each. */
static void test_llama_cpp_strings(void **state) {
    (void)state;
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[4096], ids_path[4096];
    ew_tokenizer *tokenizer = open_gguf("data/tokenizer/qwen2-vocab.gguf");
    ew_error error = {0};
    ew_mapping texts = {0}, ids = {0};
    if (!tokenizer || !ew_test_shared("data/tokenizer/qwen2.inp", path, sizeof path) ||
        !ew_test_shared("data/tokenizer/qwen2.out", ids_path, sizeof ids_path)) {
        ew_tokenizer_close(tokenizer);
        return;
    }
    assert_ok(ew_map_file(path, &texts, &error), &error);
    assert_ok(ew_map_file(ids_path, &ids, &error), &error);
    const char *text = (const char *)texts.data, *end = text + texts.size, *line = (const char *)ids.data;
    const char *line_end = line + ids.size;
    size_t n = 0;
    for (; text < end && line < line_end; n++) {
        const char *stop = memmem(text, (size_t)(end - text), separator, sizeof separator - 1);
        ew_tokens tokens = {0};
        assert_non_null(stop);
        assert_ok(ew_tokenizer_encode(tokenizer, text, (size_t)(stop - text), 0, &tokens, &error), &error);
        const char *newline = memchr(line, '\n', (size_t)(line_end - line));
        assert_non_null(newline);
        for (size_t i = 0; i < tokens.count; i++) {
            char *next = NULL;
            assert_int_equal(tokens.ids[i], strtol(line, &next, 10));
            assert_true(next > line && next <= newline);
            line = next;
        }
        while (line < newline) {
            assert_int_equal(*line++, ' ');
        }
        line = newline + 1;
        text = stop + sizeof separator - 1;
        ew_tokens_free(&tokens);
    }
    assert_int_equal(n, 46); /* and the empty one behind the last separator */
    ew_unmap(&texts);
    ew_unmap(&ids);
    ew_tokenizer_close(tokenizer);
}

static void check_tiny(ew_tokenizer *tokenizer, const char *vectors, bool normalizes) {
    json_t *root = golden(vectors), *item;
    size_t i;
    json_array_foreach(json_object_get(root, "strings"), i, item) {
        const json_t *text = json_object_get(item, "text");
        if (!normalizes && strstr(json_string_value(text), "e\xcc\x81")) {
            continue; /* a GGUF does not say that its model normalizes */
        }
        assert_encodes(tokenizer, text, EW_ENCODE_SPECIALS, json_object_get(item, "ids"));
        assert_encodes(tokenizer, text, EW_ENCODE_SPECIALS | EW_ENCODE_BOS,
                       json_object_get(item, "ids_with_special"));
    }
    json_array_foreach(json_object_get(root, "chat"), i, item) {
        assert_encodes(tokenizer, json_object_get(item, "text"), EW_ENCODE_SPECIALS,
                       json_object_get(item, "ids"));
    }
    json_decref(root);
}

static void test_tiny_models(void **state) {
    (void)state;
    static const struct {
        const char *path, *vectors;
    } models[] = {{"goldens/models/qwen2-tiny", "goldens/forward/tokenizer-qwen.json"},
                  {"goldens/models/qwen3-tiny", "goldens/forward/tokenizer-qwen.json"},
                  {"goldens/models/qwen2-tiny.gguf", "goldens/forward/tokenizer-qwen.json"},
                  {"goldens/models/llama-tiny", "goldens/forward/tokenizer-llama.json"},
                  {"goldens/models/llama-tiny.gguf", "goldens/forward/tokenizer-llama.json"}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        bool gguf = strstr(models[i].path, ".gguf") != NULL;
        ew_tokenizer *tokenizer = gguf ? open_gguf(models[i].path) : open_folder(models[i].path);
        if (tokenizer) {
            ew_buffer copy = {0};
            ew_tokenizer *again = reopen_blob(tokenizer, &copy);
            check_tiny(tokenizer, models[i].vectors, !gguf);
            check_tiny(again, models[i].vectors, !gguf);
            ew_tokenizer_close(again);
            ew_buffer_free(&copy);
        }
        ew_tokenizer_close(tokenizer);
    }
}

static void test_facts(void **state) {
    (void)state;
    ew_tokenizer *tokenizer = open_folder("goldens/models/llama-tiny");
    if (!tokenizer) {
        return;
    }
    assert_int_equal(ew_tokenizer_vocab_size(tokenizer), 272);
    assert_int_equal(ew_tokenizer_bos(tokenizer), 267);
    assert_int_equal(ew_tokenizer_eos(tokenizer), 271);
    assert_true(ew_tokenizer_add_bos(tokenizer));
    assert_true(ew_tokenizer_is_special(tokenizer, 269));
    assert_false(ew_tokenizer_is_special(tokenizer, 0));
    assert_false(ew_tokenizer_is_special(tokenizer, -1));
    assert_false(ew_tokenizer_is_special(tokenizer, 272));
    assert_int_equal(ew_tokenizer_find(tokenizer, "<|eot_id|>"), 271);
    assert_int_equal(ew_tokenizer_find(tokenizer, "<|eot_id|"), EW_NO_TOKEN);
    assert_int_equal(ew_tokenizer_find(tokenizer, "<|eot_id|>x"), EW_NO_TOKEN);
    assert_true(ew_tokenizer_chat_template(tokenizer).length > 0);
    ew_tokenizer_close(tokenizer);
}

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

/* Ten times the text must not take a hundred times the time, whatever it is made of. */
static void test_long_strings(void **state) {
    (void)state;
    static const char *const units[] = {
        "x", " ", "\n", "9", "'", "\xcc\x81\xcc\xa3", "a\xcc\xa3\xcc\x81", "\xff", " \n", "<|im_"};
    ew_tokenizer *tokenizer = open_folder("goldens/models/qwen2-tiny");
    ew_error error = {0};
    for (size_t u = 0; tokenizer && u < sizeof units / sizeof *units; u++) {
        double elapsed[2];
        for (int big = 0; big < 2; big++) {
            ew_buffer text = {0};
            ew_tokens tokens = {0};
            struct timespec start;
            while (text.length < (big ? 200000u : 20000u)) {
                ew_buffer_append_text(&text, units[u]);
            }
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
            assert_ok(
                ew_tokenizer_encode(tokenizer, text.data, text.length, EW_ENCODE_SPECIALS, &tokens, &error),
                &error);
            elapsed[big] = seconds_since(&start);
            assert_true(tokens.count > 0);
            ew_tokens_free(&tokens);
            ew_buffer_free(&text);
        }
        if (elapsed[1] > 0.05 && elapsed[1] > 40 * elapsed[0]) {
            fail_msg("200,000 bytes of '%s' took %.3f s, 20,000 took %.3f s", units[u], elapsed[1],
                     elapsed[0]);
        }
    }
    ew_tokenizer_close(tokenizer);
}

/* Broken bytes keep their own tokens and leave their neighbours alone. */
static void test_broken_utf8(void **state) {
    (void)state;
    static const char *const texts[] = {"a\xffz",       "\xc3",           "\xe2\x82", "\xf0\x9f\x98 x",
                                        "\xed\xa0\x80", "ok\x80\x81\x82", "\xc0\xaf"};
    ew_tokenizer *tokenizer = open_folder("goldens/models/qwen2-tiny");
    ew_error error = {0};
    for (size_t i = 0; tokenizer && i < sizeof texts / sizeof *texts; i++) {
        ew_tokens tokens = {0};
        ew_buffer text = {0};
        assert_ok(ew_tokenizer_encode(tokenizer, texts[i], strlen(texts[i]), 0, &tokens, &error), &error);
        assert_ok(ew_tokenizer_decode(tokenizer, tokens.ids, tokens.count, false, &text, &error), &error);
        assert_string_equal(text.data, texts[i]);
        ew_buffer_free(&text);
        ew_tokens_free(&tokens);
    }
    ew_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2_folder), cmocka_unit_test(test_smollm2_gguf),
        cmocka_unit_test(test_qwen2_gguf),     cmocka_unit_test(test_llama_cpp_strings),
        cmocka_unit_test(test_tiny_models),    cmocka_unit_test(test_facts),
        cmocka_unit_test(test_long_strings),   cmocka_unit_test(test_broken_utf8)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
