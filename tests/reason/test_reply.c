/* Replies: turns that reuse the cache equal fresh sessions; stop strings, UTF-8, limits, dropped turns, cancelling. */
#include "running.h"

#include "base/buffer.h"
#include "base/utf8.h"
#include "model/synthetic.h"
#include "quant/quantize.h"
#include "reason/stop_strings.h"

#include <unistd.h>

enum { TURNS = 5 };

static ew_model *open_golden(const char *name, bool quantized) {
    char relative[128], path[1024], file[] = "/tmp/ew-reply-XXXXXX";
    snprintf(relative, sizeof relative, "goldens/models/%s", name);
    assert_non_null(ew_test_shared(relative, path, sizeof path));
    if (!quantized) {
        return open_test_model(path, EW_WEIGHTS_F32, EW_KV_AUTO);
    }
    close(mkstemp(file));
    ew_quantize_options options = ew_quantize_default_options();
    EW_ASSERT_OK(ew_quantize(path, file, &options, NULL, error));
    ew_model *model = open_test_model(file, EW_WEIGHTS_AUTO, EW_KV_AUTO);
    unlink(file);
    return model;
}

static ew_reply_options sampled(size_t max_tokens) {
    ew_reply_options options = EW_REPLY_OPTIONS_INIT;
    options.sampling.temperature = 0.9f;
    options.sampling.repetition_penalty = 1.1f;
    options.sampling.seed = 11;
    options.max_tokens = max_tokens;
    return options;
}

static ew_stream *open_stream(const ew_model *model, size_t context, ew_session **session) {
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    options.n_threads = 2;
    options.context_length = context;
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_session_open(model, &options, session, error));
    EW_ASSERT_OK(ew_stream_open(*session, &stream, error));
    return stream;
}

static uint64_t evaluated(const ew_session *session) {
    ew_session_info info = {.size = sizeof info};
    ew_session_describe(session, &info);
    return info.n_evaluated;
}

static void check_chat(const char *name, bool quantized) {
    static const char *const questions[TURNS] = {"Hello!", "What is 2 + 2?", "And \xc3\xa9t\xc3\xa9?", "Why?", "Bye."};
    ew_model *model = open_golden(name, quantized);
    ew_session *session;
    ew_stream *stream = open_stream(model, 0, &session);
    ew_reply_options options = sampled(14);
    ew_message messages[2 * TURNS];
    ew_reply replies[TURNS];
    for (size_t turn = 0; turn < TURNS; turn++) {
        messages[2 * turn] = (ew_message){"user", questions[turn], strlen(questions[turn])};
        uint64_t before = evaluated(session);
        EW_ASSERT_OK(ew_reply_to(stream, messages, 2 * turn + 1, &options, &replies[turn], error));
        const ew_reply *reply = &replies[turn];
        bool fed_last = reply->stop_reason == EW_STOP_CONTEXT;
        assert_int_equal(evaluated(session) - before,
                         reply->n_prompt_tokens - reply->n_cached_tokens + reply->n_tokens - !fed_last);
        if (turn > 0) {
            assert_true(reply->n_cached_tokens >= replies[turn - 1].n_prompt_tokens);
        }
        ew_session *fresh_session;
        ew_stream *fresh = open_stream(model, 0, &fresh_session);
        ew_reply again;
        EW_ASSERT_OK(ew_reply_to(fresh, messages, 2 * turn + 1, &options, &again, error));
        assert_int_equal(again.n_cached_tokens, 0);
        assert_int_equal(again.n_tokens, reply->n_tokens);
        assert_memory_equal(again.tokens, reply->tokens, reply->n_tokens * sizeof *reply->tokens);
        assert_string_equal(again.text, reply->text);
        ew_reply_free(&again);
        ew_session_close(fresh_session);
        messages[2 * turn + 1] = (ew_message){"assistant", reply->text, reply->length};
    }
    for (size_t turn = 0; turn < TURNS; turn++) {
        ew_reply_free(&replies[turn]);
    }
    ew_session_close(session);
    ew_model_close(model);
}

