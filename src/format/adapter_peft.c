#include "base/file.h"
#include "base/memory.h"
#include "format/adapter_internal.h"
#include "format/adapter_pattern.h"

#include <stdlib.h>
#include <string.h>

/* The rules of a configuration, while it is applied. */
typedef struct peft_rules {
    size_t rank;
    double alpha;
    ew_module_numbers ranks, alphas;
    ew_module_choice choice;
} peft_rules;

static ew_status refuse(const char *path, const char *what, ew_error *error) {
    return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: %s not supported; plain LoRA (and rsLoRA, aLoRA) is", path, what);
}

static bool is_empty(const json_t *value) {
    return !value || json_is_null(value) || json_is_false(value) ||
           ((json_is_array(value) || json_is_object(value)) && json_array_size(value) + json_object_size(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

/* Keys that must say nothing, and what they would mean. */
static const struct {
    const char *key, *what;
} refused[] = {
    {"use_dora", "DoRA (\"use_dora\") is"},
    {"modules_to_save", "replacing whole modules (\"modules_to_save\") is"},
    {"lora_bias", "biases of the adapter (\"lora_bias\") are"},
    {"fan_in_fan_out", "transposed weights (\"fan_in_fan_out\") are"},
    {"layer_replication", "replicated layers (\"layer_replication\") are"},
    {"trainable_token_indices", "trained embeddings (\"trainable_token_indices\") are"},
    {"target_parameters", "adapting parameters other than linear layers (\"target_parameters\") is"},
    {"use_qalora", "QALoRA (\"use_qalora\") is"},
    {"use_bdlora", "block-diagonal LoRA (\"use_bdlora\") is"},
    {"arrow_config", "routing among adapters (\"arrow_config\") is"},
    {"kasa_config", "KaSA (\"kasa_config\") is"},
    {"monteclora_config", "MonteCLoRA (\"monteclora_config\") is"},
    {"velora_config", "VeLoRA (\"velora_config\") is"},
};

/* Keys that are read here, and those that matter to training only. Another one with something in it may change what
 * the adapter computes. */
static const char *const known[] = {
    "alora_invocation_tokens",
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_dropout",
    "lora_dtype",
    "lora_ga_config",
    "lorap_emb_lr",
    "lorap_lr_ratio",
    "megatron_config",
    "megatron_core",
    "model_key_mapping",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
};

static ew_status check_keys(const json_t *config, const char *path, ew_error *error) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (!is_empty(json_object_get(config, refused[i].key))) {
            return refuse(path, refused[i].what, error);
        }
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)config, key, value) {
        bool found = is_empty(value);
        for (size_t i = 0; i < sizeof known / sizeof *known && !found; i++) {
            found = strcmp(key, known[i]) == 0;
        }
        if (!found) {
            return ew_fail(
                error, EW_ERROR_UNSUPPORTED,
                "%s: adapter_config.json has \"%s\", which is not known and may change what the adapter does", path,
                key);
        }
    }
    return EW_OK;
}

/* These ways to begin training take a part out of the base's weights, so that the base as it is no longer fits. */
static ew_status check_beginning(const json_t *config, const char *path, ew_error *error) {
    static const char *const changing[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const char *begin = json_string_value(json_object_get(config, "init_lora_weights"));
    for (size_t i = 0; begin && i < sizeof changing / sizeof *changing; i++) {
        if (strncmp(begin, changing[i], strlen(changing[i])) == 0) {
            return ew_fail(error, EW_ERROR_UNSUPPORTED,
                           "%s: \"init_lora_weights\" is \"%s\", which changes the base's weights too; "
                           "convert it to plain LoRA when saving it with peft",
                           path, begin);
        }
    }
    return EW_OK;
}

static ew_status check_method(const json_t *config, const char *path, ew_error *error) {
    const char *type = NULL, *bias = "none", *layers = "layers";
    ew_status status;
    if ((status = ew_json_get_text(config, "peft_type", path, NULL, &type, error)) != EW_OK ||
        (status = ew_json_get_text(config, "bias", path, NULL, &bias, error)) != EW_OK) {
        return status;
    }
    if (!type || strcmp(type, "LORA") != 0) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: the method %s (\"peft_type\") is not supported; LORA is", path,
                       type ? type : "(not given)");
    }
    if (strcmp(bias, "none") != 0) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: trained biases (\"bias\": \"%s\") are not supported; \"none\" is", path, bias);
    }
    if ((status = check_beginning(config, path, error)) != EW_OK ||
        (status = check_keys(config, path, error)) != EW_OK) {
        return status;
    }
    const json_t *pattern = json_object_get(config, "layers_pattern");
    if (json_is_array(pattern) && json_array_size(pattern) == 1) {
        pattern = json_array_get(pattern, 0);
    }
    if (!is_empty(pattern)) {
        layers = json_string_value(pattern);
    }
    if (!layers || strcmp(layers, "layers") != 0) {
        return refuse(path, "a \"layers_pattern\" other than \"layers\" is", error);
    }
    return EW_OK;
}

