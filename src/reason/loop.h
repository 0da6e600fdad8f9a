/* Thinking that goes round in circles: a run of `length` tokens that has come `repeats` times without overlap. */
#ifndef EW_REASON_LOOP_H
#define EW_REASON_LOOP_H

#include "base/error.h"

/* A run that was seen: open addressing by its hash. */
typedef struct ew_loop_run {
    size_t first; /* where it began the first time, + 1; 0: the slot is free */
    size_t last;  /* where it began when it was counted last */
    size_t count;
} ew_loop_run;

/* {.length, .repeats}; length 0 never finds anything. Time a token is constant, memory a few words. */
typedef struct ew_loop {
    size_t length, repeats;
    int32_t *tokens; /* [n_tokens] */
    size_t n_tokens, capacity;
    uint64_t hash;     /* of the last `length` tokens */
    uint64_t power;    /* of the hash's factor for the token that leaves */
    ew_loop_run *runs; /* [n_slots], a power of 2, at most half in use */
    size_t n_slots, n_runs;
} ew_loop;

/* The next token; *found when it completes the repetition. */
ew_status ew_loop_add(ew_loop *loop, int32_t token, bool *found, ew_error *error);
void ew_loop_free(ew_loop *loop); /* safe on {0} */

#endif
