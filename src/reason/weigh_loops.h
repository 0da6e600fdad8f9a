/* The loops of weigh.h, compiled once for each machine: EW_WEIGH_TABLE is the table's name. */
#include "reason/weigh.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = 16 };

static float find_largest(const float *x, size_t n, bool *sound) {
    enum { MANY = 4 * LANES }; /* several vectors: one would wait for itself */
    float most[MANY];
    int bad[MANY] = {0}, any = 0;
    size_t i = 0;
    for (size_t k = 0; k < MANY; k++) {
        most[k] = -INFINITY;
    }
    for (; i + MANY <= n; i += MANY) {
        for (size_t k = 0; k < MANY; k++) {
            most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
            bad[k] |= !(x[i + k] <= FLT_MAX);
        }
    }
    for (; i < n; i++) {
        most[0] = x[i] > most[0] ? x[i] : most[0];
        bad[0] |= !(x[i] <= FLT_MAX);
    }
    for (size_t k = 0; k < MANY; k++) {
        most[0] = most[k] > most[0] ? most[k] : most[0];
        any |= bad[k];
    }
    *sound = !any;
    return most[0];
}

static void penalize_seen(const float *restrict logits, const uint8_t *restrict seen, size_t n, float penalty,
                          float *restrict out) {
    for (size_t i = 0; i < n; i++) {
        float x = logits[i], less = x > 0 ? x / penalty : x * penalty;
        out[i] = seen[i] ? less : x;
    }
}

static double power_of_two(int64_t exponent) {
    int64_t bits = (exponent + 1023) * (INT64_C(1) << 52);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ew_exp64 for -745 <= x <= 0, without branches: adding and taking off 1.5 * 2^52 is rint. */
static double exp_below_0(double x) {
    static const double log2_high = 0x1.62e42feep-1, log2_low = 0x1.a39ef35793c76p-33, log2_e = 0x1.71547652b82fep+0;
    static const double inverse_factorials[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    double n = (x * log2_e + 0x1.8p52) - 0x1.8p52;
    double r = (x - n * log2_high) - n * log2_low, sum = inverse_factorials[13];
    for (int k = 12; k >= 0; k--) {
        sum = sum * r + inverse_factorials[k];
    }
    int32_t exponent = (int32_t)n, half = exponent / 2;
    return sum * power_of_two(half) * power_of_two(exponent - half);
}

static void weigh_each(const float *restrict logits, size_t n, float largest, float temperature,
                       double *restrict weights, uint16_t *restrict buckets) {
    double top = (double)largest, factor = 1.0 / (double)temperature;
    for (size_t i = 0; i < n; i++) {
        double x = ((double)logits[i] - top) * factor, y = x < -745.0 ? -745.0 : x, weight = exp_below_0(y);
        double bucket = -(double)EW_WEIGH_BUCKETS_PER_UNIT * y;
        weights[i] = x < -745.0 ? 0.0 : weight;
        bucket = bucket > EW_WEIGH_BUCKETS - 1 ? EW_WEIGH_BUCKETS - 1 : bucket;
        buckets[i] = (uint16_t)(int32_t)bucket;
    }
}

/* exp(x) for -87 <= x <= 0 in float, to 2e-5: x itself has no more digits than that. */
static float exp_roughly(float x) {
    float n = (x * 0x1.715476p+0f + 0x1.8p23f) - 0x1.8p23f, r = x - n * 0x1.62e43p-1f;
    float sum = ((((r / 120 + 1.0f / 24) * r + 1.0f / 6) * r + 0.5f) * r + 1) * r + 1;
    int32_t bits = ((int32_t)n + 127) * (1 << 23);
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

static double sum_tail(const float *x, size_t n, float largest, float temperature, float cut, bool *any) {
    float sums[LANES] = {0}, factor = 1.0f / temperature;
    int others[LANES] = {0};
    double sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            float y = (x[i + k] - largest) * factor, weight = exp_roughly(y > -87.0f ? y : -87.0f);
            sums[k] += x[i + k] < cut ? weight : 0.0f;
            others[k] |= x[i + k] >= cut;
        }
    }
    *any = false;
    for (; i < n; i++) {
        float y = (x[i] - largest) * factor;
        sum += x[i] < cut ? (double)exp_roughly(y > -87.0f ? y : -87.0f) : 0;
        *any |= x[i] >= cut;
    }
    for (size_t k = 0; k < LANES; k++) {
        sum += (double)sums[k];
        *any |= others[k] != 0;
    }
    return sum;
}

static bool is_any_within(const float *x, size_t n, float low, float high) {
    int any = 0;
    for (size_t i = 0; i < n; i++) {
        any |= (x[i] >= low) & (x[i] <= high);
    }
    return any;
}

extern const ew_weigh_table EW_WEIGH_TABLE;
const ew_weigh_table EW_WEIGH_TABLE = {.largest = find_largest,
                                       .penalize = penalize_seen,
                                       .weigh = weigh_each,
                                       .tail = sum_tail,
                                       .any_within = is_any_within};
