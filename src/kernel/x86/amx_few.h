/* Products of 6 to 31 tokens of INT16 activations with groups of 32 in tile registers. Storing a tile register costs 16
 * cycles however few of its rows are used, so both planes of 8 tokens share one: the inputs are first copied into such
 * panels.
 *
 * Weights stream from memory here, so a block is unpacked shortly before its product. What a vector has stored a tile
 * register cannot read before it is in the cache, nor the other way round: so while one block is multiplied the next is
 * unpacked and the one before added up. Two tiles of 16 rows go side by side, so that a panel is loaded once for both. */
#ifndef EW_KERNEL_AMX_FEW_H
#define EW_KERNEL_AMX_FEW_H

#include "kernel/x86/amx_tiles.h"

enum {
    FEW_TILES = 2,
    FEW_TOKENS = 8,
    FEW_PLANES = 2,
    FEW_PANELS = 4, /* 31 tokens */
    FEW_BUFFERS = 2,
    FEW_PREFETCH_BLOCKS = 32
};

/* Tokens first .. first + count - 1, blocks begin .. end - 1. Rows 0 to 7 of a block are hi planes, 8 to 15 lo planes;
 * tokens that there are not are zero. */
typedef struct {
    size_t first, count, begin, end;
    _Alignas(64) int8_t codes[SEGMENT_BLOCKS][FEW_PLANES][FEW_TOKENS][EW_BLOCK_COLS];
    float sums[SEGMENT_BLOCKS][FEW_TOKENS]; /* of each token's codes, for offsets */
} amx_panel;

LANES_INLINE void fill_panel(const ew_activations *x, amx_panel *panel) {
    size_t n_blocks = panel->end - panel->begin;
    for (size_t i = 0; i < FEW_TOKENS; i++) {
        bool present = i < panel->count;
        size_t at = present ? (panel->first + i) * x->n_blocks + panel->begin : 0;
        const __m256i *codes = (const __m256i *)(x->codes + at * FEW_PLANES * EW_BLOCK_COLS);
        for (size_t block = 0; block < n_blocks; block++) {
            for (size_t plane = 0; plane < FEW_PLANES; plane++, codes++) {
                __m256i inputs = present ? _mm256_loadu_si256(codes) : _mm256_setzero_si256();
                _mm256_store_si256((__m256i *)panel->codes[block][plane][i], inputs);
            }
            panel->sums[block][i] = present ? (float)x->sums[at + block] : 0.0f;
        }
    }
}

/* Block b has place b % FEW_BUFFERS: its unpacked weights for each tile, and what came of it. Loads that agree in their
 * last 12 address bits with a store before them wait for it: sums fill the 4 KB once, and the weights of a place meet
 * the sums of the other, which are older. */
