#include "format/gguf_write.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0x46554747 /* "GGUF" */, VERSION = 3, HEADER_BYTES = 4 + 4 + 8 + 8, MAX_KEY_BYTES = 65535 };

/* Where a key's bytes stand in the encoded metadata; its value's type follows them. */
typedef struct key_place {
    size_t key, length;
} key_place;

ew_status ew_gguf_writer_open(const char *path, ew_gguf_writer *writer, ew_error *error) {
    *writer = (ew_gguf_writer){0};
    return ew_output_open(path, &writer->output, error);
}

static void append_u32(ew_buffer *buffer, uint32_t value) {
    ew_buffer_append(buffer, &value, sizeof value);
}

static void append_u64(ew_buffer *buffer, uint64_t value) {
    ew_buffer_append(buffer, &value, sizeof value);
}

static void append_string(ew_buffer *buffer, ew_string string) {
    append_u64(buffer, string.length);
    ew_buffer_append(buffer, string.data, string.length);
}

static void write_key(ew_gguf_writer *writer, ew_string key, ew_gguf_type type) {
    if (key.length == 0 || key.length > MAX_KEY_BYTES) {
        writer->refused = "a metadata key is empty or has more than 65535 bytes";
    }
    const key_place place = {writer->metadata.length + sizeof(uint64_t), key.length};
    ew_buffer_append(&writer->keys, &place, sizeof place);
    append_string(&writer->metadata, key);
    append_u32(&writer->metadata, type);
    writer->n_values++;
}

static void write_scalar(ew_gguf_writer *writer, const char *key, ew_gguf_type type, const void *value,
                         size_t size) {
    write_key(writer, ew_string_of(key), type);
    ew_buffer_append(&writer->metadata, value, size);
}

void ew_gguf_write_u32(ew_gguf_writer *writer, const char *key, uint32_t value) {
    write_scalar(writer, key, EW_GGUF_UINT32, &value, sizeof value);
}

void ew_gguf_write_i32(ew_gguf_writer *writer, const char *key, int32_t value) {
    write_scalar(writer, key, EW_GGUF_INT32, &value, sizeof value);
}

void ew_gguf_write_u64(ew_gguf_writer *writer, const char *key, uint64_t value) {
    write_scalar(writer, key, EW_GGUF_UINT64, &value, sizeof value);
}

void ew_gguf_write_f32(ew_gguf_writer *writer, const char *key, float value) {
    write_scalar(writer, key, EW_GGUF_FLOAT32, &value, sizeof value);
}

void ew_gguf_write_f64(ew_gguf_writer *writer, const char *key, double value) {
    write_scalar(writer, key, EW_GGUF_FLOAT64, &value, sizeof value);
}

void ew_gguf_write_bool(ew_gguf_writer *writer, const char *key, bool value) {
    uint8_t byte = value;
    write_scalar(writer, key, EW_GGUF_BOOL, &byte, sizeof byte);
}

void ew_gguf_write_string(ew_gguf_writer *writer, const char *key, ew_string value) {
    write_key(writer, ew_string_of(key), EW_GGUF_STRING);
    append_string(&writer->metadata, value);
}

void ew_gguf_write_text(ew_gguf_writer *writer, const char *key, const char *value) {
    ew_gguf_write_string(writer, key, ew_string_of(value));
}

static void write_array_head(ew_gguf_writer *writer, ew_string key, ew_gguf_type type, uint64_t count) {
    write_key(writer, key, EW_GGUF_ARRAY);
    append_u32(&writer->metadata, type);
    append_u64(&writer->metadata, count);
}

void ew_gguf_write_array(ew_gguf_writer *writer, const char *key, ew_gguf_type type, const void *elements,
                         size_t count) {
    size_t size = ew_gguf_scalar_bytes(type), bytes;
    if (size == 0 || !ew_multiply_size(size, count, &bytes)) {
        writer->refused = "an array of the metadata has no elements of fixed size";
        return;
    }
    write_array_head(writer, ew_string_of(key), type, count);
    ew_buffer_append(&writer->metadata, elements, bytes);
}

void ew_gguf_write_strings(ew_gguf_writer *writer, const char *key, const ew_string *strings, size_t count) {
    write_array_head(writer, ew_string_of(key), EW_GGUF_STRING, count);
    for (size_t i = 0; i < count; i++) {
        append_string(&writer->metadata, strings[i]);
    }
}