/* What PEFT has beside lora_A.weight and lora_B.weight, by a part of its name. */
static ew_status fail_tensor(const ew_adapter_file *file, const char *name, ew_error *error) {
    static const struct {
        const char *part, *what;
    } kinds[] = {
        {"lora_magnitude_vector", "DoRA"},
        {"lora_embedding_", "an adapter of the embedding"},
        {"lora_B.bias", "a bias of the adapter"},
        {"hada_", "LoHa"},
        {"lokr_", "LoKr"},
        {"embed_tokens", "an adapter of the embedding"},
        {"lm_head", "an adapter of the head"},
        {".bias", "a trained bias"},
    };
    bool lora = strstr(name, ".lora_A.") || strstr(name, ".lora_B.");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strstr(name, kinds[i].part)) {
            return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s holds %s: that is %s, which is not supported", file->path,
                           name, kinds[i].what);
        }
    }
    return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s holds %s, which is %s", file->path, name,
                   lora ? "for no linear layer of the models that are supported" : "no LoRA matrix");
}

static bool take_prefix(ew_string *name, const char *prefix) {
    size_t length = strlen(prefix);
    if (name->length < length || memcmp(name->data, prefix, length) != 0) {
        return false;
    }
    *name = (ew_string){name->data + length, name->length - length};
    return true;
}

/* [base_model.model.][model.]layers.N.MODULE.lora_A[.ADAPTER].weight */
static bool take_apart(const char *name, ew_linear *linear, ew_adapter_part *part) {
    ew_string rest = ew_string_of(name);
    const char *middle = strstr(name, ".lora_A."), *other = strstr(name, ".lora_B.");
    char module[EW_FOLDER_NAME_BYTES];
    *part = middle ? EW_PART_A : EW_PART_B;
    middle = middle ? middle : other;
    if (!middle) {
        return false;
    }
    const char *end = middle + strlen(".lora_A.");
    const char *dot = strchr(end, '.');
    end = dot && strchr(dot + 1, '.') == NULL ? dot + 1 : end;
    if (strcmp(end, "weight") != 0) {
        return false;
    }
    rest.length = (size_t)(middle - name);
    take_prefix(&rest, "base_model.model.");
    take_prefix(&rest, "model.");
    if (rest.length + sizeof "model." > sizeof module) {
        return false;
    }
    size_t length = strlen("model.");
    memcpy(module, "model.", length);
    memcpy(module + length, rest.data, rest.length);
    return ew_linear_by_module((ew_string){module, length + rest.length}, linear);
}

