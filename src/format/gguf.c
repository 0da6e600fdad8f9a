#include "format/gguf.h"
#include "format/gguf_internal.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAGIC = 0x46554747, /* "GGUF", little-endian */
    MAX_KEY_BYTES = 65535,
    MAX_TENSOR_NAME = 255,
    MAX_VALUES = 1 << 16,
    MAX_TENSORS = 1 << 20,
    MAX_ALIGNMENT = 1 << 16,
    DEFAULT_ALIGNMENT = 32,
    LEAST_VALUE_BYTES = 8 + 4 + 1,             /* key length, type, value */
    LEAST_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8 /* name, n_dims, one dimension, type, offset */
};

/* Where the header is being read, and what an error message says about it. */
typedef struct cursor {
    const uint8_t *next;
    size_t left;
    const char *path;
    ew_error *error;
} cursor;

static ew_status fail_short(const cursor *at, const char *what) {
    return ew_fail(at->error, EW_ERROR_FORMAT,
                   "%s ends inside %s: the file is truncated or a length in it is wrong", at->path, what);
}

static ew_status take_number(cursor *at, void *number, size_t bytes, const char *what) {
    if (bytes > at->left) {
        return fail_short(at, what);
    }
    memcpy(number, at->next, bytes);
    at->next += bytes;
    at->left -= bytes;
    return EW_OK;
}

static ew_status take_u32(cursor *at, uint32_t *value, const char *what) {
    *value = 0;
    return take_number(at, value, sizeof *value, what);
}

static ew_status take_u64(cursor *at, uint64_t *value, const char *what) {
    *value = 0;
    return take_number(at, value, sizeof *value, what);
}

static ew_status take_string(cursor *at, ew_string *string, const char *what) {
    uint64_t length;
    ew_status status = take_u64(at, &length, what);
    if (status != EW_OK) {
        return status;
    }
    if (length > at->left) {
        return fail_short(at, what);
    }
    string->data = (const char *)at->next;
    string->length = (size_t)length;
    at->next += length;
    at->left -= (size_t)length;
    return EW_OK;
}

static ew_status read_counts(ew_gguf *gguf, cursor *at) {
    uint32_t magic;
    uint64_t n_tensors, n_values;
    ew_status status = take_u32(at, &magic, "its first bytes");
    if (status != EW_OK || magic != MAGIC) {
        return ew_fail(at->error, EW_ERROR_FORMAT, "%s is not a GGUF file: it does not begin with \"GGUF\"",
                       at->path);
    }
    if ((status = take_u32(at, &gguf->version, "its header")) != EW_OK) {
        return status;
    }
    if (gguf->version != 0 && (gguf->version & 0xffff) == 0) {
        return ew_fail(at->error, EW_ERROR_UNSUPPORTED,
                       "%s is a big-endian GGUF file; little-endian ones are read", at->path);
    }
    if (gguf->version != 2 && gguf->version != 3) {
        return ew_fail(at->error, EW_ERROR_UNSUPPORTED, "%s is GGUF version %u; versions 2 and 3 are read",
                       at->path, gguf->version);
    }
    if ((status = take_u64(at, &n_tensors, "its header")) != EW_OK ||
        (status = take_u64(at, &n_values, "its header")) != EW_OK) {
        return status;
    }
    if (n_tensors > MAX_TENSORS || n_values > MAX_VALUES || n_tensors > at->left / LEAST_TENSOR_BYTES ||
        n_values > at->left / LEAST_VALUE_BYTES) {
        return ew_fail(
            at->error, EW_ERROR_FORMAT,
            "%s claims %llu tensors and %llu metadata entries, more than a file of %zu bytes can hold",
            at->path, (unsigned long long)n_tensors, (unsigned long long)n_values, gguf->size);
    }
    gguf->n_tensors = (size_t)n_tensors;
    gguf->n_values = (size_t)n_values;
    return EW_OK;
}

static ew_status fail_value(const cursor *at, ew_string key, const char *problem) {
    return ew_fail(at->error, EW_ERROR_FORMAT, "%s: metadata key %.*s %s", at->path,
                   (int)(key.length < 200 ? key.length : 200), key.data, problem);
}

