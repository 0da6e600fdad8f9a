/* Supervised training: the order of the examples, steps, validation, checkpoints. */
#ifndef EW_TRAIN_SFT_H
#define EW_TRAIN_SFT_H

#include "train/optimizer.h"
#include "train/train.h"

#include <signal.h>

/* After a step, or before the first (step 0) when there is a validation set. */
typedef struct ew_sft_report {
    uint64_t step, n_steps;
    size_t epoch;             /* from 1 */
    double loss, rate, norm;  /* of the step's batch, before the step; the gradient's norm before the clip */
    size_t n_targets, n_rows; /* of the batch: targets, positions run forward and backward */
    double validation_loss;   /* NaN: not measured now */
    double seconds;           /* that the step took */
    size_t memory;            /* bytes of the trainer and the optimizer */
} ew_sft_report;

typedef struct ew_sft_options {
    size_t epochs;
    uint64_t most_steps; /* 0: what the epochs make */
    size_t batch;        /* sequences of a step */
    size_t batch_tokens; /* > 0: in place of `batch`, as many sequences as have that many positions; at least one */
    double rate, warmup, decay, min_ratio; /* peak; warm-up and decay (EW_SCHEDULE_CONSTANT) as parts of all steps */
    ew_schedule_kind schedule;
    double beta1, beta2, epsilon, weight_decay, clip;
    uint64_t seed;           /* of the order */
    uint64_t evaluate_every; /* steps; 0: before the first and after the last only */
    uint64_t save_every;     /* steps; 0: when training is cancelled only */
    const char *checkpoint;  /* file; NULL: none */
    bool resume;             /* from it; it must be there */
    const size_t *lines;     /* may be NULL; [n]: the line of the data that a sequence came from, for messages */
    const char *settings;    /* what a resumed run must have been started with: compared as text */
    void (*report)(void *context, const ew_sft_report *report);
    uint64_t keep_every; /* steps; 0: never. Then `keep` is called, which may write the weights as they are */
    ew_status (*keep)(void *context, uint64_t step, ew_error *error);
    void *context;
    const volatile sig_atomic_t *cancel; /* may be NULL; not 0: a checkpoint is saved and EW_ERROR_CANCELLED returned */
} ew_sft_options;

#define EW_SFT_OPTIONS_INIT                                                                                            \
    {                                                                                                                  \
        .epochs = 1, .batch = 64, .rate = 2e-4, .warmup = 0.1, .decay = 0.2, .beta1 = 0.9, .beta2 = 0.999,             \
        .epsilon = 1e-8, .clip = 1                                                                                     \
    }

/* Trains the trainer's network. Every epoch takes every sequence once, in an order of (seed, epoch); batches do not cross
 * epochs. The same thread count and machine give the same weights, resumed or not. When loss or gradient is not a number
 * EW_ERROR_NUMERIC says at which step, which lines its batch had and where the last good checkpoint is, which stays as it
 * is; the weights are those of the step before. */
ew_status ew_sft_run(ew_network *network, ew_trainer *trainer, const ew_train_sequence *sequences, size_t n,
                     const ew_train_sequence *validation, size_t n_validation, const ew_sft_options *options,
                     ew_error *error);

#endif
