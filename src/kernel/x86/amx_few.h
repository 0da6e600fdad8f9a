/* Products of up to 31 tokens with groups of 32 in tile registers. Storing a tile register costs 16 cycles however few
 * of its rows are used, so its 16 rows are filled: with both planes of 8 tokens, with two blocks of 8 tokens' single
 * planes, or with two blocks of both planes of 4. The inputs are first copied into such panels; where a row belongs to
 * one of two blocks, it is zero in the other's half.
 *
 * Weights stream from memory here, so blocks are unpacked shortly before their products. What a vector has stored a
 * tile register cannot read before it is in the cache, nor the other way round: so while one product is multiplied the
 * next is unpacked and the one before added up. Two tiles of 16 rows go side by side, so that a panel is loaded once for
 * both. */
#ifndef EW_KERNEL_AMX_FEW_H
#define EW_KERNEL_AMX_FEW_H

#include "kernel/x86/amx_tiles.h"

enum {
    FEW_TILES = 2,
    FEW_TOKENS = 16, /* most in a panel */
    FEW_PANELS = 4,  /* 31 tokens in panels of 8 */
    FEW_BUFFERS = 2,
    FEW_PREFETCH_BLOCKS = 32
};

/* What is constant in a specialised program: a tile register holds blocks * planes * tokens = 16 rows. */
typedef struct {
    matmul_shape matrix;
    int tiles;
    size_t tokens, planes, blocks;
} few_shape;

/* Tokens first .. first + count - 1 (the others are zero), blocks begin .. end - 1, one or two a product. Row
 * (b * planes + p) * tokens + i of a product is plane p of token i, in the columns of its block b. */
typedef struct {
    size_t first, count, begin, end;
    _Alignas(64) int8_t codes[SEGMENT_BLOCKS + 1][AMX_TOKENS * EW_BLOCK_COLS];
} amx_panel;

/* Bytes of one row of a product. */
LANES_INLINE size_t panel_row_bytes(few_shape shape) {
    return shape.blocks * EW_BLOCK_COLS;
}

/* One row of a product: a plane of a block, in the columns of the product's first or second block. */
LANES_INLINE void fill_row(int8_t *row, __m256i inputs, size_t half, few_shape shape) {
    if (shape.blocks == 1) {
        _mm256_store_si256((__m256i *)row, inputs);
    } else if (half == 0) {
        _mm512_store_si512(row, _mm512_zextsi256_si512(inputs));
    } else {
        _mm512_store_si512(row, _mm512_inserti64x4(_mm512_setzero_si512(), inputs, 1));
    }
}

LANES_INLINE void fill_panel(const ew_activations *x, few_shape shape, amx_panel *panel) {
    size_t row_bytes = panel_row_bytes(shape), n_blocks = panel->end - panel->begin;
    for (size_t i = 0; i < shape.tokens; i++) {
        bool present = i < panel->count;
        size_t at = ((panel->first + i) * x->n_blocks + panel->begin) * EW_BLOCK_COLS * shape.planes;
        const __m256i *codes = (const __m256i *)(x->codes + (present ? at : 0));
        for (size_t block = 0; block < n_blocks; block += shape.blocks) {
            for (size_t half = 0; half < shape.blocks; half++) {
                for (size_t plane = 0; plane < shape.planes; plane++, codes += present) {
                    bool there = present && block + half < n_blocks;
                    __m256i inputs = there ? _mm256_loadu_si256(codes) : _mm256_setzero_si256();
                    size_t row = (half * shape.planes + plane) * shape.tokens + i;
                    fill_row(panel->codes[block] + row * row_bytes, inputs, half, shape);
                }
            }
        }
    }
}

/* Product n has place n % FEW_BUFFERS: the unpacked weights of its blocks for each tile, and what came of it. Loads that
 * agree in their last 12 address bits with a store before them wait for it: sums fill the 4 KB once, and the weights of
 * a place meet the sums of the other, which are older. */
typedef struct {
    _Alignas(4096) amx_sums sums[FEW_BUFFERS][FEW_TILES];
    int8_t gap[2048];
    int8_t weights[FEW_BUFFERS][FEW_TILES][2 * AMX_BLOCK];
} few_buffers;

/* A pair of tiles, or one, that meets a panel. */
typedef struct {
    const tile_view *tiles;
    int n_tiles;
    bool fetch; /* the weights come from memory */
    const ew_activations *x;
    const amx_panel *panel;
    few_buffers *buffers;
} few_work;

LANES_INLINE const int8_t *product_weights(const few_work *work, int tile, size_t product, few_shape shape) {
    size_t block = work->panel->begin + product * shape.blocks;
    if (shape.matrix.format == EW_MATRIX_INT8 && block + shape.blocks <= work->panel->end) {
        return (const int8_t *)work->tiles[tile].codes + block * AMX_BLOCK;
    }
    return work->buffers->weights[product % FEW_BUFFERS][tile];
}

