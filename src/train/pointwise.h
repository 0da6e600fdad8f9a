/* What stands between the matrix products: norms, rotations, activations, softmax, one row at a time, each with its
 * derivative beside it. `n` values unless said otherwise; outputs may be inputs only where said. */
#ifndef EW_TRAIN_POINTWISE_H
#define EW_TRAIN_POINTWISE_H

#include "train/real.h"

/* Sums in 16 lanes, so that they are the same whatever the compiler makes of the loop. */
real ew_dot(const real *x, const real *y, size_t n);
real ew_sum(const real *x, size_t n);
real ew_maximum(const real *x, size_t n); /* n >= 1 */

void ew_add(real *x, const real *y, size_t n);                  /* x += y */
void ew_add_scaled(real *x, real scale, const real *y, size_t n); /* x += scale y */

/* y_i = x_i r w_i, r = 1 / sqrt(mean x^2 + epsilon). y may be x. */
void ew_norm_forward(const real *x, const real *weight, size_t n, real epsilon, real *y);
/* dx_i += r (dy_i w_i) - x_i r^3 / n sum_j dy_j w_j x_j; dweight_i += dy_i x_i r (NULL: not wanted). */
void ew_norm_backward(const real *x, const real *weight, const real *dy, size_t n, real epsilon, real *dx,
                      real *dweight);

/* One head: pairs (i, i + head_dim / 2) turned, and turned back (the transpose). */
void ew_rotate(real *x, const real *cosine, const real *sine, size_t head_dim);
void ew_rotate_back(real *x, const real *cosine, const real *sine, size_t head_dim);

/* h = silu(gate) up */
void ew_swiglu_forward(const real *gate, const real *up, size_t n, real *h);
/* dgate and dup from dh; dup may be dh. */
void ew_swiglu_backward(const real *gate, const real *up, const real *dh, size_t n, real *dgate, real *dup);

/* x_i = exp(scale x_i - max) for i < n, 0 for n <= i < width; returns the sum, and max = scale max x_i in *most (may be
 * NULL). scale > 0. */
real ew_exponentials(real *x, real scale, size_t n, size_t width, real *most);

void ew_multiply(real *x, real factor, size_t n);

/* ds_i = p_i (dp_i - delta) scale, written over dp. */
void ew_softmax_backward(const real *p, real *dp, real delta, real scale, size_t n);

#endif
