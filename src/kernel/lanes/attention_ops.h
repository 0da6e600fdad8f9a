/* Attention over paged cells in virtual lanes (docs/arithmetic.md, "Attention"). Lanes of a score are positions, lanes
 * of an output are channels. Rows that stand together and share a page meet it together: its keys are read once for four
 * rows, its values become floats once for all of them. */
#ifndef EW_KERNEL_LANES_ATTENTION_OPS_H
#define EW_KERNEL_LANES_ATTENTION_OPS_H

#include "kernel/lanes/quantize_ops.h"

enum {
    ROWS_AT_ONCE = 4,
    CHANNELS_AT_ONCE = 64,
    BLOCK_LANES = CHANNELS_AT_ONCE / LANES,
    SCALES_MAX = EW_HEAD_DIM_MAX / 4
};

/* Queries of all rows as INT16 planes. */
typedef struct {
    int8_t hi[EW_ATTENTION_ROWS][EW_HEAD_DIM_MAX], lo[EW_ATTENTION_ROWS][EW_HEAD_DIM_MAX];
    int32_t bias[EW_ATTENTION_ROWS][SCALES_MAX]; /* -SIGNED_BIAS times the sum of the codes under one scale */
    float scale[EW_ATTENTION_ROWS];              /* s_q times the softmax scale */
} query_planes;

/* One run of up to 256 positions for all rows. Vectors that cross cache lines cost double, hence the alignment. */
typedef struct {
    _Alignas(64) float scores[EW_ATTENTION_ROWS][EW_ATTENTION_PARTIAL]; /* then probabilities */
    float maximum[EW_ATTENTION_ROWS], sum[EW_ATTENTION_ROWS];
    _Alignas(64) float output[EW_ATTENTION_ROWS][EW_HEAD_DIM_MAX];
} attention_run;

/* One page in floats. */
typedef struct {
    _Alignas(64) float keys[EW_HEAD_DIM_MAX][EW_PAGE_POSITIONS]; /* the unquantized reference only */
    float values[EW_PAGE_POSITIONS * EW_HEAD_DIM_MAX]; /* [position][padded_dim]: codes, or under factors of 1 values */
    float factors[SCALES_MAX][EW_PAGE_POSITIONS];      /* the values' scales */
} float_page;

static inline const uint8_t *page_at(const ew_attention *a, size_t row, size_t position) {
    return a->pages[row][position / EW_PAGE_POSITIONS] + a->page_offset;
}

/* How many of `most` positions from `begin` on the row sees. */
static inline size_t seen_from(const ew_attention *a, size_t row, size_t begin, size_t most) {
    size_t n = a->n_positions[row] > begin ? a->n_positions[row] - begin : 0;
    return n < most ? n : most;
}

/* Rows begin .. end - 1 read one page. */
typedef struct {
    size_t begin, end;
} row_range;

/* The next rows from `row` on that see `position` and have it on the same page; an empty range when there are none. */
static inline row_range next_sharers(const ew_attention *a, size_t row, size_t position) {
    while (row < a->n_rows && a->n_positions[row] <= position) {
        row++;
    }
    row_range rows = {row, row};
    while (rows.end < a->n_rows && a->n_positions[rows.end] > position &&
           page_at(a, rows.end, position) == page_at(a, row, position)) {
        rows.end++;
    }
    return rows;
}

static inline size_t seen_by_any(const ew_attention *a) {
    size_t most = 0;
    for (size_t row = 0; row < a->n_rows; row++) {
        most = a->n_positions[row] > most ? a->n_positions[row] : most;
    }
    return most;
}

/* Quads (4 channels) of scale group g: *begin .. return value - 1. */
static inline size_t group_quads(const ew_kv_layout *layout, size_t g, size_t *begin) {
    *begin = g * layout->grain / 4;
    return g + 1 == layout->n_scales ? layout->padded_dim / 4 : (g + 1) * layout->grain / 4;
}

