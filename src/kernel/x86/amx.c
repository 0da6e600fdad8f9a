/* AMX-INT8: AVX-512 with VNNI for everything, and matrix products of several tokens in tile registers, 16 tokens by 32
 * inputs by 16 rows an instruction. The sums are integers, so they are the same ones.
 *
 * A tile of weights is unpacked once into signed bytes, [block][8 vectors][16 rows][4], which is what TDPBSSD wants of
 * its second operand; the first is a block of 16 tokens just as it lies in ew_activations, read with its stride. What
 * costs is not the product but getting the sums out of the tile registers, scaled and added up: one store and load for
 * each plane, token, group and row. */
#include "kernel/tables.h"
#include "kernel/x86/lanes_avx512.h"

enum { LANES_TILES = 2, LANES_TOKENS = 4 };

#define LANES_TABLE ew_kernels_amx
#define LANES_NAME "amx"
#define LANES_MATMUL amx_matmul
static void amx_matmul(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                       size_t y_stride);
#include "kernel/lanes/table.h"
#include "kernel/x86/amx_few.h"
#include "kernel/x86/amx_tiles.h"

enum {
    AMX_BATCH = 128, /* tokens for which a tile of weights is unpacked once */
    AMX_MANY = 32    /* from here on whole groups of 16 tokens need no panels */
};

/* What one scale covers: a block, several, or the whole row. */
typedef enum { GROUP_BLOCK, GROUP_BLOCKS, GROUP_ROW } group_kind;

/* Tokens that go through together, groups of 16. Loads that agree in their last 12 address bits with a store before them
 * wait for it: so unpacked blocks agree with the sums that are read, not with those that are stored meanwhile. */
typedef struct {
    size_t first, count;
    _Alignas(4096) amx_sums sums[2][2];                        /* of even and odd blocks, of the planes */
    _Alignas(4096) int8_t weights[SEGMENT_BLOCKS * AMX_BLOCK]; /* at unpacked_at */
    f32x16 carried[AMX_BATCH];                                 /* sums after the last span */
    float offset_inputs[AMX_TOKENS][SEGMENT_BLOCKS];
} amx_batch;

/* Where block `index` of a span lies when it is unpacked: even ones in the first half of 4 KB, odd ones in the second. */
LANES_INLINE size_t unpacked_at(size_t index) {
    enum { PAGE = 4096, PAGE_BLOCKS = PAGE / AMX_BLOCK };
    return index / PAGE_BLOCKS * PAGE + index % 2 * (PAGE / 2) + index % PAGE_BLOCKS / 2 * AMX_BLOCK;
}

/* What is the same for all groups of tokens of a batch. */
typedef struct {
    tile_view tile;
    const int8_t *weights; /* blocks begin .. end - 1, of INT8 as they lie in the matrix, else unpacked */
    size_t begin, end;
    const ew_activations *x;
    amx_sums (*sums)[2];                    /* the batch's */
    float (*offset_inputs)[SEGMENT_BLOCKS]; /* t of each token and group of the span, for offsets */
} amx_span;

LANES_INLINE const int8_t *weights_of(const amx_span *span, size_t block, ew_matrix_format format) {
    size_t index = block - span->begin;
    return span->weights + (format == EW_MATRIX_INT8 ? index * AMX_BLOCK : unpacked_at(index));
}

/* t of one token's groups, of one block each. */
LANES_INLINE void find_block_offset_inputs(const int32_t *sums, const float *scales, size_t n, float *out) {
    for (size_t i = 0; !scales && i < n; i++) {
        out[i] = (float)sums[i];
    }
    for (size_t i = 0; scales && i < n; i++) {
        out[i] = scales[i] * (float)sums[i] + 0.0f;
    }
}

/* t of one token's groups, of `step` blocks each. */
static void find_group_offset_inputs(const int32_t *sums, const float *scales, size_t n, size_t step, float *out) {
    for (size_t begin = 0, group = 0; begin < n; begin += step, group++) {
        size_t end = n - begin < step ? n : begin + step;
        int32_t total = 0;
        float t = 0.0f;
        for (size_t block = begin; block < end; block++) {
            total += sums[block];
            t = scales ? fmaf(scales[block], (float)sums[block], t) : t;
        }
        out[group] = scales ? t : (float)total;
    }
}