/* Elements of an array, or the one element of a scalar: found, measured, not copied. */
static ew_status read_elements(ew_gguf_value *value, cursor *at) {
    const uint8_t *start = at->next;
    value->data = start;
    if (value->element_type == EW_GGUF_STRING) {
        if (value->count > at->left / sizeof(uint64_t)) {
            return fail_short(at, "an array of strings");
        }
        for (uint64_t i = 0; i < value->count; i++) {
            ew_string string;
            ew_status status = take_string(at, &string, "a string of the metadata");
            if (status != EW_OK) {
                return status;
            }
        }
        value->bytes = (size_t)(at->next - start);
        return EW_OK;
    }
    size_t size = ew_gguf_scalar_bytes(value->element_type);
    if (value->count > at->left / size) {
        return fail_short(at, "a value of the metadata");
    }
    value->bytes = (size_t)value->count * size;
    at->next += value->bytes;
    at->left -= value->bytes;
    return EW_OK;
}

static ew_status read_value(ew_gguf_value *value, cursor *at) {
    uint32_t type, element;
    ew_status status = take_string(at, &value->key, "a metadata key");
    if (status != EW_OK || (status = take_u32(at, &type, "a metadata entry")) != EW_OK) {
        return status;
    }
    if (value->key.length == 0 || value->key.length > MAX_KEY_BYTES) {
        return ew_fail(at->error, EW_ERROR_FORMAT, "%s: a metadata key has %zu bytes; 1 to %d are allowed",
                       at->path, value->key.length, MAX_KEY_BYTES);
    }
    element = type;
    value->count = 1;
    if (type == EW_GGUF_ARRAY && ((status = take_u32(at, &element, "a metadata array")) != EW_OK ||
                                  (status = take_u64(at, &value->count, "a metadata array")) != EW_OK)) {
        return status;
    }
    if (type == EW_GGUF_ARRAY && element == EW_GGUF_ARRAY) {
        return fail_value(at, value->key, "is an array of arrays, which is not supported");
    }
    if (element > EW_GGUF_FLOAT64) {
        return fail_value(at, value->key, "has an unknown type");
    }
    value->type = (ew_gguf_type)type;
    value->element_type = (ew_gguf_type)element;
    return read_elements(value, at);
}

static ew_status read_values(ew_gguf *gguf, cursor *at) {
    gguf->values = ew_allocate(gguf->n_values, sizeof *gguf->values);
    gguf->keys = ew_allocate(gguf->n_values, sizeof *gguf->keys);
    if (!gguf->values || !gguf->keys) {
        return ew_fail_memory(at->error, gguf->n_values * sizeof *gguf->values, "GGUF metadata");
    }
    for (size_t i = 0; i < gguf->n_values; i++) {
        ew_status status = read_value(&gguf->values[i], at);
        if (status != EW_OK) {
            return status;
        }
        gguf->keys[i] = (ew_name){gguf->values[i].key, i};
    }
    const ew_name *twice = ew_names_sort(gguf->keys, gguf->n_values);
    return twice ? fail_value(at, twice->name, "occurs twice") : EW_OK;
}

static ew_status read_alignment(ew_gguf *gguf, cursor *at) {
    uint32_t alignment = DEFAULT_ALIGNMENT;
    bool found;
    ew_status status = ew_gguf_get_u32(gguf, "general.alignment", &found, &alignment, at->error);
    if (status != EW_OK) {
        return status;
    }
    if (alignment < 8 || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0) {
        return ew_fail(at->error, EW_ERROR_FORMAT,
                       "%s: general.alignment is %u; a power of two from 8 to %d is right", at->path,
                       alignment, MAX_ALIGNMENT);
    }
    gguf->alignment = alignment;
    return EW_OK;
}

static ew_status read_shape(ew_gguf_tensor *tensor, cursor *at) {
    ew_status status = take_u32(at, &tensor->n_dims, "the table of tensors");
    if (status != EW_OK) {
        return status;
    }
    if (tensor->n_dims < 1 || tensor->n_dims > 4) {
        return ew_fail(at->error, EW_ERROR_FORMAT, "%s: tensor %s has %u dimensions; 1 to 4 are right",
                       at->path, tensor->name, tensor->n_dims);
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < 4; i++) {
        tensor->shape[i] = 1;
        if (i < tensor->n_dims &&
            (status = take_u64(at, &tensor->shape[i], "the table of tensors")) != EW_OK) {
            return status;
        }
        if (tensor->shape[i] == 0 || __builtin_mul_overflow(elements, tensor->shape[i], &elements)) {
            return ew_fail(at->error, EW_ERROR_FORMAT,
                           "%s: dimension %u of tensor %s is %llu, which cannot be", at->path, i,
                           tensor->name, (unsigned long long)tensor->shape[i]);
        }
    }
    return EW_OK;
}

