#include "base/memory.h"
#include "format/adapter_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ew_status check_kind(const ew_adapter_file *file, const ew_config *base, ew_error *error) {
    ew_string kind = {NULL, 0}, method = {NULL, 0}, architecture = {NULL, 0};
    bool is_adapter, has_version;
    uint32_t version = 0;
    ew_status status = ew_gguf_get_string(file->gguf, "general.type", &is_adapter, &kind, error);
    if (status == EW_OK && (!is_adapter || !ew_string_is(kind, "adapter"))) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s is no adapter: general.type is not \"adapter\"", file->path);
    }
    if (status != EW_OK || (status = ew_gguf_get_string(file->gguf, "adapter.type", NULL, &method, error)) != EW_OK ||
        (status = ew_gguf_get_string(file->gguf, "general.architecture", NULL, &architecture, error)) != EW_OK ||
        (status = ew_gguf_get_u32(file->gguf, "edgewise.adapter.version", &has_version, &version, error)) != EW_OK) {
        return status;
    }
    if (!ew_string_is(method, "lora")) {
        int shown = (int)(method.length < 60 ? method.length : 60);
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: adapter.type %.*s is not supported; lora is", file->path,
                       shown, method.data);
    }
    if (has_version && version != EW_ADAPTER_VERSION) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s is an adapter of version %u; this build reads version %d",
                       file->path, version, EW_ADAPTER_VERSION);
    }
    if (base && !ew_string_is(architecture, ew_architecture_name(base->architecture))) {
        int shown = (int)(architecture.length < 60 ? architecture.length : 60);
        return ew_fail(error, EW_ERROR_FORMAT, "%s is an adapter for a %.*s model, the base is %s", file->path, shown,
                       architecture.data, ew_architecture_name(base->architecture));
    }
    return EW_OK;
}

/* MATRIX.lora_a, MATRIX.lora_b; of I8 ones also MATRIX.lora_a.scale, MATRIX.lora_b.scale. */
static bool take_apart(const char *name, ew_linear *linear, ew_adapter_part *part) {
    static const struct {
        const char *end;
        ew_adapter_part part;
    } ends[] = {{".lora_a", EW_PART_A},
                {".lora_b", EW_PART_B},
                {".lora_a.scale", EW_PART_A_SCALES},
                {".lora_b.scale", EW_PART_B_SCALES}};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t tail = strlen(ends[i].end);
        if (length > tail && strcmp(name + length - tail, ends[i].end) == 0) {
            *part = ends[i].part;
            return ew_linear_by_name((ew_string){name, length - tail}, linear);
        }
    }
    return false;
}

static ew_status fail_tensor(const ew_adapter_file *file, const char *name, ew_error *error) {
    const char *what = strncmp(name, "token_embd.", 11) == 0 ? "an adapter of the embedding, which is not supported"
                       : strncmp(name, "output.", 7) == 0    ? "an adapter of the head, which is not supported"
                                                             : "no LoRA matrix of a linear layer";
    return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s holds %s: that is %s", file->path, name, what);
}

static ew_status read_pieces(ew_adapter_file *file, const ew_config *base, ew_error *error) {
    size_t count = ew_gguf_tensor_count(file->gguf);
    bool llama = base && base->architecture == EW_ARCHITECTURE_LLAMA;
    ew_status status = ew_adapter_allocate_pieces(file, count, error);
    for (size_t i = 0; i < count && status == EW_OK; i++) {
        const ew_gguf_tensor *tensor = ew_gguf_tensor_at(file->gguf, i);
        ew_adapter_piece *piece = &file->pieces[i];
        if (!take_apart(tensor->name, &piece->linear, &piece->part)) {
            return fail_tensor(file, tensor->name, error);
        }
        if (tensor->shape[2] != 1 || tensor->shape[3] != 1 || tensor->bytes == 0) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: %s must have two dimensions, none of them 0", file->path,
                           tensor->name);
        }
        bool scales = piece->part == EW_PART_A_SCALES || piece->part == EW_PART_B_SCALES;
        size_t rows = (size_t)(scales ? tensor->shape[0] : tensor->shape[1]);
        size_t cols = (size_t)(scales ? tensor->shape[1] : tensor->shape[0]);
        size_t head = llama && piece->linear.rotated && piece->part >= EW_PART_B ? base->head_dim : 0;
        piece->tensor = (ew_tensor){tensor->name,  tensor->type,         rows, cols, tensor->data,
                                    tensor->bytes, tensor->bytes / rows, head};
        file->n_pieces++;
    }
    return status;
}

