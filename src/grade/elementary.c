/* exp, log, sin, cos and atan of balls: a double gives the first 50 bits, the addition theorems and a short
 * series the rest. Each result's radius is stated outright (what the argument's error becomes, plus a bound
 * for ours); the tests confirm value and radius against MPFR. */
#include "grade/real.h"

#include <math.h>

#define OWN_ERROR (-246) /* relative error of the series below, in bits; they lose fewer than 8 of 256 */

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

ew_real ew_real_pi(void) {
    return (ew_real){.mantissa = {UINT64_C(0x020bbea63b139b22), UINT64_C(0x29024e088a67cc74),
                                  UINT64_C(0xc4c6628b80dc1cd1), UINT64_C(0xc90fdaa22168c234)},
                     .exponent = 2,
                     .radius = 2 - EW_REAL_BITS};
}

static ew_real log_of_2(void) {
    return (ew_real){.mantissa = {UINT64_C(0x8a0d175b8baafa2b), UINT64_C(0x40f343267298b62d),
                                  UINT64_C(0xc9e3b39803f2f6af), UINT64_C(0xb17217f7d1cf79ab)},
                     .exponent = 0,
                     .radius = -EW_REAL_BITS};
}

/* Replaces an over-careful radius by `radius`, a proved one. */
static ew_real with_radius(ew_real value, int64_t radius) {
    value.radius = radius;
    return value;
}

static bool negligible(ew_real term) {
    return term.zero || term.undefined || term.exponent < -EW_REAL_BITS - 8;
}

ew_real ew_real_exp(ew_real a) {
    if (a.undefined || (!a.zero && a.exponent > 45) || a.radius > -1) {
        return ew_real_undefined();
    }
    double turns = nearbyint(ew_real_to_double(a) / 0.6931471805599453);
    ew_real rest = ew_real_subtract(a, ew_real_multiply(ew_real_from_double(turns), log_of_2()));
    int64_t error = larger(rest.radius, OWN_ERROR);
    rest = with_radius(rest, EW_REAL_EXACT);
    ew_real sum = ew_real_from_int(1), term = sum;
    for (uint64_t n = 1; n < 100 && !negligible(term); n++) {
        term = with_radius(ew_real_divide_small(ew_real_multiply(term, rest), n), EW_REAL_EXACT);
        sum = with_radius(ew_real_add(sum, term), EW_REAL_EXACT);
    }
    sum = with_radius(sum, sum.exponent + error + 2); /* e^r - 1 <= 2 r */
    return ew_real_scale(sum, (int64_t)turns);
}

/* w + s w^3/3 + w^5/5 + ... for |w| < 2^-40, s = 1 (artanh) or -1 (arctan, alternating). */
static ew_real short_series(ew_real w, bool alternating) {
    w = with_radius(w, EW_REAL_EXACT);
    ew_real square = with_radius(ew_real_multiply(w, w), EW_REAL_EXACT), power = w, sum = w;
    for (uint64_t n = 3; n < 16 && !power.zero && !power.undefined; n += 2) {
        power = with_radius(ew_real_multiply(power, square), EW_REAL_EXACT);
        ew_real term = ew_real_divide_small(power, n);
        sum = with_radius(ew_real_add(sum, alternating && (n & 2) ? ew_real_negate(term) : term), EW_REAL_EXACT);
    }
    return sum;
}

ew_real ew_real_log(ew_real a) {
    if (!ew_real_is_positive(a) || a.radius >= a.exponent - 2) {
        return ew_real_undefined();
    }
    int64_t error = a.radius == EW_REAL_EXACT ? EW_REAL_EXACT : a.radius - (a.exponent - 2) + 1;
    ew_real fraction = with_radius(a, EW_REAL_EXACT);
    int64_t exponent = a.exponent;
    fraction.exponent = 0;
    double head = ew_real_to_double(fraction); /* in [1/2, 1) */
    if (head < 0.70710678) {                   /* nearer to 1, so that no digits cancel for numbers just above it */
        fraction.exponent = 1;
        exponent--;
        head *= 2;
    }
    ew_real guess = ew_real_from_double(log(head));
    /* log f = guess + log(f e^-guess), the latter 2 artanh((z - 1) / (z + 1)) with z - 1 of about 2^-52. */
    ew_real z = with_radius(ew_real_multiply(fraction, ew_real_exp(ew_real_negate(guess))), EW_REAL_EXACT);
    ew_real one = ew_real_from_int(1);
    ew_real w = ew_real_divide(with_radius(ew_real_subtract(z, one), EW_REAL_EXACT),
                               with_radius(ew_real_add(z, one), EW_REAL_EXACT));
    ew_real tail = ew_real_scale(short_series(w, false), 1);
    ew_real result = with_radius(ew_real_add(guess, tail), OWN_ERROR + 4);
    result = ew_real_add(result, ew_real_multiply(ew_real_from_int(exponent), log_of_2()));
    return result.undefined ? result : with_radius(result, larger(result.radius, error) + 1);
}

