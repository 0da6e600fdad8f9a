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
    sampler->loops = ew_weigh_choose();
    bool penalized = rule->repetition_penalty != 1.0f;
    sampler->seen = penalized ? ew_allocate(vocab_size, 1) : NULL;
    sampler->penalized = penalized ? ew_allocate(vocab_size, sizeof *sampler->penalized) : NULL;
    sampler->order = ew_allocate(vocab_size, sizeof *sampler->order);
    sampler->probability = ew_allocate(vocab_size, sizeof *sampler->probability);
    sampler->sums = ew_allocate(2 * EW_WEIGH_BUCKETS, sizeof *sampler->sums);
    if ((penalized && (!sampler->seen || !sampler->penalized)) || !sampler->order || !sampler->probability ||
        !sampler->sums) {
        ew_sampler_free(sampler);
        return ew_fail_memory(error, vocab_size * 16, "the sampler");
    }
    return EW_OK;
}

void ew_sampler_free(ew_sampler *sampler) {
    free(sampler->seen);
    free(sampler->penalized);
    free(sampler->order);
    free(sampler->probability);
    free(sampler->sums);
    *sampler = (ew_sampler){0};
}

void ew_sampler_see(ew_sampler *sampler, int32_t token) {
    if (sampler->seen && token >= 0 && (size_t)token < sampler->vocab_size) {
        sampler->seen[token] = 1;
    }
}

/* Looks at the logits, with the penalty applied; the largest of them. */
static ew_status apply_penalty(ew_sampler *sampler, const float *logits, float *largest, ew_error *error) {
    bool sound;
    sampler->logits = logits;
    if (sampler->penalized && sampler->seen) {
        sampler->loops->penalize(logits, sampler->seen, sampler->vocab_size, sampler->rule.repetition_penalty,
                                 sampler->penalized);
        sampler->logits = sampler->penalized;
    }
    *largest = sampler->loops->largest(sampler->logits, sampler->vocab_size, &sound);
    if (!sound) {
        return ew_fail(error, EW_ERROR_NUMERIC, "a logit is not a finite number");
    }
    if (*largest == -INFINITY) {
        return ew_fail(error, EW_ERROR_NUMERIC, "every logit is minus infinity");
    }
    return EW_OK;
}

