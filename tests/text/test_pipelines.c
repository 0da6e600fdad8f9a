/* Steps of all kinds, behaviors, added tokens with all their conditions: ids as the `tokenizers` library has
 * them (tests/data/text/pipelines.json). And the same vocabulary as vocab.json + merges.txt. */
#include "text_support.h"

#include "base/file.h"

#include <unistd.h>

static ew_tokenizer *from_json(const json_t *root, ew_error *error) {
    ew_tokenizer *tokenizer = NULL;
    char *text = json_dumps(root, 0);
    if (ew_tokenizer_from_json(text, strlen(text), NULL, 0, "test", &tokenizer, error) != EW_OK) {
        tokenizer = NULL;
    }
    free(text);
    return tokenizer;
}

static void check_pipeline(json_t *base, const json_t *item, size_t index) {
    json_t *root = json_copy(base), *model = json_copy(json_object_get(base, "model")), *pair;
    ew_error error = {0};
    size_t i;
    json_object_update(model, json_object_get(item, "model"));
    json_object_set_new(root, "model", model);
    json_object_set(root, "added_tokens", json_object_get(item, "added"));
    json_object_set(root, "normalizer", json_object_get(item, "normalizer"));
    json_object_set_new(root, "post_processor", json_null());
    json_object_set_new(
        root, "pre_tokenizer",
        json_pack("{s:s, s:O}", "type", "Sequence", "pretokenizers", json_object_get(item, "steps")));
    ew_tokenizer *tokenizer = from_json(root, &error);
    if (!tokenizer) {
        fail_msg("pipeline %zu: %s", index, error.message);
    }
    json_array_foreach(json_object_get(item, "texts"), i, pair) {
        assert_encodes(tokenizer, json_array_get(pair, 0), EW_ENCODE_SPECIALS, json_array_get(pair, 1));
    }
    ew_tokenizer_close(tokenizer);
    json_decref(root);
}

static void test_pipelines(void **state) {
    (void)state;
    json_t *base = golden("goldens/models/llama-tiny/tokenizer.json"), *cases = golden("text/pipelines.json"),
           *item;
    size_t i;
    if (base && cases) {
        json_array_foreach(json_object_get(cases, "cases"), i, item) {
            check_pipeline(base, item, i);
        }
        assert_int_equal(i, 78);
    }
    json_decref(base);
    json_decref(cases);
}

static void write_file(const char *folder, const char *name, const char *text) {
    ew_output output;
    ew_error error = {0};
    char *path = ew_join_path(folder, name);
    assert_ok(ew_output_open(path, &output, &error), &error);
    assert_ok(ew_output_write(&output, text, strlen(text), &error), &error);
    assert_ok(ew_output_commit(&output, &error), &error);
    free(path);
}

static void remove_files(const char *folder, const char *const names[]) {
    for (size_t i = 0; names[i]; i++) {
        char *path = ew_join_path(folder, names[i]);
        unlink(path);
        free(path);
    }
    rmdir(folder);
}

/* A folder of the older kind, made from the newer one's parts. */
static void write_old_folder(const char *folder, const json_t *tokenizer, const char *model_type) {
    const json_t *model = json_object_get(tokenizer, "model");
    char *vocab = json_dumps(json_object_get(model, "vocab"), 0), config[100];
    ew_buffer merges = {0};
    json_t *merge;
    size_t i;
    ew_buffer_append_text(&merges, "#version: 0.2\n");
    json_array_foreach(json_object_get(model, "merges"), i, merge) {
        ew_buffer_append_format(&merges, "%s %s\r\n", json_string_value(json_array_get(merge, 0)),
                                json_string_value(json_array_get(merge, 1)));
    }
    snprintf(config, sizeof config, "{\"model_type\": \"%s\"}", model_type);
    write_file(folder, "vocab.json", vocab);
    write_file(folder, "merges.txt", merges.data);
    write_file(folder, "config.json", config);
    write_file(folder, "chat_template.jinja", "{{ 'new' }}");
    write_file(
        folder, "tokenizer_config.json",
        "{\"eos_token\": {\"content\": \"<|im_end|>\"}, \"chat_template\": \"{{ 'old' }}\", "
        "\"added_tokens_decoder\": {\"317\": {\"content\": \"<|endoftext|>\", \"special\": true}, \"318\": "
        "{\"content\": \"<|im_start|>\", \"special\": true}, \"319\": {\"content\": \"<|im_end|>\", "
        "\"special\": "
        "true}}}");
    free(vocab);
    ew_buffer_free(&merges);
}

static void test_vocab_and_merges(void **state) {
    (void)state;
    static const char *const names[] = {
        "vocab.json", "merges.txt", "config.json", "chat_template.jinja", "tokenizer_config.json", NULL};
    json_t *root = golden("goldens/models/qwen2-tiny/tokenizer.json"), *item;
    json_t *vectors = golden("goldens/forward/tokenizer-qwen.json");
    char folder[] = "/tmp/edgewise-text-XXXXXX";
    ew_tokenizer *tokenizer = NULL;
    ew_error error = {0};
    size_t i;
    if (root && vectors) {
        assert_non_null(mkdtemp(folder));
        assert_int_equal(ew_tokenizer_open_folder(folder, &tokenizer, &error), EW_ERROR_FORMAT);
        assert_non_null(strstr(error.message, "neither tokenizer.json nor vocab.json"));
        write_old_folder(folder, root, "qwen2");
        assert_ok(ew_tokenizer_open_folder(folder, &tokenizer, &error), &error);
        json_array_foreach(json_object_get(vectors, "strings"), i, item) {
            assert_encodes(tokenizer, json_object_get(item, "text"), EW_ENCODE_SPECIALS,
                           json_object_get(item, "ids"));
        }
        assert_int_equal(ew_tokenizer_eos(tokenizer), 319);
        assert_true(ew_string_is(ew_tokenizer_chat_template(tokenizer), "{{ 'new' }}"));
        ew_tokenizer_close(tokenizer);
        write_file(folder, "config.json", "{\"model_type\": \"llama\"}");
        assert_int_equal(ew_tokenizer_open_folder(folder, &tokenizer, &error), EW_ERROR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "\"llama\""));
        remove_files(folder, names);
    }
    json_decref(root);
    json_decref(vectors);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pipelines),
                                       cmocka_unit_test(test_vocab_and_merges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
