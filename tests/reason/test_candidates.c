/* Several streams at once, on scripts and on the tiny model itself: who votes, when all stop, what they share. */
#include "scripted.h"

#include "model/adapter.h"
#include "reason/heads.h"

static ew_policy voting_policy(size_t streams) {
    ew_policy policy = thinking_policy();
    policy.streams = streams;
    policy.sampling.temperature = 0.7f;
    return policy;
}

static void say(scripted *s, const char *const *says, size_t n) {
    for (size_t i = 0; i < SCRIPTED_MOST; i++) {
        s->says[i] = i < n ? says[i] : NULL;
    }
}

/* ---- Votes ---- */

static void equal_answers_share_a_class(void **state) {
    scripted *s = *state;
    static const char *const says[] = {"We</think>The answer is 1/2.", "We add</think>So \\boxed{3}",
                                       "We</think>I do not know", "We</think>The answer is 0.5",
                                       "We see</think>Thus \\boxed{\\frac{1}{2}}"};
    say(s, says, 5);
    ew_policy policy = voting_policy(5);
    policy.run_all = true;
    ew_answer_result result = scripted_ask(s, NULL, &policy, NULL);
    static const size_t classes[] = {0, 1, SIZE_MAX, 0, 0};
    assert_int_equal(result.n_candidates, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(result.candidates[i].answer_class, classes[i]);
        assert_true(isnan(result.candidates[i].score));
    }
    assert_int_equal(result.chosen, 0);
    assert_int_equal(result.n_agreed, 3);
    assert_int_equal(result.n_streams_stopped, 0);
    assert_int_equal(result.n_tokens_saved, 0);
    assert_string_equal(result.candidates[3].final_answer, "0.5");
    assert_null(result.candidates[2].final_answer);
    ew_answer_result_free(&result);
    static const char *const prose[] = {"We</think>Once upon a time.", "We</think>There was a king."};
    say(s, prose, 2);
    policy.streams = 2;
    result = scripted_ask(s, NULL, &policy, NULL);
    assert_int_equal(result.chosen, 0);
    assert_int_equal(result.n_agreed, 1);
    ew_answer_result_free(&result);
}

/* Ended streams leave the batch, and their cells are given back. */
static void ended_streams_leave(void **state) {
    scripted *s = *state;
    static const char *const says[] = {"W</think>1", "W alone goes on and on for quite a while</think>2"};
    say(s, says, 2);
    ew_policy policy = voting_policy(2);
    policy.run_all = true;
    s->cut = CUT_BYTES;
    s->most_batch = 0;
    uint64_t before = evaluated(s->session);
    ew_answer_result result = scripted_ask(s, NULL, &policy, NULL);
    size_t n_fed = result.candidates[0].n_tokens + result.candidates[1].n_tokens - 2; /* the end tokens are not fed */
    size_t n_opening = evaluated(s->session) - before - n_fed - (result.n_prompt_tokens - result.n_cached_tokens);
    assert_true(n_opening > 0 && n_opening < 12);
    assert_int_equal(s->most_batch, 2);
    assert_true(result.candidates[1].n_tokens > 3 * result.candidates[0].n_tokens);
    ew_answer_result_free(&result);
    ew_session_info info = {.size = sizeof info};
    ew_session_describe(s->session, &info);
    assert_int_equal(info.n_streams, 1); /* the kept prompt */
}

