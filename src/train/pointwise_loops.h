/* The loops of pointwise.h, compiled once for each instruction set that is worth it (EW_POINTWISE_TABLE names the result). They
 * are plain C: what vector code the compiler makes of them gives the same bits, since sums have lanes and nothing is fused. */
#include "base/random.h"
#include "train/pointwise.h"

#include <stdint.h>
#include <string.h>

enum { LANES = 16 };

/* Lanes to one number, as docs/arithmetic.md does it. */
static inline real fold(real *lanes) {
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            lanes[j] += lanes[j + half];
        }
    }
    return lanes[0];
}

static real dot(const real *x, const real *y, size_t n) {
    real lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            lanes[j] += x[i + j] * y[i + j];
        }
    }
    for (size_t j = 0; i < n; i++, j++) {
        lanes[j] += x[i] * y[i];
    }
    return fold(lanes);
}

static real sum(const real *x, size_t n) {
    real lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            lanes[j] += x[i + j];
        }
    }
    for (size_t j = 0; i < n; i++, j++) {
        lanes[j] += x[i];
    }
    return fold(lanes);
}

static real maximum(const real *x, size_t n) {
    real lanes[LANES];
    size_t i = 0;
    for (size_t j = 0; j < LANES; j++) {
        lanes[j] = x[j < n ? j : 0];
    }
    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
        }
    }
    real most = lanes[0];
    for (size_t j = 1; j < LANES; j++) {
        most = lanes[j] > most ? lanes[j] : most;
    }
    for (; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    return most;
}

static void add(real *restrict x, const real *restrict y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        x[i] += y[i];
    }
}

static void multiply(real *x, real factor, size_t n) {
    for (size_t i = 0; i < n; i++) {
        x[i] *= factor;
    }
}

/* ---- RMSNorm ---- */

static real inverse_root(const real *x, size_t n, real epsilon) {
    return 1 / EW_REAL_SQRT(dot(x, x, n) / (real)n + epsilon);
}

static void norm_forward(const real *x, const real *weight, size_t n, real epsilon, real *y) {
    real r = inverse_root(x, n, epsilon);
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * r * weight[i];
    }
}

static void norm_backward(const real *restrict x, const real *restrict weight, const real *restrict dy, size_t n,
                          real epsilon, real *restrict dx, real *restrict dweight) {
    real r = inverse_root(x, n, epsilon);
    real lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            lanes[j] += dy[i + j] * weight[i + j] * x[i + j];
        }
    }
    for (size_t j = 0; i < n; i++, j++) {
        lanes[j] += dy[i] * weight[i] * x[i];
    }
    real common = fold(lanes) * r * r * r / (real)n;
    for (i = 0; i < n; i++) {
        dx[i] += r * dy[i] * weight[i] - x[i] * common;
    }
    for (i = 0; dweight && i < n; i++) {
        dweight[i] += dy[i] * x[i] * r;
    }
}

/* ---- Rotation ---- */

static void rotate(real *x, const real *cosine, const real *sine, size_t head_dim) {
    size_t half = head_dim / 2;
    for (size_t i = 0; i < half; i++) {
        real a = x[i], b = x[i + half];
        x[i] = a * cosine[i] - b * sine[i];
        x[i + half] = b * cosine[i] + a * sine[i];
    }
}

static void rotate_back(real *x, const real *cosine, const real *sine, size_t head_dim) {
    size_t half = head_dim / 2;
    for (size_t i = 0; i < half; i++) {
        real a = x[i], b = x[i + half];
        x[i] = a * cosine[i] + b * sine[i];
        x[i + half] = b * cosine[i] - a * sine[i];
    }
}

/* ---- Exponentials ---- */

#ifdef EW_TRAIN_DOUBLE
static inline real exponential(real x) {
    return exp(x);
}
#else
/* The polynomial of docs/arithmetic.md with separate roundings: no call and no branch, so that a loop of it becomes vector
 * code on any machine. Within 2 units in the last place for -87 <= x <= 88. */
