#include "format/safetensors.h"
#include "base/memory.h"
#include "format/json.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000 /* the format's own limit */ };

struct ew_safetensors {
    ew_mapping mapping; /* {0} when the bytes are the caller's */
    char *path;
    json_t *header; /* owns the names and the metadata */
    const uint8_t *data;
    size_t data_size;
    size_t count;
    ew_safetensors_tensor *tensors;
    ew_name *names; /* sorted; index into tensors */
};

static ew_status fail_tensor(const ew_safetensors *file, const char *name, const char *problem,
                             ew_error *error) {
    return ew_fail(error, EW_ERROR_FORMAT, "%s: tensor %s %s", file->path, name, problem);
}

static bool read_integer(const json_t *value, uint64_t *integer) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *integer = (uint64_t)json_integer_value(value);
    return true;
}

static ew_status read_shape(const ew_safetensors *file, const json_t *entry, ew_safetensors_tensor *tensor,
                            uint64_t *elements, ew_error *error) {
    const json_t *shape = json_object_get(entry, "shape");
    size_t n_dims = json_array_size(shape);
    if (!json_is_array(shape) || n_dims > EW_SAFETENSORS_MAX_DIMS) {
        return fail_tensor(file, tensor->name, "has no shape of at most 8 dimensions", error);
    }
    tensor->n_dims = (uint32_t)n_dims;
    *elements = 1;
    for (size_t i = 0; i < EW_SAFETENSORS_MAX_DIMS; i++) {
        tensor->shape[i] = 1;
        if (i < n_dims && (!read_integer(json_array_get(shape, i), &tensor->shape[i]) ||
                           __builtin_mul_overflow(*elements, tensor->shape[i], elements))) {
            return fail_tensor(file, tensor->name, "has a shape that cannot be", error);
        }
    }
    return EW_OK;
}

static ew_status read_tensor(const ew_safetensors *file, const char *name, const json_t *entry,
                             ew_safetensors_tensor *tensor, ew_error *error) {
    uint64_t begin, end, elements = 0;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    tensor->name = name;
    if (!type) {
        return fail_tensor(file, name, "has no \"dtype\"", error);
    }
    if (!ew_dtype_from_safetensors(type, &tensor->type)) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: tensor %s has type %s, which is not read",
                       file->path, name, type);
    }
    ew_status status = read_shape(file, entry, tensor, &elements, error);
    if (status != EW_OK) {
        return status;
    }
    if (json_array_size(offsets) != 2 || !read_integer(json_array_get(offsets, 0), &begin) ||
        !read_integer(json_array_get(offsets, 1), &end) || begin > end) {
        return fail_tensor(file, name, "has no \"data_offsets\" [begin, end]", error);
    }
    if (end > file->data_size) {
        return ew_fail(
            error, EW_ERROR_FORMAT,
            "%s: tensor %s ends at byte %llu of the data, which has %zu: the file is truncated or its "
            "header is wrong",
            file->path, name, (unsigned long long)end, file->data_size);
    }
    if (!ew_dtype_size(tensor->type, elements, &tensor->bytes) || tensor->bytes != end - begin) {
        return fail_tensor(file, name, "has offsets that do not fit its shape and type", error);
    }
    tensor->data = file->data + begin;
    return EW_OK;
}

static ew_status check_metadata(const ew_safetensors *file, const json_t *metadata, ew_error *error) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: __metadata__ is no object", file->path);
    }
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value) {
        if (!json_is_string(value)) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: metadata key %s is no string", file->path, key);
        }
    }
    return EW_OK;
}

static ew_status read_tensors(ew_safetensors *file, ew_error *error) {
    const char *name;
    json_t *entry;
    size_t most = json_object_size(file->header);
    file->tensors = ew_allocate(most, sizeof *file->tensors);
    file->names = ew_allocate(most, sizeof *file->names);
    if (!file->tensors || !file->names) {
        return ew_fail_memory(error, most * sizeof *file->tensors, "the table of tensors");
    }
    json_object_foreach(file->header, name, entry) {
        ew_status status;
        if (strcmp(name, "__metadata__") == 0) {
            status = check_metadata(file, entry, error);
        } else {
            status = read_tensor(file, name, entry, &file->tensors[file->count], error);
            file->names[file->count] = (ew_name){ew_string_of(name), file->count};
            file->count++;
        }
        if (status != EW_OK) {
            return status;
        }
    }
    ew_names_sort(file->names, file->count); /* twins were refused by the JSON parser */
    return EW_OK;
}

