/* The arithmetic of the engine, one table of functions per instruction set.
 *
 * docs/arithmetic.md defines every operation; scalar.c is that page as code; every other table gives the same bits
 * (except attend_float, which serves the unquantized reference and is exempt). None of these functions
 * allocates, fails or touches anything but its arguments; pointers named x and y may be equal only where said. */
#ifndef EW_KERNEL_KERNEL_H
#define EW_KERNEL_KERNEL_H

#include "kernel/activations.h"
#include "kernel/kv_page.h"
#include "kernel/matrix.h"

enum {
    EW_ATTENTION_ROWS = 64,      /* most query rows in one call of attend */
    EW_ATTENTION_PARTIAL = 256,  /* positions under one softmax partial, at absolute multiples */
    EW_HEAD_DIM_MAX = 256
};

/* Queries of one KV head: rows are (token, query head) pairs. Where rows that stand together name the same page at the
 * same place, as tokens of one stream and streams with a common prefix do, it is read once for all of them. */
typedef struct ew_attention {
    const ew_kv_layout *layout;
    const uint8_t *const *const *pages; /* [n_rows]: page table of the row's stream, [ceil(n_positions / 32)] starts */
    size_t page_offset;          /* bytes from there to this layer's and KV head's page */
    size_t n_rows;               /* 1..EW_ATTENTION_ROWS */
    const float *const *queries; /* [n_rows]: head_dim floats each, after RoPE */
    const uint32_t *n_positions; /* [n_rows]: the row sees positions 0 .. n - 1; at least 1 */
    float softmax_scale;         /* 1 / sqrt(head_dim) */
    float *const *outputs;       /* [n_rows]: head_dim floats each */
} ew_attention;

/* Floats of one row's partial of one run: o [padded_dim], M, L and room up to a multiple of 16. */
static inline size_t ew_attention_partial_floats(const ew_kv_layout *layout) {
    return layout->padded_dim + 16;
}

typedef struct ew_kernels {
    const char *name; /* as EDGEWISE_ISA spells it */

    /* y = x / sqrt(mean(x^2) + epsilon) * weight, n values. y may be x. */
    void (*rms_norm)(const float *x, const float *weight, size_t n, float epsilon, float *y);
    /* x += y, n values. */
    void (*add)(float *x, const float *y, size_t n);
    /* x = fma(factor, y, x), n values. */
    void (*add_scaled)(float *x, const float *y, float factor, size_t n);
    /* y = silu(gate) * up, n values. y may be gate. */
    void (*swiglu)(const float *gate, const float *up, size_t n, float *y);
    /* Rotates the pairs (i, i + head_dim / 2) of one head in place; cosine and sine [head_dim / 2]. */
    void (*rope)(float *x, const float *cosine, const float *sine, size_t head_dim);

    /* One token's inputs x[activations->cols] into row `token`. */
    void (*quantize)(const float *x, size_t token, ew_activations *activations);
    /* What row `token` stands for: x[activations->cols] = scale * code. */
    void (*dequantize)(const ew_activations *activations, size_t token, float *x);
    /* y[token * y_stride + row] for the rows of tiles tile_begin .. tile_end - 1 (rows beyond w->rows are not
     * written) and all tokens of x. INT4 and INT8 matrices. */
    void (*matmul)(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                   size_t y_stride);
    /* The same for F32, BF16 and F16 matrices and float inputs x[token * x_stride + col]. */
    void (*matmul_float)(const ew_matrix *w, size_t tile_begin, size_t tile_end, const float *x, size_t x_stride,
                         size_t n_tokens, float *y, size_t y_stride);

    /* Writes one position (0..31) of a page: key and value [head_dim]. Both kinds of page. */
    void (*store_kv)(const ew_kv_layout *layout, uint8_t *page, size_t position, const float *key, const float *value);
    /* Attention over INT8 pages. */
    void (*attend)(const ew_attention *attention);
    /* The same in two steps, so that threads can share the positions of a row. First the partials of runs begin .. end - 1, of
     * each row those that it sees: partials [n_rows][n_runs][ew_attention_partial_floats], on cache lines; then, when all
     * are there, the outputs. Partials are used up. */
    void (*attend_runs)(const ew_attention *attention, size_t begin, size_t end, size_t n_runs, float *partials);
    void (*merge_runs)(const ew_attention *attention, size_t n_runs, float *partials);
    /* Attention over pages of either kind in plain float arithmetic (the unquantized reference). */
    void (*attend_float)(const ew_attention *attention);

    /* For benchmarks: repeats (a multiple of 8) * EW_DOT_PEAK_PRODUCTS byte products with all operands in registers, in
     * independent chains. What the units of this set reach in it is their peak. The result only keeps the compiler
     * from leaving it out. */
    int32_t (*dot_peak)(size_t repeats);
} ew_kernels;

enum { EW_DOT_PEAK_CHAINS = 12, EW_DOT_PEAK_PRODUCTS = EW_DOT_PEAK_CHAINS * 64 };

/* The table that EDGEWISE_ISA names, or the best that this machine has when the variable is not set. Errors:
 * EW_ERROR_ARGUMENT for a name that is unknown, not in this build, or that the machine lacks; the sentence lists the
 * names that would do. */
ew_status ew_kernels_select(const ew_kernels **kernels, ew_error *error);

/* Whether that set is the one with tile registers, on a machine whose tiles multiply BF16 too. */
bool ew_kernels_have_bf16_tiles(void);

/* By name, NULL when this build or machine lacks it. */
const ew_kernels *ew_kernels_find(const char *name);

/* Every table that this machine can run, scalar first; *count is set. */
const ew_kernels *const *ew_kernels_available(size_t *count);

/* One dequantized row of an INT4 or INT8 matrix or of a float one (the embedding of a token); out[cols]. */
static inline void ew_embed(const ew_matrix *table, size_t row, float *out) {
    ew_matrix_read_row(table, row, out);
}

/* The floating-point environment the page asks for: round to nearest, denormals kept. Enter returns the caller's
 * state for leave to restore. */
typedef struct ew_float_state {
    uint64_t control;
} ew_float_state;
ew_float_state ew_float_enter(void);
void ew_float_leave(ew_float_state state);

#endif
