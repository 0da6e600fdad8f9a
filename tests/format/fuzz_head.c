/* Any bytes as a head, and as the file of a bundle: an answer, never an access outside. */
#include "format/bundle.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const ew_head *head) {
    for (size_t i = 0; i < head->d_model; i++) {
        if (!(head->inverse_std[i] >= 0.0f) || !(head->mean[i] - head->mean[i] == 0.0f)) {
            abort(); /* what was read is finite */
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ew_gguf *gguf = NULL;
    ew_error error;
    ew_head head;
    uint8_t *aligned = aligned_alloc(64, (size + 64) / 64 * 64); /* as a mapped file is */
    if (!aligned) {
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        aligned[i] = data[i];
    }
    if (ew_gguf_open_memory(aligned, size, "fuzz", &gguf, &error) == EW_OK) {
        if (ew_head_read(gguf, "", &head, &error) == EW_OK) {
            check(&head);
            ew_head_free(&head);
        }
        if (ew_bundle_head_open(gguf, "switcher", &head, &error) == EW_OK) {
            check(&head);
            ew_head_free(&head);
        }
    }
    ew_gguf_close(gguf);
    free(aligned);
    return 0;
}
