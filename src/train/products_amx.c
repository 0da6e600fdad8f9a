/* Products in tile registers, as GotoBLAS orders them: a block of B is packed for the second-level cache, then blocks of
 * A, and 32 x 32 values of C are summed in four tile registers over the block's inner dimension.
 *
 * A packed panel is 32 rows of A (or columns of B) by all inner values: for each 32 of these two pairs of tiles, the high
 * halves and the low ones. A tile has 16 lines of 16 pairs of BF16. A's lines are its rows, with pairs along the inner
 * dimension; B's lines are the inner pairs, with one pair for each column. */
#include "train/products.h"

#if defined(__x86_64__) && !defined(EW_TRAIN_DOUBLE)
#include "kernel/x86/tile_registers.h"

#include <immintrin.h>

enum {
    LINES = 16,               /* of a tile */
    DEPTH = 32,               /* inner values of a tile */
    PANEL = 2 * LINES,        /* rows of A or columns of B that are packed together */
    INNER_BLOCK = 768,        /* inner values that are packed at a time */
    ROW_BLOCK = 4 * PANEL,    /* rows of A */
    COLUMN_BLOCK = 8 * PANEL, /* columns of B */
};

typedef struct tile {
    uint32_t pairs[LINES][16];
} tile;

/* A panel's 32 inner values. */
typedef struct panel_step {
    struct {
        tile high, low;
    } half[2];
} panel_step;

typedef struct space {
    panel_step a[ROW_BLOCK / PANEL][INNER_BLOCK / DEPTH];
    panel_step b[COLUMN_BLOCK / PANEL][INNER_BLOCK / DEPTH];
    float sums[LINES][16];
} space;

size_t ew_tiles_space(void) {
    return sizeof(space);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static __mmask16 mask_of(size_t n) {
    return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* ---- Packing ---- */

static inline __m512 widened(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* 32 values as 32 of BF16 and the 32 that are left of them. */
static inline void split(__m512 first, __m512 second, __m512i *high, __m512i *low) {
    __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    __m512 rest_first = _mm512_sub_ps(first, widened(_mm512_castsi512_si256(rounded)));
    __m512 rest_second = _mm512_sub_ps(second, widened(_mm512_extracti64x4_epi64(rounded, 1)));
    *high = rounded;
    *low = (__m512i)_mm512_cvtne2ps_pbh(rest_second, rest_first);
}

/* Lines whose inner values lie side by side: n_lines of n_inner values, the rest 0. */
static inline void read_lines(const float *values, size_t stride, size_t n_lines, size_t n_inner, __m512i *high,
                              __m512i *low) {
    __mmask16 first = mask_of(n_inner), second = n_inner > 16 ? mask_of(n_inner - 16) : 0;
    for (size_t i = 0; i < LINES; i++) {
        if (i < n_lines) {
            const float *line = values + i * stride;
            split(_mm512_maskz_loadu_ps(first, line), _mm512_maskz_loadu_ps(second, line + 16), &high[i], &low[i]);
        } else {
            high[i] = low[i] = _mm512_setzero_si512();
        }
    }
}

/* Inner values from row to row: n_inner rows of n_columns values become lines of pairs, one for each column. */
static inline void read_pairs(const float *values, size_t stride, size_t n_columns, size_t n_inner, __m512i *high,
                              __m512i *low) {
    /* 0, 16, 1, 17, ... */
    const __m512i together =
        _mm512_add_epi32(_mm512_set1_epi32(0x00100000),
                         _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                            _mm512_set1_epi32(0x00010001)));
    __mmask16 columns = mask_of(n_columns);
    for (size_t i = 0; i < LINES; i++) {
        const float *row = values + 2 * i * stride;
        __m512 even = 2 * i < n_inner ? _mm512_maskz_loadu_ps(columns, row) : _mm512_setzero_ps();
        __m512 odd = 2 * i + 1 < n_inner ? _mm512_maskz_loadu_ps(columns, row + stride) : _mm512_setzero_ps();
        split(even, odd, &high[i], &low[i]);
        high[i] = _mm512_permutexvar_epi16(together, high[i]);
        low[i] = _mm512_permutexvar_epi16(together, low[i]);
    }
}

/* 16 x 16 values of 32 bits: pairs of rows, then fours, eights and all. */
static inline void transpose(__m512i *x) {
    __m512i y[16];
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        y[i] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
        y[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
        y[i + 8] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
        y[i + 12] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0x88);
        x[i + 4] = _mm512_shuffle_i32x4(y[i + 4], y[i + 12], 0x88);
        x[i + 8] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0xdd);
        x[i + 12] = _mm512_shuffle_i32x4(y[i + 4], y[i + 12], 0xdd);
    }
}

