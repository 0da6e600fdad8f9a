/* Integer matrix products with groups of 32, one block each, and of INT8 matrices with one scale a row: LANES_TILES tiles
 * of 16 rows by up to LANES_TOKENS tokens at a time, whose sums stay in registers. */
#ifndef EW_KERNEL_LANES_MATMUL32_OPS_H
#define EW_KERNEL_LANES_MATMUL32_OPS_H

#ifdef LANES_HAS_I8MM
#include "kernel/arm/planes_i8mm.h"
#else
#include "kernel/lanes/planes.h"
#endif

/* y of one token and the n_rows rows of a tile (16 or more: all). */
LANES_INLINE void write_rows(const ew_activations *x, size_t token, matmul_shape shape, f32x16 sum, float *y,
                             size_t n_rows) {
    f32x16 result = shape.type == EW_ACTIVATION_INT16 ? lanes_mul(sum, lanes_set(x->scales[token])) : sum;
    if (n_rows >= LANES) {
        lanes_store(y, result);
    } else {
        lanes_store_first(y, result, n_rows);
    }
}

enum { PREFETCH_BLOCKS = 16 };

/* Lines into the second cache; the address need not be one of the program's. */
LANES_INLINE void prefetch_lines(uintptr_t at, size_t bytes) {
    for (size_t line = 0; line < bytes; line += 64) {
        __builtin_prefetch((const void *)(at + line), 0, 2);
    }
}

/* Weights come from memory once, with the first tokens: ask for them `ahead` blocks before, which near the end of the
 * tiles is in the next ones. They come into the second cache: the first holds the inputs. The address may lie beyond
 * the matrix; a prefetch of it does nothing. */
LANES_INLINE void prefetch_block(const tile_view *tile, int n_tiles, size_t block, size_t ahead, size_t block_bytes) {
    size_t wanted = block + ahead;
    wanted = wanted < tile->n_blocks ? wanted : wanted + (size_t)(n_tiles - 1) * tile->n_blocks;
    prefetch_lines((uintptr_t)tile->codes + wanted * block_bytes, block_bytes);
}

/* sum of one block and tile grows by its product with one token, S_b being the integers. */
LANES_INLINE f32x16 add_block(f32x16 sum, i32x16 dots, f32x16 scale, f32x16 offset, const ew_activations *x,
                              size_t index, matmul_shape shape) {
    f32x16 p = ints_to_lanes(dots);
    float t = (float)x->sums[index];
    if (shape.type == EW_ACTIVATION_INT8) {
        p = lanes_fma(lanes_set(x->scales[index]), p, lanes_zero());
        t = fmaf(x->scales[index], t, 0.0f);
    }
    sum = lanes_fma(scale, p, sum);
    return shape.format == EW_MATRIX_INT4_OFFSET ? lanes_fma(offset, lanes_set(t), sum) : sum;
}

/* y of n_tiles tiles and shape.n_tokens tokens, both constants; n_rows rows from the first tile's
 * first on are written. */