static ew_status read_type(ew_gguf_tensor *tensor, cursor *at) {
    uint32_t number;
    ew_status status = take_u32(at, &number, "the table of tensors");
    if (status != EW_OK) {
        return status;
    }
    if (!ew_dtype_from_ggml(number, &tensor->type)) {
        const char *name = ew_ggml_type_name(number);
        return ew_fail(at->error, EW_ERROR_UNSUPPORTED,
                       "%s: tensor %s has type %s (number %u), which is not read", at->path, tensor->name,
                       name ? name : "unknown", number);
    }
    uint64_t elements = tensor->shape[0] * tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
    if (tensor->shape[0] % ew_dtype_block_elements(tensor->type) != 0 ||
        !ew_dtype_size(tensor->type, elements, &tensor->bytes)) {
        return ew_fail(
            at->error, EW_ERROR_FORMAT,
            "%s: tensor %s has rows of %llu values; type %s needs a multiple of %zu and a size that fits "
            "into memory",
            at->path, tensor->name, (unsigned long long)tensor->shape[0], ew_dtype_name(tensor->type),
            ew_dtype_block_elements(tensor->type));
    }
    return EW_OK;
}

static ew_status read_tensor(ew_gguf_tensor *tensor, uint64_t *offset, char **names, cursor *at) {
    ew_string name = {0};
    ew_status status = take_string(at, &name, "the table of tensors");
    if (status != EW_OK) {
        return status;
    }
    if (name.length == 0 || name.length > MAX_TENSOR_NAME || memchr(name.data, '\0', name.length)) {
        return ew_fail(at->error, EW_ERROR_FORMAT,
                       "%s: a tensor's name has %zu bytes; 1 to %d, none of them zero, are right", at->path,
                       name.length, MAX_TENSOR_NAME);
    }
    memcpy(*names, name.data, name.length);
    tensor->name = *names;
    *names += name.length + 1;
    if ((status = read_shape(tensor, at)) != EW_OK || (status = read_type(tensor, at)) != EW_OK) {
        return status;
    }
    return take_u64(at, offset, "the table of tensors");
}

/* Tensor names take at most as many bytes as the table itself, whose lengths (8 bytes each) leave room for
 * NULs. */
static ew_status read_tensors(ew_gguf *gguf, uint64_t *offsets, cursor *at) {
    size_t room = gguf->n_tensors * (MAX_TENSOR_NAME + 1);
    room = room < at->left ? room : at->left;
    gguf->tensor_names = ew_allocate(room, 1);
    gguf->tensors = ew_allocate(gguf->n_tensors, sizeof *gguf->tensors);
    gguf->names = ew_allocate(gguf->n_tensors, sizeof *gguf->names);
    if (!gguf->tensor_names || !gguf->tensors || !gguf->names) {
        return ew_fail_memory(at->error, gguf->n_tensors * sizeof *gguf->tensors, "the table of tensors");
    }
    char *names = gguf->tensor_names;
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        ew_status status = read_tensor(&gguf->tensors[i], &offsets[i], &names, at);
        if (status != EW_OK) {
            return status;
        }
        gguf->names[i] = (ew_name){ew_string_of(gguf->tensors[i].name), i};
    }
    const ew_name *twice = ew_names_sort(gguf->names, gguf->n_tensors);
    if (twice) {
        return ew_fail(at->error, EW_ERROR_FORMAT, "%s: tensor %s occurs twice", at->path,
                       gguf->tensors[twice->index].name);
    }
    return EW_OK;
}

static ew_status place_tensors(ew_gguf *gguf, const uint64_t *offsets, cursor *at) {
    size_t header = gguf->size - at->left;
    size_t padding = (gguf->alignment - header % gguf->alignment) % gguf->alignment;
    size_t start = padding <= at->left ? header + padding : gguf->size;
    size_t room = gguf->size - start;
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        ew_gguf_tensor *tensor = &gguf->tensors[i];
        if (offsets[i] % gguf->alignment != 0) {
            return ew_fail(at->error, EW_ERROR_FORMAT,
                           "%s: tensor %s lies at offset %llu, no multiple of %zu", at->path, tensor->name,
                           (unsigned long long)offsets[i], gguf->alignment);
        }
        if (offsets[i] > room || tensor->bytes > room - offsets[i]) {
            return ew_fail(
                at->error, EW_ERROR_FORMAT,
                "%s: tensor %s (%zu bytes at offset %llu) does not lie inside the file, which has %zu bytes "
                "of data: it is truncated or its header is wrong",
                at->path, tensor->name, tensor->bytes, (unsigned long long)offsets[i], room);
        }
        tensor->data = gguf->bytes + start + offsets[i];
    }
    return EW_OK;
}

