/* The strands of one answer, decoded together: one batch a step, ended ones leave it at once, and all stop when the
 * vote is decided. */
#ifndef EW_REASON_ENSEMBLE_H
#define EW_REASON_ENSEMBLE_H

#include "reason/heads.h"
#include "reason/vote.h"

typedef struct ew_ensemble {
    ew_writing *writing;
    const ew_verifier *verifier; /* NULL: none, or not for this mode */
    ew_vote vote;                /* as it can be taken: weighted only with a verifier */
    ew_pooling *follows;         /* pools what the one strand is fed; NULL: nothing does */
    ew_strand *strands;          /* [n] */
    ew_candidate *candidates;    /* [capacity]; the caller takes them over */
    size_t n, capacity;
    float *logits;        /* [capacity][vocab_size] */
    size_t *classes;      /* [capacity] */
    double *scores;       /* [capacity] */
    const char **answers; /* [capacity] */
    size_t n_stopped;     /* strands ended because the vote was decided */
} ew_ensemble;

/* Room for `capacity` strands. */
ew_status ew_ensemble_open(ew_ensemble *ensemble, size_t capacity, ew_error *error);
void ew_ensemble_free(ew_ensemble *ensemble); /* safe on {0}; frees the candidates that are left in it */

/* Adds strands that begin behind the trunk, whose last token's logits are `logits` (not changed): n forks of it, or the
 * trunk itself, which stays the caller's. */
ew_status ew_ensemble_add_forks(ew_ensemble *ensemble, ew_stream *trunk, const float *logits, const uint8_t *seen,
                                size_t n, ew_error *error);
ew_status ew_ensemble_add_trunk(ew_ensemble *ensemble, ew_stream *trunk, const float *logits, const uint8_t *seen,
                                ew_error *error);

void ew_candidate_free(ew_candidate *candidate); /* safe on {0} */

/* Decodes until all strands have ended and are settled. */
ew_status ew_ensemble_run(ew_ensemble *ensemble, ew_error *error);

/* Reads the ballots of the strands so far: their classes go into the candidates. */
ew_status ew_ensemble_ballots(ew_ensemble *ensemble, ew_ballots *ballots, ew_error *error);

#endif
