/* docs/arithmetic.md as code: plain loops, one value at a time. Every other kernel set is tested against this file
 * bit for bit, so clarity comes before speed here. */
#include "kernel/scalar.h"
#include "base/float16.h"

#include <math.h>

enum { LANES = 16, SEGMENT_BLOCKS = 64, SEGMENT_BLOCKS_INT8 = 16, CODE_MAX_16 = 32639, CODE_MAX_8 = 127 };

/* "In 16 lanes": the last steps of a sum. */
static float add_lanes(float lanes[LANES]) {
    for (int width = LANES / 2; width >= 1; width /= 2) {
        for (int j = 0; j < width; j++) {
            lanes[j] = lanes[j] + lanes[j + width];
        }
    }
    return lanes[0];
}

static float exponential(float x) {
    if (isnan(x)) {
        return x;
    }
    if (x < -87.0f) {
        return 0.0f;
    }
    if (x > 88.0f) {
        x = 88.0f;
    }
    float n = rintf(x * 0x1.715476p+0f);
    float r = fmaf(n, -0x1.62e4p-1f, x);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float q = 0x1.6d117cp-10f;
    q = fmaf(q, r, 0x1.120be2p-7f);
    q = fmaf(q, r, 0x1.555518p-5f);
    q = fmaf(q, r, 0x1.5554dcp-3f);
    q = fmaf(q, r, 0x1p-1f);
    float power = ew_float_from_bits((uint32_t)((int)n + 127) << 23);
    return (fmaf(q, r * r, r) + 1.0f) * power;
}

/* w(x) of softmax. */
static float softmax_weight(float x) {
    return x < -64.0f ? 0.0f : exponential(x);
}

static void rms_norm(const float *x, const float *weight, size_t n, float epsilon, float *y) {
    float lanes[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        lanes[i % LANES] = fmaf(x[i], x[i], lanes[i % LANES]);
    }
    float mean = add_lanes(lanes) / (float)n;
    float scale = 1.0f / sqrtf(mean + epsilon);
    for (size_t i = 0; i < n; i++) {
        y[i] = (x[i] * scale) * weight[i];
    }
}

static void add(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        x[i] = x[i] + y[i];
    }
}

static void add_scaled(float *x, const float *y, float factor, size_t n) {
    for (size_t i = 0; i < n; i++) {
        x[i] = fmaf(factor, y[i], x[i]);
    }
}

static void swiglu(const float *gate, const float *up, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) {
        float silu = gate[i] / (1.0f + exponential(-gate[i]));
        y[i] = silu * up[i];
    }
}

static void rope(float *x, const float *cosine, const float *sine, size_t head_dim) {
    size_t half = head_dim / 2;
    for (size_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = fmaf(a, cosine[i], -(b * sine[i]));
        x[i + half] = fmaf(b, cosine[i], a * sine[i]);
    }
}

/* The scale of n values for codes up to code_max; NaN when one of them is not finite. */
static float find_scale(const float *x, size_t n, int code_max) {
    uint32_t largest = 0; /* bit patterns of magnitudes order like the magnitudes, infinity and NaN above all */
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = ew_float_to_bits(x[i]) & 0x7fffffff;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest >= 0x7f800000 ? NAN : ew_float_from_bits(largest) / (float)code_max;
}

static int quantize_value(float x, float scale, int code_max) {
    if (isnan(scale) || scale == 0.0f) {
        return 0;
    }
    float q = rintf(x / scale);
    return q > (float)code_max ? code_max : q < (float)-code_max ? -code_max : (int)q;
}

static int high_plane(int code) {
    return (code + 128 + (1 << 20)) / 256 - (1 << 12); /* floor((code + 128) / 256) */
}

/* How many of `cols` inputs stand in a block. */
static size_t cols_of_block(size_t cols, size_t block) {
    size_t rest = cols - block * EW_BLOCK_COLS;
    return rest < EW_BLOCK_COLS ? rest : EW_BLOCK_COLS;
}

