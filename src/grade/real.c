#include "grade/real.h"

#include <math.h>
#include <string.h>

enum { LIMBS = EW_REAL_LIMBS, BITS = EW_REAL_BITS };
#define EXPONENT_LIMIT (INT64_C(1) << 50)

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

ew_real ew_real_undefined(void) {
    return (ew_real){.undefined = true, .radius = EW_REAL_EXACT};
}

static ew_real zero_within(int64_t radius) {
    return (ew_real){.zero = true, .radius = radius};
}

/* Shifts limbs[0..n) up until the top bit is set, adjusting the exponent; false when all are 0. */
static bool normalize(mp_limb_t *limbs, int n, int64_t *exponent) {
    int skip = 0;
    while (skip < n && limbs[n - 1 - skip] == 0) {
        skip++;
    }
    if (skip == n) {
        return false;
    }
    if (skip) {
        memmove(limbs + skip, limbs, (size_t)(n - skip) * sizeof *limbs);
        memset(limbs, 0, (size_t)skip * sizeof *limbs);
    }
    int bits = __builtin_clzll(limbs[n - 1]);
    if (bits) {
        mpn_lshift(limbs, limbs, n, (unsigned)bits);
    }
    *exponent -= skip * 64 + bits;
    return true;
}

/* The ball around limbs[0..n) / 2^(64 n) * 2^exponent (n >= 4; destroyed); the radius grows by what is cut
 * off. */
static ew_real rounded(mp_limb_t *limbs, int n, int64_t exponent, bool negative, int64_t radius) {
    if (!normalize(limbs, n, &exponent)) {
        return zero_within(radius);
    }
    if (exponent > EXPONENT_LIMIT || exponent < -EXPONENT_LIMIT || radius > EXPONENT_LIMIT) {
        return ew_real_undefined();
    }
    ew_real result = {.exponent = exponent, .negative = negative, .radius = radius};
    memcpy(result.mantissa, limbs + n - LIMBS, sizeof result.mantissa);
    for (int i = 0; i < n - LIMBS; i++) {
        if (limbs[i]) {
            result.radius = larger(radius, exponent - BITS) + (radius != EW_REAL_EXACT);
            break;
        }
    }
    return result;
}

ew_real ew_real_from_int(int64_t value) {
    mp_limb_t limbs[LIMBS] = {0};
    limbs[LIMBS - 1] = value < 0 ? -(uint64_t)value : (uint64_t)value;
    return rounded(limbs, LIMBS, 64, value < 0, EW_REAL_EXACT);
}

ew_real ew_real_from_double(double value) {
    int exponent;
    double fraction = frexp(fabs(value), &exponent);
    mp_limb_t limbs[LIMBS] = {0};
    limbs[LIMBS - 1] = (mp_limb_t)ldexp(fraction, 64);
    return rounded(limbs, LIMBS, exponent, value < 0, EW_REAL_EXACT);
}

static ew_real from_limbs(const mp_limb_t *limbs, int n) {
    mp_limb_t copy[EW_RATIONAL_LIMBS + LIMBS] = {0};
    int pad = n < LIMBS ? LIMBS - n : 0;
    memcpy(copy + pad, limbs, (size_t)n * sizeof *copy);
    return rounded(copy, n + pad, (int64_t)n * 64, false, EW_REAL_EXACT);
}

ew_real ew_real_from_rational(ew_rational value) {
    ew_real top = from_limbs(value.numerator, value.numerator_limbs);
    top.negative = value.negative;
    return ew_rational_is_integer(value) ? top
                                         : ew_real_divide(top, from_limbs(value.denominator, value.denominator_limbs));
}

double ew_real_to_double(ew_real value) {
    if (value.undefined) {
        return NAN;
    }
    if (value.zero || value.exponent < -1100) {
        return 0;
    }
    double magnitude =
        value.exponent > 1100 ? HUGE_VAL : ldexp((double)value.mantissa[LIMBS - 1], (int)value.exponent - 64);
    return value.negative ? -magnitude : magnitude;
}

