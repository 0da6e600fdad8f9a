#include "reason/sampler.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernel/math64.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ew_status check_rule(const ew_sampling *rule, ew_error *error) {
    const struct {
        const char *name;
        float value, least, most;
    } ranges[] = {
        {"temperature", rule->temperature, 0.0f, 1e6f},
        {"top_p", rule->top_p, 0.0f, 1.0f},
        {"min_p", rule->min_p, 0.0f, 1.0f},
        {"repetition penalty", rule->repetition_penalty, 1e-3f, 1e3f},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (!(ranges[i].value >= ranges[i].least && ranges[i].value <= ranges[i].most)) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "%s is %g; it must lie between %g and %g", ranges[i].name,
                           (double)ranges[i].value, (double)ranges[i].least, (double)ranges[i].most);
        }
    }
    return EW_OK;
}

ew_status ew_sampler_open(const ew_sampling *rule, size_t vocab_size, ew_sampler *sampler, ew_error *error) {
    *sampler = (ew_sampler){0};
    ew_status status = check_rule(rule, error);
    if (status != EW_OK) {
        return status;
    }
    sampler->rule = *rule;
    sampler->vocab_size = vocab_size;
    bool penalized = rule->repetition_penalty != 1.0f;
    sampler->seen = penalized ? ew_allocate(vocab_size, 1) : NULL;
    sampler->logits = ew_allocate(vocab_size, sizeof *sampler->logits);
    sampler->order = ew_allocate(vocab_size, sizeof *sampler->order);
    sampler->probability = ew_allocate(vocab_size, sizeof *sampler->probability);
    if ((penalized && !sampler->seen) || !sampler->logits || !sampler->order || !sampler->probability) {
        ew_sampler_free(sampler);
        return ew_fail_memory(error, vocab_size * 16, "the sampler");
    }
    return EW_OK;
}

void ew_sampler_free(ew_sampler *sampler) {
    free(sampler->seen);
    free(sampler->logits);
    free(sampler->order);
    free(sampler->probability);
    *sampler = (ew_sampler){0};
}

void ew_sampler_see(ew_sampler *sampler, int32_t token) {
    if (sampler->seen && token >= 0 && (size_t)token < sampler->vocab_size) {
        sampler->seen[token] = 1;
    }
}

/* Copies the logits with the penalty applied; the index of the largest, the smallest id of equals. */
static ew_status apply_penalty(ew_sampler *sampler, const float *logits, size_t *best, ew_error *error) {
    float penalty = sampler->rule.repetition_penalty, largest = -INFINITY;
    bool bad = false;
    *best = 0;
    for (size_t i = 0; i < sampler->vocab_size; i++) {
        float x = logits[i];
        bad |= isnan(x) || x == INFINITY;
        if (sampler->seen && sampler->seen[i]) {
            x = x > 0 ? x / penalty : x * penalty;
        }
        sampler->logits[i] = x;
        if (x > largest) {
            largest = x;
            *best = i;
        }
    }
    if (bad) {
        return ew_fail(error, EW_ERROR_NUMERIC, "a logit is not a finite number");
    }
    if (largest == -INFINITY) {
        return ew_fail(error, EW_ERROR_NUMERIC, "every logit is minus infinity");
    }
    return EW_OK;
}

/* ---- Heaps of candidates: no more of the vocabulary is sorted than is needed ---- */

static bool comes_first(const float *logits, int32_t a, int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void swap(int32_t *a, int32_t *b) {
    int32_t other = *a;
    *a = *b;
    *b = other;
}

/* On top stands the best, or the worst. */
typedef enum heap_top { BEST_ON_TOP, WORST_ON_TOP } heap_top;

static void sift_down(const float *logits, heap_top top, int32_t *heap, size_t n, size_t parent) {
    for (;;) {
        size_t child = 2 * parent + 1;
        if (child >= n) {
            return;
        }
        bool best = top == BEST_ON_TOP;
        if (child + 1 < n && comes_first(logits, heap[child + 1], heap[child]) == best) {
            child++;
        }
        if (comes_first(logits, heap[child], heap[parent]) != best) {
            return;
        }
        swap(&heap[child], &heap[parent]);
        parent = child;
    }
}

static void make_heap(const float *logits, heap_top top, int32_t *heap, size_t n) {
    for (size_t parent = n / 2; parent-- > 0;) {
        sift_down(logits, top, heap, n, parent);
    }
}

/* Moves the top of a heap of n to its end, which leaves a heap of n - 1. */
static int32_t pop(const float *logits, heap_top top, int32_t *heap, size_t n) {
    swap(&heap[0], &heap[n - 1]);
    sift_down(logits, top, heap, n - 1, 0);
    return heap[n - 1];
}

/* The k best ids of probability above 0, best first (which is a heap, too); returns how many there are. */
static size_t select_best(ew_sampler *sampler, size_t k) {
    const float *logits = sampler->logits;
    int32_t *order = sampler->order;
    size_t n = 0;
    for (size_t i = 0; i < sampler->vocab_size; i++) {
        if (logits[i] == -INFINITY || (n == k && !comes_first(logits, (int32_t)i, order[0]))) {
            continue;
        }
        if (n < k) {
            order[n++] = (int32_t)i;
            if (n == k) {
                make_heap(logits, WORST_ON_TOP, order, n);
            }
        } else {
            order[0] = (int32_t)i;
            sift_down(logits, WORST_ON_TOP, order, n, 0);
        }
    }
    if (n < k) {
        make_heap(logits, WORST_ON_TOP, order, n);
    }
    for (size_t left = n; left > 1; left--) {
        pop(logits, WORST_ON_TOP, order, left);
    }
    return n;
}

/* All ids of probability above 0, the best on top of a heap. */
static size_t collect_all(ew_sampler *sampler) {
    size_t n = 0;
    for (size_t i = 0; i < sampler->vocab_size; i++) {
        if (sampler->logits[i] > -INFINITY) {
            sampler->order[n++] = (int32_t)i;
        }
    }
    make_heap(sampler->logits, BEST_ON_TOP, sampler->order, n);
    return n;
}

static void reverse(int32_t *order, size_t n) {
    for (size_t i = 0, j = n; i + 1 < j; i++) {
        swap(&order[i], &order[--j]);
    }
}

/* ---- Truncation ---- */

/* exp(x) of step 2: 1 for the best. */
static double weight_of(const ew_sampler *sampler, int32_t token, float largest) {
    return ew_exp64(((double)sampler->logits[token] - (double)largest) / (double)sampler->rule.temperature);
}

static double total_weight(const ew_sampler *sampler, size_t n, float largest) {
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        total += weight_of(sampler, sampler->order[i], largest);
    }
    return total;
}

