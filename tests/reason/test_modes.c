/* Modes on one model: no prompt is read twice, whatever mode it is answered in; a chat that switches between them says
 * exactly what fresh sessions say. */
#include "running.h"

#include "quant/quantize.h"
#include "reason/answer.h"
#include "reason/heads.h"
#include "text/reply_parts.h"

#include <unistd.h>

enum { TURNS = 5 };

static ew_model *open_golden(const char *name) {
    char relative[128], path[1024], file[] = "/tmp/ew-modes-XXXXXX";
    snprintf(relative, sizeof relative, "goldens/models/%s", name);
    assert_non_null(ew_test_shared(relative, path, sizeof path));
    close(mkstemp(file));
    ew_quantize_options options = ew_quantize_default_options();
    EW_ASSERT_OK(ew_quantize(path, file, &options, NULL, error));
    ew_model *model;
    ew_model_options opening = EW_MODEL_OPTIONS_INIT;
    opening.chat_template = strcmp(name, "qwen3-tiny") == 0 ? "qwen3" : NULL; /* it thinks by its template */
    EW_ASSERT_OK(ew_model_open(file, &opening, &model, error));
    unlink(file);
    return model;
}

static ew_adapter *load_golden_adapter(const ew_model *model) {
    char path[1024];
    ew_adapter *adapter;
    assert_non_null(ew_test_shared("goldens/alora/adapters/qwen2-tiny.masked", path, sizeof path));
    EW_ASSERT_OK(ew_adapter_load(model, path, NULL, &adapter, error));
    return adapter;
}

/* One whose p is about 1/2 for most prompts: its probability says which hidden states it was shown. */
static ew_switcher make_switcher(const ew_model *model) {
    ew_switcher switcher = {.model = model};
    size_t d = model->config.d_model;
    EW_ASSERT_OK(ew_head_allocate(EW_HEAD_SWITCHER, d, 8, &switcher.head, error));
    for (size_t i = 0; i < 8 * d; i++) {
        switcher.head.hidden_weight[i] = (float)((double)(i * 2654435761u % 1000) / 1000.0 - 0.5);
    }
    for (size_t i = 0; i < 8; i++) {
        switcher.head.output_weight[i] = i % 2 ? 0.5f : -0.5f;
    }
    for (size_t i = 0; i < d; i++) {
        switcher.head.inverse_std[i] = 1.0f;
    }
    switcher.head.chunk = 16; /* so that short prompts have borders */
    return switcher;
}

static uint64_t evaluated(const ew_session *session) {
    ew_session_info info = {.size = sizeof info};
    ew_session_describe(session, &info);
    return info.n_evaluated;
}

static size_t opening_length(const ew_model *model, bool thinks) {
    static const ew_message probe = {"user", "", 0};
    const ew_string nothing = {"", 0};
    ew_tokens tokens = {0};
    size_t header;
    EW_ASSERT_OK(ew_prompt_encode(&model->chat_template, model->tokenizer, &probe, 1, thinks, &tokens, &header, error));
    if (thinks) {
        EW_ASSERT_OK(
            ew_reply_encode_part(&model->chat_template, model->tokenizer, EW_PART_THINK_OPEN, nothing, &tokens, error));
    }
    size_t n = tokens.count - header;
    ew_tokens_free(&tokens);
    return n;
}

/* Tokens of the reply that were fed: all but the last when it ended the turn or the allowance. */
static size_t fed(const ew_answer_result *result) {
    size_t n = 0;
    for (size_t i = 0; i < result->n_candidates; i++) {
        const ew_candidate *candidate = &result->candidates[i];
        n += candidate->n_tokens - (candidate->stop_reason != EW_STOP_CONTEXT);
    }
    return n;
}

static ew_answer_result ask(ew_session *session, bool thinks_by_itself, const ew_message *messages, size_t n,
                            const ew_policy *policy) {
    ew_source source = ew_engine_source(session);
    ew_answer_result result;
    source.thinks = thinks_by_itself;
    EW_ASSERT_OK(ew_answer_from(&source, messages, n, policy, NULL, &result, error));
    return result;
}