void ew_gguf_write_copy(ew_gguf_writer *writer, const ew_gguf_value *value) {
    if (value->type == EW_GGUF_ARRAY) {
        write_array_head(writer, value->key, value->element_type, value->count);
    } else {
        write_key(writer, value->key, value->type);
    }
    ew_buffer_append(&writer->metadata, value->data, value->bytes);
}

static uint64_t aligned(uint64_t size) {
    return (size + EW_GGUF_ALIGNMENT - 1) / EW_GGUF_ALIGNMENT * EW_GGUF_ALIGNMENT;
}

void ew_gguf_write_tensor(ew_gguf_writer *writer, const char *name, ew_dtype type, uint32_t n_dims,
                          const uint64_t *shape) {
    uint64_t elements = 1;
    bool right = n_dims >= 1 && n_dims <= 4;
    for (uint32_t i = 0; right && i < n_dims; i++) {
        right = shape[i] > 0 && !__builtin_mul_overflow(elements, shape[i], &elements);
    }
    size_t bytes = 0;
    uint32_t number;
    right = right && shape[0] % ew_dtype_block_elements(type) == 0 && ew_dtype_size(type, elements, &bytes) &&
            ew_dtype_to_ggml(type, &number) && bytes < SIZE_MAX / 4 && writer->data_size < UINT64_MAX / 4;
    if (!right) {
        writer->refused = "a tensor has a shape or a type that GGUF cannot hold";
        return;
    }
    append_string(&writer->tensors, ew_string_of(name));
    append_u32(&writer->tensors, n_dims);
    ew_buffer_append(&writer->tensors, shape, n_dims * sizeof *shape);
    append_u32(&writer->tensors, number);
    append_u64(&writer->tensors, writer->data_size);
    append_u64(&writer->sizes, bytes);
    writer->data_size += aligned(bytes);
    writer->n_tensors++;
}

/* The same key or the same tensor name twice would be a file that nobody opens. */
static ew_status refuse_twins(const ew_gguf_writer *writer, ew_error *error) {
    size_t count = writer->keys.length / sizeof(key_place);
    ew_name *names = ew_allocate(count, sizeof *names);
    if (!names) {
        return ew_fail_memory(error, count * sizeof *names, "the keys of a GGUF file");
    }
    for (size_t i = 0; i < count; i++) {
        key_place place;
        memcpy(&place, writer->keys.data + i * sizeof place, sizeof place);
        names[i] = (ew_name){{writer->metadata.data + place.key, place.length}, i};
    }
    const ew_name *twice = ew_names_sort(names, count);
    ew_status status = EW_OK;
    if (twice) {
        int shown = (int)(twice->name.length < 200 ? twice->name.length : 200);
        status = ew_fail(error, EW_ERROR_ARGUMENT, "cannot write %s: metadata key %.*s is given twice",
                         writer->output.path, shown, twice->name.data);
    }
    free(names);
    return status;
}

static ew_status write_padding(ew_gguf_writer *writer, uint64_t size, ew_error *error) {
    static const uint8_t zeros[EW_GGUF_ALIGNMENT] = {0};
    return ew_output_write(&writer->output, zeros, (size_t)(aligned(size) - size), error);
}

ew_status ew_gguf_writer_begin(ew_gguf_writer *writer, ew_error *error) {
    ew_gguf_write_u32(writer, "general.alignment", EW_GGUF_ALIGNMENT);
    if (writer->metadata.failed || writer->tensors.failed || writer->sizes.failed || writer->keys.failed) {
        return ew_fail_memory(error, writer->metadata.length, "the header of a GGUF file");
    }
    if (writer->refused) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "cannot write %s: %s", writer->output.path, writer->refused);
    }
    ew_status status = refuse_twins(writer, error);
    if (status != EW_OK) {
        return status;
    }
    const uint32_t start[2] = {MAGIC, VERSION};
    const uint64_t counts[2] = {writer->n_tensors, writer->n_values};
    const ew_buffer *metadata = &writer->metadata, *tensors = &writer->tensors;
    if ((status = ew_output_write(&writer->output, start, sizeof start, error)) != EW_OK ||
        (status = ew_output_write(&writer->output, counts, sizeof counts, error)) != EW_OK ||
        (status = ew_output_write(&writer->output, metadata->data, metadata->length, error)) != EW_OK ||
        (status = ew_output_write(&writer->output, tensors->data, tensors->length, error)) != EW_OK ||
        (status = write_padding(writer, HEADER_BYTES + metadata->length + tensors->length, error)) != EW_OK) {
        return status;
    }
    writer->begun = true;
    return EW_OK;
}

