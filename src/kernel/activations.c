#include "kernel/activations.h"
#include "base/memory.h"

#include <stdlib.h>

ew_status ew_activations_allocate(ew_activations *activations, ew_activation_type type, size_t cols, size_t capacity,
                                  ew_error *error) {
    *activations = (ew_activations){.type = type, .cols = cols, .capacity = capacity};
    activations->n_blocks = cols / 32 + (cols % 32 != 0);
    size_t block_bytes = ew_activation_block_bytes(type), blocks;
    if (!ew_multiply_size(activations->n_blocks, capacity, &blocks)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%zu tokens of %zu inputs do not fit memory", capacity, cols);
    }
    activations->codes = ew_allocate_aligned(blocks, block_bytes);
    activations->sums = ew_allocate_aligned(blocks, sizeof(int32_t));
    activations->scales = ew_allocate_aligned(type == EW_ACTIVATION_INT16 ? capacity : blocks, sizeof(float));
    if (!activations->codes || !activations->sums || !activations->scales) {
        ew_activations_free(activations);
        return ew_fail_memory(error, blocks * block_bytes, "activations");
    }
    return EW_OK;
}

void ew_activations_free(ew_activations *activations) {
    free(activations->codes);
    free(activations->sums);
    free(activations->scales);
    *activations = (ew_activations){0};
}