static void quantize_queries(const ew_attention *a, query_planes *planes) {
    const ew_kv_layout *layout = a->layout;
    for (size_t row = 0; row < a->n_rows; row++) {
        const float *x = a->queries[row];
        int8_t *hi = planes->hi[row], *lo = planes->lo[row];
        float scale = span_scale(x, layout->head_dim, LEVELS_INT16);
        planes->scale[row] = scale * a->softmax_scale;
        memset(hi, 0, layout->padded_dim);
        memset(lo, 0, layout->padded_dim);
        for (size_t c = 0; has_codes(scale) && c < layout->padded_dim; c += LANES) {
            int32_t unused = 0;
            quantize_planes(x, layout->head_dim, c, lanes_set(scale), hi + c, lo + c, &unused);
        }
        for (size_t g = 0; g < layout->n_scales; g++) {
            size_t quad, end = group_quads(layout, g, &quad);
            int32_t sum = 0;
            for (size_t c = quad * 4; c < end * 4; c++) {
                sum += 256 * hi[c] + lo[c];
            }
            planes->bias[row][g] = -SIGNED_BIAS * sum;
        }
    }
}

/* Scores of n_halves times 16 positions from half page `half` on, for n_rows rows; both numbers are constants where
 * this is inlined. Each quad of a query meets both halves while it is in a register. */
