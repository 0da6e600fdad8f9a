/* Fitting a head to hidden states: class-weighted cross-entropy, noise, dropout, AdamW, then calibration.
 *
 * States are normalised by the training part's mean and standard deviation of each channel. A fifth of the problems is
 * kept for the test (or samples that stand apart) and a tenth for stopping and calibration, by a hash of the problem: no
 * problem is on two sides. */
#ifndef EW_TRAIN_HEAD_FIT_H
#define EW_TRAIN_HEAD_FIT_H

#include "format/head.h"
#include "train/measures.h"
#include "train/parameters.h"

#include <signal.h>

typedef struct ew_head_samples {
    size_t n, d_model;
    float *x;          /* [n][d_model] */
    uint8_t *y;        /* [n]: 0 or 1 */
    uint64_t *problem; /* [n]: hash of the problem */
    double *length;    /* [n]: tokens, the baseline's score */
    size_t n_test;     /* > 0: the last ones are the test part, and no others */
    size_t x_capacity, y_capacity, problem_capacity, length_capacity;
} ew_head_samples;

ew_status ew_head_samples_add(ew_head_samples *samples, const float *x, bool y, uint64_t problem, size_t length,
                              ew_error *error);
/* Moves all of `more` behind the others, as their test part; `more` is empty then, whatever comes of it. */
ew_status ew_head_samples_add_test(ew_head_samples *samples, ew_head_samples *more, ew_error *error);
void ew_head_samples_free(ew_head_samples *samples); /* safe on {0} */

uint64_t ew_hash_problem(const char *text, size_t length);

/* ---- The loss ---- */

/* Parameters of a head as tensors in one vector: hidden.weight, hidden.bias, output.weight, output.bias of a switcher;
 * output.weight, output.bias of a verifier. Zeroed. */
ew_status ew_head_parameters(ew_head_kind kind, size_t d_model, size_t n_hidden, ew_parameters *parameters,
                             ew_error *error);

typedef struct ew_head_batch {
    size_t n, d_model;
    const float *z;       /* [n][d_model], noise added */
    const uint8_t *y;     /* [n] */
    const double *weight; /* [n] */
    double divisor;       /* of the weighted sum */
    const float *kept;    /* [n][n_hidden]: what a hidden unit is multiplied by (dropout); NULL: 1 */
} ew_head_batch;

/* Loss and gradient (laid out as the parameters; NULL: not wanted), logits[n] (NULL: not wanted). */
ew_status ew_head_loss(const ew_parameters *parameters, const ew_head_batch *batch, double *loss, real *gradient,
                       double *logits, ew_error *error);

/* ---- Fitting ---- */

typedef struct ew_head_fit_options {
    size_t n_hidden; /* switcher; 0: 8 */
    size_t n_epochs; /* passes over the training part; the best one by the validation loss is kept */
    size_t batch;    /* samples a step */
    double rate, weight_decay, noise, dropout;
    uint64_t seed;                       /* of split, order, noise, dropout and beginning */
    const volatile sig_atomic_t *cancel; /* may be NULL; not 0: EW_ERROR_CANCELLED is returned soon */
} ew_head_fit_options;
#define EW_HEAD_FIT_INIT                                                                                               \
    { 8, 60, 64, 1e-3, 0.01, 0.5, 0.2, 0, NULL }

typedef struct ew_head_report {
    size_t n_train, n_validation, n_test, n_right_test, n_problems_test;
    size_t best_epoch;
    double validation_loss;
    double auc;           /* of the test part, NaN: one class */
    double length_auc;    /* of the tokens' number alone; above 0.5: longer ones are 1 */
    ew_auc_within within; /* of the test part */
    double calibration_error, uncalibrated_error;
    ew_judged *test; /* [n_test]: probabilities; owned */
} ew_head_report;

/* Fits *head, which is freed by the caller; a verifier's text and both fingerprints are the caller's to set.
 * EW_ERROR_ARGUMENT when a part lacks samples of one class, or a problem of test samples that stand apart is among the
 * others too. */
ew_status ew_head_fit(ew_head_kind kind, const ew_head_samples *samples, const ew_head_fit_options *options,
                      ew_head *head, ew_head_report *report, ew_error *error);
void ew_head_report_free(ew_head_report *report); /* safe on {0} */

#endif