static int compare_places(const void *left, const void *right) {
    const ew_safetensors_tensor *a = *(const ew_safetensors_tensor *const *)left;
    const ew_safetensors_tensor *b = *(const ew_safetensors_tensor *const *)right;
    if (a->data != b->data) {
        return a->data < b->data ? -1 : 1;
    }
    return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* empty ones first */
}

/* The format wants every byte of the data to belong to exactly one tensor. */
static ew_status check_coverage(const ew_safetensors *file, ew_error *error) {
    const ew_safetensors_tensor **places = ew_allocate(file->count, sizeof *places);
    if (!places) {
        return ew_fail_memory(error, file->count * sizeof *places, "the table of tensors");
    }
    for (size_t i = 0; i < file->count; i++) {
        places[i] = &file->tensors[i];
    }
    qsort(places, file->count, sizeof *places, compare_places);
    size_t end = 0;
    ew_status status = EW_OK;
    for (size_t i = 0; i < file->count && status == EW_OK; i++) {
        size_t begin = (size_t)(places[i]->data - file->data);
        if (begin != end) {
            status = fail_tensor(
                file, places[i]->name,
                begin < end ? "overlaps another one" : "leaves a gap of unused bytes before it", error);
        }
        end = begin + places[i]->bytes;
    }
    if (status == EW_OK && end != file->data_size) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s: %zu bytes follow the last tensor", file->path,
                         file->data_size - end);
    }
    free(places);
    return status;
}

static ew_status read_header(ew_safetensors *file, const uint8_t *bytes, size_t size, ew_error *error) {
    uint64_t length = 0;
    if (size >= LENGTH_BYTES) {
        memcpy(&length, bytes, LENGTH_BYTES);
    }
    if (size < LENGTH_BYTES || length > size - LENGTH_BYTES || length > MAX_HEADER) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s is no safetensors file or truncated: it has %zu bytes and its header claims %llu",
                       file->path, size, (unsigned long long)length);
    }
    file->data = bytes + LENGTH_BYTES + length;
    file->data_size = size - LENGTH_BYTES - (size_t)length;
    ew_string text = {(const char *)bytes + LENGTH_BYTES, (size_t)length};
    ew_status status = ew_json_parse(text, file->path, &file->header, error);
    if (status != EW_OK || (status = read_tensors(file, error)) != EW_OK) {
        return status;
    }
    return check_coverage(file, error);
}

/* Takes the mapping over, in failure too. */
static ew_status open_bytes(ew_mapping *mapping, const uint8_t *bytes, size_t size, const char *path,
                            ew_safetensors **out, ew_error *error) {
    ew_safetensors *file = ew_allocate(1, sizeof *file);
    if (!file) {
        ew_unmap(mapping);
        return ew_fail_memory(error, sizeof *file, "a safetensors file");
    }
    file->mapping = *mapping;
    file->path = ew_copy_text(path, strlen(path));
    ew_status status = file->path ? read_header(file, bytes, size, error)
                                  : ew_fail_memory(error, strlen(path) + 1, "a file name");
    if (status != EW_OK) {
        ew_safetensors_close(file);
        return status;
    }
    *out = file;
    return EW_OK;
}

ew_status ew_safetensors_open(const char *path, ew_safetensors **out, ew_error *error) {
    ew_mapping mapping;
    *out = NULL;
    ew_status status = ew_map_file(path, &mapping, error);
    if (status != EW_OK) {
        return status;
    }
    return open_bytes(&mapping, mapping.data, mapping.size, path, out, error);
}

ew_status ew_safetensors_open_memory(const uint8_t *bytes, size_t size, const char *path,
                                     ew_safetensors **out, ew_error *error) {
    ew_mapping none = {0};
    *out = NULL;
    return open_bytes(&none, bytes, size, path, out, error);
}

void ew_safetensors_close(ew_safetensors *file) {
    if (!file) {
        return;
    }
    json_decref(file->header);
    free(file->tensors);
    free(file->names);
    free(file->path);
    ew_unmap(&file->mapping);
    free(file);
}

const char *ew_safetensors_path(const ew_safetensors *file) {
    return file->path;
}

size_t ew_safetensors_count(const ew_safetensors *file) {
    return file->count;
}

const ew_safetensors_tensor *ew_safetensors_at(const ew_safetensors *file, size_t index) {
    return &file->tensors[file->names[index].index];
}

const ew_safetensors_tensor *ew_safetensors_find(const ew_safetensors *file, const char *name) {
    const ew_name *found = ew_names_find(file->names, file->count, ew_string_of(name));
    return found ? &file->tensors[found->index] : NULL;
}

const char *ew_safetensors_metadata(const ew_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}