LANES_INLINE void unpack_product(const few_work *work, size_t product, few_shape shape) {
    size_t first = work->panel->begin + product * shape.blocks;
    for (int r = 0; r < work->n_tiles; r++) {
        const tile_view *tile = &work->tiles[r];
        int8_t *out = work->buffers->weights[product % FEW_BUFFERS][r];
        for (size_t block = first; block < first + shape.blocks && block < work->panel->end; block++) {
            if (work->fetch) {
                prefetch_block(tile, work->n_tiles, block, FEW_PREFETCH_BLOCKS, block_bytes_of(shape.matrix.format));
            }
            if (shape.matrix.format != EW_MATRIX_INT8) {
                unpack_signed(tile, block, block + 1, shape.matrix.format, out + (block - first) * AMX_BLOCK);
            } else if (first + shape.blocks > work->panel->end) {
                memcpy(out, tile->codes + block * AMX_BLOCK, AMX_BLOCK);
            }
        }
    }
}

#define MULTIPLY(sums, weights, tile)                                                                                  \
    do {                                                                                                               \
        _tile_zero(sums);                                                                                              \
        _tile_loadd(weights, product_weights(work, tile, product, shape), 64);                                         \
        _tile_dpbssd(sums, INPUTS_LO, weights);                                                                        \
        _tile_stored(sums, out[tile], 64);                                                                             \
    } while (0)
LANES_INLINE void multiply_product(const few_work *work, size_t product, bool odd, few_shape shape) {
    amx_sums *out = work->buffers->sums[product % FEW_BUFFERS];
    memory_is_read();
    _tile_loadd(INPUTS_LO, work->panel->codes[product * shape.blocks], (long)panel_row_bytes(shape));
    if (odd) {
        MULTIPLY(SUMS_HI, WEIGHTS, 0);
        if (work->n_tiles > 1) {
            MULTIPLY(SUMS_LO, NEXT_WEIGHTS, 1);
        }
    } else {
        MULTIPLY(NEXT_HI, WEIGHTS, 0);
        if (work->n_tiles > 1) {
            MULTIPLY(NEXT_LO, NEXT_WEIGHTS, 1);
        }
    }
}
#undef MULTIPLY

/* 256 hi + lo. With INT4 symmetric weights |hi| is at most 8 * 127 * 32, which a word holds. */
LANES_INLINE i32x16 join_planes(i32x16 hi, i32x16 lo, ew_matrix_format format) {
    if (format == EW_MATRIX_INT4_SYMMETRIC) {
        return _mm512_dpwssd_epi32(lo, hi, _mm512_set1_epi32(256));
    }
    return ints_add(ints_times_256(hi), lo);
}

/* sum[tile][token] grows by the blocks of a product. Tokens that the panel lacks have no scales: they stay. */
LANES_INLINE void add_product(const few_work *work, size_t product, few_shape shape, f32x16 (*sum)[FEW_TOKENS]) {
    const amx_panel *panel = work->panel;
    for (size_t half = 0; half < shape.blocks; half++) {
        size_t block = panel->begin + product * shape.blocks + half;
        if (block >= panel->end) {
            break;
        }
        for (int r = 0; r < work->n_tiles; r++) {
            int32_t(*in)[16] = work->buffers->sums[product % FEW_BUFFERS][r] + half * shape.planes * shape.tokens;
            bool has_offset = shape.matrix.format == EW_MATRIX_INT4_OFFSET;
            f32x16 scale = group_factor(work->tiles[r].scales, false, block);
            f32x16 offset = has_offset ? group_factor(work->tiles[r].offsets, false, block) : scale;
            for (size_t i = 0; i < shape.tokens; i++) {
                i32x16 dots = ints_load(in[i]);
                if (shape.planes > 1) {
                    dots = join_planes(dots, ints_load(in[shape.tokens + i]), shape.matrix.format);
                }
                size_t token = panel->first + (i < panel->count ? i : panel->count - 1);
                sum[r][i] =
                    add_block(sum[r][i], dots, scale, offset, work->x, token * work->x->n_blocks + block, shape.matrix);
            }
        }
    }
}

