/* Products of 8 to 31 tokens with groups of 32 in tile registers. Storing a tile register costs 16 cycles however few
 * of its rows are used, so both planes of 8 tokens (or one plane of 16) share one: their blocks are first copied into
 * panels of 16 rows. Weights stream from memory here, so blocks are unpacked shortly before their products.
 *
 * What a vector has stored a tile register cannot read before it is in the cache, nor the other way round. So the work
 * goes in runs of four blocks: unpack the next run, multiply this one, add up the one before. */
#ifndef EW_KERNEL_AMX_FEW_H
#define EW_KERNEL_AMX_FEW_H

#include "kernel/x86/amx_tiles.h"

enum { FEW_PANELS = 4, FEW_TOKENS = 8, RUN_BLOCKS = 4, FEW_PREFETCH_BLOCKS = 64 };

/* Tokens first .. first + count - 1, blocks begin .. end - 1. INT16: rows 0 to 7 are hi planes, 8 to 15 lo planes. */
typedef struct {
    size_t first, count, begin, end;
    _Alignas(64) int8_t rows[SEGMENT_BLOCKS][AMX_TOKENS][EW_BLOCK_COLS];
} amx_panel;

static void fill_panel(const ew_activations *x, size_t first, size_t count, size_t begin, size_t end,
                       amx_panel *panel) {
    bool wide = x->type == EW_ACTIVATION_INT16;
    panel->first = first;
    panel->count = count;
    panel->begin = begin;
    panel->end = end;
    for (size_t block = begin; block < end; block++) {
        int8_t(*rows)[EW_BLOCK_COLS] = panel->rows[block - begin];
        for (size_t i = 0; i < AMX_TOKENS; i++) {
            size_t token = wide ? i % FEW_TOKENS : i;
            const int8_t *codes = x->codes + ((first + token) * x->n_blocks + block) * (wide ? 64 : 32);
            __m256i plane = _mm256_setzero_si256();
            if (token < count) {
                plane = _mm256_loadu_si256((const __m256i *)(codes + (i >= FEW_TOKENS && wide ? 32 : 0)));
            }
            _mm256_store_si256((__m256i *)rows[i], plane);
        }
    }
}

/* One block's product into out, by one of two sets of tile registers. */
LANES_INLINE void multiply_panel(const int8_t *weights, const amx_panel *panel, size_t block, bool odd, amx_sums out) {
    memory_is_read();
    if (odd) {
        _tile_zero(NEXT_LO);
        _tile_loadd(NEXT_WEIGHTS, weights, 64);
        _tile_loadd(INPUTS_HI, panel->rows[block - panel->begin], EW_BLOCK_COLS);
        _tile_dpbssd(NEXT_LO, INPUTS_HI, NEXT_WEIGHTS);
        _tile_stored(NEXT_LO, out, 64);
    } else {
        _tile_zero(SUMS_LO);
        _tile_loadd(WEIGHTS, weights, 64);
        _tile_loadd(INPUTS_LO, panel->rows[block - panel->begin], EW_BLOCK_COLS);
        _tile_dpbssd(SUMS_LO, INPUTS_LO, WEIGHTS);
        _tile_stored(SUMS_LO, out, 64);
    }
}

/* The sums of n_sums tokens (a constant, at least the panel's) grow by one block. Tokens that the panel lacks repeat
 * its last one and go nowhere. */
LANES_INLINE void add_panel(const tile_view *tile, const ew_activations *x, const amx_panel *panel, size_t block,
                            matmul_shape shape, size_t n_sums, amx_sums in, f32x16 *sum) {
    f32x16 scale = group_factor(tile->scales, false, block);
    f32x16 offset = shape.format == EW_MATRIX_INT4_OFFSET ? group_factor(tile->offsets, false, block) : scale;
    for (size_t i = 0; i < n_sums; i++) {
        i32x16 dots = ints_load(in[i]);
        if (shape.type == EW_ACTIVATION_INT16) {
            dots = ints_add(ints_times_256(dots), ints_load(in[FEW_TOKENS + i]));
        }
        size_t token = panel->first + (i < panel->count ? i : panel->count - 1);
        sum[i] = add_block(sum[i], dots, scale, offset, x, token * x->n_blocks + block, shape);
    }
}

/* Two runs of unpacked blocks and of sums; block b has the places b % 8. */
typedef struct {
    _Alignas(64) int8_t unpacked[2 * RUN_BLOCKS][AMX_BLOCK];
    _Alignas(64) amx_sums sums[2 * RUN_BLOCKS];
} few_buffers;

