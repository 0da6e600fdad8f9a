/* The prompt that a session keeps: the cells of the last conversation, made by the model alone, and what the switcher
 * pools of them. The next call evaluates only what is new. */
#ifndef EW_REASON_PREFIX_H
#define EW_REASON_PREFIX_H

#include "model/head_score.h"
#include "reason/source.h"

typedef struct ew_prefix {
    ew_stream *stream;
    ew_pooling pooling; /* of the stream's first tokens; d_model 0: nothing is pooled */
} ew_prefix;

ew_status ew_prefix_open(ew_session *session, ew_prefix **prefix, ew_error *error);
void ew_prefix_close(ew_prefix *prefix); /* NULL is fine */

/* The source's, or the session's own, made when it is not there. */
ew_status ew_prefix_of(const ew_source *source, ew_prefix **prefix, ew_error *error);

/* What is pooled for this switcher from now on: all of it anew if the last one pooled otherwise. NULL: nothing. */
ew_status ew_prefix_pool(ew_prefix *prefix, const ew_head *switcher, ew_error *error);

/* Makes the stream hold the tokens, keeping the cells (and what was pooled) of the longest common prefix: *n_cached are
 * kept. `logits` (NULL: not wanted) are those after the last token. `progress` may be NULL. */
ew_status ew_prefix_prefill(ew_prefix *prefix, const ew_source *source, const int32_t *tokens, size_t n_tokens,
                            const ew_answer_callbacks *progress, float *logits, size_t *n_cached, ew_error *error);

/* Appends tokens, pooled too if `pooled`: the reply's header. */
ew_status ew_prefix_append(ew_prefix *prefix, const ew_source *source, const int32_t *tokens, size_t n_tokens,
                           bool pooled, float *logits, ew_error *error);

/* Evaluates tokens on any stream; logits [vocab_size] after the last one and hidden [n][d_model] may be NULL. */
ew_status ew_feed_tokens(const ew_source *source, ew_stream *stream, const int32_t *tokens, size_t n_tokens,
                         float *logits, float *hidden, ew_error *error);

#endif
