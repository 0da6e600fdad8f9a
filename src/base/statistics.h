/* Shares of right answers and means over examples: how sure they are, and how sure a difference between two runs on the
 * same problems is. */
#ifndef EW_BASE_STATISTICS_H
#define EW_BASE_STATISTICS_H

#include <stddef.h>

/* 97.5 % of a normal distribution lie below: half of a 95 % interval, in standard errors. */
#define EW_NORMAL_HALF 1.959963984540054

/* Wilson's 95 % interval of k out of n; [0, 1] for n = 0. */
void ew_wilson(size_t k, size_t n, double *low, double *high);

/* Problems that two runs had in common. */
typedef struct ew_paired {
    size_t both, first, second, neither; /* right: by both, by the first alone, by the second alone, by none */
} ew_paired;

/* The share right of the second less that of the first, and its 95 % interval: Newcombe's (Statistics in Medicine 17,
 * 1998, method 10), which joins the two Wilson intervals by the correlation of the pairs. All 0 without pairs. */
void ew_paired_difference(const ew_paired *pairs, double *difference, double *low, double *high);

/* McNemar's exact test, two-sided: how likely a split as uneven as first : second is where both runs are as good. */
double ew_mcnemar(const ew_paired *pairs);

/* sum values / sum weights, and half of its 95 % interval where examples, not their parts, are what was drawn: the ratio
 * estimate of cluster sampling (Cochran, Sampling Techniques, 1977, section 9A.2). NaN without weight; the half is 0 for
 * one example. */
void ew_ratio_of_sums(const double *values, const double *weights, size_t n, double *ratio, double *half);

#endif
