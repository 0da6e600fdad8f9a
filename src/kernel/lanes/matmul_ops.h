/* Integer matrix products in virtual lanes (docs/arithmetic.md, "Linear layers"): groups of 64, 128 or a whole row
 * here, one tile of 16 rows by 1 or LANES_TOKENS tokens; groups of 32 in matmul32_ops.h. Every function is inlined with
 * constant format, activation type and number of tokens, so that one text gives each combination a program of
 * its own. */
#ifndef EW_KERNEL_LANES_MATMUL_OPS_H
#define EW_KERNEL_LANES_MATMUL_OPS_H

#include "kernel/lanes/matmul32_ops.h"

enum { SEGMENT_BLOCKS = 64 };

/* p and t of one group for each token: INT16 activations, blocks begin .. end - 1. */
LANES_INLINE void group_int16(const tile_view *tile, const ew_activations *x, size_t token, size_t begin, size_t end,
                              matmul_shape shape, f32x16 *p, float *t) {
    for (size_t segment = begin; segment < end; segment += SEGMENT_BLOCKS) {
        size_t stop = segment + SEGMENT_BLOCKS < end ? segment + SEGMENT_BLOCKS : end;
        plane_sums sums[LANES_TOKENS];
        for (int i = 0; i < shape.n_tokens; i++) {
            const int32_t *block_sums = x->sums + (token + (size_t)i) * x->n_blocks;
            int32_t total = 0;
            for (size_t block = segment; block < stop; block++) {
                total += block_sums[block];
            }
            sums[i] = planes_start(-code_bias(shape.format) * total);
            t[i] = segment == begin ? (float)total : t[i] + (float)total;
        }
        for (size_t block = segment; block < stop; block++) {
            bytes64 w[8];
            unpack_block(tile, block, shape.format, w);
            for (int i = 0; i < shape.n_tokens; i++) {
                planes_dot(&sums[i], w, x->codes + ((token + (size_t)i) * x->n_blocks + block) * 64);
            }
        }
        for (int i = 0; i < shape.n_tokens; i++) {
            f32x16 partial = ints_to_lanes(planes_total(&sums[i]));
            p[i] = segment == begin ? partial : lanes_add(p[i], partial);
        }
    }
}

/* The same for INT8 activations. */
LANES_INLINE void group_int8(const tile_view *tile, const ew_activations *x, size_t token, size_t begin, size_t end,
                             matmul_shape shape, f32x16 *p, float *t) {
    for (int i = 0; i < shape.n_tokens; i++) {
        p[i] = lanes_zero();
        t[i] = 0.0f;
    }
    for (size_t block = begin; block < end; block++) {
        bytes64 w[8];
        unpack_block(tile, block, shape.format, w);
        for (int i = 0; i < shape.n_tokens; i++) {
            size_t index = (token + (size_t)i) * x->n_blocks + block;
            i32x16 sum = ints_set(-code_bias(shape.format) * x->sums[index]);
            for (int v = 0; v < 8; v++) {
                sum = dot_quad(sum, w[v], x->codes + index * 32 + 4 * v, shape.format);
            }
            p[i] = lanes_fma(lanes_set(x->scales[index]), ints_to_lanes(sum), p[i]);
            t[i] = fmaf(x->scales[index], (float)x->sums[index], t[i]);
        }
    }
}

/* y[token * y_stride + 0 .. n_rows - 1] of one tile for shape.n_tokens tokens. */
LANES_INLINE void tile_times_tokens(const tile_view *tile, const ew_activations *x, size_t token, matmul_shape shape,
                                    float *y, size_t y_stride, size_t n_rows) {
    f32x16 sum[LANES_TOKENS], p[LANES_TOKENS];
    float t[LANES_TOKENS];
    for (int i = 0; i < shape.n_tokens; i++) {
        sum[i] = p[i] = lanes_zero();
        t[i] = 0.0f;
    }
    size_t step = tile->group_blocks;
    bool float32 = tile->float32_scales;
    for (size_t begin = 0, group = 0; begin < tile->n_blocks; begin += step, group++) {
        size_t end = tile->n_blocks - begin >= step ? begin + step : tile->n_blocks;
        if (shape.type == EW_ACTIVATION_INT16) {
            group_int16(tile, x, token, begin, end, shape, p, t);
        } else {
            group_int8(tile, x, token, begin, end, shape, p, t);
        }
        f32x16 scale = group_factor(tile->scales, float32, group);
        for (int i = 0; i < shape.n_tokens; i++) {
            sum[i] = lanes_fma(scale, p[i], sum[i]);
        }
        if (shape.format == EW_MATRIX_INT4_OFFSET) {
            f32x16 offset = group_factor(tile->offsets, float32, group);
            for (int i = 0; i < shape.n_tokens; i++) {
                sum[i] = lanes_fma(offset, lanes_set(t[i]), sum[i]);
            }
        }
    }
    for (int i = 0; i < shape.n_tokens; i++) {
        write_rows(x, token + (size_t)i, shape, sum[i], y + (token + (size_t)i) * y_stride, n_rows);
    }
}