static void a_decided_vote_stops_the_others(void **state) {
    scripted *s = *state;
    static const char *const says[] = {"W</think>\\boxed{4}", "W</think>\\boxed{4}", "W</think>\\boxed{4}",
                                       "W, I wonder, and wonder, and go on wondering</think>\\boxed{5}"};
    say(s, says, 4);
    s->cut = CUT_BYTES;
    for (size_t streams = 4; streams <= 5; streams++) {
        ew_policy policy = voting_policy(streams);
        ew_answer_result result = scripted_ask(s, NULL, &policy, NULL);
        assert_int_equal(result.n_streams_stopped, streams - 3);
        assert_int_equal(result.n_agreed, 3);
        assert_int_equal(result.candidates[3].stop_reason, EW_STOP_DECIDED);
        assert_int_equal(result.candidates[3].thinking_end, EW_THINKING_OPEN);
        assert_int_equal(result.candidates[3].answer_class, SIZE_MAX);
        /* All have written as much when it is decided: nothing of the mean is left to be saved. */
        assert_int_equal(result.n_tokens_saved, 0);
        ew_answer_result_free(&result);
        policy.run_all = true;
        result = scripted_ask(s, NULL, &policy, NULL);
        assert_int_equal(result.n_streams_stopped, 0);
        assert_int_equal(result.candidates[3].stop_reason, EW_STOP_END);
        ew_answer_result_free(&result);
    }
    /* Two of six agree and the others are out: certain it is not, but likely (7/8). */
    static const char *const two[] = {"W</think>\\boxed{4}", "W</think>\\boxed{4}",
                                      "W, I wonder, and wonder, and go on</think>\\boxed{5}"};
    say(s, two, 3);
    ew_policy policy = voting_policy(6);
    policy.decision_level = 0.87;
    ew_answer_result result = scripted_ask(s, NULL, &policy, NULL);
    assert_int_equal(result.n_streams_stopped, 4);
    ew_answer_result_free(&result);
    policy.decision_level = 0.88;
    result = scripted_ask(s, NULL, &policy, NULL);
    assert_int_equal(result.n_streams_stopped, 0);
    assert_string_equal(result.candidates[result.chosen].final_answer, "5");
    ew_answer_result_free(&result);
}

/* ---- A verifier that reads the first hidden value as a logit ---- */

static ew_verifier make_verifier(const scripted *s) {
    ew_verifier verifier = {.model = s->model};
    const ew_string text = {"Is it right?", 12};
    EW_ASSERT_OK(ew_head_allocate(EW_HEAD_VERIFIER, s->model->config.d_model, 0, &verifier.head, error));
    for (size_t i = 0; i < verifier.head.d_model; i++) {
        verifier.head.inverse_std[i] = 1.0f;
    }
    verifier.head.codes[0] = 1;
    verifier.head.code_scale = 1;
    EW_ASSERT_OK(ew_verification_encode(&s->model->chat_template, s->model->tokenizer, text, &verifier.prompt, error));
    return verifier;
}

static void free_verifier(ew_verifier *verifier) {
    ew_head_free(&verifier->head);
    ew_tokens_free(&verifier->prompt);
}

static void set_scores(scripted *s, const double *scores, size_t n) {
    s->overwrites_hidden = true;
    for (size_t i = 0; i < n; i++) {
        s->first_hidden[i] = log(scores[i] / (1 - scores[i]));
    }
}

static void scores_weigh(void **state) {
    scripted *s = *state;
    static const char *const says[] = {"W</think>\\boxed{4}", "W</think>\\boxed{4}", "W</think>\\boxed{5}"};
    static const double scores[] = {0.2, 0.25, 0.9};
    static const struct {
        ew_vote vote;
        size_t chosen, n_agreed;
    } votes[] = {{EW_VOTE_WEIGHTED, 2, 1}, {EW_VOTE_MAJORITY, 1, 2}, {EW_VOTE_BEST, 2, 1}};
    ew_verifier verifier = make_verifier(s);
    for (size_t i = 0; i < sizeof votes / sizeof *votes; i++) {
        say(s, says, 3);
        set_scores(s, scores, 3);
        ew_policy policy = voting_policy(3);
        policy.verifier = &verifier;
        policy.vote = votes[i].vote;
        ew_answer_result result = scripted_ask(s, NULL, &policy, NULL);
        assert_int_equal(result.chosen, votes[i].chosen);
        assert_int_equal(result.n_agreed, votes[i].n_agreed);
        for (size_t k = 0; k < 3; k++) {
            assert_float_equal(result.candidates[k].score, scores[k], 1e-6);
        }
        ew_answer_result_free(&result);
    }
    s->overwrites_hidden = false;
    free_verifier(&verifier);
}

