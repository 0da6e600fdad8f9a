/* What a switcher adds to reading a prompt: the hidden states it asks for, pooling, and the head itself. */
#ifndef EW_CLI_BENCH_SWITCHER_H
#define EW_CLI_BENCH_SWITCHER_H

#include "edgewise.h"

typedef struct ew_switcher_cost {
    double own;     /* seconds of what it does: the norms of the last states, pooling, the head; the fastest of some */
    size_t n_pairs; /* prompts read without and with it, in turn */
    double alone, with; /* seconds of the fastest of each */
    double share;       /* what it adds: median of the pairs' ratios, less 1 */
    double low, high;   /* the middle half of them */
} ew_switcher_cost;

/* Reads a made-up prompt by the code that ew_answer reads one with. */
ew_status ew_switcher_cost_measure(ew_session *session, size_t n_prompt, ew_switcher_cost *cost, ew_error *error);

#endif
