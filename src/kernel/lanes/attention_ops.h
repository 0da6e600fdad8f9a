/* Attention over paged cells in virtual lanes (docs/arithmetic.md, "Attention"). Lanes of a score are positions, lanes
 * of an output are channels. A page's keys are read once for four rows, its values become floats once for all rows. */
#ifndef EW_KERNEL_LANES_ATTENTION_OPS_H
#define EW_KERNEL_LANES_ATTENTION_OPS_H

#include "kernel/lanes/quantize_ops.h"

enum { ROWS_AT_ONCE = 4, CHANNELS_AT_ONCE = 64, SCALES_MAX = EW_HEAD_DIM_MAX / 4 };

/* Queries of all rows as INT16 planes. */
typedef struct {
    int8_t hi[EW_ATTENTION_ROWS][EW_HEAD_DIM_MAX], lo[EW_ATTENTION_ROWS][EW_HEAD_DIM_MAX];
    int32_t bias[EW_ATTENTION_ROWS][SCALES_MAX]; /* -SIGNED_BIAS times the sum of the codes under one scale */
    float scale[EW_ATTENTION_ROWS];              /* s_q times the softmax scale */
} query_planes;

/* One run of up to 256 positions for all rows. */
typedef struct {
    float scores[EW_ATTENTION_ROWS][EW_ATTENTION_PARTIAL]; /* then probabilities */
    float maximum[EW_ATTENTION_ROWS], sum[EW_ATTENTION_ROWS];
    float output[EW_ATTENTION_ROWS][EW_HEAD_DIM_MAX];
} attention_run;

/* One page in floats. */
typedef struct {
    float keys[EW_HEAD_DIM_MAX][EW_PAGE_POSITIONS];          /* the unquantized reference only */
    float values[EW_PAGE_POSITIONS][EW_HEAD_DIM_MAX];        /* codes, or values where factors is not used */
    float factors[SCALES_MAX][EW_PAGE_POSITIONS];            /* the values' scales */
} float_page;

static inline const uint8_t *page_at(const ew_attention *a, size_t position) {
    return a->pages[position / EW_PAGE_POSITIONS] + a->page_offset;
}

