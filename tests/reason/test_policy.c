/* Answers by a policy, one stream, on scripts: modes, thinking and answer told apart, budgets, loops, why it stopped.
 * */
#include "scripted.h"

#include "base/buffer.h"

static const ew_candidate *only(const ew_answer_result *result) {
    assert_int_equal(result->n_candidates, 1);
    assert_int_equal(result->chosen, 0);
    return &result->candidates[0];
}

static void check_texts(const ew_candidate *candidate, const char *thinking, const char *answer) {
    assert_string_equal(candidate->thinking, thinking);
    assert_string_equal(candidate->answer, answer);
    assert_int_equal(candidate->thinking_length, strlen(thinking));
    assert_int_equal(candidate->answer_length, strlen(answer));
}

/* ---- Texts ---- */

static const struct {
    ew_mode mode;
    const char *says, *thinking, *answer;
    ew_thinking_end end;
} replies[] = {
    {EW_MODE_ON, "We add.\n</think>\n\nIt is 4.", "We add.", "It is 4.", EW_THINKING_CLOSED},
    {EW_MODE_ON, "We add.</think>It is 4.", "We add.", "It is 4.", EW_THINKING_CLOSED},
    {EW_MODE_ON, " \n We add. \n\n</think> \n It is 4. \n", "We add.", "It is 4.", EW_THINKING_CLOSED},
    {EW_MODE_ON, "<think>\nWe add.\n</think>\n\nIt is 4.", "We add.", "It is 4.",
     EW_THINKING_CLOSED}, /* opened twice */
    {EW_MODE_ON, "a < b, a </ b, a <think> b\n</think>\n4", "a < b, a </ b, a <think> b", "4", EW_THINKING_CLOSED},
    {EW_MODE_ON, "</think>\n\n4", "", "4", EW_THINKING_CLOSED},
    {EW_MODE_ON, "We add.", "We add.", "", EW_THINKING_TURN}, /* the script is at its end: the turn ends again */
    {EW_MODE_ON, "We </thin", "We", "", EW_THINKING_TURN},    /* the whole tag takes the place of its beginning */
    {EW_MODE_ON, "\xc3\xa9t\xc3\xa9 </think>\xe2\x82\xac", "\xc3\xa9t\xc3\xa9", "\xe2\x82\xac", EW_THINKING_CLOSED},
    {EW_MODE_OFF, "It is 4.", "", "It is 4.", EW_THINKING_NONE},
    {EW_MODE_OFF, " It is 4 <think> or </think> 5.\n", "", " It is 4 <think> or </think> 5.\n", EW_THINKING_NONE},
    {EW_MODE_OFF, "\n<think>We add.</think>\n\nIt is 4.", "We add.", "It is 4.", EW_THINKING_CLOSED},
    {EW_MODE_OFF, "<thing>", "", "<thing>", EW_THINKING_NONE},
};

static void thinking_and_answer_are_told_apart_however_tokens_are_cut(void **state) {
    scripted *s = *state;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        for (script_cut cut = CUT_WORDS; cut <= CUT_BYTES; cut++) {
            ew_policy policy = EW_POLICY_INIT;
            policy.mode = replies[i].mode;
            s->cut = cut;
            ew_answer_result result = scripted_ask(s, replies[i].says, &policy, NULL);
            const ew_candidate *candidate = only(&result);
            check_texts(candidate, replies[i].thinking, replies[i].answer);
            assert_int_equal(candidate->thinking_end, replies[i].end);
            assert_int_equal(candidate->stop_reason, EW_STOP_END);
            assert_false(candidate->thinking_truncated);
            assert_int_equal(result.thinks, replies[i].mode == EW_MODE_ON);
            ew_answer_result_free(&result);
        }
    }
}

