/* Answers written together are those written alone, whatever else is in the batch; one that fails ends the others. */
#include "model_support.h"

#include "reason/answer.h"
#include "reason/together.h"

enum { QUESTIONS = 7 };

static const char *const questions[QUESTIONS] = {
    "Hello!", "What is 2 + 2? I ask since I do not know it, and would like to, at some length.", "Why?", "Bye.", "1", "And?",
    "A longer question than the last one."};

typedef struct asked {
    ew_session *session;
    ew_answer_result results[QUESTIONS];
    size_t next, n_streams;
    bool endless; /* answers go on until the context is full */
    size_t fail_at;   /* the question whose worker fails; QUESTIONS: none */
    size_t cancel_at; /* the call of evaluate that is cancelled; 0: none */
    bool refuses;     /* batches of more than one answer */
    size_t n_calls, most_streams;
} asked;

static ew_policy policy_of(const asked *a, size_t question) {
    ew_policy policy = EW_POLICY_INIT;
    policy.mode = EW_MODE_OFF;
    policy.streams = a->n_streams;
    policy.run_all = true;
    policy.answer_tokens = a->endless ? EW_NO_LIMIT : 3 + 4 * question;
    policy.sampling.temperature = 0.9f;
    policy.sampling.repetition_penalty = 1.1f;
    policy.sampling.seed = 5;
    return policy;
}

static ew_status answer_one(asked *a, const ew_source *source, size_t question, ew_error *error) {
    const ew_message message = {"user", questions[question], strlen(questions[question])};
    const ew_policy policy = policy_of(a, question);
    return ew_answer_from(source, &message, 1, &policy, NULL, &a->results[question], error);
}

static ew_status answer_next(void *context, const ew_source *source, ew_error *error) {
    asked *a = context;
    ew_status status = EW_OK;
    while (status == EW_OK && a->next < QUESTIONS) {
        size_t question = a->next++;
        status = question == a->fail_at ? ew_fail(error, EW_ERROR_FORMAT, "this one")
                                        : answer_one(a, source, question, error);
    }
    return status;
}

/* The engine, counting. */
static ew_status evaluate(void *self, const ew_input *inputs, size_t n_inputs, float *logits, float *hidden,
                          ew_error *error) {
    asked *a = self;
    size_t n = 0;
    for (size_t i = 0; i < n_inputs; i++) {
        n += inputs[i].wants_logits;
    }
    a->most_streams = n > a->most_streams ? n : a->most_streams;
    if (a->refuses && n > 1) {
        return ew_fail(error, EW_ERROR_CONTEXT, "the cells are full");
    }
    if (++a->n_calls == a->cancel_at) {
        ew_session_cancel(a->session);
    }
    return ew_evaluate(a->session, inputs, n_inputs, logits, hidden, error);
}

static ew_status answer_all(asked *a, size_t n_workers, ew_error *error) {
    ew_source source = ew_engine_source(a->session);
    source.self = a;
    source.evaluate = evaluate;
    a->next = a->n_calls = a->most_streams = 0;
    return ew_together(&source, n_workers, answer_next, a, error);
}

static void free_results(asked *a) {
    for (size_t i = 0; i < QUESTIONS; i++) {
        ew_answer_result_free(&a->results[i]);
        a->results[i] = (ew_answer_result){0};
    }
}

static ew_model *open_golden(void) {
    const ew_quantize_options options = ew_quantize_default_options();
    return open_quantized("qwen2-tiny", &options);
}

static void check_equal(const ew_answer_result *a, const ew_answer_result *b) {
    assert_int_equal(a->n_candidates, b->n_candidates);
    for (size_t i = 0; i < a->n_candidates; i++) {
        const ew_candidate *one = &a->candidates[i], *other = &b->candidates[i];
        assert_int_equal(one->n_tokens, other->n_tokens);
        assert_memory_equal(one->tokens, other->tokens, one->n_tokens * sizeof *one->tokens);
        assert_string_equal(one->answer, other->answer);
        assert_int_equal(one->stop_reason, other->stop_reason);
    }
}