/* t of the groups in the span for 16 tokens (docs/arithmetic.md, "Linear layers"). */
static void find_offset_inputs(const amx_span *span, size_t token) {
    const ew_activations *x = span->x;
    size_t n = span->end - span->begin, step = span->tile.group_blocks;
    for (size_t i = 0; i < AMX_TOKENS; i++) {
        size_t at = (token + i) * x->n_blocks + span->begin;
        const float *scales = x->type == EW_ACTIVATION_INT8 ? x->scales + at : NULL;
        if (step == 1) {
            find_block_offset_inputs(x->sums + at, scales, n, span->offset_inputs[i]);
        } else {
            find_group_offset_inputs(x->sums + at, scales, n, step, span->offset_inputs[i]);
        }
    }
}

/* Sums of all planes over blocks begin .. end - 1 into out[plane]. */
LANES_INLINE void sum_blocks(const amx_span *span, size_t token, size_t begin, size_t end, matmul_shape shape,
                             amx_sums *out) {
    bool wide = shape.type == EW_ACTIVATION_INT16;
    size_t bytes = wide ? 64 : 32; /* of a token's block */
    long stride = (long)(span->x->n_blocks * bytes);
    memory_is_read();
    for (size_t block = begin; block < end; block++) {
        const int8_t *codes = span->x->codes + (token * span->x->n_blocks + block) * bytes;
        _tile_loadd(WEIGHTS, weights_of(span, block, shape.format), 64);
        MULTIPLY_INPUTS(EVEN_FIRST, codes, stride);
        if (wide) {
            MULTIPLY_INPUTS(EVEN_SECOND, codes + 32, stride);
        }
        _tile_zero(WEIGHTS);
    }
    STORE_SUMS(EVEN_FIRST, out[0]);
    if (wide) {
        STORE_SUMS(EVEN_SECOND, out[1]);
    }
}

/* sum[i] grows by the groups of the span. A row of one group keeps p in sum[i] until its end. */
LANES_INLINE void add_span(const amx_span *span, size_t token, matmul_shape shape, group_kind groups, f32x16 *sum) {
    amx_sums(*sums)[2] = span->sums;
    size_t step = span->tile.group_blocks;
    const float *scales = span->x->scales + token * span->x->n_blocks;
    for (size_t begin = span->begin, group = 0; begin < span->end; group++) {
        size_t end = span->end - begin < step ? span->end : begin + step;
        amx_sums *out = sums[group & 1];
        f32x16 p[AMX_TOKENS];
        if (shape.type == EW_ACTIVATION_INT16) {
            sum_blocks(span, token, begin, end, shape, out);
            for (size_t i = 0; i < AMX_TOKENS; i++) {
                p[i] = ints_to_lanes(ints_add(ints_times_256(ints_load(out[0][i])), ints_load(out[1][i])));
                p[i] = groups == GROUP_ROW ? lanes_add(sum[i], p[i]) : p[i];
            }
        } else {
            for (size_t i = 0; i < AMX_TOKENS; i++) {
                p[i] = groups == GROUP_ROW ? sum[i] : lanes_zero();
            }
            for (size_t block = begin; block < end; block++) {
                sum_blocks(span, token, block, block + 1, shape, sums[block & 1]);
                for (size_t i = 0; i < AMX_TOKENS; i++) {
                    f32x16 scale = lanes_set(scales[i * span->x->n_blocks + block]);
                    p[i] = lanes_fma(scale, ints_to_lanes(ints_load(sums[block & 1][0][i])), p[i]);
                }
            }
        }
        if (groups == GROUP_ROW) {
            for (size_t i = 0; i < AMX_TOKENS; i++) {
                sum[i] = p[i];
            }
        } else {
            f32x16 factor = group_factor(span->tile.scales, false, begin / span->tile.group_blocks);
            for (size_t i = 0; i < AMX_TOKENS; i++) {
                sum[i] = lanes_fma(factor, p[i], sum[i]);
            }
            if (shape.format == EW_MATRIX_INT4_OFFSET) {
                f32x16 offset = group_factor(span->tile.offsets, false, begin / span->tile.group_blocks);
                for (size_t i = 0; i < AMX_TOKENS; i++) {
                    sum[i] = lanes_fma(offset, lanes_set(span->offset_inputs[i][group]), sum[i]);
                }
            }
        }
        begin = end;
    }
}