static inline void write_tile(const __m512i *lines, tile *out) {
    for (int i = 0; i < LINES; i++) {
        _mm512_store_si512(out->pairs[i], lines[i]);
    }
}

/* What is packed: a factor, seen as `n_lines` (rows of A, columns of B) by `n_inner`. */
typedef struct factor {
    const float *values;
    size_t stride;
    bool inner_rows; /* inner values go from row to row */
    bool pairs_down; /* tiles of B */
} factor;

static void pack_tiles(const factor *f, size_t line, size_t n_lines, size_t inner, size_t n_inner, tile *high,
                       tile *low) {
    __m512i upper[LINES], lower[LINES];
    if (f->inner_rows) {
        read_pairs(f->values + inner * f->stride + line, f->stride, n_lines, n_inner, upper, lower);
    } else {
        read_lines(f->values + line * f->stride + inner, f->stride, n_lines, n_inner, upper, lower);
    }
    if (f->inner_rows != f->pairs_down) {
        transpose(upper);
        transpose(lower);
    }
    write_tile(upper, high);
    write_tile(lower, low);
}

/* Lines line .. line + n_lines - 1 by inner .. inner + n_inner - 1 into panels of INNER_BLOCK / DEPTH steps. */
static void pack(const factor *f, size_t line, size_t n_lines, size_t inner, size_t n_inner,
                 panel_step (*panels)[INNER_BLOCK / DEPTH]) {
    for (size_t i = 0; i < n_lines; i += LINES) {
        for (size_t j = 0; j < n_inner; j += DEPTH) {
            panel_step *step = &panels[i / PANEL][j / DEPTH];
            size_t half = i / LINES % 2;
            pack_tiles(f, line + i, smaller(n_lines - i, LINES), inner + j, smaller(n_inner - j, DEPTH),
                       &step->half[half].high, &step->half[half].low);
        }
    }
}

/* ---- Sums ---- */

/* Eight whole tiles. */
static void configure(void) {
    tile_configuration configuration = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        configuration.column_bytes[i] = 64;
        configuration.rows[i] = LINES;
    }
    _tile_loadconfig(&configuration);
}

#define LOAD(number, source) _tile_loadd(number, &(source), 64)

