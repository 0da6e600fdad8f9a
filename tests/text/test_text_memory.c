/* Every allocation of opening a tokenizer, encoding and rendering is made to fail: the call must say so and leak
 * nothing. */
#include "allocations.h"
#include "text_support.h"

#include "text/chat_template.h"

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

static ew_status work(void *context, ew_error *error) {
    (void)context;
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

static void test_all_fail_from_one_on(void **state) {
    (void)state;
    all_fail_from_there = true;
    assert_true(fail_every_allocation(work, NULL, LONG_MAX, 1) > 50);
}

static void test_only_one_fails(void **state) {
    (void)state;
    all_fail_from_there = false;
    assert_true(fail_every_allocation(work, NULL, LONG_MAX, 1) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_fail_from_one_on),
                                       cmocka_unit_test(test_only_one_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