/* Where the tags are tokens only those are tags. */
static void tags_that_are_tokens(void **state) {
    scripted *s = *state;
    enum { OPEN = 254, CLOSE = 255 };
    ew_chat_template *chat = &s->model->chat_template;
    chat->think_start = OPEN;
    chat->think_end = CLOSE;
    s->source.thinks = false; /* it is seen from the tokens */
    ew_policy policy = thinking_policy();
    const char *open = NULL, *close = NULL;
    size_t n = 0;
    assert_true(ew_tokenizer_piece(s->model->tokenizer, OPEN, &open, &n) && n == 1);
    assert_true(ew_tokenizer_piece(s->model->tokenizer, CLOSE, &close, &n) && n == 1);
    char says[128];
    s->cut = CUT_BYTES;
    /* A closing tag again in the answer is not drawn: the next best token is the one of id 0, "!". */
    snprintf(says, sizeof says, "We write </think>%c\n\nIt is 4%c%c.", *close, *close, *open);
    ew_answer_result result = scripted_ask(s, says, &policy, NULL);
    check_texts(only(&result), "We write </think>", "It is 4!!.");
    assert_int_equal(result.candidates[0].tokens[17], CLOSE);
    ew_answer_result_free(&result);
    policy.mode = EW_MODE_OFF;
    snprintf(says, sizeof says, "%cWe%c4", *open, *close);
    result = scripted_ask(s, says, &policy, NULL);
    check_texts(only(&result), "We", "4");
    ew_answer_result_free(&result);
    chat->think_start = chat->think_end = EW_NO_TOKEN;
    s->source.thinks = true;
}

static void an_answer_cannot_reopen_its_thinking(void **state) {
    scripted *s = *state;
    ew_policy policy = thinking_policy();
    for (script_cut cut = CUT_WORDS; cut <= CUT_BYTES; cut++) {
        s->cut = cut;
        ew_answer_result result = scripted_ask(s, "Add.</think>4<think>5</think>6", &policy, NULL);
        const ew_candidate *candidate = only(&result);
        assert_string_equal(candidate->thinking, "Add.");
        assert_null(strstr(candidate->answer, "<think>"));
        assert_null(strstr(candidate->answer, "</think>"));
        assert_non_null(strchr(candidate->answer, '6'));
        ew_answer_result_free(&result);
    }
}

/* ---- What callbacks see ---- */

typedef struct listener {
    ew_buffer thinking, answer;
    size_t n_calls, most_calls, n_modes;
    size_t prompt_done, prompt_total;
} listener;

static bool listen(void *context, const ew_answer_text *piece) {
    listener *l = context;
    assert_true(piece->length > 0);
    assert_false(piece->thinking && l->answer.length > 0);
    ew_buffer_append(piece->thinking ? &l->thinking : &l->answer, piece->text, piece->length);
    return ++l->n_calls < l->most_calls;
}

static void watch_prompt(void *context, size_t done, size_t total) {
    listener *l = context;
    l->prompt_done = done;
    l->prompt_total = total;
}

static void watch_mode(void *context, bool thinks, double probability) {
    listener *l = context;
    assert_true(isnan(probability));
    l->n_modes += thinks;
}

static void callbacks_get_all_of_both_texts(void **state) {
    scripted *s = *state;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        listener l = {.most_calls = SIZE_MAX};
        ew_answer_callbacks callbacks = {sizeof callbacks, listen, watch_prompt, watch_mode, &l};
        ew_policy policy = EW_POLICY_INIT;
        policy.mode = replies[i].mode;
        s->cut = i % 2 ? CUT_BYTES : CUT_WORDS;
        ew_answer_result result = scripted_ask(s, replies[i].says, &policy, &callbacks);
        ew_buffer_append(&l.thinking, "", 0);
        ew_buffer_append(&l.answer, "", 0);
        assert_string_equal(l.thinking.data, replies[i].thinking);
        assert_string_equal(l.answer.data, replies[i].answer);
        assert_int_equal(l.n_modes, replies[i].mode == EW_MODE_ON);
        assert_true(l.prompt_total == 0 || l.prompt_done == result.n_prompt_tokens);
        ew_buffer_free(&l.thinking);
        ew_buffer_free(&l.answer);
        ew_answer_result_free(&result);
    }
}