/* How many of `most` positions from `begin` on the row sees. */
static inline size_t seen_from(const ew_attention *a, size_t row, size_t begin, size_t most) {
    size_t n = a->n_positions[row] > begin ? a->n_positions[row] - begin : 0;
    return n < most ? n : most;
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

/* Scores of 16 positions (half 0 or 1 of the page) for n_rows rows, a constant where this is inlined. */
LANES_INLINE void score_half_page(const ew_kv_layout *layout, const uint8_t *page, size_t half, const query_planes *planes,
                                  size_t row, size_t n_rows, float *scores) {
    const float *scales = (const float *)(const void *)(page + layout->k_scales_at) + half * LANES;
    f32x16 score[ROWS_AT_ONCE];
    for (size_t i = 0; i < n_rows; i++) {
        score[i] = lanes_zero();
    }
    for (size_t g = 0; g < layout->n_scales; g++) {
        i32x16 hi[ROWS_AT_ONCE], lo[ROWS_AT_ONCE];
        for (size_t i = 0; i < n_rows; i++) {
            hi[i] = ints_zero();
            lo[i] = ints_set(planes->bias[row + i][g]);
        }
        size_t quad, end = group_quads(layout, g, &quad);
        for (; quad < end; quad++) {
            bytes64 keys = bytes_signed(bytes_load(page + (quad * EW_PAGE_POSITIONS + half * LANES) * 4));
            for (size_t i = 0; i < n_rows; i++) {
                hi[i] = ints_dot_signed(hi[i], keys, planes->hi[row + i] + quad * 4);
                lo[i] = ints_dot_signed(lo[i], keys, planes->lo[row + i] + quad * 4);
            }
        }
        f32x16 scale = lanes_load(scales + g * EW_PAGE_POSITIONS);
        for (size_t i = 0; i < n_rows; i++) {
            f32x16 dot = ints_to_lanes(ints_add(ints_times_256(hi[i]), lo[i]));
            score[i] = lanes_fma(scale, dot, score[i]);
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        lanes_store(scores + i * EW_ATTENTION_PARTIAL + half * LANES,
                    lanes_mul(lanes_set(planes->scale[row + i]), score[i]));
    }
}

static void score_page(const ew_attention *a, const uint8_t *page, const query_planes *planes, size_t at,
                       attention_run *run) {
    for (size_t half = 0; half < 2; half++) {
        size_t row = 0;
        for (; row + ROWS_AT_ONCE <= a->n_rows; row += ROWS_AT_ONCE) {
            score_half_page(a->layout, page, half, planes, row, ROWS_AT_ONCE, &run->scores[row][at]);
        }
        for (; row < a->n_rows; row++) {
            score_half_page(a->layout, page, half, planes, row, 1, &run->scores[row][at]);
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

/* One channel block of the outputs of n_rows rows (a constant) over n positions. factors[i] holds, for each 16
 * channels, the probabilities times the values' scales. */
LANES_INLINE void add_value_block(const float_page *page, size_t channel, size_t n_lanes, size_t n_rows,
                                  float *const *outputs, const float *const (*factors)[CHANNELS_AT_ONCE / LANES], size_t n) {
    f32x16 sum[2][CHANNELS_AT_ONCE / LANES];
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_lanes; j++) {
            sum[i][j] = lanes_load(outputs[i] + channel + j * LANES);
        }
    }
    for (size_t t = 0; t < n; t++) {
        for (size_t j = 0; j < n_lanes; j++) {
            f32x16 value = lanes_load(&page->values[t][channel + j * LANES]);
            for (size_t i = 0; i < n_rows; i++) {
                sum[i][j] = lanes_fma(lanes_set(factors[i][j][t]), value, sum[i][j]);
            }
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_lanes; j++) {
            lanes_store(outputs[i] + channel + j * LANES, sum[i][j]);
        }
    }
}

/* Adds a page's values to the outputs of rows row .. row + n_rows - 1 (1 or 2), which see n of its positions. */
LANES_INLINE void add_values(const ew_kv_layout *layout, const float_page *page, attention_run *run, size_t row,
                             size_t n_rows, size_t at, size_t n) {
    float factors[2][SCALES_MAX][EW_PAGE_POSITIONS];
    const float *factor_of[2][CHANNELS_AT_ONCE / LANES];
    float *outputs[2];
    for (size_t i = 0; i < n_rows; i++) {
        outputs[i] = run->output[row + i];
        for (size_t g = 0; g < layout->n_scales; g++) {
            for (size_t t = 0; t < EW_PAGE_POSITIONS; t += LANES) {
                f32x16 p = lanes_load(&run->scores[row + i][at + t]);
                lanes_store(&factors[i][g][t], lanes_mul(p, lanes_load(&page->factors[g][t])));
            }
        }
    }
    for (size_t channel = 0; channel < layout->padded_dim; channel += CHANNELS_AT_ONCE) {
        size_t left = (layout->padded_dim - channel) / LANES;
        for (size_t i = 0; i < n_rows; i++) {
            for (size_t j = 0; j < CHANNELS_AT_ONCE / LANES && j < left; j++) {
                factor_of[i][j] = factors[i][(channel + j * LANES) / layout->grain];
            }
        }
        if (left >= CHANNELS_AT_ONCE / LANES) {
            add_value_block(page, channel, CHANNELS_AT_ONCE / LANES, n_rows, outputs,
                            (const float *const(*)[CHANNELS_AT_ONCE / LANES])factor_of, n);
        } else {
            for (size_t j = 0; j < left; j++) {
                const float *one[2][CHANNELS_AT_ONCE / LANES] = {{factor_of[0][j]}, {factor_of[n_rows - 1][j]}};
                add_value_block(page, channel + j * LANES, 1, n_rows, outputs,
                                (const float *const(*)[CHANNELS_AT_ONCE / LANES])one, n);
            }
        }
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
            lanes_store(&run->output[row][c], lanes_fma(lanes_load(factors + c), lanes_load(&page->values[t][c]), sum));
        }
    }
}

static void add_page_values(const ew_attention *a, const float_page *page, size_t run_begin, size_t at,
                            attention_run *run) {
    const ew_kv_layout *layout = a->layout;
    bool even = layout->grain % LANES == 0 || layout->n_scales == 1;
    /* One scale for the head, whatever its width: every 16 channels take group 0. */
    ew_kv_layout one = *layout;
    one.grain = layout->n_scales == 1 ? layout->padded_dim : layout->grain;
    for (size_t row = 0; row < a->n_rows; row++) {
        size_t n = seen_from(a, row, run_begin + at, EW_PAGE_POSITIONS);
        if (!even) {
            add_values_uneven(layout, page, run, row, at, n);
        } else if (row + 1 < a->n_rows && seen_from(a, row + 1, run_begin + at, EW_PAGE_POSITIONS) == n) {
            add_values(&one, page, run, row, 2, at, n);
            row++;
        } else {
            add_values(&one, page, run, row, 1, at, n);
        }
    }
}

/* Codes of a page's values as floats, and their scales [group][position]. */
static void read_values(const ew_kv_layout *layout, const uint8_t *page, float_page *out) {
    const int8_t *codes = (const int8_t *)page + layout->v_codes_at;
    const float *scales = (const float *)(const void *)(page + layout->v_scales_at);
    for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
        for (size_t c = 0; c < layout->padded_dim; c += LANES) {
            lanes_store(&out->values[t][c], ints_to_lanes(ints_load_int8(codes + t * layout->padded_dim + c)));
        }
        for (size_t g = 0; g < layout->n_scales; g++) {
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
            score_page(a, page_at(a, begin + at), &planes, at, run);
        }
        begin_run_outputs(a, begin, run);
        for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
            read_values(a->layout, page_at(a, begin + at), &values);
            add_page_values(a, &values, begin, at, run);
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
                out->values[t][c] = out->values[t][c] * out->factors[c / layout->grain][t];
            }
        }
    } else {
        const float *values = (const float *)(const void *)(page + layout->v_codes_at);
        for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
            memset(out->values[t], 0, layout->padded_dim * sizeof(float));
            memcpy(out->values[t], values + t * layout->head_dim, layout->head_dim * sizeof(float));
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
            read_float_keys(a->layout, page_at(a, begin + at), &page);
            size_t row = 0;
            for (; row + ROWS_AT_ONCE <= a->n_rows; row += ROWS_AT_ONCE) {
                score_float_rows(a, &page, row, ROWS_AT_ONCE, at, run);
            }
            for (; row < a->n_rows; row++) {
                score_float_rows(a, &page, row, 1, at, run);
            }
        }
        begin_run_outputs(a, begin, run);
        for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
            read_float_values(a->layout, page_at(a, begin + at), &page);
            add_page_values(&with_one_factor, &page, begin, at, run);
        }
        if (begin > 0) {
            merge_run(a, begin, run, &state);
        }
    }
    write_outputs(a, &state);
}

#endif