static int compare_places(const void *left, const void *right) {
    const ew_gguf_tensor *a = *(const ew_gguf_tensor *const *)left,
                         *b = *(const ew_gguf_tensor *const *)right;
    return (a->data > b->data) - (a->data < b->data);
}

static ew_status refuse_overlaps(const ew_gguf *gguf, ew_error *error) {
    const ew_gguf_tensor **places = ew_allocate(gguf->n_tensors, sizeof *places);
    if (!places) {
        return ew_fail_memory(error, gguf->n_tensors * sizeof *places, "the table of tensors");
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        places[i] = &gguf->tensors[i];
    }
    qsort(places, gguf->n_tensors, sizeof *places, compare_places);
    ew_status status = EW_OK;
    for (size_t i = 1; i < gguf->n_tensors && status == EW_OK; i++) {
        if ((size_t)(places[i]->data - places[i - 1]->data) < places[i - 1]->bytes) {
            status = ew_fail(error, EW_ERROR_FORMAT, "%s: tensors %s and %s overlap", gguf->path,
                             places[i - 1]->name, places[i]->name);
        }
    }
    free(places);
    return status;
}

static ew_status read_header(ew_gguf *gguf, ew_error *error) {
    cursor at = {gguf->bytes, gguf->size, gguf->path, error};
    ew_status status = read_counts(gguf, &at);
    if (status != EW_OK || (status = read_values(gguf, &at)) != EW_OK ||
        (status = read_alignment(gguf, &at)) != EW_OK) {
        return status;
    }
    uint64_t *offsets = ew_allocate(gguf->n_tensors, sizeof *offsets);
    if (!offsets) {
        return ew_fail_memory(error, gguf->n_tensors * sizeof *offsets, "the table of tensors");
    }
    status = read_tensors(gguf, offsets, &at);
    if (status == EW_OK) {
        status = place_tensors(gguf, offsets, &at);
    }
    free(offsets);
    return status == EW_OK ? refuse_overlaps(gguf, error) : status;
}

/* Takes the mapping over, in failure too. */
static ew_status open_bytes(ew_mapping *mapping, const uint8_t *bytes, size_t size, const char *path,
                            ew_gguf **out, ew_error *error) {
    ew_gguf *gguf = ew_allocate(1, sizeof *gguf);
    if (!gguf) {
        ew_unmap(mapping);
        return ew_fail_memory(error, sizeof *gguf, "a GGUF file");
    }
    gguf->mapping = *mapping;
    gguf->bytes = bytes;
    gguf->size = size;
    gguf->path = ew_copy_text(path, strlen(path));
    ew_status status =
        gguf->path ? read_header(gguf, error) : ew_fail_memory(error, strlen(path) + 1, "a file name");
    if (status != EW_OK) {
        ew_gguf_close(gguf);
        return status;
    }
    *out = gguf;
    return EW_OK;
}

ew_status ew_gguf_open(const char *path, ew_gguf **out, ew_error *error) {
    ew_mapping mapping;
    *out = NULL;
    ew_status status = ew_map_file(path, &mapping, error);
    if (status != EW_OK) {
        return status;
    }
    return open_bytes(&mapping, mapping.data, mapping.size, path, out, error);
}

ew_status ew_gguf_open_memory(const uint8_t *bytes, size_t size, const char *path, ew_gguf **out,
                              ew_error *error) {
    ew_mapping none = {0};
    *out = NULL;
    return open_bytes(&none, bytes, size, path, out, error);
}

void ew_gguf_close(ew_gguf *gguf) {
    if (!gguf) {
        return;
    }
    free(gguf->values);
    free(gguf->keys);
    free(gguf->tensors);
    free(gguf->names);
    free(gguf->tensor_names);
    free(gguf->path);
    ew_unmap(&gguf->mapping);
    free(gguf);
}