static void five_turns_equal_fresh_sessions(void **state) {
    (void)state;
    check_chat("qwen2-tiny", true);
    check_chat("qwen3-tiny", true);
    check_chat("llama-tiny", true);
    check_chat("qwen2-tiny", false);
}

/* An adapter that comes and goes between turns: every turn gives what a fresh session gives, and the prompt of the one
 * before is kept, but for a reply that an adapter wrote. */
static void adapters_change_between_turns(void **state) {
    (void)state;
    static const char question[] = "What is 2 + 2?";
    static const bool adapted[TURNS] = {true, false, true, true, false};
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        ew_model *model = open_golden("qwen2-tiny", true);
        ew_adapter *adapter = NULL;
        EW_ASSERT_OK(ew_synthetic_adapter(model, 8, 3, EW_ADAPTER_INT8, &adapter, error));
        ew_session *session, *fresh_session;
        ew_stream *stream = open_stream(model, 0, &session);
        ew_reply_options options = sampled(9);
        options.adapter_everywhere = everywhere;
        ew_message messages[2 * TURNS];
        ew_reply replies[TURNS];
        for (size_t turn = 0; turn < TURNS; turn++) {
            const ew_adapter *now = adapted[turn] ? adapter : NULL;
            ew_reply again, *reply = &replies[turn];
            messages[2 * turn] = (ew_message){"user", question, sizeof question - 1};
            EW_ASSERT_OK(ew_stream_set_adapter(stream, now, error));
            EW_ASSERT_OK(ew_reply_to(stream, messages, 2 * turn + 1, &options, reply, error));
            ew_stream *fresh = open_stream(model, 0, &fresh_session);
            EW_ASSERT_OK(ew_stream_set_adapter(fresh, now, error));
            EW_ASSERT_OK(ew_reply_to(fresh, messages, 2 * turn + 1, &options, &again, error));
            assert_int_equal(again.n_tokens, reply->n_tokens);
            assert_memory_equal(again.tokens, reply->tokens, reply->n_tokens * sizeof *reply->tokens);
            size_t base = ew_stream_base_length(stream);
            assert_true(!adapted[turn] ? base == ew_stream_length(stream)
                        : everywhere   ? base == 0
                                       : base > 0 && base < reply->n_prompt_tokens);
            if (turn > 0 && !everywhere) { /* all but the header and the reply after it */
                assert_true(reply->n_cached_tokens + 8 > replies[turn - 1].n_prompt_tokens);
                assert_true(!adapted[turn - 1] || reply->n_cached_tokens < replies[turn - 1].n_prompt_tokens);
            }
            ew_reply_free(&again);
            ew_session_close(fresh_session);
            messages[2 * turn + 1] = (ew_message){"assistant", reply->text, reply->length};
        }
        for (size_t turn = 0; turn < TURNS; turn++) {
            ew_reply_free(&replies[turn]);
        }
        ew_session_close(session);
        ew_adapter_unload(adapter);
        ew_model_close(model);
    }
}

/* ---- What callbacks see ---- */

typedef struct listener {
    ew_buffer text;
    size_t calls, most_calls;
    size_t prompt_done, prompt_total;
} listener;

static bool listen(void *context, const char *text, size_t length) {
    listener *l = context;
    assert_true(length > 0);
    assert_int_equal(ew_utf8_valid_prefix(text, length), length);
    ew_buffer_append(&l->text, text, length);
    return ++l->calls < l->most_calls;
}

static void watch_prompt(void *context, size_t done, size_t total) {
    listener *l = context;
    l->prompt_done = done;
    l->prompt_total = total;
}

static ew_reply ask(ew_stream *stream, const char *question, ew_reply_options *options, listener *l) {
    const ew_message message = {"user", question, strlen(question)};
    ew_reply reply;
    options->on_text = listen;
    options->on_prompt = watch_prompt;
    options->context = l;
    EW_ASSERT_OK(ew_reply_to(stream, &message, 1, options, &reply, error));
    return reply;
}

