/* Integer matrix products with groups of 32, one block each: LANES_TILES tiles of 16 rows by up to LANES_TOKENS tokens at
 * a time, whose sums stay in registers; and what all integer products need. */
#ifndef EW_KERNEL_LANES_MATMUL32_OPS_H
#define EW_KERNEL_LANES_MATMUL32_OPS_H

#include "kernel/lanes/float_ops.h"
#ifdef LANES_HAS_I8MM
#include "kernel/arm/planes_i8mm.h"
#else
#include "kernel/lanes/planes.h"
#endif

enum { INT4_BLOCK_BYTES = 256, INT8_BLOCK_BYTES = 512 };

/* What is constant in a specialised program. */
typedef struct {
    ew_matrix_format format;
    ew_activation_type type;
    int n_tokens;
} matmul_shape;

/* Where one tile's parts lie. */
typedef struct {
    const uint8_t *codes;
    const uint8_t *scales, *offsets;
    size_t n_blocks, group_blocks;
    bool float32_scales;
} tile_view;

LANES_INLINE tile_view tile_at(const ew_matrix *w, size_t tile) {
    tile_view view = {.n_blocks = (w->cols + EW_BLOCK_COLS - 1) / EW_BLOCK_COLS, .float32_scales = w->group == 0};
    view.group_blocks = w->group == 0 ? view.n_blocks : w->group / EW_BLOCK_COLS;
    size_t n_groups = (view.n_blocks + view.group_blocks - 1) / view.group_blocks;
    size_t table = tile * n_groups * EW_TILE_ROWS * (w->group == 0 ? sizeof(float) : sizeof(uint16_t));
    size_t block_bytes = w->format == EW_MATRIX_INT8 ? INT8_BLOCK_BYTES : INT4_BLOCK_BYTES;
    view.codes = (const uint8_t *)w->codes + tile * view.n_blocks * block_bytes;
    view.scales = (const uint8_t *)w->scales + table;
    view.offsets = w->format == EW_MATRIX_INT4_OFFSET ? (const uint8_t *)w->offsets + table : NULL;
    return view;
}

LANES_INLINE f32x16 group_factor(const uint8_t *table, bool float32, size_t group) {
    return float32 ? lanes_load((const float *)(const void *)table + group * EW_TILE_ROWS)
                   : lanes_load_float16((const uint16_t *)(const void *)table + group * EW_TILE_ROWS);
}

/* The codes of one block as 8 vectors of 16 rows by 4 inputs, in the order of the inputs. */
LANES_INLINE void unpack_block(const tile_view *tile, size_t block, ew_matrix_format format, bytes64 out[8]) {
    if (format == EW_MATRIX_INT8) {
        for (int v = 0; v < 8; v++) {
            out[v] = bytes_signed(bytes_load(tile->codes + block * INT8_BLOCK_BYTES + v * 64));
        }
        return;
    }
    for (int v = 0; v < 4; v++) {
        bytes64 both = bytes_load(tile->codes + block * INT4_BLOCK_BYTES + v * 64);
        out[v] = bytes_low_nibbles(both);
        out[v + 4] = bytes_high_nibbles(both);
    }
}

/* What unpacked codes hold above the weight's own code. */
LANES_INLINE int32_t code_bias(ew_matrix_format format) {
    return format == EW_MATRIX_INT8 ? SIGNED_BIAS : format == EW_MATRIX_INT4_SYMMETRIC ? 8 : 0;
}

/* y of one token and the n_rows rows of a tile (16 or more: all). */
LANES_INLINE void write_rows(const ew_activations *x, size_t token, matmul_shape shape, f32x16 sum, float *y, size_t n_rows) {
    f32x16 result = shape.type == EW_ACTIVATION_INT16 ? lanes_mul(sum, lanes_set(x->scales[token])) : sum;
    if (n_rows >= LANES) {
        lanes_store(y, result);
    } else {
        lanes_store_first(y, result, n_rows);
    }
}

/* A single token's weights come from memory once: ask for them this many bytes ahead. The address may lie beyond the
 * matrix; a prefetch of it does nothing. */
LANES_INLINE void prefetch_block(const tile_view *tile, size_t block, size_t block_bytes) {
    enum { AHEAD = 4096 };
    uintptr_t at = (uintptr_t)tile->codes + block * block_bytes + AHEAD;
    for (size_t line = 0; line < block_bytes; line += 64) {
        __builtin_prefetch((const void *)(at + line));
    }
}

