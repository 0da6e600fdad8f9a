/* How well scores tell right from wrong (goldens/heads/measures.json has the definitions). */
#ifndef EW_TRAIN_MEASURES_H
#define EW_TRAIN_MEASURES_H

#include "base/error.h"

typedef struct ew_judged {
    size_t problem; /* samples of one problem share it */
    double score;   /* higher: more likely right. A logit where calibration is asked for, a probability for ECE */
    bool right;
} ew_judged;

/* The share of (right, wrong) pairs that the score orders, ties one half; NaN when there is one class only.
 * EW_ERROR_MEMORY. */
ew_status ew_auc(const ew_judged *samples, size_t n, double *auc, ew_error *error);

typedef struct ew_auc_within {
    double mean;          /* of the AUC of each problem that has both classes; NaN: there is none */
    double pair_weighted; /* the same weighted by the number of the problem's pairs */
    double low, high;     /* of the mean: 95 % by bootstrap over problems, 2,000 draws, always the same ones */
    size_t n_problems;    /* that have both classes */
} ew_auc_within;
ew_status ew_auc_by_problem(const ew_judged *samples, size_t n, ew_auc_within *out, ew_error *error);

/* Ten bins, closed on the left, p = 1 in the last: sum of share of bin times |mean p - share of right ones|. */
double ew_calibration_error(const ew_judged *samples, size_t n);

/* The (scale, offset) of the smallest mean log loss of sigmoid(scale * score + offset) (Platt, plain labels), by
 * Newton's method; |scale| and |offset| stay within 1000, where separable data would lead them. 1 and 0 for fewer than
 * two samples or one class. */
void ew_calibrate(const ew_judged *samples, size_t n, double *scale, double *offset);

/* Mean log loss of sigmoid(scale * score + offset). */
double ew_log_loss(const ew_judged *samples, size_t n, double scale, double offset);

#endif