LANES_INLINE void score_halves(const ew_kv_layout *layout, const uint8_t *page, int half, int n_halves,
                               const query_planes *planes, size_t row, size_t n_rows, float *scores) {
    const float *scales = (const float *)(const void *)(page + layout->k_scales_at) + half * LANES;
    f32x16 score[2][ROWS_AT_ONCE];
    for (size_t i = 0; i < n_rows; i++) {
        score[0][i] = score[1][i] = lanes_zero();
    }
    for (size_t g = 0; g < layout->n_scales; g++) {
        i32x16 hi[2][ROWS_AT_ONCE], lo[2][ROWS_AT_ONCE];
        for (size_t i = 0; i < n_rows; i++) {
            hi[0][i] = hi[1][i] = ints_zero();
            lo[0][i] = lo[1][i] = ints_set(planes->bias[row + i][g]);
        }
        size_t quad, end = group_quads(layout, g, &quad);
        for (; quad < end; quad++) {
            bytes64 keys[2];
            for (int h = 0; h < n_halves; h++) {
                keys[h] = bytes_signed(bytes_load(page + (quad * EW_PAGE_POSITIONS + (size_t)(half + h) * LANES) * 4));
            }
            for (size_t i = 0; i < n_rows; i++) {
                for (int h = 0; h < n_halves; h++) {
                    hi[h][i] = ints_dot_signed(hi[h][i], keys[h], planes->hi[row + i] + quad * 4);
                    lo[h][i] = ints_dot_signed(lo[h][i], keys[h], planes->lo[row + i] + quad * 4);
                }
            }
        }
        for (int h = 0; h < n_halves; h++) {
            f32x16 scale = lanes_load(scales + g * EW_PAGE_POSITIONS + h * LANES);
            for (size_t i = 0; i < n_rows; i++) {
                f32x16 dot = ints_to_lanes(ints_add(ints_times_256(hi[h][i]), lo[h][i]));
                score[h][i] = lanes_fma(scale, dot, score[h][i]);
            }
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        for (int h = 0; h < n_halves; h++) {
            lanes_store(scores + i * EW_ATTENTION_PARTIAL + (half + h) * LANES,
                        lanes_mul(lanes_set(planes->scale[row + i]), score[h][i]));
        }
    }
}

static void score_page(const ew_attention *a, const uint8_t *page, const query_planes *planes, row_range rows,
                       size_t at, attention_run *run) {
    enum { HALVES = LANES_SCORE_HALVES };
    for (int half = 0; half < 2; half += HALVES) {
        for (size_t row = rows.begin; row < rows.end; row += ROWS_AT_ONCE) {
            float *scores = &run->scores[row][at];
            switch (rows.end - row) {
            case 1:
                score_halves(a->layout, page, half, HALVES, planes, row, 1, scores);
                break;
            case 2:
                score_halves(a->layout, page, half, HALVES, planes, row, 2, scores);
                break;
            case 3:
                score_halves(a->layout, page, half, HALVES, planes, row, 3, scores);
                break;
            default:
                score_halves(a->layout, page, half, HALVES, planes, row, ROWS_AT_ONCE, scores);
            }
        }
    }
}

/* Scores to probabilities below the run's maximum; their sum. */
static void softmax_row(float *scores, size_t n, float *maximum, float *sum) {
    size_t padded = (n + LANES - 1) / LANES * LANES;
    for (size_t t = n; t < padded; t++) {
        scores[t] = -INFINITY;
    }
    f32x16 most = lanes_load(scores), total = lanes_zero();
    for (size_t t = LANES; t < padded; t += LANES) {
        most = lanes_max(most, lanes_load(scores + t));
    }
    *maximum = lanes_largest(most);
    for (size_t t = 0; t < padded; t += LANES) {
        f32x16 p = lanes_exp(lanes_sub(lanes_load(scores + t), lanes_set(*maximum)));
        lanes_store(scores + t, p);
        total = lanes_add(total, p);
    }
    *sum = lanes_sum(total);
}

/* A page's part of the outputs of n_rows rows. factors: probabilities times the values' scales. */
typedef struct {
    const float_page *page;
    float *outputs[ROWS_AT_ONCE];
    _Alignas(64) float factors[ROWS_AT_ONCE][SCALES_MAX][EW_PAGE_POSITIONS];
    size_t n, stride; /* positions seen, floats from one to the next */
} value_rows;

/* n_lanes times 16 channels of n_rows rows; every `shared` lanes of them have one scale group, the first of them g. All
 * three numbers are constants where this is inlined. */
LANES_INLINE void add_value_block(value_rows *rows, size_t n_rows, size_t channel, size_t n_lanes, size_t g,
                                  size_t shared) {
    f32x16 sum[ROWS_AT_ONCE][BLOCK_LANES];
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_lanes; j++) {
            sum[i][j] = lanes_load(rows->outputs[i] + channel + j * LANES);
        }
    }
    const float *values_at = rows->page->values + channel;
    size_t stride = rows->stride;
    for (size_t t = 0; t < rows->n; t++) {
        f32x16 values[BLOCK_LANES];
        for (size_t j = 0; j < n_lanes; j++) {
            values[j] = lanes_load(values_at + t * stride + j * LANES);
        }
        for (size_t i = 0; i < n_rows; i++) {
            for (size_t j = 0; j < n_lanes; j++) {
                sum[i][j] = lanes_fma(lanes_set(rows->factors[i][g + j / shared][t]), values[j], sum[i][j]);
            }
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_lanes; j++) {
            lanes_store(rows->outputs[i] + channel + j * LANES, sum[i][j]);
        }
    }
}