/* Takes candidates off a heap of n, best first, while they pass top_p and min_p; they end at the front of `order`. */
static void keep_best(ew_sampler *sampler, size_t n, float largest) {
    double top_p = (double)sampler->rule.top_p, min_p = (double)sampler->rule.min_p;
    double total = top_p < 1 ? total_weight(sampler, n, largest) : 1, share = 0, sum = 0;
    size_t kept = 0;
    while (kept < n && (kept == 0 || top_p >= 1 || share < top_p)) {
        int32_t best = pop(sampler->logits, BEST_ON_TOP, sampler->order, n - kept);
        double weight = weight_of(sampler, best, largest);
        if (weight < min_p) {
            break;
        }
        sampler->probability[kept++] = weight;
        share += weight / total;
        sum += weight;
    }
    reverse(sampler->order, n);
    sampler->n_kept = kept;
    for (size_t i = 0; i < kept; i++) {
        sampler->probability[i] /= sum;
    }
}

static bool truncates(const ew_sampling *rule) {
    return rule->top_k > 0 || rule->top_p < 1.0f || rule->min_p > 0.0f;
}

/* Steps 1 to 6, `largest` being the best logit of `best`. */
static void find_candidates(ew_sampler *sampler, size_t best) {
    if (sampler->rule.temperature == 0.0f) {
        sampler->order[0] = (int32_t)best;
        sampler->probability[0] = 1;
        sampler->n_kept = 1;
        return;
    }
    size_t k = sampler->rule.top_k;
    size_t n = k > 0 && k < sampler->vocab_size ? select_best(sampler, k) : collect_all(sampler);
    keep_best(sampler, n, sampler->logits[best]);
}

ew_status ew_sampler_candidates(ew_sampler *sampler, const float *logits, ew_error *error) {
    size_t best;
    ew_status status = apply_penalty(sampler, logits, &best, error);
    if (status == EW_OK) {
        find_candidates(sampler, best);
    }
    return status;
}

/* Among all tokens: candidates are taken off the heap only as far as the draw reaches. */
static int32_t draw_untruncated(ew_sampler *sampler, size_t best, double u) {
    float largest = sampler->logits[best];
    size_t n = collect_all(sampler);
    double target = u * total_weight(sampler, n, largest), sum = 0;
    for (size_t left = n; left > 1; left--) {
        int32_t token = pop(sampler->logits, BEST_ON_TOP, sampler->order, left);
        sum += weight_of(sampler, token, largest);
        if (target < sum) {
            return token;
        }
    }
    return sampler->order[0];
}

static int32_t draw_candidate(const ew_sampler *sampler, double u) {
    double sum = 0;
    size_t i = 0;
    for (; i + 1 < sampler->n_kept; i++) {
        sum += sampler->probability[i];
        if (u < sum) {
            break;
        }
    }
    return sampler->order[i];
}

ew_status ew_sampler_draw(ew_sampler *sampler, const float *logits, uint64_t stream, uint64_t position, int32_t *token,
                          ew_error *error) {
    size_t best;
    ew_status status = apply_penalty(sampler, logits, &best, error);
    if (status != EW_OK) {
        return status;
    }
    double u = ew_random_unit(sampler->rule.seed, stream, position);
    if (sampler->rule.temperature > 0.0f && !truncates(&sampler->rule)) {
        *token = draw_untruncated(sampler, best, u);
        return EW_OK;
    }
    find_candidates(sampler, best);
    *token = draw_candidate(sampler, u);
    return EW_OK;
}

double ew_log_probability(const float *logits, size_t vocab_size, float temperature, int32_t token) {
    double t = temperature > 0 ? (double)temperature : 1, sum = 0;
    float largest = -INFINITY;
    for (size_t i = 0; i < vocab_size; i++) {
        largest = logits[i] > largest ? logits[i] : largest;
    }
    for (size_t i = 0; i < vocab_size; i++) {
        sum += ew_exp64(((double)logits[i] - (double)largest) / t);
    }
    return ((double)logits[token] - (double)largest) / t - ew_log64(sum);
}
