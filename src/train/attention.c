/* Attention over the cells of a pack's sequences, a block of queries of one head at a time:
 *
 *   S = scale Q K^T, causal;  P = softmax(S);  O = P V
 *   dV += P^T dO;  dP = dO V^T;  dS = P (dP - rowsum(dO O)) scale;  dQ = dS K;  dK += dS^T Q
 *
 * P is made again in the backward pass: keeping it would take more memory than everything else. */
#include "train/pointwise.h"
#include "train/worker.h"

#include <string.h>

/* One head of one sequence: what the products read. Query rows and cells are `width` and `kv_width` values apart. */
typedef struct head {
    ew_worker *worker;
    const ew_span *span;
    size_t head_dim, width, kv_width;
    const real *q, *k, *v; /* of the span's first row; of the sequence's position 0 */
    real scale;
} head;

static head head_at(ew_worker *worker, const ew_span *span, const real *q, const real *k, const real *v, size_t index) {
    const ew_config *config = &worker->network->config;
    size_t head_dim = config->head_dim, kv_head = index / (config->n_heads / config->n_kv_heads);
    head h = {.worker = worker,
              .span = span,
              .head_dim = head_dim,
              .width = config->n_heads * head_dim,
              .kv_width = config->n_kv_heads * head_dim,
              .scale = 1 / EW_REAL_SQRT((real)head_dim)};
    h.q = q + span->row * h.width + index * head_dim;
    h.k = k + span->cell * h.kv_width + kv_head * head_dim;
    h.v = v + span->cell * h.kv_width + kv_head * head_dim;
    return h;
}

static ew_view view(const real *values, size_t stride) {
    return (ew_view){values, stride};
}

/* Positions that queries begin .. end - 1 see in all: the last one's. */
static size_t seen_by(const head *h, size_t end) {
    return h->span->position + end;
}

/* P of queries begin .. end - 1 into scores[end - begin][seen]. */
static void probabilities(const head *h, size_t begin, size_t end) {
    size_t seen = seen_by(h, end);
    real *scores = h->worker->scratch.scores;
    ew_gemm(h->worker, false, true, end - begin, seen, h->head_dim, 1, view(h->q + begin * h->width, h->width),
            view(h->k, h->kv_width), 0, scores, seen);
    for (size_t i = begin; i < end; i++) {
        real *row = scores + (i - begin) * seen;
        size_t visible = h->span->position + i + 1;
        real sum = ew_exponentials(row, h->scale, visible, seen, NULL);
        ew_multiply(row, 1 / sum, visible);
    }
}

void ew_attention_forward(ew_worker *worker, const ew_rows *rows, const real *k, const real *v, const real *q,
                          real *attended) {
    size_t n_heads = worker->network->config.n_heads;
    for (size_t item = 0; item < rows->n_spans * n_heads; item++) {
        const ew_span *span = &rows->spans[item / n_heads];
        head h = head_at(worker, span, q, k, v, item % n_heads);
        real *out = attended + (h.q - q);
        for (size_t begin = 0; begin < span->n_rows; begin += EW_QUERY_BLOCK) {
            size_t end = begin + EW_QUERY_BLOCK < span->n_rows ? begin + EW_QUERY_BLOCK : span->n_rows;
            size_t seen = seen_by(&h, end);
            probabilities(&h, begin, end);
            ew_gemm(worker, false, false, end - begin, h.head_dim, seen, 1, view(worker->scratch.scores, seen),
                    view(h.v, h.kv_width), 0, out + begin * h.width, h.width);
        }
    }
}

/* dS of queries begin .. end - 1 over d_scores; P stands in scores. */
static void score_gradient(const head *h, size_t begin, size_t end, const real *out, const real *d_out) {
    size_t seen = seen_by(h, end);
    real *p = h->worker->scratch.scores, *d = h->worker->scratch.d_scores;
    ew_gemm(h->worker, false, true, end - begin, seen, h->head_dim, 1, view(d_out + begin * h->width, h->width),
            view(h->v, h->kv_width), 0, d, seen);
    for (size_t i = begin; i < end; i++) {
        real delta = ew_dot(out + i * h->width, d_out + i * h->width, h->head_dim);
        ew_softmax_backward(p + (i - begin) * seen, d + (i - begin) * seen, delta, h->scale, seen);
    }
}

/* One head: dq is written, dk and dv are added to, for positions of the span alone. */
static void head_backward(const head *h, const real *out, const real *d_out, real *dq, real *dk, real *dv) {
    const ew_scratch *scratch = &h->worker->scratch;
    size_t n_rows = h->span->n_rows, first = h->span->position;
    for (size_t begin = 0; begin < n_rows; begin += EW_QUERY_BLOCK) {
        size_t end = begin + EW_QUERY_BLOCK < n_rows ? begin + EW_QUERY_BLOCK : n_rows;
        size_t n = end - begin, seen = seen_by(h, end);
        probabilities(h, begin, end);
        ew_gemm(h->worker, true, false, seen - first, h->head_dim, n, 1, view(scratch->scores + first, seen),
                view(d_out + begin * h->width, h->width), 1, dv, h->kv_width);
        score_gradient(h, begin, end, out, d_out);
        ew_gemm(h->worker, false, false, n, h->head_dim, seen, 1, view(scratch->d_scores, seen),
                view(h->k, h->kv_width), 0, dq + begin * h->width, h->width);
        ew_gemm(h->worker, true, false, seen - first, h->head_dim, n, 1, view(scratch->d_scores + first, seen),
                view(h->q + begin * h->width, h->width), 1, dk, h->kv_width);
    }
}

void ew_attention_backward(ew_worker *worker, const real *q, const real *k, const real *v, const real *attended,
                           const real *d_attended, real *dq, real *dk, real *dv) {
    const ew_config *config = &worker->network->config;
    const ew_rows *rows = &worker->rows;
    size_t n_heads = config->n_heads, group = n_heads / config->n_kv_heads;
    size_t kv_width = config->n_kv_heads * config->head_dim;
    memset(dk, 0, rows->n_rows * kv_width * sizeof *dk);
    memset(dv, 0, rows->n_rows * kv_width * sizeof *dv);
    for (size_t item = 0; item < rows->n_spans * n_heads; item++) {
        const ew_span *span = &rows->spans[item / n_heads];
        size_t index = item % n_heads;
        head h = head_at(worker, span, q, k, v, index);
        size_t at = (size_t)(h.q - q), own = span->row * kv_width + index / group * config->head_dim;
        head_backward(&h, attended + at, d_attended + at, dq + at, dk + own, dv + own);
    }
}
