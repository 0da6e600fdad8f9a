/* GGUF from memory: whatever is accepted is walked to its ends, and its configuration is read. */
#include "format/config.h"
#include "format/dequantize.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t walk_value(const ew_gguf_value *value) {
    ew_gguf_strings strings = ew_gguf_strings_begin(value);
    ew_string text;
    uint64_t sum = 0;
    while (ew_gguf_strings_next(&strings, &text)) {
        sum += text.length > 0 ? (uint8_t)text.data[text.length - 1] : 0;
    }
    if (value->element_type != EW_GGUF_STRING && value->count > 0) {
        sum += (uint64_t)ew_gguf_integer_at(value, value->count - 1);
        sum += ew_gguf_float_at(value, value->count - 1) > 0;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ew_gguf *gguf;
    ew_config config;
    ew_error error;
    if (ew_gguf_open_memory(data, size, "fuzz", &gguf, &error) != EW_OK) {
        return 0;
    }
    volatile uint64_t sum = 0; /* so that no reading is optimized away */
    for (size_t i = 0; i < ew_gguf_value_count(gguf); i++) {
        sum = sum + walk_value(ew_gguf_value_at(gguf, i));
    }
    for (size_t i = 0; i < ew_gguf_tensor_count(gguf); i++) {
        const ew_gguf_tensor *tensor = ew_gguf_tensor_at(gguf, i);
        if (ew_gguf_find_tensor(gguf, tensor->name) != tensor) {
            abort();
        }
        float *row = tensor->shape[0] <= 1 << 16 ? malloc(tensor->shape[0] * sizeof *row) : NULL;
        if (row) {
            (void)ew_dequantize_row(tensor->type, tensor->data, tensor->shape[0], row, NULL);
        }
        free(row);
    }
    (void)ew_config_from_gguf(gguf, &config, &error);
    ew_gguf_close(gguf);
    return 0;
}