/* The question goes to the candidate's own cells, which are as before afterwards: the chat goes on behind them. */
static void one_stream_is_scored_too(void **state) {
    scripted *s = *state;
    static const double score = 0.75;
    ew_verifier verifier = make_verifier(s);
    ew_policy policy = EW_POLICY_INIT;
    policy.mode = EW_MODE_OFF;
    policy.verifier = &verifier;
    say(s, NULL, 0);
    set_scores(s, &score, 1);
    ew_answer_result result = scripted_ask(s, "It is 4.", &policy, NULL);
    assert_float_equal(result.candidates[0].score, 0.75, 1e-6);
    ew_answer_result_free(&result);
    result = scripted_ask(s, "It is 4.", &policy, NULL);
    assert_true(result.n_cached_tokens == result.n_prompt_tokens);
    ew_answer_result_free(&result);
    s->overwrites_hidden = false;
    free_verifier(&verifier);
}

/* Without the adapter that its verifier knows a chat goes on, unscored; another adapter's verifier is a mistake. */
static void a_verifier_of_the_other_mode_is_left_out(void **state) {
    scripted *s = *state;
    ew_verifier verifier = make_verifier(s);
    ew_adapter adapter = {.fingerprint = "of the adapter"};
    strcpy(verifier.head.adapter_fingerprint, adapter.fingerprint);
    ew_policy policy = EW_POLICY_INIT;
    policy.mode = EW_MODE_OFF;
    policy.adapter = &adapter;
    policy.verifier = &verifier;
    say(s, NULL, 0);
    ew_answer_result result = scripted_ask(s, "It is 4.", &policy, NULL);
    assert_true(isnan(result.candidates[0].score));
    ew_answer_result_free(&result);
    const ew_message question = {"user", "How much is it?", 15};
    ew_error error;
    strcpy(adapter.fingerprint, "of another");
    assert_int_equal(ew_answer_from(&s->source, &question, 1, &policy, NULL, &result, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "the verifier was trained with an adapter"));
    policy.adapter = NULL;
    assert_int_equal(ew_answer_from(&s->source, &question, 1, &policy, NULL, &result, &error), EW_ERROR_ARGUMENT);
    free_verifier(&verifier);
}

static void more_streams_only_while_the_verifier_doubts(void **state) {
    scripted *s = *state;
    static const struct {
        double first; /* score of candidate 0 */
        size_t n, n_stopped;
        const char *answer;
    } cases[] = {{0.9, 1, 7, "4"}, {0.3, 4, 4, "5"}};
    static const char *const says[] = {"W</think>\\boxed{4}", "W</think>\\boxed{5}"};
    ew_verifier verifier = make_verifier(s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double scores[SCRIPTED_MOST] = {cases[i].first, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9};
        say(s, says, 2);
        set_scores(s, scores, 8);
        ew_policy policy = voting_policy(0);
        policy.verifier = &verifier;
        policy.confidence = 0.8;
        ew_answer_result result = scripted_ask(s, NULL, &policy, NULL);
        assert_int_equal(result.n_candidates, cases[i].n);
        assert_int_equal(result.n_streams_stopped, cases[i].n_stopped);
        assert_true(result.n_tokens_saved > 0);
        assert_string_equal(result.candidates[result.chosen].final_answer, cases[i].answer);
        ew_answer_result_free(&result);
    }
    s->overwrites_hidden = false;
    free_verifier(&verifier);
}

/* ---- The tiny model itself ---- */

static ew_answer_result ask_engine(ew_session *session, const ew_policy *policy) {
    ew_source source = ew_engine_source(session);
    const ew_message question = {"user", "How much is it?", 15};
    ew_answer_result result;
    source.thinks = true;
    EW_ASSERT_OK(ew_answer_from(&source, &question, 1, policy, NULL, &result, error));
    return result;
}

