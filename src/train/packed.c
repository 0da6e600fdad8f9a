#include "train/packed.h"
#include "train/worker.h"

#ifdef EW_TRAIN_DOUBLE

void ew_forward_packed(ew_worker *worker, const ew_rows *rows, size_t index, bool adapted, ew_record *record,
                       real *output) {
    (void)worker, (void)rows, (void)index, (void)adapted, (void)record, (void)output;
}

#else

#include <string.h>

/* ---- Memory ---- */

static void take_activations(ew_bump *bump, ew_activation_type type, size_t cols, size_t n_rows,
                             ew_activations *activations) {
    *activations = (ew_activations){.type = type, .cols = cols, .capacity = n_rows};
    activations->n_blocks = (cols + EW_BLOCK_COLS - 1) / EW_BLOCK_COLS;
    size_t blocks;
    if (!ew_multiply_size(activations->n_blocks, n_rows, &blocks)) {
        bump->overflow = true;
        return;
    }
    activations->codes = ew_take(bump, blocks, ew_activation_block_bytes(type));
    activations->sums = ew_take(bump, blocks, sizeof *activations->sums);
    activations->scales = ew_take(bump, n_rows * ew_activation_scales_per_token(activations), sizeof(float));
}

void ew_packed_take(ew_worker *worker, ew_bump *bump, size_t n_sequences, size_t n_rows) {
    const ew_model *model = worker->network->model;
    const ew_config *config = &model->config;
    ew_packed *p = &worker->packed;
    size_t q_width = config->n_heads * config->head_dim;
    p->layout = ew_kv_layout_make(true, config->head_dim, model->weights.kv_grain);
    p->page_bytes = p->layout.page_bytes * config->n_layers * config->n_kv_heads;
    p->n_pages = worker->n_cells / EW_PAGE_POSITIONS + n_sequences; /* a last page of each may be begun */
    p->pages = ew_take(bump, p->n_pages, p->page_bytes);
    p->tables = ew_take(bump, p->n_pages, sizeof *p->tables);
    take_activations(bump, model->weights.activations, config->d_model, n_rows, &p->inputs);
    take_activations(bump, model->weights.activations, q_width, n_rows, &p->attended_inputs);
    take_activations(bump, model->weights.activations, config->d_ff, n_rows, &p->hidden_inputs);
    p->plain = ew_take_rows(bump, n_rows, config->d_ff > q_width ? config->d_ff : q_width);
    p->added = ew_take_rows(bump, n_rows, config->d_ff > q_width ? config->d_ff : q_width);
}

/* A span's pages: sequences follow each other, each beginning with a page of its own. */
void ew_packed_begin(ew_worker *worker) {
    ew_packed *p = &worker->packed;
    size_t page = 0;
    memset(p->pages, 0, p->n_pages * p->page_bytes);
    for (size_t i = 0; i < p->n_pages; i++) {
        p->tables[i] = p->pages + i * p->page_bytes;
    }
    for (size_t i = 0; i < worker->rows.n_spans; i++) {
        ew_span *span = &worker->rows.spans[i];
        size_t n_cells = span->position + span->n_rows;
        span->page = page;
        for (size_t j = 0; j < worker->prompt.n_spans; j++) {
            if (worker->prompt.spans[j].sequence == span->sequence) {
                worker->prompt.spans[j].page = page;
            }
        }
        page += (n_cells + EW_PAGE_POSITIONS - 1) / EW_PAGE_POSITIONS;
    }
}

/* ---- What the products saw ---- */

static ew_activations *activations_of(ew_packed *p, size_t width) {
    return width == p->inputs.cols          ? &p->inputs
           : width == p->hidden_inputs.cols ? &p->hidden_inputs
                                            : &p->attended_inputs;
}

void ew_packed_round_rows(ew_worker *worker, real *x, size_t n, size_t width) {
    if (!worker->network->model) {
        return;
    }
    ew_activations *activations = activations_of(&worker->packed, width);
    for (size_t row = 0; row < n; row++) {
        worker->packed.kernels->quantize(x + row * width, row, activations);
        worker->packed.kernels->dequantize(activations, row, x + row * width);
    }
}

