/* AdamW over the parameter vector, and learning-rate schedules (docs/training.md has the formulas). */
#ifndef EW_TRAIN_OPTIMIZER_H
#define EW_TRAIN_OPTIMIZER_H

#include "base/threads.h"
#include "train/parameters.h"

typedef struct ew_adamw {
    double beta1, beta2, epsilon, weight_decay; /* decay on parameters that decay, scaled by the step's rate */
    double clip;   /* the gradient's norm is brought down to it: times min(1, clip / (norm + 1e-6)); 0: off */
    uint64_t step; /* steps done */
    size_t total;
    real *m, *v; /* [total], owned */
} ew_adamw;

#define EW_ADAMW_INIT                                                                                                  \
    { .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .clip = 1.0 }

/* Allocates m and v, zeroed. */
ew_status ew_adamw_open(ew_adamw *optimizer, const ew_parameters *parameters, ew_error *error);
void ew_adamw_close(ew_adamw *optimizer);

/* One step with `rate`; *norm is the gradient's norm before the clip. The same for any pool. EW_ERROR_NUMERIC, and nothing
 * changed, when the norm is not finite. */
ew_status ew_adamw_step(ew_adamw *optimizer, ew_parameters *parameters, const real *gradient, double rate,
                        ew_pool *pool, double *norm, ew_error *error);

typedef enum ew_schedule_kind {
    EW_SCHEDULE_COSINE,
    EW_SCHEDULE_LINEAR,
    EW_SCHEDULE_CONSTANT /* constant, then linear over the last `decay` steps */
} ew_schedule_kind;

typedef struct ew_schedule {
    ew_schedule_kind kind;
    double peak;
    double min_ratio; /* the last step's rate over the peak */
    uint64_t n_steps, warmup, decay;
} ew_schedule;

/* The rate of step s = 1 .. n_steps: peak * s / warmup for s <= warmup, then the decay. */
double ew_schedule_rate(const ew_schedule *schedule, uint64_t step);

#endif
