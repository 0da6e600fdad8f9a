/* Activations to INT16 or INT8 and keys and values to INT8 cells, in virtual lanes (docs/arithmetic.md, "Activations"
 * and "Cache"). */
#ifndef EW_KERNEL_LANES_QUANTIZE_OPS_H
#define EW_KERNEL_LANES_QUANTIZE_OPS_H

#include "base/float16.h"
#include "kernel/lanes/float_ops.h"

enum { LEVELS_INT16 = 32639, LEVELS_INT8 = 127, INFINITY_BITS = 0x7f800000 };

/* max |x| / levels, or NaN where x holds NaN or infinity. */
LANES_INLINE float span_scale(const float *x, size_t n, int levels) {
    i32x16 magnitude = ints_zero();
    for (size_t i = 0; i < n; i += LANES) {
        magnitude = ints_max_magnitude(magnitude, lanes_read(x, n, i));
    }
    uint32_t largest = (uint32_t)ints_largest(magnitude);
    return largest >= INFINITY_BITS ? NAN : ew_float_from_bits(largest) / (float)levels;
}

/* The codes of 16 values under a scale that is a number above 0. */
LANES_INLINE i32x16 quantize_lanes(f32x16 x, f32x16 scale, int levels) {
    return ints_clamp(lanes_to_ints(lanes_div(x, scale)), levels);
}
/* A scale of 0 or NaN: all codes are 0. */
LANES_INLINE bool has_codes(float scale) {
    return scale > 0.0f;
}

/* The 16 codes of x[n] from `at` on, 0 beyond n, as two planes; *sum grows by their sum. */
LANES_INLINE void quantize_planes(const float *x, size_t n, size_t at, f32x16 scale, int8_t *hi, int8_t *lo,
                                  int32_t *sum) {
    i32x16 codes = at < n ? quantize_lanes(lanes_read(x, n, at), scale, LEVELS_INT16) : ints_zero();
    i32x16 high = ints_over_256(ints_add(codes, ints_set(128)));
    ints_store_int8(hi, high);
    ints_store_int8(lo, ints_sub(codes, ints_times_256(high)));
    *sum += ints_sum(codes);
}

static void quantize_int16(const float *x, size_t token, ew_activations *activations) {
    size_t n_blocks = activations->n_blocks, cols = activations->cols;
    int8_t *codes = activations->codes + token * n_blocks * 64;
    int32_t *sums = activations->sums + token * n_blocks;
    float scale = span_scale(x, cols, LEVELS_INT16);
    activations->scales[token] = scale;
    if (!has_codes(scale)) {
        memset(codes, 0, n_blocks * 64);
        memset(sums, 0, n_blocks * sizeof *sums);
        return;
    }
    f32x16 s = lanes_set(scale);
    for (size_t block = 0; block < n_blocks; block++) {
        int8_t *at = codes + block * 64;
        sums[block] = 0;
        quantize_planes(x, cols, block * 32, s, at, at + 32, &sums[block]);
        quantize_planes(x, cols, block * 32 + 16, s, at + 16, at + 48, &sums[block]);
    }
}

static void quantize_int8(const float *x, size_t token, ew_activations *activations) {
    size_t n_blocks = activations->n_blocks, cols = activations->cols;
    int8_t *codes = activations->codes + token * n_blocks * 32;
    int32_t *sums = activations->sums + token * n_blocks;
    float *scales = activations->scales + token * n_blocks;
    for (size_t block = 0; block < n_blocks; block++) {
        const float *at = x + block * 32;
        size_t n = cols - block * 32 < 32 ? cols - block * 32 : 32;
        float scale = scales[block] = span_scale(at, n, LEVELS_INT8);
        i32x16 first = ints_zero(), second = ints_zero();
        if (has_codes(scale)) {
            f32x16 s = lanes_set(scale);
            first = quantize_lanes(lanes_read(at, n, 0), s, LEVELS_INT8);
            second = n > 16 ? quantize_lanes(lanes_read(at, n, 16), s, LEVELS_INT8) : second;
        }
        ints_store_int8(codes + block * 32, first);
        ints_store_int8(codes + block * 32 + 16, second);
        sums[block] = ints_sum(ints_add(first, second));
    }
}

static void quantize(const float *x, size_t token, ew_activations *activations) {
    if (activations->type == EW_ACTIVATION_INT16) {
        quantize_int16(x, token, activations);
    } else {
        quantize_int8(x, token, activations);
    }
}

static void dequantize(const ew_activations *activations, size_t token, float *x) {
    bool wide = activations->type == EW_ACTIVATION_INT16;
    const float *scales = activations->scales + token * ew_activation_scales_per_token(activations);
    const int8_t *codes =
        activations->codes + token * activations->n_blocks * ew_activation_block_bytes(activations->type);
    for (size_t i = 0; i < activations->cols; i += LANES) {
        const int8_t *at = codes + i / 32 * ew_activation_block_bytes(activations->type) + i % 32;
        i32x16 code = ints_load_int8(at);
        code = wide ? ints_add(ints_times_256(code), ints_load_int8(at + 32)) : code;
        f32x16 scale = lanes_set(scales[wide ? 0 : i / 32]);
        lanes_write(x, activations->cols, i, lanes_mul(scale, ints_to_lanes(code)));
    }
}

/* INT8 codes of one head's channels, padded with zeros, and their scales. */
LANES_INLINE void quantize_cell(const ew_kv_layout *layout, const float *x, int8_t *codes, float *scales) {
    memset(codes, 0, layout->padded_dim);
    for (size_t g = 0; g < layout->n_scales; g++) {
        size_t begin = g * layout->grain;
        size_t n = layout->head_dim - begin < layout->grain ? layout->head_dim - begin : layout->grain;
        float scale = scales[g] = span_scale(x + begin, n, LEVELS_INT8);
        for (size_t i = 0; has_codes(scale) && i < n; i += LANES) {
            int8_t lanes[LANES];
            ints_store_int8(lanes, quantize_lanes(lanes_read(x + begin, n, i), lanes_set(scale), LEVELS_INT8));
            memcpy(codes + begin + i, lanes, lanes_left(n, i));
        }
    }
}

static void store_kv(const ew_kv_layout *layout, uint8_t *page, size_t position, const float *key, const float *value) {
    if (!layout->quantized) {
        size_t bytes = layout->head_dim * sizeof(float);
        memcpy(page + position * bytes, key, bytes);
        memcpy(page + layout->v_codes_at + position * bytes, value, bytes);
        return;
    }
    int8_t codes[EW_HEAD_DIM_MAX];
    float scales[EW_HEAD_DIM_MAX / 4 + 1];
    quantize_cell(layout, key, codes, scales);
    for (size_t quad = 0; quad < layout->padded_dim / 4; quad++) {
        memcpy(page + (quad * EW_PAGE_POSITIONS + position) * 4, codes + quad * 4, 4);
    }
    for (size_t g = 0; g < layout->n_scales; g++) {
        memcpy(page + layout->k_scales_at + (g * EW_PAGE_POSITIONS + position) * sizeof(float), &scales[g],
               sizeof(float));
    }
    quantize_cell(layout, value, (int8_t *)page + layout->v_codes_at + position * layout->padded_dim, scales);
    memcpy(page + layout->v_scales_at + position * layout->n_scales * sizeof(float), scales,
           layout->n_scales * sizeof(float));
}

#endif