static void a_callback_or_a_cancel_ends_the_answer(void **state) {
    scripted *s = *state;
    listener l = {.most_calls = 3};
    ew_answer_callbacks callbacks = {sizeof callbacks, listen, NULL, NULL, &l};
    ew_policy policy = thinking_policy();
    s->cut = CUT_BYTES;
    ew_answer_result result = scripted_ask(s, "Weigh it</think>4", &policy, &callbacks);
    check_texts(only(&result), "Wei", "");
    assert_int_equal(result.candidates[0].stop_reason, EW_STOP_CANCELLED);
    assert_int_equal(result.candidates[0].thinking_end, EW_THINKING_OPEN);
    size_t held = kv_bytes(s->session);
    ew_answer_result_free(&result);
    ew_buffer_free(&l.thinking);
    for (size_t call = 1; call < 8; call++) { /* in the prompt, the opening, the reply */
        ew_session_close(s->session);
        ew_session_options options = EW_SESSION_OPTIONS_INIT;
        options.n_threads = 1;
        options.chunk = 16;
        EW_ASSERT_OK(ew_session_open(s->model, &options, &s->session, error));
        s->source.session = s->session;
        s->n_calls = 0;
        s->cancel_at = call;
        result = scripted_ask(s, "Weigh it</think>4", &policy, NULL);
        assert_int_equal(only(&result)->stop_reason, EW_STOP_CANCELLED);
        assert_string_equal(result.candidates[0].answer, "");
        assert_true(kv_bytes(s->session) <= held);
        ew_answer_result_free(&result);
    }
    s->cancel_at = 0;
}

/* ---- Budgets ---- */

static size_t count_forced(const ew_candidate *candidate) {
    size_t n = 0;
    for (size_t i = 0; i < candidate->n_tokens; i++) {
        n += candidate->forced[i];
    }
    return n;
}

static void a_thinking_budget_ends_in_an_answer(void **state) {
    scripted *s = *state;
    s->cut = CUT_BYTES;
    for (size_t budget = 1; budget < 12; budget++) {
        ew_policy policy = thinking_policy();
        policy.thinking_budget = budget;
        policy.log_probabilities = true;
        ew_answer_result result = scripted_ask(s, "Wondering and so on", &policy, NULL);
        const ew_candidate *candidate = only(&result);
        const char *says = "Wondering and so on", *rest = says + budget;
        size_t length = rest[-1] == ' ' ? budget - 1 : budget; /* white space at its end is taken off */
        assert_memory_equal(candidate->thinking, says, length);
        assert_int_equal(candidate->thinking_length, length);
        assert_string_equal(candidate->answer, rest + (*rest == ' '));
        assert_true(candidate->thinking_truncated);
        assert_int_equal(candidate->thinking_end, EW_THINKING_BUDGET);
        assert_int_equal(candidate->stop_reason, EW_STOP_END);
        assert_int_equal(candidate->n_thinking_tokens, budget);
        size_t forced = count_forced(candidate);
        assert_true(forced > 0);
        assert_int_equal(candidate->n_tokens, budget + forced + candidate->n_answer_tokens);
        for (size_t i = 0; i < candidate->n_tokens; i++) { /* what is forced was not drawn and has no probability */
            assert_int_equal(candidate->forced[i], i >= budget && i < budget + forced);
            assert_true(candidate->forced[i] ? candidate->log_probabilities[i] == 0.0f
                                             : candidate->log_probabilities[i] <= 0.0f);
        }
        ew_answer_result_free(&result);
    }
}

/* The cut falls into a closing tag that the model has begun: it is taken back, and the whole one stands there. */
static void a_cut_in_a_closing_tag(void **state) {
    scripted *s = *state;
    for (script_cut cut = CUT_WORDS; cut <= CUT_BYTES; cut++) {
        s->cut = cut;
        ew_policy policy = thinking_policy();
        ew_answer_result whole = scripted_ask(s, "Add</think>4", &policy, NULL);
        size_t n_thinking = whole.candidates[0].n_thinking_tokens;
        for (size_t budget = 1; budget <= n_thinking; budget++) {
            policy.thinking_budget = budget;
            ew_answer_result result = scripted_ask(s, "Add</think>4", &policy, NULL);
            const ew_candidate *candidate = only(&result);
            assert_null(strstr(candidate->thinking, "<"));
            assert_true(candidate->n_thinking_tokens <= budget);
            if (budget == n_thinking) {
                check_texts(candidate, "Add", "4");
                assert_int_equal(candidate->thinking_end, EW_THINKING_CLOSED);
            } else {
                assert_int_equal(candidate->thinking_end, EW_THINKING_BUDGET);
                assert_null(strstr(candidate->answer, "</think>"));
            }
            ew_answer_result_free(&result);
        }
        ew_answer_result_free(&whole);
    }
}