static void callbacks_get_all_of_the_text(void **state) {
    (void)state;
    ew_model *model = open_golden("qwen2-tiny", true);
    ew_session *session;
    ew_stream *stream = open_stream(model, 0, &session);
    for (uint64_t seed = 0; seed < 10; seed++) {
        ew_reply_options options = sampled(60); /* random bytes: much broken UTF-8 */
        options.sampling.seed = seed;
        listener l = {.most_calls = SIZE_MAX};
        ew_reply reply = ask(stream, "Tell me.", &options, &l);
        assert_int_equal(l.text.length, reply.length);
        if (reply.length > 0) {
            assert_memory_equal(l.text.data, reply.text, reply.length);
        }
        assert_int_equal(l.prompt_done, reply.n_prompt_tokens);
        assert_int_equal(l.prompt_total, reply.n_prompt_tokens);
        assert_true(reply.stop_reason == EW_STOP_LENGTH || reply.stop_reason == EW_STOP_END);
        ew_reply_free(&reply);
        ew_buffer_free(&l.text);
    }
    ew_session_close(session);
    ew_model_close(model);
}

static void a_stop_string_cuts_the_reply(void **state) {
    (void)state;
    ew_model *model = open_golden("qwen2-tiny", true);
    ew_session *session;
    ew_stream *stream = open_stream(model, 0, &session);
    ew_reply_options options = sampled(60);
    listener l = {.most_calls = SIZE_MAX};
    ew_reply whole = ask(stream, "Tell me.", &options, &l);
    assert_true(whole.length > 30);
    size_t from = 20, to = 26; /* at borders of characters */
    while ((whole.text[from] & 0xc0) == 0x80) {
        from++;
    }
    while ((whole.text[to] & 0xc0) == 0x80) {
        to++;
    }
    char stop[16] = {0};
    memcpy(stop, whole.text + from, to - from);
    size_t wanted = (size_t)(strstr(whole.text, stop) - whole.text);
    const char *stops[] = {"no such string", stop};
    options.stop = stops;
    options.n_stop = 2;
    listener cut = {.most_calls = SIZE_MAX};
    ew_reply reply = ask(stream, "Tell me.", &options, &cut);
    assert_int_equal(reply.stop_reason, EW_STOP_STRING);
    assert_int_equal(reply.length, wanted);
    assert_memory_equal(reply.text, whole.text, wanted);
    assert_int_equal(cut.text.length, wanted);
    ew_buffer_free(&l.text);
    ew_buffer_free(&cut.text);
    ew_reply_free(&whole);
    ew_reply_free(&reply);
    ew_session_close(session);
    ew_model_close(model);
}

static void bad_stop_strings_are_refused(void **state) {
    (void)state;
    ew_model *model = open_golden("qwen2-tiny", false);
    ew_session *session;
    ew_stream *stream = open_stream(model, 0, &session);
    const ew_message message = {"user", "Hello!", 6};
    static const char *const bad[] = {"", "\x9f"};
    for (size_t i = 0; i < 2; i++) {
        ew_reply_options options = sampled(3);
        options.stop = &bad[i];
        options.n_stop = 1;
        ew_reply reply;
        assert_int_equal(ew_reply_to(stream, &message, 1, &options, &reply, NULL), EW_ERROR_ARGUMENT);
    }
    ew_session_close(session);
    ew_model_close(model);
}