/* y of n_tiles tiles and shape.n_tokens tokens, both constants; n_rows rows from the first tile's first on are written. */
LANES_INLINE void tiles_times_tokens32(const tile_view *tiles, int n_tiles, const ew_activations *x, size_t token,
                                       matmul_shape shape, float *y, size_t y_stride, size_t n_rows) {
    f32x16 sum[LANES_TILES][LANES_TOKENS];
    for (int r = 0; r < n_tiles; r++) {
        for (int i = 0; i < shape.n_tokens; i++) {
            sum[r][i] = lanes_zero();
        }
    }
    for (size_t block = 0; block < tiles->n_blocks; block++) {
        bytes64 w[LANES_TILES][8];
        f32x16 scale[LANES_TILES], offset[LANES_TILES];
        for (int r = 0; r < n_tiles; r++) {
            if (shape.n_tokens == 1) {
                prefetch_block(&tiles[r], block, shape.format == EW_MATRIX_INT8 ? INT8_BLOCK_BYTES : INT4_BLOCK_BYTES);
            }
            unpack_block(&tiles[r], block, shape.format, w[r]);
            scale[r] = group_factor(tiles[r].scales, false, block);
            offset[r] = shape.format == EW_MATRIX_INT4_OFFSET ? group_factor(tiles[r].offsets, false, block) : lanes_zero();
        }
        for (int i = 0; i < shape.n_tokens; i++) {
            size_t index = (token + (size_t)i) * x->n_blocks + block;
            int32_t total = x->sums[index];
            i32x16 dots[LANES_TILES];
            for (int r = 0; r < n_tiles; r++) {
                dots[r] = ints_set(-code_bias(shape.format) * total);
            }
            if (shape.type == EW_ACTIVATION_INT16) {
                dot_tiles_int16(dots, w, n_tiles, x->codes + index * 64, shape.format);
            } else {
                dot_tiles_int8(dots, w, n_tiles, x->codes + index * 32, shape.format);
            }
            float t = (float)total, input_scale = 0.0f;
            if (shape.type == EW_ACTIVATION_INT8) {
                input_scale = x->scales[index];
                t = fmaf(input_scale, t, 0.0f);
            }
            for (int r = 0; r < n_tiles; r++) {
                f32x16 p = ints_to_lanes(dots[r]);
                p = shape.type == EW_ACTIVATION_INT8 ? lanes_fma(lanes_set(input_scale), p, lanes_zero()) : p;
                sum[r][i] = lanes_fma(scale[r], p, sum[r][i]);
                if (shape.format == EW_MATRIX_INT4_OFFSET) {
                    sum[r][i] = lanes_fma(offset[r], lanes_set(t), sum[r][i]);
                }
            }
        }
    }
    for (int r = 0; r < n_tiles; r++) {
        for (int i = 0; i < shape.n_tokens; i++) {
            write_rows(x, token + (size_t)i, shape, sum[r][i], y + (token + (size_t)i) * y_stride + r * LANES,
                       n_rows - (size_t)r * LANES);
        }
    }
}

/* All tokens of n_tiles tiles. */
LANES_INLINE void tiles_times_all32(const ew_matrix *w, size_t tile, int n_tiles, const ew_activations *x,
                                    matmul_shape shape, float *y, size_t y_stride) {
    tile_view views[LANES_TILES];
    for (int r = 0; r < n_tiles; r++) {
        views[r] = tile_at(w, tile + (size_t)r);
    }
    size_t row = tile * EW_TILE_ROWS, n_rows = w->rows - row, token = 0;
    shape.n_tokens = LANES_TOKENS;
    for (; token + LANES_TOKENS <= x->n_tokens; token += LANES_TOKENS) {
        tiles_times_tokens32(views, n_tiles, x, token, shape, y + row, y_stride, n_rows);
    }
    shape.n_tokens = 2;
    for (; token + 2 <= x->n_tokens; token += 2) {
        tiles_times_tokens32(views, n_tiles, x, token, shape, y + row, y_stride, n_rows);
    }
    shape.n_tokens = 1;
    for (; token < x->n_tokens; token++) {
        tiles_times_tokens32(views, n_tiles, x, token, shape, y + row, y_stride, n_rows);
    }
}

/* A single token takes tile after tile, one stream of memory; several take LANES_TILES tiles at once. */
LANES_INLINE void matmul32_tiles(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,
                                 matmul_shape shape, float *y, size_t y_stride) {
    size_t tile = tile_begin;
    for (; LANES_TILES > 1 && x->n_tokens > 1 && tile + LANES_TILES <= tile_end; tile += LANES_TILES) {
        tiles_times_all32(w, tile, LANES_TILES, x, shape, y, y_stride);
    }
    for (; tile < tile_end; tile++) {
        tiles_times_all32(w, tile, 1, x, shape, y, y_stride);
    }
}

#endif
