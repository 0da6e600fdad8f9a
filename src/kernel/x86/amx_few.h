/* Products of 6 to 31 tokens of INT16 activations with groups of 32 in tile registers. Storing a tile register costs 16
 * cycles however few of its rows are used, so both planes of 8 tokens share one: the inputs are first copied into such
 * panels.
 *
 * Weights stream from memory here, so a block is unpacked shortly before its product. What a vector has stored a tile
 * register cannot read before it is in the cache, nor the other way round: so the four things that happen to a block are
 * a step apart. Two tiles of 16 rows go side by side, so that a panel is loaded once for both. What takes the time is the
 * number of instructions, of which storing a tile register is about 75 (docs/performance.md, step 25). */
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

/* Of a token's block, its two planes; zeros if there is no such token. */
LANES_INLINE __m512i token_block(const ew_activations *x, const amx_panel *panel, size_t i, size_t block) {
    size_t at = ((panel->first + i) * x->n_blocks + block) * FEW_PLANES * EW_BLOCK_COLS;
    return i < panel->count ? _mm512_loadu_si512(x->codes + at) : _mm512_setzero_si512();
}

/* Two tokens at a time, so that whole cache lines are written. */
LANES_INLINE void fill_codes(const ew_activations *x, amx_panel *panel) {
    enum { LOW_HALVES = 0x44, HIGH_HALVES = 0xee };
    for (size_t block = panel->begin; block < panel->end; block++) {
        int8_t(*codes)[FEW_TOKENS][EW_BLOCK_COLS] = panel->codes[block - panel->begin];
        for (size_t i = 0; i < FEW_TOKENS; i += 2) {
            __m512i first = token_block(x, panel, i, block), second = token_block(x, panel, i + 1, block);
            _mm512_store_si512(codes[0][i], _mm512_shuffle_i64x2(first, second, LOW_HALVES));
            _mm512_store_si512(codes[1][i], _mm512_shuffle_i64x2(first, second, HIGH_HALVES));
        }
    }
}