/* One group of one block from its stored sums. */
LANES_INLINE void add_sums(const amx_span *span, size_t token, size_t block, matmul_shape shape, amx_sums *in,
                           f32x16 *sum) {
    f32x16 scale = group_factor(span->tile.scales, false, block);
    for (size_t i = 0; i < AMX_TOKENS; i++) {
        i32x16 dots = ints_load(in[0][i]);
        if (shape.type == EW_ACTIVATION_INT16) {
            dots = join_planes(dots, ints_load(in[1][i]), ints_set(256), shape.format);
        }
        f32x16 p = ints_to_lanes(dots);
        if (shape.type == EW_ACTIVATION_INT8) {
            p = lanes_fma(lanes_set(span->x->scales[(token + i) * span->x->n_blocks + block]), p, lanes_zero());
        }
        sum[i] = lanes_fma(scale, p, sum[i]);
    }
    if (shape.format == EW_MATRIX_INT4_OFFSET) {
        f32x16 offset = group_factor(span->tile.offsets, false, block);
        for (size_t i = 0; i < AMX_TOKENS; i++) {
            sum[i] = lanes_fma(offset, lanes_set(span->offset_inputs[i][block - span->begin]), sum[i]);
        }
    }
}

/* What happens in a step of groups of 32. Blocks go through three stages, a step each: they are multiplied, their sums
 * stored, and added up. So the step of block b stores b - 1 and adds b - 2. */
typedef struct {
    bool multiply, store, add;
    bool odd; /* b, which says whose tile registers and whose buffer are whose */
} span_stages;

LANES_INLINE span_stages span_stages_of(size_t block, size_t begin, size_t end) {
    return (span_stages){.multiply = block < end,
                         .store = block >= begin + 1 && block <= end,
                         .add = block >= begin + 2,
                         .odd = block % 2 == 1};
}

#define STEP(new_first, new_second, old_first, old_second)                                                             \
    do {                                                                                                               \
        if (stages.multiply) {                                                                                         \
            _tile_loadd(WEIGHTS, weights, 64);                                                                         \
            MULTIPLY_INPUTS(new_first, codes, stride);                                                                 \
        }                                                                                                              \
        if (stages.store) {                                                                                            \
            STORE_SUMS(old_first, sums[!stages.odd][0]);                                                               \
        }                                                                                                              \
        if (stages.multiply && wide) {                                                                                 \
            MULTIPLY_INPUTS(new_second, codes + 32, stride);                                                           \
        }                                                                                                              \
        if (stages.store && wide) {                                                                                    \
            STORE_SUMS(old_second, sums[!stages.odd][1]);                                                              \
        }                                                                                                              \
    } while (0)
LANES_INLINE void span_step(const amx_span *span, size_t token, size_t block, span_stages stages, matmul_shape shape,
                            f32x16 *sum) {
    amx_sums(*sums)[2] = span->sums;
    bool wide = shape.type == EW_ACTIVATION_INT16;
    size_t bytes = wide ? 64 : 32;
    long stride = (long)(span->x->n_blocks * bytes);
    const int8_t *weights = weights_of(span, block, shape.format);
    const int8_t *codes = span->x->codes + (token * span->x->n_blocks + block) * bytes;
    memory_is_read();
    if (stages.odd) {
        STEP(ODD_FIRST, ODD_SECOND, EVEN_FIRST, EVEN_SECOND);
    } else {
        STEP(EVEN_FIRST, EVEN_SECOND, ODD_FIRST, ODD_SECOND);
    }
    _tile_zero(WEIGHTS);
    if (stages.add) {
        add_sums(span, token, block - 2, shape, sums[stages.odd], sum);
    }
}
#undef STEP

/* add_span for groups of 32: while the tile unit works on one block, the vector units add up another. The first tokens
 * of a batch also ask for the next tile's weights. */
LANES_INLINE void add_span32(const amx_span *span, size_t token, bool fetch, matmul_shape shape, f32x16 *sum) {
    size_t begin = span->begin, end = span->end;
    for (size_t block = begin; block < end + 2;) {
        if (fetch && block < end) {
            prefetch_block(&span->tile, 1, block, span->tile.n_blocks, block_bytes_of(shape.format));
        }
        if (block % 2 == 0 && block >= begin + 2 && block + 1 < end) {
            if (fetch) {
                prefetch_block(&span->tile, 1, block + 1, span->tile.n_blocks, block_bytes_of(shape.format));
            }
            span_step(span, token, block, (span_stages){true, true, true, .odd = false}, shape, sum);
            span_step(span, token, block + 1, (span_stages){true, true, true, .odd = true}, shape, sum);
            block += 2;
        } else {
            span_step(span, token, block, span_stages_of(block, begin, end), shape, sum);
            block++;
        }
    }
}

