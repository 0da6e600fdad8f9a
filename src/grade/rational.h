/* Exact rationals over GMP's mpn layer, in a workspace's memory. Always in lowest terms, denominator >= 1.
 * Results wider than EW_RATIONAL_LIMBS make a function return false, after which the caller computes with
 * balls (real.h). The limit also keeps every mpn call within temporaries on the stack: GMP never allocates
 * here, so it never aborts. */
#ifndef EW_GRADE_RATIONAL_H
#define EW_GRADE_RATIONAL_H

#include "grade/work.h"

#include <gmp.h>

enum { EW_RATIONAL_LIMBS = 256 }; /* 16,384 bits, 4,932 decimal digits */

typedef struct ew_rational {
    const mp_limb_t *numerator, *denominator; /* least significant limb first, top limb not 0 */
    int numerator_limbs, denominator_limbs;   /* numerator_limbs is 0 for zero */
    bool negative;                            /* false for zero */
} ew_rational;

ew_rational ew_rational_small(int64_t value); /* |value| <= 32; needs no memory */
bool ew_rational_integer(ew_work *work, int64_t value, ew_rational *result);

/* digits[0..n) in `base` 2..36 (letters of either case for 10 and more) divided by base^fraction_digits. */
bool ew_rational_digits(ew_work *work, const char *digits, size_t n, int base, size_t fraction_digits,
                        ew_rational *result);
bool ew_rational_add(ew_work *work, ew_rational a, ew_rational b, ew_rational *result);
bool ew_rational_multiply(ew_work *work, ew_rational a, ew_rational b, ew_rational *result);
bool ew_rational_divide(ew_work *work, ew_rational a, ew_rational b,
                        ew_rational *result); /* false if b is 0 */
bool ew_rational_power(ew_work *work, ew_rational a, int64_t exponent, ew_rational *result);
bool ew_rational_floor(ew_work *work, ew_rational a, ew_rational *result);
/* The exact square root; false when there is none. */
bool ew_rational_sqrt(ew_work *work, ew_rational a, ew_rational *result);
ew_rational ew_rational_negate(ew_rational a);
int ew_rational_compare(ew_work *work, ew_rational a, ew_rational b); /* -1, 0, 1; 0 only when equal */
bool ew_rational_equal(ew_rational a, ew_rational b);

static inline bool ew_rational_is_zero(ew_rational a) {
    return a.numerator_limbs == 0;
}
static inline bool ew_rational_is_integer(ew_rational a) {
    return a.denominator_limbs == 1 && a.denominator[0] == 1;
}
/* The value if it is an integer of at most 2^62 in magnitude. */
bool ew_rational_to_int64(ew_rational a, int64_t *value);

/* "-3/4", "12" in decimal, appended to `out` of `size` bytes; the length, or 0 if it does not fit. */
size_t ew_rational_print(ew_work *work, ew_rational a, char *out, size_t size);

#endif