LANES_INLINE void unpack_run(const tile_view *tile, size_t begin, size_t end, bool fetch, matmul_shape shape,
                             few_buffers *buffers) {
    for (size_t block = begin; block < end; block++) {
        if (fetch) {
            prefetch_block(tile, 1, block, FEW_PREFETCH_BLOCKS, block_bytes_of(shape.format));
        }
        if (shape.format != EW_MATRIX_INT8) {
            unpack_signed(tile, block, block + 1, shape.format, buffers->unpacked[block % (2 * RUN_BLOCKS)]);
        }
    }
}

LANES_INLINE void multiply_run(const tile_view *tile, const amx_panel *panel, size_t begin, size_t end,
                               matmul_shape shape, few_buffers *buffers) {
    for (size_t block = begin; block < end; block++) {
        size_t place = block % (2 * RUN_BLOCKS);
        const int8_t *weights = buffers->unpacked[place];
        if (shape.format == EW_MATRIX_INT8) {
            weights = (const int8_t *)tile->codes + block * AMX_BLOCK;
        }
        multiply_panel(weights, panel, block, block & 1, buffers->sums[place]);
    }
}

LANES_INLINE void few_times_tile(const tile_view *tile, const ew_activations *x, const amx_panel *panel, bool fetch,
                                 matmul_shape shape, size_t n_sums, float *y, size_t y_stride, size_t n_rows) {
    few_buffers buffers;
    f32x16 sum[AMX_TOKENS];
    for (size_t i = 0; i < n_sums; i++) { /* between the spans of a long row y holds the sums */
        bool fresh = panel->begin == 0 || i >= panel->count;
        sum[i] = fresh ? lanes_zero() : lanes_load_first(y + (panel->first + i) * y_stride, n_rows);
    }
    size_t unpacked = panel->begin, multiplied = panel->begin, added = panel->begin, end = panel->end;
    while (added < end) {
        size_t next = end - unpacked < RUN_BLOCKS ? end : unpacked + RUN_BLOCKS;
        unpack_run(tile, unpacked, next, fetch, shape, &buffers);
        multiply_run(tile, panel, multiplied, unpacked, shape, &buffers);
        for (; added < multiplied; added++) {
            add_panel(tile, x, panel, added, shape, n_sums, buffers.sums[added % (2 * RUN_BLOCKS)], sum);
        }
        multiplied = unpacked;
        unpacked = next;
    }
    for (size_t i = 0; i < n_sums && i < panel->count; i++) {
        float *out = y + (panel->first + i) * y_stride;
        if (end == x->n_blocks) {
            write_rows(x, panel->first + i, shape, sum[i], out, n_rows);
        } else {
            lanes_store_first(out, sum[i], n_rows);
        }
    }
}

LANES_INLINE void few_times_tiles(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,
                                  matmul_shape shape, float *y, size_t y_stride) {
    amx_panel panels[FEW_PANELS];
    size_t most = shape.type == EW_ACTIVATION_INT16 ? FEW_TOKENS : AMX_TOKENS;
    for (size_t begin = 0; begin < x->n_blocks; begin += SEGMENT_BLOCKS) {
        size_t end = x->n_blocks - begin < SEGMENT_BLOCKS ? x->n_blocks : begin + SEGMENT_BLOCKS, n_panels = 0;
        for (size_t first = 0; first < x->n_tokens; first += most) {
            size_t count = x->n_tokens - first < most ? x->n_tokens - first : most;
            fill_panel(x, first, count, begin, end, &panels[n_panels++]);
        }
        for (size_t tile = tile_begin; tile < tile_end; tile++) {
            tile_view view = tile_at(w, tile);
            size_t row = tile * EW_TILE_ROWS, n_rows = lanes_left(w->rows, row);
            for (size_t i = 0; i < n_panels; i++) {
                if (panels[i].count > FEW_TOKENS) {
                    few_times_tile(&view, x, &panels[i], i == 0, shape, AMX_TOKENS, y + row, y_stride, n_rows);
                } else {
                    few_times_tile(&view, x, &panels[i], i == 0, shape, FEW_TOKENS, y + row, y_stride, n_rows);
                }
            }
        }
    }
}

static void few_matmul(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                       size_t y_stride) {
    matmul_shape shape = {.format = w->format, .type = x->type};
#define FEW(format_, type_)                                                                                            \
    if (w->format == format_ && x->type == type_) {                                                                    \
        shape = (matmul_shape){.format = format_, .type = type_};                                                      \
        few_times_tiles(w, tile_begin, tile_end, x, shape, y, y_stride);                                               \
    }
    FEW(EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT16)
    FEW(EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT8)
    FEW(EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT16)
    FEW(EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT8)
    FEW(EW_MATRIX_INT8, EW_ACTIVATION_INT16)
    FEW(EW_MATRIX_INT8, EW_ACTIVATION_INT8)
#undef FEW
}

#endif