void ew_packed_round_queries(ew_worker *worker, real *q) {
    enum { BLOCKS = EW_HEAD_DIM_MAX / EW_BLOCK_COLS };
    _Alignas(64) int8_t codes[BLOCKS * 2 * EW_BLOCK_COLS];
    int32_t sums[BLOCKS];
    float scale;
    const ew_config *config = &worker->network->config;
    ew_activations head = {.type = EW_ACTIVATION_INT16, .cols = config->head_dim, .n_tokens = 1, .capacity = 1};
    head.n_blocks = (config->head_dim + EW_BLOCK_COLS - 1) / EW_BLOCK_COLS;
    head.codes = codes;
    head.sums = sums;
    head.scales = &scale;
    for (size_t i = 0; i < worker->rows.n_rows * config->n_heads; i++) {
        worker->packed.kernels->quantize(q + i * config->head_dim, 0, &head);
        worker->packed.kernels->dequantize(&head, 0, q + i * config->head_dim);
    }
}

/* One position of one head. */
static void read_cell(const ew_kv_layout *layout, const uint8_t *page, size_t position, real *key, real *value) {
    const int8_t *k_codes = (const int8_t *)page, *v_codes = (const int8_t *)page + layout->v_codes_at;
    const float *k_scales = (const float *)(const void *)(page + layout->k_scales_at);
    const float *v_scales = (const float *)(const void *)(page + layout->v_scales_at);
    for (size_t c = 0; c < layout->head_dim; c++) {
        size_t g = c / layout->grain;
        key[c] = k_scales[g * EW_PAGE_POSITIONS + position] *
                 (float)k_codes[(c / 4 * EW_PAGE_POSITIONS + position) * 4 + c % 4];
        value[c] = v_scales[position * layout->n_scales + g] * (float)v_codes[position * layout->padded_dim + c];
    }
}

/* Where a layer's and head's part of the page of a position stands. */
static uint8_t *part_of_page(const ew_worker *worker, const ew_span *span, size_t layer, size_t kv_head,
                             size_t position) {
    const ew_packed *p = &worker->packed;
    return p->tables[span->page + position / EW_PAGE_POSITIONS] +
           (layer * worker->network->config.n_kv_heads + kv_head) * p->layout.page_bytes;
}

void ew_packed_read_cells(ew_worker *worker, size_t layer, real *keys, real *values) {
    const ew_config *config = &worker->network->config;
    size_t head_dim = config->head_dim, kv_width = config->n_kv_heads * head_dim;
    for (size_t s = 0; s < worker->rows.n_spans; s++) {
        const ew_span *span = &worker->rows.spans[s];
        for (size_t position = 0; position < span->position + span->n_rows; position++) {
            size_t at = (span->cell + position) * kv_width;
            for (size_t head = 0; head < config->n_kv_heads; head++) {
                read_cell(&worker->packed.layout, part_of_page(worker, span, layer, head, position),
                          position % EW_PAGE_POSITIONS, keys + at + head * head_dim, values + at + head * head_dim);
            }
        }
    }
}

/* ---- The engine's forward pass (model/forward.c), step by step ---- */

static size_t tiles_of(const ew_matrix *matrix) {
    return (matrix->rows + EW_TILE_ROWS - 1) / EW_TILE_ROWS;
}

void ew_packed_norm(ew_worker *worker, const real *x, const real *weight, size_t n, real *y) {
    worker->packed.kernels->rms_norm(x, weight, n, worker->network->config.rms_norm_eps, y);
}

/* Rows of x become the inputs of products; `plain`, where an adapter reads them as floats. */
static void quantize_rows(ew_worker *worker, const real *x, size_t n, ew_activations *inputs) {
    inputs->n_tokens = n;
    for (size_t row = 0; row < n; row++) {
        worker->packed.kernels->quantize(x + row * inputs->cols, row, inputs);
    }
}

static void read_plain(ew_worker *worker, const ew_activations *inputs) {
    for (size_t row = 0; row < inputs->n_tokens; row++) {
        worker->packed.kernels->dequantize(inputs, row, worker->packed.plain + row * inputs->cols);
    }
}

void ew_packed_head(ew_worker *worker, size_t n, real *logits) {
    const ew_matrix *head = worker->network->head.packed;
    quantize_rows(worker, worker->scratch.normed, n, &worker->packed.inputs);
    worker->packed.kernels->matmul(head, 0, tiles_of(head), &worker->packed.inputs, logits, head->rows);
}

