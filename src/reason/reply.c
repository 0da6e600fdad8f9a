/* One reply: prefill what the stream does not hold, then draw, show and feed tokens until something ends it. */
#include "base/memory.h"
#include "model/model.h"
#include "model/options.h"
#include "reason/conversation.h"
#include "reason/prefix.h"
#include "reason/sampler.h"
#include "reason/stop_strings.h"

#include <stdlib.h>
#include <string.h>

typedef struct generation {
    ew_stream *stream;
    ew_session *session;
    const ew_model *model;
    const ew_reply_options *options;
    ew_sampler sampler;
    float *logits; /* [vocab_size]: after the last token of the stream */
    ew_detokenizer detokenizer;
    ew_buffer text;
    size_t shown; /* bytes of text that on_text has had */
    ew_reply *reply;
    size_t token_capacity, log_capacity;
    bool ended;
} generation;

const char *ew_stop_reason_name(ew_stop_reason reason) {
    static const char *const names[] = {"stop",      "string", "length", "context",
                                        "cancelled", "time",   "decided"};
    return (size_t)reason < sizeof names / sizeof *names ? names[reason] : "unknown";
}

static void end(generation *g, ew_stop_reason reason) {
    g->ended = true;
    g->reply->stop_reason = reason;
}

/* ---- Prompt ---- */

/* Keeps the cells of the longest common prefix, evaluates the rest. The last token is always evaluated: its logits
 * are where the reply begins. */
static ew_status prefill(generation *g, const int32_t *tokens, size_t n_tokens, ew_error *error) {
    const ew_source source = ew_engine_source(g->session);
    size_t done = ew_stream_common_prefix(g->stream, tokens, n_tokens);
    done = done == n_tokens ? n_tokens - 1 : done;
    ew_stream_truncate(g->stream, done);
    g->reply->n_prompt_tokens = n_tokens;
    g->reply->n_cached_tokens = done;
    for (size_t i = 0; i < n_tokens; i++) {
        ew_sampler_see(&g->sampler, tokens[i]);
    }
    while (done < n_tokens) {
        size_t n = n_tokens - done < g->session->chunk ? n_tokens - done : g->session->chunk;
        bool last = done + n == n_tokens;
        ew_status status = ew_feed_tokens(&source, g->stream, tokens + done, n, last ? g->logits : NULL, NULL, error);
        if (status != EW_OK) {
            return status;
        }
        done += n;
        if (g->options->on_prompt) {
            g->options->on_prompt(g->options->context, done, n_tokens);
        }
    }
    return EW_OK;
}

/* ---- Text ---- */

/* Shows what has become certain: all of it at the end, else not the possible beginning of a stop string. */
static void show(generation *g) {
    size_t safe = g->text.length;
    if (!g->ended) {
        safe = ew_safe_length(g->text.data, g->text.length, g->options->stop, g->options->n_stop);
    }
    if (safe > g->shown && g->options->on_text &&
        !g->options->on_text(g->options->context, g->text.data + g->shown, safe - g->shown) && !g->ended) {
        end(g, EW_STOP_CANCELLED);
    }
    g->shown = safe > g->shown ? safe : g->shown;
}

static void look_for_stop(generation *g, size_t from) {
    size_t at;
    if (ew_find_stop(g->text.data, g->text.length, from, g->options->stop, g->options->n_stop, &at)) {
        g->text.length = at;
        g->text.data[at] = '\0';
        end(g, EW_STOP_STRING);
    }
}

static ew_status add_text(generation *g, int32_t token, ew_error *error) {
    size_t before = g->text.length;
    if (ew_tokenizer_is_special(g->model->tokenizer, token)) {
        return EW_OK; /* a control token is no text */
    }
    ew_status status = ew_detokenizer_feed(&g->detokenizer, g->model->tokenizer, token, &g->text, error);
    if (status == EW_OK && g->text.length > before) {
        look_for_stop(g, before);
        show(g);
    }
    return status;
}

/* ---- Tokens ---- */

static ew_status record(generation *g, int32_t token, ew_error *error) {
    ew_reply *reply = g->reply;
    if (!ew_grow((void **)&reply->tokens, &g->token_capacity, reply->n_tokens + 1, sizeof *reply->tokens) ||
        (g->options->log_probabilities && !ew_grow((void **)&reply->log_probabilities, &g->log_capacity,
                                                   reply->n_tokens + 1, sizeof *reply->log_probabilities))) {
        return ew_fail_memory(error, reply->n_tokens * sizeof *reply->tokens, "the reply's tokens");
    }
    if (g->options->log_probabilities) {
        reply->log_probabilities[reply->n_tokens] =
            (float)ew_log_probability(g->logits, g->model->config.vocab_size, g->options->sampling.temperature, token);
    }
    reply->tokens[reply->n_tokens++] = token;
    ew_sampler_see(&g->sampler, token);
    return EW_OK;
}

