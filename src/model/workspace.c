#include "base/memory.h"
#include "model/model.h"

#include <stdlib.h>

static bool allocate_rows(float **rows, size_t n_rows, size_t width) {
    size_t n;
    *rows = ew_multiply_size(n_rows, width, &n) ? ew_allocate_aligned(n, sizeof(float)) : NULL;
    return *rows != NULL;
}

static bool allocate_floats(const ew_config *config, size_t n_rows, ew_workspace *w) {
    size_t q_width = config->n_heads * config->head_dim, kv_width = config->n_kv_heads * config->head_dim;
    w->attention.spans = ew_allocate(n_rows, sizeof *w->attention.spans);
    size_t n_done;
    if (ew_multiply_size(n_rows, config->n_kv_heads, &n_done)) {
        w->attention.n_done = ew_allocate(n_done, sizeof *w->attention.n_done);
    }
    return w->attention.spans && w->attention.n_done && allocate_rows(&w->residual, n_rows, config->d_model) &&
           allocate_rows(&w->normed, n_rows, config->d_model) && allocate_rows(&w->q, n_rows, q_width) &&
           allocate_rows(&w->attended, n_rows, q_width) && allocate_rows(&w->k, n_rows, kv_width) &&
           allocate_rows(&w->v, n_rows, kv_width) && allocate_rows(&w->gate, n_rows, config->d_ff) &&
           allocate_rows(&w->up, n_rows, config->d_ff) && allocate_rows(&w->projected, n_rows, config->d_model) &&
           allocate_rows(&w->cosine, n_rows, config->head_dim / 2) &&
           allocate_rows(&w->sine, n_rows, config->head_dim / 2);
}

ew_status ew_workspace_allocate(const ew_model *model, size_t n_rows, ew_workspace *workspace, ew_error *error) {
    const ew_config *config = &model->config;
    *workspace = (ew_workspace){.n_rows = n_rows};
    ew_status status = EW_OK;
    if (!allocate_floats(config, n_rows, workspace)) {
        status = ew_fail_memory(error, n_rows * (config->d_model + config->d_ff) * sizeof(float), "the work space");
    }
    ew_activation_type type = model->weights.activations;
    if (status == EW_OK && model->weights.quantized) {
        status = ew_activations_allocate(&workspace->inputs, type, config->d_model, n_rows, error);
    }
    if (status == EW_OK && model->weights.quantized) {
        status = ew_activations_allocate(&workspace->attended_inputs, type, config->n_heads * config->head_dim, n_rows,
                                         error);
    }
    if (status == EW_OK && model->weights.quantized) {
        status = ew_activations_allocate(&workspace->hidden_inputs, type, config->d_ff, n_rows, error);
    }
    if (status != EW_OK) {
        ew_workspace_free(workspace);
    }
    return status;
}

void ew_workspace_free(ew_workspace *w) {
    float *rows[] = {w->residual, w->normed, w->q,         w->attended, w->k,   w->v,
                     w->gate,     w->up,     w->projected, w->cosine,   w->sine};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        free(rows[i]);
    }
    free(w->attention.spans);
    free(w->attention.n_done);
    free(w->attention.partials);
    ew_activations_free(&w->inputs);
    ew_activations_free(&w->attended_inputs);
    ew_activations_free(&w->hidden_inputs);
    *w = (ew_workspace){0};
}
