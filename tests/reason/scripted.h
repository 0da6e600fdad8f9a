/* A model that says what the test wants: the tiny golden qwen2 runs underneath (cells, memory, counters are real), and
 * its logits are overwritten so that each candidate draws the tokens of its script. */
#ifndef EW_TEST_SCRIPTED_H
#define EW_TEST_SCRIPTED_H

#include "running.h"

#include "reason/answer.h"
#include "text/reply_parts.h"

#include <math.h>

enum { SCRIPTED_MOST = 16 };

/* How a script's text becomes tokens: as the tokenizer says, or byte by byte. */
typedef enum script_cut { CUT_WORDS, CUT_BYTES } script_cut;

typedef struct scripted {
    ew_model *model;
    ew_session *session;
    ew_source source;
    const char
        *says[SCRIPTED_MOST]; /* of each candidate; all begin with the same byte. NULL: what the one before says */
    script_cut cut;
    bool endless;        /* the script begins anew at its end instead of ending the turn */
    double step_seconds; /* that a call of evaluate takes */
    double seconds;
    size_t n_calls, most_batch, most_bytes; /* streams in a batch; KV bytes held after a call */
    size_t cancel_at;                       /* the call that is cancelled; 0: none */
    double first_hidden[SCRIPTED_MOST];     /* of each candidate: hidden[0] of its tokens, the others are 0 */
    bool overwrites_hidden;
    const ew_stream *streams[SCRIPTED_MOST];
    ew_tokens scripts[SCRIPTED_MOST];
    size_t drawn[SCRIPTED_MOST];
    size_t n_begun;
} scripted;

static void encode_script(scripted *s, size_t index) {
    const ew_tokenizer *tokenizer = s->model->tokenizer;
    const char *text = NULL;
    for (size_t i = 0; i <= index; i++) {
        text = s->says[i] ? s->says[i] : text;
    }
    ew_tokens *out = &s->scripts[index];
    size_t length = strlen(text), first = s->cut == CUT_WORDS ? 1 : length;
    out->count = 0;
    for (size_t i = 0; i < first; i++) { /* the first byte by itself: all candidates have it */
        EW_ASSERT_OK(ew_tokenizer_encode(tokenizer, text + i, 1, EW_ENCODE_TEXT, out, error));
    }
    if (length > first) {
        EW_ASSERT_OK(ew_tokenizer_encode(tokenizer, text + first, length - first, EW_ENCODE_TEXT, out, error));
    }
}

static int32_t next_token(scripted *s, size_t index) {
    const ew_tokens *script = &s->scripts[index];
    size_t at = s->drawn[index]++;
    if (at >= script->count) {
        return s->endless ? script->ids[at % script->count] : s->model->chat_template.turn_end;
    }
    return script->ids[at];
}

static size_t candidate_of(const scripted *s, const ew_stream *stream) {
    for (size_t i = s->n_begun; i > 0; i--) { /* the address of one that is closed may come again */
        if (s->streams[i - 1] == stream) {
            return i - 1;
        }
    }
    return SIZE_MAX;
}

static ew_status scripted_evaluate(void *self, const ew_input *inputs, size_t n_inputs, float *logits, float *hidden,
                                   ew_error *error) {
    scripted *s = self;
    size_t vocab_size = s->model->config.vocab_size, d_model = s->model->config.d_model, row = 0;
    if (++s->n_calls == s->cancel_at) {
        ew_session_cancel(s->session);
    }
    s->seconds += s->step_seconds;
    ew_status status = ew_evaluate(s->session, inputs, n_inputs, logits, hidden, error);
    size_t n_wanted = 0;
    for (size_t i = 0; status == EW_OK && i < n_inputs; i++) {
        size_t index = candidate_of(s, inputs[i].stream);
        for (size_t k = 0; hidden && s->overwrites_hidden && k < d_model; k++) {
            hidden[i * d_model + k] = k == 0 && index != SIZE_MAX ? (float)s->first_hidden[index] : 0.0f;
        }
        if (!inputs[i].wants_logits) {
            continue;
        }
        n_wanted++;
        float *here = logits + row++ * vocab_size;
        for (size_t k = 0; k < vocab_size; k++) {
            here[k] = 0.0f;
        }
        here[index == SIZE_MAX ? s->scripts[0].ids[0] : next_token(s, index)] = 90.0f;
    }
    ew_session_info info = {.size = sizeof info};
    ew_session_describe(s->session, &info);
    s->most_bytes = info.kv_bytes > s->most_bytes ? info.kv_bytes : s->most_bytes;
    s->most_batch = n_wanted > s->most_batch ? n_wanted : s->most_batch;
    return status;
}

static double scripted_now(void *self) {
    return ((const scripted *)self)->seconds;
}

/* The first token was drawn from the trunk's logits. */
static void scripted_begin(void *self, const ew_stream *stream, size_t index) {
    scripted *s = self;
    assert_true(index < SCRIPTED_MOST);
    s->streams[index] = stream;
    s->drawn[index] = 1;
    s->n_begun = index + 1;
    encode_script(s, index);
}

static void scripted_open(scripted *s, const ew_session_options *given) {
    char path[1024];
    *s = (scripted){.cut = CUT_WORDS};
    assert_non_null(ew_test_shared("goldens/models/qwen2-tiny", path, sizeof path));
    s->model = open_test_model(path, EW_WEIGHTS_F32, EW_KV_AUTO);
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    options = given ? *given : options;
    options.n_threads = 1;
    EW_ASSERT_OK(ew_session_open(s->model, &options, &s->session, error));
    s->source = (ew_source){.self = s,
                            .session = s->session,
                            .thinks = true,
                            .evaluate = scripted_evaluate,
                            .now = scripted_now,
                            .begin = scripted_begin};
}

static void scripted_close(scripted *s) {
    for (size_t i = 0; i < SCRIPTED_MOST; i++) {
        ew_tokens_free(&s->scripts[i]);
    }
    ew_session_close(s->session);
    ew_model_close(s->model);
}

/* Asks with what candidate 0 (and all others without a script of their own) says. */
static ew_status scripted_try(scripted *s, const char *says, const ew_policy *policy,
                              const ew_answer_callbacks *callbacks, ew_answer_result *result, ew_error *error) {
    const ew_message question = {"user", "How much is it?", 15};
    s->says[0] = says ? says : s->says[0];
    s->n_begun = 0;
    encode_script(s, 0);
    return ew_answer_from(&s->source, &question, 1, policy, callbacks, result, error);
}

static ew_answer_result scripted_ask(scripted *s, const char *says, const ew_policy *policy,
                                     const ew_answer_callbacks *callbacks) {
    ew_answer_result result;
    EW_ASSERT_OK(scripted_try(s, says, policy, callbacks, &result, error));
    return result;
}

static inline ew_policy thinking_policy(void) {
    ew_policy policy = EW_POLICY_INIT;
    policy.mode = EW_MODE_ON;
    return policy;
}

static inline uint64_t evaluated(const ew_session *session) {
    ew_session_info info = {.size = sizeof info};
    ew_session_describe(session, &info);
    return info.n_evaluated;
}

static inline size_t kv_bytes(const ew_session *session) {
    ew_session_info info = {.size = sizeof info};
    ew_session_describe(session, &info);
    return info.kv_bytes;
}

/* One for a group of tests. */
static int scripted_setup(void **state) {
    static scripted s;
    scripted_open(&s, NULL);
    *state = &s;
    return 0;
}

static int scripted_teardown(void **state) {
    scripted_close(*state);
    return 0;
}

#endif