/* Draws one token and does with it what it asks for; feeds it if the reply goes on. */
static ew_status advance(generation *g, ew_error *error) {
    int32_t token;
    ew_status status = ew_sampler_draw(&g->sampler, g->logits, 0, g->stream->length, &token, error);
    if (status == EW_OK) {
        status = record(g, token, error);
    }
    if (status != EW_OK) {
        return status;
    }
    if (ew_model_ends_reply(g->model, token)) {
        end(g, EW_STOP_END);
        return EW_OK;
    }
    status = add_text(g, token, error);
    if (status != EW_OK || g->ended) {
        return status;
    }
    if (g->options->max_tokens > 0 && g->reply->n_tokens >= g->options->max_tokens) {
        end(g, EW_STOP_LENGTH);
        return EW_OK;
    }
    if (g->stream->length >= g->session->context_length) {
        end(g, EW_STOP_CONTEXT);
        return EW_OK;
    }
    const ew_input input = {.stream = g->stream, .token = token, .wants_logits = true};
    return ew_evaluate(g->session, &input, 1, g->logits, NULL, error);
}

/* The end of the text: a character that was cut, a held-back beginning of a stop string. */
static ew_status finish_text(generation *g, ew_error *error) {
    ew_status status = EW_OK;
    g->ended = true;
    if (g->reply->stop_reason != EW_STOP_STRING) {
        status = ew_detokenizer_finish(&g->detokenizer, &g->text, error);
    }
    if (status == EW_OK) {
        ew_buffer_append(&g->text, "", 0);
        show(g);
        if (g->text.failed) {
            status = ew_fail_memory(error, g->text.length, "the reply's text");
        }
    }
    return status;
}

static ew_status run(generation *g, const int32_t *tokens, size_t n_tokens, ew_error *error) {
    double start = ew_seconds();
    ew_status status = prefill(g, tokens, n_tokens, error);
    double prefilled = ew_seconds();
    while (status == EW_OK && !g->ended) {
        status = advance(g, error);
    }
    if (status == EW_ERROR_CANCELLED) {
        end(g, EW_STOP_CANCELLED);
        status = EW_OK;
    }
    if (status == EW_OK) {
        status = finish_text(g, error);
    }
    g->reply->prompt_seconds = prefilled - start;
    g->reply->reply_seconds = ew_seconds() - prefilled;
    return status;
}

static ew_status generate(ew_stream *stream, const int32_t *tokens, size_t n_tokens, const ew_reply_options *options,
                          ew_reply *reply, ew_error *error) {
    generation g = {.stream = stream,
                    .session = stream->session,
                    .model = stream->session->model,
                    .options = options,
                    .reply = reply};
    size_t vocab_size = g.model->config.vocab_size;
    if (n_tokens == 0 || n_tokens >= g.session->context_length) {
        return ew_fail(error, n_tokens ? EW_ERROR_CONTEXT : EW_ERROR_ARGUMENT,
                       "a prompt of %zu tokens: 1 to %zu leave room for a reply in this context", n_tokens,
                       g.session->context_length - 1);
    }
    ew_status status = ew_sampler_open(&options->sampling, vocab_size, &g.sampler, error);
    if (status == EW_OK) {
        g.logits = ew_allocate_aligned(vocab_size, sizeof *g.logits);
        status = g.logits ? run(&g, tokens, n_tokens, error)
                          : ew_fail_memory(error, vocab_size * sizeof *g.logits, "the logits");
    }
    ew_sampler_free(&g.sampler);
    free(g.logits);
    if (status == EW_OK) {
        reply->text = g.text.data;
        reply->length = g.text.length;
    } else {
        ew_buffer_free(&g.text);
        ew_reply_free(reply);
    }
    return status;
}

/* The caller's options, complete. */
static ew_status read_options(const ew_reply_options *given, ew_reply_options *options, ew_error *error) {
    ew_status status = ew_read_options(given, options, sizeof *options, "ew_reply_options", error);
    if (status == EW_OK) {
        ew_sampling sampling = EW_SAMPLING_INIT;
        status = ew_read_options(&options->sampling, &sampling, sizeof sampling, "ew_sampling", error);
        options->sampling = sampling;
    }
    return status == EW_OK ? ew_check_stops(options->stop, options->n_stop, error) : status;
}

ew_status ew_continue(ew_stream *stream, const int32_t *tokens, size_t n_tokens, const ew_reply_options *given,
                      ew_reply *reply, ew_error *error) {
    *reply = (ew_reply){0};
    ew_reply_options options = EW_REPLY_OPTIONS_INIT;
    ew_status status = read_options(given, &options, error);
    return status == EW_OK ? generate(stream, tokens, n_tokens, &options, reply, error) : status;
}

ew_status ew_reply_to(ew_stream *stream, const ew_message *messages, size_t n_messages, const ew_reply_options *given,
                      ew_reply *reply, ew_error *error) {
    *reply = (ew_reply){0};
    ew_reply_options options = EW_REPLY_OPTIONS_INIT;
    ew_status status = read_options(given, &options, error);
    if (status != EW_OK) {
        return status;
    }
    ew_tokens tokens = {0};
    size_t context_length = stream->session->context_length, n_dropped, header;
    status = ew_conversation_fit(stream->session->model, messages, n_messages, options.thinking, context_length,
                                 ew_reply_room(context_length, options.max_tokens), &tokens, &header, &n_dropped,
                                 error);
    if (status == EW_OK) {
        ew_stream_adapt_from(stream, options.adapter_everywhere ? 0 : header);
        status = generate(stream, tokens.ids, tokens.count, &options, reply, error);
        ew_stream_adapt_from(stream, 0);
        reply->n_dropped_messages = n_dropped;
    }
    ew_tokens_free(&tokens);
    return status;
}

void ew_reply_free(ew_reply *reply) {
    free(reply->text);
    free(reply->tokens);
    free(reply->log_probabilities);
    *reply = (ew_reply){0};
}