LANES_INLINE void matmul_tiles(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,
                               matmul_shape shape, float *y, size_t y_stride) {
    for (size_t tile = tile_begin; tile < tile_end; tile++) {
        tile_view view = tile_at(w, tile);
        size_t row = tile * EW_TILE_ROWS, token = 0;
        size_t n_rows = lanes_left(w->rows, row);
        shape.n_tokens = LANES_TOKENS;
        for (; token + LANES_TOKENS <= x->n_tokens; token += LANES_TOKENS) {
            tile_times_tokens(&view, x, token, shape, y + row, y_stride, n_rows);
        }
        shape.n_tokens = 1;
        for (; token < x->n_tokens; token++) {
            tile_times_tokens(&view, x, token, shape, y + row, y_stride, n_rows);
        }
    }
}

/* A program for one combination. */
#define MATMUL_PROGRAM(name, tiles, format_, type_)                                                                    \
    static void name(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,        \
                     size_t y_stride) {                                                                                \
        matmul_shape shape = {.format = format_, .type = type_};                                                       \
        tiles(w, tile_begin, tile_end, x, shape, y, y_stride);                                                         \
    }
MATMUL_PROGRAM(symmetric32_int16, matmul32_tiles, EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT16)
MATMUL_PROGRAM(symmetric32_int8, matmul32_tiles, EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT8)
MATMUL_PROGRAM(symmetric_int16, matmul_tiles, EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT16)
MATMUL_PROGRAM(symmetric_int8, matmul_tiles, EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT8)
MATMUL_PROGRAM(offset32_int16, matmul32_tiles, EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT16)
MATMUL_PROGRAM(offset32_int8, matmul32_tiles, EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT8)
MATMUL_PROGRAM(offset_int16, matmul_tiles, EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT16)
MATMUL_PROGRAM(offset_int8, matmul_tiles, EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT8)
MATMUL_PROGRAM(int8_int16, matmul32_tiles, EW_MATRIX_INT8, EW_ACTIVATION_INT16)
MATMUL_PROGRAM(int8_int8, matmul32_tiles, EW_MATRIX_INT8, EW_ACTIVATION_INT8)
#undef MATMUL_PROGRAM

/* Adapters: INT8 with one scale a row. */
static void int8_rows_int16(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                            size_t y_stride) {
    matmul_shape shape = {.format = EW_MATRIX_INT8, .type = EW_ACTIVATION_INT16, .per_row = true};
    matmul32_tiles(w, tile_begin, tile_end, x, shape, y, y_stride);
}
static void int8_rows_int8(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                           size_t y_stride) {
    matmul_shape shape = {.format = EW_MATRIX_INT8, .type = EW_ACTIVATION_INT8, .per_row = true};
    matmul32_tiles(w, tile_begin, tile_end, x, shape, y, y_stride);
}

static void matmul(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                   size_t y_stride) {
    bool wide = x->type == EW_ACTIVATION_INT16, group32 = w->group == EW_BLOCK_COLS;
    if (w->format == EW_MATRIX_INT8 && w->group == 0) {
        (wide ? int8_rows_int16 : int8_rows_int8)(w, tile_begin, tile_end, x, y, y_stride);
    } else if (w->format == EW_MATRIX_INT8) {
        (wide ? int8_int16 : int8_int8)(w, tile_begin, tile_end, x, y, y_stride);
    } else if (w->format == EW_MATRIX_INT4_OFFSET && group32) {
        (wide ? offset32_int16 : offset32_int8)(w, tile_begin, tile_end, x, y, y_stride);
    } else if (w->format == EW_MATRIX_INT4_OFFSET) {
        (wide ? offset_int16 : offset_int8)(w, tile_begin, tile_end, x, y, y_stride);
    } else if (group32) {
        (wide ? symmetric32_int16 : symmetric32_int8)(w, tile_begin, tile_end, x, y, y_stride);
    } else {
        (wide ? symmetric_int16 : symmetric_int8)(w, tile_begin, tile_end, x, y, y_stride);
    }
}

#endif