/* t of a whole row, where it is one group. */
static float row_offset_input(const ew_activations *x, size_t token) {
    const int32_t *sums = x->sums + token * x->n_blocks;
    float t = 0.0f;
    for (size_t begin = 0; begin < x->n_blocks; begin += SEGMENT_BLOCKS) {
        int32_t total = 0;
        for (size_t block = begin; block < x->n_blocks && block < begin + SEGMENT_BLOCKS; block++) {
            total += sums[block];
            if (x->type == EW_ACTIVATION_INT8) {
                t = fmaf(x->scales[token * x->n_blocks + block], (float)sums[block], t);
            }
        }
        t = x->type == EW_ACTIVATION_INT16 ? t + (float)total : t;
    }
    return t;
}

/* y of one token and tile from its sum. */
LANES_INLINE void write_result(const amx_span *span, size_t token, matmul_shape shape, group_kind groups, f32x16 sum,
                               float *y, size_t n_rows) {
    if (groups == GROUP_ROW) {
        sum = lanes_fma(group_factor(span->tile.scales, true, 0), sum, lanes_zero());
        if (shape.format == EW_MATRIX_INT4_OFFSET) {
            f32x16 t = lanes_set(row_offset_input(span->x, token));
            sum = lanes_fma(group_factor(span->tile.offsets, true, 0), t, sum);
        }
    }
    sum = shape.type == EW_ACTIVATION_INT16 ? lanes_mul(sum, lanes_set(span->x->scales[token])) : sum;
    lanes_store_first(y, sum, n_rows);
}

/* One span of one tile for every group of tokens in the batch. Sums stay in registers only if every loop over them is
 * short enough to be unrolled: hence the detour over memory before they are written. */
LANES_INLINE void multiply_span(amx_batch *batch, amx_span *span, matmul_shape shape, group_kind groups, float *y,
                                size_t y_stride, size_t n_rows) {
    bool last = span->end == span->x->n_blocks;
    for (size_t at = 0; at < batch->count; at += AMX_TOKENS) {
        f32x16 sum[AMX_TOKENS];
        for (size_t i = 0; i < AMX_TOKENS; i++) {
            sum[i] = span->begin == 0 ? lanes_zero() : batch->carried[at + i];
        }
        if (shape.format == EW_MATRIX_INT4_OFFSET && groups != GROUP_ROW) {
            find_offset_inputs(span, batch->first + at);
        }
        if (groups == GROUP_BLOCK) {
            add_span32(span, batch->first + at, at == 0, shape, sum);
        } else {
            add_span(span, batch->first + at, shape, groups, sum);
        }
        for (size_t i = 0; i < AMX_TOKENS; i++) {
            batch->carried[at + i] = sum[i];
        }
        for (size_t i = 0; last && i < AMX_TOKENS; i++) {
            size_t token = batch->first + at + i;
            write_result(span, token, shape, groups, batch->carried[at + i], y + token * y_stride, n_rows);
        }
    }
}

LANES_INLINE void multiply_batch(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,
                                 amx_batch *batch, matmul_shape shape, group_kind groups, float *y, size_t y_stride) {
    for (size_t tile = tile_begin; tile < tile_end; tile++) {
        amx_span span = {.tile = tile_at(w, tile), .x = x, .sums = batch->sums, .offset_inputs = batch->offset_inputs};
        size_t row = tile * EW_TILE_ROWS;
        size_t step = shape.format == EW_MATRIX_INT8 && groups == GROUP_ROW ? SEGMENT_BLOCKS_INT8 : SEGMENT_BLOCKS;
        for (size_t begin = 0; begin < x->n_blocks; begin += step) {
            span.begin = begin;
            span.end = x->n_blocks - begin < step ? x->n_blocks : begin + step;
            if (shape.format == EW_MATRIX_INT8) {
                span.weights = (const int8_t *)span.tile.codes + begin * AMX_BLOCK;
            } else {
                for (size_t block = begin; block < span.end; block++) {
                    unpack_codes(span.tile.codes + block * INT4_BLOCK_BYTES, shape.format,
                                 batch->weights + unpacked_at(block - begin));
                }
                span.weights = batch->weights;
            }
            memory_is_read();
            multiply_span(batch, &span, shape, groups, y + row, y_stride, lanes_left(w->rows, row));
        }
    }
}

