/* What is not understood is refused by its name; what is damaged or hostile is refused or harmless. */
#include "text_support.h"

#include "../format/gguf_builder.h"
#include "base/utf8.h"
#include "text/normalize.h"
#include "text/pattern.h"

/* A tokenizer.json with parts of it exchanged; `%s` where the tests put their own. */
#define MODEL                                                                                                \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}"
#define STEPS "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}"

static void assert_refused(const char *json, const char *named) {
    ew_tokenizer *tokenizer = NULL;
    ew_error error = {0};
    if (ew_tokenizer_from_json(json, strlen(json), NULL, 0, "tokenizer.json", &tokenizer, &error) == EW_OK) {
        fail_msg("not refused: %s", json);
    }
    if (!strstr(error.message, named)) {
        fail_msg("\"%s\" does not name %s", error.message, named);
    }
}

static void test_json(void **state) {
    (void)state;
    assert_refused("", "tokenizer.json");
    assert_refused("[]", "object");
    assert_refused("{}", "\"model\"");
    assert_refused("{" MODEL "}", "ByteLevel");
    assert_refused("{" STEPS ", \"model\": {\"type\": \"Unigram\"}}", "Unigram");
    assert_refused("{" STEPS
                   ", \"model\": {\"type\": \"BPE\", \"dropout\": 0.1, \"vocab\": {}, \"merges\": []}}",
                   "dropout");
    assert_refused(
        "{" STEPS ", \"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {}, \"merges\": []}}",
        "byte_fallback");
    assert_refused("{" STEPS ", \"model\": {\"type\": \"BPE\", \"end_of_word_suffix\": \"</w>\"}}",
                   "end_of_word_suffix");
    assert_refused("{" STEPS ", \"model\": {\"type\": \"BPE\", \"surprise\": 1}}", "surprise");
    assert_refused("{" STEPS ", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}}", "merges");
    assert_refused(
        "{" STEPS ", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}", "'b'");
    assert_refused("{" STEPS ", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}}",
                   "'a'");
    assert_refused("{" STEPS
                   ", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}",
                   "merge 0");
    assert_refused("{" STEPS ", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}",
                   "-1");
    assert_refused("{" STEPS
                   ", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}, \"merges\": []}}",
                   "99999999");
    assert_refused("{" STEPS
                   ", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}",
                   "id 0");
    assert_refused("{" STEPS ", \"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}", "empty");
    assert_refused("{" STEPS ", " MODEL ", \"normalizer\": {\"type\": \"Lowercase\"}}", "Lowercase");
    assert_refused("{" STEPS ", " MODEL ", \"decoder\": {\"type\": \"WordPiece\"}}", "WordPiece");
    assert_refused("{" STEPS ", " MODEL ", \"post_processor\": {\"type\": \"BertProcessing\"}}",
                   "BertProcessing");
    assert_refused("{" STEPS ", " MODEL ", \"added_tokens\": [{\"id\": 0, \"content\": \"x\"}]}", "'x'");
    assert_refused("{" STEPS ", " MODEL ", \"added_tokens\": [{\"id\": 7, \"content\": \"\"}]}", "0 bytes");
    assert_refused("{\"pre_tokenizer\": {\"type\": \"Metaspace\"}, " MODEL "}", "Metaspace");
    assert_refused("{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"odd\": 1}, " MODEL "}", "odd");
    assert_refused("{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
                   "\"ByteLevel\"}, {\"type\": "
                   "\"Digits\"}]}, " MODEL "}",
                   "Digits");
    assert_refused("{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"x\"}, "
                   "\"behavior\": \"Shuffled\"}, " MODEL "}",
                   "Shuffled");
}

static void assert_pattern(const char *pattern, ew_status expected) {
    ew_pattern *compiled = NULL;
    ew_error error = {0};
    ew_status status = ew_pattern_compile(pattern, strlen(pattern), false, &compiled, &error);
    if (status != expected) {
        fail_msg("%s: status %d, %s", pattern, status, error.message);
    }
    ew_pattern_free(status == EW_OK ? compiled : NULL);
}

