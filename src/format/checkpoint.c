#include "base/file.h"
#include "base/memory.h"
#include "format/bundle.h"
#include "format/checkpoint_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHAPE_TEXT = 128 };

/* A tensor as one of the two kinds of file has it, row length first. */
typedef struct found {
    const char *name;
    ew_dtype type;
    uint32_t n_dims;
    uint64_t shape[EW_SAFETENSORS_MAX_DIMS];
    const uint8_t *data;
    size_t bytes;
} found;

static void describe_shape(uint32_t n_dims, const uint64_t *shape, char text[SHAPE_TEXT]) {
    size_t length = 0;
    text[length++] = '[';
    for (uint32_t i = n_dims; i > 0 && length < SHAPE_TEXT - 32; i--) {
        length += (size_t)snprintf(text + length, SHAPE_TEXT - length, "%llu%s",
                                   (unsigned long long)shape[i - 1], i > 1 ? ", " : "");
    }
    snprintf(text + length, SHAPE_TEXT - length, "]");
}

static ew_status check_tensor(const ew_checkpoint *cp, const ew_expected *wanted, const found *have,
                              ew_error *error) {
    const uint64_t right[2] = {wanted->cols, wanted->rows};
    uint32_t n_dims = wanted->vector ? 1 : 2;
    bool plain = have->type == EW_DTYPE_F32 || have->type == EW_DTYPE_F16 || have->type == EW_DTYPE_BF16;
    if (have->n_dims != n_dims || memcmp(have->shape, right, n_dims * sizeof *right) != 0) {
        char is[SHAPE_TEXT], expected[SHAPE_TEXT];
        describe_shape(have->n_dims, have->shape, is);
        describe_shape(n_dims, right, expected);
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s has shape %s, expected %s", cp->path, have->name, is,
                       expected);
    }
    if (!ew_dtype_is_weight(have->type) || (wanted->vector && !plain)) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: %s has type %s, which no %s can have", cp->path,
                       have->name, ew_dtype_name(have->type),
                       wanted->vector ? "vector of weights" : "weight");
    }
    return EW_OK;
}

static void set_tensor(ew_checkpoint *cp, size_t index, const found *have) {
    const ew_expected *wanted = &cp->expected[index];
    bool interleaved =
        wanted->rotated && cp->kind == EW_CHECKPOINT_GGUF && cp->config.architecture == EW_ARCHITECTURE_LLAMA;
    cp->tensors[index] = (ew_tensor){
        .name = wanted->name,
        .type = have->type,
        .rows = wanted->rows,
        .cols = wanted->cols,
        .data = have->data,
        .bytes = have->bytes,
        .row_bytes = have->bytes / wanted->rows,
        .interleaved = interleaved ? cp->config.head_dim : 0,
    };
}

/* By name in whichever kind of file this is; *place is where it stands in the file's table. */
static bool look_up(const ew_checkpoint *cp, const char *name, size_t *place, found *have) {
    if (cp->gguf) {
        const ew_gguf_tensor *tensor = ew_gguf_find_tensor(cp->gguf, name);
        if (!tensor) {
            return false;
        }
        *place = (size_t)(tensor - ew_gguf_tensor_at(cp->gguf, 0));
        *have = (found){tensor->name, tensor->type, tensor->n_dims, {0}, tensor->data, tensor->bytes};
        memcpy(have->shape, tensor->shape, sizeof tensor->shape);
        while (have->n_dims > 2 && have->shape[have->n_dims - 1] == 1) {
            have->n_dims--; /* trailing dimensions of 1 say nothing */
        }
        return true;
    }
    const ew_name *entry = ew_names_find(cp->folder.names, cp->folder.count, ew_string_of(name));
    if (!entry) {
        return false;
    }
    const ew_safetensors_tensor *tensor = cp->folder.tensors[entry->index];
    *place = entry->index;
    *have = (found){tensor->name, tensor->type, tensor->n_dims, {0}, tensor->data, tensor->bytes};
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        have->shape[i] = tensor->shape[tensor->n_dims - 1 - i];
    }
    return true;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Buffers that old converters stored and that follow from the configuration. */
static bool is_harmless(const char *name) {
    return strcmp(name, "rope_freqs.weight") == 0 || ends_with(name, ".rotary_emb.inv_freq") ||
           ends_with(name, ".attn_rot_embd.weight");
}

/* A tied folder may hold its head all the same, if it is the embedding. */
static ew_status accept_twin_head(const ew_checkpoint *cp, const found *head, ew_error *error) {
    size_t place;
    found embedding;
    if (look_up(cp, "model.embed_tokens.weight", &place, &embedding) && embedding.type == head->type &&
        embedding.bytes == head->bytes && memcmp(embedding.data, head->data, head->bytes) == 0) {
        return EW_OK;
    }
    return ew_fail(error, EW_ERROR_FORMAT,
                   "%s: \"tie_word_embeddings\" is true, but lm_head.weight differs from "
                   "model.embed_tokens.weight",
                   cp->path);
}