static void together_is_as_alone(void **state) {
    (void)state;
    static const size_t workers[] = {1, 2, 3, QUESTIONS, 20};
    ew_model *model = open_golden();
    for (size_t n_streams = 1; n_streams <= 3; n_streams += 2) {
        asked alone = {.n_streams = n_streams, .fail_at = QUESTIONS};
        for (size_t i = 0; i < QUESTIONS; i++) {
            alone.session = open_test_session(model, 1, 0);
            const ew_source source = ew_engine_source(alone.session);
            EW_ASSERT_OK(answer_one(&alone, &source, i, error));
            ew_session_close(alone.session);
        }
        for (size_t k = 0; k < sizeof workers / sizeof *workers; k++) {
            asked a = {.session = open_test_session(model, 2, 16), .n_streams = n_streams, .fail_at = QUESTIONS};
            EW_ASSERT_OK(answer_all(&a, workers[k], error));
            for (size_t i = 0; i < QUESTIONS; i++) {
                check_equal(&a.results[i], &alone.results[i]);
            }
            size_t at_once = workers[k] < QUESTIONS ? workers[k] : QUESTIONS;
            assert_true(a.most_streams <= at_once * n_streams && a.most_streams + 1 >= at_once);
            free_results(&a);
            a.refuses = n_streams == 1; /* each goes on by itself */
            EW_ASSERT_OK(answer_all(&a, workers[k], error));
            for (size_t i = 0; i < QUESTIONS; i++) {
                check_equal(&a.results[i], &alone.results[i]);
            }
            free_results(&a);
            ew_session_close(a.session);
        }
        free_results(&alone);
    }
    ew_model_close(model);
}

static void one_failure_ends_all(void **state) {
    (void)state;
    ew_model *model = open_golden();
    asked a = {.session = open_test_session(model, 1, 0), .n_streams = 1, .fail_at = 4};
    ew_error problem = {0};
    assert_int_equal(answer_all(&a, 3, &problem), EW_ERROR_FORMAT);
    assert_string_equal(problem.message, "this one");
    assert_true(a.next <= QUESTIONS);
    free_results(&a);
    /* The session is as good as before. */
    a.fail_at = QUESTIONS;
    EW_ASSERT_OK(answer_all(&a, 3, error));
    free_results(&a);
    ew_session_close(a.session);
    ew_model_close(model);
}

static void a_cancelled_batch_ends_all(void **state) {
    (void)state;
    ew_model *model = open_golden();
    for (size_t at = 1; at < 8; at++) {
        asked a = {.session = open_test_session(model, 2, 0), .n_streams = 2, .fail_at = QUESTIONS, .cancel_at = at};
        ew_error error = {0};
        assert_int_equal(answer_all(&a, 3, &error), EW_ERROR_CANCELLED);
        assert_int_equal(a.n_calls, at); /* nothing is evaluated after it */
        free_results(&a);
        ew_session_close(a.session);
    }
    ew_model_close(model);
}

/* One stream that is full ends by itself, whoever shares its batch. */
static void a_full_context_is_ones_own(void **state) {
    (void)state;
    ew_model *model = open_golden();
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    options.n_threads = 1;
    options.context_length = 160;
    asked alone = {.n_streams = 1, .fail_at = QUESTIONS, .endless = true}, a = alone;
    EW_ASSERT_OK(ew_session_open(model, &options, &alone.session, error));
    EW_ASSERT_OK(ew_session_open(model, &options, &a.session, error));
    EW_ASSERT_OK(answer_all(&a, QUESTIONS, error));
    size_t n_full = 0;
    for (size_t i = 0; i < QUESTIONS; i++) {
        const ew_source source = ew_engine_source(alone.session);
        EW_ASSERT_OK(answer_one(&alone, &source, i, error));
        check_equal(&a.results[i], &alone.results[i]);
        n_full += alone.results[i].candidates[0].stop_reason == EW_STOP_CONTEXT;
    }
    assert_true(n_full > 1);
    free_results(&alone);
    free_results(&a);
    ew_session_close(alone.session);
    ew_session_close(a.session);
    ew_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(together_is_as_alone),
        cmocka_unit_test(one_failure_ends_all),
        cmocka_unit_test(a_cancelled_batch_ends_all),
        cmocka_unit_test(a_full_context_is_ones_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