ew_real ew_real_negate(ew_real a) {
    a.negative = !a.zero && !a.negative;
    return a;
}

ew_real ew_real_scale(ew_real a, int64_t power) {
    if (!a.zero) {
        a.exponent += power;
    }
    if (a.radius != EW_REAL_EXACT) {
        a.radius += power;
    }
    return a;
}

bool ew_real_may_be_zero(ew_real a) {
    return a.undefined || a.zero || a.radius >= a.exponent - 1;
}

static int64_t sum_of_radii(int64_t a, int64_t b) {
    return a == EW_REAL_EXACT ? b : b == EW_REAL_EXACT ? a : larger(a, b) + 1;
}

ew_real ew_real_add(ew_real a, ew_real b) {
    if (a.undefined || b.undefined) {
        return ew_real_undefined();
    }
    int64_t radius = sum_of_radii(a.radius, b.radius);
    if (a.zero || b.zero) {
        ew_real result = a.zero ? b : a;
        result.radius = radius;
        return result;
    }
    if (a.exponent < b.exponent || (a.exponent == b.exponent && mpn_cmp(a.mantissa, b.mantissa, LIMBS) < 0)) {
        ew_real swap = a;
        a = b;
        b = swap;
    }
    /* Twice the width, so that nothing is lost while the operands overlap, and one limb for the carry. */
    mp_limb_t large[2 * LIMBS + 1] = {0}, small[2 * LIMBS + 1] = {0};
    int64_t distance = a.exponent - b.exponent;
    memcpy(large + LIMBS, a.mantissa, sizeof a.mantissa);
    if (distance > BITS) {
        a.radius = sum_of_radii(radius, b.exponent);
        return a;
    }
    int skip = (int)(distance / 64), bits = (int)(distance % 64);
    memcpy(small + LIMBS - skip, b.mantissa, sizeof b.mantissa);
    if (bits) {
        mpn_rshift(small, small, 2 * LIMBS, (unsigned)bits); /* distance <= 256: at most 63 zero bits go */
    }
    if (a.negative == b.negative) {
        mpn_add_n(large, large, small, 2 * LIMBS + 1);
    } else {
        mpn_sub_n(large, large, small, 2 * LIMBS + 1);
    }
    return rounded(large, 2 * LIMBS + 1, a.exponent + 64, a.negative, radius);
}

ew_real ew_real_subtract(ew_real a, ew_real b) {
    return ew_real_add(a, ew_real_negate(b));
}

/* |a b| <= 2^(ea + eb): the radius is |a| rb + |b| ra + ra rb. */
static int64_t radius_of_product(ew_real a, ew_real b) {
    int64_t radius = EW_REAL_EXACT;
    if (b.radius != EW_REAL_EXACT && !a.zero) {
        radius = sum_of_radii(radius, a.exponent + b.radius);
    }
    if (a.radius != EW_REAL_EXACT && !b.zero) {
        radius = sum_of_radii(radius, b.exponent + a.radius);
    }
    if (a.radius != EW_REAL_EXACT && b.radius != EW_REAL_EXACT) {
        radius = sum_of_radii(radius, a.radius + b.radius);
    }
    return radius;
}

ew_real ew_real_multiply(ew_real a, ew_real b) {
    if (a.undefined || b.undefined) {
        return ew_real_undefined();
    }
    int64_t radius = radius_of_product(a, b);
    if (a.zero || b.zero) {
        return zero_within(radius);
    }
    mp_limb_t limbs[2 * LIMBS];
    mpn_mul_n(limbs, a.mantissa, b.mantissa, LIMBS);
    return rounded(limbs, 2 * LIMBS, a.exponent + b.exponent, a.negative != b.negative, radius);
}

