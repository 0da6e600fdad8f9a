#include "base/file.h"
#include "base/sha256.h"
#include "format/checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>

/* The order and the framing are docs/formats.md's, "The source fingerprint". */

static ew_status add_line(ew_sha256 *hash, ew_buffer *line, ew_error *error) {
    if (line->failed) {
        ew_buffer_free(line);
        return ew_fail_memory(error, line->length, "a fingerprint");
    }
    ew_sha256_add(hash, line->data, line->length);
    ew_buffer_free(line);
    return EW_OK;
}

static ew_status add_file(ew_sha256 *hash, const char *folder, const char *name, ew_error *error) {
    char *path = ew_join_path(folder, name);
    ew_mapping mapping;
    if (!path) {
        return ew_fail_memory(error, strlen(folder), "a file name");
    }
    ew_status status = ew_map_file(path, &mapping, error);
    free(path);
    if (status != EW_OK) {
        return status;
    }
    ew_buffer line = {0};
    ew_buffer_append_format(&line, "file %s %zu\n", name, mapping.size);
    status = add_line(hash, &line, error);
    ew_sha256_add(hash, mapping.data, mapping.size);
    ew_unmap(&mapping);
    return status;
}

static ew_status add_tokenizer_files(ew_sha256 *hash, const char *folder, ew_error *error) {
    if (ew_folder_has(folder, "tokenizer.json")) {
        return add_file(hash, folder, "tokenizer.json", error);
    }
    static const char *const names[] = {"vocab.json", "merges.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ew_status status = ew_folder_has(folder, names[i]) ? add_file(hash, folder, names[i], error) : EW_OK;
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

static ew_status add_tokenizer_keys(ew_sha256 *hash, const ew_gguf *gguf, ew_error *error) {
    static const char prefix[] = "tokenizer.ggml.";
    for (size_t i = 0; i < ew_gguf_value_count(gguf); i++) {
        const ew_gguf_value *value = ew_gguf_value_at(gguf, i);
        if (value->key.length < sizeof prefix - 1 ||
            memcmp(value->key.data, prefix, sizeof prefix - 1) != 0) {
            continue;
        }
        ew_buffer line = {0};
        ew_buffer_append_text(&line, "key ");
        ew_buffer_append(&line, value->key.data, value->key.length);
        ew_buffer_append_format(&line, " %s %llu %zu\n", ew_gguf_type_name(value->element_type),
                                (unsigned long long)value->count, value->bytes);
        ew_status status = add_line(hash, &line, error);
        if (status != EW_OK) {
            return status;
        }
        ew_sha256_add(hash, value->data, value->bytes);
    }
    return EW_OK;
}

static ew_status add_tensors(ew_sha256 *hash, const ew_checkpoint *cp, ew_error *error) {
    for (size_t i = 0; i < cp->count; i++) {
        const ew_tensor *tensor = &cp->tensors[i];
        ew_buffer line = {0};
        ew_buffer_append_format(&line, "tensor %s %s %zu %zu\n", tensor->name, ew_dtype_name(tensor->type),
                                tensor->rows, tensor->cols);
        ew_status status = add_line(hash, &line, error);
        if (status != EW_OK) {
            return status;
        }
        ew_sha256_add(hash, tensor->data, tensor->bytes);
    }
    return EW_OK;
}

static ew_status copy_stored(const ew_checkpoint *cp, char hex[65], ew_error *error) {
    ew_string stored = {0};
    ew_status status = ew_gguf_get_string(cp->gguf, "edgewise.fingerprint.source", NULL, &stored, error);
    if (status != EW_OK) {
        return status;
    }
    bool right = stored.length == 64;
    for (size_t i = 0; right && i < stored.length; i++) {
        right = memchr("0123456789abcdef", stored.data[i], 16) != NULL;
    }
    if (!right) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: edgewise.fingerprint.source is no SHA-256 in hexadecimal",
                       cp->path);
    }
    memcpy(hex, stored.data, stored.length);
    hex[stored.length] = '\0';
    return EW_OK;
}

ew_status ew_checkpoint_source_fingerprint(const ew_checkpoint *checkpoint, char hex[65], ew_error *error) {
    if (checkpoint->kind == EW_CHECKPOINT_EDGEWISE) {
        return copy_stored(checkpoint, hex, error);
    }
    ew_sha256 hash;
    ew_buffer text = {0};
    ew_sha256_begin(&hash);
    ew_buffer_append_text(&text, "edgewise source 1\n");
    ew_config_describe(&checkpoint->config, &text);
    ew_status status = add_line(&hash, &text, error);
    if (status == EW_OK) {
        status = checkpoint->gguf ? add_tokenizer_keys(&hash, checkpoint->gguf, error)
                                  : add_tokenizer_files(&hash, checkpoint->path, error);
    }
    if (status == EW_OK) {
        status = add_tensors(&hash, checkpoint, error);
    }
    if (status == EW_OK) {
        ew_sha256_end_hex(&hash, hex);
    }
    return status;
}
