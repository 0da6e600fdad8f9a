#include "model/cost.h"

static double stored_bytes(const ew_matrix *matrix) {
    ew_matrix_layout layout;
    ew_status status = ew_matrix_plan(matrix->format, matrix->rows, matrix->cols, matrix->group, &layout, NULL);
    return status == EW_OK ? (double)layout.total : 0;
}

static double weights_of(const ew_matrix *matrix) {
    return (double)matrix->rows * (double)matrix->cols;
}

ew_step_cost ew_model_step_cost(const ew_model *model, size_t n_tokens, size_t n_logits, size_t n_cells) {
    const ew_model_weights *weights = &model->weights;
    ew_model_info info = {.size = sizeof info};
    ew_model_describe(model, &info);
    ew_step_cost cost = {.bytes = (double)n_cells * (double)info.kv_bytes_per_token};
    for (size_t i = 0; i < model->config.n_layers; i++) {
        const ew_layer *layer = &weights->layers[i];
        for (int kind = 0; kind < EW_LINEARS; kind++) {
            const ew_matrix *matrix = ew_layer_linear(layer, (ew_linear_kind)kind);
            cost.bytes += stored_bytes(matrix);
            cost.macs += weights_of(matrix) * (double)n_tokens;
        }
    }
    if (n_logits > 0) {
        cost.bytes += stored_bytes(&weights->head);
        cost.macs += weights_of(&weights->head) * (double)n_logits;
    }
    return cost;
}

ew_step_cost ew_adapter_step_cost(const ew_adapter *adapter, size_t n_tokens) {
    return (ew_step_cost){.bytes = (double)adapter->info.bytes,
                          .macs = (double)adapter->info.n_values * (double)n_tokens};
}
