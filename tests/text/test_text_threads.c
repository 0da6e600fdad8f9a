/* One tokenizer, many threads at once: all get the same ids (ThreadSanitizer watches). */
#include "text_support.h"

#include <pthread.h>

enum { N_THREADS = 4, N_ROUNDS = 25 };

static const char text[] = "Hello, w\xc3\xb6rld! 1234 don't\n\n  e\xcc\x81 \xe6\x97\xa5\xe6\x9c\xac "
                           "<|im_start|>user\n aaaaaaaaaaaaaaaaaaaaaa";

typedef struct job {
    const ew_tokenizer *tokenizer;
    const ew_tokens *expected;
    bool equal;
} job;

static void *encode_often(void *argument) {
    job *j = argument;
    j->equal = true;
    for (int i = 0; i < N_ROUNDS; i++) {
        ew_tokens tokens = {0};
        j->equal &= ew_tokenizer_encode(j->tokenizer, text, sizeof text - 1, EW_ENCODE_SPECIALS, &tokens,
                                        NULL) == EW_OK &&
                    tokens.count == j->expected->count &&
                    memcmp(tokens.ids, j->expected->ids, tokens.count * sizeof *tokens.ids) == 0;
        ew_tokens_free(&tokens);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    ew_tokenizer *tokenizer = open_folder("goldens/models/qwen2-tiny");
    ew_tokens expected = {0};
    ew_error error = {0};
    pthread_t threads[N_THREADS];
    job jobs[N_THREADS];
    if (!tokenizer) {
        return;
    }
    assert_ok(ew_tokenizer_encode(tokenizer, text, sizeof text - 1, EW_ENCODE_SPECIALS, &expected, &error),
              &error);
    for (int i = 0; i < N_THREADS; i++) {
        jobs[i] = (job){tokenizer, &expected, false};
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &jobs[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(jobs[i].equal);
    }
    ew_tokens_free(&expected);
    ew_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