/* Tiles 0 and 1 are C's upper rows, 2 and 3 its lower ones; halves that do not exist are left out. */
static inline __attribute__((always_inline)) void sum_steps(const panel_step *a, const panel_step *b, size_t n_steps,
                                                            bool lower, bool right) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    memory_is_read();
    for (size_t i = 0; i < n_steps; i++, a++, b++) {
        LOAD(4, a->half[0].low);
        LOAD(6, b->half[0].high);
        _tile_dpbf16ps(0, 4, 6);
        if (right) {
            LOAD(7, b->half[1].high);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (lower) {
            LOAD(5, a->half[1].low);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (lower && right) {
            _tile_dpbf16ps(3, 5, 7);
        }
        LOAD(4, a->half[0].high);
        _tile_dpbf16ps(0, 4, 6);
        if (right) {
            _tile_dpbf16ps(1, 4, 7);
        }
        if (lower) {
            LOAD(5, a->half[1].high);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (lower && right) {
            _tile_dpbf16ps(3, 5, 7);
        }
        LOAD(6, b->half[0].low);
        _tile_dpbf16ps(0, 4, 6);
        if (lower) {
            _tile_dpbf16ps(2, 5, 6);
        }
        if (right) {
            LOAD(7, b->half[1].low);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (lower && right) {
            _tile_dpbf16ps(3, 5, 7);
        }
    }
}

/* C's rows by columns = alpha sums + beta C. */
static void write_sums(float (*sums)[16], size_t rows, size_t columns, float alpha, float beta, float *c,
                       size_t stride) {
    __mmask16 mask = mask_of(columns);
    __m512 factor = _mm512_set1_ps(alpha), keep = _mm512_set1_ps(beta);
    for (size_t i = 0; i < rows; i++, c += stride) {
        __m512 value = _mm512_mul_ps(factor, _mm512_load_ps(sums[i]));
        if (beta != 0) {
            value = _mm512_fmadd_ps(keep, _mm512_maskz_loadu_ps(mask, c), value);
        }
        _mm512_mask_storeu_ps(c, mask, value);
    }
}

/* Where sums go: the corner of C and how much of it there is, at most PANEL each way. */
typedef struct corner {
    float *c;
    size_t stride, rows, columns;
    float alpha, beta;
} corner;

#define STORE(number, row, column)                                                                                     \
    do {                                                                                                               \
        _tile_stored(number, sums, 64);                                                                                \
        memory_is_read();                                                                                              \
        write_sums(sums, smaller(to->rows - (row), LINES), smaller(to->columns - (column), LINES), to->alpha,          \
                   to->beta, to->c + (row)*to->stride + (column), to->stride);                                         \
    } while (0)

static void multiply_panels(const panel_step *a, const panel_step *b, size_t n_steps, const corner *to,
                            float (*sums)[16]) {
    bool lower = to->rows > LINES, right = to->columns > LINES;
    if (lower && right) {
        sum_steps(a, b, n_steps, true, true);
    } else if (lower) {
        sum_steps(a, b, n_steps, true, false);
    } else if (right) {
        sum_steps(a, b, n_steps, false, true);
    } else {
        sum_steps(a, b, n_steps, false, false);
    }
    STORE(0, 0, 0);
    if (right) {
        STORE(1, 0, LINES);
    }
    if (lower) {
        STORE(2, LINES, 0);
    }
    if (lower && right) {
        STORE(3, LINES, LINES);
    }
}

/* Rows row .. of A, which are packed here, times the packed columns column .. of B. */
static void multiply_rows(space *s, const ew_product *p, size_t row, size_t column, size_t inner, size_t depth) {
    const factor a = {p->a.values, p->a.stride, p->a_transposed, false};
    size_t rows = smaller(p->m - row, ROW_BLOCK), columns = smaller(p->n - column, COLUMN_BLOCK);
    size_t n_steps = (depth + DEPTH - 1) / DEPTH;
    pack(&a, row, rows, inner, depth, s->a);
    for (size_t j = 0; j < columns; j += PANEL) {
        for (size_t i = 0; i < rows; i += PANEL) {
            const corner to = {.c = p->c + (row + i) * p->c_stride + column + j,
                               .stride = p->c_stride,
                               .rows = smaller(rows - i, PANEL),
                               .columns = smaller(columns - j, PANEL),
                               .alpha = p->alpha,
                               .beta = inner == 0 ? p->beta : 1};
            multiply_panels(s->a[i / PANEL], s->b[j / PANEL], n_steps, &to, s->sums);
        }
    }
}

/* Inner values of a block: blocks are about equal, for a short one costs as much of C as a long one. */
static size_t block_depth(size_t k) {
    size_t n_blocks = (k + INNER_BLOCK - 1) / INNER_BLOCK;
    return n_blocks > 1 ? ((k + n_blocks - 1) / n_blocks + DEPTH - 1) / DEPTH * DEPTH : INNER_BLOCK;
}

void ew_multiply_in_tiles(void *memory, const ew_product *p) {
    space *s = memory;
    const factor b = {p->b.values, p->b.stride, !p->b_transposed, true};
    size_t block = block_depth(p->k);
    configure();
    for (size_t column = 0; column < p->n; column += COLUMN_BLOCK) {
        for (size_t inner = 0; inner < p->k || inner == 0; inner += block) {
            size_t depth = smaller(p->k - inner, block);
            pack(&b, column, smaller(p->n - column, COLUMN_BLOCK), inner, depth, s->b);
            for (size_t row = 0; row < p->m; row += ROW_BLOCK) {
                multiply_rows(s, p, row, column, inner, depth);
            }
        }
    }
    _tile_release();
}
#else
typedef int ew_no_tiles; /* a file must not be empty */
#endif
