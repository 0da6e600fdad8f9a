/* Attention over paged cells in virtual lanes (docs/arithmetic.md, "Attention"). Rows that stand together and share a
 * page meet it together. While a page's keys are scored its values are asked for, and while its values are added up the keys
 * of the page one run later: memory never waits for arithmetic. */
#ifndef EW_KERNEL_LANES_ATTENTION_OPS_H
#define EW_KERNEL_LANES_ATTENTION_OPS_H

#include "kernel/lanes/score_ops.h"
#include "kernel/lanes/value_ops.h"

/* The softmax of every row that sees any of the run, and zeroed outputs. */
static void begin_run_outputs(const ew_attention *a, size_t begin, attention_run *run) {
    for (size_t row = 0; row < a->n_rows; row++) {
        size_t n = seen_from(a, row, begin, EW_ATTENTION_PARTIAL);
        for (size_t c = 0; c < a->layout->padded_dim; c += LANES) {
            lanes_store(&run->output[row][c], lanes_zero());
        }
        if (n > 0) {
            softmax_row(run->scores[row], n, &run->maximum[row], &run->sum[row]);
        }
    }
}

/* One run of all rows. `first`: nothing has been asked for yet. */
static void compute_run(const ew_attention *a, const query_planes *planes, const value_shape *shape, size_t begin,
                        bool first, value_page *values, attention_run *run) {
    const ew_kv_layout *layout = a->layout;
    size_t n = seen_by_any(a) - begin;
    n = n < EW_ATTENTION_PARTIAL ? n : EW_ATTENTION_PARTIAL;
    score_run(a, planes, begin, n, first, run);
    begin_run_outputs(a, begin, run);
    for (size_t at = 0; at < n; at += EW_PAGE_POSITIONS) {
        row_range rows = next_sharers(a, 0, begin + at);
        for (; rows.begin < rows.end; rows = next_sharers(a, rows.end, begin + at)) {
            read_values(layout, page_at(a, rows.begin, begin + at), wants_floats(shape, rows), values);
            add_page_values(a, shape, values, rows, begin, at, run,
                            keys_ahead(a, rows.begin, begin + at + EW_ATTENTION_PARTIAL));
        }
    }
}

/* One row's M, L, o merged with those of a later run. */
static void merge_row(size_t padded_dim, float *maximum, float *sum, float *output, float later_maximum,
                      float later_sum, const float *later_output) {
    float most = *maximum > later_maximum ? *maximum : later_maximum;
    float old = lanes_softmax_weight_one(*maximum - most), new = lanes_softmax_weight_one(later_maximum - most);
    *sum = fmaf(*sum, old, later_sum * new);
    for (size_t c = 0; c < padded_dim; c += LANES) {
        f32x16 fresh = lanes_mul(lanes_load(later_output + c), lanes_set(new));
        lanes_store(output + c, lanes_fma(lanes_load(output + c), lanes_set(old), fresh));
    }
    *maximum = most;
}

static void merge_run(const ew_attention *a, size_t begin, const attention_run *run, attention_run *state) {
    for (size_t row = 0; row < a->n_rows; row++) {
        if (seen_from(a, row, begin, EW_ATTENTION_PARTIAL) > 0) {
            merge_row(a->layout->padded_dim, &state->maximum[row], &state->sum[row], state->output[row],
                      run->maximum[row], run->sum[row], run->output[row]);
        }
    }
}

static void write_output(const ew_attention *a, size_t row, float sum, const float *output) {
    size_t dim = a->layout->head_dim;
    f32x16 reciprocal = lanes_set(1.0f / sum);
    for (size_t c = 0; c < dim; c += LANES) {
        lanes_write(a->outputs[row], dim, c, lanes_mul(lanes_load(output + c), reciprocal));
    }
}

static void write_outputs(const ew_attention *a, const attention_run *state) {
    for (size_t row = 0; row < a->n_rows; row++) {
        write_output(a, row, state->sum[row], state->output[row]);
    }
}

static void attend(const ew_attention *a) {
    query_planes planes;
    attention_run state, later;
    value_page values;
    const value_shape shape = find_value_shape(a->layout);
    quantize_queries(a, &planes);
    size_t n_positions = seen_by_any(a);
    for (size_t begin = 0; begin < n_positions; begin += EW_ATTENTION_PARTIAL) {
        compute_run(a, &planes, &shape, begin, begin == 0, &values, begin == 0 ? &state : &later);
        if (begin > 0) {
            merge_run(a, begin, &later, &state);
        }
    }
    write_outputs(a, &state);
}

static void attend_runs(const ew_attention *a, size_t begin, size_t end, size_t n_runs, float *partials) {
    size_t padded_dim = a->layout->padded_dim, stride = ew_attention_partial_floats(a->layout);
    query_planes planes;
    attention_run run;
    value_page values;
    const value_shape shape = find_value_shape(a->layout);
    quantize_queries(a, &planes);
    for (size_t i = begin; i < end && i * EW_ATTENTION_PARTIAL < seen_by_any(a); i++) {
        compute_run(a, &planes, &shape, i * EW_ATTENTION_PARTIAL, i == begin, &values, &run);
        for (size_t row = 0; row < a->n_rows; row++) {
            if (seen_from(a, row, i * EW_ATTENTION_PARTIAL, 1) > 0) {
                float *partial = partials + (row * n_runs + i) * stride;
                for (size_t c = 0; c < padded_dim; c += LANES) {
                    lanes_store(partial + c, lanes_load(&run.output[row][c]));
                }
                partial[padded_dim] = run.maximum[row];
                partial[padded_dim + 1] = run.sum[row];
            }
        }
    }
}

static void merge_runs(const ew_attention *a, size_t n_runs, float *partials) {
    size_t padded_dim = a->layout->padded_dim, stride = ew_attention_partial_floats(a->layout);
    for (size_t row = 0; row < a->n_rows; row++) {
        float *state = partials + row * n_runs * stride, *later = state + stride;
        for (size_t at = EW_ATTENTION_PARTIAL; at < a->n_positions[row]; at += EW_ATTENTION_PARTIAL, later += stride) {
            merge_row(padded_dim, &state[padded_dim], &state[padded_dim + 1], state, later[padded_dim],
                      later[padded_dim + 1], later);
        }
        write_output(a, row, state[padded_dim + 1], state);
    }
}

#endif
