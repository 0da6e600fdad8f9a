/* Scores and probabilities of one run in virtual lanes; lanes are positions. The keys of a page are read once for
 * four rows. */
#ifndef EW_KERNEL_LANES_SCORE_OPS_H
#define EW_KERNEL_LANES_SCORE_OPS_H

#include "kernel/lanes/attention_pages.h"

enum { ROWS_AT_ONCE = 4 };

/* Queries of all rows as INT16 planes, the high one first. */
typedef struct {
    int8_t codes[EW_ATTENTION_ROWS][2][EW_HEAD_DIM_MAX];
    int32_t bias[EW_ATTENTION_ROWS][SCALES_MAX]; /* -SIGNED_BIAS times the sum of the codes under one scale */
    float scale[EW_ATTENTION_ROWS];              /* s_q times the softmax scale */
} query_planes;

/* Quads (4 channels) of scale group g: *begin .. return value - 1. */
static inline size_t group_quads(const ew_kv_layout *layout, size_t g, size_t *begin) {
    *begin = g * layout->grain / 4;
    return g + 1 == layout->n_scales ? layout->padded_dim / 4 : (g + 1) * layout->grain / 4;
}

static void quantize_queries(const ew_attention *a, query_planes *planes) {
    const ew_kv_layout *layout = a->layout;
    for (size_t row = 0; row < a->n_rows; row++) {
        const float *x = a->queries[row];
        int8_t *hi = planes->codes[row][0], *lo = planes->codes[row][1];
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
                               const query_planes *planes, size_t row, size_t n_rows, float *scores, read_ahead ahead) {
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
        ask_for_part(ahead, g, layout->n_scales);
        for (; quad < end; quad++) {
            bytes64 keys[2];
            for (int h = 0; h < n_halves; h++) {
                keys[h] = bytes_signed(bytes_load(page + (quad * EW_PAGE_POSITIONS + (size_t)(half + h) * LANES) * 4));
            }
            for (size_t i = 0; i < n_rows; i++) {
                for (int h = 0; h < n_halves; h++) {
                    hi[h][i] = ints_dot_signed(hi[h][i], keys[h], planes->codes[row + i][0] + quad * 4);
                    lo[h][i] = ints_dot_signed(lo[h][i], keys[h], planes->codes[row + i][1] + quad * 4);
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
                       size_t at, attention_run *run, read_ahead ahead) {
    enum { HALVES = LANES_SCORE_HALVES };
    for (int half = 0; half < 2; half += HALVES) {
        for (size_t row = rows.begin; row < rows.end; row += ROWS_AT_ONCE) {
            float *scores = &run->scores[row][at];
            switch (rows.end - row) {
            case 1:
                score_halves(a->layout, page, half, HALVES, planes, row, 1, scores, ahead);
                break;
            case 2:
                score_halves(a->layout, page, half, HALVES, planes, row, 2, scores, ahead);
                break;
            case 3:
                score_halves(a->layout, page, half, HALVES, planes, row, 3, scores, ahead);
                break;
            default:
                score_halves(a->layout, page, half, HALVES, planes, row, ROWS_AT_ONCE, scores, ahead);
            }
            ahead.bytes = NULL;
        }
    }
}

/* The keys that a row reads at `position`, if it does. */
static read_ahead keys_ahead(const ew_attention *a, size_t row, size_t position) {
    bool seen = position < a->n_positions[row];
    return (read_ahead){seen ? page_at(a, row, position) : NULL, a->layout->v_codes_at};
}

/* What is asked for while the keys at `position` are scored: the page's values, and where nothing has been asked for yet
 * (`first`) the keys of a later page, at once. */
static inline read_ahead ahead_of_scores(const ew_attention *a, size_t row, size_t position, bool first) {
    enum { PAGES_AHEAD = 2 * EW_PAGE_POSITIONS };
    if (first) {
        ask_for_part(keys_ahead(a, row, position + PAGES_AHEAD), 0, 1);
    }
    size_t keys = a->layout->v_codes_at;
    return (read_ahead){page_at(a, row, position) + keys, a->layout->page_bytes - keys};
}

/* Scores of n positions from `begin` on, for all rows. */
static void score_run(const ew_attention *a, const query_planes *planes, size_t begin, size_t n, bool first,
                      attention_run *run) {
    for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
        row_range rows = next_sharers(a, 0, begin + at);
        for (; rows.begin < rows.end; rows = next_sharers(a, rows.end, begin + at)) {
            score_page(a, page_at(a, rows.begin, begin + at), planes, rows, at, run,
                       ahead_of_scores(a, rows.begin, begin + at, first));
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
        f32x16 p = lanes_softmax_weight(lanes_sub(lanes_load(scores + t), lanes_set(*maximum)));
        lanes_store(scores + t, p);
        total = lanes_add(total, p);
    }
    *sum = lanes_sum(total);
}

#endif
