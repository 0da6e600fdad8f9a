#include "model/weights.h"
#include "base/memory.h"
#include "quant/pack.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const linear_names[EW_LINEARS] = {"attn_q.weight",      "attn_k.weight",   "attn_v.weight",
                                                     "attn_output.weight", "ffn_gate.weight", "ffn_up.weight",
                                                     "ffn_down.weight"};

const ew_matrix *ew_layer_linear(const ew_layer *layer, ew_linear_kind kind) {
    const ew_matrix *const linears[EW_LINEARS] = {&layer->q,    &layer->k,  &layer->v,   &layer->o,
                                                  &layer->gate, &layer->up, &layer->down};
    return linears[kind];
}

ew_linear_name ew_layer_linear_name(size_t layer, ew_linear_kind kind) {
    ew_linear_name name;
    snprintf(name.text, sizeof name.text, "blk.%zu.%s", layer, linear_names[kind]);
    return name;
}

/* Where the weights come from, and the names of one layer's tensors. */
typedef struct loader {
    const ew_checkpoint *checkpoint;
    const ew_edgewise_file *file; /* NULL unless the checkpoint is an Edgewise file */
    bool views;                   /* matrices are views of the file */
    ew_matrix_format format;      /* of matrices that are made */
    ew_pool *pool;
    ew_model_weights *weights;
    ew_error *error;
} loader;

typedef struct tensor_name {
    char text[64];
} tensor_name;

static tensor_name layer_tensor(size_t layer, const char *rest) {
    tensor_name name;
    snprintf(name.text, sizeof name.text, "blk.%zu.%s", layer, rest);
    return name;
}

static ew_status fail_missing(const loader *l, const char *name) {
    return ew_fail(l->error, EW_ERROR_FORMAT, "%s has no tensor %s", ew_checkpoint_path(l->checkpoint), name);
}

/* Keeps `memory` to be freed with the weights; frees it itself when that fails. */
static ew_status keep(const loader *l, void *memory, size_t bytes) {
    ew_model_weights *weights = l->weights;
    if (!ew_grow((void **)&weights->owned, &weights->owned_capacity, weights->n_owned + 1, sizeof *weights->owned)) {
        free(memory);
        return ew_fail_memory(l->error, sizeof *weights->owned, "the list of weights");
    }
    weights->owned[weights->n_owned++] = memory;
    weights->bytes += bytes;
    return EW_OK;
}

static size_t matrix_bytes(const ew_matrix *matrix) {
    ew_matrix_layout layout;
    return ew_matrix_plan(matrix->format, matrix->rows, matrix->cols, matrix->group, &layout, NULL) == EW_OK
               ? layout.total
               : 0;
}

static ew_status load_matrix(const loader *l, const char *name, ew_matrix *matrix) {
    const ew_matrix *packed = l->file ? ew_edgewise_file_matrix(l->file, name) : NULL;
    const ew_tensor *tensor = l->file ? NULL : ew_checkpoint_find(l->checkpoint, name);
    if (!packed && !tensor) {
        return fail_missing(l, name);
    }
    if (l->views) {
        *matrix = *packed;
        l->weights->bytes += matrix_bytes(matrix);
        return EW_OK;
    }
    void *memory = NULL;
    ew_status status = packed ? ew_matrix_dequantize(packed, l->format, l->pool, &memory, matrix, l->error)
                              : ew_matrix_from_tensor(tensor, l->format, l->pool, &memory, matrix, l->error);
    return status == EW_OK ? keep(l, memory, matrix_bytes(matrix)) : status;
}

/* A norm or a bias of n values. */
static ew_status load_vector(const loader *l, const char *name, size_t n, const float **vector) {
    if (l->file) {
        *vector = ew_edgewise_file_vector(l->file, name);
        return *vector ? EW_OK : fail_missing(l, name);
    }
    const ew_tensor *tensor = ew_checkpoint_find(l->checkpoint, name);
    if (!tensor || tensor->cols != n) {
        return fail_missing(l, name);
    }
    float *values = ew_allocate_aligned(n, sizeof *values);
    if (!values) {
        return ew_fail_memory(l->error, n * sizeof *values, name);
    }
    ew_status status = ew_tensor_read_row(tensor, 0, values, l->error);
    if (status != EW_OK) {
        free(values);
        return status;
    }
    *vector = values;
    return keep(l, values, n * sizeof *values);
}