static void test_patterns(void **state) {
    (void)state;
    static const char *const unknown[] = {"[a[b]]",  "[a&&b]", "[[:alpha:]]", "[]a]",    "a{2}+", "a{2}?",
                                          "(?<n>a)", "(?m)a",  "a(?i)b",      "(*UTF)a", "\\b",   "\\1",
                                          "\\K",     "\\Q",    "[\\W]",       "\\p",     "\\pL",  "\\p{1}",
                                          "(?#x)",   "\\xg",   "\\u12",       "(?(1)a)", "\\G",   "\\X",
                                          "\\R",     "\\",     "(?R)",        "\\C"};
    static const char *const wrong[] = {"(", "[a", "a**", "\\p{Nonesuch}", "(?<=a+)b", ")"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_pattern(unknown[i], EW_ERROR_UNSUPPORTED);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_pattern(wrong[i], EW_ERROR_FORMAT);
    }
    assert_pattern("", EW_ERROR_FORMAT);
    assert_pattern("a{,2}(?i:b)++[^\\s\\x{1F600}]{1,3}\\p{^Lu}\\P{Han}{", EW_OK);
}

/* Backtracking without end is stopped. */
static void test_match_limit(void **state) {
    (void)state;
    static const char json[] =
        "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", "
        "\"pattern\": {\"Regex\": \"(a|aa|b?a)+c\"}, \"behavior\": \"Isolated\"}, {\"type\": "
        "\"ByteLevel\"}]}, " MODEL "}";
    ew_tokenizer *tokenizer = NULL;
    ew_tokens tokens = {0};
    ew_error error = {0};
    char text[200];
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, "xc", 2); /* else PCRE2 sees at once that there is no c to match */
    assert_ok(ew_tokenizer_from_json(json, sizeof json - 1, NULL, 0, "test", &tokenizer, &error), &error);
    assert_ok(ew_tokenizer_encode(tokenizer, "b", 1, 0, &tokens, &error), &error);
    assert_int_equal(tokens.count, 1);
    assert_int_equal(ew_tokenizer_encode(tokenizer, text, sizeof text, 0, &tokens, &error),
                     EW_ERROR_UNSUPPORTED);
    assert_int_equal(tokens.count, 1);
    ew_tokens_free(&tokens);
    ew_tokenizer_close(tokenizer);
}

static void put_strings(ew_buffer *b, const char *key, const char *const texts[], size_t n) {
    put_text(b, key);
    put_u32(b, EW_GGUF_ARRAY);
    put_u32(b, EW_GGUF_STRING);
    put_u64(b, n);
    for (size_t i = 0; i < n; i++) {
        put_text(b, texts[i]);
    }
}

static ew_status open_metadata(const char *model, const char *pre, const char *architecture,
                               const char *merge, uint32_t bos, ew_error *error) {
    static const char *const tokens[] = {"a", "b", "ab"};
    ew_buffer file = {0};
    ew_gguf *gguf = NULL;
    ew_tokenizer *tokenizer = NULL;
    put_header(&file, 3, 0, 6);
    put_key_text(&file, "general.architecture", architecture);
    put_key_text(&file, "tokenizer.ggml.model", model);
    put_key_text(&file, "tokenizer.ggml.pre", pre);
    put_strings(&file, "tokenizer.ggml.tokens", tokens, 3);
    put_strings(&file, "tokenizer.ggml.merges", &merge, 1);
    put_key_u32(&file, "tokenizer.ggml.bos_token_id", bos);
    assert_ok(ew_gguf_open_memory((const uint8_t *)file.data, file.length, "test.gguf", &gguf, error), error);
    ew_status status = ew_tokenizer_open_gguf(gguf, &tokenizer, error);
    ew_tokenizer_close(status == EW_OK ? tokenizer : NULL);
    ew_gguf_close(gguf);
    ew_buffer_free(&file);
    return status;
}

static void test_gguf(void **state) {
    (void)state;
    ew_error error = {0};
    static const char *const known[] = {"qwen2", "llama-bpe", "smollm", "gpt-2", "tekken", "gpt-4o"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_ok(open_metadata("gpt2", known[i], "llama", "a b", 0, &error), &error);
    }
    assert_ok(open_metadata("gpt2", "default", "qwen2", "a b", 0, &error), &error);
    assert_int_equal(open_metadata("gpt2", "default", "llama", "a b", 0, &error), EW_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "\"default\""));
    assert_int_equal(open_metadata("gpt2", "viking", "llama", "a b", 0, &error), EW_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "\"viking\""));
    assert_int_equal(open_metadata("llama", "default", "llama", "a b", 0, &error), EW_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "SentencePiece"));
    assert_int_equal(open_metadata("gpt2", "qwen2", "qwen2", "a c", 0, &error), EW_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "merge 0"));
    assert_int_equal(open_metadata("gpt2", "qwen2", "qwen2", "a b", 3, &error), EW_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "bos_token_id"));
}

