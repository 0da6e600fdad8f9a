#include "reason/strand.h"
#include "base/memory.h"
#include "reason/stop_strings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ew_status ew_strand_open(ew_writing *writing, size_t index, ew_stream *stream, bool owns_stream, const uint8_t *seen,
                         ew_candidate *out, ew_strand *strand, ew_error *error) {
    const ew_model *model = writing->model;
    *strand = (ew_strand){.index = index, .stream = stream, .owns_stream = owns_stream, .out = out};
    strand->loop = (ew_loop){.length = writing->policy->loop_length, .repeats = writing->policy->loop_repeats};
    *out = (ew_candidate){.score = NAN, .answer_class = SIZE_MAX};
    bool thought = writing->thinks || model->chat_template.family == EW_CHAT_QWEN3; /* an empty thinking stands there */
    ew_text_part part = writing->thinks ? EW_TEXT_THINKING : thought ? EW_TEXT_ANSWER : EW_TEXT_START;
    ew_reply_text_begin(&strand->text, model->tokenizer, &model->chat_template, part, thought);
    if (seen) {
        strand->seen = ew_allocate(model->config.vocab_size, 1);
        if (!strand->seen) {
            return ew_fail_memory(error, model->config.vocab_size, "the sampler");
        }
        memcpy(strand->seen, seen, model->config.vocab_size);
    }
    if (writing->source->begin) {
        writing->source->begin(writing->source->self, stream, index);
    }
    return EW_OK;
}

void ew_strand_free(ew_strand *strand) {
    if (strand->owns_stream) {
        ew_stream_close(strand->stream);
    }
    ew_reply_text_free(&strand->text);
    ew_loop_free(&strand->loop);
    free(strand->seen);
    ew_tokens_free(&strand->queue);
    *strand = (ew_strand){0};
}

void ew_strand_end(ew_strand *strand, ew_stop_reason reason) {
    strand->ended = true;
    strand->out->stop_reason = reason;
    if (strand->text.part == EW_TEXT_THINKING) {
        strand->out->thinking_end = EW_THINKING_OPEN;
    }
}

/* ---- Showing ---- */

static void show_part(ew_writing *writing, ew_strand *strand, bool thinking, size_t safe, size_t *shown) {
    const ew_buffer *buffer = thinking ? &strand->text.thinking : &strand->text.answer;
    if (safe <= *shown) {
        return;
    }
    const ew_answer_text piece = {strand->index, thinking, buffer->data + *shown, safe - *shown};
    *shown = safe;
    const ew_answer_callbacks *callbacks = writing->callbacks;
    if (callbacks->on_text && !callbacks->on_text(callbacks->context, &piece)) {
        writing->cancelled = true;
    }
}

/* Shows what has become certain. */
static void show(ew_writing *writing, ew_strand *strand) {
    const ew_policy *policy = writing->policy;
    const ew_reply_text *text = &strand->text;
    show_part(writing, strand, true, ew_reply_text_thinking_shown(text), &strand->thinking_shown);
    size_t safe = ew_reply_text_answer_shown(text);
    if (safe > 0 && !strand->ended) {
        safe = ew_safe_length(text->answer.data, safe, policy->stop, policy->n_stop);
    }
    show_part(writing, strand, false, safe, &strand->answer_shown);
}

/* ---- Tokens ---- */

/* `drawn` is NULL for a forced token. */
static ew_status record(ew_writing *writing, ew_strand *strand, int32_t token, const ew_draw *drawn, ew_error *error) {
    ew_candidate *out = strand->out;
    size_t n = out->n_tokens + 1;
    bool logs = writing->policy->log_probabilities;
    if (!ew_grow((void **)&out->tokens, &strand->token_capacity, n, sizeof *out->tokens) ||
        !ew_grow((void **)&out->forced, &strand->forced_capacity, n, sizeof *out->forced) ||
        (logs && !ew_grow((void **)&out->log_probabilities, &strand->log_capacity, n, sizeof(float)))) {
        return ew_fail_memory(error, n * sizeof *out->tokens, "the reply's tokens");
    }
    if (logs) {
        out->log_probabilities[n - 1] = drawn ? drawn->log_probability : 0.0f;
    }
    out->tokens[n - 1] = token;
    out->forced[n - 1] = !drawn;
    out->n_tokens = n;
    if (strand->seen) {
        strand->seen[token] = 1;
    }
    return EW_OK;
}

