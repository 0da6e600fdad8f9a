/* Attention of the unquantized reference in virtual lanes, over pages of either kind: one page of keys and values as
 * floats at a time. */
#ifndef EW_KERNEL_LANES_ATTENTION_FLOAT_OPS_H
#define EW_KERNEL_LANES_ATTENTION_FLOAT_OPS_H

#include "kernel/lanes/attention_ops.h"

/* Keys of one page, [channel][position]. */
typedef struct {
    _Alignas(64) float keys[EW_HEAD_DIM_MAX][EW_PAGE_POSITIONS];
} key_page;

/* Keys of either kind of page as floats, [channel][position]. */
static void read_float_keys(const ew_kv_layout *layout, const uint8_t *page, key_page *out) {
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
static void read_float_values(const ew_kv_layout *layout, const uint8_t *page, value_page *out) {
    if (layout->quantized) {
        read_values(layout, page, true, out);
        for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
            for (size_t c = 0; c < layout->head_dim; c++) {
                float *value = &out->floats[t * layout->padded_dim + c];
                *value = *value * out->factors[c / layout->grain][t];
            }
        }
    } else {
        const float *values = (const float *)(const void *)(page + layout->v_codes_at);
        for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
            float *row = &out->floats[t * layout->padded_dim];
            memset(row, 0, layout->padded_dim * sizeof(float));
            memcpy(row, values + t * layout->head_dim, layout->head_dim * sizeof(float));
        }
    }
    out->codes = NULL;
    for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
        out->factors[0][t] = 1.0f;
    }
}

LANES_INLINE void score_float_rows(const ew_attention *a, const key_page *page, size_t row, size_t n_rows, size_t at,
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
    key_page keys;
    value_page values;
    ew_kv_layout one_factor = *a->layout;
    ew_attention with_one_factor = *a;
    one_factor.n_scales = 1;
    with_one_factor.layout = &one_factor;
    const value_shape shape = find_value_shape(&one_factor);
    size_t n_positions = seen_by_any(a);
    for (size_t begin = 0; begin < n_positions; begin += EW_ATTENTION_PARTIAL) {
        attention_run *run = begin == 0 ? &state : &later;
        size_t n = n_positions - begin < EW_ATTENTION_PARTIAL ? n_positions - begin : EW_ATTENTION_PARTIAL;
        for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
            row_range rows = next_sharers(a, 0, begin + at);
            for (; rows.begin < rows.end; rows = next_sharers(a, rows.end, begin + at)) {
                read_float_keys(a->layout, page_at(a, rows.begin, begin + at), &keys);
                size_t row = rows.begin;
                for (; row + ROWS_AT_ONCE <= rows.end; row += ROWS_AT_ONCE) {
                    score_float_rows(a, &keys, row, ROWS_AT_ONCE, at, run);
                }
                for (; row < rows.end; row++) {
                    score_float_rows(a, &keys, row, 1, at, run);
                }
            }
        }
        begin_run_outputs(a, begin, run);
        for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
            row_range rows = next_sharers(a, 0, begin + at);
            for (; rows.begin < rows.end; rows = next_sharers(a, rows.end, begin + at)) {
                read_float_values(a->layout, page_at(a, rows.begin, begin + at), &values);
                add_page_values(&with_one_factor, &shape, &values, rows, begin, at, run, (read_ahead){NULL, 0});
            }
        }
        if (begin > 0) {
            merge_run(a, begin, run, &state);
        }
    }
    write_outputs(a, &state);
}

#endif