/* Tables cut short anywhere, and with any one byte changed: refused or harmless (the sanitizers watch). */
static void test_damaged_tables(void **state) {
    (void)state;
    ew_tokenizer *tokenizer = open_folder("goldens/models/llama-tiny"), *other = NULL;
    ew_buffer blob = {0};
    ew_error error = {0};
    if (!tokenizer) {
        return;
    }
    assert_ok(ew_tokenizer_serialize(tokenizer, &blob, &error), &error);
    for (size_t size = 0; size < blob.length; size += size < 256 ? 1 : 61) {
        assert_int_equal(ew_tokenizer_open_blob(blob.data, size, "cut", &other, &error), EW_ERROR_FORMAT);
    }
    assert_int_equal(ew_tokenizer_open_blob(blob.data + 1, blob.length - 1, "shifted", &other, &error),
                     EW_ERROR_FORMAT);
    size_t opened = 0;
    for (size_t i = 0; i < blob.length; i++) {
        char kept = blob.data[i];
        ew_tokens tokens = {0};
        blob.data[i] = (char)(kept ^ (i % 2 ? 0xff : 0x10));
        if (ew_tokenizer_open_blob(blob.data, blob.length, "changed", &other, &error) == EW_OK) {
            ew_tokenizer_encode(other, "assistant <|eot_id|> the", 24, EW_ENCODE_SPECIALS, &tokens, NULL);
            for (size_t t = 0; t < tokens.count; t++) {
                assert_true(tokens.ids[t] >= 0 && (size_t)tokens.ids[t] < ew_tokenizer_vocab_size(other));
            }
            ew_tokenizer_close(other);
            opened++;
        }
        ew_tokens_free(&tokens);
        blob.data[i] = kept;
    }
    assert_true(opened > 0 && opened < blob.length);
    ew_buffer_free(&blob);
    ew_tokenizer_close(tokenizer);
}

static void test_detokenizer(void **state) {
    (void)state;
    ew_tokenizer *tokenizer = open_folder("goldens/models/qwen2-tiny");
    static const char text[] = "n\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x91\xa9\xe2\x80\x8d\xff x\xe6\x97";
    static const char shown[] =
        "n\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x91\xa9\xe2\x80\x8d\xef\xbf\xbd x\xef\xbf\xbd";
    ew_detokenizer stream = {0};
    ew_buffer out = {0};
    ew_tokens tokens = {0};
    ew_error error = {0};
    if (!tokenizer) {
        return;
    }
    assert_ok(ew_tokenizer_encode(tokenizer, text, sizeof text - 1, 0, &tokens, &error), &error);
    for (size_t i = 0; i < tokens.count; i++) {
        assert_ok(ew_detokenizer_feed(&stream, tokenizer, tokens.ids[i], &out, &error), &error);
        assert_int_equal(ew_utf8_valid_prefix(out.data ? out.data : "", out.length), out.length);
    }
    assert_ok(ew_detokenizer_finish(&stream, &out, &error), &error);
    assert_string_equal(out.data, shown);
    assert_int_equal(ew_detokenizer_feed(&stream, tokenizer, 320, &out, &error), EW_ERROR_ARGUMENT);
    assert_int_equal(ew_detokenizer_feed(&stream, tokenizer, -1, &out, &error), EW_ERROR_ARGUMENT);
    ew_buffer_free(&out);
    ew_tokens_free(&tokens);
    ew_tokenizer_close(tokenizer);
}

static void test_normalize(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"e\xcc\x81", "\xc3\xa9"},
                                           {"xe\xcc\xa3\xcc\x82y", "x\xe1\xbb\x87y"},
                                           {"e\xcc\x82\xcc\xa3", "\xe1\xbb\x87"},
                                           {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"},
                                           {"\xe2\x84\xab", "\xc3\x85"},
                                           {"plain", "plain"},
                                           {"", ""}};
    ew_error error = {0};
    ew_buffer out = {0};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        out.length = 0;
        assert_ok(ew_normalize_nfc(pairs[i][0], strlen(pairs[i][0]), &out, &error), &error);
        assert_int_equal(out.length, strlen(pairs[i][1]));
        assert_memory_equal(out.length ? out.data : "", pairs[i][1], out.length);
    }
    assert_int_equal(ew_normalize_nfc("a\xff", 2, &out, &error), EW_ERROR_FORMAT);
    ew_buffer_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),           cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_match_limit),    cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_damaged_tables), cmocka_unit_test(test_detokenizer),
        cmocka_unit_test(test_normalize)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