static void quantize(const float *x, size_t token, ew_activations *activations) {
    bool wide = activations->type == EW_ACTIVATION_INT16;
    size_t block_bytes = ew_activation_block_bytes(activations->type);
    float scale = wide ? find_scale(x, activations->cols, CODE_MAX_16) : 0.0f;
    if (wide) {
        activations->scales[token] = scale;
    }
    for (size_t block = 0; block < activations->n_blocks; block++) {
        size_t index = token * activations->n_blocks + block, begin = block * EW_BLOCK_COLS;
        size_t n = cols_of_block(activations->cols, block);
        int8_t *codes = activations->codes + index * block_bytes;
        if (!wide) {
            scale = activations->scales[index] = find_scale(x + begin, n, CODE_MAX_8);
        }
        int sum = 0;
        for (size_t i = 0; i < EW_BLOCK_COLS; i++) {
            int code = i < n ? quantize_value(x[begin + i], scale, wide ? CODE_MAX_16 : CODE_MAX_8) : 0;
            sum += code;
            if (wide) {
                codes[i] = (int8_t)high_plane(code);
                codes[EW_BLOCK_COLS + i] = (int8_t)(code - 256 * high_plane(code));
            } else {
                codes[i] = (int8_t)code;
            }
        }
        activations->sums[index] = sum;
    }
}

static void activation_codes(const ew_activations *x, size_t token, size_t block, int codes[EW_BLOCK_COLS]) {
    const int8_t *stored = x->codes + (token * x->n_blocks + block) * ew_activation_block_bytes(x->type);
    for (size_t i = 0; i < EW_BLOCK_COLS; i++) {
        codes[i] = x->type == EW_ACTIVATION_INT16 ? 256 * stored[i] + stored[EW_BLOCK_COLS + i] : stored[i];
    }
}

static void dequantize(const ew_activations *activations, size_t token, float *x) {
    const float *scales = activations->scales + token * ew_activation_scales_per_token(activations);
    bool wide = activations->type == EW_ACTIVATION_INT16;
    for (size_t block = 0; block < activations->n_blocks; block++) {
        int codes[EW_BLOCK_COLS];
        activation_codes(activations, token, block, codes);
        for (size_t i = 0; i < cols_of_block(activations->cols, block); i++) {
            x[block * EW_BLOCK_COLS + i] = scales[wide ? 0 : block] * (float)codes[i];
        }
    }
}

/* S_b of one row, token and block. */
static int32_t block_dot(const ew_matrix *w, size_t row, const ew_activations *x, size_t token, size_t block) {
    int8_t weights[EW_BLOCK_COLS];
    int inputs[EW_BLOCK_COLS];
    int32_t sum = 0;
    ew_matrix_block_codes(w, row, block, weights);
    activation_codes(x, token, block, inputs);
    for (size_t i = 0; i < cols_of_block(w->cols, block); i++) {
        sum += weights[i] * inputs[i];
    }
    return sum;
}

/* p_k and t_k over the blocks begin .. end - 1. */
static void group_partials(const ew_matrix *w, size_t row, const ew_activations *x, size_t token, size_t begin,
                           size_t end, float *p, float *t) {
    const int32_t *sums = x->sums + token * x->n_blocks;
    *p = *t = 0.0f;
    if (x->type == EW_ACTIVATION_INT8) {
        const float *scales = x->scales + token * x->n_blocks;
        for (size_t block = begin; block < end; block++) {
            *p = fmaf(scales[block], (float)block_dot(w, row, x, token, block), *p);
            *t = fmaf(scales[block], (float)sums[block], *t);
        }
        return;
    }
    size_t step = w->format == EW_MATRIX_INT8 ? SEGMENT_BLOCKS_INT8 : SEGMENT_BLOCKS;
    for (size_t segment = begin; segment < end; segment += step) {
        int32_t dot = 0, sum = 0;
        for (size_t block = segment; block < end && block < segment + step; block++) {
            dot += block_dot(w, row, x, token, block);
            sum += sums[block];
        }
        *p = *p + (float)dot;
        *t = *t + (float)sum;
    }
}