static ew_status read_alpha(ew_adapter_file *file, ew_error *error) {
    double alpha = 0;
    ew_status status = ew_gguf_get_f64(file->gguf, "adapter.lora.alpha", NULL, &alpha, error);
    if (status == EW_OK && !(alpha > 0 && isfinite(alpha))) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: adapter.lora.alpha is %g; a number above 0 is right", file->path,
                       alpha);
    }
    for (size_t i = 0; i < file->content.n_targets; i++) {
        file->targets[i].alpha = alpha;
    }
    return status;
}

static ew_status read_tokens(ew_adapter_file *file, ew_error *error) {
    const ew_gguf_value *tokens = NULL;
    bool found;
    ew_status status =
        ew_gguf_get_array(file->gguf, "adapter.alora.invocation_tokens", EW_GGUF_INT64, &found, &tokens, error);
    if (status != EW_OK || !found) {
        return status;
    }
    status = ew_adapter_allocate_tokens(file, tokens->count <= SIZE_MAX ? (size_t)tokens->count : SIZE_MAX, error);
    for (size_t i = 0; status == EW_OK && i < file->content.n_invocation_tokens; i++) {
        status = ew_adapter_set_token(file, i, ew_gguf_integer_at(tokens, i), error);
    }
    return status;
}

static ew_status read_text(const ew_adapter_file *file, const char *key, char **text, ew_error *error) {
    bool found;
    ew_string value;
    ew_status status = ew_gguf_get_string(file->gguf, key, &found, &value, error);
    if (status == EW_OK && found && !(*text = ew_copy_text(value.data, value.length))) {
        return ew_fail_memory(error, value.length, key);
    }
    return status;
}

static ew_status read_fingerprint(const ew_adapter_file *file, const char *key, char hex[65], const char **set,
                                  ew_error *error) {
    bool found;
    ew_string value;
    ew_status status = ew_gguf_get_string(file->gguf, key, &found, &value, error);
    if (status != EW_OK || !found) {
        return status;
    }
    bool right = value.length == 64;
    for (size_t i = 0; right && i < value.length; i++) {
        right = memchr("0123456789abcdef", value.data[i], 16) != NULL;
    }
    if (!right) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s must be 64 hexadecimal digits", file->path, key);
    }
    memcpy(hex, value.data, 64);
    *set = hex;
    return EW_OK;
}

static ew_status read_all(ew_adapter_file *file, const ew_config *base, ew_error *error) {
    ew_lora *content = &file->content;
    ew_status status;
    if ((status = check_kind(file, base, error)) != EW_OK || (status = read_pieces(file, base, error)) != EW_OK ||
        (status = ew_adapter_pair(file, error)) != EW_OK || (status = read_alpha(file, error)) != EW_OK ||
        (status = read_tokens(file, error)) != EW_OK ||
        (status = read_text(file, "general.name", &file->name, error)) != EW_OK ||
        (status = read_text(file, "edgewise.base.name", &file->base_name, error)) != EW_OK ||
        (status = read_fingerprint(file, "edgewise.base.source", file->source, &content->source_fingerprint, error)) !=
            EW_OK ||
        (status = read_fingerprint(file, "edgewise.base.weights", file->weights, &content->weights_fingerprint,
                                   error)) != EW_OK ||
        (status = ew_adapter_fit(content, base, file->path, error)) != EW_OK) {
        return status;
    }
    content->name = file->name;
    content->base_name = file->base_name;
    return ew_adapter_check_values(content, file->path, error);
}

ew_status ew_adapter_from_gguf(ew_gguf *gguf, const char *path, const ew_config *base, ew_adapter_file **out,
                               ew_error *error) {
    ew_adapter_file *file = ew_allocate(1, sizeof *file);
    if (!file) {
        ew_gguf_close(gguf);
        return ew_fail_memory(error, sizeof *file, "an adapter");
    }
    file->kind = EW_ADAPTER_GGUF;
    file->gguf = gguf;
    file->path = ew_copy_text(path, strlen(path));
    ew_status status = file->path ? read_all(file, base, error) : ew_fail_memory(error, strlen(path), "a file name");
    if (status != EW_OK) {
        ew_adapter_close(file);
        return status;
    }
    *out = file;
    return EW_OK;
}