/* What was drawn of the beginning of a closing tag makes way for the whole one. Its last token may wait in the queue;
 * those before it were fed. */
static void take_back_tag(ew_strand *strand) {
    size_t n = ew_reply_text_forget_held(&strand->text), n_waiting = strand->queue.count;
    if (n > 0) {
        ew_stream_truncate(strand->stream, ew_stream_length(strand->stream) - (n - n_waiting));
        strand->queue.count = 0;
        strand->out->n_tokens -= n;
        strand->out->n_thinking_tokens -= n;
    }
}

/* The engine closes the thinking; the closing bypasses the sampler. */
static ew_status close_thinking(ew_writing *writing, ew_strand *strand, ew_thinking_end why, ew_error *error) {
    ew_status status = EW_OK;
    take_back_tag(strand);
    strand->out->thinking_end = why;
    strand->out->thinking_truncated = why != EW_THINKING_TURN;
    for (size_t i = 0; status == EW_OK && i < writing->closing.count; i++) {
        status = record(writing, strand, writing->closing.ids[i], NULL, error);
    }
    if (status == EW_OK) {
        status = ew_tokens_append(&strand->queue, writing->closing.ids, writing->closing.count, error);
    }
    return status == EW_OK ? ew_reply_text_close(&strand->text, writing->after, error) : status;
}

void ew_strand_draw(const ew_writing *writing, ew_strand *strand, ew_sampler *sampler, float *logits) {
    const ew_policy *policy = writing->policy;
    ew_draw *draw = &strand->draw;
    uint8_t *seen = sampler->seen;
    sampler->seen = strand->seen;
    for (;;) { /* until it is one that may stand there */
        draw->status = ew_sampler_draw(sampler, logits, strand->index, ew_stream_length(strand->stream), &draw->token,
                                       &draw->error);
        if (draw->status != EW_OK || !ew_reply_text_refuses(&strand->text, draw->token)) {
            break;
        }
        logits[draw->token] = -INFINITY;
    }
    sampler->seen = seen;
    if (draw->status == EW_OK && policy->log_probabilities) {
        draw->log_probability = (float)ew_log_probability(logits, writing->model->config.vocab_size,
                                                          policy->sampling.temperature, draw->token);
    }
}

static void note_time(double *at, double now) {
    *at = *at < 0 ? now : *at;
}

/* Counts a drawn token for the part that it belongs to: a closing tag is thinking. */
static void count_token(ew_writing *writing, ew_strand *strand, ew_text_part before, double now) {
    bool thinking = before == EW_TEXT_THINKING || strand->text.part == EW_TEXT_THINKING;
    strand->out->n_thinking_tokens += thinking;
    strand->out->n_answer_tokens += !thinking;
    note_time(&writing->first_token, now);
    if (!thinking) {
        note_time(&writing->first_answer, now);
    }
}

static ew_status end_of_turn(ew_writing *writing, ew_strand *strand, ew_error *error) {
    if (strand->text.part == EW_TEXT_THINKING) {
        strand->out->n_tokens--; /* it is not fed: an answer has to come */
        strand->out->n_thinking_tokens--;
        return close_thinking(writing, strand, EW_THINKING_TURN, error);
    }
    ew_strand_end(strand, EW_STOP_END);
    return EW_OK;
}

static void look_for_stop(ew_writing *writing, ew_strand *strand, size_t from) {
    ew_buffer *answer = &strand->text.answer;
    size_t at;
    if (strand->text.part == EW_TEXT_ANSWER && answer->length > from &&
        ew_find_stop(answer->data, answer->length, from, writing->policy->stop, writing->policy->n_stop, &at)) {
        answer->length = at;
        answer->data[at] = '\0';
        strand->text.characters.length = 0;
        ew_strand_end(strand, EW_STOP_STRING);
    }
}