/* The smallest id of the equals. */
static int32_t find_best(const ew_sampler *sampler, float largest) {
    int32_t i = 0;
    while (sampler->logits[i] != largest) {
        i++;
    }
    return i;
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
    enum { STRETCH = 256 };
    const float *logits = sampler->logits;
    int32_t *order = sampler->order;
    size_t n = 0;
    for (size_t at = 0; at < sampler->vocab_size; at += STRETCH) {
        size_t end = sampler->vocab_size - at < STRETCH ? sampler->vocab_size : at + STRETCH;
        if (n == k && !sampler->loops->any_within(logits + at, end - at, logits[order[0]], INFINITY)) {
            continue;
        }
        for (size_t i = at; i < end; i++) {
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
    return ew_exp64(((double)sampler->logits[token] - (double)largest) * (1.0 / (double)sampler->rule.temperature));
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

/* Steps 1 to 6. */
static void find_candidates(ew_sampler *sampler, float largest) {
    if (sampler->rule.temperature == 0.0f) {
        sampler->order[0] = find_best(sampler, largest);
        sampler->probability[0] = 1;
        sampler->n_kept = 1;
        return;
    }
    size_t k = sampler->rule.top_k;
    size_t n = k > 0 && k < sampler->vocab_size ? select_best(sampler, k) : collect_all(sampler);
    keep_best(sampler, n, largest);
}

ew_status ew_sampler_candidates(ew_sampler *sampler, const float *logits, ew_error *error) {
    float largest;
    ew_status status = apply_penalty(sampler, logits, &largest, error);
    if (status == EW_OK) {
        find_candidates(sampler, largest);
    }
    return status;
}

/* ---- Drawing among few candidates, sorted ---- */

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

/* ---- Drawing where a few tokens have nearly all of the probability ----
 *
 * The draw falls among these, and the sum of all the others' weights need not be known better than it takes to say so.
 * Where it does not say so, everything is computed: the token is the same in any case. */

/* Tokens down to exp(-12) of the best; more than so many, and nothing is gained. */
static const float HEAD_DEPTH = 12.0f;
enum { HEAD_MOST = 2048 };

/* A sum of weights that was added up in another order differs by less than this part. */
static const double ROUNDING = 1e-12, TAIL_ERROR = 1e-4;

typedef struct head {
    size_t n;         /* in `order`, a heap with the best on top */
    double low, high; /* bounds of the sum of all weights */
} head;

/* False when the head is too large. */
static bool find_head(ew_sampler *sampler, float largest, head *out) {
    enum { STRETCH = 256 };
    float temperature = sampler->rule.temperature, cut = largest - HEAD_DEPTH * temperature;
    double tail = 0, sum = 0;
    size_t n = 0;
    for (size_t at = 0; at < sampler->vocab_size; at += STRETCH) {
        size_t end = sampler->vocab_size - at < STRETCH ? sampler->vocab_size : at + STRETCH;
        bool any;
        tail += sampler->loops->tail(sampler->logits + at, end - at, largest, temperature, cut, &any);
        for (size_t i = at; any && i < end; i++) {
            if (sampler->logits[i] >= cut && n < HEAD_MOST) {
                sampler->order[n++] = (int32_t)i;
            }
        }
        if (n == HEAD_MOST) {
            return false;
        }
    }
    for (size_t i = 0; i < n; i++) {
        sum += weight_of(sampler, sampler->order[i], largest);
    }
    make_heap(sampler->logits, BEST_ON_TOP, sampler->order, n);
    *out =
        (head){n, (sum + tail * (1 - TAIL_ERROR)) * (1 - ROUNDING), (sum + tail * (1 + TAIL_ERROR)) * (1 + ROUNDING)};
    return true;
}

/* Without truncation: the token at which the cumulative sum passes u of everything. False where that cannot be told. */
static bool draw_from_all(ew_sampler *sampler, float largest, const head *h, double u, int32_t *token) {
    double sum = 0;
    for (size_t i = 0; i < h->n; i++) {
        *token = pop(sampler->logits, BEST_ON_TOP, sampler->order, h->n - i);
        sum += weight_of(sampler, *token, largest);
        if (u * h->high < sum * (1 - ROUNDING)) {
            return true;
        }
        if (u * h->low < sum * (1 + ROUNDING)) {
            return false;
        }
    }
    return false;
}

/* Takes off the heap what passes top_p and min_p; the weights are in `probability`. False where that cannot be told. */
static bool keep_of_head(ew_sampler *sampler, float largest, const head *h, double *kept_sum) {
    double top_p = (double)sampler->rule.top_p, min_p = (double)sampler->rule.min_p, sum = 0;
    double low = top_p < 1 ? top_p * h->low : INFINITY, high = top_p < 1 ? top_p * h->high : INFINITY;
    for (size_t n = 0; n < h->n; n++) {
        double weight = weight_of(sampler, pop(sampler->logits, BEST_ON_TOP, sampler->order, h->n - n), largest);
        bool ends = weight < min_p;
        sum += ends ? 0 : weight;
        sampler->probability[n] = weight;
        sampler->n_kept = n + !ends;
        *kept_sum = sum;
        if (ends || sum >= high) {
            return true;
        }
        if (sum >= low) {
            return false;
        }
    }
    return false;
}

static bool draw_by_head(ew_sampler *sampler, float largest, double u, int32_t *token) {
    head h;
    double kept, sum = 0;
    if (!find_head(sampler, largest, &h)) {
        return false;
    }
    if (!(sampler->rule.top_p < 1.0f) && !(sampler->rule.min_p > 0.0f)) {
        return draw_from_all(sampler, largest, &h, u, token);
    }
    if (!keep_of_head(sampler, largest, &h, &kept)) {
        return false;
    }
    for (size_t i = 0; i < sampler->n_kept; i++) { /* they came off the heap's end */
        *token = sampler->order[h.n - 1 - i];
        sum += sampler->probability[i];
        if (i + 1 == sampler->n_kept || u * kept < sum - kept * ROUNDING) {
            return true;
        }
        if (u * kept < sum + kept * ROUNDING) {
            return false;
        }
    }
    return false;
}

/* ---- Drawing among a whole vocabulary, by buckets ---- */

/* Sums by bucket of the weights of at least `least`; returns all together. Even and odd ids have sums of their own, or
 * each addition would wait for the one before. */
static double sum_buckets(ew_sampler *sampler, float largest, double least) {
    enum { STRETCH = 512 };
    double weights[STRETCH], total = 0, *even = sampler->sums, *odd = sampler->sums + EW_WEIGH_BUCKETS;
    uint16_t buckets[STRETCH];
    memset(sampler->sums, 0, 2 * EW_WEIGH_BUCKETS * sizeof *sampler->sums);
    for (size_t at = 0; at < sampler->vocab_size; at += STRETCH) {
        size_t n = sampler->vocab_size - at < STRETCH ? sampler->vocab_size - at : STRETCH, i = 0;
        sampler->loops->weigh(sampler->logits + at, n, largest, sampler->rule.temperature, weights, buckets);
        for (; i + 1 < n; i += 2) {
            even[buckets[i]] += weights[i] >= least ? weights[i] : 0;
            odd[buckets[i + 1]] += weights[i + 1] >= least ? weights[i + 1] : 0;
        }
        if (i < n) {
            even[buckets[i]] += weights[i] >= least ? weights[i] : 0;
        }
    }
    for (size_t b = 0; b < EW_WEIGH_BUCKETS; b++) {
        sampler->sums[b] += odd[b];
        total += sampler->sums[b];
    }
    return total;
}

/* The logits that a bucket may have: its borders, and a little more for their rounding. */
static void bucket_range(const ew_sampler *sampler, size_t bucket, float largest, float *low, float *high) {
    double top = (double)largest, unit = (double)sampler->rule.temperature / EW_WEIGH_BUCKETS_PER_UNIT;
    double from = top - unit * (double)bucket, to = top - unit * (double)(bucket + 1);
    double more = 1e-6 * (fabs(top) + fabs(to) + unit);
    *high = bucket == 0 ? largest : (float)(from + more);
    *low = bucket + 1 == EW_WEIGH_BUCKETS ? -INFINITY : (float)(to - more);
}

/* The members of a bucket that min_p leaves, the best on top of a heap; how many there are. */
static size_t gather(ew_sampler *sampler, size_t bucket, float largest) {
    enum { STRETCH = 256 };
    double weights[STRETCH], least = (double)sampler->rule.min_p;
    uint16_t buckets[STRETCH];
    int32_t ids[STRETCH];
    float near[STRETCH], low, high; /* what may be members */
    size_t n = 0;
    bucket_range(sampler, bucket, largest, &low, &high);
    for (size_t at = 0; at < sampler->vocab_size; at += STRETCH) {
        size_t end = sampler->vocab_size - at < STRETCH ? sampler->vocab_size : at + STRETCH, n_near = 0;
        if (!sampler->loops->any_within(sampler->logits + at, end - at, low, high)) {
            continue;
        }
        for (size_t i = at; i < end; i++) {
            float logit = sampler->logits[i];
            near[n_near] = logit;
            ids[n_near] = (int32_t)i;
            n_near += (logit >= low) & (logit <= high) & (logit > -INFINITY);
        }
        sampler->loops->weigh(near, n_near, largest, sampler->rule.temperature, weights, buckets);
        for (size_t i = 0; i < n_near; i++) {
            sampler->order[n] = ids[i];
            n += buckets[i] == bucket && weights[i] >= least;
        }
    }
    make_heap(sampler->logits, BEST_ON_TOP, sampler->order, n);
    return n;
}

/* Where the kept tokens end: members of bucket `bucket`, of which n are kept, are the last. */
typedef struct border {
    size_t bucket, n;
    double sum; /* of the weights of all that are kept */
} border;

/* Step 5: the first tokens whose predecessors' weights sum to less than `limit`. */
static border find_border(ew_sampler *sampler, float largest, double limit) {
    border end = {.n = SIZE_MAX};
    double sum = 0;
    for (size_t b = 0; b < EW_WEIGH_BUCKETS; b++) {
        if (sampler->sums[b] <= 0) {
            continue;
        }
        end.bucket = b;
        if (sum + sampler->sums[b] >= limit) {
            size_t n = gather(sampler, b, largest);
            for (end.n = 0; end.n < n && (end.n == 0 || sum < limit); end.n++) {
                sum += weight_of(sampler, pop(sampler->logits, BEST_ON_TOP, sampler->order, n - end.n), largest);
            }
            break;
        }
        sum += sampler->sums[b];
    }
    end.sum = sum;
    return end;
}

/* Step 7: the token at which the cumulative sum passes `target`. */
static int32_t find_token(ew_sampler *sampler, float largest, border end, double target) {
    double sum = 0;
    size_t b = 0;
    for (; b < end.bucket && !(sampler->sums[b] > 0 && target < sum + sampler->sums[b]); b++) {
        sum += sampler->sums[b];
    }
    size_t n = gather(sampler, b, largest), most = b == end.bucket && end.n < n ? end.n : n;
    int32_t token = 0;
    for (size_t i = 0; i < most; i++) {
        token = pop(sampler->logits, BEST_ON_TOP, sampler->order, n - i);
        sum += weight_of(sampler, token, largest);
        if (target < sum) {
            break;
        }
    }
    return token;
}

static int32_t draw_by_buckets(ew_sampler *sampler, float largest, double u) {
    double top_p = (double)sampler->rule.top_p, min_p = (double)sampler->rule.min_p;
    double total = sum_buckets(sampler, largest, 0);
    if (min_p > 0) {
        sum_buckets(sampler, largest, min_p);
    }
    border end = find_border(sampler, largest, top_p < 1 ? top_p * total : INFINITY);
    return find_token(sampler, largest, end, u * end.sum);
}

ew_status ew_sampler_draw(ew_sampler *sampler, const float *logits, uint64_t stream, uint64_t position, int32_t *token,
                          ew_error *error) {
    float largest;
    ew_status status = apply_penalty(sampler, logits, &largest, error);
    if (status != EW_OK) {
        return status;
    }
    double u = ew_random_unit(sampler->rule.seed, stream, position);
    size_t k = sampler->rule.top_k;
    if (sampler->rule.temperature > 0.0f && (k == 0 || k >= sampler->vocab_size)) {
        if (!draw_by_head(sampler, largest, u, token)) {
            *token = draw_by_buckets(sampler, largest, u);
        }
        return EW_OK;
    }
    find_candidates(sampler, largest);
    *token = draw_candidate(sampler, u);
    return EW_OK;
}

double ew_log_probability(const float *logits, size_t vocab_size, float temperature, int32_t token) {
    enum { STRETCH = 256 };
    const ew_weigh_table *loops = ew_weigh_choose();
    float t = temperature > 0 ? temperature : 1.0f;
    bool sound;
    float largest = loops->largest(logits, vocab_size, &sound);
    double sum = 0, weights[STRETCH];
    uint16_t buckets[STRETCH];
    if (!sound || largest == -INFINITY) {
        return NAN;
    }
    for (size_t i = 0; i < vocab_size; i += STRETCH) {
        size_t n = vocab_size - i < STRETCH ? vocab_size - i : STRETCH;
        loops->weigh(logits + i, n, largest, t, weights, buckets);
        for (size_t k = 0; k < n; k++) {
            sum += weights[k];
        }
    }
    return ((double)logits[token] - (double)largest) * (1.0 / (double)t) - ew_log64(sum);
}