typedef struct vector_entry {
    bool present;
    const char *name;
    size_t n;
    const float **vector;
} vector_entry;

static ew_status load_layer(const loader *l, const ew_config *config, size_t index) {
    ew_layer *layer = &l->weights->layers[index];
    size_t q_width = config->n_heads * config->head_dim, kv_width = config->n_kv_heads * config->head_dim;
    ew_matrix *const linears[EW_LINEARS] = {&layer->q,    &layer->k,  &layer->v,   &layer->o,
                                            &layer->gate, &layer->up, &layer->down};
    const vector_entry vectors[] = {
        {true, "attn_norm.weight", config->d_model, &layer->attn_norm},
        {true, "ffn_norm.weight", config->d_model, &layer->ffn_norm},
        {config->qkv_bias, "attn_q.bias", q_width, &layer->q_bias},
        {config->qkv_bias, "attn_k.bias", kv_width, &layer->k_bias},
        {config->qkv_bias, "attn_v.bias", kv_width, &layer->v_bias},
        {config->o_bias, "attn_output.bias", config->d_model, &layer->o_bias},
        {config->qk_norm, "attn_q_norm.weight", config->head_dim, &layer->q_norm},
        {config->qk_norm, "attn_k_norm.weight", config->head_dim, &layer->k_norm},
    };
    ew_status status = EW_OK;
    for (int kind = 0; status == EW_OK && kind < EW_LINEARS; kind++) {
        status = load_matrix(l, ew_layer_linear_name(index, (ew_linear_kind)kind).text, linears[kind]);
    }
    for (size_t i = 0; status == EW_OK && i < sizeof vectors / sizeof *vectors; i++) {
        if (vectors[i].present) {
            status = load_vector(l, layer_tensor(index, vectors[i].name).text, vectors[i].n, vectors[i].vector);
        }
    }
    return status;
}

/* A tied head is the embedding, unless the quantizer wrote a head of its own. */
static ew_status load_head(const loader *l, const ew_config *config) {
    static const char name[] = "output.weight";
    bool separate = l->file ? ew_edgewise_file_matrix(l->file, name) != NULL : !config->tied_embeddings;
    if (!separate) {
        l->weights->head = l->weights->embedding;
        return EW_OK;
    }
    return load_matrix(l, name, &l->weights->head);
}

static ew_status load(const loader *l) {
    const ew_config *config = ew_checkpoint_config(l->checkpoint);
    l->weights->layers = ew_allocate(config->n_layers, sizeof *l->weights->layers);
    if (!l->weights->layers) {
        return ew_fail_memory(l->error, config->n_layers * sizeof *l->weights->layers, "the list of layers");
    }
    ew_status status = load_matrix(l, "token_embd.weight", &l->weights->embedding);
    for (size_t i = 0; status == EW_OK && i < config->n_layers; i++) {
        status = load_layer(l, config, i);
    }
    if (status == EW_OK) {
        status = load_vector(l, "output_norm.weight", config->d_model, &l->weights->output_norm);
    }
    return status == EW_OK ? load_head(l, config) : status;
}

ew_status ew_weights_from_file(const ew_edgewise_file *file, ew_model_weights *weights, ew_error *error) {
    *weights = (ew_model_weights){.quantized = true, .activations = file->activations, .kv_grain = file->kv_grain};
    const loader l = {.checkpoint = file->checkpoint, .file = file, .views = true, .weights = weights, .error = error};
    ew_status status = load(&l);
    if (status != EW_OK) {
        ew_weights_free(weights);
    }
    return status;
}

ew_status ew_weights_unquantized(const ew_checkpoint *checkpoint, const ew_edgewise_file *file, ew_matrix_format format,
                                 ew_pool *pool, ew_model_weights *weights, ew_error *error) {
    enum { DEFAULT_KV_GRAIN = 32 };
    *weights = (ew_model_weights){.kv_grain = file ? file->kv_grain : DEFAULT_KV_GRAIN};
    const loader l = {
        .checkpoint = checkpoint, .file = file, .format = format, .pool = pool, .weights = weights, .error = error};
    ew_status status = load(&l);
    if (status != EW_OK) {
        ew_weights_free(weights);
    }
    return status;
}

void ew_weights_free(ew_model_weights *weights) {
    for (size_t i = 0; i < weights->n_owned; i++) {
        free(weights->owned[i]);
    }
    free(weights->owned);
    free(weights->layers);
    *weights = (ew_model_weights){0};
}
