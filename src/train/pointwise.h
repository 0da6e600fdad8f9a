/* What stands between the matrix products: norms, rotations, activations, softmax, one row at a time, each with its
 * derivative beside it. `n` values unless said otherwise; outputs may be inputs only where said. */
#ifndef EW_TRAIN_POINTWISE_H
#define EW_TRAIN_POINTWISE_H

#include "train/real.h"

#include <stdint.h>

typedef struct ew_pointwise_table {
    /* Sums in 16 lanes, so that they are the same whatever the compiler makes of the loop. */
    real (*dot)(const real *x, const real *y, size_t n);
    real (*sum)(const real *x, size_t n);
    real (*maximum)(const real *x, size_t n); /* n >= 1 */

    void (*add)(real *x, const real *y, size_t n); /* x += y */

    /* y_i = x_i r w_i, r = 1 / sqrt(mean x^2 + epsilon). y may be x. */
    void (*norm_forward)(const real *x, const real *weight, size_t n, real epsilon, real *y);
    /* dx_i += r (dy_i w_i) - x_i r^3 / n sum_j dy_j w_j x_j; dweight_i += dy_i x_i r (NULL: not wanted). */
    void (*norm_backward)(const real *x, const real *weight, const real *dy, size_t n, real epsilon, real *dx,
                          real *dweight);

    /* One head: pairs (i, i + head_dim / 2) turned, and turned back (the transpose). */
    void (*rotate)(real *x, const real *cosine, const real *sine, size_t head_dim);
    void (*rotate_back)(real *x, const real *cosine, const real *sine, size_t head_dim);

    /* h = silu(gate) up */
    void (*swiglu_forward)(const real *gate, const real *up, size_t n, real *h);
    /* dgate and dup from dh; dup may be dh. */
    void (*swiglu_backward)(const real *gate, const real *up, const real *dh, size_t n, real *dgate, real *dup);

    /* x_i = exp(scale x_i - max) for i < n, 0 for n <= i < width; returns the sum, and max = scale max x_i in *most (may be
     * NULL). scale > 0. */
    real (*exponentials)(real *x, real scale, size_t n, size_t width, real *most);

    void (*multiply)(real *x, real factor, size_t n);

    /* ds_i = p_i (dp_i - delta) scale, written over dp. */
    void (*softmax_backward)(const real *p, real *dp, real delta, real scale, size_t n);

    /* y_i = 0 where 16 bits of a draw are below the threshold, else x_i kept. Four values share the 64 bits of
     * ew_random_mix(key ^ i), i the first of them. y may be x. */
    void (*drop)(uint64_t key, uint32_t threshold, real kept, const real *x, size_t n, real *y);

    /* A block of a packed matrix, codes[8][16 rows][4] of 32 inputs, as rows of values: out[r][i] = code scale_r
     * + offset_r (NULL: none) for r < n_rows, i < n. */
    void (*scale_codes)(const int8_t *codes, const float *scales, const float *offsets, size_t n_rows, size_t n,
                        real *out, size_t stride);
} ew_pointwise_table;

/* The table in use: plain C's until ew_pointwise_choose has looked at the machine, when a trainer is opened. */
extern const ew_pointwise_table *ew_pointwise;
void ew_pointwise_choose(void);

static inline real ew_dot(const real *x, const real *y, size_t n) {
    return ew_pointwise->dot(x, y, n);
}
static inline real ew_sum(const real *x, size_t n) {
    return ew_pointwise->sum(x, n);
}
static inline real ew_maximum(const real *x, size_t n) {
    return ew_pointwise->maximum(x, n);
}
static inline void ew_add(real *x, const real *y, size_t n) {
    ew_pointwise->add(x, y, n);
}
static inline void ew_multiply(real *x, real factor, size_t n) {
    ew_pointwise->multiply(x, factor, n);
}
static inline void ew_norm_forward(const real *x, const real *weight, size_t n, real epsilon, real *y) {
    ew_pointwise->norm_forward(x, weight, n, epsilon, y);
}
static inline void ew_norm_backward(const real *x, const real *weight, const real *dy, size_t n, real epsilon, real *dx,
                                    real *dweight) {
    ew_pointwise->norm_backward(x, weight, dy, n, epsilon, dx, dweight);
}
static inline void ew_rotate(real *x, const real *cosine, const real *sine, size_t head_dim) {
    ew_pointwise->rotate(x, cosine, sine, head_dim);
}
static inline void ew_rotate_back(real *x, const real *cosine, const real *sine, size_t head_dim) {
    ew_pointwise->rotate_back(x, cosine, sine, head_dim);
}
static inline real ew_exponentials(real *x, real scale, size_t n, size_t width, real *most) {
    return ew_pointwise->exponentials(x, scale, n, width, most);
}
static inline void ew_softmax_backward(const real *p, real *dp, real delta, real scale, size_t n) {
    ew_pointwise->softmax_backward(p, dp, delta, scale, n);
}
static inline void ew_drop(uint64_t key, uint32_t threshold, real kept, const real *x, size_t n, real *y) {
    ew_pointwise->drop(key, threshold, kept, x, n, y);
}
static inline void ew_scale_codes(const int8_t *codes, const float *scales, const float *offsets, size_t n_rows,
                                  size_t n, real *out, size_t stride) {
    ew_pointwise->scale_codes(codes, scales, offsets, n_rows, n, out, stride);
}
static inline void ew_swiglu_forward(const real *gate, const real *up, size_t n, real *h) {
    ew_pointwise->swiglu_forward(gate, up, n, h);
}
static inline void ew_swiglu_backward(const real *gate, const real *up, const real *dh, size_t n, real *dgate,
                                      real *dup) {
    ew_pointwise->swiglu_backward(gate, up, dh, n, dgate, dup);
}

#endif
