/* Which of several answers wins. Candidates come in the order of their streams; a class of SIZE_MAX has no answer and
 * never votes. Ties (ours; the method says only: the largest sum):
 *   weighted   largest sum of scores; then the class with the best single score; then the one that appears first
 *   majority   most members; then the larger sum of scores; then the one that appears first
 *   best       the best score; then the first
 * The answer shown is the best scored of the winning class, the first of equals. */
#ifndef EW_REASON_VOTE_H
#define EW_REASON_VOTE_H

#include "base/error.h"

typedef struct ew_ballots {
    ew_vote rule;
    const size_t *classes; /* [n]: below n, or SIZE_MAX */
    const double *scores;  /* [n] in 0 .. 1; all 0 without a verifier */
    size_t n;
} ew_ballots;

/* Index of the candidate to show; SIZE_MAX when none votes. EW_ERROR_MEMORY. */
ew_status ew_vote_count(const ew_ballots *ballots, size_t *winner, ew_error *error);

/* The same of candidates, by their classes and scores; where nobody votes *chosen is the one with the best score, then one
 * that ended by itself, then the first, and *n_agreed 1, else how many are of its class. */
ew_status ew_vote_candidates(ew_vote rule, const ew_candidate *candidates, size_t n, size_t *chosen, size_t *n_agreed,
                             ew_error *error);

/* The vote with n_left more candidates to come, whose answers and scores may be any: *probability that the leading
 * class stays ahead. 1 when nothing can change the winner any more, else below 1: for a share x of the leader against
 * the runner-up alone that is uniform before anything is known, P(x > 1/2) after the votes that both have (with sums of
 * scores for numbers of votes where they weigh). 0 without a leader. "Best" is only certain when nobody is left. */
ew_status ew_vote_certainty(const ew_ballots *ballots, size_t n_left, double *probability, ew_error *error);

#endif
