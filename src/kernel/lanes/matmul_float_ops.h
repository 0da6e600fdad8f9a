/* Products of F32, BF16 and F16 matrices with float inputs in virtual lanes: the unquantized reference, and adapters.
 * One sum per row and token, inputs in ascending order; a register block of tiles by tokens keeps the FMA units busy. */
#ifndef EW_KERNEL_LANES_MATMUL_FLOAT_OPS_H
#define EW_KERNEL_LANES_MATMUL_FLOAT_OPS_H

#include "kernel/lanes/float_ops.h"

typedef struct {
    const ew_matrix *w;
    const float *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
} float_product;

LANES_INLINE f32x16 float_weights(const ew_matrix *w, size_t tile, size_t col) {
    size_t at = (tile * w->cols + col) * EW_TILE_ROWS;
    return w->format == EW_MATRIX_F32   ? lanes_load((const float *)w->codes + at)
           : w->format == EW_MATRIX_F16 ? lanes_load_float16((const uint16_t *)w->codes + at)
                                        : lanes_load_bfloat16((const uint16_t *)w->codes + at);
}

/* n_tiles and n_tokens are constants where this is inlined. */
LANES_INLINE void float_register_block(const float_product *product, ew_matrix_format format, size_t tile,
                                       size_t n_tiles, size_t token, size_t n_tokens) {
    ew_matrix w = *product->w;
    w.format = format;
    const float *x = product->x + token * product->x_stride;
    f32x16 sum[LANES_FLOAT_TILES][LANES_FLOAT_TOKENS];
    for (size_t i = 0; i < n_tiles; i++) {
        for (size_t j = 0; j < n_tokens; j++) {
            sum[i][j] = lanes_zero();
        }
    }
    for (size_t col = 0; col < w.cols; col++) {
        f32x16 weights[LANES_FLOAT_TILES];
        for (size_t i = 0; i < n_tiles; i++) {
            weights[i] = float_weights(&w, tile + i, col);
        }
        for (size_t j = 0; j < n_tokens; j++) {
            f32x16 input = lanes_set(x[j * product->x_stride + col]);
            for (size_t i = 0; i < n_tiles; i++) {
                sum[i][j] = lanes_fma(weights[i], input, sum[i][j]);
            }
        }
    }
    for (size_t i = 0; i < n_tiles; i++) {
        size_t row = (tile + i) * EW_TILE_ROWS;
        for (size_t j = 0; j < n_tokens; j++) {
            lanes_store_first(product->y + (token + j) * product->y_stride + row, sum[i][j], lanes_left(w.rows, row));
        }
    }
}

LANES_INLINE void float_tile_rows(const float_product *product, ew_matrix_format format, size_t tile, size_t n_tiles,
                                  size_t n_tokens) {
    size_t token = 0;
    for (; token + LANES_FLOAT_TOKENS <= n_tokens; token += LANES_FLOAT_TOKENS) {
        float_register_block(product, format, tile, n_tiles, token, LANES_FLOAT_TOKENS);
    }
    for (; token + 4 <= n_tokens; token += 4) {
        float_register_block(product, format, tile, n_tiles, token, 4);
    }
    for (; token < n_tokens; token++) {
        float_register_block(product, format, tile, n_tiles, token, 1);
    }
}

LANES_INLINE void float_tiles(const float_product *product, ew_matrix_format format, size_t tile_begin, size_t tile_end,
                              size_t n_tokens) {
    size_t tile = tile_begin;
    for (; tile + LANES_FLOAT_TILES <= tile_end; tile += LANES_FLOAT_TILES) {
        float_tile_rows(product, format, tile, LANES_FLOAT_TILES, n_tokens);
    }
    for (; tile < tile_end; tile++) {
        float_tile_rows(product, format, tile, 1, n_tokens);
    }
}

static void matmul_float(const ew_matrix *w, size_t tile_begin, size_t tile_end, const float *x, size_t x_stride,
                         size_t n_tokens, float *y, size_t y_stride) {
    float_product product = {w, x, x_stride, y, y_stride};
    if (w->format == EW_MATRIX_F32) {
        float_tiles(&product, EW_MATRIX_F32, tile_begin, tile_end, n_tokens);
    } else if (w->format == EW_MATRIX_F16) {
        float_tiles(&product, EW_MATRIX_F16, tile_begin, tile_end, n_tokens);
    } else {
        float_tiles(&product, EW_MATRIX_BF16, tile_begin, tile_end, n_tokens);
    }
}

#endif
