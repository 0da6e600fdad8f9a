/* Reading the goldens: JSON beside a safetensors file. */
#ifndef EW_TEST_GOLDEN_H
#define EW_TEST_GOLDEN_H

#include "support.h"

#include "format/safetensors.h"

#include <jansson.h>

static inline json_t *golden_json(const char *relative) {
    char path[1024];
    json_error_t error;
    if (!ew_test_shared(relative, path, sizeof path)) {
        return NULL;
    }
    json_t *root = json_load_file(path, 0, &error);
    if (!root) {
        fail_msg("%s:%d: %s", path, error.line, error.text);
    }
    return root;
}

static inline ew_safetensors *golden_tensors(const char *relative) {
    char path[1024];
    ew_safetensors *file;
    ew_error error;
    if (!ew_test_shared(relative, path, sizeof path)) {
        return NULL;
    }
    if (ew_safetensors_open(path, &file, &error) != EW_OK) {
        fail_msg("%s", error.message);
    }
    return file;
}

/* The tensor PREFIX + rest, which must be there. */
static inline const ew_safetensors_tensor *golden_tensor(const ew_safetensors *file, const char *format, ...) {
    char name[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    const ew_safetensors_tensor *tensor = ew_safetensors_find(file, name);
    if (!tensor) {
        fail_msg("%s has no tensor %s", ew_safetensors_path(file), name);
    }
    return tensor;
}

static inline const float *golden_floats(const ew_safetensors *file, const char *format, size_t a, size_t b) {
    char name[128];
    snprintf(name, sizeof name, format, a, b);
    const ew_safetensors_tensor *tensor = golden_tensor(file, "%s", name);
    assert_int_equal(tensor->type, EW_DTYPE_F32);
    return (const float *)(const void *)tensor->data;
}

/* The ids of a JSON array, allocated. */
static inline int32_t *golden_ids(const json_t *array, size_t *count) {
    *count = json_array_size(array);
    int32_t *ids = calloc(*count + 1, sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < *count; i++) {
        ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    }
    return ids;
}

#endif
