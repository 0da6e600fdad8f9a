/* Adapters from memory, for a qwen2 and a llama base: a GGUF file, or adapter_config.json and adapter_model.safetensors
 * separated by a byte 0xff (which JSON cannot hold). Whatever is accepted has finite values and belongs to the base. */
#include "format/adapter_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The sizes of the golden models qwen2-tiny and llama-tiny. */
static const ew_config bases[] = {
    {.architecture = EW_ARCHITECTURE_QWEN2,
     .n_layers = 2,
     .d_model = 64,
     .n_heads = 4,
     .n_kv_heads = 2,
     .head_dim = 16,
     .d_ff = 176,
     .vocab_size = 320},
    {.architecture = EW_ARCHITECTURE_LLAMA,
     .n_layers = 3,
     .d_model = 48,
     .n_heads = 3,
     .n_kv_heads = 1,
     .head_dim = 16,
     .d_ff = 128,
     .vocab_size = 272},
};

static ew_status open_input(const uint8_t *data, size_t size, const ew_config *base, ew_adapter_file **file) {
    ew_gguf *gguf;
    ew_safetensors *weights;
    ew_error error;
    ew_status status;
    *file = NULL;
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        status = ew_gguf_open_memory(data, size, "fuzz", &gguf, &error);
        return status == EW_OK ? ew_adapter_from_gguf(gguf, "fuzz", base, file, &error) : status;
    }
    const uint8_t *end = size > 0 ? memchr(data, 0xff, size) : NULL;
    if (!end) {
        return EW_ERROR_FORMAT;
    }
    size_t length = (size_t)(end - data);
    status = ew_safetensors_open_memory(end + 1, size - length - 1, "fuzz", &weights, &error);
    return status == EW_OK
               ? ew_adapter_from_peft((ew_string){(const char *)data, length}, weights, "fuzz", base, file, &error)
               : status;
}

static void require(bool right) {
    if (!right) {
        abort();
    }
}

static void walk_factor(const ew_lora_factor *factor) {
    float row[256];
    require(factor->values.cols <= 256);
    for (size_t i = 0; i < factor->values.rows; i++) {
        require(ew_lora_read_row(factor, i, row, NULL) == EW_OK);
        for (size_t j = 0; j < factor->values.cols; j++) {
            require(isfinite(row[j]));
        }
    }
}

static void walk(const ew_lora *adapter) {
    for (size_t i = 0; i < adapter->n_targets; i++) {
        const ew_lora_target *target = &adapter->targets[i];
        double scale = ew_lora_scale(adapter, target);
        require(ew_lora_find(adapter, target->name) == target && isfinite(scale) && scale > 0);
        require(target->a.values.rows == target->rank && target->b.values.cols == target->rank);
        if (target->rank <= 256) {
            walk_factor(&target->a);
            walk_factor(&target->b);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ew_adapter_file *file;
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        if (open_input(data, size, &bases[i], &file) == EW_OK) {
            walk(ew_adapter_file_content(file));
            ew_adapter_close(file);
        }
    }
    if (open_input(data, size, NULL, &file) == EW_OK) { /* to look at only: any size will do */
        const ew_lora *adapter = ew_adapter_file_content(file);
        for (size_t i = 0; i < adapter->n_targets; i++) {
            require(ew_lora_find(adapter, adapter->targets[i].name) == &adapter->targets[i]);
        }
        ew_adapter_close(file);
    }
    return 0;
}