static void what_may_begin_a_stop_string_is_held_back(void **state) {
    (void)state;
    const char *stops[] = {"abcd", "bx"};
    size_t at;
    assert_int_equal(ew_safe_length("xxabc", 5, stops, 2), 2);
    assert_int_equal(ew_safe_length("xxb", 3, stops, 2), 2);
    assert_int_equal(ew_safe_length("xxc", 3, stops, 2), 3);
    assert_int_equal(ew_safe_length("", 0, stops, 2), 0);
    assert_int_equal(ew_safe_length("a", 1, stops, 2), 0);
    assert_true(ew_find_stop("xxabxbcd", 8, 0, stops, 2, &at));
    assert_int_equal(at, 3);
    assert_true(ew_find_stop("xxabcd", 6, 5, stops, 2, &at));
    assert_int_equal(at, 2);
    assert_false(ew_find_stop("xxabc", 5, 0, stops, 2, &at));
}

static void a_callback_can_end_the_reply(void **state) {
    (void)state;
    ew_model *model = open_golden("llama-tiny", true);
    ew_session *session;
    ew_stream *stream = open_stream(model, 0, &session);
    ew_reply_options options = sampled(60);
    listener l = {.most_calls = 3};
    ew_reply reply = ask(stream, "Tell me.", &options, &l);
    assert_int_equal(reply.stop_reason, EW_STOP_CANCELLED);
    assert_int_equal(l.calls, 3);
    ew_buffer_free(&l.text);
    ew_reply_free(&reply);

    ew_session_cancel(session);
    listener none = {.most_calls = SIZE_MAX};
    reply = ask(stream, "Tell me more.", &options, &none);
    assert_int_equal(reply.stop_reason, EW_STOP_CANCELLED);
    assert_int_equal(reply.n_tokens, 0);
    assert_string_equal(reply.text, "");
    ew_reply_free(&reply);
    ew_session_close(session);
    ew_model_close(model);
}

/* ---- Limits ---- */

static void old_turns_make_way_but_never_the_system_message(void **state) {
    (void)state;
    ew_model *model = open_golden("qwen2-tiny", true);
    ew_session *session;
    ew_stream *stream = open_stream(model, 120, &session);
    ew_message messages[21] = {{"system", "Be brief.", 9}};
    for (size_t i = 1; i < 21; i++) {
        messages[i] = i % 2 ? (ew_message){"user", "one two three", 13} : (ew_message){"assistant", "four five", 9};
    }
    ew_reply_options options = sampled(10);
    ew_reply reply, wanted;
    EW_ASSERT_OK(ew_reply_to(stream, messages, 20, &options, &reply, error));
    size_t dropped = reply.n_dropped_messages;
    assert_true(dropped > 0 && dropped % 2 == 0 && dropped < 19);
    assert_true(reply.n_prompt_tokens + 10 <= 120);

    /* the same as if the caller had left them out */
    messages[dropped] = messages[0];
    EW_ASSERT_OK(ew_reply_to(stream, messages + dropped, 20 - dropped, &options, &wanted, error));
    assert_int_equal(wanted.n_dropped_messages, 0);
    assert_int_equal(wanted.n_tokens, reply.n_tokens);
    assert_memory_equal(wanted.tokens, reply.tokens, reply.n_tokens * sizeof *reply.tokens);
    ew_reply_free(&wanted);
    ew_reply_free(&reply);

    static const char longer[400] = {0};
    char text[400];
    memset(text, 'q', sizeof longer);
    const ew_message too_long = {"user", text, sizeof text};
    ew_error error;
    assert_int_equal(ew_reply_to(stream, &too_long, 1, &options, &reply, &error), EW_ERROR_CONTEXT);
    assert_non_null(strstr(error.message, "120"));
    ew_session_close(session);
    ew_model_close(model);
}

static void a_full_context_ends_the_reply(void **state) {
    (void)state;
    ew_model *model = open_golden("qwen2-tiny", true);
    ew_session *session;
    ew_stream *stream = open_stream(model, 64, &session);
    ew_reply reply;
    for (uint64_t seed = 0;; seed++) { /* until one does not end by itself */
        ew_reply_options options = sampled(0);
        options.sampling.seed = seed;
        const ew_message message = {"user", "Go on.", 6};
        EW_ASSERT_OK(ew_reply_to(stream, &message, 1, &options, &reply, error));
        if (reply.stop_reason != EW_STOP_END) {
            break;
        }
        ew_reply_free(&reply);
        assert_true(seed < 100);
    }
    assert_int_equal(reply.stop_reason, EW_STOP_CONTEXT);
    assert_int_equal(reply.n_prompt_tokens + reply.n_tokens, 65); /* the last one drawn is not fed */
    ew_reply_free(&reply);
    ew_session_close(session);
    ew_model_close(model);
}