static ew_status read_pieces(ew_adapter_file *file, ew_error *error) {
    size_t count = ew_safetensors_count(file->peft);
    ew_status status = ew_adapter_allocate_pieces(file, count, error);
    for (size_t i = 0; i < count && status == EW_OK; i++) {
        const ew_safetensors_tensor *tensor = ew_safetensors_at(file->peft, i);
        ew_adapter_piece *piece = &file->pieces[i];
        if (!take_apart(tensor->name, &piece->linear, &piece->part)) {
            return fail_tensor(file, tensor->name, error);
        }
        if (tensor->n_dims != 2 || tensor->bytes == 0) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: %s must have two dimensions, none of them 0", file->path,
                           tensor->name);
        }
        size_t rows = (size_t)tensor->shape[0];
        piece->tensor = (ew_tensor){tensor->name,  tensor->type,         rows, (size_t)tensor->shape[1], tensor->data,
                                    tensor->bytes, tensor->bytes / rows, 0};
        file->n_pieces++;
    }
    return status;
}

static ew_status read_tokens(ew_adapter_file *file, ew_error *error) {
    const json_t *tokens = json_object_get(file->config, "alora_invocation_tokens");
    if (!tokens || json_is_null(tokens)) {
        return EW_OK;
    }
    if (!json_is_array(tokens)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: \"alora_invocation_tokens\" must be a list of ids", file->path);
    }
    ew_status status = ew_adapter_allocate_tokens(file, json_array_size(tokens), error);
    for (size_t i = 0; i < json_array_size(tokens) && status == EW_OK; i++) {
        const json_t *id = json_array_get(tokens, i);
        status = ew_adapter_set_token(file, i, json_is_integer(id) ? json_integer_value(id) : -1, error);
    }
    return status;
}

static ew_status check_alpha(const ew_adapter_file *file, double alpha, ew_error *error) {
    return alpha > 0 ? EW_OK
                     : ew_fail(error, EW_ERROR_FORMAT, "%s: \"lora_alpha\" is %g; a number above 0 is right",
                               file->path, alpha);
}

static ew_status read_rules(ew_adapter_file *file, peft_rules *rules, ew_error *error) {
    const json_t *config = file->config;
    bool has_rank, has_alpha;
    ew_status status;
    if ((status = ew_json_get_size(config, "r", file->path, &has_rank, &rules->rank, error)) != EW_OK ||
        (status = ew_json_get_number(config, "lora_alpha", file->path, &has_alpha, &rules->alpha, error)) != EW_OK ||
        (status = ew_json_get_bool(config, "use_rslora", file->path, NULL, &file->content.rslora, error)) != EW_OK) {
        return status;
    }
    if (!has_rank || !has_alpha) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: adapter_config.json has no \"%s\"", file->path,
                       has_rank ? "lora_alpha" : "r");
    }
    if ((status = ew_module_numbers_read(config, "rank_pattern", file->path, &rules->ranks, error)) != EW_OK ||
        (status = ew_module_numbers_read(config, "alpha_pattern", file->path, &rules->alphas, error)) != EW_OK) {
        return status;
    }
    return ew_module_choice_read(config, file->path, &rules->choice, error);
}

static void free_rules(peft_rules *rules) {
    ew_module_numbers_free(&rules->ranks);
    ew_module_numbers_free(&rules->alphas);
    ew_module_choice_free(&rules->choice);
}

/* The configuration's rank, alpha and choice against the tensors that are there. */
static ew_status apply_rules(ew_adapter_file *file, const peft_rules *rules, const ew_linear *linear,
                             ew_lora_target *target, ew_error *error) {
    double rank = (double)rules->rank;
    bool covers = true;
    ew_status status;
    target->alpha = rules->alpha;
    if ((status = ew_module_numbers_find(&rules->ranks, linear->module, file->path, &rank, error)) != EW_OK ||
        (status = ew_module_numbers_find(&rules->alphas, linear->module, file->path, &target->alpha, error)) != EW_OK ||
        (status = check_alpha(file, target->alpha, error)) != EW_OK) {
        return status;
    }
    if (rank != (double)target->rank) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: adapter_config.json gives %s the rank %g, its tensors have %zu: the scale would be wrong",
                       file->path, linear->module, rank, target->rank);
    }
    if (ew_module_choice_given(&rules->choice)) {
        status = ew_module_choice_covers(&rules->choice, linear->module, linear->layer, file->path, &covers, error);
    }
    if (status == EW_OK && !covers) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s has an adapter of %s, which \"target_modules\" of adapter_config.json does not name",
                       file->path, linear->module);
    }
    return status;
}

