/* Sets of reals as sorted, disjoint intervals: what intervals, unions, inequalities and set builders all
 * mean. */
#ifndef EW_GRADE_SETS_H
#define EW_GRADE_SETS_H

#include "grade/evaluate.h"

enum { EW_INTERVALS = 24 }; /* more than any answer has; beyond, the comparison is by structure */

typedef struct ew_interval {
    ew_value low, high;
    bool low_closed, high_closed;
} ew_interval;

typedef struct ew_real_set {
    uint32_t count;
    ew_interval intervals[EW_INTERVALS];
} ew_real_set;

/* Does the expression look like a set where (a, b) would be an interval: a union, an inequality, R, a
 * half-open interval? */
bool ew_is_real_set(const ew_expr *expr);

/* The set that `expr` means; false when it means none that can be computed. Names of the variable are
 * ignored, but there may be only one. */
bool ew_set_of(ew_work *work, const ew_expr *expr, ew_real_set *set);
bool ew_sets_equal(ew_work *work, const ew_real_set *a, const ew_real_set *b, double tolerance);

#endif
