/* What heads compute from hidden states (the states after the final norm that ew_evaluate gives).
 *
 * Pooling of a prompt for the switcher, from method.md: chunks of 128 tokens at absolute positions; s = the mean of
 * chunk 0, then s = w * mean(chunk) + (1 - w) * s with w = a * n / 128, n = 128 for whole chunks; a chunk that has
 * grown by more tokens is counted anew, never twice. The result depends on the tokens only, never on how they were
 * delivered: sums are made in double, in the order of the tokens. The reply's header is not pooled.
 *
 * All of this is plain double arithmetic in a fixed order: the same bits on every machine. */
#ifndef EW_MODEL_HEAD_SCORE_H
#define EW_MODEL_HEAD_SCORE_H

#include "format/head.h"

/* A running state, and what it was at every chunk border passed, so that a prompt that keeps a prefix can go back to
 * the border before the difference. {0} is not valid; ew_pooling_open. */
typedef struct ew_pooling {
    size_t d_model, chunk;
    double mix;
    size_t n_tokens; /* pooled so far */
    double *partial; /* [d_model]: sum over the tokens of the chunk that is not complete */
    double *borders; /* [n_tokens / chunk][d_model]: s after every complete chunk */
    size_t capacity; /* of borders, in elements */
} ew_pooling;

ew_status ew_pooling_open(size_t d_model, size_t chunk, double mix, ew_pooling *pooling, ew_error *error);
void ew_pooling_free(ew_pooling *pooling); /* safe on {0} */

/* The next tokens' states, hidden[n][d_model]. EW_ERROR_MEMORY leaves it as it was. */
ew_status ew_pooling_add(ew_pooling *pooling, const float *hidden, size_t n, ew_error *error);

/* Goes back to the last chunk border at or before n_tokens (or to n_tokens itself if that many were pooled and no
 * more): returns how many tokens are still pooled. The tokens from there on are to be added again. */
size_t ew_pooling_rewind(ew_pooling *pooling, size_t n_tokens);

/* s of the tokens so far, s[d_model]; zeros when there were none. */
void ew_pooling_value(const ew_pooling *pooling, float *s);

/* p of a head for x[d_model]: the pooled state of a switcher's prompt, the hidden state of a verifier's last token.
 * `logit` (may be NULL): before calibration. EW_ERROR_NUMERIC when x is not finite. */
ew_status ew_head_score(const ew_head *head, const float *x, double *p, double *logit, ew_error *error);

#endif
