/* The forward pass of float weights: the model's equations over the rows of a pass. */
#include "train/pointwise.h"
#include "train/worker.h"

#include <string.h>

static void norm_rows(const ew_worker *worker, size_t n, const real *x, const ew_train_tensor *weight, real *y) {
    const ew_config *config = &worker->network->config;
    for (size_t row = 0; row < n; row++) {
        ew_norm_forward(x + row * config->d_model, weight->values, config->d_model, (real)config->rms_norm_eps,
                        y + row * config->d_model);
    }
}

/* Norm (Qwen3) and rotation of all heads of all rows, in place; raw receives what the norm reads. */
static void finish_heads(const ew_worker *worker, const ew_rows *rows, size_t n_heads, const ew_train_tensor *norm,
                         real *raw, real *heads) {
    const ew_config *config = &worker->network->config;
    size_t head_dim = config->head_dim, half = head_dim / 2;
    if (norm->values) {
        memcpy(raw, heads, rows->n_rows * n_heads * head_dim * sizeof *heads);
    }
    for (size_t i = 0; i < rows->n_rows * n_heads; i++) {
        real *x = heads + i * head_dim;
        size_t row = i / n_heads;
        if (norm->values) {
            ew_norm_forward(x, norm->values, head_dim, (real)config->rms_norm_eps, x);
        }
        ew_rotate(x, rows->cosine + row * half, rows->sine + row * half, head_dim);
    }
}

/* Rows of keys or values become the cells of their positions. */
static void store_cells(const ew_rows *rows, size_t width, const real *x, real *cells) {
    for (size_t s = 0; s < rows->n_spans; s++) {
        const ew_span *span = &rows->spans[s];
        memcpy(cells + (span->cell + span->position) * width, x + span->row * width, span->n_rows * width * sizeof *x);
    }
}

static void forward_attention(ew_worker *worker, const ew_rows *rows, size_t index, bool adapted, ew_record *record) {
    const ew_train_layer *layer = &worker->network->layers[index];
    const ew_config *config = &worker->network->config;
    ew_scratch *scratch = &worker->scratch;
    size_t kv_width = config->n_kv_heads * config->head_dim, cells = index * worker->n_cells * kv_width;
    norm_rows(worker, rows->n_rows, record->input, &layer->attn_norm, scratch->normed);
    ew_linear_forward(worker, rows, index, EW_LINEAR_Q, adapted, scratch->normed, record->u[EW_LINEAR_Q], record->q);
    ew_linear_forward(worker, rows, index, EW_LINEAR_K, adapted, scratch->normed, record->u[EW_LINEAR_K],
                      scratch->keys);
    ew_linear_forward(worker, rows, index, EW_LINEAR_V, adapted, scratch->normed, record->u[EW_LINEAR_V],
                      scratch->values);
    finish_heads(worker, rows, config->n_heads, &layer->q_norm, record->q_raw, record->q);
    finish_heads(worker, rows, config->n_kv_heads, &layer->k_norm, record->k_raw, scratch->keys);
    store_cells(rows, kv_width, scratch->keys, worker->k + cells);
    store_cells(rows, kv_width, scratch->values, worker->v + cells);
    ew_attention_forward(worker, rows, worker->k + cells, worker->v + cells, record->q, record->attended);
    ew_linear_forward(worker, rows, index, EW_LINEAR_O, adapted, record->attended, record->u[EW_LINEAR_O],
                      record->middle);
    ew_add(record->middle, record->input, rows->n_rows * config->d_model);
}

void ew_forward_layer(ew_worker *worker, const ew_rows *rows, size_t index, bool adapted, ew_record *record,
                      real *output) {
    if (worker->network->model) {
        ew_forward_packed(worker, rows, index, adapted, record, output);
        return;
    }
    const ew_train_layer *layer = &worker->network->layers[index];
    ew_scratch *scratch = &worker->scratch;
    size_t d_model = worker->network->config.d_model, d_ff = worker->network->config.d_ff;
    forward_attention(worker, rows, index, adapted, record);
    norm_rows(worker, rows->n_rows, record->middle, &layer->ffn_norm, scratch->normed);
    ew_linear_forward(worker, rows, index, EW_LINEAR_GATE, adapted, scratch->normed, record->u[EW_LINEAR_GATE],
                      record->gate);
    ew_linear_forward(worker, rows, index, EW_LINEAR_UP, adapted, scratch->normed, record->u[EW_LINEAR_UP], record->up);
    ew_swiglu_forward(record->gate, record->up, rows->n_rows * d_ff, scratch->hidden);
    ew_linear_forward(worker, rows, index, EW_LINEAR_DOWN, adapted, scratch->hidden, record->u[EW_LINEAR_DOWN], output);
    ew_add(output, record->middle, rows->n_rows * d_model);
}

void ew_embed_rows(const ew_worker *worker, const ew_rows *rows, real *output) {
    const ew_network *network = worker->network;
    size_t d_model = network->config.d_model;
    for (size_t row = 0; row < rows->n_rows; row++) {
        size_t id = (size_t)rows->tokens[row];
        if (network->model) {
            ew_packed_read_rows(&network->model->weights.embedding, id, 1, output + row * d_model);
        } else {
            memcpy(output + row * d_model, network->embedding.values + id * d_model, d_model * sizeof *output);
        }
    }
}
