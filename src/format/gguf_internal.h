/* What an open GGUF file holds; for gguf.c (which fills it) and gguf_value.c (which answers questions). */
#ifndef EW_FORMAT_GGUF_INTERNAL_H
#define EW_FORMAT_GGUF_INTERNAL_H

#include "base/file.h"
#include "format/gguf.h"

struct ew_gguf {
    ew_mapping mapping; /* {0} when the bytes are the caller's */
    const uint8_t *bytes;
    size_t size;
    char *path;
    uint32_t version;
    size_t alignment;
    size_t n_values, n_tensors;
    ew_gguf_value *values;
    ew_gguf_tensor *tensors;
    ew_name *keys, *names; /* sorted; indices into values and tensors */
    char *tensor_names;    /* all of them, one after another */
};

#endif