LANES_INLINE void fill_sums(const ew_activations *x, amx_panel *panel) {
    for (size_t i = 0; i < FEW_TOKENS; i++) {
        const int32_t *sums = x->sums + (panel->first + i) * x->n_blocks;
        for (size_t block = panel->begin; block < panel->end; block++) {
            panel->sums[block - panel->begin][i] = i < panel->count ? (float)sums[block] : 0.0f;
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
    const ew_activations *x;
    const amx_panel *panel;
    few_buffers *buffers;
} few_work;

/* What a step does. Blocks go through four stages, a step each: their weights are unpacked; multiplied; the sums stored;
 * and added up. So the step of block b multiplies b - 1, stores b - 2 and adds b - 3. */
typedef struct {
    bool unpack, multiply, store, add;
    bool odd; /* b, which says whose place is whose */
} few_stages;

enum { FEW_BEHIND = 3 }; /* from the first stage to the last */

LANES_INLINE few_stages few_stages_of(size_t block, size_t begin, size_t end) {
    return (few_stages){.unpack = block < end,
                        .multiply = block >= begin + 1 && block <= end,
                        .store = block >= begin + 2 && block <= end + 1,
                        .add = block >= begin + FEW_BEHIND,
                        .odd = block % 2 == 1};
}

/* Where the weights, factors and inputs of a step's block lie; those of earlier blocks are before them. */
typedef struct {
    const uint8_t *codes[FEW_TILES], *scales[FEW_TILES], *offsets[FEW_TILES];
    const int8_t (*inputs)[FEW_PLANES][FEW_TOKENS][EW_BLOCK_COLS];
    const float (*input_sums)[FEW_TOKENS];
} few_place;

enum { FEW_FACTOR_BYTES = EW_TILE_ROWS * sizeof(uint16_t) };

LANES_INLINE few_place first_place(const few_work *work, ew_matrix_format format) {
    const amx_panel *panel = work->panel;
    few_place place = {.inputs = panel->codes, .input_sums = panel->sums};
    for (int r = 0; r < work->n_tiles; r++) {
        const tile_view *tile = &work->tiles[r];
        place.codes[r] = tile->codes + panel->begin * block_bytes_of(format);
        place.scales[r] = tile->scales + panel->begin * FEW_FACTOR_BYTES;
        place.offsets[r] = format == EW_MATRIX_INT4_OFFSET ? tile->offsets + panel->begin * FEW_FACTOR_BYTES : NULL;
    }
    return place;
}

LANES_INLINE void few_advance(few_place *place, int n_tiles, ew_matrix_format format) {
    place->inputs++;
    place->input_sums++;
    for (int r = 0; r < n_tiles; r++) {
        place->codes[r] += block_bytes_of(format);
        place->scales[r] += FEW_FACTOR_BYTES;
        if (format == EW_MATRIX_INT4_OFFSET) {
            place->offsets[r] += FEW_FACTOR_BYTES;
        }
    }
}

/* sum[token] grows by the block of one tile that is FEW_BEHIND before the place (docs/arithmetic.md, "Linear layers"). */
LANES_INLINE void few_add(const few_place *place, int r, int32_t (*in)[16], matmul_shape shape, f32x16 *sum) {
    f32x16 scale = group_factor(place->scales[r] - FEW_BEHIND * FEW_FACTOR_BYTES, false, 0);
    i32x16 factor = ints_set(256);
    __asm__("" : "+v"(factor)); /* else gcc makes it anew in every step */
    for (size_t i = 0; i < FEW_TOKENS; i++) {
        i32x16 dots = join_planes(ints_load(in[i]), ints_load(in[FEW_TOKENS + i]), factor, shape.format);
        sum[i] = lanes_fma(scale, ints_to_lanes(dots), sum[i]);
    }
    if (shape.format == EW_MATRIX_INT4_OFFSET) {
        f32x16 offset = group_factor(place->offsets[r] - FEW_BEHIND * FEW_FACTOR_BYTES, false, 0);
        for (size_t i = 0; i < FEW_TOKENS; i++) {
            sum[i] = lanes_fma_at(&place->input_sums[-FEW_BEHIND][i], offset, sum[i]);
        }
    }
}

/* Tile registers from and to somewhere in the buffers. The intrinsics want an address, which costs more instructions. */
#define FEW_LOAD(number, member)                                                                                       \
    __asm__ volatile("tileloadd %c1(%0,%2,1), %%tmm%c3" ::"r"(work->buffers), "i"(offsetof(few_buffers, member)),      \
                     "r"((long)64), "i"(number)                                                                        \
                     : "memory")
#define FEW_STORE(number, member)                                                                                      \
    __asm__ volatile("tilestored %%tmm%c3, %c1(%0,%2,1)" ::"r"(work->buffers), "i"(offsetof(few_buffers, member)),     \
                     "r"((long)64), "i"(number)                                                                        \
                     : "memory")

#define STEP(r_, odd_, new_sums_, old_sums_)                                                                           \
    do {                                                                                                               \
        if (stages.unpack) {                                                                                           \
            prefetch_lines((uintptr_t)place->codes[r_] + ahead, block_bytes_of(shape.format));                         \
            if (shape.format != EW_MATRIX_INT8) {                                                                      \
                unpack_codes(place->codes[r_], shape.format, work->buffers->weights[odd_].block[r_]);                  \
            }                                                                                                          \
        }                                                                                                              \
        if (stages.multiply) {                                                                                         \
            if (shape.format == EW_MATRIX_INT8) {                                                                      \
                _tile_loadd(WEIGHTS, place->codes[r_] - INT8_BLOCK_BYTES, 64);                                         \
            } else {                                                                                                   \
                FEW_LOAD(WEIGHTS, weights[1 - (odd_)].block[r_]);                                                      \
            }                                                                                                          \
            _tile_dpbssd(new_sums_, INPUTS, WEIGHTS);                                                                  \
            _tile_zero(WEIGHTS);                                                                                       \
        }                                                                                                              \
        if (stages.store) {                                                                                            \
            FEW_STORE(old_sums_, sums[odd_][r_]);                                                                      \
            _tile_zero(old_sums_);                                                                                     \
        }                                                                                                              \
        if (stages.add) {                                                                                              \
            few_add(place, r_, work->buffers->sums[1 - (odd_)][r_], shape, sum[r_]);                                   \
        }                                                                                                              \
    } while (0)
LANES_INLINE void few_step(const few_work *work, const few_place *place, size_t ahead, few_stages stages,
                           matmul_shape shape, f32x16 (*sum)[FEW_TOKENS]) {
    if (stages.multiply) {
        memory_is_read();
        _tile_loadd(INPUTS, place->inputs[-1], EW_BLOCK_COLS);
    }
    if (stages.odd) {
        STEP(0, 1, EVEN_FIRST, ODD_FIRST);
        if (work->n_tiles > 1) {
            STEP(1, 1, EVEN_SECOND, ODD_SECOND);
        }
    } else {
        STEP(0, 0, ODD_FIRST, EVEN_FIRST);
        if (work->n_tiles > 1) {
            STEP(1, 0, ODD_SECOND, EVEN_SECOND);
        }
    }
    _tile_zero(INPUTS);
}
#undef STEP
#undef FEW_STORE
#undef FEW_LOAD

/* All steps of the panel's blocks. Those where everything happens go in pairs, so that nothing in them has to be asked.
 * Near the end of the tiles the next ones are asked for; the address may lie beyond the matrix, where a prefetch does
 * nothing. */
LANES_INLINE void few_sum(const few_work *work, matmul_shape shape, f32x16 (*sum)[FEW_TOKENS]) {
    size_t begin = work->panel->begin, end = work->panel->end, n_blocks = work->tiles[0].n_blocks;
    size_t bytes = block_bytes_of(shape.format), near = FEW_PREFETCH_BLOCKS * bytes;
    size_t far = near + (size_t)(work->n_tiles - 1) * n_blocks * bytes;
    few_place place = first_place(work, shape.format);
    for (size_t block = begin; block < end + FEW_BEHIND;) {
        size_t ahead = block + FEW_PREFETCH_BLOCKS < n_blocks ? near : far;
        if (block % 2 == 0 && block >= begin + FEW_BEHIND && block + 1 < end) {
            few_step(work, &place, ahead, (few_stages){true, true, true, true, .odd = false}, shape, sum);
            few_advance(&place, work->n_tiles, shape.format);
            few_step(work, &place, ahead, (few_stages){true, true, true, true, .odd = true}, shape, sum);
            few_advance(&place, work->n_tiles, shape.format);
            block += 2;
        } else {
            few_step(work, &place, ahead, few_stages_of(block, begin, end), shape, sum);
            few_advance(&place, work->n_tiles, shape.format);
            block++;
        }
    }
}

/* Sums between the spans of a long row, and before they are written. */
typedef float few_sums[FEW_TILES][FEW_TOKENS][LANES];

/* The outputs' lines may be another core's: stores that wait for them would hold up the next tiles' stores. */
LANES_INLINE void ask_for_outputs(const few_work *work, const float *y, size_t y_stride) {
    for (size_t i = 0; i < work->panel->count; i++) {
        for (int r = 0; r < work->n_tiles; r++) {
            __builtin_prefetch(y + (work->panel->first + i) * y_stride + (size_t)r * LANES, 1, 3);
        }
    }
}

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
    few_sums carried;
    f32x16 sum[FEW_TILES][FEW_TOKENS];
    ask_for_outputs(work, y, y_stride);
    few_begin(work, y, y_stride, n_rows, carried);
    for (int r = 0; r < work->n_tiles; r++) {
        for (size_t i = 0; i < FEW_TOKENS; i++) {
            sum[r][i] = lanes_load(carried[r][i]);
        }
    }
    few_sum(work, shape, sum);
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
            few_work work = {views, n_tiles, x, &panels[i], buffers};
            few_times_tiles(&work, shape, y + row, y_stride, w->rows - row);
        }
    }
    return begin;
}