static float row_times_token(const ew_matrix *w, size_t row, const ew_activations *x, size_t token) {
    size_t group_blocks = w->group == 0 ? x->n_blocks : w->group / EW_BLOCK_COLS;
    float y = 0.0f;
    for (size_t begin = 0; begin < x->n_blocks; begin += group_blocks) {
        size_t end = begin + group_blocks < x->n_blocks ? begin + group_blocks : x->n_blocks;
        size_t group_index = begin / group_blocks;
        float p, t;
        group_partials(w, row, x, token, begin, end, &p, &t);
        y = fmaf(ew_matrix_scale(w, row, group_index), p, y);
        if (w->format == EW_MATRIX_INT4_OFFSET) {
            y = fmaf(ew_matrix_offset(w, row, group_index), t, y);
        }
    }
    return x->type == EW_ACTIVATION_INT16 ? y * x->scales[token] : y;
}

static size_t last_row(const ew_matrix *w, size_t tile_end) {
    return tile_end * EW_TILE_ROWS < w->rows ? tile_end * EW_TILE_ROWS : w->rows;
}

static void matmul(const ew_matrix *w, size_t tile_begin, size_t tile_end, const ew_activations *x, float *y,
                   size_t y_stride) {
    for (size_t row = tile_begin * EW_TILE_ROWS; row < last_row(w, tile_end); row++) {
        for (size_t token = 0; token < x->n_tokens; token++) {
            y[token * y_stride + row] = row_times_token(w, row, x, token);
        }
    }
}

static float float_weight(const ew_matrix *w, size_t index) {
    switch (w->format) {
    case EW_MATRIX_F32:
        return ((const float *)w->codes)[index];
    case EW_MATRIX_F16:
        return ew_f16_to_f32(((const uint16_t *)w->codes)[index]);
    default:
        return ew_bf16_to_f32(((const uint16_t *)w->codes)[index]);
    }
}

static void matmul_float(const ew_matrix *w, size_t tile_begin, size_t tile_end, const float *x, size_t x_stride,
                         size_t n_tokens, float *y, size_t y_stride) {
    for (size_t row = tile_begin * EW_TILE_ROWS; row < last_row(w, tile_end); row++) {
        size_t first = (row / EW_TILE_ROWS) * w->cols * EW_TILE_ROWS + row % EW_TILE_ROWS;
        for (size_t token = 0; token < n_tokens; token++) {
            float sum = 0.0f;
            for (size_t col = 0; col < w->cols; col++) {
                sum = fmaf(float_weight(w, first + col * EW_TILE_ROWS), x[token * x_stride + col], sum);
            }
            y[token * y_stride + row] = sum;
        }
    }
}

static void store_kv(const ew_kv_layout *layout, uint8_t *page, size_t position, const float *key, const float *value) {
    size_t dim = layout->head_dim;
    if (!layout->quantized) {
        float *keys = (float *)(void *)page, *values = (float *)(void *)(page + layout->v_codes_at);
        for (size_t c = 0; c < dim; c++) {
            keys[position * dim + c] = key[c];
            values[position * dim + c] = value[c];
        }
        return;
    }
    int8_t *k_codes = (int8_t *)page, *v_codes = (int8_t *)page + layout->v_codes_at;
    float *k_scales = (float *)(void *)(page + layout->k_scales_at);
    float *v_scales = (float *)(void *)(page + layout->v_scales_at);
    for (size_t g = 0; g < layout->n_scales; g++) {
        size_t begin = g * layout->grain, n = dim - begin < layout->grain ? dim - begin : layout->grain;
        float k_scale = find_scale(key + begin, n, CODE_MAX_8), v_scale = find_scale(value + begin, n, CODE_MAX_8);
        k_scales[g * EW_PAGE_POSITIONS + position] = k_scale;
        v_scales[position * layout->n_scales + g] = v_scale;
        for (size_t c = begin; c < begin + n; c++) {
            k_codes[(c / 4 * EW_PAGE_POSITIONS + position) * 4 + c % 4] =
                (int8_t)quantize_value(key[c], k_scale, CODE_MAX_8);
            v_codes[position * layout->padded_dim + c] = (int8_t)quantize_value(value[c], v_scale, CODE_MAX_8);
        }
    }
}

