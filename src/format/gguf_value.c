#include "format/gguf_internal.h"

#include <string.h>

const char *ew_gguf_type_name(ew_gguf_type type) {
    static const char *const names[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                        "bool",  "string", "array",  "uint64", "int64",  "float64"};
    return names[type];
}

size_t ew_gguf_scalar_bytes(uint32_t type) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

const char *ew_gguf_path(const ew_gguf *gguf) {
    return gguf->path;
}

uint32_t ew_gguf_version(const ew_gguf *gguf) {
    return gguf->version;
}

size_t ew_gguf_file_size(const ew_gguf *gguf) {
    return gguf->size;
}

size_t ew_gguf_value_count(const ew_gguf *gguf) {
    return gguf->n_values;
}

const ew_gguf_value *ew_gguf_value_at(const ew_gguf *gguf, size_t index) {
    return &gguf->values[index];
}

const ew_gguf_value *ew_gguf_find(const ew_gguf *gguf, const char *key) {
    const ew_name *found = ew_names_find(gguf->keys, gguf->n_values, ew_string_of(key));
    return found ? &gguf->values[found->index] : NULL;
}

size_t ew_gguf_tensor_count(const ew_gguf *gguf) {
    return gguf->n_tensors;
}

const ew_gguf_tensor *ew_gguf_tensor_at(const ew_gguf *gguf, size_t index) {
    return &gguf->tensors[index];
}

const ew_gguf_tensor *ew_gguf_find_tensor(const ew_gguf *gguf, const char *name) {
    const ew_name *found = ew_names_find(gguf->names, gguf->n_tensors, ew_string_of(name));
    return found ? &gguf->tensors[found->index] : NULL;
}

static bool is_integer(ew_gguf_type type) {
    return type <= EW_GGUF_INT32 || type == EW_GGUF_UINT64 || type == EW_GGUF_INT64;
}

static bool is_float(ew_gguf_type type) {
    return type == EW_GGUF_FLOAT32 || type == EW_GGUF_FLOAT64;
}

static ew_status fail_kind(const ew_gguf *gguf, const char *key, const ew_gguf_value *value,
                           const char *wanted, ew_error *error) {
    bool array = value->type == EW_GGUF_ARRAY;
    return ew_fail(error, EW_ERROR_FORMAT, "%s: metadata key %s is %s%s; %s is right", gguf->path, key,
                   array ? "an array of type " : "of type ", ew_gguf_type_name(value->element_type), wanted);
}

/* Absence according to `found` (gguf.h); *value stays NULL then. */
static ew_status look_up(const ew_gguf *gguf, const char *key, bool *found, const ew_gguf_value **value,
                         ew_error *error) {
    *value = ew_gguf_find(gguf, key);
    if (found) {
        *found = *value != NULL;
    } else if (!*value) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: metadata key %s is missing", gguf->path, key);
    }
    return EW_OK;
}

int64_t ew_gguf_integer_at(const ew_gguf_value *value, uint64_t index) {
    const uint8_t *data = value->data;
    switch (value->element_type) {
    case EW_GGUF_UINT8:
    case EW_GGUF_BOOL:
        return data[index];
    case EW_GGUF_INT8:
        return (int8_t)data[index];
    case EW_GGUF_UINT16:
    case EW_GGUF_INT16: {
        uint16_t number;
        memcpy(&number, data + index * sizeof number, sizeof number);
        return value->element_type == EW_GGUF_UINT16 ? (int64_t)number : (int64_t)(int16_t)number;
    }
    case EW_GGUF_UINT32:
    case EW_GGUF_INT32: {
        uint32_t number;
        memcpy(&number, data + index * sizeof number, sizeof number);
        return value->element_type == EW_GGUF_UINT32 ? (int64_t)number : (int64_t)(int32_t)number;
    }
    case EW_GGUF_UINT64: {
        uint64_t number;
        memcpy(&number, data + index * sizeof number, sizeof number);
        return number > INT64_MAX ? INT64_MAX : (int64_t)number;
    }
    case EW_GGUF_INT64: {
        int64_t number;
        memcpy(&number, data + index * sizeof number, sizeof number);
        return number;
    }
    default:
        return 0;
    }
}

double ew_gguf_float_at(const ew_gguf_value *value, uint64_t index) {
    if (value->element_type == EW_GGUF_FLOAT32) {
        float number;
        memcpy(&number, value->data + index * sizeof number, sizeof number);
        return number;
    }
    double number = 0;
    if (value->element_type == EW_GGUF_FLOAT64) {
        memcpy(&number, value->data + index * sizeof number, sizeof number);
    }
    return number;
}

