#include "format/bundle.h"

#include "base/file.h"
#include "format/adapter_internal.h"

#include <stdio.h>
#include <string.h>

enum { TENSOR_NAME = sizeof EW_BUNDLE_TENSOR + EW_BUNDLE_MAX_NAME };

/* ---- Reading ---- */

bool ew_bundle_find(const ew_gguf *gguf, const char *name, const uint8_t **bytes, size_t *size) {
    char full[TENSOR_NAME];
    if (!gguf || strlen(name) > EW_BUNDLE_MAX_NAME) {
        return false;
    }
    snprintf(full, sizeof full, "%s%s", EW_BUNDLE_TENSOR, name);
    const ew_gguf_tensor *tensor = ew_gguf_find_tensor(gguf, full);
    if (!tensor || tensor->type != EW_DTYPE_I8 || tensor->n_dims != 1) {
        return false;
    }
    *bytes = tensor->data;
    *size = tensor->bytes;
    return true;
}

const char *ew_bundle_name_at(const ew_gguf *gguf, size_t index) {
    const char *name = ew_gguf_tensor_at(gguf, index)->name;
    size_t n = strlen(EW_BUNDLE_TENSOR);
    return strncmp(name, EW_BUNDLE_TENSOR, n) == 0 ? name + n : NULL;
}

bool ew_bundle_path(const char *path, const char **name) {
    size_t n = strlen(EW_BUNDLE_PATH);
    if (strncmp(path, EW_BUNDLE_PATH, n) != 0) {
        return false;
    }
    *name = path + n;
    return true;
}

static ew_status open_part(const ew_gguf *gguf, const char *name, ew_gguf **part, ew_error *error) {
    const uint8_t *bytes = NULL;
    size_t size = 0;
    char path[512];
    if (!ew_bundle_find(gguf, name, &bytes, &size)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "the model's file is no bundle with the part \"%.60s\"", name);
    }
    snprintf(path, sizeof path, "%.400s, part %.60s", ew_gguf_path(gguf), name);
    return ew_gguf_open_memory(bytes, size, path, part, error);
}

ew_status ew_bundle_adapter_open(const ew_gguf *gguf, const char *name, const ew_config *base, ew_adapter_file **out,
                                 ew_error *error) {
    ew_gguf *part = NULL;
    ew_status status = open_part(gguf, name, &part, error);
    if (status != EW_OK) {
        return status;
    }
    char path[512];
    snprintf(path, sizeof path, "%s", ew_gguf_path(part));
    return ew_adapter_from_gguf(part, path, base, out, error);
}

ew_status ew_bundle_head_open(const ew_gguf *gguf, const char *name, ew_head *head, ew_error *error) {
    ew_gguf *part = NULL;
    *head = (ew_head){0};
    ew_status status = open_part(gguf, name, &part, error);
    if (status == EW_OK) {
        status = ew_head_read(part, "", head, error);
    }
    ew_gguf_close(part);
    return status;
}

/* ---- Writing ---- */

static ew_status check_name(const char *name, ew_error *error) {
    size_t length = strlen(name);
    bool adapter = strncmp(name, "adapter.", 8) == 0 && length > 8;
    bool known = adapter || strcmp(name, "switcher") == 0 || strcmp(name, "verifier") == 0;
    size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    if (!known || plain != length || length > EW_BUNDLE_MAX_NAME) {
        return ew_fail(
            error, EW_ERROR_ARGUMENT,
            "a bundle cannot have the part \"%.60s\": it is adapter.NAME, switcher or verifier, of letters, digits "
            "and -_., at most %d",
            name, EW_BUNDLE_MAX_NAME);
    }
    return EW_OK;
}

