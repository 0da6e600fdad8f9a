#include "model/head_score.h"

#include "base/memory.h"
#include "kernel/math64.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Pooling ---- */

ew_status ew_pooling_open(size_t d_model, size_t chunk, double mix, ew_pooling *pooling, ew_error *error) {
    *pooling = (ew_pooling){.d_model = d_model, .chunk = chunk, .mix = mix};
    if (chunk == 0 || !(mix >= 0.0 && mix <= 1.0)) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "pooling by chunks of %zu with a share of %g: 1 and more, 0 to 1 are possible", chunk, mix);
    }
    pooling->partial = ew_allocate(d_model, sizeof *pooling->partial);
    return pooling->partial ? EW_OK : ew_fail_memory(error, d_model * sizeof *pooling->partial, "a pooled state");
}

void ew_pooling_free(ew_pooling *pooling) {
    free(pooling->partial);
    free(pooling->borders);
    *pooling = (ew_pooling){0};
}

/* s after the first n tokens of chunk `index`, whose sum is in partial; `before` is s at the chunk's beginning. */
static double mixed(const ew_pooling *pooling, size_t index, size_t n, double before, double sum) {
    double mean = sum / (double)n, share = pooling->mix * (double)n / (double)pooling->chunk;
    return index == 0 ? mean : share * mean + (1.0 - share) * before;
}

/* The chunk is complete: its s joins the borders, which have room for it. */
static void close_chunk(ew_pooling *pooling) {
    size_t d = pooling->d_model, index = pooling->n_tokens / pooling->chunk - 1;
    double *s = pooling->borders + index * d;
    for (size_t i = 0; i < d; i++) {
        s[i] = mixed(pooling, index, pooling->chunk, index > 0 ? s[i - d] : 0.0, pooling->partial[i]);
        pooling->partial[i] = 0.0;
    }
}

ew_status ew_pooling_add(ew_pooling *pooling, const float *hidden, size_t n, ew_error *error) {
    size_t d = pooling->d_model, total = 0, wanted = 0;
    if (!ew_add_size(pooling->n_tokens, n, &total) || !ew_multiply_size(total / pooling->chunk, d, &wanted) ||
        !ew_grow((void **)&pooling->borders, &pooling->capacity, wanted, sizeof *pooling->borders)) {
        return ew_fail_memory(error, wanted * sizeof *pooling->borders, "pooled states");
    }
    for (size_t t = 0; t < n; t++) {
        for (size_t i = 0; i < d; i++) {
            pooling->partial[i] += (double)hidden[t * d + i];
        }
        if (++pooling->n_tokens % pooling->chunk == 0) {
            close_chunk(pooling);
        }
    }
    return EW_OK;
}

size_t ew_pooling_rewind(ew_pooling *pooling, size_t n_tokens) {
    if (n_tokens < pooling->n_tokens) {
        pooling->n_tokens = n_tokens - n_tokens % pooling->chunk;
        memset(pooling->partial, 0, pooling->d_model * sizeof *pooling->partial);
    }
    return pooling->n_tokens;
}

void ew_pooling_value(const ew_pooling *pooling, float *s) {
    size_t d = pooling->d_model, index = pooling->n_tokens / pooling->chunk, n = pooling->n_tokens % pooling->chunk;
    const double *before = index > 0 ? pooling->borders + (index - 1) * d : NULL;
    for (size_t i = 0; i < d; i++) {
        double border = before ? before[i] : 0.0;
        s[i] = (float)(n > 0 ? mixed(pooling, index, n, border, pooling->partial[i]) : border);
    }
}

/* ---- Scores ---- */

static double normalized(const ew_head *head, const float *x, size_t i) {
    return ((double)x[i] - (double)head->mean[i]) * (double)head->inverse_std[i];
}

static double switcher_logit(const ew_head *head, const float *x) {
    double logit = head->output_bias;
    for (size_t k = 0; k < head->n_hidden; k++) {
        const float *row = head->hidden_weight + k * head->d_model;
        double sum = (double)head->hidden_bias[k];
        for (size_t i = 0; i < head->d_model; i++) {
            sum += (double)row[i] * normalized(head, x, i);
        }
        logit += sum > 0.0 ? (double)head->output_weight[k] * sum : 0.0;
    }
    return logit;
}

static double verifier_logit(const ew_head *head, const float *x) {
    double most = 0.0;
    int64_t sum = 0;
    for (size_t i = 0; i < head->d_model; i++) {
        double z = fabs(normalized(head, x, i));
        most = z > most ? z : most;
    }
    double scale = most / 127.0;
    for (size_t i = 0; scale > 0.0 && i < head->d_model; i++) {
        sum += (int64_t)head->codes[i] * (int64_t)nearbyint(normalized(head, x, i) / scale);
    }
    return head->code_scale * (double)sum * scale + head->output_bias;
}

ew_status ew_head_score(const ew_head *head, const float *x, double *p, double *logit, ew_error *error) {
    for (size_t i = 0; i < head->d_model; i++) {
        if (!isfinite(x[i])) {
            return ew_fail(error, EW_ERROR_NUMERIC, "the hidden state that a head is asked about is not finite at %zu",
                           i);
        }
    }
    double raw = head->kind == EW_HEAD_SWITCHER ? switcher_logit(head, x) : verifier_logit(head, x);
    double calibrated = head->calibration_scale * raw + head->calibration_offset;
    *p = 1.0 / (1.0 + ew_exp64(-calibrated));
    if (logit) {
        *logit = raw;
    }
    return EW_OK;
}
