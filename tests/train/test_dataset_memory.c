/* Every allocation of reading a training file is made to fail: the call must say so and leak nothing. */
#include "allocations.h"

#include "dataset_support.h"

static const char lines[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
                            "\"content\": \"<think>t</think>a\"}], "
                            "\"budget\": 9}\n{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": "
                            "\"gpt\", \"value\": \"b\"}]}\n"
                            "{\"problem\": \"1+1\", \"choices\": [\"1\", \"2\"], \"solution\": \"s\", \"answer\": 2}\n"
                            "{\"input_ids\": [97, 98, 99], \"labels\": [-100, 98, 99]}\n{\"text\": \"ab\"}\n{}\n";

static ew_status work(void *context, ew_error *error) {
    const ew_dataset_options *options = context;
    ew_dataset set;
    ew_status status = ew_dataset_read_text((ew_string){lines, sizeof lines - 1}, "test", options, &set, error);
    if (status == EW_OK) {
        ew_dataset_free(&set);
    }
    return status;
}

static void test_all_fail(void **state) {
    (void)state;
    ew_tokenizer *tokenizer = NULL;
    ew_chat_template chat = {0};
    ew_error error;
    assert_int_equal(open_ascii(&tokenizer, &chat, &error), EW_OK);
    ew_dataset_options options = {.tokenizer = tokenizer,
                                  .chat = &chat,
                                  .vocab_size = ASCII_VOCAB,
                                  .max_tokens = 200,
                                  .all_turns = true,
                                  .plain_text = true};
    assert_true(fail_every_allocation(work, &options, 1000, 1) > 30);
    ew_chat_template_free(&chat);
    ew_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
