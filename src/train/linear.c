/* Linear layers with their adapters, forward and backward side by side. */
#include "base/random.h"
#include "train/pointwise.h"
#include "train/worker.h"

#include <string.h>

static ew_view view(const real *values, size_t stride) {
    return (ew_view){values, stride};
}

static void add_bias(const ew_train_linear *linear, size_t n, real *y) {
    for (size_t row = 0; linear->bias.values && row < n; row++) {
        ew_add(y + row * linear->rows, linear->bias.values, linear->rows);
    }
}

/* ---- Dropout ---- */

static bool drops(const ew_worker *worker) {
    return worker->wants_gradient && worker->options->dropout > 0;
}

static uint64_t dropout_key(const ew_worker *worker, const ew_span *span, size_t layer, size_t kind, size_t position) {
    uint64_t place = (uint64_t)(layer * EW_LINEARS + kind) << 32 | position;
    return ew_random_bits(ew_random_mix(worker->options->seed) ^ worker->step, span->sequence, place);
}

/* What a value meets depends on seed, step, sequence, layer, matrix, position and column, not on packs or threads. */
static void drop_rows(const ew_worker *worker, const ew_rows *rows, size_t layer, size_t kind, const real *x,
                      size_t cols, real *y) {
    uint32_t threshold = (uint32_t)(worker->options->dropout * 65536.0);
    real kept = (real)(1 / (1 - (double)threshold / 65536.0));
    for (size_t s = 0; s < rows->n_spans; s++) {
        const ew_span *span = &rows->spans[s];
        for (size_t i = 0; i < span->n_rows; i++) {
            size_t at = (span->row + i) * cols;
            uint64_t key = dropout_key(worker, span, layer, kind, span->position + i);
            ew_drop(key, threshold, kept, x + at, cols, y + at);
        }
    }
}

const real *ew_adapter_input(ew_worker *worker, const ew_rows *rows, size_t layer, size_t kind, const real *x) {
    if (!drops(worker)) {
        return x;
    }
    size_t cols = worker->network->layers[layer].linears[kind].cols;
    drop_rows(worker, rows, layer, kind, x, cols, worker->scratch.dropped);
    return worker->scratch.dropped;
}

/* ---- Forward ---- */

void ew_linear_forward(ew_worker *worker, const ew_rows *rows, size_t layer, size_t kind, bool adapted, const real *x,
                       real *u, real *y) {
    const ew_train_linear *linear = &worker->network->layers[layer].linears[kind];
    size_t n = rows->n_rows;
    ew_gemm(worker, false, true, n, linear->rows, linear->cols, 1, view(x, linear->cols),
            view(linear->weight.values, linear->cols), 0, y, linear->rows);
    add_bias(linear, n, y);
    if (adapted && linear->rank > 0) {
        const real *input = ew_adapter_input(worker, rows, layer, kind, x);
        ew_gemm(worker, false, true, n, linear->rank, linear->cols, 1, view(input, linear->cols),
                view(linear->a.values, linear->cols), 0, u, linear->rank);
        ew_gemm(worker, false, true, n, linear->rows, linear->rank, linear->scale, view(u, linear->rank),
                view(linear->b.values, linear->rank), 1, y, linear->rows);
    }
}

/* ---- Backward ---- */

/* du = scale dy B; dB += scale dy^T u; dA += du^T x; dx += du A. */
static void adapter_backward(ew_worker *worker, size_t layer, size_t kind, const real *x, const real *u, const real *dy,
                             real *dx) {
    const ew_train_linear *linear = &worker->network->layers[layer].linears[kind];
    const ew_rows *rows = &worker->rows;
    size_t n = rows->n_rows, rank = linear->rank, cols = linear->cols;
    real *du = worker->scratch.du;
    ew_gemm(worker, false, false, n, rank, linear->rows, linear->scale, view(dy, linear->rows),
            view(linear->b.values, rank), 0, du, rank);
    ew_gemm(worker, true, false, linear->rows, rank, n, linear->scale, view(dy, linear->rows), view(u, rank), 1,
            ew_gradient_of(worker, &linear->b), rank);
    const real *input = ew_adapter_input(worker, rows, layer, kind, x);
    ew_gemm(worker, true, false, rank, cols, n, 1, view(du, rank), view(input, cols), 1,
            ew_gradient_of(worker, &linear->a), cols);
    if (!dx) {
        return;
    }
    if (!drops(worker)) {
        ew_gemm(worker, false, false, n, cols, rank, 1, view(du, rank), view(linear->a.values, cols), 1, dx, cols);
        return;
    }
    real *dropped = worker->scratch.dropped;
    ew_gemm(worker, false, false, n, cols, rank, 1, view(du, rank), view(linear->a.values, cols), 0, dropped, cols);
    drop_rows(worker, rows, layer, kind, dropped, cols, dropped);
    ew_add(dx, dropped, n * cols);
}

void ew_linear_transposed(ew_worker *worker, const ew_train_linear *linear, size_t n, const real *dy, size_t dy_stride,
                          real *dx) {
    if (!linear->packed) {
        ew_gemm(worker, false, false, n, linear->cols, linear->rows, 1, view(dy, dy_stride),
                view(linear->weight.values, linear->cols), 1, dx, linear->cols);
        return;
    }
    for (size_t begin = 0; begin < linear->rows; begin += EW_TILE_BLOCK) {
        size_t block = linear->rows - begin < EW_TILE_BLOCK ? linear->rows - begin : EW_TILE_BLOCK;
        ew_packed_read_rows(linear->packed, begin, block, worker->scratch.tile);
        ew_gemm(worker, false, false, n, linear->cols, block, 1, view(dy + begin, dy_stride),
                view(worker->scratch.tile, linear->cols), 1, dx, linear->cols);
    }
}

void ew_linear_backward(ew_worker *worker, size_t layer, size_t kind, const real *x, const real *u, const real *dy,
                        real *dx) {
    const ew_train_linear *linear = &worker->network->layers[layer].linears[kind];
    size_t n = worker->rows.n_rows;
    real *d_weight = ew_gradient_of(worker, &linear->weight), *d_bias = ew_gradient_of(worker, &linear->bias);
    if (dx) {
        ew_linear_transposed(worker, linear, n, dy, linear->rows, dx);
    }
    if (d_weight) {
        ew_gemm(worker, true, false, linear->rows, linear->cols, n, 1, view(dy, linear->rows), view(x, linear->cols), 1,
                d_weight, linear->cols);
    }
    for (size_t row = 0; d_bias && row < n; row++) {
        ew_add(d_bias, dy + row * linear->rows, linear->rows);
    }
    if (linear->rank > 0) {
        adapter_backward(worker, layer, kind, x, u, dy, dx);
    }
}