static ew_status check_parts(const ew_gguf *base, const ew_bundle_part *parts, size_t n, ew_error *error) {
    if (!ew_gguf_find(base, "edgewise.version")) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "%s was not made by `edgewise quantize`; only such a file becomes a bundle", ew_gguf_path(base));
    }
    for (size_t i = 0; i < ew_gguf_tensor_count(base); i++) {
        if (ew_bundle_name_at(base, i)) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "%s is a bundle already; begin with the model alone",
                           ew_gguf_path(base));
        }
    }
    if (n > EW_BUNDLE_MAX_PARTS) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a bundle of %zu parts; %d are possible", n, EW_BUNDLE_MAX_PARTS);
    }
    for (size_t i = 0; i < n; i++) {
        ew_status status = check_name(parts[i].name, error);
        if (status != EW_OK) {
            return status;
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(parts[i].name, parts[j].name) == 0) {
                return ew_fail(error, EW_ERROR_ARGUMENT, "the bundle's part %s is named twice", parts[i].name);
            }
        }
    }
    return EW_OK;
}

typedef struct bundling {
    ew_gguf *base;
    const ew_bundle_part *parts;
    size_t n_parts;
    ew_mapping files[EW_BUNDLE_MAX_PARTS];
    ew_gguf_writer writer;
} bundling;

static void declare(bundling *b, const char *policy) {
    for (size_t i = 0; i < ew_gguf_value_count(b->base); i++) {
        const ew_gguf_value *value = ew_gguf_value_at(b->base, i);
        if (!ew_string_is(value->key, "general.alignment")) { /* the writer's own */
            ew_gguf_write_copy(&b->writer, value);
        }
    }
    if (policy) {
        ew_gguf_write_text(&b->writer, EW_BUNDLE_POLICY, policy);
    }
    for (size_t i = 0; i < ew_gguf_tensor_count(b->base); i++) {
        const ew_gguf_tensor *tensor = ew_gguf_tensor_at(b->base, i);
        ew_gguf_write_tensor(&b->writer, tensor->name, tensor->type, tensor->n_dims, tensor->shape);
    }
    for (size_t i = 0; i < b->n_parts; i++) {
        char name[TENSOR_NAME];
        const uint64_t shape[] = {b->files[i].size};
        snprintf(name, sizeof name, "%s%s", EW_BUNDLE_TENSOR, b->parts[i].name);
        ew_gguf_write_tensor(&b->writer, name, EW_DTYPE_I8, 1, shape);
    }
}

static ew_status write_data(bundling *b, ew_error *error) {
    ew_status status = ew_gguf_writer_begin(&b->writer, error);
    for (size_t i = 0; status == EW_OK && i < ew_gguf_tensor_count(b->base); i++) {
        const ew_gguf_tensor *tensor = ew_gguf_tensor_at(b->base, i);
        status = ew_gguf_writer_data(&b->writer, tensor->data, tensor->bytes, error);
    }
    for (size_t i = 0; status == EW_OK && i < b->n_parts; i++) {
        status = ew_gguf_writer_data(&b->writer, b->files[i].data, b->files[i].size, error);
    }
    return status;
}

static ew_status write_bundle(bundling *b, const char *path, const char *policy, ew_error *error) {
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < b->n_parts; i++) {
        status = ew_map_file(b->parts[i].path, &b->files[i], error);
    }
    if (status == EW_OK) {
        status = ew_gguf_writer_open(path, &b->writer, error);
    }
    if (status != EW_OK) {
        return status;
    }
    declare(b, policy);
    status = write_data(b, error);
    if (status == EW_OK) {
        return ew_gguf_writer_commit(&b->writer, error);
    }
    ew_gguf_writer_abandon(&b->writer);
    return status;
}

ew_status ew_bundle_write(const char *path, const char *base, const ew_bundle_part *parts, size_t n_parts,
                          const char *policy, ew_error *error) {
    bundling b = {.parts = parts, .n_parts = n_parts};
    ew_status status = ew_gguf_open(base, &b.base, error);
    if (status == EW_OK) {
        status = check_parts(b.base, parts, n_parts, error);
    }
    if (status == EW_OK) {
        status = write_bundle(&b, path, policy, error);
    }
    for (size_t i = 0; i < n_parts && i < EW_BUNDLE_MAX_PARTS; i++) {
        ew_unmap(&b.files[i]);
    }
    ew_gguf_close(b.base);
    return status;
}
