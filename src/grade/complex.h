/* Complex balls, by real and imaginary part; principal branches. */
#ifndef EW_GRADE_COMPLEX_H
#define EW_GRADE_COMPLEX_H

#include "grade/real.h"

typedef struct ew_complex {
    ew_real re, im;
} ew_complex;

ew_complex ew_complex_undefined(void);
ew_complex ew_complex_real(ew_real re);
static inline bool ew_complex_is_real(ew_complex a) {
    return a.im.zero && a.im.radius == EW_REAL_EXACT;
}
static inline bool ew_complex_is_undefined(ew_complex a) {
    return a.re.undefined || a.im.undefined;
}

ew_complex ew_complex_add(ew_complex a, ew_complex b);
ew_complex ew_complex_subtract(ew_complex a, ew_complex b);
ew_complex ew_complex_negate(ew_complex a);
ew_complex ew_complex_multiply(ew_complex a, ew_complex b);
ew_complex ew_complex_divide(ew_complex a, ew_complex b);
ew_complex ew_complex_scale(ew_complex a, int64_t power);
ew_real ew_complex_abs(ew_complex a);
ew_complex ew_complex_exp(ew_complex a);
ew_complex ew_complex_log(ew_complex a);
ew_complex ew_complex_sqrt(ew_complex a);
ew_complex ew_complex_power(ew_complex a, int64_t exponent);
void ew_complex_sin_cos(ew_complex a, ew_complex *sine, ew_complex *cosine);
ew_complex ew_complex_atan(ew_complex a);
ew_complex ew_complex_asin(ew_complex a);
ew_ternary ew_complex_equal(ew_complex a, ew_complex b);

#endif