ew_status ew_gguf_get_u64(const ew_gguf *gguf, const char *key, bool *found, uint64_t *value,
                          ew_error *error) {
    const ew_gguf_value *entry;
    ew_status status = look_up(gguf, key, found, &entry, error);
    if (status != EW_OK || !entry) {
        return status;
    }
    if (!is_integer(entry->type)) {
        return fail_kind(gguf, key, entry, "one integer", error);
    }
    if (entry->type == EW_GGUF_UINT64) {
        memcpy(value, entry->data, sizeof *value);
        return EW_OK;
    }
    int64_t number = ew_gguf_integer_at(entry, 0);
    if (number < 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: metadata key %s is %lld; it must not be negative",
                       gguf->path, key, (long long)number);
    }
    *value = (uint64_t)number;
    return EW_OK;
}

ew_status ew_gguf_get_u32(const ew_gguf *gguf, const char *key, bool *found, uint32_t *value,
                          ew_error *error) {
    uint64_t wide = 0;
    ew_status status = ew_gguf_get_u64(gguf, key, found, &wide, error);
    if (status != EW_OK || (found && !*found)) {
        return status;
    }
    if (wide > UINT32_MAX) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: metadata key %s is %llu; at most %u is allowed",
                       gguf->path, key, (unsigned long long)wide, UINT32_MAX);
    }
    *value = (uint32_t)wide;
    return EW_OK;
}

ew_status ew_gguf_get_f64(const ew_gguf *gguf, const char *key, bool *found, double *value, ew_error *error) {
    const ew_gguf_value *entry;
    ew_status status = look_up(gguf, key, found, &entry, error);
    if (status != EW_OK || !entry) {
        return status;
    }
    if (!is_float(entry->type)) {
        return fail_kind(gguf, key, entry, "a float", error);
    }
    *value = ew_gguf_float_at(entry, 0);
    return EW_OK;
}

ew_status ew_gguf_get_bool(const ew_gguf *gguf, const char *key, bool *found, bool *value, ew_error *error) {
    const ew_gguf_value *entry;
    ew_status status = look_up(gguf, key, found, &entry, error);
    if (status != EW_OK || !entry) {
        return status;
    }
    if (entry->type != EW_GGUF_BOOL || entry->data[0] > 1) {
        return fail_kind(gguf, key, entry, "a bool (0 or 1)", error);
    }
    *value = entry->data[0] == 1;
    return EW_OK;
}

ew_status ew_gguf_get_string(const ew_gguf *gguf, const char *key, bool *found, ew_string *value,
                             ew_error *error) {
    const ew_gguf_value *entry;
    ew_status status = look_up(gguf, key, found, &entry, error);
    if (status != EW_OK || !entry) {
        return status;
    }
    if (entry->type != EW_GGUF_STRING) {
        return fail_kind(gguf, key, entry, "a string", error);
    }
    ew_gguf_strings strings = ew_gguf_strings_begin(entry);
    ew_gguf_strings_next(&strings, value);
    return EW_OK;
}

ew_status ew_gguf_get_array(const ew_gguf *gguf, const char *key, ew_gguf_type family, bool *found,
                            const ew_gguf_value **value, ew_error *error) {
    const ew_gguf_value *entry;
    ew_status status = look_up(gguf, key, found, &entry, error);
    if (status != EW_OK || !entry) {
        return status;
    }
    ew_gguf_type type = entry->element_type;
    bool right = is_integer(family) ? is_integer(type) : is_float(family) ? is_float(type) : type == family;
    if (entry->type != EW_GGUF_ARRAY || !right) {
        const char *wanted = is_integer(family)         ? "an array of integers"
                             : is_float(family)         ? "an array of floats"
                             : family == EW_GGUF_STRING ? "an array of strings"
                                                        : "an array of bools";
        return fail_kind(gguf, key, entry, wanted, error);
    }
    *value = entry;
    return EW_OK;
}

ew_gguf_strings ew_gguf_strings_begin(const ew_gguf_value *value) {
    return (ew_gguf_strings){value->data, value->element_type == EW_GGUF_STRING ? value->count : 0};
}

bool ew_gguf_strings_next(ew_gguf_strings *strings, ew_string *string) {
    if (strings->left == 0) {
        return false;
    }
    uint64_t length; /* checked when the file was opened */
    memcpy(&length, strings->next, sizeof length);
    *string = (ew_string){(const char *)strings->next + sizeof length, (size_t)length};
    strings->next += sizeof length + length;
    strings->left--;
    return true;
}