LANES_INLINE void few_times_all(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,
                                matmul_shape shape, float *y, size_t y_stride) {
    amx_panel panels[FEW_PANELS];
    few_buffers stack_buffers, *buffers = &stack_buffers;
    __asm__("" : "+r"(buffers)); /* else gcc finds the address of each member anew, or in a vector register */
    for (size_t begin = 0; begin < x->n_blocks; begin += SEGMENT_BLOCKS) {
        size_t end = x->n_blocks - begin < SEGMENT_BLOCKS ? x->n_blocks : begin + SEGMENT_BLOCKS, n_panels = 0;
        for (size_t first = 0; first < x->n_tokens; first += FEW_TOKENS) {
            amx_panel *panel = &panels[n_panels++];
            panel->first = first;
            panel->count = x->n_tokens - first < FEW_TOKENS ? x->n_tokens - first : FEW_TOKENS;
            panel->begin = begin;
            panel->end = end;
            fill_codes(x, panel);
            if (shape.format == EW_MATRIX_INT4_OFFSET) {
                fill_sums(x, panel);
            }
        }
        size_t tile =
            few_times_range(w, tile_begin, tile_end, x, FEW_TILES, shape, panels, n_panels, buffers, y, y_stride);
        few_times_range(w, tile, tile_end, x, 1, shape, panels, n_panels, buffers, y, y_stride);
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