/* Taylor's series of sine (first = r) and cosine (first = 1) for |r| < 0.8. */
static ew_real taylor(ew_real first, ew_real square, uint64_t n) {
    ew_real sum = first, term = first;
    for (; n < 120 && !negligible(term); n += 2) {
        term = ew_real_divide_small(with_radius(ew_real_multiply(term, square), EW_REAL_EXACT), n * (n + 1));
        term = with_radius(ew_real_negate(term), EW_REAL_EXACT);
        sum = with_radius(ew_real_add(sum, term), EW_REAL_EXACT);
    }
    return sum;
}

void ew_real_sin_cos(ew_real a, ew_real *sine, ew_real *cosine) {
    *sine = *cosine = ew_real_undefined();
    if (a.undefined || (!a.zero && a.exponent > 50) || a.radius > -1) {
        return;
    }
    double quarters = nearbyint(ew_real_to_double(a) / 1.5707963267948966);
    ew_real quarter = ew_real_scale(ew_real_pi(), -1);
    ew_real rest = ew_real_subtract(a, ew_real_multiply(ew_real_from_double(quarters), quarter));
    int64_t radius = larger(rest.radius, OWN_ERROR) + 1;
    rest = with_radius(rest, EW_REAL_EXACT);
    ew_real square = with_radius(ew_real_multiply(rest, rest), EW_REAL_EXACT);
    ew_real s = with_radius(taylor(rest, square, 2), radius);
    ew_real c = with_radius(taylor(ew_real_from_int(1), square, 1), radius);
    switch ((int64_t)quarters & 3) {
    case 0:
        *sine = s, *cosine = c;
        break;
    case 1:
        *sine = c, *cosine = ew_real_negate(s);
        break;
    case 2:
        *sine = ew_real_negate(s), *cosine = ew_real_negate(c);
        break;
    default:
        *sine = ew_real_negate(c), *cosine = s;
        break;
    }
}

static ew_real atan_up_to_1(ew_real a) {
    int64_t radius = larger(a.radius, OWN_ERROR + 2) + 1; /* the derivative is at most 1 */
    ew_real x = with_radius(a, EW_REAL_EXACT), sine, cosine;
    ew_real guess = ew_real_from_double(atan(ew_real_to_double(x)));
    ew_real_sin_cos(guess, &sine, &cosine);
    sine = with_radius(sine, EW_REAL_EXACT);
    cosine = with_radius(cosine, EW_REAL_EXACT);
    /* tan(atan x - guess) = (x cos - sin) / (cos + x sin) */
    ew_real top = with_radius(ew_real_subtract(ew_real_multiply(x, cosine), sine), EW_REAL_EXACT);
    ew_real bottom = with_radius(ew_real_add(cosine, ew_real_multiply(x, sine)), EW_REAL_EXACT);
    ew_real result = ew_real_add(guess, short_series(ew_real_divide(top, bottom), true));
    return result.undefined ? result : with_radius(result, radius);
}

ew_real ew_real_atan(ew_real a) {
    if (a.undefined || a.zero || a.exponent <= 0) {
        return a.undefined || (a.zero && a.radius == EW_REAL_EXACT) ? a : atan_up_to_1(a);
    }
    ew_real inverse = ew_real_divide(ew_real_from_int(1), a);
    if (inverse.undefined) {
        return inverse;
    }
    ew_real half = ew_real_scale(ew_real_pi(), -1);
    return ew_real_subtract(a.negative ? ew_real_negate(half) : half, atan_up_to_1(inverse));
}

ew_real ew_real_atan2(ew_real y, ew_real x) {
    if (y.zero && y.radius == EW_REAL_EXACT && !ew_real_may_be_zero(x)) {
        return x.negative ? ew_real_pi() : y;
    }
    if (ew_real_may_be_zero(x) || (!y.undefined && !y.zero && y.exponent > x.exponent)) {
        if (ew_real_may_be_zero(y)) {
            return ew_real_undefined();
        }
        ew_real half = ew_real_scale(ew_real_pi(), -1); /* +-pi/2 - atan(x / y) */
        return ew_real_subtract(y.negative ? ew_real_negate(half) : half, ew_real_atan(ew_real_divide(x, y)));
    }
    ew_real angle = ew_real_atan(ew_real_divide(y, x));
    if (x.negative) {
        angle = ew_real_add(angle, y.negative ? ew_real_negate(ew_real_pi()) : ew_real_pi());
    }
    return angle;
}