static void a_closing_of_ones_own_may_ask_for_the_answer(void **state) {
    scripted *s = *state;
    s->cut = CUT_BYTES;
    ew_policy policy = thinking_policy();
    policy.thinking_budget = 4;
    policy.closing = "\nTime is up.</think>\n\nThe answer is ";
    ew_answer_result result = scripted_ask(s, "Wond4.", &policy, NULL);
    check_texts(only(&result), "Wond", "The answer is 4.");
    ew_answer_result_free(&result);
    static const char *const bad[] = {"no tag", "</think></think>", "<think></think>", "\xff</think>", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ew_error error = {0};
        policy.closing = bad[i];
        assert_int_equal(scripted_try(s, "Wond", &policy, NULL, &result, &error), EW_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, "</think>"));
    }
}

static void the_answer_has_its_own_allowance(void **state) {
    scripted *s = *state;
    s->cut = CUT_BYTES;
    ew_policy policy = thinking_policy();
    policy.answer_tokens = 5;
    ew_answer_result result = scripted_ask(s, "A long thinking</think>123456789", &policy, NULL);
    check_texts(only(&result), "A long thinking", "12345");
    assert_int_equal(result.candidates[0].stop_reason, EW_STOP_LENGTH);
    assert_false(result.candidates[0].thinking_truncated);
    ew_answer_result_free(&result);
    policy.thinking_budget = 6; /* a cut thinking alone is no reason to stop */
    policy.answer_tokens = 100;
    result = scripted_ask(s, "A long thinking", &policy, NULL);
    assert_int_equal(only(&result)->stop_reason, EW_STOP_END);
    ew_answer_result_free(&result);
}

static void a_total_budget_keeps_a_quarter_for_the_answer(void **state) {
    scripted *s = *state;
    s->cut = CUT_BYTES;
    s->endless = true;
    for (size_t total = 20; total < 80; total += 7) {
        ew_policy policy = thinking_policy();
        policy.loop_length = 0;
        policy.total_budget = total;
        ew_answer_result result = scripted_ask(s, "Wandering about, ", &policy, NULL);
        const ew_candidate *candidate = only(&result);
        assert_int_equal(candidate->n_tokens, total);
        assert_int_equal(candidate->stop_reason, EW_STOP_LENGTH);
        assert_int_equal(candidate->thinking_end, EW_THINKING_BUDGET);
        assert_int_equal(candidate->n_answer_tokens, total / 4);
        ew_answer_result_free(&result);
    }
    s->endless = false;
}

/* A loop in the thinking otherwise burns the whole context and gives no answer. */
static void a_loop_is_cut_and_answered(void **state) {
    scripted *s = *state;
    s->cut = CUT_BYTES;
    s->endless = true;
    ew_policy policy = thinking_policy();
    policy.answer_tokens = 5;
    ew_answer_result result = scripted_ask(s, "Wait, let me check. ", &policy, NULL);
    const ew_candidate *candidate = only(&result);
    assert_int_equal(candidate->thinking_end, EW_THINKING_LOOP);
    assert_true(candidate->thinking_truncated);
    /* 24 tokens, four times, each beginning 20 or 40 tokens after the one before. */
    assert_int_equal(candidate->n_thinking_tokens, 3 * 40 + 24);
    assert_int_equal(candidate->n_answer_tokens, 5);
    ew_answer_result_free(&result);
    policy.loop_length = 0; /* off: the context ends it, and still an answer comes */
    result = scripted_ask(s, "Wait, let me check. ", &policy, NULL);
    candidate = only(&result);
    assert_int_equal(candidate->thinking_end, EW_THINKING_CONTEXT);
    assert_int_equal(candidate->n_answer_tokens, 5);
    assert_int_equal(candidate->stop_reason, EW_STOP_LENGTH);
    ew_answer_result_free(&result);
    policy.answer_tokens = EW_NO_LIMIT;
    result = scripted_ask(s, "Wait, let me check. ", &policy, NULL);
    candidate = only(&result);
    assert_int_equal(candidate->stop_reason, EW_STOP_CONTEXT);
    assert_true(candidate->n_answer_tokens > 100);
    ew_answer_result_free(&result);
    s->endless = false;
}