/* A program for each combination of format and activations. */
#define AMX_PROGRAM(name, format_, type_)                                                                              \
    static void name(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,                  \
                     amx_batch *batch, float *y, size_t y_stride) {                                                    \
        matmul_shape shape = {.format = format_, .type = type_};                                                       \
        if (w->group == EW_BLOCK_COLS) {                                                                               \
            multiply_batch(w, tile_begin, tile_end, x, batch, shape, GROUP_BLOCK, y, y_stride);                        \
        } else if (w->group == 0) {                                                                                    \
            multiply_batch(w, tile_begin, tile_end, x, batch, shape, GROUP_ROW, y, y_stride);                          \
        } else {                                                                                                       \
            multiply_batch(w, tile_begin, tile_end, x, batch, shape, GROUP_BLOCKS, y, y_stride);                       \
        }                                                                                                              \
    }
AMX_PROGRAM(amx_symmetric_int16, EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT16)
AMX_PROGRAM(amx_symmetric_int8, EW_MATRIX_INT4_SYMMETRIC, EW_ACTIVATION_INT8)
AMX_PROGRAM(amx_offset_int16, EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT16)
AMX_PROGRAM(amx_offset_int8, EW_MATRIX_INT4_OFFSET, EW_ACTIVATION_INT8)
AMX_PROGRAM(amx_int8_int16, EW_MATRIX_INT8, EW_ACTIVATION_INT16)
AMX_PROGRAM(amx_int8_int8, EW_MATRIX_INT8, EW_ACTIVATION_INT8)
#undef AMX_PROGRAM

typedef void amx_program(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,
                         amx_batch *batch, float *y, size_t y_stride);

static amx_program *find_program(ew_matrix_format format, ew_activation_type type) {
    bool wide = type == EW_ACTIVATION_INT16;
    if (format == EW_MATRIX_INT8) {
        return wide ? amx_int8_int16 : amx_int8_int8;
    }
    if (format == EW_MATRIX_INT4_OFFSET) {
        return wide ? amx_offset_int16 : amx_offset_int8;
    }
    return wide ? amx_symmetric_int16 : amx_symmetric_int8;
}

static void many_matmul(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x,
                        size_t n_tokens, float *y, size_t y_stride) {
    amx_program *program = find_program(w->format, x->type);
    amx_batch batch;
    for (batch.first = 0; batch.first < n_tokens; batch.first += batch.count) {
        batch.count = n_tokens - batch.first < AMX_BATCH ? n_tokens - batch.first : AMX_BATCH;
        program(w, tile_begin, tile_end, x, &batch, y, y_stride);
    }
}

/* With groups of 32, whether n tokens fill panels of 8 so well that VNNI is not as fast: at least three quarters. */
static bool few_pay(const ew_matrix *w, ew_activation_type type, size_t n) {
    size_t rows = (n + FEW_TOKENS - 1) / FEW_TOKENS * FEW_TOKENS;
    return w->group == EW_BLOCK_COLS && type == EW_ACTIVATION_INT16 && n > 0 && (rows - n) * 4 <= rows;
}

/* Many tokens in groups of 16 as they lie, what is left over in panels or with VNNI. */
static void amx_matmul(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                       size_t y_stride) {
    size_t whole = x->n_tokens < AMX_MANY ? 0 : x->n_tokens / AMX_TOKENS * AMX_TOKENS;
    ew_activations rest = ew_activations_rows(x, whole, x->n_tokens - whole);
    bool few = few_pay(w, x->type, rest.n_tokens);
    if (whole > 0 || few) {
        configure_tiles();
    }
    if (whole > 0) {
        many_matmul(w, tile_begin, tile_end, x, whole, y, y_stride);
    }
    if (few) {
        few_matmul(w, tile_begin, tile_end, &rest, y + whole * y_stride, y_stride);
    }
    if (whole > 0 || few) {
        _tile_release();
    }
    if (rest.n_tokens > 0 && !few) {
        matmul(w, tile_begin, tile_end, &rest, y + whole * y_stride, y_stride);
    }
}