static inline real exponential(real x) {
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, ties to even */
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float shifted = x * 0x1.715476p+0f + magic;
    float n = shifted - magic;
    float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    float q = 0x1.6d117cp-10f;
    q = q * r + 0x1.120be2p-7f;
    q = q * r + 0x1.555518p-5f;
    q = q * r + 0x1.5554dcp-3f;
    q = q * r + 0x1p-1f;
    union {
        float number;
        uint32_t bits;
    } power = {.number = shifted};
    power.bits = (power.bits - 0x4b400000u + 127) << 23;
    return (q * (r * r) + r + 1.0f) * power.number;
}
#endif

static real exponentials(real *x, real scale, size_t n, size_t width, real *most) {
    real top = maximum(x, n) * scale;
    for (size_t i = 0; i < n; i++) {
        x[i] = exponential(x[i] * scale - top);
    }
    memset(x + n, 0, (width - n) * sizeof *x);
    if (most) {
        *most = top;
    }
    return sum(x, n);
}

static void softmax_backward(const real *restrict p, real *restrict dp, real delta, real scale, size_t n) {
    for (size_t i = 0; i < n; i++) {
        dp[i] = p[i] * (dp[i] - delta) * scale;
    }
}

/* ---- SwiGLU ---- */

static void swiglu_forward(const real *restrict gate, const real *restrict up, size_t n, real *restrict h) {
    for (size_t i = 0; i < n; i++) {
        h[i] = gate[i] / (1 + exponential(-gate[i])) * up[i];
    }
}

static void swiglu_backward(const real *gate, const real *up, const real *dh, size_t n, real *dgate, real *dup) {
    for (size_t i = 0; i < n; i++) {
        real sigmoid = 1 / (1 + exponential(-gate[i])), d = dh[i];
        real silu = gate[i] * sigmoid;
        dgate[i] = d * up[i] * (sigmoid + silu * (1 - sigmoid));
        dup[i] = d * silu;
    }
}

/* ---- Dropout ---- */

/* Values begin .. begin + n - 1 of a row, n <= DROPPED: their draws first, for vector code. */
enum { DROPPED = 64 };

static void drop_some(uint64_t key, uint32_t threshold, real kept, const real *x, size_t begin, size_t n, real *y) {
    uint64_t bits[DROPPED / 4];
    uint16_t draws[DROPPED];
    for (size_t i = 0; i < DROPPED / 4; i++) {
        bits[i] = ew_random_mix(key ^ (begin + 4 * i));
    }
    memcpy(draws, bits, sizeof draws); /* the low 16 bits first, on the little-endian machines that this is for */
    for (size_t i = 0; i < n; i++) {
        real value = x[begin + i] * kept;
        y[begin + i] = draws[i] < threshold ? 0 : value;
    }
}

static void drop(uint64_t key, uint32_t threshold, real kept, const real *x, size_t n, real *y) {
    size_t i = 0;
    for (; i + DROPPED <= n; i += DROPPED) {
        drop_some(key, threshold, kept, x, i, DROPPED, y);
    }
    drop_some(key, threshold, kept, x, i, n - i, y);
}

/* ---- Codes ---- */

static void scale_codes(const int8_t *codes, const float *scales, const float *offsets, size_t n_rows, size_t n,
                        real *out, size_t stride) {
    enum { BLOCK = 32, ROWS = 16 };
    for (size_t r = 0; r < n_rows; r++) {
        int8_t row[BLOCK];
        real values[BLOCK];
        for (size_t v = 0; v < BLOCK / 4; v++) {
            memcpy(row + 4 * v, codes + (v * ROWS + r) * 4, 4);
        }
        for (size_t i = 0; i < BLOCK; i++) {
            values[i] = (real)row[i] * (real)scales[r];
        }
        for (size_t i = 0; offsets && i < BLOCK; i++) {
            values[i] += (real)offsets[r];
        }
        memcpy(out + r * stride, values, n * sizeof *out);
    }
}

extern const ew_pointwise_table EW_POINTWISE_TABLE;
const ew_pointwise_table EW_POINTWISE_TABLE = {
    .dot = dot,
    .sum = sum,
    .maximum = maximum,
    .add = add,
    .multiply = multiply,
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .rotate = rotate,
    .rotate_back = rotate_back,
    .exponentials = exponentials,
    .softmax_backward = softmax_backward,
    .drop = drop,
    .scale_codes = scale_codes,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
};
