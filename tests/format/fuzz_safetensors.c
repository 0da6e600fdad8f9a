/* safetensors from memory: every byte of every accepted tensor must be readable. */
#include "format/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ew_safetensors *file;
    ew_error error;
    if (ew_safetensors_open_memory(data, size, "fuzz", &file, &error) != EW_OK) {
        return 0;
    }
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < ew_safetensors_count(file); i++) {
        const ew_safetensors_tensor *tensor = ew_safetensors_at(file, i);
        if (ew_safetensors_find(file, tensor->name) != tensor) {
            abort();
        }
        for (size_t j = 0; j < tensor->bytes; j++) {
            sum = (uint8_t)(sum + tensor->data[j]);
        }
    }
    const char *format = ew_safetensors_metadata(file, "format");
    sum = (uint8_t)(sum + (format ? (uint8_t)format[0] : 0));
    ew_safetensors_close(file);
    return 0;
}