/* The running state of one query row: maximum, sum and unnormalised output. */
typedef struct {
    float maximum, sum;
    float output[EW_HEAD_DIM_MAX];
} softmax_state;

static const uint8_t *page_of(const ew_attention *attention, size_t row, size_t position) {
    return attention->pages[row][position / EW_PAGE_POSITIONS] + attention->page_offset;
}

/* a_t: the query's codes against the cell at `position`, scale group by scale group. */
static float score(const ew_attention *attention, size_t row, const int *query, size_t position) {
    const ew_kv_layout *layout = attention->layout;
    const uint8_t *page = page_of(attention, row, position);
    const int8_t *codes = (const int8_t *)page;
    const float *scales = (const float *)(const void *)(page + layout->k_scales_at);
    size_t slot = position % EW_PAGE_POSITIONS;
    float sum = 0.0f;
    for (size_t g = 0; g < layout->n_scales; g++) {
        size_t end = (g + 1) * layout->grain < layout->head_dim ? (g + 1) * layout->grain : layout->head_dim;
        int32_t dot = 0;
        for (size_t c = g * layout->grain; c < end; c++) {
            dot += query[c] * codes[(c / 4 * EW_PAGE_POSITIONS + slot) * 4 + c % 4];
        }
        sum = fmaf(scales[g * EW_PAGE_POSITIONS + slot], (float)dot, sum);
    }
    return sum;
}

static void add_value(const ew_attention *attention, size_t row, float probability, size_t position, float *output) {
    const ew_kv_layout *layout = attention->layout;
    const uint8_t *page = page_of(attention, row, position);
    size_t slot = position % EW_PAGE_POSITIONS;
    const int8_t *codes = (const int8_t *)page + layout->v_codes_at + slot * layout->padded_dim;
    const float *scales = (const float *)(const void *)(page + layout->v_scales_at) + slot * layout->n_scales;
    for (size_t c = 0; c < layout->head_dim; c++) {
        output[c] = fmaf(probability * scales[c / layout->grain], (float)codes[c], output[c]);
    }
}

/* One run of at most 256 positions, begin .. end - 1. */
static void attend_run(const ew_attention *attention, size_t row, const int *query, float scale, size_t begin,
                       size_t end, softmax_state *state) {
    float scores[EW_ATTENTION_PARTIAL], lanes[LANES] = {0};
    *state = (softmax_state){.maximum = -INFINITY};
    for (size_t t = begin; t < end; t++) {
        scores[t - begin] = scale * score(attention, row, query, t);
        if (!(scores[t - begin] <= state->maximum)) { /* a NaN becomes the maximum and poisons the row */
            state->maximum = scores[t - begin];
        }
    }
    for (size_t t = begin; t < end; t++) {
        float probability = softmax_weight(scores[t - begin] - state->maximum);
        lanes[(t - begin) % LANES] = lanes[(t - begin) % LANES] + probability;
        add_value(attention, row, probability, t, state->output);
    }
    state->sum = add_lanes(lanes);
}

static void merge_run(softmax_state *state, const softmax_state *run, size_t head_dim) {
    float maximum = state->maximum > run->maximum ? state->maximum : run->maximum;
    float old = softmax_weight(state->maximum - maximum), new = softmax_weight(run->maximum - maximum);
    state->sum = fmaf(state->sum, old, run->sum * new);
    for (size_t c = 0; c < head_dim; c++) {
        state->output[c] = fmaf(state->output[c], old, run->output[c] * new);
    }
    state->maximum = maximum;
}