static void a_time_limit_cuts_the_thinking_first(void **state) {
    scripted *s = *state;
    s->cut = CUT_BYTES;
    s->endless = true;
    s->step_seconds = 1.0;
    ew_policy policy = thinking_policy();
    policy.loop_length = 0;
    policy.time_limit = 40.0;
    ew_answer_result result = scripted_ask(s, "Wondering ", &policy, NULL);
    const ew_candidate *candidate = only(&result);
    assert_int_equal(candidate->stop_reason, EW_STOP_TIME);
    assert_int_equal(candidate->thinking_end, EW_THINKING_TIME);
    assert_true(candidate->thinking_truncated);
    assert_true(candidate->n_thinking_tokens >= 25 && candidate->n_thinking_tokens <= 30);
    assert_true(candidate->n_answer_tokens >= 9 && candidate->n_answer_tokens <= 10);
    ew_answer_result_free(&result);
    s->step_seconds = 30.0; /* it is over while the prompt is read */
    policy.time_limit = 10.0;
    result = scripted_ask(s, "Wondering ", &policy, NULL);
    assert_int_equal(only(&result)->stop_reason, EW_STOP_TIME);
    assert_int_equal(result.candidates[0].n_answer_tokens, 0);
    ew_answer_result_free(&result);
    s->step_seconds = 0;
    s->endless = false;
}

static void a_stop_string_ends_the_answer_only(void **state) {
    scripted *s = *state;
    static const char *const stop[] = {"END"};
    ew_policy policy = thinking_policy();
    policy.stop = stop;
    policy.n_stop = 1;
    for (script_cut cut = CUT_WORDS; cut <= CUT_BYTES; cut++) {
        s->cut = cut;
        ew_answer_result result = scripted_ask(s, "WEND END we go</think>It is 4. END of it", &policy, NULL);
        check_texts(only(&result), "WEND END we go", "It is 4.");
        assert_int_equal(result.candidates[0].stop_reason, EW_STOP_STRING);
        ew_answer_result_free(&result);
    }
}

/* ---- Modes and policies ---- */

static void auto_without_a_switcher(void **state) {
    scripted *s = *state;
    ew_policy policy = EW_POLICY_INIT;
    s->cut = CUT_BYTES;
    ew_answer_result result = scripted_ask(s, "4", &policy, NULL); /* a model that thinks by itself */
    assert_true(result.thinks && !result.no_switcher);
    ew_answer_result_free(&result);
    s->source.thinks = false;
    result = scripted_ask(s, "4", &policy, NULL);
    assert_true(!result.thinks && result.no_switcher);
    assert_true(isnan(result.probability));
    ew_answer_result_free(&result);
    policy.mode = EW_MODE_OFF;
    result = scripted_ask(s, "4", &policy, NULL);
    assert_true(!result.thinks && !result.no_switcher);
    ew_answer_result_free(&result);
    s->source.thinks = true;
}

static void refuse(scripted *s, const ew_policy *policy, ew_status status, const char *sentence) {
    ew_answer_result result;
    ew_error error = {0};
    assert_int_equal(scripted_try(s, "4", policy, NULL, &result, &error), status);
    if (!strstr(error.message, sentence)) {
        fail_msg("\"%s\" is not in \"%s\"", sentence, error.message);
    }
    assert_null(result.candidates);
}

