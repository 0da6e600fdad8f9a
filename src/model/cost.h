/* What a step must read and multiply: the numbers behind "share of the limit" (docs/performance.md). */
#ifndef EW_MODEL_COST_H
#define EW_MODEL_COST_H

#include "model/adapter.h"

typedef struct ew_step_cost {
    double bytes; /* weights read once, head included, and the cells read */
    double macs;  /* multiply-accumulates of linear layers and head; attention is not counted */
} ew_step_cost;

/* A step of n_tokens tokens of which n_logits want logits, that reads n_cells cells (a shared one once). */
ew_step_cost ew_model_step_cost(const ew_model *model, size_t n_tokens, size_t n_logits, size_t n_cells);

/* What an adapter adds to a step, of whose tokens n_tokens have it. */
ew_step_cost ew_adapter_step_cost(const ew_adapter *adapter, size_t n_tokens);

#endif
