/* What the tests of the text room share: goldens as JSON, encodings compared with lists of ids. */
#ifndef EW_TEST_TEXT_SUPPORT_H
#define EW_TEST_TEXT_SUPPORT_H

#include "support.h"

#include "text/tokenizer.h"

#include <jansson.h>

/* A golden file as JSON, or NULL (with one line said) where the goldens are not. */
static inline json_t *golden(const char *relative) {
    char path[4096];
    json_error_t why;
    if (!ew_test_shared(relative, path, sizeof path)) {
        return NULL;
    }
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &why);
    if (!root) {
        fail_msg("%s: %s", path, why.text);
    }
    return root;
}

static inline void assert_ok(ew_status status, const ew_error *error) {
    if (status != EW_OK) {
        fail_msg("%s", error->message);
    }
}

static inline ew_tokenizer *open_folder(const char *relative) {
    char path[4096];
    ew_error error = {0};
    ew_tokenizer *tokenizer = NULL;
    char file[512];
    snprintf(file, sizeof file, "%s/tokenizer.json", relative);
    if (!ew_test_shared(file, path, sizeof path)) {
        return NULL;
    }
    *strrchr(path, '/') = '\0';
    assert_ok(ew_tokenizer_open_folder(path, &tokenizer, &error), &error);
    return tokenizer;
}

static inline ew_tokenizer *open_gguf_at(const char *path) {
    ew_error error = {0};
    ew_gguf *gguf = NULL;
    ew_tokenizer *tokenizer = NULL;
    assert_ok(ew_gguf_open(path, &gguf, &error), &error);
    assert_ok(ew_tokenizer_open_gguf(gguf, &tokenizer, &error), &error);
    ew_gguf_close(gguf);
    return tokenizer;
}

static inline ew_tokenizer *open_gguf(const char *relative) {
    char path[4096];
    return ew_test_shared(relative, path, sizeof path) ? open_gguf_at(path) : NULL;
}

/* Of the SmolLM2 GGUF; NULL where it is not. */
static inline ew_tokenizer *open_smollm2_gguf(void) {
    char path[4096];
    return ew_test_smollm2(path, sizeof path) ? open_gguf_at(path) : NULL;
}

/* The same tokenizer opened from a copy of its blob; *copy is freed after the tokenizer. */
static inline ew_tokenizer *reopen_blob(const ew_tokenizer *tokenizer, ew_buffer *copy) {
    ew_error error = {0};
    ew_tokenizer *again = NULL;
    assert_ok(ew_tokenizer_serialize(tokenizer, copy, &error), &error);
    assert_ok(ew_tokenizer_open_blob(copy->data, copy->length, "blob", &again, &error), &error);
    return again;
}

static inline void assert_ids(const ew_tokens *tokens, const json_t *expected, const char *what) {
    bool equal = tokens->count == json_array_size(expected);
    for (size_t i = 0; equal && i < tokens->count; i++) {
        equal = tokens->ids[i] == json_integer_value(json_array_get(expected, i));
    }
    if (!equal) {
        char *wanted = json_dumps(expected, JSON_COMPACT);
        printf("%s: got", what);
        for (size_t i = 0; i < tokens->count; i++) {
            printf(" %d", tokens->ids[i]);
        }
        printf(", expected %s\n", wanted);
        free(wanted);
        fail();
    }
}

static inline void assert_encodes(const ew_tokenizer *tokenizer, const json_t *text, unsigned flags,
                                  const json_t *expected) {
    ew_tokens tokens = {0};
    ew_error error = {0};
    const char *bytes = json_string_value(text);
    assert_ok(ew_tokenizer_encode(tokenizer, bytes, json_string_length(text), flags, &tokens, &error),
              &error);
    assert_ids(&tokens, expected, bytes);
    ew_tokens_free(&tokens);
}

#endif