static ew_status refuse_unexpected(const ew_checkpoint *cp, const bool *used, ew_error *error) {
    size_t count = cp->gguf ? ew_gguf_tensor_count(cp->gguf) : cp->folder.count;
    for (size_t i = 0; i < count; i++) {
        const char *name = cp->gguf ? ew_gguf_tensor_at(cp->gguf, i)->name : cp->folder.tensors[i]->name;
        if (used[i] || is_harmless(name)) {
            continue;
        }
        size_t place;
        found have;
        if (!cp->gguf && cp->config.tied_embeddings && strcmp(name, "lm_head.weight") == 0 &&
            look_up(cp, name, &place, &have)) {
            ew_status status = accept_twin_head(cp, &have, error);
            if (status != EW_OK) {
                return status;
            }
            continue;
        }
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s holds a tensor %s, which a %s model of this configuration does "
                       "not have",
                       cp->path, name, ew_architecture_name(cp->config.architecture));
    }
    return EW_OK;
}

static ew_status fail_missing(const ew_checkpoint *cp, const ew_expected *wanted, ew_error *error) {
    if (cp->gguf) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s is missing", cp->path, wanted->name);
    }
    return ew_fail(error, EW_ERROR_FORMAT, "%s: %s (%s) is missing", cp->path, wanted->folder_name,
                   wanted->name);
}

static ew_status allocate_tensors(ew_checkpoint *cp, ew_error *error) {
    cp->tensors = ew_allocate(cp->count, sizeof *cp->tensors);
    cp->names = ew_allocate(cp->count, sizeof *cp->names);
    if (!cp->tensors || !cp->names) {
        return ew_fail_memory(error, cp->count * sizeof *cp->tensors, "the table of tensors");
    }
    return EW_OK;
}

static void index_names(ew_checkpoint *cp) {
    for (size_t i = 0; i < cp->count; i++) {
        cp->names[i] = (ew_name){ew_string_of(cp->tensors[i].name), i};
    }
    ew_names_sort(cp->names, cp->count);
}

static ew_status match_tensors(ew_checkpoint *cp, bool *used, ew_error *error) {
    for (size_t i = 0; i < cp->count; i++) {
        const ew_expected *wanted = &cp->expected[i];
        size_t place;
        found have;
        if (!look_up(cp, cp->gguf ? wanted->name : wanted->folder_name, &place, &have)) {
            return fail_missing(cp, wanted, error);
        }
        ew_status status = check_tensor(cp, wanted, &have, error);
        if (status != EW_OK) {
            return status;
        }
        used[place] = true;
        set_tensor(cp, i, &have);
    }
    return refuse_unexpected(cp, used, error);
}

static ew_status bind_tensors(ew_checkpoint *cp, ew_error *error) {
    ew_status status = ew_expect_tensors(&cp->config, &cp->expected, &cp->count, error);
    if (status != EW_OK || (status = allocate_tensors(cp, error)) != EW_OK) {
        return status;
    }
    size_t in_file = cp->gguf ? ew_gguf_tensor_count(cp->gguf) : cp->folder.count;
    bool *used = ew_allocate(in_file, sizeof *used);
    if (!used) {
        return ew_fail_memory(error, in_file, "the table of tensors");
    }
    status = match_tensors(cp, used, error);
    free(used);
    if (status == EW_OK) {
        index_names(cp);
    }
    return status;
}

/* An Edgewise file: the tensors as they are, without the parts of a bundle. */
static ew_status list_tensors(ew_checkpoint *cp, ew_error *error) {
    size_t n_tensors = ew_gguf_tensor_count(cp->gguf);
    cp->count = n_tensors;
    ew_status status = allocate_tensors(cp, error);
    cp->count = 0;
    for (size_t i = 0; status == EW_OK && i < n_tensors; i++) {
        const ew_gguf_tensor *tensor = ew_gguf_tensor_at(cp->gguf, i);
        size_t rows = (size_t)(tensor->shape[1] * tensor->shape[2] * tensor->shape[3]);
        if (ew_bundle_name_at(cp->gguf, i)) {
            continue;
        }
        cp->tensors[cp->count++] =
            (ew_tensor){tensor->name,  tensor->type,         rows, (size_t)tensor->shape[0], tensor->data,
                        tensor->bytes, tensor->bytes / rows, 0};
    }
    if (status == EW_OK) {
        index_names(cp);
    }
    return status;
}

static ew_status fail_adapter(const ew_checkpoint *cp, ew_error *error) {
    return ew_fail(error, EW_ERROR_FORMAT, "%s is an adapter, not a model: it works beside the model it was made for",
                   cp->path);
}