/* y = W x [+ scale B (A x)] from quantized inputs, which stand as floats in `plain` where there are adapters. */
static void linear(ew_worker *worker, const ew_rows *rows, size_t layer, ew_linear_kind kind, bool adapted,
                   const ew_activations *inputs, real *u, real *y) {
    const ew_kernels *kernels = worker->packed.kernels;
    const ew_train_linear *l = &worker->network->layers[layer].linears[kind];
    kernels->matmul(l->packed, 0, tiles_of(l->packed), inputs, y, l->rows);
    if (!adapted || l->rank == 0) {
        return;
    }
    const ew_adapter_pair *pair = ew_adapter_pair_of(worker->network->adapter, layer, kind);
    const real *x = ew_adapter_input(worker, rows, layer, kind, worker->packed.plain);
    kernels->matmul_float(&pair->a, 0, tiles_of(&pair->a), x, l->cols, rows->n_rows, u, l->rank);
    kernels->matmul_float(&pair->b, 0, tiles_of(&pair->b), u, l->rank, rows->n_rows, worker->packed.added, l->rows);
    kernels->add_scaled(y, worker->packed.added, pair->scale, rows->n_rows * l->rows);
}

static void add_bias(const ew_worker *worker, size_t n_rows, size_t width, const real *bias, real *x) {
    for (size_t row = 0; bias && row < n_rows; row++) {
        worker->packed.kernels->add(x + row * width, bias, width);
    }
}

/* Bias, norm (Qwen3) and rotation; raw receives what the norm reads. */
static void finish_heads(const ew_worker *worker, const ew_rows *rows, size_t n_heads, const real *bias,
                         const real *norm, real *raw, real *heads) {
    const ew_config *config = &worker->network->config;
    const ew_kernels *kernels = worker->packed.kernels;
    size_t head_dim = config->head_dim, half = head_dim / 2;
    add_bias(worker, rows->n_rows, n_heads * head_dim, bias, heads);
    if (norm) {
        memcpy(raw, heads, rows->n_rows * n_heads * head_dim * sizeof *heads);
    }
    for (size_t i = 0; i < rows->n_rows * n_heads; i++) {
        real *x = heads + i * head_dim;
        size_t row = i / n_heads;
        if (norm) {
            kernels->rms_norm(x, norm, head_dim, config->rms_norm_eps, x);
        }
        kernels->rope(x, rows->cosine + row * half, rows->sine + row * half, head_dim);
    }
}

static void store_cells(ew_worker *worker, const ew_rows *rows, size_t layer, const real *keys, const real *values) {
    const ew_config *config = &worker->network->config;
    size_t head_dim = config->head_dim, kv_width = config->n_kv_heads * head_dim;
    for (size_t s = 0; s < rows->n_spans; s++) {
        const ew_span *span = &rows->spans[s];
        for (size_t i = 0; i < span->n_rows; i++) {
            size_t position = span->position + i, at = (span->row + i) * kv_width;
            for (size_t head = 0; head < config->n_kv_heads; head++) {
                worker->packed.kernels->store_kv(
                    &worker->packed.layout, part_of_page(worker, span, layer, head, position),
                    position % EW_PAGE_POSITIONS, keys + at + head * head_dim, values + at + head * head_dim);
            }
        }
    }
}

/* Query heads first .. first + n_heads - 1 of rows begin .. begin + n - 1 of a span. */
static void attend_rows(ew_worker *worker, const ew_span *span, size_t layer, size_t kv_head, size_t first,
                        size_t n_heads, size_t begin, size_t n, const ew_record *record) {
    const ew_config *config = &worker->network->config;
    size_t head_dim = config->head_dim, width = config->n_heads * head_dim, count = 0;
    const float *queries[EW_ATTENTION_ROWS];
    float *outputs[EW_ATTENTION_ROWS];
    const uint8_t *const *pages[EW_ATTENTION_ROWS];
    uint32_t n_positions[EW_ATTENTION_ROWS];
    for (size_t i = begin; i < begin + n; i++) {
        for (size_t head = first; head < first + n_heads; head++, count++) {
            size_t at = (span->row + i) * width + head * head_dim;
            queries[count] = record->q + at;
            outputs[count] = record->attended + at;
            pages[count] = (const uint8_t *const *)(worker->packed.tables + span->page);
            n_positions[count] = (uint32_t)(span->position + i + 1);
        }
    }
    const ew_attention attention = {
        .layout = &worker->packed.layout,
        .pages = pages,
        .page_offset = (layer * config->n_kv_heads + kv_head) * worker->packed.layout.page_bytes,
        .n_rows = count,
        .queries = queries,
        .n_positions = n_positions,
        .softmax_scale = 1.0f / sqrtf((float)head_dim),
        .outputs = outputs,
    };
    worker->packed.kernels->attend(&attention);
}