static ew_policy sampling_policy(size_t streams) {
    ew_policy policy = voting_policy(streams);
    policy.thinking_budget = 20;
    policy.answer_tokens = 12;
    policy.sampling.temperature = 1.1f;
    policy.sampling.repetition_penalty = 1.2f;
    policy.sampling.seed = 5;
    policy.run_all = true;
    return policy;
}

static void a_stream_depends_on_the_seed_and_its_number(void **state) {
    scripted *s = *state;
    ew_policy policy = sampling_policy(8);
    ew_answer_result eight = ask_engine(s->session, &policy);
    policy.streams = 4;
    ew_answer_result four = ask_engine(s->session, &policy);
    policy.streams = 1;
    ew_answer_result one = ask_engine(s->session, &policy);
    for (size_t i = 0; i < 4; i++) {
        const ew_candidate *a = &eight.candidates[i], *b = i == 0 ? &one.candidates[0] : &four.candidates[i];
        assert_int_equal(a->n_tokens, b->n_tokens);
        assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
        assert_string_equal(a->thinking, b->thinking);
        assert_string_equal(a->answer, b->answer);
    }
    assert_memory_not_equal(eight.candidates[0].tokens, eight.candidates[1].tokens, 10 * sizeof(int32_t));
    ew_answer_result_free(&eight);
    ew_answer_result_free(&four);
    ew_answer_result_free(&one);
}

/* The prompt's cells are held once, and of every stream only its own pages: at most 5 % more than counting the prompt once
 * predicts, for 8 streams of 512 tokens behind a prompt of 1,000 (whatever the model: a page is 32 positions). */
static void streams_share_the_prompt(void **state) {
    (void)state;
    enum { STREAMS = 8, REPLY = 512, PROMPT = 1000 };
    scripted s;
    char letters[PROMPT];
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    options.context_length = 2048;
    scripted_open(&s, &options);
    ew_model_info info = {.size = sizeof info};
    ew_model_describe(s.model, &info);
    memset(letters, 'x', sizeof letters); /* a token each */
    s.endless = true;
    s.says[0] = "Wandering";
    encode_script(&s, 0);
    ew_policy policy = voting_policy(STREAMS);
    policy.loop_length = 0;
    policy.run_all = true;
    policy.total_budget = 40;
    ew_message message = {"user", letters, 1};
    ew_answer_result result;
    EW_ASSERT_OK(ew_answer_from(&s.source, &message, 1, &policy, NULL, &result, error));
    message.length = PROMPT - result.n_prompt_tokens + 1;
    ew_answer_result_free(&result);

    policy.total_budget = REPLY;
    s.most_bytes = s.n_begun = 0;
    EW_ASSERT_OK(ew_answer_from(&s.source, &message, 1, &policy, NULL, &result, error));
    assert_int_equal(result.n_prompt_tokens, PROMPT);
    assert_int_equal(result.candidates[STREAMS - 1].n_tokens, REPLY);
    size_t page = info.kv_bytes_per_token * EW_PAGE_POSITIONS, predicted = (PROMPT + 31) / 32 + STREAMS * REPLY / 32;
    printf("  most %zu pages, predicted %zu\n", s.most_bytes / page, predicted);
    assert_true((double)s.most_bytes <= 1.05 * (double)(predicted * page));
    assert_int_equal(kv_bytes(s.session), (PROMPT + 31) / 32 * page); /* all but the prompt is given back */
    ew_answer_result_free(&result);
    scripted_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_answers_share_a_class),
        cmocka_unit_test(ended_streams_leave),
        cmocka_unit_test(a_decided_vote_stops_the_others),
        cmocka_unit_test(scores_weigh),
        cmocka_unit_test(one_stream_is_scored_too),
        cmocka_unit_test(a_verifier_of_the_other_mode_is_left_out),
        cmocka_unit_test(more_streams_only_while_the_verifier_doubts),
        cmocka_unit_test(a_stream_depends_on_the_seed_and_its_number),
        cmocka_unit_test(streams_share_the_prompt),
    };
    return cmocka_run_group_tests(tests, scripted_setup, scripted_teardown);
}