/* Adds a page's values to the outputs of rows row .. row + n_rows - 1 (a constant), which see n of its positions. */
LANES_INLINE void add_values(const ew_kv_layout *layout, const float_page *page, attention_run *run, size_t row,
                             size_t n_rows, size_t at, size_t n) {
    value_rows rows; /* its factors are filled as far as they are used */
    rows.page = page;
    rows.n = n;
    rows.stride = layout->padded_dim;
    for (size_t i = 0; i < n_rows; i++) {
        rows.outputs[i] = run->output[row + i];
        for (size_t g = 0; g < layout->n_scales; g++) {
            for (size_t t = 0; t < EW_PAGE_POSITIONS; t += LANES) {
                f32x16 p = lanes_load(&run->scores[row + i][at + t]);
                lanes_store(&rows.factors[i][g][t], lanes_mul(p, lanes_load(&page->factors[g][t])));
            }
        }
    }
    size_t channel = 0;
    for (; channel + CHANNELS_AT_ONCE <= layout->padded_dim; channel += CHANNELS_AT_ONCE) {
        size_t g = channel / layout->grain;
        if (layout->grain % CHANNELS_AT_ONCE == 0) {
            add_value_block(&rows, n_rows, channel, BLOCK_LANES, g, BLOCK_LANES);
        } else if (layout->grain == 2 * LANES) {
            add_value_block(&rows, n_rows, channel, BLOCK_LANES, g, 2);
        } else {
            for (size_t c = channel; c < channel + CHANNELS_AT_ONCE; c += LANES) {
                add_value_block(&rows, n_rows, c, 1, c / layout->grain, 1);
            }
        }
    }
    for (; channel < layout->padded_dim; channel += LANES) {
        add_value_block(&rows, n_rows, channel, 1, channel / layout->grain, 1);
    }
}

/* The same for one row where a scale group is no multiple of 16 channels. */
static void add_values_uneven(const ew_kv_layout *layout, const float_page *page, attention_run *run, size_t row,
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
                        lanes_fma(lanes_load(factors + c), lanes_load(&page->values[t * layout->padded_dim + c]), sum));
        }
    }
}

/* Rows row .. end - 1, at most `most`, that see as many positions from `begin` on as the first does. */
static inline size_t rows_alike(const ew_attention *a, size_t row, size_t end, size_t begin, size_t most) {
    size_t n = seen_from(a, row, begin, EW_PAGE_POSITIONS), count = 1;
    while (count < most && row + count < end && seen_from(a, row + count, begin, EW_PAGE_POSITIONS) == n) {
        count++;
    }
    return count;
}

static void add_page_values(const ew_attention *a, const float_page *page, row_range rows, size_t run_begin, size_t at,
                            attention_run *run) {
    const ew_kv_layout *layout = a->layout;
    bool even = layout->grain % LANES == 0 || layout->n_scales == 1;
    /* One scale for the head, whatever its width: every 16 channels take group 0. */
    ew_kv_layout one = *layout;
    one.grain = layout->n_scales == 1 ? EW_HEAD_DIM_MAX : layout->grain;
    for (size_t row = rows.begin; row < rows.end;) {
        size_t n = seen_from(a, row, run_begin + at, EW_PAGE_POSITIONS);
        size_t alike = rows_alike(a, row, rows.end, run_begin + at, LANES_VALUE_ROWS);
        if (!even) {
            add_values_uneven(layout, page, run, row, at, n);
            row++;
        } else if (LANES_VALUE_ROWS >= 4 && alike >= 4) {
            add_values(&one, page, run, row, 4, at, n);
            row += 4;
        } else if (LANES_VALUE_ROWS >= 4 && alike == 3) {
            add_values(&one, page, run, row, 3, at, n);
            row += 3;
        } else if (alike >= 2) {
            add_values(&one, page, run, row, 2, at, n);
            row += 2;
        } else {
            add_values(&one, page, run, row, 1, at, n);
            row++;
        }
    }
}

/* Codes of a page's values as floats, and their scales [group][position]. */
static void read_values(const ew_kv_layout *layout, const uint8_t *page, float_page *out) {
    const int8_t *codes = (const int8_t *)page + layout->v_codes_at;
    const float *scales = (const float *)(const void *)(page + layout->v_scales_at);
    for (size_t i = 0; i < EW_PAGE_POSITIONS * layout->padded_dim; i += LANES) {
        lanes_store(&out->values[i], ints_to_lanes(ints_load_int8(codes + i)));
    }
    for (size_t g = 0; g < layout->n_scales; g++) {
        for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
            out->factors[g][t] = scales[t * layout->n_scales + g];
        }
    }
}