static void attend(ew_worker *worker, const ew_rows *rows, size_t layer, const ew_record *record) {
    const ew_config *config = &worker->network->config;
    size_t group = config->n_heads / config->n_kv_heads;
    size_t heads_together = group < EW_ATTENTION_ROWS ? group : EW_ATTENTION_ROWS;
    size_t rows_together = EW_ATTENTION_ROWS / heads_together;
    for (size_t item = 0; item < rows->n_spans * config->n_kv_heads; item++) {
        const ew_span *span = &rows->spans[item / config->n_kv_heads];
        size_t kv_head = item % config->n_kv_heads;
        for (size_t done = 0; done < group; done += heads_together) {
            size_t n_heads = group - done < heads_together ? group - done : heads_together;
            for (size_t begin = 0; begin < span->n_rows; begin += rows_together) {
                size_t n = span->n_rows - begin < rows_together ? span->n_rows - begin : rows_together;
                attend_rows(worker, span, layer, kv_head, kv_head * group + done, n_heads, begin, n, record);
            }
        }
    }
}

static void forward_attention(ew_worker *worker, const ew_rows *rows, size_t index, bool adapted, ew_record *record) {
    const ew_layer *layer = &worker->network->model->weights.layers[index];
    const ew_config *config = &worker->network->config;
    ew_scratch *scratch = &worker->scratch;
    ew_packed *p = &worker->packed;
    size_t n = rows->n_rows, d_model = config->d_model;
    for (size_t row = 0; row < n; row++) {
        ew_packed_norm(worker, record->input + row * d_model, layer->attn_norm, d_model,
                       scratch->normed + row * d_model);
    }
    quantize_rows(worker, scratch->normed, n, &p->inputs);
    read_plain(worker, &p->inputs);
    linear(worker, rows, index, EW_LINEAR_Q, adapted, &p->inputs, record->u[EW_LINEAR_Q], record->q);
    linear(worker, rows, index, EW_LINEAR_K, adapted, &p->inputs, record->u[EW_LINEAR_K], scratch->keys);
    linear(worker, rows, index, EW_LINEAR_V, adapted, &p->inputs, record->u[EW_LINEAR_V], scratch->values);
    finish_heads(worker, rows, config->n_heads, layer->q_bias, layer->q_norm, record->q_raw, record->q);
    finish_heads(worker, rows, config->n_kv_heads, layer->k_bias, layer->k_norm, record->k_raw, scratch->keys);
    add_bias(worker, n, config->n_kv_heads * config->head_dim, layer->v_bias, scratch->values);
    store_cells(worker, rows, index, scratch->keys, scratch->values);
    attend(worker, rows, index, record);
    quantize_rows(worker, record->attended, n, &p->attended_inputs);
    read_plain(worker, &p->attended_inputs);
    linear(worker, rows, index, EW_LINEAR_O, adapted, &p->attended_inputs, record->u[EW_LINEAR_O], scratch->projected);
    add_bias(worker, n, d_model, layer->o_bias, scratch->projected);
    memcpy(record->middle, record->input, n * d_model * sizeof(real));
    p->kernels->add(record->middle, scratch->projected, n * d_model);
}

void ew_forward_packed(ew_worker *worker, const ew_rows *rows, size_t index, bool adapted, ew_record *record,
                       real *output) {
    const ew_layer *layer = &worker->network->model->weights.layers[index];
    const ew_config *config = &worker->network->config;
    ew_scratch *scratch = &worker->scratch;
    ew_packed *p = &worker->packed;
    size_t n = rows->n_rows, d_model = config->d_model, d_ff = config->d_ff;
    forward_attention(worker, rows, index, adapted, record);
    for (size_t row = 0; row < n; row++) {
        ew_packed_norm(worker, record->middle + row * d_model, layer->ffn_norm, d_model,
                       scratch->normed + row * d_model);
    }
    quantize_rows(worker, scratch->normed, n, &p->inputs);
    read_plain(worker, &p->inputs);
    linear(worker, rows, index, EW_LINEAR_GATE, adapted, &p->inputs, record->u[EW_LINEAR_GATE], record->gate);
    linear(worker, rows, index, EW_LINEAR_UP, adapted, &p->inputs, record->u[EW_LINEAR_UP], record->up);
    for (size_t row = 0; row < n; row++) {
        p->kernels->swiglu(record->gate + row * d_ff, record->up + row * d_ff, d_ff, scratch->hidden + row * d_ff);
    }
    quantize_rows(worker, scratch->hidden, n, &p->hidden_inputs);
    read_plain(worker, &p->hidden_inputs);
    linear(worker, rows, index, EW_LINEAR_DOWN, adapted, &p->hidden_inputs, record->u[EW_LINEAR_DOWN],
           scratch->projected);
    if (output != record->middle) {
        memcpy(output, record->middle, n * d_model * sizeof(real));
    }
    p->kernels->add(output, scratch->projected, n * d_model);
}

#endif
