/* Outputs of one run in virtual lanes: probabilities times values; lanes are channels. The sums of a block of rows stay
 * in registers while a page goes by; where one block is all, its values become floats on the way. */
#ifndef EW_KERNEL_LANES_VALUE_OPS_H
#define EW_KERNEL_LANES_VALUE_OPS_H

#include "kernel/lanes/attention_pages.h"

/* Values of one page. */
typedef struct {
    const int8_t *codes; /* [position][padded_dim]; NULL where only floats are there */
    _Alignas(64) float floats[EW_PAGE_POSITIONS * EW_HEAD_DIM_MAX]; /* the same */
    float factors[SCALES_MAX][EW_PAGE_POSITIONS];                   /* their scales */
} value_page;

/* How channels and scales lie to the lanes. */
typedef struct {
    bool fits;                              /* 16 channels always have one scale */
    bool pairs;                             /* 32 channels too */
    uint8_t group[EW_HEAD_DIM_MAX / LANES]; /* scale of each 16 channels, if it fits */
} value_shape;

/* Rows that take a page's values together. */
typedef struct {
    const value_page *page;
    const value_shape *shape;
    read_ahead ahead;
    size_t n, stride; /* positions seen, channels stored */
    float *outputs[LANES_VALUE_ROWS];
    _Alignas(64) float factors[SCALES_MAX][LANES_VALUE_ROWS][EW_PAGE_POSITIONS]; /* probabilities times scales */
} value_rows;

/* n_lanes times 16 channels of n_rows rows, for positions begin .. end - 1; every two lanes have one scale. n_rows,
 * n_lanes and direct are constants where this is inlined. */
LANES_INLINE void add_value_stretch(const value_rows *rows, size_t n_rows, size_t channel, size_t n_lanes, bool direct,
                                    size_t begin, size_t end, f32x16 sum[LANES_VALUE_ROWS][LANES_VALUE_LANES]) {
    const float(*first)[EW_PAGE_POSITIONS] = rows->factors[rows->shape->group[channel / LANES]];
    const float(*second)[EW_PAGE_POSITIONS] =
        n_lanes > 2 ? rows->factors[rows->shape->group[channel / LANES + 2]] : first;
    for (size_t t = begin; t < end; t++) {
        f32x16 values[LANES_VALUE_LANES];
        for (size_t j = 0; j < n_lanes; j++) {
            size_t at = t * rows->stride + channel + j * LANES;
            values[j] =
                direct ? ints_to_lanes(ints_load_int8(rows->page->codes + at)) : lanes_load(rows->page->floats + at);
        }
        for (size_t i = 0; i < n_rows; i++) {
            for (size_t j = 0; j < n_lanes; j++) {
                sum[i][j] = lanes_fma_at(&(j < 2 ? first : second)[i][t], values[j], sum[i][j]);
            }
        }
    }
}

LANES_INLINE void add_value_block(const value_rows *rows, size_t n_rows, size_t channel, size_t n_lanes, bool direct) {
    enum { QUARTER = EW_PAGE_POSITIONS / 4 };
    f32x16 sum[LANES_VALUE_ROWS][LANES_VALUE_LANES];
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_lanes; j++) {
            sum[i][j] = lanes_load(rows->outputs[i] + channel + j * LANES);
        }
    }
    for (size_t quarter = 0; quarter * QUARTER < rows->n; quarter++) {
        if (channel == 0) {
            ask_for_part(rows->ahead, quarter, 4);
        }
        size_t end = (quarter + 1) * QUARTER;
        add_value_stretch(rows, n_rows, channel, n_lanes, direct, quarter * QUARTER, end < rows->n ? end : rows->n,
                          sum);
    }
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_lanes; j++) {
            lanes_store(rows->outputs[i] + channel + j * LANES, sum[i][j]);
        }
    }
}

LANES_INLINE void add_value_channels(const value_rows *rows, size_t n_rows, bool direct) {
    size_t channel = 0;
    if (rows->shape->pairs) {
        for (; n_rows * LANES_VALUE_LANES <= LANES_VALUE_SUMS && channel + LANES_VALUE_LANES * LANES <= rows->stride;
             channel += LANES_VALUE_LANES * LANES) {
            add_value_block(rows, n_rows, channel, LANES_VALUE_LANES, direct);
        }
        for (; channel + 2 * LANES <= rows->stride; channel += 2 * LANES) {
            add_value_block(rows, n_rows, channel, 2, direct);
        }
    }
    for (; channel < rows->stride; channel += LANES) {
        add_value_block(rows, n_rows, channel, 1, direct);
    }
}

LANES_INLINE void add_value_rows(const value_rows *rows, size_t n_rows, bool direct) {
    _Static_assert(LANES_VALUE_ROWS <= 8, "a case for each number of rows");
    switch (n_rows) {
    case 1:
        add_value_channels(rows, 1, direct);
        break;
    case 2:
        add_value_channels(rows, 2, direct);
        break;
#if LANES_MANY_REGISTERS
    case 3:
        add_value_channels(rows, 3, direct);
        break;
    case 4:
        add_value_channels(rows, 4, direct);
        break;
    case 5:
        add_value_channels(rows, 5, direct);
        break;
    case 6:
        add_value_channels(rows, 6, direct);
        break;
    case 7:
        add_value_channels(rows, 7, direct);
        break;
    case 8:
        add_value_channels(rows, 8, direct);
        break;
#endif
    }
}