static void check_equal(const ew_answer_result *a, const ew_answer_result *b) {
    assert_int_equal(a->thinks, b->thinks);
    assert_int_equal(a->n_candidates, b->n_candidates);
    assert_int_equal(a->chosen, b->chosen);
    assert_true((isnan(a->probability) && isnan(b->probability)) || a->probability == b->probability);
    for (size_t i = 0; i < a->n_candidates; i++) {
        const ew_candidate *one = &a->candidates[i], *other = &b->candidates[i];
        assert_int_equal(one->n_tokens, other->n_tokens);
        assert_memory_equal(one->tokens, other->tokens, one->n_tokens * sizeof *one->tokens);
        assert_string_equal(one->thinking, other->thinking);
        assert_string_equal(one->answer, other->answer);
    }
}

typedef struct turn {
    ew_mode mode;
    size_t streams;
} turn;

/* A model and what it is used with. */
typedef struct kit {
    ew_model *model;
    ew_adapter *adapter;   /* NULL: it thinks by itself */
    ew_switcher *switcher; /* NULL: none, as the next */
    ew_verifier *verifier;
} kit;

static ew_policy turn_policy(const kit *k, const turn *t, size_t index) {
    ew_policy policy = EW_POLICY_INIT;
    policy.mode = t->mode;
    policy.streams = t->streams;
    policy.run_all = true;
    policy.adapter = k->adapter;
    policy.switcher = k->switcher;
    policy.verifier = t->mode == EW_MODE_OFF ? NULL : k->verifier; /* it was trained on replies with the adapter */
    policy.thinking_budget = 9;
    policy.answer_tokens = 12;
    policy.sampling.temperature = 0.9f;
    policy.sampling.repetition_penalty = 1.1f;
    policy.sampling.seed = 11 + index;
    return policy;
}

/* No prompt is read twice: `last`, NULL at first, is the turn before. */
static void check_reading(const kit *k, const ew_answer_result *last, const ew_answer_result *result, uint64_t read) {
    if (!k->verifier) { /* which reads its own prompt behind each reply */
        /* The prompt once, the opening once for all streams, and what was drawn. */
        assert_int_equal(read, result->n_prompt_tokens - result->n_cached_tokens +
                                   opening_length(k->model, result->thinks) + fed(result));
    }
    if (last && !k->switcher) { /* the last prompt is kept whole, whatever mode it was answered in */
        assert_true(result->n_cached_tokens >= last->n_prompt_tokens);
    } else if (last) { /* or to the last border of the pooling */
        assert_true(result->n_cached_tokens + k->switcher->head.chunk > last->n_prompt_tokens);
    }
}

static void check_chat(const kit *k, const turn turns[TURNS]) {
    static const char *const questions[TURNS] = {
        "Hello!", "What is 2 + 2? I ask since I do not know it, and would like to, at some length.",
        "And \xc3\xa9t\xc3\xa9?", "Why?", "Bye."};
    ew_session *session = open_test_session(k->model, 2, 0);
    ew_message messages[2 * TURNS];
    ew_answer_result results[TURNS];
    for (size_t i = 0; i < TURNS; i++) {
        const ew_policy policy = turn_policy(k, &turns[i], i);
        messages[2 * i] = (ew_message){"user", questions[i], strlen(questions[i])};
        uint64_t before = evaluated(session);
        results[i] = ask(session, !k->adapter, messages, 2 * i + 1, &policy);
        const ew_answer_result *result = &results[i];
        check_reading(k, i > 0 ? &results[i - 1] : NULL, result, evaluated(session) - before);
        ew_session *fresh = open_test_session(k->model, 1, 7);
        ew_answer_result again = ask(fresh, !k->adapter, messages, 2 * i + 1, &policy);
        assert_int_equal(again.n_cached_tokens, 0);
        check_equal(result, &again);
        ew_answer_result_free(&again);
        ew_session_close(fresh);
        const ew_candidate *chosen = &result->candidates[result->chosen];
        messages[2 * i + 1] = (ew_message){"assistant", chosen->answer, chosen->answer_length};
    }
    for (size_t i = 0; i < TURNS; i++) {
        ew_answer_result_free(&results[i]);
    }
    ew_session_close(session);
}

typedef struct chat_case {
    const char *model;
    bool with_adapter, with_switcher;
    turn turns[TURNS];
} chat_case;