typedef struct {
    _Alignas(4096) amx_sums sums[FEW_BUFFERS][FEW_TILES];
    int8_t gap[2048];
    struct {
        _Alignas(2048) int8_t block[FEW_TILES][AMX_BLOCK];
    } weights[FEW_BUFFERS];
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

LANES_INLINE void unpack_tiles(const few_work *work, size_t block, ew_matrix_format format) {
    for (int r = 0; r < work->n_tiles; r++) {
        const tile_view *tile = &work->tiles[r];
        if (work->fetch) {
            prefetch_block(tile, work->n_tiles, block, FEW_PREFETCH_BLOCKS, block_bytes_of(format));
        }
        if (format != EW_MATRIX_INT8) {
            unpack_signed(tile, block, block + 1, format, work->buffers->weights[block % FEW_BUFFERS].block[r]);
        }
    }
}

LANES_INLINE const int8_t *few_weights(const few_work *work, int tile, size_t block, ew_matrix_format format) {
    return format == EW_MATRIX_INT8 ? (const int8_t *)work->tiles[tile].codes + block * AMX_BLOCK
                                    : work->buffers->weights[block % FEW_BUFFERS].block[tile];
}

#define MULTIPLY(sums_, weights_, tile_)                                                                               \
    do {                                                                                                               \
        _tile_zero(sums_);                                                                                             \
        _tile_loadd(weights_, few_weights(work, tile_, block, format), 64);                                            \
        _tile_dpbssd(sums_, INPUTS_LO, weights_);                                                                      \
        _tile_stored(sums_, work->buffers->sums[block % FEW_BUFFERS][tile_], 64);                                      \
    } while (0)
LANES_INLINE void multiply_tiles(const few_work *work, size_t block, bool odd, ew_matrix_format format) {
    memory_is_read();
    _tile_loadd(INPUTS_LO, work->panel->codes[block - work->panel->begin], EW_BLOCK_COLS);
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

/* sum[tile][token] grows by a block (docs/arithmetic.md, "Linear layers"). */
LANES_INLINE void add_tiles(const few_work *work, size_t block, matmul_shape shape, f32x16 (*sum)[FEW_TOKENS]) {
    const float *inputs = work->panel->sums[block - work->panel->begin];
    for (int r = 0; r < work->n_tiles; r++) {
        int32_t(*in)[16] = work->buffers->sums[block % FEW_BUFFERS][r];
        f32x16 scale = group_factor(work->tiles[r].scales, false, block);
        for (size_t i = 0; i < FEW_TOKENS; i++) {
            i32x16 dots = join_planes(ints_load(in[i]), ints_load(in[FEW_TOKENS + i]), shape.format);
            sum[r][i] = lanes_fma(scale, ints_to_lanes(dots), sum[r][i]);
        }
        if (shape.format == EW_MATRIX_INT4_OFFSET) {
            f32x16 offset = group_factor(work->tiles[r].offsets, false, block);
            for (size_t i = 0; i < FEW_TOKENS; i++) {
                sum[r][i] = lanes_fma_at(&inputs[i], offset, sum[r][i]);
            }
        }
    }
}

/* Sums between the spans of a long row, and before they are written. */
typedef float few_sums[FEW_TILES][FEW_TOKENS][LANES];

/* The sums so far of the panel's tokens, from y. */
LANES_INLINE void few_begin(const few_work *work, const float *y, size_t y_stride, size_t n_rows, few_sums sums) {
    const amx_panel *panel = work->panel;
    for (int r = 0; r < work->n_tiles; r++) {
        for (size_t i = 0; i < FEW_TOKENS; i++) {
            const float *carried = y + (panel->first + i) * y_stride + (size_t)r * LANES;
            bool fresh = panel->begin == 0 || i >= panel->count;
            lanes_store(sums[r][i], fresh ? lanes_zero() : lanes_load_first(carried, n_rows - (size_t)r * LANES));
        }
    }
}

LANES_INLINE void few_end(const few_work *work, matmul_shape shape, few_sums sums, float *y, size_t y_stride,
                          size_t n_rows) {
    const amx_panel *panel = work->panel;
    for (int r = 0; r < work->n_tiles; r++) {
        for (size_t i = 0; i < panel->count; i++) {
            float *out = y + (panel->first + i) * y_stride + (size_t)r * LANES;
            f32x16 sum = lanes_load(sums[r][i]);
            if (panel->end == work->x->n_blocks) {
                write_rows(work->x, panel->first + i, shape, sum, out, n_rows - (size_t)r * LANES);
            } else {
                lanes_store_first(out, sum, n_rows - (size_t)r * LANES);
            }
        }
    }
}

/* y of the panel's tokens and the tiles' n_rows rows; between the spans of a long row y holds the sums. They stay in
 * registers because every loop over them here is short enough to be unrolled. */
LANES_INLINE void few_times_tiles(const few_work *work, matmul_shape shape, float *y, size_t y_stride, size_t n_rows) {
    const amx_panel *panel = work->panel;
    few_sums carried;
    f32x16 sum[FEW_TILES][FEW_TOKENS];
    few_begin(work, y, y_stride, n_rows, carried);
    for (int r = 0; r < work->n_tiles; r++) {
        for (size_t i = 0; i < FEW_TOKENS; i++) {
            sum[r][i] = lanes_load(carried[r][i]);
        }
    }
    for (size_t block = panel->begin; block < panel->end + 2; block++) {
        if (block < panel->end) {
            unpack_tiles(work, block, shape.format);
        }
        if (block > panel->begin && block <= panel->end) {
            multiply_tiles(work, block - 1, block & 1, shape.format);
        }
        if (block > panel->begin + 1) {
            add_tiles(work, block - 2, shape, sum);
        }
    }
    for (int r = 0; r < work->n_tiles; r++) {
        for (size_t i = 0; i < FEW_TOKENS; i++) {
            lanes_store(carried[r][i], sum[r][i]);
        }
    }
    few_end(work, shape, carried, y, y_stride, n_rows);
}

/* Tiles begin .. end - 1, n_tiles (a constant) at a time, as far as that goes; the first one that is left. */
LANES_INLINE size_t few_times_range(const ew_matrix *w, size_t begin, size_t end, const ew_activations *x, int n_tiles,
                                    matmul_shape shape, const amx_panel *panels, size_t n_panels, few_buffers *buffers,
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
                                matmul_shape shape, float *y, size_t y_stride) {
    amx_panel panels[FEW_PANELS];
    few_buffers buffers;
    for (size_t begin = 0; begin < x->n_blocks; begin += SEGMENT_BLOCKS) {
        size_t end = x->n_blocks - begin < SEGMENT_BLOCKS ? x->n_blocks : begin + SEGMENT_BLOCKS, n_panels = 0;
        for (size_t first = 0; first < x->n_tokens; first += FEW_TOKENS) {
            amx_panel *panel = &panels[n_panels++];
            panel->first = first;
            panel->count = x->n_tokens - first < FEW_TOKENS ? x->n_tokens - first : FEW_TOKENS;
            panel->begin = begin;
            panel->end = end;
            fill_panel(x, panel);
        }
        size_t tile =
            few_times_range(w, tile_begin, tile_end, x, FEW_TILES, shape, panels, n_panels, &buffers, y, y_stride);
        few_times_range(w, tile, tile_end, x, 1, shape, panels, n_panels, &buffers, y, y_stride);
    }
}

static void few_matmul(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                       size_t y_stride) {
#define FEW(format_)                                                                                                   \
    if (w->format == format_) {                                                                                        \
        matmul_shape shape = {.format = format_, .type = EW_ACTIVATION_INT16};                                         \
        few_times_all(w, tile_begin, tile_end, x, shape, y, y_stride);                                                 \
    }
    FEW(EW_MATRIX_INT4_SYMMETRIC)
    FEW(EW_MATRIX_INT4_OFFSET)
    FEW(EW_MATRIX_INT8)
#undef FEW
}

#endif
