#include "reason/prefix.h"
#include "base/memory.h"

#include <stdlib.h>

ew_status ew_prefix_open(ew_session *session, ew_prefix **out, ew_error *error) {
    ew_prefix *prefix = ew_allocate(1, sizeof *prefix);
    if (!prefix) {
        return ew_fail_memory(error, sizeof *prefix, "the kept prompt");
    }
    ew_status status = ew_stream_open(session, &prefix->stream, error);
    if (status != EW_OK) {
        free(prefix);
        return status;
    }
    *out = prefix;
    return EW_OK;
}

void ew_prefix_close(ew_prefix *prefix) {
    if (prefix) {
        ew_stream_close(prefix->stream);
        ew_pooling_free(&prefix->pooling);
        free(prefix);
    }
}

static void close_kept(void *kept) {
    ew_prefix_close(kept);
}

ew_status ew_prefix_of(const ew_source *source, ew_prefix **out, ew_error *error) {
    ew_session *session = source->session;
    if (source->prefix) {
        *out = source->prefix;
        return EW_OK;
    }
    if (!session->kept) {
        ew_prefix *prefix = NULL;
        ew_status status = ew_prefix_open(session, &prefix, error);
        if (status != EW_OK) {
            return status;
        }
        session->kept = prefix;
        session->free_kept = close_kept;
    }
    *out = session->kept;
    return EW_OK;
}

ew_status ew_prefix_pool(ew_prefix *prefix, const ew_head *switcher, ew_error *error) {
    ew_pooling *pooling = &prefix->pooling;
    if (switcher && pooling->d_model == switcher->d_model && pooling->chunk == switcher->chunk &&
        pooling->mix == switcher->mix) {
        return EW_OK;
    }
    ew_pooling_free(pooling);
    *pooling = (ew_pooling){0};
    return switcher ? ew_pooling_open(switcher->d_model, switcher->chunk, switcher->mix, pooling, error) : EW_OK;
}

ew_status ew_feed_tokens(const ew_source *source, ew_stream *stream, const int32_t *tokens, size_t n_tokens,
                         float *logits, float *hidden, ew_error *error) {
    ew_input *inputs = ew_allocate(n_tokens, sizeof *inputs);
    if (!inputs) {
        return ew_fail_memory(error, n_tokens * sizeof *inputs, "a batch");
    }
    for (size_t i = 0; i < n_tokens; i++) {
        inputs[i] = (ew_input){.stream = stream, .token = tokens[i], .wants_logits = logits && i + 1 == n_tokens};
    }
    ew_status status = source->evaluate(source->self, inputs, n_tokens, logits, hidden, error);
    free(inputs);
    return status;
}

ew_status ew_prefix_append(ew_prefix *prefix, const ew_source *source, const int32_t *tokens, size_t n_tokens,
                           bool pooled, float *logits, ew_error *error) {
    size_t d_model = prefix->pooling.d_model;
    float *hidden = NULL;
    if (pooled && d_model > 0) {
        hidden = ew_allocate(n_tokens * d_model, sizeof *hidden);
        if (!hidden) {
            return ew_fail_memory(error, n_tokens * d_model * sizeof *hidden, "hidden states");
        }
    }
    ew_status status = ew_feed_tokens(source, prefix->stream, tokens, n_tokens, logits, hidden, error);
    if (status == EW_OK && hidden) {
        status = ew_pooling_add(&prefix->pooling, hidden, n_tokens, error);
    }
    free(hidden);
    return status;
}

/* How many tokens can stay: with their cells, and pooled if they have to be. */
static size_t common_length(ew_prefix *prefix, const int32_t *tokens, size_t n_tokens, bool wants_logits) {
    size_t n = ew_stream_common_prefix(prefix->stream, tokens, wants_logits ? n_tokens - 1 : n_tokens);
    if (prefix->pooling.d_model > 0) {
        n = n < prefix->pooling.n_tokens ? n : prefix->pooling.n_tokens;
        n = ew_pooling_rewind(&prefix->pooling, n);
    }
    return n;
}

ew_status ew_prefix_prefill(ew_prefix *prefix, const ew_source *source, const int32_t *tokens, size_t n_tokens,
                            const ew_answer_callbacks *progress, float *logits, size_t *n_cached, ew_error *error) {
    size_t chunk = source->session->chunk, done = common_length(prefix, tokens, n_tokens, logits != NULL);
    ew_status status = EW_OK;
    ew_stream_truncate(prefix->stream, done);
    *n_cached = done;
    while (status == EW_OK && done < n_tokens) {
        size_t n = n_tokens - done < chunk ? n_tokens - done : chunk;
        bool last = done + n == n_tokens;
        status = ew_prefix_append(prefix, source, tokens + done, n, true, last ? logits : NULL, error);
        done += n;
        if (status == EW_OK && progress->on_prompt) {
            progress->on_prompt(progress->context, done, n_tokens);
        }
    }
    return status;
}