/* The softmax of every row that sees any of the run, and zeroed outputs. */
static void begin_run_outputs(const ew_attention *a, size_t begin, attention_run *run) {
    for (size_t row = 0; row < a->n_rows; row++) {
        size_t n = seen_from(a, row, begin, EW_ATTENTION_PARTIAL);
        memset(run->output[row], 0, a->layout->padded_dim * sizeof(float));
        if (n > 0) {
            softmax_row(run->scores[row], n, &run->maximum[row], &run->sum[row]);
        }
    }
}

static void merge_run(const ew_attention *a, size_t begin, const attention_run *run, attention_run *state) {
    for (size_t row = 0; row < a->n_rows; row++) {
        if (seen_from(a, row, begin, EW_ATTENTION_PARTIAL) == 0) {
            continue;
        }
        float maximum = state->maximum[row] > run->maximum[row] ? state->maximum[row] : run->maximum[row];
        float old = lanes_exp_one(state->maximum[row] - maximum), new = lanes_exp_one(run->maximum[row] - maximum);
        state->sum[row] = fmaf(state->sum[row], old, run->sum[row] * new);
        for (size_t c = 0; c < a->layout->padded_dim; c += LANES) {
            f32x16 fresh = lanes_mul(lanes_load(&run->output[row][c]), lanes_set(new));
            lanes_store(&state->output[row][c], lanes_fma(lanes_load(&state->output[row][c]), lanes_set(old), fresh));
        }
        state->maximum[row] = maximum;
    }
}

static void write_outputs(const ew_attention *a, const attention_run *state) {
    size_t dim = a->layout->head_dim;
    for (size_t row = 0; row < a->n_rows; row++) {
        f32x16 reciprocal = lanes_set(1.0f / state->sum[row]);
        for (size_t c = 0; c < dim; c += LANES) {
            lanes_write(a->outputs[row], dim, c, lanes_mul(lanes_load(&state->output[row][c]), reciprocal));
        }
    }
}

static void attend(const ew_attention *a) {
    query_planes planes;
    attention_run state, later;
    float_page values;
    quantize_queries(a, &planes);
    size_t n_positions = seen_by_any(a);
    for (size_t begin = 0; begin < n_positions; begin += EW_ATTENTION_PARTIAL) {
        attention_run *run = begin == 0 ? &state : &later;
        size_t n = n_positions - begin < EW_ATTENTION_PARTIAL ? n_positions - begin : EW_ATTENTION_PARTIAL;
        for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
            row_range rows = next_sharers(a, 0, begin + at);
            for (; rows.begin < rows.end; rows = next_sharers(a, rows.end, begin + at)) {
                score_page(a, page_at(a, rows.begin, begin + at), &planes, rows, at, run);
            }
        }
        begin_run_outputs(a, begin, run);
        for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
            row_range rows = next_sharers(a, 0, begin + at);
            for (; rows.begin < rows.end; rows = next_sharers(a, rows.end, begin + at)) {
                read_values(a->layout, page_at(a, rows.begin, begin + at), &values);
                add_page_values(a, &values, rows, begin, at, run);
            }
        }
        if (begin > 0) {
            merge_run(a, begin, run, &state);
        }
    }
    write_outputs(a, &state);
}

/* Keys of either kind of page as floats, [channel][position]. */
static void read_float_keys(const ew_kv_layout *layout, const uint8_t *page, float_page *out) {
    if (!layout->quantized) {
        const float *keys = (const float *)(const void *)page;
        for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
            for (size_t c = 0; c < layout->head_dim; c++) {
                out->keys[c][t] = keys[t * layout->head_dim + c];
            }
        }
        return;
    }
    const float *scales = (const float *)(const void *)(page + layout->k_scales_at);
    for (size_t c = 0; c < layout->head_dim; c++) {
        for (size_t t = 0; t < EW_PAGE_POSITIONS; t += LANES) {
            i32x16 codes = ints_byte(ints_load(page + (c / 4 * EW_PAGE_POSITIONS + t) * 4), (int)(c % 4));
            f32x16 scale = lanes_load(scales + c / layout->grain * EW_PAGE_POSITIONS + t);
            lanes_store(&out->keys[c][t], lanes_mul(scale, ints_to_lanes(codes)));
        }
    }
}

