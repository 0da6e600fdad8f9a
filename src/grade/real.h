/* Real numbers as balls: a midpoint of 256 bits and a radius that bounds every error made on the way, so that
 * "equal" is never a matter of taste. The mantissa arithmetic is GMP's mpn layer; nothing is allocated. */
#ifndef EW_GRADE_REAL_H
#define EW_GRADE_REAL_H

#include "grade/rational.h"

enum { EW_REAL_LIMBS = 4, EW_REAL_BITS = 256 };

/* The true value lies within 2^radius of (negative ? -1 : 1) * mantissa / 2^256 * 2^exponent. A mantissa has
 * its top bit set; zero is `zero`. An undefined value (0/0, a divisor that may be 0, exponents beyond 2^50)
 * is `undefined`. */
typedef struct ew_real {
    mp_limb_t mantissa[EW_REAL_LIMBS];
    int64_t exponent;
    int64_t radius; /* EW_REAL_EXACT: no error */
    bool negative, zero, undefined;
} ew_real;

#define EW_REAL_EXACT (-(INT64_C(1) << 60))

ew_real ew_real_undefined(void);
ew_real ew_real_from_int(int64_t value);
ew_real ew_real_from_double(double value); /* finite; exact */
ew_real ew_real_from_rational(ew_rational value);
double ew_real_to_double(ew_real value); /* the midpoint; may be infinite */

ew_real ew_real_add(ew_real a, ew_real b);
ew_real ew_real_subtract(ew_real a, ew_real b);
ew_real ew_real_multiply(ew_real a, ew_real b);
ew_real ew_real_divide(ew_real a, ew_real b);
ew_real ew_real_divide_small(ew_real a, uint64_t divisor);
ew_real ew_real_negate(ew_real a);
ew_real ew_real_scale(ew_real a, int64_t power); /* a * 2^power */
ew_real ew_real_sqrt(ew_real a);                 /* undefined for what is surely negative */

/* The elementary functions (elementary.c). */
ew_real ew_real_pi(void);
ew_real ew_real_exp(ew_real a);
ew_real ew_real_log(ew_real a); /* undefined unless surely positive */
void ew_real_sin_cos(ew_real a, ew_real *sine, ew_real *cosine);
ew_real ew_real_atan(ew_real a);
ew_real ew_real_atan2(ew_real y, ew_real x); /* in (-pi, pi] */

/* May the value be zero, as far as its radius tells? Is it surely above, surely below zero? */
bool ew_real_may_be_zero(ew_real a);
static inline bool ew_real_is_positive(ew_real a) {
    return !a.undefined && !a.negative && !ew_real_may_be_zero(a);
}
static inline bool ew_real_is_negative(ew_real a) {
    return !a.undefined && a.negative && !ew_real_may_be_zero(a);
}

/* Is the radius of a difference that may be zero small enough to call it zero, beside values below 2^size? It
 * must also be below one in a thousand outright: neighbours among huge integers differ by little else. */
static inline bool ew_real_is_fine(ew_real difference, int64_t size) {
    return difference.radius <= size - 80 && difference.radius <= -10;
}

typedef enum ew_ternary { EW_NO = 0, EW_YES = 1, EW_UNDECIDED = 2 } ew_ternary;
/* EW_YES: the balls meet and are narrow, see above; EW_NO: they are apart. */
ew_ternary ew_real_equal(ew_real a, ew_real b);

#endif
