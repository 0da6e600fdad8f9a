/* The backward pass of a layer, forward.c read from bottom to top. On a quantized base inputs are taken as the products
 * saw them; each quantizer passes its gradient on as it is. */
#include "train/pointwise.h"
#include "train/worker.h"

#include <string.h>

/* The norm of the rows as the next product read it. */
static void norm_again(ew_worker *worker, const real *x, const ew_train_tensor *weight) {
    const ew_config *config = &worker->network->config;
    real *normed = worker->scratch.normed;
    for (size_t row = 0; row < worker->rows.n_rows; row++) {
        ew_norm_forward(x + row * config->d_model, weight->values, config->d_model, (real)config->rms_norm_eps,
                        normed + row * config->d_model);
    }
    ew_packed_round_rows(worker, normed, worker->rows.n_rows, config->d_model);
}

/* dx += through the norm of all rows; the weight's gradient too. */
static void norm_backward(ew_worker *worker, const real *x, const ew_train_tensor *weight, const real *dy, real *dx) {
    const ew_config *config = &worker->network->config;
    for (size_t row = 0; row < worker->rows.n_rows; row++) {
        size_t at = row * config->d_model;
        ew_norm_backward(x + at, weight->values, dy + at, config->d_model, (real)config->rms_norm_eps, dx + at,
                         ew_gradient_of(worker, weight));
    }
}

static void backward_mlp(ew_worker *worker, size_t index, const ew_record *record) {
    const ew_train_layer *layer = &worker->network->layers[index];
    const ew_config *config = &worker->network->config;
    ew_scratch *scratch = &worker->scratch;
    size_t n = worker->rows.n_rows, wide = n * config->d_ff;
    real *d_normed = scratch->projected;

    ew_swiglu_forward(record->gate, record->up, wide, scratch->hidden);
    ew_packed_round_rows(worker, scratch->hidden, n, config->d_ff);
    memset(scratch->d_up, 0, wide * sizeof(real));
    ew_linear_backward(worker, index, EW_LINEAR_DOWN, scratch->hidden, record->u[EW_LINEAR_DOWN], scratch->stream,
                       scratch->d_up);
    ew_swiglu_backward(record->gate, record->up, scratch->d_up, wide, scratch->d_gate, scratch->d_up);

    norm_again(worker, record->middle, &layer->ffn_norm);
    memset(d_normed, 0, n * config->d_model * sizeof(real));
    ew_linear_backward(worker, index, EW_LINEAR_GATE, scratch->normed, record->u[EW_LINEAR_GATE], scratch->d_gate,
                       d_normed);
    ew_linear_backward(worker, index, EW_LINEAR_UP, scratch->normed, record->u[EW_LINEAR_UP], scratch->d_up, d_normed);
    norm_backward(worker, record->middle, &layer->ffn_norm, d_normed, scratch->stream);
}

/* In place: the gradient by rotated heads becomes that by the product's rows. */
static void heads_backward(ew_worker *worker, size_t n_heads, const ew_train_tensor *norm, const real *raw, real *d) {
    const ew_config *config = &worker->network->config;
    const ew_rows *rows = &worker->rows;
    size_t head_dim = config->head_dim, half = head_dim / 2;
    real through[EW_CONFIG_MAX_HEAD_DIM];
    for (size_t i = 0; i < rows->n_rows * n_heads; i++) {
        real *x = d + i * head_dim;
        size_t row = i / n_heads;
        ew_rotate_back(x, rows->cosine + row * half, rows->sine + row * half, head_dim);
        if (norm->values) {
            memcpy(through, x, head_dim * sizeof *x);
            memset(x, 0, head_dim * sizeof *x);
            ew_norm_backward(raw + i * head_dim, norm->values, through, head_dim, (real)config->rms_norm_eps, x,
                             ew_gradient_of(worker, norm));
        }
    }
}

/* The layer's cells and queries as attention read them. */
static void cells_as_read(ew_worker *worker, size_t index, const ew_record *record, const real **q, const real **k,
                          const real **v) {
    const ew_config *config = &worker->network->config;
    size_t at = index * worker->n_cells * config->n_kv_heads * config->head_dim;
    *q = record->q;
    if (!worker->network->model) {
        *k = worker->k + at;
        *v = worker->v + at;
        return;
    }
    ew_scratch *scratch = &worker->scratch;
    size_t width = config->n_heads * config->head_dim;
    memcpy(scratch->heads, record->q, worker->rows.n_rows * width * sizeof(real));
    ew_packed_round_queries(worker, scratch->heads);
    ew_packed_read_cells(worker, index, scratch->seen_keys, scratch->seen_values);
    *q = scratch->heads;
    *k = scratch->seen_keys;
    *v = scratch->seen_values;
}

/* d_heads holds the gradient by the attention's output; on return it holds that by the rows of q. */
static void backward_cells(ew_worker *worker, size_t index, const ew_record *record) {
    const ew_train_layer *layer = &worker->network->layers[index];
    const ew_config *config = &worker->network->config;
    ew_scratch *scratch = &worker->scratch;
    const real *q, *k, *v;
    cells_as_read(worker, index, record, &q, &k, &v);
    ew_attention_backward(worker, q, k, v, record->attended, scratch->d_heads, scratch->d_heads, scratch->keys,
                          scratch->values);
    heads_backward(worker, config->n_heads, &layer->q_norm, record->q_raw, scratch->d_heads);
    heads_backward(worker, config->n_kv_heads, &layer->k_norm, record->k_raw, scratch->keys);
}

/* Whether anything below layer 0's attention wants a gradient. */
static bool wants_input(const ew_worker *worker, size_t index) {
    return index > 0 || worker->network->dense;
}

static void backward_attention(ew_worker *worker, size_t index, const ew_record *record) {
    const ew_train_layer *layer = &worker->network->layers[index];
    const ew_config *config = &worker->network->config;
    ew_scratch *scratch = &worker->scratch;
    size_t n = worker->rows.n_rows, width = config->n_heads * config->head_dim;
    real *attended = scratch->heads, *d_normed = scratch->projected;

    memcpy(attended, record->attended, n * width * sizeof(real));
    ew_packed_round_rows(worker, attended, n, width);
    memset(scratch->d_heads, 0, n * width * sizeof(real));
    ew_linear_backward(worker, index, EW_LINEAR_O, attended, record->u[EW_LINEAR_O], scratch->stream, scratch->d_heads);
    backward_cells(worker, index, record);

    norm_again(worker, record->input, &layer->attn_norm);
    real *dx = wants_input(worker, index) ? d_normed : NULL;
    memset(d_normed, 0, n * config->d_model * sizeof(real));
    ew_linear_backward(worker, index, EW_LINEAR_Q, scratch->normed, record->u[EW_LINEAR_Q], scratch->d_heads, dx);
    ew_linear_backward(worker, index, EW_LINEAR_K, scratch->normed, record->u[EW_LINEAR_K], scratch->keys, dx);
    ew_linear_backward(worker, index, EW_LINEAR_V, scratch->normed, record->u[EW_LINEAR_V], scratch->values, dx);
    if (dx) {
        norm_backward(worker, record->input, &layer->attn_norm, d_normed, scratch->stream);
    }
}

void ew_backward_layer(ew_worker *worker, size_t index, const ew_record *record) {
    backward_mlp(worker, index, record);
    backward_attention(worker, index, record);
}
