/* Drawing the next token from logits.
 *
 * The order of the steps, goldens/grpo/sampling.json's:
 *   1. repetition penalty: the logit of a token seen before is divided by it if > 0, else multiplied;
 *   2. x = (logit - largest logit) * (1 / temperature), in double;
 *   3. candidates sorted by logit, equal logits by the smaller id;
 *   4. top_k: the first k; 5. top_p: those whose predecessors' probabilities (renormalised after 4) sum to less than p;
 *   6. min_p: those of at least min_p times the probability of the first;
 *   7. one uniform number, a function of (seed, stream, position), against the renormalised cumulative sum.
 * A logit of -infinity has probability 0 and is never a candidate. Temperature 0 takes the first of the order.
 *
 * A draw computes and sorts no more than it needs: where a few tokens have nearly all of the probability only these; else
 * weights are summed by buckets of x (weigh.h), even and odd ids apart, the cumulative
 * sum goes over buckets, and only those in which the truncation and the draw fall are sorted. */
#ifndef EW_REASON_SAMPLER_H
#define EW_REASON_SAMPLER_H

#include "base/error.h"
#include "reason/weigh.h"

typedef struct ew_sampler {
    ew_sampling rule;
    size_t vocab_size;
    uint8_t *seen;       /* [vocab_size]: the token stood in prompt or reply; NULL without a penalty */
    float *penalized;    /* [vocab_size]; NULL without a penalty */
    const float *logits; /* [vocab_size]: of the call, after the penalty */
    int32_t *order;      /* candidates: after ew_sampler_candidates the first n_kept are sorted */
    double *probability; /* [vocab_size]: parallel to order's first n_kept */
    size_t n_kept;
    double *sums; /* [2][EW_WEIGH_BUCKETS] of weights, in a draw */
    const ew_weigh_table *loops;
} ew_sampler;

/* EW_ERROR_ARGUMENT names the field that is out of range. */
ew_status ew_sampler_open(const ew_sampling *rule, size_t vocab_size, ew_sampler *sampler, ew_error *error);
void ew_sampler_free(ew_sampler *sampler); /* safe on {0} */

/* The token stands in prompt or reply: the penalty applies to it from now on. */
void ew_sampler_see(ew_sampler *sampler, int32_t token);

/* Steps 1 to 6 on logits[vocab_size]: order[0 .. n_kept - 1] and their probabilities, which sum to 1. EW_ERROR_NUMERIC
 * when a logit is NaN or +infinity, or all are -infinity. */
ew_status ew_sampler_candidates(ew_sampler *sampler, const float *logits, ew_error *error);

/* All steps. */
ew_status ew_sampler_draw(ew_sampler *sampler, const float *logits, uint64_t stream, uint64_t position, int32_t *token,
                          ew_error *error);

/* log softmax(logits / temperature)[token], before penalty and truncation; temperature 0 counts as 1. */
double ew_log_probability(const float *logits, size_t vocab_size, float temperature, int32_t token);

#endif
