/* Every allocation of opening a model, a session, and answering is made to fail once: each time one sentence says so,
 * and nothing leaks (the sanitizer builds watch). */
#include "running.h"
#include "allocations.h"

#include "quant/quantize.h"
#include "reason/answer.h"
#include "reason/together.h"

#include <unistd.h>

typedef struct scenario {
    const char *path;
    ew_weights weights;
} scenario;

static ew_status answer(ew_session *session, ew_error *error) {
    static const ew_message messages[] = {
        {"system", "Be brief.", 9}, {"user", "Hello!", 6}, {"assistant", "Hi.", 3}, {"user", "Bye.", 4}};
    static const char *const stop[] = {"no such thing"};
    ew_stream *stream = NULL, *fork = NULL;
    ew_reply reply = {0};
    ew_reply_options options = EW_REPLY_OPTIONS_INIT;
    options.max_tokens = 3;
    options.sampling.temperature = 0.7f;
    options.sampling.repetition_penalty = 1.2f;
    options.log_probabilities = true;
    options.stop = stop;
    options.n_stop = 1;
    ew_status status = ew_stream_open(session, &stream, error);
    if (status == EW_OK) {
        status = ew_reply_to(stream, messages, 4, &options, &reply, error);
    }
    if (status == EW_OK) {
        status = ew_stream_fork(stream, &fork, error);
    }
    if (status == EW_OK) {
        const ew_input input = {fork, 1, false};
        status = ew_evaluate(session, &input, 1, NULL, NULL, error);
    }
    ew_reply_free(&reply);
    ew_stream_close(stream);
    ew_stream_close(fork);
    return status;
}

/* Several streams that think where the model can, and vote. */
static ew_status answer_by_policy(void *context, const ew_source *source, ew_error *error) {
    (void)context;
    static const ew_message question = {"user", "Hello!", 6};
    ew_policy policy = EW_POLICY_INIT;
    ew_answer_result result;
    policy.streams = 2;
    policy.thinking_budget = policy.answer_tokens = 3;
    policy.sampling.temperature = 0.7f;
    policy.sampling.repetition_penalty = 1.2f;
    policy.log_probabilities = true;
    ew_status status = ew_answer_from(source, &question, 1, &policy, NULL, &result, error);
    ew_answer_result_free(&result);
    return status;
}

static ew_status use_model(void *context, ew_error *error) {
    const scenario *s = context;
    ew_model_options options = EW_MODEL_OPTIONS_INIT;
    options.weights = s->weights;
    options.n_threads = 1;
    ew_model *model = NULL;
    ew_session *session = NULL;
    ew_session_options session_options = EW_SESSION_OPTIONS_INIT;
    session_options.n_threads = 2;
    ew_status status = ew_model_open(s->path, &options, &model, error);
    if (status == EW_OK) {
        status = ew_session_open(model, &session_options, &session, error);
    }
    if (status == EW_OK) {
        status = answer(session, error);
    }
    if (status == EW_OK) {
        const ew_source source = ew_engine_source(session);
        status = answer_by_policy(NULL, &source, error);
    }
    if (status == EW_OK) {
        const ew_source source = ew_engine_source(session);
        status = ew_together(&source, 2, answer_by_policy, NULL, error);
    }
    ew_session_close(session);
    ew_model_close(model);
    return status;
}

static void a_quantized_model(void **state) {
    (void)state;
    char path[1024], file[] = "/tmp/ew-memory-XXXXXX";
    assert_non_null(ew_test_shared("goldens/models/qwen2-tiny", path, sizeof path));
    close(mkstemp(file));
    ew_quantize_options options = ew_quantize_default_options();
    EW_ASSERT_OK(ew_quantize(path, file, &options, NULL, error));
    scenario s = {file, EW_WEIGHTS_AUTO};
    long n = fail_every_allocation(use_model, &s, 5000, 31);
    printf("  %ld allocations\n", n);
    assert_true(n > 50);
    scenario dequantized = {file, EW_WEIGHTS_BF16};
    assert_true(fail_every_allocation(use_model, &dequantized, 5000, 31) > n);
    unlink(file);
}

static void a_folder(void **state) {
    (void)state;
    char path[1024];
    assert_non_null(ew_test_shared("goldens/models/qwen3-tiny", path, sizeof path));
    scenario s = {path, EW_WEIGHTS_AUTO};
    long n = fail_every_allocation(use_model, &s, 300, 37);
    printf("  about %ld allocations\n", n);
    assert_true(n > 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quantized_model),
        cmocka_unit_test(a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
