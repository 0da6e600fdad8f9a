/* Norm, residual, SwiGLU, rotary embedding and the exponential of docs/arithmetic.md, in virtual lanes. Included once
 * by each instruction set's source after its lanes_*.h. */
#ifndef EW_KERNEL_LANES_FLOAT_OPS_H
#define EW_KERNEL_LANES_FLOAT_OPS_H

#include <math.h>

#include "kernel/kernel.h"

enum { LANES = 16 };

LANES_INLINE size_t lanes_left(size_t n, size_t at) {
    return n - at < LANES ? n - at : LANES;
}
/* The next 16 values of x[n] from `at` on, 0 beyond the end. */
LANES_INLINE f32x16 lanes_read(const float *x, size_t n, size_t at) {
    return n - at >= LANES ? lanes_load(x + at) : lanes_load_first(x + at, n - at);
}
LANES_INLINE void lanes_write(float *x, size_t n, size_t at, f32x16 v) {
    if (n - at >= LANES) {
        lanes_store(x + at, v);
    } else {
        lanes_store_first(x + at, v, n - at);
    }
}

/* exp(x), 0 for x below `least` (-87 or more). */
LANES_INLINE f32x16 lanes_exp_from(float least, f32x16 x) {
    f32x16 capped = lanes_at_most(x, 88.0f);
    f32x16 n = lanes_round(lanes_mul(capped, lanes_set(0x1.715476p+0f)));
    f32x16 r = lanes_fma(n, lanes_set(-0x1.62e4p-1f), capped);
    r = lanes_fma(n, lanes_set(-0x1.7f7d1cp-20f), r);
    f32x16 q = lanes_set(0x1.6d117cp-10f);
    q = lanes_fma(q, r, lanes_set(0x1.120be2p-7f));
    q = lanes_fma(q, r, lanes_set(0x1.555518p-5f));
    q = lanes_fma(q, r, lanes_set(0x1.5554dcp-3f));
    q = lanes_fma(q, r, lanes_set(0x1p-1f));
    f32x16 fraction = lanes_add(lanes_fma(q, lanes_mul(r, r), r), lanes_set(1.0f));
    return lanes_zero_below(x, least, lanes_times_power_of_two(fraction, n));
}
LANES_INLINE f32x16 lanes_exp(f32x16 x) {
    return lanes_exp_from(-87.0f, x);
}
/* w(x) of softmax. */
LANES_INLINE f32x16 lanes_softmax_weight(f32x16 x) {
    return lanes_exp_from(-64.0f, x);
}
/* The same for one value. */
LANES_INLINE float lanes_softmax_weight_one(float x) {
    float out[LANES];
    lanes_store(out, lanes_softmax_weight(lanes_set(x)));
    return out[0];
}

static void rms_norm(const float *x, const float *weight, size_t n, float epsilon, float *y) {
    f32x16 squares = lanes_zero();
    for (size_t i = 0; i < n; i += LANES) {
        f32x16 v = lanes_read(x, n, i);
        squares = lanes_fma(v, v, squares);
    }
    f32x16 r = lanes_set(1.0f / sqrtf(lanes_sum(squares) / (float)n + epsilon));
    for (size_t i = 0; i < n; i += LANES) {
        lanes_write(y, n, i, lanes_mul(lanes_mul(lanes_read(x, n, i), r), lanes_read(weight, n, i)));
    }
}

static void add(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        lanes_write(x, n, i, lanes_add(lanes_read(x, n, i), lanes_read(y, n, i)));
    }
}

static void add_scaled(float *x, const float *y, float factor, size_t n) {
    f32x16 f = lanes_set(factor);
    for (size_t i = 0; i < n; i += LANES) {
        lanes_write(x, n, i, lanes_fma(f, lanes_read(y, n, i), lanes_read(x, n, i)));
    }
}

static void swiglu(const float *gate, const float *up, size_t n, float *y) {
    for (size_t i = 0; i < n; i += LANES) {
        f32x16 g = lanes_read(gate, n, i);
        f32x16 silu = lanes_div(g, lanes_add(lanes_set(1.0f), lanes_exp(lanes_negate(g))));
        lanes_write(y, n, i, lanes_mul(silu, lanes_read(up, n, i)));
    }
}

static void rope(float *x, const float *cosine, const float *sine, size_t head_dim) {
    size_t half = head_dim / 2;
    for (size_t i = 0; i < half; i += LANES) {
        f32x16 a = lanes_read(x, half, i), b = lanes_read(x + half, half, i);
        f32x16 c = lanes_read(cosine, half, i), s = lanes_read(sine, half, i);
        lanes_write(x, half, i, lanes_fma(a, c, lanes_negate(lanes_mul(b, s))));
        lanes_write(x + half, half, i, lanes_fma(b, c, lanes_mul(a, s)));
    }
}

#endif