static ew_status apply_to_all(ew_adapter_file *file, const peft_rules *rules, ew_error *error) {
    ew_status status = EW_OK;
    for (size_t i = 0; i < file->content.n_targets && status == EW_OK; i++) {
        ew_linear linear;
        if (ew_linear_by_name(ew_string_of(file->targets[i].name), &linear)) {
            status = apply_rules(file, rules, &linear, &file->targets[i], error);
        }
    }
    return status;
}

/* What target_modules names in this base must be there: PEFT itself would leave the rest as it was initialised. */
static ew_status check_complete(const ew_adapter_file *file, const peft_rules *rules, const ew_config *base,
                                ew_error *error) {
    ew_expected *expected = NULL;
    size_t count = 0, missing = 0;
    ew_linear linear, first = {0};
    if (!base || !ew_module_choice_given(&rules->choice)) {
        return EW_OK;
    }
    ew_status status = ew_expect_tensors(base, &expected, &count, error);
    for (size_t i = 0; i < count && status == EW_OK; i++) {
        bool covers = false;
        if (!ew_linear_by_name(ew_string_of(expected[i].name), &linear) || ew_lora_find(&file->content, linear.name)) {
            continue;
        }
        status = ew_module_choice_covers(&rules->choice, linear.module, linear.layer, file->path, &covers, error);
        if (covers && missing++ == 0) {
            first = linear;
        }
    }
    free(expected);
    if (status == EW_OK && missing > 0) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s has adapters of %zu of the %zu matrices that its \"target_modules\" name in a model of %zu "
                       "layers; the first that is missing is %s of layer %zu (%s)",
                       file->path, file->content.n_targets, file->content.n_targets + missing, base->n_layers,
                       first.module, first.layer, first.name);
    }
    return status;
}

static ew_status read_all(ew_adapter_file *file, const ew_config *base, peft_rules *rules, ew_error *error) {
    ew_status status;
    if ((status = check_method(file->config, file->path, error)) != EW_OK ||
        (status = read_rules(file, rules, error)) != EW_OK || (status = read_tokens(file, error)) != EW_OK ||
        (status = read_pieces(file, error)) != EW_OK || (status = ew_adapter_pair(file, error)) != EW_OK ||
        (status = apply_to_all(file, rules, error)) != EW_OK ||
        (status = ew_adapter_fit(&file->content, base, file->path, error)) != EW_OK ||
        (status = check_complete(file, rules, base, error)) != EW_OK) {
        return status;
    }
    return ew_adapter_check_values(&file->content, file->path, error);
}

/* The folder's name, by which people know the adapter. */
static char *name_of(const char *path) {
    size_t length;
    const char *name = ew_last_name(path, &length);
    return ew_copy_text(name, length);
}

ew_status ew_adapter_from_peft(ew_string config, ew_safetensors *weights, const char *path, const ew_config *base,
                               ew_adapter_file **out, ew_error *error) {
    peft_rules rules = {0};
    ew_adapter_file *file = ew_allocate(1, sizeof *file);
    if (!file) {
        ew_safetensors_close(weights);
        return ew_fail_memory(error, sizeof *file, "an adapter");
    }
    file->kind = EW_ADAPTER_PEFT;
    file->peft = weights;
    file->path = ew_copy_text(path, strlen(path));
    file->content.name = file->name = name_of(path);
    ew_status status = file->path && file->name ? ew_json_parse(config, path, &file->config, error)
                                                : ew_fail_memory(error, strlen(path), "a file name");
    if (status == EW_OK) {
        status = ew_json_get_text(file->config, "base_model_name_or_path", path, NULL, &file->content.base_name, error);
    }
    if (status == EW_OK) {
        status = read_all(file, base, &rules, error);
    }
    free_rules(&rules);
    if (status != EW_OK) {
        ew_adapter_close(file);
        return status;
    }
    *out = file;
    return EW_OK;
}
