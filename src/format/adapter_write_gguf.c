#include "base/memory.h"
#include "format/adapter_rows.h"

#include <stdio.h>
#include <stdlib.h>

/* What is being written. */
typedef struct gguf_export {
    const ew_lora *adapter;
    const ew_config *base;
    ew_adapter_storage storage;
    const char *path;
    float alpha; /* the file's */
    ew_linear *linears;
    ew_name *order;
    ew_adapter_row row;
    ew_gguf_writer writer;
} gguf_export;

static ew_status to_gguf(void *file, const void *bytes, size_t length, ew_error *error) {
    return ew_gguf_writer_data(file, bytes, length, error);
}

/* What readers will multiply by alpha and divide by the rank. */
static double product_of(const ew_lora *adapter, const ew_lora_target *target) {
    return ew_lora_scale(adapter, target) * (double)target->rank;
}

/* The alpha that leaves most matrices as they are. */
static ew_status choose_alpha(gguf_export *export, ew_error *error) {
    size_t count = export->adapter->n_targets;
    double *products = ew_allocate(count, sizeof *products);
    if (!products) {
        return ew_fail_memory(error, count * sizeof *products, "the scales of an adapter");
    }
    for (size_t i = 0; i < count; i++) {
        products[i] = product_of(export->adapter, &export->adapter->targets[i]);
    }
    export->alpha = (float)ew_most_common(products, count);
    free(products);
    return EW_OK;
}

static ew_adapter_job job_of(const gguf_export *export, size_t index, bool b) {
    const ew_lora_target *target = &export->adapter->targets[index];
    const ew_linear *linear = &export->linears[index];
    ew_adapter_job job = {.factor = b ? &target->b : &target->a, .multiplier = 1};
    snprintf(job.name, sizeof job.name, "%s", linear->name);
    double product = product_of(export->adapter, target);
    if (b && (float)product != export->alpha) {
        job.multiplier = product / (double)export->alpha;
    }
    if (b && linear->rotated && export->base->architecture == EW_ARCHITECTURE_LLAMA) {
        job.interleave = export->base->head_dim;
    }
    ew_dtype own = job.factor->values.type;
    switch (export->storage) {
    case EW_ADAPTER_F32:
        job.type = EW_DTYPE_F32;
        break;
    case EW_ADAPTER_F16:
        job.type = EW_DTYPE_F16;
        break;
    case EW_ADAPTER_INT8:
        job.type = EW_DTYPE_I8;
        break;
    default:
        job.type = job.multiplier == 1 || own == EW_DTYPE_I8 ? own : EW_DTYPE_F32;
    }
    return job;
}

static void declare(gguf_export *export, size_t index, bool b) {
    ew_adapter_job job = job_of(export, index, b);
    const ew_tensor *values = &job.factor->values;
    char name[EW_TENSOR_NAME_BYTES + sizeof ".lora_a.scale"];
    snprintf(name, sizeof name, "%s.lora_%c", job.name, b ? 'b' : 'a');
    ew_gguf_write_tensor(&export->writer, name, job.type, 2, (uint64_t[]){values->cols, values->rows});
    if (job.type == EW_DTYPE_I8) {
        snprintf(name, sizeof name, "%s.lora_%c.scale", job.name, b ? 'b' : 'a');
        ew_gguf_write_tensor(&export->writer, name, EW_DTYPE_F32, 1, (uint64_t[]){values->rows});
    }
}

static void write_keys(gguf_export *export) {
    enum { QUANTIZATION_VERSION = 2 }; /* of ggml's block formats; llama.cpp writes it into every file */
    const ew_lora *adapter = export->adapter;
    ew_gguf_writer *writer = &export->writer;
    ew_gguf_write_text(writer, "general.architecture", ew_architecture_name(export->base->architecture));
    ew_gguf_write_text(writer, "general.type", "adapter");
    ew_gguf_write_text(writer, "adapter.type", "lora");
    ew_gguf_write_text(writer, "general.name", adapter->name ? adapter->name : "adapter");
    ew_gguf_write_f32(writer, "adapter.lora.alpha", export->alpha);
    if (adapter->n_invocation_tokens > 0) {
        ew_gguf_write_array(writer, "adapter.alora.invocation_tokens", EW_GGUF_UINT32, adapter->invocation_tokens,
                            adapter->n_invocation_tokens);
    }
    ew_gguf_write_u32(writer, "general.quantization_version", QUANTIZATION_VERSION);
    ew_gguf_write_u32(writer, "edgewise.adapter.version", EW_ADAPTER_VERSION);
    const struct {
        const char *key, *value;
    } texts[] = {{"edgewise.base.name", adapter->base_name},
                 {"edgewise.base.source", adapter->source_fingerprint},
                 {"edgewise.base.weights", adapter->weights_fingerprint}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].value) {
            ew_gguf_write_text(writer, texts[i].key, texts[i].value);
        }
    }
}

static ew_status write_factor(gguf_export *export, size_t index, bool b, ew_error *error) {
    ew_adapter_job job = job_of(export, index, b);
    ew_status status = ew_adapter_write_values(&job, &export->row, to_gguf, &export->writer, export->path, error);
    if (status == EW_OK && job.type == EW_DTYPE_I8) {
        status = ew_adapter_write_scales(&job, &export->row, to_gguf, &export->writer, error);
    }
    return status;
}

static ew_status write_file(gguf_export *export, ew_error *error) {
    size_t count = export->adapter->n_targets;
    ew_status status = ew_gguf_writer_open(export->path, &export->writer, error);
    if (status != EW_OK) {
        return status;
    }
    write_keys(export);
    for (size_t i = 0; i < 2 * count; i++) {
        declare(export, export->order[i / 2].index, i % 2 == 1);
    }
    status = ew_gguf_writer_begin(&export->writer, error);
    for (size_t i = 0; i < 2 * count && status == EW_OK; i++) {
        status = write_factor(export, export->order[i / 2].index, i % 2 == 1, error);
    }
    if (status != EW_OK) {
        ew_gguf_writer_abandon(&export->writer);
        return status;
    }
    return ew_gguf_writer_commit(&export->writer, error);
}

ew_status ew_adapter_write_gguf(const ew_lora *adapter, const ew_config *base, ew_adapter_storage storage,
                                const char *path, ew_error *error) {
    gguf_export export = {.adapter = adapter, .base = base, .storage = storage, .path = path};
    ew_status status = ew_adapter_check(adapter, base, path, error);
    if (status == EW_OK) {
        status = choose_alpha(&export, error);
    }
    if (status == EW_OK) {
        status = ew_adapter_order(adapter, &export.linears, &export.order, error);
    }
    if (status == EW_OK) {
        status = ew_adapter_row_allocate(adapter, &export.row, error);
    }
    if (status == EW_OK) {
        status = write_file(&export, error);
    }
    ew_adapter_row_free(&export.row);
    free(export.linears);
    free(export.order);
    return status;
}