static void switching_modes_says_what_fresh_sessions_say(void **state) {
    (void)state;
    static const chat_case cases[] = {
        {"qwen2-tiny",
         true,
         false,
         {{EW_MODE_OFF, 1}, {EW_MODE_ON, 1}, {EW_MODE_OFF, 1}, {EW_MODE_ON, 3}, {EW_MODE_OFF, 2}}},
        {"qwen2-tiny",
         true,
         true,
         {{EW_MODE_AUTO, 1}, {EW_MODE_OFF, 1}, {EW_MODE_ON, 2}, {EW_MODE_AUTO, 1}, {EW_MODE_AUTO, 2}}},
        {"qwen3-tiny",
         false,
         false,
         {{EW_MODE_ON, 1}, {EW_MODE_OFF, 1}, {EW_MODE_ON, 2}, {EW_MODE_AUTO, 1}, {EW_MODE_OFF, 1}}},
        {"llama-tiny",
         false,
         true,
         {{EW_MODE_OFF, 1}, {EW_MODE_AUTO, 1}, {EW_MODE_ON, 1}, {EW_MODE_OFF, 2}, {EW_MODE_AUTO, 1}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ew_model *model = open_golden(cases[i].model);
        ew_switcher switcher = make_switcher(model);
        const kit k = {.model = model,
                       .adapter = cases[i].with_adapter ? load_golden_adapter(model) : NULL,
                       .switcher = cases[i].with_switcher ? &switcher : NULL};
        check_chat(&k, cases[i].turns);
        ew_head_free(&switcher.head);
        ew_adapter_unload(k.adapter);
        ew_model_close(model);
    }
}

/* The same with what recipes/gsm8k/run.sh trained: EDGEWISE_GSM8K is its folder. */
static void a_trained_model_switches_modes(void **state) {
    (void)state;
    static const char *const names[] = {"imported.gguf", "adapter-imported.gguf", "switcher.gguf", "verifier.gguf"};
    char paths[4][1024];
    for (size_t i = 0; i < 4; i++) {
        if (!ew_test_find("EDGEWISE_GSM8K", names[i], paths[i], sizeof paths[i])) {
            printf("skipped: no %s (set EDGEWISE_GSM8K to the folder of recipes/gsm8k/run.sh)\n", names[i]);
            skip();
        }
    }
    kit k;
    EW_ASSERT_OK(ew_model_open(paths[0], NULL, &k.model, error));
    EW_ASSERT_OK(ew_adapter_load(k.model, paths[1], NULL, &k.adapter, error));
    EW_ASSERT_OK(ew_switcher_open(k.model, paths[2], &k.switcher, error));
    EW_ASSERT_OK(ew_verifier_open(k.model, paths[3], &k.verifier, error));
    static const turn scored[TURNS] = {
        {EW_MODE_OFF, 1}, {EW_MODE_ON, 3}, {EW_MODE_AUTO, 1}, {EW_MODE_OFF, 2}, {EW_MODE_ON, 1}};
    static const turn plain[TURNS] = {
        {EW_MODE_AUTO, 1}, {EW_MODE_ON, 1}, {EW_MODE_OFF, 1}, {EW_MODE_ON, 2}, {EW_MODE_AUTO, 1}};
    check_chat(&k, scored);
    const kit unscored = {.model = k.model, .adapter = k.adapter, .switcher = k.switcher};
    check_chat(&unscored, plain);
    ew_verifier_close(k.verifier);
    ew_switcher_close(k.switcher);
    ew_adapter_unload(k.adapter);
    ew_model_close(k.model);
}

/* With mode off the policy says what a plain reply says. */
static void off_is_a_plain_reply(void **state) {
    (void)state;
    static const char *const models[] = {"qwen2-tiny", "qwen3-tiny", "llama-tiny"};
    const ew_message question = {"user", "What is it?", 11};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        ew_model *model = open_golden(models[i]);
        ew_session *session = open_test_session(model, 1, 0);
        ew_stream *stream;
        ew_reply reply;
        ew_reply_options options = EW_REPLY_OPTIONS_INIT;
        options.sampling.temperature = 0.8f;
        options.sampling.repetition_penalty = 1.2f;
        options.sampling.seed = 3;
        options.max_tokens = 40;
        options.thinking = false;
        options.log_probabilities = true;
        EW_ASSERT_OK(ew_stream_open(session, &stream, error));
        EW_ASSERT_OK(ew_reply_to(stream, &question, 1, &options, &reply, error));
        ew_policy policy = EW_POLICY_INIT;
        policy.mode = EW_MODE_OFF;
        policy.answer_tokens = 40;
        policy.sampling = options.sampling;
        policy.log_probabilities = true;
        ew_answer_result result;
        EW_ASSERT_OK(ew_answer(session, &question, 1, &policy, NULL, &result, error));
        const ew_candidate *candidate = &result.candidates[0];
        assert_int_equal(candidate->n_tokens, reply.n_tokens);
        assert_memory_equal(candidate->tokens, reply.tokens, reply.n_tokens * sizeof *reply.tokens);
        assert_memory_equal(candidate->log_probabilities, reply.log_probabilities, reply.n_tokens * sizeof(float));
        assert_string_equal(candidate->answer, reply.text);
        assert_int_equal(candidate->stop_reason, reply.stop_reason);
        ew_answer_result_free(&result);
        ew_reply_free(&reply);
        ew_session_close(session);
        ew_model_close(model);
    }
}

/* The threshold is what decides, and p is that of the whole prompt pooled at once. */
static void the_switcher_decides(void **state) {
    (void)state;
    const ew_message question = {"user", "How many apples and how many pears are in the garden behind the house?", 69};
    ew_model *model = open_golden("qwen2-tiny");
    ew_adapter *adapter = load_golden_adapter(model);
    ew_switcher switcher = make_switcher(model);
    ew_session *session = open_test_session(model, 1, 0);
    ew_policy policy = EW_POLICY_INIT;
    policy.adapter = adapter;
    policy.switcher = &switcher;
    policy.thinking_budget = policy.answer_tokens = 3;
    ew_answer_result result = ask(session, false, &question, 1, &policy);
    double p = result.probability;
    assert_true(p > 0 && p < 1 && result.threshold == 0.5);
    assert_int_equal(result.thinks, p >= 0.5);
    size_t n = result.n_prompt_tokens;
    ew_answer_result_free(&result);

    ew_tokens tokens = {0};
    size_t header;
    double expected;
    float *hidden = calloc(n * switcher.head.d_model, sizeof *hidden);
    ew_pooling pooling;
    ew_stream *stream;
    assert_non_null(hidden);
    EW_ASSERT_OK(
        ew_prompt_encode(&model->chat_template, model->tokenizer, &question, 1, true, &tokens, &header, error));
    assert_int_equal(header, n);
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    run_ids(session, stream, tokens.ids, n, NULL, hidden);
    EW_ASSERT_OK(ew_pooling_open(switcher.head.d_model, switcher.head.chunk, switcher.head.mix, &pooling, error));
    EW_ASSERT_OK(ew_pooling_add(&pooling, hidden, n, error));
    EW_ASSERT_OK(ew_switcher_ask(&switcher, &pooling, &expected, error));
    assert_true(p == expected);
    ew_pooling_free(&pooling);
    free(hidden);
    ew_tokens_free(&tokens);

    for (int above = 0; above <= 1; above++) {
        policy.threshold = above ? p + 1e-6 : p;
        result = ask(session, false, &question, 1, &policy);
        assert_int_equal(result.thinks, !above);
        assert_true(result.probability == p);
        assert_true(result.candidates[0].n_thinking_tokens > 0 || above);
        ew_answer_result_free(&result);
    }
    policy.thinking_budget = 0; /* nothing to decide */
    result = ask(session, false, &question, 1, &policy);
    assert_true(!result.thinks && isnan(result.probability) && !result.no_switcher);
    ew_answer_result_free(&result);
    ew_session_close(session);
    ew_head_free(&switcher.head);
    ew_adapter_unload(adapter);
    ew_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switching_modes_says_what_fresh_sessions_say),
        cmocka_unit_test(a_trained_model_switches_modes),
        cmocka_unit_test(off_is_a_plain_reply),
        cmocka_unit_test(the_switcher_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
