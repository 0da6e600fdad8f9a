#include "model/adapter.h"
#include "base/float16.h"
#include "base/memory.h"
#include "format/bundle.h"
#include "model/options.h"
#include "quant/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every load has a number of its own, so that cells of an adapter that was unloaded, or loaded again after its file has
 * changed, are never taken for those of another. */
static uint64_t next_load(void) {
    static atomic_uint_fast64_t n_loads;
    return atomic_fetch_add(&n_loads, 1) + 1;
}

/* The one thing of it that changes. */
static atomic_size_t *references(const ew_adapter *adapter) {
    return &((ew_adapter *)adapter)->n_references;
}

void ew_adapter_retain(const ew_adapter *adapter) {
    if (adapter) {
        atomic_fetch_add(references(adapter), 1);
    }
}

static void destroy(ew_adapter *adapter) {
    for (size_t i = 0; adapter->pairs && i < adapter->n_pairs; i++) {
        free(adapter->pairs[i].memory[0]);
        free(adapter->pairs[i].memory[1]);
    }
    free(adapter->pairs);
    free(adapter->name);
    free(adapter->invocation_tokens);
    free(adapter);
}

void ew_adapter_release(const ew_adapter *adapter) {
    if (adapter && atomic_fetch_sub(references(adapter), 1) == 1) {
        destroy((ew_adapter *)adapter);
    }
}

/* ---- Factors ---- */

/* One factor on its way into memory. */
typedef struct conversion {
    const ew_lora_factor *factor;
    ew_adapter_storage storage; /* F32, F16 or INT8 */
    bool as_float;              /* INT8 values are held as the floats that they stand for */
    const char *name;           /* of the matrix, for messages */
    ew_packing packing;
    float *values; /* [cols] */
    int8_t *codes; /* [cols] */
} conversion;

static ew_adapter_storage natural_storage(const ew_lora_factor *factor, ew_adapter_storage wanted) {
    if (wanted != EW_ADAPTER_KEEP) {
        return wanted;
    }
    switch (factor->values.type) {
    case EW_DTYPE_I8:
        return EW_ADAPTER_INT8;
    case EW_DTYPE_F16:
        return EW_ADAPTER_F16;
    default:
        return EW_ADAPTER_F32;
    }
}

static ew_status read_int8_row(conversion *c, size_t row, float *scale, ew_error *error) {
    const ew_lora_factor *factor = c->factor;
    if (factor->values.type == EW_DTYPE_I8) {
        memcpy(c->codes, ew_tensor_row(&factor->values, row), factor->values.cols);
        memcpy(scale, ew_tensor_row(&factor->scales, row), sizeof *scale);
        return EW_OK;
    }
    ew_status status = ew_lora_read_row(factor, row, c->values, error);
    if (status == EW_OK) {
        ew_lora_encode_int8(c->values, factor->values.cols, c->codes, scale);
    }
    return status;
}

static ew_status check_half(const conversion *c, ew_error *error) {
    for (size_t i = 0; i < c->factor->values.cols; i++) {
        if ((ew_f32_to_f16(c->values[i]) & 0x7c00) == 0x7c00) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "%g, a value of the adapter of %s, is too large for F16",
                           (double)c->values[i], c->name);
        }
    }
    return EW_OK;
}

static ew_status convert_row(conversion *c, size_t row, ew_error *error) {
    size_t cols = c->factor->values.cols;
    if (c->storage == EW_ADAPTER_INT8) {
        float scale;
        ew_status status = read_int8_row(c, row, &scale, error);
        if (status != EW_OK) {
            return status;
        }
        if (!c->as_float) {
            ew_pack_codes(&c->packing, row, c->codes, &scale, NULL);
            return EW_OK;
        }
        for (size_t i = 0; i < cols; i++) {
            c->values[i] = scale * (float)c->codes[i];
        }
    } else {
        ew_status status = ew_lora_read_row(c->factor, row, c->values, error);
        if (status == EW_OK && c->storage == EW_ADAPTER_F16) {
            status = check_half(c, error);
        }
        if (status != EW_OK) {
            return status;
        }
    }
    ew_pack_floats(&c->packing, row, c->values);
    return EW_OK;
}

