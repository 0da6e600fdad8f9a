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

LANES_INLINE void fill_panel(const ew_activations *x, bool sums, amx_panel *panel) {
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
            if (sums) {
                panel->sums[block][i] = present ? (float)x->sums[at + block] : 0.0f;
            }
        }
    }
}

/* Block b has place b % FEW_BUFFERS: its unpacked weights for each tile, and what came of it. Loads that agree in their
 * last 12 address bits with a store before them wait for it: sums fill the 4 KB once, and weights agree with the sums of
 * their own place, which are stored and loaded when they are. */
typedef struct {
    _Alignas(4096) amx_sums sums[FEW_BUFFERS][FEW_TILES];
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

/* What happens in a step. Blocks go through four stages, a step each: their weights are unpacked; multiplied; the sums
 * stored; and added up. So the step of block b multiplies b - 1, stores b - 2 and adds b - 3. */
typedef struct {
    bool unpack, multiply, store, add;
    bool odd; /* b, which says whose place is whose */
} few_stages;

LANES_INLINE few_stages few_stages_of(size_t block, size_t begin, size_t end) {
    return (few_stages){.unpack = block < end,
                        .multiply = block >= begin + 1 && block <= end,
                        .store = block >= begin + 2 && block <= end + 1,
                        .add = block >= begin + 3,
                        .odd = block % 2 == 1};
}

LANES_INLINE void few_unpack(const few_work *work, int r, size_t block, bool odd, ew_matrix_format format) {
    const tile_view *tile = &work->tiles[r];
    if (work->fetch) {
        prefetch_block(tile, work->n_tiles, block, FEW_PREFETCH_BLOCKS, block_bytes_of(format));
    }
    if (format != EW_MATRIX_INT8) {
        unpack_signed(tile, block, block + 1, format, work->buffers->weights[odd].block[r]);
    }
}

LANES_INLINE const int8_t *few_weights(const few_work *work, int r, size_t block, bool odd, ew_matrix_format format) {
    return format == EW_MATRIX_INT8 ? (const int8_t *)work->tiles[r].codes + block * AMX_BLOCK
                                    : work->buffers->weights[odd].block[r];
}

/* sum[token] grows by a block of one tile (docs/arithmetic.md, "Linear layers"). */
LANES_INLINE void few_add(const few_work *work, int r, size_t block, bool odd, matmul_shape shape, f32x16 *sum) {
    int32_t(*in)[16] = work->buffers->sums[odd][r];
    f32x16 scale = group_factor(work->tiles[r].scales, false, block);
    i32x16 factor = ints_set(256);
    __asm__("" : "+v"(factor)); /* else gcc makes it anew in every step */
    for (size_t i = 0; i < FEW_TOKENS; i++) {
        i32x16 dots = join_planes(ints_load(in[i]), ints_load(in[FEW_TOKENS + i]), factor, shape.format);
        sum[i] = lanes_fma(scale, ints_to_lanes(dots), sum[i]);
    }
    if (shape.format == EW_MATRIX_INT4_OFFSET) {
        const float *inputs = work->panel->sums[block - work->panel->begin];
        f32x16 offset = group_factor(work->tiles[r].offsets, false, block);
        for (size_t i = 0; i < FEW_TOKENS; i++) {
            sum[i] = lanes_fma_at(&inputs[i], offset, sum[i]);
        }
    }
}

#define STEP(r_, new_sums_, old_sums_)                                                                                 \
    do {                                                                                                               \
        if (stages.unpack) {                                                                                           \
            few_unpack(work, r_, block, stages.odd, shape.format);                                                     \
        }                                                                                                              \
        if (stages.multiply) {                                                                                         \
            memory_is_read();                                                                                          \
            _tile_loadd(WEIGHTS, few_weights(work, r_, block - 1, !stages.odd, shape.format), 64);                     \
            _tile_dpbssd(new_sums_, INPUTS, WEIGHTS);                                                                  \
            _tile_zero(WEIGHTS);                                                                                       \
        }                                                                                                              \
        if (stages.store) {                                                                                            \
            STORE_SUMS(old_sums_, work->buffers->sums[stages.odd][r_]);                                                \
        }                                                                                                              \
        if (stages.add) {                                                                                              \
            few_add(work, r_, block - 3, !stages.odd, shape, sum[r_]);                                                 \
        }                                                                                                              \
    } while (0)
LANES_INLINE void few_step(const few_work *work, size_t block, few_stages stages, matmul_shape shape,
                           f32x16 (*sum)[FEW_TOKENS]) {
    if (stages.multiply) {
        memory_is_read();
        _tile_loadd(INPUTS, work->panel->codes[block - 1 - work->panel->begin], EW_BLOCK_COLS);
    }
    if (stages.odd) {
        STEP(0, EVEN_FIRST, ODD_FIRST);
        if (work->n_tiles > 1) {
            STEP(1, EVEN_SECOND, ODD_SECOND);
        }
    } else {
        STEP(0, ODD_FIRST, EVEN_FIRST);
        if (work->n_tiles > 1) {
            STEP(1, ODD_SECOND, EVEN_SECOND);
        }
    }
    _tile_zero(INPUTS);
}
#undef STEP

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
    size_t begin = work->panel->begin, end = work->panel->end;
    few_sums carried;
    f32x16 sum[FEW_TILES][FEW_TOKENS];
    few_begin(work, y, y_stride, n_rows, carried);
    for (int r = 0; r < work->n_tiles; r++) {
        for (size_t i = 0; i < FEW_TOKENS; i++) {
            sum[r][i] = lanes_load(carried[r][i]);
        }
    }
    for (size_t block = begin; block < end + 3;) {
        if (block % 2 == 0 && block >= begin + 3 && block + 1 < end) {
            few_step(work, block, (few_stages){true, true, true, true, .odd = false}, shape, sum);
            few_step(work, block + 1, (few_stages){true, true, true, true, .odd = true}, shape, sum);
            block += 2;
        } else {
            few_step(work, block, few_stages_of(block, begin, end), shape, sum);
            block++;
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
            fill_panel(x, shape.format == EW_MATRIX_INT4_OFFSET, panel);
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