/* A query's codes; returns C. */
static float quantize_query(const ew_attention *attention, size_t row, int *query) {
    const float *x = attention->queries[row];
    float scale = find_scale(x, attention->layout->head_dim, CODE_MAX_16);
    for (size_t c = 0; c < attention->layout->head_dim; c++) {
        query[c] = quantize_value(x[c], scale, CODE_MAX_16);
    }
    return scale * attention->softmax_scale;
}

/* Run `index` of a row that sees some of it. */
static void attend_run_of_row(const ew_attention *attention, size_t row, const int *query, float scale, size_t index,
                              softmax_state *state) {
    size_t begin = index * EW_ATTENTION_PARTIAL, n = attention->n_positions[row];
    size_t end = begin + EW_ATTENTION_PARTIAL < n ? begin + EW_ATTENTION_PARTIAL : n;
    attend_run(attention, row, query, scale, begin, end, state);
}

static size_t runs_of_row(const ew_attention *attention, size_t row) {
    return (attention->n_positions[row] + EW_ATTENTION_PARTIAL - 1) / EW_ATTENTION_PARTIAL;
}

static void write_output(const ew_attention *attention, size_t row, const softmax_state *state) {
    float reciprocal = 1.0f / state->sum;
    for (size_t c = 0; c < attention->layout->head_dim; c++) {
        attention->outputs[row][c] = state->output[c] * reciprocal;
    }
}

static void attend_row(const ew_attention *attention, size_t row) {
    int query[EW_HEAD_DIM_MAX];
    float scale = quantize_query(attention, row, query);
    softmax_state state = {.maximum = -INFINITY}, run;
    for (size_t i = 0; i < runs_of_row(attention, row); i++) {
        attend_run_of_row(attention, row, query, scale, i, i == 0 ? &state : &run);
        if (i > 0) {
            merge_run(&state, &run, attention->layout->head_dim);
        }
    }
    write_output(attention, row, &state);
}

static void attend(const ew_attention *attention) {
    for (size_t row = 0; row < attention->n_rows; row++) {
        attend_row(attention, row);
    }
}

/* A partial in memory: o, M, L. */
static void save_partial(const ew_attention *attention, const softmax_state *state, float *partial) {
    size_t dim = attention->layout->padded_dim;
    memcpy(partial, state->output, dim * sizeof *partial);
    partial[dim] = state->maximum;
    partial[dim + 1] = state->sum;
}

static softmax_state load_partial(const ew_attention *attention, const float *partial) {
    size_t dim = attention->layout->padded_dim;
    softmax_state state = {.maximum = partial[dim], .sum = partial[dim + 1]};
    memcpy(state.output, partial, dim * sizeof *partial);
    return state;
}

static void attend_runs(const ew_attention *attention, size_t begin, size_t end, size_t n_runs, float *partials) {
    size_t stride = ew_attention_partial_floats(attention->layout);
    for (size_t row = 0; row < attention->n_rows; row++) {
        int query[EW_HEAD_DIM_MAX];
        float scale = quantize_query(attention, row, query);
        for (size_t i = begin; i < end && i < runs_of_row(attention, row); i++) {
            softmax_state state;
            attend_run_of_row(attention, row, query, scale, i, &state);
            save_partial(attention, &state, partials + (row * n_runs + i) * stride);
        }
    }
}

static void merge_runs(const ew_attention *attention, size_t n_runs, float *partials) {
    size_t stride = ew_attention_partial_floats(attention->layout);
    for (size_t row = 0; row < attention->n_rows; row++) {
        const float *partial = partials + row * n_runs * stride;
        softmax_state state = load_partial(attention, partial);
        for (size_t i = 1; i < runs_of_row(attention, row); i++) {
            softmax_state run = load_partial(attention, partial + i * stride);
            merge_run(&state, &run, attention->layout->head_dim);
        }
        write_output(attention, row, &state);
    }
}