static ew_status convert(conversion *c, ew_error *error) {
    const ew_tensor *values = &c->factor->values;
    bool codes = c->storage == EW_ADAPTER_INT8 && !c->as_float;
    ew_matrix_format format = codes ? EW_MATRIX_INT8 : c->storage == EW_ADAPTER_F16 ? EW_MATRIX_F16 : EW_MATRIX_F32;
    c->values = ew_allocate(values->cols, sizeof *c->values);
    c->codes = ew_allocate(values->cols, sizeof *c->codes);
    ew_status status = c->values && c->codes
                           ? ew_packing_open(format, values->rows, values->cols, 0, &c->packing, error)
                           : ew_fail_memory(error, values->cols * sizeof *c->values, "a row of an adapter");
    for (size_t row = 0; status == EW_OK && row < values->rows; row++) {
        status = convert_row(c, row, error);
    }
    free(c->values);
    free(c->codes);
    return status;
}

/* Factor 0 (A) or 1 (B) of a pair. */
static ew_status load_factor(ew_adapter *adapter, const ew_lora_factor *factor, ew_adapter_storage storage,
                             const char *name, ew_adapter_pair *pair, int which, ew_error *error) {
    conversion c = {.factor = factor,
                    .storage = natural_storage(factor, storage),
                    .as_float = !adapter->model->weights.quantized,
                    .name = name};
    ew_status status = convert(&c, error);
    if (status != EW_OK) {
        ew_packing_free(&c.packing);
        return status;
    }
    ew_matrix matrix = ew_packing_view(&c.packing);
    pair->memory[which] = c.packing.memory;
    *(which == 0 ? &pair->a : &pair->b) = matrix;
    adapter->float_inputs |= which == 0 && ew_matrix_is_float(matrix.format);
    adapter->info.bytes += c.packing.layout.total;
    adapter->info.n_values += factor->values.rows * factor->values.cols;
    return EW_OK;
}

/* ---- Adapters ---- */

static bool shapes_fit(const ew_lora_target *target, const ew_matrix *matrix) {
    return target->rank > 0 && target->a.values.rows == target->rank && target->a.values.cols == matrix->cols &&
           target->b.values.rows == matrix->rows && target->b.values.cols == target->rank;
}

static ew_status load_pair(ew_adapter *adapter, const ew_lora *lora, const ew_lora_target *target, size_t layer,
                           ew_linear_kind kind, ew_adapter_storage storage, ew_error *error) {
    ew_adapter_pair *pair = &adapter->pairs[layer * EW_LINEARS + (size_t)kind];
    if (!shapes_fit(target, ew_layer_linear(&adapter->model->weights.layers[layer], kind))) {
        return ew_fail(error, EW_ERROR_FORMAT, "the adapter of %s has other sizes than the model's matrix",
                       target->name);
    }
    pair->rank = target->rank;
    pair->scale = (float)ew_lora_scale(lora, target);
    adapter->info.rank = pair->rank > adapter->info.rank ? pair->rank : adapter->info.rank;
    adapter->info.n_matrices++;
    ew_status status = load_factor(adapter, &target->a, storage, target->name, pair, 0, error);
    return status == EW_OK ? load_factor(adapter, &target->b, storage, target->name, pair, 1, error) : status;
}

static ew_status load_pairs(ew_adapter *adapter, const ew_lora *lora, ew_adapter_storage storage, ew_error *error) {
    size_t n_layers = adapter->model->config.n_layers;
    adapter->n_pairs = n_layers * EW_LINEARS;
    adapter->pairs = ew_allocate(adapter->n_pairs, sizeof *adapter->pairs);
    if (!adapter->pairs) {
        return ew_fail_memory(error, adapter->n_pairs * sizeof *adapter->pairs, "an adapter");
    }
    for (size_t layer = 0; layer < n_layers; layer++) {
        for (int kind = 0; kind < EW_LINEARS; kind++) {
            ew_linear_name name = ew_layer_linear_name(layer, (ew_linear_kind)kind);
            const ew_lora_target *target = ew_lora_find(lora, name.text);
            ew_status status =
                target ? load_pair(adapter, lora, target, layer, (ew_linear_kind)kind, storage, error) : EW_OK;
            if (status != EW_OK) {
                return status;
            }
        }
    }
    return adapter->info.n_matrices == lora->n_targets
               ? EW_OK
               : ew_fail(error, EW_ERROR_FORMAT, "%zu of the adapter's %zu matrices are not in the model",
                         lora->n_targets - adapter->info.n_matrices, lora->n_targets);
}