static void log_probabilities_are_those_of_the_logits(void **state) {
    (void)state;
    ew_model *model = open_golden("qwen2-tiny", true);
    ew_session *session;
    ew_stream *stream = open_stream(model, 0, &session), *check = NULL;
    size_t vocab = vocab_size_of(model);
    const int32_t prompt[] = {1, 2, 3};
    ew_reply_options options = sampled(8);
    options.log_probabilities = true;
    options.sampling.top_k = 5;
    ew_reply reply;
    EW_ASSERT_OK(ew_continue(stream, prompt, 3, &options, &reply, error));
    EW_ASSERT_OK(ew_stream_open(session, &check, error));
    float *logits = calloc(3 * vocab, sizeof *logits);
    run_ids(session, check, prompt, 3, logits, NULL);
    const float *last = logits + 2 * vocab;
    for (size_t i = 0; i < reply.n_tokens; i++) {
        double sum = 0;
        for (size_t v = 0; v < vocab; v++) {
            sum += exp((double)last[v] / (double)options.sampling.temperature);
        }
        double wanted = (double)last[reply.tokens[i]] / (double)options.sampling.temperature - log(sum);
        assert_true(fabs((double)reply.log_probabilities[i] - wanted) < 1e-5);
        run_ids(session, check, &reply.tokens[i], 1, logits, NULL);
        last = logits;
    }
    free(logits);
    ew_reply_free(&reply);
    ew_session_close(session);
    ew_model_close(model);
}

/* A weight that is not a number: the reply ends with one sentence. */
static void a_model_that_is_not_a_number_says_so(void **state) {
    (void)state;
    char from[1024], folder[] = "/tmp/ew-nan-XXXXXX", command[4096], file[1200];
    assert_non_null(ew_test_shared("goldens/models/qwen2-tiny", from, sizeof from));
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "cp %s/*.json %s/ && cp %s/model.safetensors %s/", from, folder, from, folder);
    assert_int_equal(system(command), 0);
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    FILE *weights = fopen(file, "r+b");
    const float bad = NAN;
    fseek(weights, -4, SEEK_END);
    assert_int_equal(fwrite(&bad, sizeof bad, 1, weights), 1);
    fclose(weights);
    ew_model *model = open_test_model(folder, EW_WEIGHTS_F32, EW_KV_AUTO);
    ew_session *session;
    ew_stream *stream = open_stream(model, 0, &session);
    const ew_message message = {"user", "Hello!", 6};
    ew_reply reply;
    ew_error error;
    assert_int_equal(ew_reply_to(stream, &message, 1, NULL, &reply, &error), EW_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "not a number"));
    assert_null(reply.text);
    ew_session_close(session);
    ew_model_close(model);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_turns_equal_fresh_sessions),
        cmocka_unit_test(adapters_change_between_turns),
        cmocka_unit_test(callbacks_get_all_of_the_text),
        cmocka_unit_test(a_stop_string_cuts_the_reply),
        cmocka_unit_test(bad_stop_strings_are_refused),
        cmocka_unit_test(what_may_begin_a_stop_string_is_held_back),
        cmocka_unit_test(a_callback_can_end_the_reply),
        cmocka_unit_test(old_turns_make_way_but_never_the_system_message),
        cmocka_unit_test(a_full_context_ends_the_reply),
        cmocka_unit_test(log_probabilities_are_those_of_the_logits),
        cmocka_unit_test(a_model_that_is_not_a_number_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
