#include "base/file.h"
#include "base/memory.h"
#include "format/adapter_internal.h"
#include "format/dequantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_CONFIG_BYTES = 1 << 20 };

double ew_lora_scale(const ew_lora *adapter, const ew_lora_target *target) {
    double rank = (double)target->rank;
    return target->alpha / (adapter->rslora ? sqrt(rank) : rank);
}

static int compare_linear(const ew_linear *a, const ew_linear *b) {
    if (a->layer != b->layer) {
        return a->layer < b->layer ? -1 : 1;
    }
    return (a->place > b->place) - (a->place < b->place);
}

const ew_lora_target *ew_lora_find(const ew_lora *adapter, const char *name) {
    ew_linear wanted, here;
    if (!ew_linear_by_name(ew_string_of(name), &wanted)) {
        return NULL;
    }
    for (size_t low = 0, high = adapter->n_targets; low < high;) {
        size_t middle = low + (high - low) / 2;
        const ew_lora_target *target = &adapter->targets[middle];
        if (!ew_linear_by_name(ew_string_of(target->name), &here)) {
            return NULL;
        }
        int order = compare_linear(&wanted, &here);
        if (order == 0) {
            return target;
        }
        low = order > 0 ? middle + 1 : low;
        high = order < 0 ? middle : high;
    }
    return NULL;
}

ew_status ew_lora_read_row(const ew_lora_factor *factor, size_t row, float *out, ew_error *error) {
    if (factor->values.type != EW_DTYPE_I8) {
        return ew_dequantize_row(factor->values.type, ew_tensor_row(&factor->values, row), factor->values.cols, out,
                                 error);
    }
    const uint8_t *codes = ew_tensor_row(&factor->values, row);
    float scale;
    memcpy(&scale, ew_tensor_row(&factor->scales, row), sizeof scale);
    for (size_t i = 0; i < factor->values.cols; i++) {
        out[i] = scale * (float)(int8_t)codes[i];
    }
    return EW_OK;
}

ew_status ew_adapter_allocate_pieces(ew_adapter_file *file, size_t count, ew_error *error) {
    file->pieces = ew_allocate(count, sizeof *file->pieces);
    file->targets = ew_allocate(count, sizeof *file->targets);
    return file->pieces && file->targets ? EW_OK
                                         : ew_fail_memory(error, count * sizeof *file->pieces, "the table of tensors");
}

ew_status ew_adapter_allocate_tokens(ew_adapter_file *file, size_t count, ew_error *error) {
    if (count > EW_ADAPTER_MAX_TOKENS) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %zu invocation tokens; at most %d are taken", file->path, count,
                       EW_ADAPTER_MAX_TOKENS);
    }
    if (count > 0 && !(file->tokens = ew_allocate(count, sizeof *file->tokens))) {
        return ew_fail_memory(error, count * sizeof *file->tokens, "invocation tokens");
    }
    file->content.invocation_tokens = file->tokens;
    file->content.n_invocation_tokens = count;
    return EW_OK;
}

ew_status ew_adapter_set_token(ew_adapter_file *file, size_t index, int64_t id, ew_error *error) {
    if (id < 0 || id >= EW_CONFIG_MAX_VOCAB) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: invocation token %lld is in no vocabulary", file->path,
                       (long long)id);
    }
    file->tokens[index] = (int32_t)id;
    return EW_OK;
}

static int compare_pieces(const void *left, const void *right) {
    const ew_adapter_piece *a = left, *b = right;
    int order = compare_linear(&a->linear, &b->linear);
    return order != 0 ? order : (int)a->part - (int)b->part;
}

static const char *part_name(ew_adapter_part part) {
    static const char *const names[] = {"lora_A", "the scales of lora_A", "lora_B", "the scales of lora_B"};
    return names[part];
}

static void take_piece(const ew_adapter_piece *piece, ew_lora_target *target) {
    ew_lora_factor *factor = piece->part < EW_PART_B ? &target->a : &target->b;
    bool scales = piece->part == EW_PART_A_SCALES || piece->part == EW_PART_B_SCALES;
    *(scales ? &factor->scales : &factor->values) = piece->tensor;
}

static ew_status check_factor(const ew_adapter_file *file, const ew_linear *linear, const ew_lora_factor *factor,
                              ew_adapter_part part, ew_error *error) {
    const ew_tensor *values = &factor->values, *scales = &factor->scales;
    bool coded = values->type == EW_DTYPE_I8 && file->kind == EW_ADAPTER_GGUF;
    if (!coded && !ew_dtype_is_weight(values->type)) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: %s of %s has type %s, which is not read; F32, F16 and BF16 are", file->path,
                       part_name(part), linear->name, ew_dtype_name(values->type));
    }
    bool has_scales = scales->data != NULL;
    if (coded != has_scales) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s of %s has type %s and %s", file->path, part_name(part),
                       linear->name, ew_dtype_name(values->type), coded ? "no scales" : "scales, which only I8 has");
    }
    if (coded && (scales->type != EW_DTYPE_F32 || scales->rows != values->rows || scales->cols != 1)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the scales of %s of %s must be %zu values of type F32", file->path,
                       part_name(part), linear->name, values->rows);
    }
    return EW_OK;
}

