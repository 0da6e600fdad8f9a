#include "train/measures.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_score(const void *left, const void *right) {
    const ew_judged *a = left, *b = right;
    return (a->score > b->score) - (a->score < b->score);
}

static int by_problem(const void *left, const void *right) {
    const ew_judged *a = left, *b = right;
    return a->problem != b->problem ? (a->problem > b->problem) - (a->problem < b->problem) : by_score(left, right);
}

/* Of samples that ascend by score: a right one beats all wrong ones below it, and half of those beside it. */
static double auc_of(const ew_judged *sorted, size_t n, size_t *n_pairs) {
    double beaten = 0.0;
    size_t n_wrong = 0, n_right = 0;
    for (size_t i = 0, end; i < n; i = end) {
        size_t right = 0, wrong = 0;
        for (end = i; end < n && sorted[end].score == sorted[i].score; end++) {
            right += sorted[end].right;
            wrong += !sorted[end].right;
        }
        beaten += (double)right * ((double)n_wrong + 0.5 * (double)wrong);
        n_right += right;
        n_wrong += wrong;
    }
    *n_pairs = n_right * n_wrong;
    return *n_pairs > 0 ? beaten / (double)*n_pairs : NAN;
}

static ew_judged *sorted_copy(const ew_judged *samples, size_t n, int (*compare)(const void *, const void *)) {
    ew_judged *copy = ew_allocate(n, sizeof *copy);
    if (copy && n > 0) {
        memcpy(copy, samples, n * sizeof *copy);
        qsort(copy, n, sizeof *copy, compare);
    }
    return copy;
}

ew_status ew_auc(const ew_judged *samples, size_t n, double *auc, ew_error *error) {
    size_t n_pairs;
    ew_judged *sorted = sorted_copy(samples, n, by_score);
    if (!sorted) {
        return ew_fail_memory(error, n * sizeof *sorted, "scores");
    }
    *auc = auc_of(sorted, n, &n_pairs);
    free(sorted);
    return EW_OK;
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Percentiles of the mean of problems drawn with replacement. */
static ew_status bootstrap(const double *aucs, size_t n, ew_auc_within *out, ew_error *error) {
    enum { DRAWS = 2000 };
    double *means = ew_allocate(DRAWS, sizeof *means);
    if (!means) {
        return ew_fail_memory(error, DRAWS * sizeof *means, "an interval");
    }
    for (size_t draw = 0; draw < DRAWS; draw++) {
        double sum = 0.0;
        for (size_t i = 0; i < n; i++) {
            sum += aucs[ew_random_bits(0, draw, i) % n];
        }
        means[draw] = sum / (double)n;
    }
    qsort(means, DRAWS, sizeof *means, by_size);
    out->low = means[DRAWS / 40];
    out->high = means[DRAWS - 1 - DRAWS / 40];
    free(means);
    return EW_OK;
}

ew_status ew_auc_by_problem(const ew_judged *samples, size_t n, ew_auc_within *out, ew_error *error) {
    *out = (ew_auc_within){NAN, NAN, NAN, NAN, 0};
    ew_judged *sorted = sorted_copy(samples, n, by_problem);
    double *aucs = ew_allocate(n, sizeof *aucs), sum = 0.0, weighted = 0.0;
    size_t all_pairs = 0;
    ew_status status = sorted && aucs ? EW_OK : ew_fail_memory(error, n * sizeof *sorted, "scores");
    for (size_t i = 0, end; status == EW_OK && i < n; i = end) {
        size_t n_pairs;
        for (end = i; end < n && sorted[end].problem == sorted[i].problem; end++) {
        }
        double auc = auc_of(sorted + i, end - i, &n_pairs);
        if (n_pairs > 0) {
            aucs[out->n_problems++] = auc;
            sum += auc;
            weighted += auc * (double)n_pairs;
            all_pairs += n_pairs;
        }
    }
    if (status == EW_OK && out->n_problems > 0) {
        out->mean = sum / (double)out->n_problems;
        out->pair_weighted = weighted / (double)all_pairs;
        status = bootstrap(aucs, out->n_problems, out, error);
    }
    free(sorted);
    free(aucs);
    return status;
}

double ew_calibration_error(const ew_judged *samples, size_t n) {
    enum { BINS = 10 };
    double p[BINS] = {0}, right[BINS] = {0}, sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double at = samples[i].score * BINS;
        size_t bin = at >= BINS - 1 ? BINS - 1 : at > 0.0 ? (size_t)at : 0;
        p[bin] += samples[i].score;
        right[bin] += samples[i].right;
    }
    for (size_t bin = 0; bin < BINS; bin++) {
        sum += fabs(p[bin] - right[bin]);
    }
    return n > 0 ? sum / (double)n : 0.0;
}

double ew_log_loss(const ew_judged *samples, size_t n, double scale, double offset) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double z = scale * samples[i].score + offset;
        sum += fmax(z, 0.0) - (samples[i].right ? z : 0.0) + log1p(exp(-fabs(z)));
    }
    return n > 0 ? sum / (double)n : 0.0;
}

/* The Newton step of the mean log loss at (a, b). */
static void newton_step(const ew_judged *samples, size_t n, double a, double b, double *da, double *db) {
    double ga = 0.0, gb = 0.0, haa = 1e-12, hab = 0.0, hbb = 1e-12;
    for (size_t i = 0; i < n; i++) {
        double s = samples[i].score, p = 1.0 / (1.0 + exp(-(a * s + b)));
        double slope = p - (samples[i].right ? 1.0 : 0.0), curve = p * (1.0 - p);
        ga += slope * s;
        gb += slope;
        haa += curve * s * s;
        hab += curve * s;
        hbb += curve;
    }
    double determinant = haa * hbb - hab * hab;
    *da = determinant > 0.0 ? (hbb * ga - hab * gb) / determinant : 0.0;
    *db = determinant > 0.0 ? (haa * gb - hab * ga) / determinant : 0.0;
}

void ew_calibrate(const ew_judged *samples, size_t n, double *scale, double *offset) {
    enum { STEPS = 200 };
    const double most = 1000.0;
    size_t n_right = 0;
    double a = 1.0, b = 0.0;
    for (size_t i = 0; i < n; i++) {
        n_right += samples[i].right;
    }
    for (int step = 0; step < STEPS && n_right > 0 && n_right < n; step++) {
        double da, db, loss = ew_log_loss(samples, n, a, b), length = 1.0;
        newton_step(samples, n, a, b, &da, &db);
        while (length > 1e-10 && ew_log_loss(samples, n, a - length * da, b - length * db) > loss) {
            length *= 0.5;
        }
        a = fmin(fmax(a - length * da, -most), most);
        b = fmin(fmax(b - length * db, -most), most);
        if (fabs(length * da) + fabs(length * db) < 1e-13) {
            break;
        }
    }
    *scale = a;
    *offset = b;
}
