#include "base/utf8.h"
#include "format/json.h"
#include "format/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_ALIGNMENT = 8 };

ew_status ew_safetensors_writer_open(const char *path, ew_safetensors_writer *writer, ew_error *error) {
    *writer = (ew_safetensors_writer){0};
    return ew_output_open(path, &writer->output, error);
}

/* Appends `text` as a JSON string; what is no UTF-8 is refused at begin. */
static void append_quoted(ew_safetensors_writer *writer, ew_buffer *buffer, const char *text) {
    json_t *string = json_string(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    if (quoted) {
        ew_buffer_append_text(buffer, quoted);
    } else if (ew_utf8_valid_prefix(text, strlen(text)) < strlen(text)) {
        writer->refused = "a name in it is not valid UTF-8";
    } else {
        buffer->failed = true;
    }
    free(quoted);
    json_decref(string);
}

void ew_safetensors_write_metadata(ew_safetensors_writer *writer, const char *key, const char *value) {
    ew_buffer *metadata = &writer->metadata;
    ew_buffer_append_text(metadata, metadata->length > 0 ? "," : "");
    append_quoted(writer, metadata, key);
    ew_buffer_append_text(metadata, ":");
    append_quoted(writer, metadata, value);
}

void ew_safetensors_write_tensor(ew_safetensors_writer *writer, const char *name, ew_dtype type,
                                 uint32_t n_dims, const uint64_t *shape) {
    ew_buffer *tensors = &writer->tensors;
    uint64_t elements = 1, end;
    size_t bytes;
    bool right = n_dims <= EW_SAFETENSORS_MAX_DIMS && ew_dtype_is_safetensors(type);
    for (uint32_t i = 0; right && i < n_dims; i++) {
        right = !__builtin_mul_overflow(elements, shape[i], &elements);
    }
    if (!right || !ew_dtype_size(type, elements, &bytes) ||
        __builtin_add_overflow(writer->declared, (uint64_t)bytes, &end)) {
        writer->refused = "a tensor has a shape or a type that safetensors cannot hold";
        return;
    }
    ew_buffer_append_text(tensors, ",");
    append_quoted(writer, tensors, name);
    ew_buffer_append_format(tensors, ":{\"dtype\":\"%s\",\"shape\":[", ew_dtype_name(type));
    for (uint32_t i = 0; i < n_dims; i++) {
        ew_buffer_append_format(tensors, "%s%llu", i > 0 ? "," : "", (unsigned long long)shape[i]);
    }
    ew_buffer_append_format(tensors, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)writer->declared,
                            (unsigned long long)end);
    writer->declared = end;
}

ew_status ew_safetensors_writer_begin(ew_safetensors_writer *writer, ew_error *error) {
    ew_buffer header = {0};
    if (writer->refused) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "cannot write %s: %s", writer->output.path, writer->refused);
    }
    ew_buffer_append_text(&header, "{\"__metadata__\":{");
    ew_buffer_append(&header, writer->metadata.data, writer->metadata.length);
    ew_buffer_append_text(&header, "}");
    ew_buffer_append(&header, writer->tensors.data, writer->tensors.length);
    ew_buffer_append_text(&header, "}");
    while (header.length % HEADER_ALIGNMENT != 0 && !header.failed) {
        ew_buffer_append_text(&header, " ");
    }
    ew_status status;
    if (header.failed || writer->metadata.failed || writer->tensors.failed) {
        status = ew_fail_memory(error, header.length, "the header of a safetensors file");
    } else {
        uint64_t length = header.length;
        status = ew_output_write(&writer->output, &length, sizeof length, error);
        if (status == EW_OK) {
            status = ew_output_write(&writer->output, header.data, header.length, error);
        }
    }
    ew_buffer_free(&header);
    return status;
}

ew_status ew_safetensors_writer_data(ew_safetensors_writer *writer, const void *bytes, size_t length,
                                     ew_error *error) {
    if (length > writer->declared - writer->written) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "cannot write %s: more bytes than its tensors were declared with",
                       writer->output.path);
    }
    writer->written += length;
    return ew_output_write(&writer->output, bytes, length, error);
}

static void release(ew_safetensors_writer *writer) {
    ew_buffer_free(&writer->metadata);
    ew_buffer_free(&writer->tensors);
    *writer = (ew_safetensors_writer){0};
}

ew_status ew_safetensors_writer_commit(ew_safetensors_writer *writer, ew_error *error) {
    ew_status status;
    if (writer->written != writer->declared) {
        status = ew_fail(error, EW_ERROR_ARGUMENT, "cannot write %s: only %llu of its %llu bytes are there",
                         writer->output.path, (unsigned long long)writer->written,
                         (unsigned long long)writer->declared);
        ew_output_abandon(&writer->output);
    } else {
        status = ew_output_commit(&writer->output, error);
    }
    release(writer);
    return status;
}

void ew_safetensors_writer_abandon(ew_safetensors_writer *writer) {
    ew_output_abandon(&writer->output);
    release(writer);
}