/* y of the panel's tokens and the tiles' n_rows rows; between the spans of a long row y holds the sums. */
LANES_INLINE void few_times_tiles(const few_work *work, few_shape shape, float *y, size_t y_stride, size_t n_rows) {
    const amx_panel *panel = work->panel;
    f32x16 sum[FEW_TILES][FEW_TOKENS];
    for (int r = 0; r < work->n_tiles; r++) {
        for (size_t i = 0; i < shape.tokens; i++) {
            const float *carried = y + (panel->first + i) * y_stride + (size_t)r * LANES;
            bool fresh = panel->begin == 0 || i >= panel->count;
            sum[r][i] = fresh ? lanes_zero() : lanes_load_first(carried, n_rows - (size_t)r * LANES);
        }
    }
    size_t end = (panel->end - panel->begin + shape.blocks - 1) / shape.blocks;
    for (size_t step = 0; step < end + 2; step++) {
        if (step < end) {
            unpack_product(work, step, shape);
        }
        if (step > 0 && step <= end) {
            multiply_product(work, step - 1, step & 1, shape);
        }
        if (step > 1) {
            add_product(work, step - 2, shape, sum);
        }
    }
    for (int r = 0; r < work->n_tiles; r++) {
        for (size_t i = 0; i < shape.tokens && i < panel->count; i++) {
            float *out = y + (panel->first + i) * y_stride + (size_t)r * LANES;
            if (panel->end == work->x->n_blocks) {
                write_rows(work->x, panel->first + i, shape.matrix, sum[r][i], out, n_rows - (size_t)r * LANES);
            } else {
                lanes_store_first(out, sum[r][i], n_rows - (size_t)r * LANES);
            }
        }
    }
}

/* Tiles begin .. end - 1, n_tiles (a constant) at a time, as far as that goes; the first one that is left. */
LANES_INLINE size_t few_times_range(const ew_matrix *w, size_t begin, size_t end, const ew_activations *x, int n_tiles,
                                    few_shape shape, const amx_panel *panels, size_t n_panels, few_buffers *buffers,
                                    float *y, size_t y_stride) {
    for (; begin + (size_t)n_tiles <= end; begin += (size_t)n_tiles) {
        tile_view views[FEW_TILES];
        for (int r = 0; r < n_tiles; r++) {
            views[r] = tile_at(w, begin + (size_t)r);
        }
        size_t row = begin * EW_TILE_ROWS;
        for (size_t i = 0; i < n_panels; i++) {
            few_work work = {views, n_tiles, i == 0, x, &panels[i], buffers};
            few_times_tiles(&work, shape, y + row, y_stride, w->rows - row);
        }
    }
    return begin;
}

LANES_INLINE void few_times_all(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,
                                few_shape shape, float *y, size_t y_stride) {
    amx_panel panels[FEW_PANELS];
    few_buffers buffers;
    configure_tiles(shape.blocks);
    memset(buffers.weights, 0, sizeof buffers.weights); /* the last of an odd number of blocks is multiplied by zeros */
    for (size_t begin = 0; begin < x->n_blocks; begin += SEGMENT_BLOCKS) {
        size_t end = x->n_blocks - begin < SEGMENT_BLOCKS ? x->n_blocks : begin + SEGMENT_BLOCKS, n_panels = 0;
        for (size_t first = 0; first < x->n_tokens; first += shape.tokens) {
            amx_panel *panel = &panels[n_panels++];
            panel->first = first;
            panel->count = x->n_tokens - first < shape.tokens ? x->n_tokens - first : shape.tokens;
            panel->begin = begin;
            panel->end = end;
            fill_panel(x, shape, panel);
        }
        size_t tile =
            few_times_range(w, tile_begin, tile_end, x, shape.tiles, shape, panels, n_panels, &buffers, y, y_stride);
        few_times_range(w, tile, tile_end, x, 1, shape, panels, n_panels, &buffers, y, y_stride);
    }
}

static void few_matmul(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                       size_t y_stride) {
#define FEW(format_, type_, tiles_, tokens_, planes_)                                                                  \
    if (w->format == format_ && x->type == type_ && (x->n_tokens <= tokens_ || tokens_ * planes_ == AMX_TOKENS)) {     \
        few_shape shape = {                                                                                            \
            {.format = format_, .type = type_}, tiles_, tokens_, planes_, AMX_TOKENS / (tokens_ * planes_)};           \
        few_times_all(w, tile_begin, tile_end, x, shape, y, y_stride);                                                 \
        return;                                                                                                        \
    }
    FEW(EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT16, 2, 8, 2)
    FEW(EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT8, 2, 8, 1)
    FEW(EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT8, 1, 16, 1)
    FEW(EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT16, 2, 8, 2)
    FEW(EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT8, 2, 8, 1)
    FEW(EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT8, 1, 16, 1)
    FEW(EW_MATRIX_INT8, EW_ACTIVATION_INT16, 2, 8, 2)
    FEW(EW_MATRIX_INT8, EW_ACTIVATION_INT8, 2, 8, 1)
    FEW(EW_MATRIX_INT8, EW_ACTIVATION_INT8, 1, 16, 1)
#undef FEW
}

#endif
