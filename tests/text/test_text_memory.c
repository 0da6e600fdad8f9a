/* Every allocation of opening a tokenizer, encoding and rendering is made to fail once: the call must say so
 * and leak nothing. The linker sends the rooms' calls here (extra.cmake), Jansson's come by its own hook. */
#include "text_support.h"

#include "text/chat_template.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static long allocations_left = -1; /* -1: no limit */
static bool only_one;              /* the one that fails is followed by others that do not */

static bool fails(void) {
    if (allocations_left < 0) {
        return false;
    }
    if (allocations_left > 0) {
        allocations_left--;
        return false;
    }
    if (only_one) {
        allocations_left = -1;
    }
    return true;
}

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return fails() ? NULL : __real_realloc(memory, size);
}

/* ByteLevel alone would do; Digits, NFC, an added token and a template bring the other rooms' allocations in.
 */
static const char json[] = "{\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": "
                           "\"Sequence\", \"pretokenizers\": [{\"type\": "
                           "\"Digits\", \"individual_digits\": true}, {\"type\": \"Split\", \"pattern\": "
                           "{\"String\": \"-\"}, \"behavior\": "
                           "\"MergedWithNext\"}, {\"type\": \"ByteLevel\"}]}, \"added_tokens\": [{\"id\": 9, "
                           "\"content\": \"<|im_start|>\", "
                           "\"special\": true}, {\"id\": 10, \"content\": \"<|im_end|>\", \"special\": true, "
                           "\"normalized\": true}], \"model\": "
                           "{\"type\": \"BPE\", \"ignore_merges\": true, \"vocab\": {\"a\": 0, \"b\": 1, "
                           "\"ab\": 2, \"\\u0120\": 3}, \"merges\": "
                           "[\"a b\"]}}";
static const char config[] =
    "{\"eos_token\": \"<|im_end|>\", \"chat_template\": \"{{ '<|im_start|>system\\\\nBe "
    "kind.<|im_end|>\\\\n' }}\"}";

static ew_status work(ew_error *error) {
    static const char text[] = "abab-ab 12 e\xcc\x81 <|im_start|> \xff";
    const ew_message message = {"user", text, sizeof text - 1};
    ew_tokenizer *tokenizer = NULL;
    ew_tokens tokens = {0};
    ew_chat_template chat = {0};
    ew_chat_prompt prompt = {0};
    ew_buffer decoded = {0};
    ew_status status =
        ew_tokenizer_from_json(json, sizeof json - 1, config, sizeof config - 1, "test", &tokenizer, error);
    if (status != EW_OK) {
        return status;
    }
    status = ew_tokenizer_encode(tokenizer, text, sizeof text - 1, EW_ENCODE_SPECIALS, &tokens, error);
    if (status == EW_OK) {
        status = ew_tokenizer_decode(tokenizer, tokens.ids, tokens.count, false, &decoded, error);
    }
    if (status == EW_OK) {
        status = ew_chat_template_open(tokenizer, NULL, &chat, error);
    }
    if (status == EW_OK) {
        status = ew_chat_render(&chat, tokenizer, &message, 1, EW_CHAT_GENERATE, &prompt, error);
    }
    if (status == EW_OK) {
        status = ew_chat_encode(&prompt, tokenizer, &tokens, NULL, error);
    }
    ew_chat_prompt_free(&prompt);
    ew_chat_template_free(&chat);
    ew_buffer_free(&decoded);
    ew_tokens_free(&tokens);
    ew_tokenizer_close(tokenizer);
    return status;
}

static void fail_each(void) {
    ew_error error = {0};
    long n = 0;
    for (;; n++) {
        error = (ew_error){0};
        allocations_left = n;
        ew_status status = work(&error);
        allocations_left = -1;
        if (status == EW_OK) {
            break;
        }
        /* Jansson calls a string that it has no memory for a syntax error. */
        if (status != EW_ERROR_MEMORY && !strstr(error.message, "not valid JSON")) {
            fail_msg("allocation %ld: %s", n, error.message);
        }
        assert_true(n < 10000);
    }
    assert_true(n > 50);
}

static void test_all_fail_from_one_on(void **state) {
    (void)state;
    only_one = false;
    json_set_alloc_funcs(__wrap_malloc, free);
    fail_each();
}

/* Without Jansson: its scanner drops a character of a string when one allocation fails and the next does not.
 */
static void test_only_one_fails(void **state) {
    (void)state;
    only_one = true;
    json_set_alloc_funcs(__real_malloc, free);
    fail_each();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_fail_from_one_on),
                                       cmocka_unit_test(test_only_one_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