static ew_status read_kind(ew_checkpoint *cp, ew_error *error) {
    bool edgewise, split, typed;
    uint32_t version = 0, parts = 0;
    ew_string type;
    ew_status status = ew_gguf_get_string(cp->gguf, "general.type", &typed, &type, error);
    if (status == EW_OK && typed && ew_string_is(type, "adapter")) {
        return fail_adapter(cp, error);
    }
    if (status == EW_OK) {
        status = ew_gguf_get_u32(cp->gguf, "edgewise.version", &edgewise, &version, error);
    }
    if (status == EW_OK) {
        status = ew_gguf_get_u32(cp->gguf, "split.count", &split, &parts, error);
    }
    if (status != EW_OK) {
        return status;
    }
    if (edgewise && version != EW_EDGEWISE_VERSION) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s is an Edgewise file of version %u; this build reads version %d", cp->path, version,
                       EW_EDGEWISE_VERSION);
    }
    if (parts > 1) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s is one of %u parts of a split GGUF file, which is not supported", cp->path, parts);
    }
    cp->kind = edgewise ? EW_CHECKPOINT_EDGEWISE : EW_CHECKPOINT_GGUF;
    return EW_OK;
}

static ew_status open_gguf(ew_checkpoint *cp, ew_error *error) {
    ew_status status = ew_gguf_open(cp->path, &cp->gguf, error);
    if (status != EW_OK || (status = read_kind(cp, error)) != EW_OK ||
        (status = ew_config_from_gguf(cp->gguf, &cp->config, error)) != EW_OK) {
        return status;
    }
    return cp->kind == EW_CHECKPOINT_EDGEWISE ? list_tensors(cp, error) : bind_tensors(cp, error);
}

static ew_status open_folder(ew_checkpoint *cp, ew_error *error) {
    cp->kind = EW_CHECKPOINT_HUGGING_FACE;
    if (ew_folder_has(cp->path, "adapter_config.json") && !ew_folder_has(cp->path, "config.json")) {
        return fail_adapter(cp, error);
    }
    ew_status status = ew_config_from_folder(cp->path, &cp->config, error);
    if (status != EW_OK) {
        return status;
    }
    if (ew_folder_has(cp->path, "tokenizer.model") && !ew_folder_has(cp->path, "tokenizer.json") &&
        !ew_folder_has(cp->path, "vocab.json")) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s has a SentencePiece tokenizer (tokenizer.model), which is not "
                       "supported; byte-level BPE (tokenizer.json, or vocab.json and merges.txt) is",
                       cp->path);
    }
    status = ew_weight_folder_open(cp->path, &cp->folder, error);
    return status == EW_OK ? bind_tensors(cp, error) : status;
}

ew_status ew_checkpoint_open(const char *path, ew_checkpoint **out, ew_error *error) {
    struct stat information;
    *out = NULL;
    ew_checkpoint *cp = ew_allocate(1, sizeof *cp);
    if (!cp || !(cp->path = ew_copy_text(path, strlen(path)))) {
        free(cp);
        return ew_fail_memory(error, sizeof *cp, "a model");
    }
    bool folder = stat(path, &information) == 0 && S_ISDIR(information.st_mode);
    ew_status status = folder ? open_folder(cp, error) : open_gguf(cp, error);
    if (status != EW_OK) {
        ew_checkpoint_close(cp);
        return status;
    }
    *out = cp;
    return EW_OK;
}

void ew_checkpoint_close(ew_checkpoint *checkpoint) {
    if (!checkpoint) {
        return;
    }
    free(checkpoint->tensors);
    free(checkpoint->names);
    free(checkpoint->expected);
    ew_gguf_close(checkpoint->gguf);
    ew_weight_folder_close(&checkpoint->folder);
    free(checkpoint->path);
    free(checkpoint);
}

ew_checkpoint_source ew_checkpoint_kind(const ew_checkpoint *checkpoint) {
    return checkpoint->kind;
}

const char *ew_checkpoint_path(const ew_checkpoint *checkpoint) {
    return checkpoint->path;
}

const ew_config *ew_checkpoint_config(const ew_checkpoint *checkpoint) {
    return &checkpoint->config;
}

const ew_gguf *ew_checkpoint_gguf(const ew_checkpoint *checkpoint) {
    return checkpoint->gguf;
}

size_t ew_checkpoint_tensor_count(const ew_checkpoint *checkpoint) {
    return checkpoint->count;
}

const ew_tensor *ew_checkpoint_tensor_at(const ew_checkpoint *checkpoint, size_t index) {
    return &checkpoint->tensors[index];
}

const ew_tensor *ew_checkpoint_find(const ew_checkpoint *checkpoint, const char *name) {
    const ew_name *entry = ew_names_find(checkpoint->names, checkpoint->count, ew_string_of(name));
    return entry ? &checkpoint->tensors[entry->index] : NULL;
}