LANES_INLINE void tiles_times_tokens32(const tile_view *tiles, int n_tiles, const ew_activations *x, size_t token,
                                       matmul_shape shape, float *y, size_t y_stride, size_t n_rows) {
    f32x16 sum[LANES_TILES][LANES_TOKENS];
    for (int r = 0; r < n_tiles; r++) {
        for (int i = 0; i < shape.n_tokens; i++) {
            sum[r][i] = lanes_zero();
        }
    }
    for (size_t block = 0; block < tiles->n_blocks; block++) {
        i32x16 dots[LANES_TILES][LANES_TOKENS];
        size_t index = token * x->n_blocks + block;
        if (token == 0) {
            for (int r = 0; r < n_tiles; r++) {
                prefetch_block(&tiles[r], n_tiles, block, PREFETCH_BLOCKS, block_bytes_of(shape.format));
            }
        }
        block_products(tiles, n_tiles, block, x, index, shape, dots);
        for (int r = 0; r < n_tiles; r++) {
            bool has_offset = shape.format == EW_MATRIX_INT4_OFFSET;
            f32x16 scale = group_factor(tiles[r].scales, false, block);
            f32x16 offset = has_offset ? group_factor(tiles[r].offsets, false, block) : scale;
            for (int i = 0; i < shape.n_tokens; i++) {
                sum[r][i] = add_block(sum[r][i], dots[r][i], scale, offset, x, index + (size_t)i * x->n_blocks, shape);
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

enum { SEGMENT_BLOCKS_INT8 = 16 };

/* p of INT8 rows over the blocks begin .. end - 1, of INT16 activations a segment, grows by them. */
LANES_INLINE void add_row_blocks(const tile_view *tiles, int n_tiles, size_t begin, size_t end, const ew_activations *x,
                                 size_t token, matmul_shape shape, f32x16 (*p)[LANES_TOKENS]) {
    bool wide = shape.type == EW_ACTIVATION_INT16;
    i32x16 dots[LANES_TILES][LANES_TOKENS], total[LANES_TILES][LANES_TOKENS];
    for (int r = 0; r < n_tiles; r++) {
        for (int i = 0; i < shape.n_tokens; i++) {
            total[r][i] = ints_zero();
        }
    }
    for (size_t block = begin; block < end; block++) {
        size_t index = token * x->n_blocks + block;
        for (int r = 0; token == 0 && r < n_tiles; r++) {
            prefetch_block(&tiles[r], n_tiles, block, PREFETCH_BLOCKS, block_bytes_of(shape.format));
        }
        block_products(tiles, n_tiles, block, x, index, shape, dots);
        for (int r = 0; r < n_tiles; r++) {
            for (int i = 0; i < shape.n_tokens; i++) {
                if (wide) {
                    total[r][i] = ints_add(total[r][i], dots[r][i]);
                } else {
                    f32x16 scale = lanes_set(x->scales[index + (size_t)i * x->n_blocks]);
                    p[r][i] = lanes_fma(scale, ints_to_lanes(dots[r][i]), p[r][i]);
                }
            }
        }
    }
    for (int r = 0; wide && r < n_tiles; r++) {
        for (int i = 0; i < shape.n_tokens; i++) {
            p[r][i] = lanes_add(p[r][i], ints_to_lanes(total[r][i]));
        }
    }
}

/* tiles_times_tokens32 for INT8 with one scale a row. */
LANES_INLINE void tiles_times_tokens_per_row(const tile_view *tiles, int n_tiles, const ew_activations *x, size_t token,
                                             matmul_shape shape, float *y, size_t y_stride, size_t n_rows) {
    f32x16 p[LANES_TILES][LANES_TOKENS];
    for (int r = 0; r < n_tiles; r++) {
        for (int i = 0; i < shape.n_tokens; i++) {
            p[r][i] = lanes_zero();
        }
    }
    for (size_t begin = 0; begin < tiles->n_blocks; begin += SEGMENT_BLOCKS_INT8) {
        size_t end = tiles->n_blocks - begin > SEGMENT_BLOCKS_INT8 ? begin + SEGMENT_BLOCKS_INT8 : tiles->n_blocks;
        add_row_blocks(tiles, n_tiles, begin, end, x, token, shape, p);
    }
    for (int r = 0; r < n_tiles; r++) {
        f32x16 scale = group_factor(tiles[r].scales, true, 0);
        for (int i = 0; i < shape.n_tokens; i++) {
            write_rows(x, token + (size_t)i, shape, lanes_fma(scale, p[r][i], lanes_zero()),
                       y + (token + (size_t)i) * y_stride + r * LANES, n_rows - (size_t)r * LANES);
        }
    }
}

LANES_INLINE void tiles_times_some(const tile_view *tiles, int n_tiles, const ew_activations *x, size_t token,
                                   matmul_shape shape, float *y, size_t y_stride, size_t n_rows) {
    if (shape.per_row) {
        tiles_times_tokens_per_row(tiles, n_tiles, x, token, shape, y, y_stride, n_rows);
    } else {
        tiles_times_tokens32(tiles, n_tiles, x, token, shape, y, y_stride, n_rows);
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
        tiles_times_some(views, n_tiles, x, token, shape, y + row, y_stride, n_rows);
    }
    shape.n_tokens = 2;
    for (; LANES_TOKENS > 2 && token + 2 <= x->n_tokens; token += 2) {
        tiles_times_some(views, n_tiles, x, token, shape, y + row, y_stride, n_rows);
    }
    shape.n_tokens = 1;
    for (; token < x->n_tokens; token++) {
        tiles_times_some(views, n_tiles, x, token, shape, y + row, y_stride, n_rows);
    }
}

LANES_INLINE void matmul32_tiles(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,
                                 matmul_shape shape, float *y, size_t y_stride) {
    size_t tile = tile_begin;
    for (; LANES_TILES > 1 && tile + LANES_TILES <= tile_end; tile += LANES_TILES) {
        tiles_times_all32(w, tile, LANES_TILES, x, shape, y, y_stride);
    }
    for (; tile < tile_end; tile++) {
        tiles_times_all32(w, tile, 1, x, shape, y, y_stride);
    }
}

#endif
