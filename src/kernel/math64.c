#include "kernel/math64.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* log 2 with 32 trailing zero bits in the first part, so that its product with an exponent is exact. */
static const double LOG2_HIGH = 0x1.62e42feep-1, LOG2_LOW = 0x1.a39ef35793c76p-33;
static const double LOG2_E = 0x1.71547652b82fep+0;
/* pi/2 in three parts of 33 bits: products with integers below 2^20 are exact. */
static const double HALF_PI_1 = 0x1.921fb544p+0, HALF_PI_2 = 0x1.0b4611a6p-34, HALF_PI_3 = 0x1.3198a2e037073p-69;
static const double TWO_OVER_PI = 0x1.45f306dc9c883p-1;

static double power_of_two(int exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double ew_log64(double x) {
    if (!(x > 0)) {
        return x == 0 ? -INFINITY : NAN;
    }
    if (isinf(x)) {
        return x;
    }
    int exponent;
    double m = frexp(x, &exponent); /* exact: m in [1/2, 1) */
    if (m < 0x1.6a09e667f3bcdp-1) {
        m = m * 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int k = 23; k >= 3; k -= 2) {
        sum = (sum + 1.0 / k) * square;
    }
    double log_m = 2 * s + 2 * s * sum;
    return exponent * LOG2_HIGH + (exponent * LOG2_LOW + log_m);
}

double ew_exp64(double x) {
    if (isnan(x)) {
        return x;
    }
    if (x > 709.78) {
        return INFINITY;
    }
    if (x < -745.0) {
        return 0;
    }
    static const double inverse_factorials[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    double n = rint(x * LOG2_E);
    double r = (x - n * LOG2_HIGH) - n * LOG2_LOW;
    double sum = inverse_factorials[13];
    for (int k = 12; k >= 0; k--) {
        sum = sum * r + inverse_factorials[k];
    }
    int exponent = (int)n, half = exponent / 2; /* in two steps: the result may be denormal or near the top */
    return sum * power_of_two(half) * power_of_two(exponent - half);
}

static double sine_series(double r) {
    double square = r * r, sum = 0;
    for (int k = 17; k >= 3; k -= 2) {
        sum = (1 + sum) * (-square / ((k - 1) * k));
    }
    return r + r * sum;
}

static double cosine_series(double r) {
    double square = r * r, sum = 0;
    for (int k = 16; k >= 2; k -= 2) {
        sum = (1 + sum) * (-square / ((k - 1) * k));
    }
    return 1 + sum;
}

void ew_sincos64(double x, double *sine, double *cosine) {
    double k = rint(x * TWO_OVER_PI);
    double r = ((x - k * HALF_PI_1) - k * HALF_PI_2) - k * HALF_PI_3;
    double s = sine_series(r), c = cosine_series(r);
    switch ((int64_t)k & 3) {
    case 0:
        *sine = s, *cosine = c;
        break;
    case 1:
        *sine = c, *cosine = -s;
        break;
    case 2:
        *sine = -s, *cosine = -c;
        break;
    default:
        *sine = -c, *cosine = s;
        break;
    }
}