static ew_status copy_texts(ew_adapter *adapter, const ew_lora *lora, ew_error *error) {
    const char *name = lora->name ? lora->name : "";
    size_t n_tokens = lora->n_invocation_tokens;
    adapter->name = ew_copy_text(name, strlen(name));
    adapter->invocation_tokens = ew_allocate(n_tokens, sizeof *adapter->invocation_tokens);
    if (!adapter->name || !adapter->invocation_tokens) {
        return ew_fail_memory(error, strlen(name) + n_tokens * sizeof *adapter->invocation_tokens, "an adapter");
    }
    if (n_tokens > 0) {
        memcpy(adapter->invocation_tokens, lora->invocation_tokens, n_tokens * sizeof *adapter->invocation_tokens);
    }
    adapter->info.name = adapter->name;
    adapter->info.invocation_tokens = n_tokens > 0 ? adapter->invocation_tokens : NULL;
    adapter->info.n_invocation_tokens = n_tokens;
    return EW_OK;
}

ew_status ew_adapter_from_lora(const ew_model *model, const ew_lora *lora, ew_adapter_storage storage, ew_adapter **out,
                               ew_error *error) {
    *out = NULL;
    ew_adapter *adapter = ew_allocate(1, sizeof *adapter);
    if (!adapter) {
        return ew_fail_memory(error, sizeof *adapter, "an adapter");
    }
    atomic_init(&adapter->n_references, 1);
    adapter->model = model;
    adapter->info.load = next_load();
    ew_status status = copy_texts(adapter, lora, error);
    if (status == EW_OK) {
        status = load_pairs(adapter, lora, storage, error);
    }
    if (status != EW_OK) {
        destroy(adapter);
        return status;
    }
    *out = adapter;
    return EW_OK;
}

static ew_status load_file(const ew_model *model, const ew_adapter_file *file, ew_adapter_storage storage,
                           ew_adapter **adapter, ew_error *error) {
    bool own_file = model->checkpoint && ew_checkpoint_kind(model->checkpoint) == EW_CHECKPOINT_EDGEWISE;
    bool other_weights;
    ew_status status = ew_adapter_match_base(file, own_file ? model->file.source_fingerprint : NULL,
                                             own_file ? model->file.weights_fingerprint : NULL, &other_weights, error);
    if (status == EW_OK) {
        ew_error inner;
        status = ew_adapter_from_lora(model, ew_adapter_file_content(file), storage, adapter, &inner);
        if (status != EW_OK) {
            return ew_fail(error, status, "%s: %s", ew_adapter_file_path(file), inner.message);
        }
        (*adapter)->info.other_weights = other_weights;
        status = ew_lora_fingerprint(ew_adapter_file_content(file), (*adapter)->fingerprint, error);
    }
    if (status != EW_OK) {
        ew_adapter_release(*adapter);
        *adapter = NULL;
    }
    return status;
}

ew_status ew_adapter_load(const ew_model *model, const char *path, const ew_adapter_options *given, ew_adapter **out,
                          ew_error *error) {
    *out = NULL;
    ew_adapter_options options = EW_ADAPTER_OPTIONS_INIT;
    ew_status status = ew_read_options(given, &options, sizeof options, "ew_adapter_options", error);
    if (status != EW_OK) {
        return status;
    }
    if (!path) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "no adapter is named");
    }
    if ((unsigned)options.storage > EW_ADAPTER_INT8) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "there is no storage %d for adapters", (int)options.storage);
    }
    ew_adapter_file *file;
    const char *part;
    status = ew_bundle_path(path, &part)
                 ? ew_bundle_adapter_open(model->checkpoint ? ew_checkpoint_gguf(model->checkpoint) : NULL, part,
                                          &model->config, &file, error)
                 : ew_adapter_open(path, &model->config, &file, error);
    if (status == EW_OK) {
        status = load_file(model, file, options.storage, out, error);
        ew_adapter_close(file);
    }
    return status;
}

void ew_adapter_unload(ew_adapter *adapter) {
    ew_adapter_release(adapter);
}

void ew_adapter_describe(const ew_adapter *adapter, ew_adapter_info *info) {
    ew_write_info(&adapter->info, sizeof adapter->info, info);
}