/* Adds a page's values to the outputs of rows row .. row + n_rows - 1. */
static void add_values(value_rows *rows, attention_run *run, size_t n_scales, size_t row, size_t n_rows, size_t at,
                       bool direct) {
    for (size_t i = 0; i < n_rows; i++) {
        rows->outputs[i] = run->output[row + i];
        for (size_t g = 0; g < n_scales; g++) {
            for (size_t t = 0; t < EW_PAGE_POSITIONS; t += LANES) {
                f32x16 p = lanes_load(&run->scores[row + i][at + t]);
                lanes_store(&rows->factors[g][i][t], lanes_mul(p, lanes_load(&rows->page->factors[g][t])));
            }
        }
    }
    if (direct) {
        add_value_rows(rows, n_rows, true);
    } else {
        add_value_rows(rows, n_rows, false);
    }
}

/* The same for one row where a scale group is no multiple of 16 channels. */
static void add_values_uneven(const ew_kv_layout *layout, const value_page *page, attention_run *run, size_t row,
                              size_t at, size_t n) {
    for (size_t t = 0; t < n; t++) {
        float factors[EW_HEAD_DIM_MAX];
        for (size_t c = 0; c < layout->padded_dim; c++) {
            size_t g = c / layout->grain < layout->n_scales ? c / layout->grain : layout->n_scales - 1;
            factors[c] = run->scores[row][at + t] * page->factors[g][t];
        }
        for (size_t c = 0; c < layout->padded_dim; c += LANES) {
            f32x16 sum = lanes_load(&run->output[row][c]);
            lanes_store(&run->output[row][c],
                        lanes_fma(lanes_load(factors + c), lanes_load(&page->floats[t * layout->padded_dim + c]), sum));
        }
    }
}

/* Rows of equal sight, n_alike of them, in blocks of about the same number. */
static inline size_t next_block(size_t n_alike) {
    size_t n_blocks = (n_alike + LANES_VALUE_ROWS - 1) / LANES_VALUE_ROWS;
    return (n_alike + n_blocks - 1) / n_blocks;
}

static value_shape find_value_shape(const ew_kv_layout *layout) {
    value_shape shape = {.fits = layout->grain % LANES == 0 || layout->n_scales == 1,
                         .pairs = layout->grain % (2 * LANES) == 0 || layout->n_scales == 1};
    for (size_t i = 0; i < layout->padded_dim / LANES; i++) {
        size_t g = i * LANES / layout->grain;
        shape.group[i] = (uint8_t)(g < layout->n_scales ? g : layout->n_scales - 1);
    }
    return shape;
}

/* Whether the rows of a page need floats of its values; else each block makes them on the way. */
static inline bool wants_floats(const value_shape *shape, row_range rows) {
    return rows.end - rows.begin > LANES_VALUE_ROWS || !shape->fits;
}

static void add_page_values(const ew_attention *a, const value_shape *shape, const value_page *page, row_range range,
                            size_t run_begin, size_t at, attention_run *run, read_ahead ahead) {
    const ew_kv_layout *layout = a->layout;
    bool direct = page->codes && !wants_floats(shape, range);
    value_rows rows; /* its factors are filled as far as they are used */
    rows.page = page;
    rows.shape = shape;
    rows.stride = layout->padded_dim;
    rows.ahead = ahead;
    for (size_t row = range.begin, n_alike = 0, n_rows; row < range.end; row += n_rows, n_alike -= n_rows) {
        if (n_alike == 0) {
            n_alike = shape->fits ? rows_alike(a, row, range.end, run_begin + at, EW_ATTENTION_ROWS) : 1;
            rows.n = seen_from(a, row, run_begin + at, EW_PAGE_POSITIONS);
        }
        n_rows = next_block(n_alike);
        if (shape->fits) {
            add_values(&rows, run, layout->n_scales, row, n_rows, at, direct);
            rows.ahead.bytes = NULL;
        } else {
            add_values_uneven(layout, page, run, row, at, rows.n);
        }
    }
}

/* Every second float of 32 * n of them, and the others. */
static void split_pairs(const float *in, size_t n, float *even, float *odd) {
    for (size_t i = 0; i < n; i++) {
        f32x16 first, second;
        lanes_split_pairs(lanes_load(in + 2 * i * LANES), lanes_load(in + (2 * i + 1) * LANES), &first, &second);
        lanes_store(even + i * LANES, first);
        lanes_store(odd + i * LANES, second);
    }
}

/* [position][scale] to [scale][position] */
static void read_value_scales(const float *scales, size_t n_scales, float out[][EW_PAGE_POSITIONS]) {
    enum { VECTORS = EW_PAGE_POSITIONS / LANES };
    if (n_scales == 2) {
        split_pairs(scales, VECTORS, out[0], out[1]);
    } else if (n_scales == 4) {
        float even[2 * EW_PAGE_POSITIONS], odd[2 * EW_PAGE_POSITIONS];
        split_pairs(scales, 2 * VECTORS, even, odd);
        split_pairs(even, VECTORS, out[0], out[2]);
        split_pairs(odd, VECTORS, out[1], out[3]);
    } else {
        for (size_t g = 0; g < n_scales; g++) {
            for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
                out[g][t] = scales[t * n_scales + g];
            }
        }
    }
}

/* Codes of a page's values, as floats too if these are wanted, and their scales. */
static void read_values(const ew_kv_layout *layout, const uint8_t *page, bool floats, value_page *out) {
    out->codes = (const int8_t *)page + layout->v_codes_at;
    for (size_t i = 0; floats && i < EW_PAGE_POSITIONS * layout->padded_dim; i += LANES) {
        lanes_store(&out->floats[i], ints_to_lanes(ints_load_int8(out->codes + i)));
    }
    read_value_scales((const float *)(const void *)(page + layout->v_scales_at), layout->n_scales, out->factors);
}

#endif
