/* The value of an expression: an exact rational where it stays one, else a complex ball. */
#ifndef EW_GRADE_EVALUATE_H
#define EW_GRADE_EVALUATE_H

#include "grade/complex.h"
#include "grade/expression.h"

typedef struct ew_value {
    bool exact, undefined;
    int8_t infinity;      /* -1, 1: an infinity, and nothing else is set */
    ew_rational rational; /* if exact */
    ew_complex ball;      /* if not */
} ew_value;

/* Where variables stand. A name and a trial give the same number everywhere, so that two expressions agree on
 * it. */
typedef struct ew_point {
    ew_work *work;
    const struct ew_binding *bindings; /* the indices of the sums around */
    uint32_t trial;                    /* 0 to 11. Even: all variables positive; odd: of either sign */
    bool integers;                     /* variables are integers of 2..14, for factorials and the like */
    bool complex;                      /* variables are complex numbers, where conjugates or parts are taken of them */
    bool log_10;                       /* \log without a base is decimal, not natural */
    bool left_reals; /* set by evaluation: an even root or a logarithm of a negative number was taken on the
                        way */
} ew_point;

ew_value ew_evaluate_expression(ew_point *point, const ew_expr *expr);
ew_complex ew_value_ball(const ew_value *value); /* undefined for infinities */

/* EW_YES, EW_NO, or EW_UNDECIDED (undefined, infinite on both sides alike is EW_YES). tolerance > 0: |a - b|
 * <= tolerance |b| is enough. */
ew_ternary ew_value_equal(const ew_value *a, const ew_value *b, double tolerance);

/* What a tree contains. */
typedef struct ew_contents {
    bool symbols, integers_wanted, complex_wanted, bare_log, degrees, plus_minus;
    bool structure;       /* anything that has no value */
    const ew_expr *index; /* of the sum around: no symbol */
    bool irrational;      /* a constant or function whose values are hardly ever rational */
} ew_contents;
void ew_scan(const ew_expr *expr, ew_contents *contents);

#endif