static void policies_that_cannot_be_satisfied(void **state) {
    scripted *s = *state;
    ew_policy policy = thinking_policy();
    policy.thinking_budget = 0;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "contradicts mode on");
    policy = thinking_policy();
    policy.total_budget = 3;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "total budget of 3");
    policy = thinking_policy();
    policy.streams = 2;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "temperature");
    policy.sampling.temperature = 0.5f;
    policy.vote = EW_VOTE_BEST;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "verifier");
    policy.vote = EW_VOTE_WEIGHTED;
    policy.streams = 0;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "verifier");
    policy.streams = 100000;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "1 to 1024");
    policy = thinking_policy();
    policy.answer_tokens = 0;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "at least 1");
    policy = thinking_policy();
    policy.time_limit = NAN;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "time limit");
    policy = thinking_policy();
    policy.loop_repeats = 1;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "loop");
    policy = thinking_policy();
    policy.mode = (ew_mode)7;
    refuse(s, &policy, EW_ERROR_ARGUMENT, "mode 7");
    s->source.thinks = false;
    policy = thinking_policy();
    refuse(s, &policy, EW_ERROR_ARGUMENT, "needs an adapter");
    s->source.thinks = true;
}

static void streams_beyond_the_memory_are_refused(void **state) {
    (void)state;
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    ew_model_info info = {.size = sizeof info};
    scripted s;
    scripted_open(&s, NULL);
    ew_model_describe(s.model, &info);
    ew_session_close(s.session);
    options.n_threads = 1;
    options.kv_bytes = info.kv_bytes_per_token * 32 * 12; /* 12 pages */
    EW_ASSERT_OK(ew_session_open(s.model, &options, &s.session, error));
    s.source.session = s.session;
    ew_policy policy = thinking_policy();
    policy.sampling.temperature = 0.5f;
    policy.streams = 8;
    policy.thinking_budget = 64;
    policy.answer_tokens = 32;
    refuse(&s, &policy, EW_ERROR_ARGUMENT, "would");
    policy.streams = 2;
    ew_answer_result result = scripted_ask(&s, "We add</think>4", &policy, NULL);
    assert_int_equal(result.n_candidates, 2);
    ew_answer_result_free(&result);
    /* Without budgets it is not known beforehand: the last stream makes room for the others. */
    policy.thinking_budget = policy.answer_tokens = EW_NO_LIMIT;
    policy.loop_length = 0;
    policy.streams = 3;
    s.endless = true;
    result = scripted_ask(&s, "We wander ", &policy, NULL);
    assert_int_equal(result.candidates[2].stop_reason, EW_STOP_CONTEXT);
    assert_true(result.candidates[0].n_tokens > result.candidates[1].n_tokens);
    assert_true(result.candidates[1].n_tokens > result.candidates[2].n_tokens);
    ew_answer_result_free(&result);
    scripted_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thinking_and_answer_are_told_apart_however_tokens_are_cut),
        cmocka_unit_test(tags_that_are_tokens),
        cmocka_unit_test(an_answer_cannot_reopen_its_thinking),
        cmocka_unit_test(callbacks_get_all_of_both_texts),
        cmocka_unit_test(a_callback_or_a_cancel_ends_the_answer),
        cmocka_unit_test(a_thinking_budget_ends_in_an_answer),
        cmocka_unit_test(a_cut_in_a_closing_tag),
        cmocka_unit_test(a_closing_of_ones_own_may_ask_for_the_answer),
        cmocka_unit_test(the_answer_has_its_own_allowance),
        cmocka_unit_test(a_total_budget_keeps_a_quarter_for_the_answer),
        cmocka_unit_test(a_loop_is_cut_and_answered),
        cmocka_unit_test(a_time_limit_cuts_the_thinking_first),
        cmocka_unit_test(a_stop_string_ends_the_answer_only),
        cmocka_unit_test(auto_without_a_switcher),
        cmocka_unit_test(policies_that_cannot_be_satisfied),
        cmocka_unit_test(streams_beyond_the_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, scripted_setup, scripted_teardown);
}