static ew_status check_pair(const ew_adapter_file *file, const ew_linear *linear, ew_lora_target *target,
                            ew_error *error) {
    const ew_tensor *a = &target->a.values, *b = &target->b.values;
    if (!a->data || !b->data) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s of %s (%s) is missing, its other half is there", file->path,
                       a->data ? "lora_B" : "lora_A", linear->module, linear->name);
    }
    if (a->rows != b->cols) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: %s (%s) has lora_A [%zu, %zu] and lora_B [%zu, %zu], which have no rank in common",
                       file->path, linear->module, linear->name, a->rows, a->cols, b->rows, b->cols);
    }
    target->rank = a->rows;
    ew_status status = check_factor(file, linear, &target->a, EW_PART_A, error);
    return status == EW_OK ? check_factor(file, linear, &target->b, EW_PART_B, error) : status;
}

ew_status ew_adapter_pair(ew_adapter_file *file, ew_error *error) {
    ew_adapter_piece *pieces = file->pieces;
    if (file->n_pieces == 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s is an adapter without a single matrix", file->path);
    }
    qsort(pieces, file->n_pieces, sizeof *pieces, compare_pieces);
    file->content.targets = file->targets;
    for (size_t i = 0; i < file->n_pieces;) {
        ew_lora_target *target = &file->targets[file->content.n_targets];
        const ew_linear *linear = &pieces[i].linear;
        *target = (ew_lora_target){.name = linear->name};
        for (size_t first = i; i < file->n_pieces && compare_linear(linear, &pieces[i].linear) == 0; i++) {
            if (i > first && pieces[i].part == pieces[i - 1].part) {
                return ew_fail(error, EW_ERROR_FORMAT, "%s: %s of %s (%s) is there twice", file->path,
                               part_name(pieces[i].part), linear->module, linear->name);
            }
            take_piece(&pieces[i], target);
        }
        ew_status status = check_pair(file, linear, target, error);
        if (status != EW_OK) {
            return status;
        }
        file->content.n_targets++;
    }
    return EW_OK;
}

static ew_status open_folder(const char *path, const ew_config *base, ew_adapter_file **out, ew_error *error) {
    if (!ew_folder_has(path, "adapter_model.safetensors") && ew_folder_has(path, "adapter_model.bin")) {
        return ew_fail(
            error, EW_ERROR_UNSUPPORTED,
            "%s holds its weights as adapter_model.bin, which is not supported; adapter_model.safetensors is", path);
    }
    char *config = ew_join_path(path, "adapter_config.json"), *model = ew_join_path(path, "adapter_model.safetensors");
    char *text = NULL;
    size_t length = 0;
    ew_safetensors *weights = NULL;
    ew_status status = config && model ? ew_read_file(config, MAX_CONFIG_BYTES, &text, &length, error)
                                       : ew_fail_memory(error, strlen(path), "a file name");
    if (status == EW_OK) {
        status = ew_safetensors_open(model, &weights, error);
    }
    if (status == EW_OK) {
        status = ew_adapter_from_peft((ew_string){text, length}, weights, path, base, out, error);
    }
    free(text);
    free(config);
    free(model);
    return status;
}

ew_status ew_adapter_open(const char *path, const ew_config *base, ew_adapter_file **out, ew_error *error) {
    struct stat information;
    *out = NULL;
    if (stat(path, &information) == 0 && S_ISDIR(information.st_mode)) {
        return open_folder(path, base, out, error);
    }
    ew_gguf *gguf;
    ew_status status = ew_gguf_open(path, &gguf, error);
    return status == EW_OK ? ew_adapter_from_gguf(gguf, path, base, out, error) : status;
}

void ew_adapter_close(ew_adapter_file *file) {
    if (!file) {
        return;
    }
    free(file->pieces);
    free(file->targets);
    free(file->tokens);
    free(file->name);
    free(file->base_name);
    json_decref(file->config);
    ew_safetensors_close(file->peft);
    ew_gguf_close(file->gguf);
    free(file->path);
    free(file);
}

ew_adapter_source ew_adapter_file_kind(const ew_adapter_file *file) {
    return file->kind;
}

const char *ew_adapter_file_path(const ew_adapter_file *file) {
    return file->path;
}

const ew_lora *ew_adapter_file_content(const ew_adapter_file *file) {
    return &file->content;
}

bool ew_adapter_is(const char *path) {
    struct stat information;
    if (stat(path, &information) != 0) {
        return false;
    }
    if (S_ISDIR(information.st_mode)) {
        return ew_folder_has(path, "adapter_config.json");
    }
    ew_gguf *gguf;
    ew_string type = {NULL, 0};
    bool found = false;
    if (ew_gguf_open(path, &gguf, NULL) != EW_OK) {
        return false;
    }
    bool is = ew_gguf_get_string(gguf, "general.type", &found, &type, NULL) == EW_OK && found &&
              ew_string_is(type, "adapter");
    ew_gguf_close(gguf);
    return is;
}

ew_status ew_adapter_match_base(const ew_adapter_file *file, const char *source, const char *weights,
                                bool *other_weights, ew_error *error) {
    const ew_lora *adapter = &file->content;
    *other_weights = false;
    if (source && adapter->source_fingerprint && strcmp(source, adapter->source_fingerprint) != 0) {
        return ew_fail(
            error, EW_ERROR_FORMAT,
            "%s was trained for another model: its base has the source fingerprint %.16s..., this one %.16s...",
            file->path, adapter->source_fingerprint, source);
    }
    *other_weights = weights && adapter->weights_fingerprint && strcmp(weights, adapter->weights_fingerprint) != 0;
    return EW_OK;
}