ew_real ew_real_divide(ew_real a, ew_real b) {
    if (a.undefined || ew_real_may_be_zero(b) || b.radius >= b.exponent - 2) {
        return ew_real_undefined();
    }
    int64_t radius =
        EW_REAL_EXACT; /* of the numerator's error and |a / b| times the divisor's, over |b| >= 2^(eb - 2) */
    if (a.radius != EW_REAL_EXACT) {
        radius = a.radius - (b.exponent - 2);
    }
    if (b.radius != EW_REAL_EXACT && !a.zero) {
        radius = sum_of_radii(radius, a.exponent - b.exponent + 1 + b.radius - (b.exponent - 2));
    }
    if (a.zero) {
        return zero_within(radius);
    }
    mp_limb_t top[2 * LIMBS + 1] = {0}, quotient[LIMBS + 2], rest[LIMBS];
    memcpy(top + LIMBS + 1, a.mantissa, sizeof a.mantissa);
    mpn_tdiv_qr(quotient + 0, rest, 0, top, 2 * LIMBS + 1, b.mantissa, LIMBS);
    /* quotient = floor(ma / mb * 2^320) has LIMBS + 2 limbs; a remainder is told by its lowest bit. */
    for (int i = 0; i < LIMBS; i++) {
        if (rest[i]) {
            quotient[0] |= 1;
        }
    }
    return rounded(quotient, LIMBS + 2, a.exponent - b.exponent + 64, a.negative != b.negative, radius);
}

ew_real ew_real_divide_small(ew_real a, uint64_t divisor) {
    if (a.undefined || a.zero || divisor == 0) {
        return divisor ? a : ew_real_undefined();
    }
    mp_limb_t limbs[LIMBS + 1] = {0};
    memcpy(limbs + 1, a.mantissa, sizeof a.mantissa);
    if (mpn_divrem_1(limbs, 0, limbs, LIMBS + 1, divisor)) {
        limbs[0] |= 1;
    }
    return rounded(limbs, LIMBS + 1, a.exponent, a.negative, a.radius);
}

ew_real ew_real_sqrt(ew_real a) {
    if (a.undefined || ew_real_is_negative(a)) {
        return ew_real_undefined();
    }
    if (ew_real_may_be_zero(a)) { /* the root of anything up to 2^(top + 1) */
        if (a.zero && a.radius == EW_REAL_EXACT) {
            return a;
        }
        int64_t top = a.zero ? a.radius : larger(a.radius, a.exponent);
        return zero_within((top + 1) / 2 + 1);
    }
    mp_limb_t limbs[2 * LIMBS + 1] = {0}, root[LIMBS + 1] = {0};
    int odd = (int)(a.exponent & 1);
    memcpy(limbs + LIMBS, a.mantissa, sizeof a.mantissa);
    if (odd) {
        mpn_rshift(limbs, limbs, 2 * LIMBS, 1);
    }
    int64_t exponent = (a.exponent + odd) / 2;
    if (mpn_sqrtrem(root + 1, NULL, limbs, 2 * LIMBS) != 0) {
        root[0] = 1;
    }
    /* |sqrt(x + r) - sqrt(x)| <= r / sqrt(x_min), sqrt(x_min) >= 2^(exponent - 2). */
    int64_t radius = a.radius == EW_REAL_EXACT ? EW_REAL_EXACT : a.radius - (exponent - 2);
    return rounded(root, LIMBS + 1, exponent, false, radius);
}

ew_ternary ew_real_equal(ew_real a, ew_real b) {
    if (a.undefined || b.undefined) {
        return EW_UNDECIDED;
    }
    ew_real difference = ew_real_subtract(a, b);
    if (difference.undefined) {
        return EW_UNDECIDED;
    }
    if (!ew_real_may_be_zero(difference)) {
        return EW_NO;
    }
    int64_t size = larger(a.zero ? -20 : a.exponent, b.zero ? -20 : b.exponent);
    return ew_real_is_fine(difference, size) ? EW_YES : EW_UNDECIDED;
}