/* Whether the thinking has to end or the answer was long enough. */
static ew_status look_at_limits(ew_writing *writing, ew_strand *strand, bool loops, double now, ew_error *error) {
    const ew_limits *limits = &writing->limits;
    const ew_candidate *out = strand->out;
    double limit = writing->policy->time_limit;
    size_t n_positions = ew_stream_length(strand->stream) + 1;
    if (strand->text.part == EW_TEXT_THINKING) {
        ew_thinking_end why = ew_limits_cut(limits, out->n_thinking_tokens, out->n_tokens, n_positions);
        if (why == EW_THINKING_NONE && (loops || (limit > 0 && now >= 0.75 * limit))) {
            why = loops ? EW_THINKING_LOOP : EW_THINKING_TIME;
        }
        return why == EW_THINKING_NONE ? EW_OK : close_thinking(writing, strand, why, error);
    }
    if (out->n_answer_tokens >= limits->answer || out->n_tokens >= limits->total) {
        ew_strand_end(strand, EW_STOP_LENGTH);
    } else if (n_positions > limits->context) {
        ew_strand_end(strand, EW_STOP_CONTEXT);
    }
    return EW_OK;
}

/* What a token that ends nothing does. */
static ew_status take_token(ew_writing *writing, ew_strand *strand, int32_t token, ew_text_part before, double now,
                            ew_error *error) {
    bool loops = false;
    size_t answer_before = strand->text.answer.length;
    ew_status status = ew_reply_text_feed(&strand->text, token, error);
    if (status != EW_OK) {
        return status;
    }
    count_token(writing, strand, before, now);
    if (before == EW_TEXT_THINKING && strand->text.part == EW_TEXT_ANSWER) {
        strand->out->thinking_end = EW_THINKING_CLOSED;
    }
    look_for_stop(writing, strand, answer_before);
    if (!strand->ended && strand->text.part == EW_TEXT_THINKING) {
        status = ew_loop_add(&strand->loop, token, &loops, error);
    }
    if (status == EW_OK && !strand->ended) {
        status = ew_tokens_append(&strand->queue, &token, 1, error);
    }
    return status == EW_OK && !strand->ended ? look_at_limits(writing, strand, loops, now, error) : status;
}

ew_status ew_strand_take(ew_writing *writing, ew_strand *strand, ew_error *error) {
    const ew_draw *draw = &strand->draw;
    ew_text_part before = strand->text.part;
    double now = writing->source->now(writing->source->self) - writing->start;
    strand->queue.count = 0;
    if (draw->status != EW_OK) {
        return ew_fail(error, draw->status, "%s", draw->error.message);
    }
    ew_status status = record(writing, strand, draw->token, draw, error);
    if (status != EW_OK) {
        return status;
    }
    if (ew_model_ends_reply(writing->model, draw->token)) {
        count_token(writing, strand, before, now);
        status = end_of_turn(writing, strand, error);
    } else {
        status = take_token(writing, strand, draw->token, before, now, error);
    }
    if (status == EW_OK && !strand->ended) {
        show(writing, strand);
    }
    return status;
}

ew_status ew_strand_finish(ew_writing *writing, ew_strand *strand, ew_error *error) {
    ew_reply_text *text = &strand->text;
    ew_candidate *out = strand->out;
    if (text->part == EW_TEXT_START) {
        text->part = EW_TEXT_ANSWER; /* of white space only */
    }
    ew_status status = ew_reply_text_finish(text, error);
    if (status != EW_OK) {
        return status;
    }
    show(writing, strand);
    out->thinking = text->thinking.data;
    out->thinking_length = text->thinking.length;
    out->answer = text->answer.data;
    out->answer_length = text->answer.length;
    text->thinking = text->answer = (ew_buffer){0};
    return EW_OK;
}