/* Values of either kind of page as floats under factors of 1. */
static void read_float_values(const ew_kv_layout *layout, const uint8_t *page, float_page *out) {
    if (layout->quantized) {
        read_values(layout, page, out);
        for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
            for (size_t c = 0; c < layout->head_dim; c++) {
                float *value = &out->values[t * layout->padded_dim + c];
                *value = *value * out->factors[c / layout->grain][t];
            }
        }
    } else {
        const float *values = (const float *)(const void *)(page + layout->v_codes_at);
        for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
            float *row = &out->values[t * layout->padded_dim];
            memset(row, 0, layout->padded_dim * sizeof(float));
            memcpy(row, values + t * layout->head_dim, layout->head_dim * sizeof(float));
        }
    }
    for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
        out->factors[0][t] = 1.0f;
    }
}

LANES_INLINE void score_float_rows(const ew_attention *a, const float_page *page, size_t row, size_t n_rows, size_t at,
                                   attention_run *run) {
    f32x16 score[ROWS_AT_ONCE][2];
    for (size_t i = 0; i < n_rows; i++) {
        score[i][0] = score[i][1] = lanes_zero();
    }
    for (size_t c = 0; c < a->layout->head_dim; c++) {
        f32x16 first = lanes_load(&page->keys[c][0]), second = lanes_load(&page->keys[c][LANES]);
        for (size_t i = 0; i < n_rows; i++) {
            f32x16 query = lanes_set(a->queries[row + i][c]);
            score[i][0] = lanes_fma(query, first, score[i][0]);
            score[i][1] = lanes_fma(query, second, score[i][1]);
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        lanes_store(&run->scores[row + i][at], lanes_mul(score[i][0], lanes_set(a->softmax_scale)));
        lanes_store(&run->scores[row + i][at + LANES], lanes_mul(score[i][1], lanes_set(a->softmax_scale)));
    }
}

static void attend_float(const ew_attention *a) {
    attention_run state, later;
    float_page page;
    ew_kv_layout one_factor = *a->layout;
    ew_attention with_one_factor = *a;
    one_factor.n_scales = 1;
    with_one_factor.layout = &one_factor;
    size_t n_positions = seen_by_any(a);
    for (size_t begin = 0; begin < n_positions; begin += EW_ATTENTION_PARTIAL) {
        attention_run *run = begin == 0 ? &state : &later;
        size_t n = n_positions - begin < EW_ATTENTION_PARTIAL ? n_positions - begin : EW_ATTENTION_PARTIAL;
        for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
            row_range rows = next_sharers(a, 0, begin + at);
            for (; rows.begin < rows.end; rows = next_sharers(a, rows.end, begin + at)) {
                read_float_keys(a->layout, page_at(a, rows.begin, begin + at), &page);
                size_t row = rows.begin;
                for (; row + ROWS_AT_ONCE <= rows.end; row += ROWS_AT_ONCE) {
                    score_float_rows(a, &page, row, ROWS_AT_ONCE, at, run);
                }
                for (; row < rows.end; row++) {
                    score_float_rows(a, &page, row, 1, at, run);
                }
            }
        }
        begin_run_outputs(a, begin, run);
        for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
            row_range rows = next_sharers(a, 0, begin + at);
            for (; rows.begin < rows.end; rows = next_sharers(a, rows.end, begin + at)) {
                read_float_values(a->layout, page_at(a, rows.begin, begin + at), &page);
                add_page_values(&with_one_factor, &page, rows, begin, at, run);
            }
        }
        if (begin > 0) {
            merge_run(a, begin, run, &state);
        }
    }
    write_outputs(a, &state);
}

#endif
