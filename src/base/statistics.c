#include "base/statistics.h"

#include <math.h>

static const double z = EW_NORMAL_HALF;

void ew_wilson(size_t k, size_t n, double *low, double *high) {
    if (n == 0) {
        *low = 0.0;
        *high = 1.0;
        return;
    }
    double m = (double)n, p = (double)k / m, middle = (p + z * z / (2.0 * m)) / (1.0 + z * z / m);
    double half = z / (1.0 + z * z / m) * sqrt(p * (1.0 - p) / m + z * z / (4.0 * m * m));
    *low = fmax(middle - half, 0.0);
    *high = fmin(middle + half, 1.0);
}

/* Of right and wrong in the two runs, a positive one corrected for continuity; 0 where one of them has no spread. */
static double correlation(const ew_paired *pairs) {
    double both = (double)pairs->both, first = (double)pairs->first, second = (double)pairs->second;
    double neither = (double)pairs->neither, n = both + first + second + neither;
    double spread = sqrt(both + first) * sqrt(second + neither) * sqrt(both + second) * sqrt(first + neither);
    double shared = both * neither - first * second;
    if (shared > 0.0) {
        shared = fmax(shared - n / 2.0, 0.0);
    }
    return spread > 0.0 ? shared / spread : 0.0;
}

/* sqrt(a^2 - 2 r a b + b^2), whose argument rounding may take below 0. */
static double joined(double a, double b, double r) {
    return sqrt(fmax(a * a - 2.0 * r * a * b + b * b, 0.0));
}

void ew_paired_difference(const ew_paired *pairs, double *difference, double *low, double *high) {
    size_t n = pairs->both + pairs->first + pairs->second + pairs->neither;
    *difference = *low = *high = 0.0;
    if (n == 0) {
        return;
    }
    size_t k1 = pairs->both + pairs->first, k2 = pairs->both + pairs->second;
    double p1 = (double)k1 / (double)n, p2 = (double)k2 / (double)n, r = correlation(pairs);
    double low1, high1, low2, high2;
    ew_wilson(k1, n, &low1, &high1);
    ew_wilson(k2, n, &low2, &high2);
    *difference = p2 - p1;
    *low = *difference - joined(p2 - low2, high1 - p1, r);
    *high = *difference + joined(high2 - p2, p1 - low1, r);
}

double ew_mcnemar(const ew_paired *pairs) {
    size_t n = pairs->first + pairs->second, fewer = pairs->first < pairs->second ? pairs->first : pairs->second;
    double log_term = -(double)n * log(2.0), tail = exp(log_term); /* n over i, times 2^-n */
    for (size_t i = 0; i < fewer; i++) {
        log_term += log((double)(n - i) / (double)(i + 1));
        tail += exp(log_term);
    }
    return fmin(2.0 * tail, 1.0);
}

void ew_ratio_of_sums(const double *values, const double *weights, size_t n, double *ratio, double *half) {
    double value = 0, weight = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        value += values[i];
        weight += weights[i];
    }
    *ratio = value / weight;
    for (size_t i = 0; i < n; i++) {
        double residual = values[i] - *ratio * weights[i];
        squares += residual * residual;
    }
    *half = n > 1 ? z * sqrt(squares * (double)n / (double)(n - 1)) / weight : 0;
}