static uint64_t size_of_tensor(const ew_gguf_writer *writer, uint64_t index) {
    uint64_t size;
    memcpy(&size, writer->sizes.data + index * sizeof size, sizeof size);
    return size;
}

ew_status ew_gguf_writer_data(ew_gguf_writer *writer, const void *bytes, size_t length, ew_error *error) {
    if (length == 0) {
        return EW_OK;
    }
    if (!writer->begun || writer->tensor == writer->n_tensors ||
        length > size_of_tensor(writer, writer->tensor) - writer->written) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "cannot write %s: more bytes than its tensors were declared with",
                       writer->output.path);
    }
    ew_status status = ew_output_write(&writer->output, bytes, length, error);
    if (status != EW_OK) {
        return status;
    }
    writer->written += length;
    uint64_t size = size_of_tensor(writer, writer->tensor);
    if (writer->written == size) {
        writer->tensor++;
        writer->written = 0;
        return write_padding(writer, size, error);
    }
    return EW_OK;
}

static bool find_key(const ew_gguf_writer *writer, const char *key, key_place *place) {
    for (size_t i = 0; i < writer->keys.length / sizeof *place; i++) {
        memcpy(place, writer->keys.data + i * sizeof *place, sizeof *place);
        if (ew_string_is((ew_string){writer->metadata.data + place->key, place->length}, key)) {
            return true;
        }
    }
    return false;
}

ew_status ew_gguf_writer_patch(ew_gguf_writer *writer, const char *key, const char *value, ew_error *error) {
    key_place place;
    uint32_t type = EW_GGUF_ARRAY;
    uint64_t length = 0;
    size_t wanted = strlen(value);
    bool found = writer->begun && find_key(writer, key, &place);
    if (found) {
        memcpy(&type, writer->metadata.data + place.key + place.length, sizeof type);
    }
    if (type == EW_GGUF_STRING) {
        memcpy(&length, writer->metadata.data + place.key + place.length + sizeof type, sizeof length);
    }
    if (type != EW_GGUF_STRING || length != wanted) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "cannot write %s: it has no string %s of %zu bytes to replace", writer->output.path,
                       key, wanted);
    }
    FILE *stream = writer->output.stream;
    long end = ftell(stream);
    size_t at = HEADER_BYTES + place.key + place.length + sizeof type + sizeof length;
    if (end < 0 || fseek(stream, (long)at, SEEK_SET) != 0) {
        return ew_fail(error, EW_ERROR_IO, "cannot write %s: it is no file that can be changed",
                       writer->output.path);
    }
    ew_status status = ew_output_write(&writer->output, value, wanted, error);
    if (status == EW_OK && fseek(stream, end, SEEK_SET) != 0) {
        status = ew_fail(error, EW_ERROR_IO, "cannot write %s: it is no file that can be changed",
                         writer->output.path);
    }
    return status;
}

static void release(ew_gguf_writer *writer) {
    ew_buffer_free(&writer->metadata);
    ew_buffer_free(&writer->tensors);
    ew_buffer_free(&writer->sizes);
    ew_buffer_free(&writer->keys);
    *writer = (ew_gguf_writer){0};
}

ew_status ew_gguf_writer_commit(ew_gguf_writer *writer, ew_error *error) {
    ew_status status;
    if (!writer->begun || writer->tensor != writer->n_tensors) {
        status = ew_fail(error, EW_ERROR_ARGUMENT,
                         "cannot write %s: only %llu of its %llu tensors are complete", writer->output.path,
                         (unsigned long long)writer->tensor, (unsigned long long)writer->n_tensors);
        ew_output_abandon(&writer->output);
    } else {
        status = ew_output_commit(&writer->output, error);
    }
    release(writer);
    return status;
}

void ew_gguf_writer_abandon(ew_gguf_writer *writer) {
    ew_output_abandon(&writer->output);
    release(writer);
}