/* Key or value of one position as floats, from either kind of page. */
static void read_cell(const ew_attention *attention, size_t row, size_t position, bool is_key, float *out) {
    const ew_kv_layout *layout = attention->layout;
    const uint8_t *page = page_of(attention, row, position);
    size_t slot = position % EW_PAGE_POSITIONS, dim = layout->head_dim;
    if (!layout->quantized) {
        const float *cells = (const float *)(const void *)(page + (is_key ? 0 : layout->v_codes_at));
        for (size_t c = 0; c < dim; c++) {
            out[c] = cells[slot * dim + c];
        }
        return;
    }
    const int8_t *codes = (const int8_t *)page + (is_key ? 0 : layout->v_codes_at);
    const float *scales = (const float *)(const void *)(page + (is_key ? layout->k_scales_at : layout->v_scales_at));
    for (size_t c = 0; c < dim; c++) {
        size_t g = c / layout->grain;
        out[c] =
            is_key ? scales[g * EW_PAGE_POSITIONS + slot] * (float)codes[(c / 4 * EW_PAGE_POSITIONS + slot) * 4 + c % 4]
                   : scales[slot * layout->n_scales + g] * (float)codes[slot * layout->padded_dim + c];
    }
}

static void attend_float_row(const ew_attention *attention, size_t row) {
    size_t dim = attention->layout->head_dim;
    float cell[EW_HEAD_DIM_MAX], output[EW_HEAD_DIM_MAX] = {0}, maximum = -INFINITY, sum = 0.0f;
    for (size_t t = 0; t < attention->n_positions[row]; t++) {
        float dot = 0.0f;
        read_cell(attention, row, t, true, cell);
        for (size_t c = 0; c < dim; c++) {
            dot = fmaf(attention->queries[row][c], cell[c], dot);
        }
        dot = dot * attention->softmax_scale;
        float larger = dot <= maximum ? maximum : dot;
        float old = t == 0 ? 0.0f : expf(maximum - larger), new = expf(dot - larger);
        read_cell(attention, row, t, false, cell);
        for (size_t c = 0; c < dim; c++) {
            output[c] = fmaf(new, cell[c], output[c] * old);
        }
        sum = fmaf(sum, old, new);
        maximum = larger;
    }
    for (size_t c = 0; c < dim; c++) {
        attention->outputs[row][c] = output[c] / sum;
    }
}

static void attend_float(const ew_attention *attention) {
    for (size_t row = 0; row < attention->n_rows; row++) {
        attend_float_row(attention, row);
    }
}

/* Chains of products as the compiler makes them of plain code. */
static int32_t dot_peak(size_t repeats) {
    uint32_t sums[EW_DOT_PEAK_PRODUCTS] = {0};
    for (size_t i = 0; i < repeats; i++) {
        for (size_t c = 0; c < EW_DOT_PEAK_PRODUCTS; c++) {
            sums[c] = sums[c] * 3 + (uint32_t)c;
        }
    }
    uint32_t total = 0;
    for (size_t c = 0; c < EW_DOT_PEAK_PRODUCTS; c++) {
        total += sums[c];
    }
    return (int32_t)(total & 0x7fffffff);
}

const ew_kernels ew_kernels_scalar = {
    .name = "scalar",
    .rms_norm = rms_norm,
    .add = add,
    .add_scaled = add_scaled,
    .swiglu = swiglu,
    .rope = rope,
    .quantize = quantize,
    .dequantize = dequantize,
    .matmul = matmul,
    .matmul_float = matmul_float,
    .store_kv = store_kv,
    .attend = attend,
    .attend_runs = attend_runs,
    .merge_runs = merge_runs,
    .attend_float = attend_float,
    .dot_peak = dot_peak,
};
