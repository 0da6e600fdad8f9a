#include "format/config_internal.h"
#include "format/json.h"

#include <string.h>

static ew_status refuse(const char *where, ew_error *error, const char *what, const char *name) {
    return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: %s%s%s not supported", where, what, name ? " " : "",
                   name ? name : "");
}

static ew_status get_required(const json_t *object, const char *key, const char *where, size_t *value,
                              ew_error *error) {
    bool found;
    ew_status status = ew_json_get_size(object, key, where, &found, value, error);
    if (status == EW_OK && !found) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: config.json has no \"%s\"", where, key);
    }
    return status;
}

static ew_status read_architecture(const json_t *object, const char *where, ew_config *config,
                                   ew_error *error) {
    const char *type = "(none: \"model_type\" is missing)";
    ew_status status = ew_json_get_text(object, "model_type", where, NULL, &type, error);
    if (status != EW_OK ||
        (status = ew_config_set_architecture(config, ew_string_of(type), where, error)) != EW_OK) {
        return status;
    }
    const char *class = json_string_value(json_array_get(json_object_get(object, "architectures"), 0));
    if (class && !strstr(class, "ForCausalLM")) {
        return refuse(where, error, "the model class is", class);
    }
    const json_t *quantization = json_object_get(object, "quantization_config");
    if (quantization && !json_is_null(quantization)) {
        const char *method = json_string_value(json_object_get(quantization, "quant_method"));
        return refuse(where, error, "weights quantized by", method ? method : "an unnamed method");
    }
    return EW_OK;
}

static ew_status read_sizes(const json_t *object, const char *where, ew_config *config, ew_error *error) {
    ew_status status;
    bool found;
    if ((status = get_required(object, "num_hidden_layers", where, &config->n_layers, error)) != EW_OK ||
        (status = get_required(object, "hidden_size", where, &config->d_model, error)) != EW_OK ||
        (status = get_required(object, "num_attention_heads", where, &config->n_heads, error)) != EW_OK ||
        (status = get_required(object, "intermediate_size", where, &config->d_ff, error)) != EW_OK ||
        (status = get_required(object, "vocab_size", where, &config->vocab_size, error)) != EW_OK ||
        (status = get_required(object, "max_position_embeddings", where, &config->context_length, error)) !=
            EW_OK) {
        return status;
    }
    config->n_kv_heads = config->n_heads;
    if ((status = ew_json_get_size(object, "num_key_value_heads", where, NULL, &config->n_kv_heads, error)) !=
            EW_OK ||
        (status = ew_json_get_size(object, "head_dim", where, &found, &config->head_dim, error)) != EW_OK ||
        found) {
        return status;
    }
    if (config->architecture == EW_ARCHITECTURE_QWEN3 || config->n_heads == 0 ||
        config->d_model % config->n_heads != 0) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: config.json has no \"head_dim\", and %zu heads of a hidden size of "
                       "%zu do not tell it",
                       where, config->n_heads, config->d_model);
    }
    config->head_dim = config->d_model / config->n_heads;
    return EW_OK;
}

static ew_status refuse_windows(const json_t *object, const char *where, const ew_config *config,
                                ew_error *error) {
    bool window = false;
    ew_status status = ew_json_get_bool(object, "use_sliding_window", where, NULL, &window, error);
    if (status != EW_OK) {
        return status;
    }
    const json_t *size = json_object_get(object, "sliding_window");
    if (window || (config->architecture == EW_ARCHITECTURE_LLAMA && size && !json_is_null(size))) {
        return refuse(where, error, "sliding-window attention is", NULL);
    }
    const json_t *kinds = json_object_get(object, "layer_types");
    for (size_t i = 0; i < json_array_size(kinds); i++) {
        const char *kind = json_string_value(json_array_get(kinds, i));
        if (!kind || strcmp(kind, "full_attention") != 0) {
            return refuse(where, error, "in \"layer_types\",", kind ? kind : "an entry that is no string");
        }
    }
    return EW_OK;
}

static ew_status read_flags(const json_t *object, const char *where, ew_config *config, ew_error *error) {
    bool attention_bias = false, mlp_bias = false;
    const char *activation = "silu";
    double eps = 1e-6, partial = 1;
    ew_status status;
    if ((status = ew_json_get_bool(object, "attention_bias", where, NULL, &attention_bias, error)) != EW_OK ||
        (status = ew_json_get_bool(object, "mlp_bias", where, NULL, &mlp_bias, error)) != EW_OK ||
        (status = ew_json_get_bool(object, "tie_word_embeddings", where, NULL, &config->tied_embeddings,
                                   error)) != EW_OK ||
        (status = ew_json_get_text(object, "hidden_act", where, NULL, &activation, error)) != EW_OK ||
        (status = ew_json_get_number(object, "partial_rotary_factor", where, NULL, &partial, error)) !=
            EW_OK ||
        (status = ew_json_get_number(object, "rms_norm_eps", where, NULL, &eps, error)) != EW_OK) {
        return status;
    }
    if (mlp_bias) {
        return refuse(where, error, "\"mlp_bias\", biases of the feed-forward layers, is", NULL);
    }
    if (strcmp(activation, "silu") != 0) {
        return refuse(where, error, "activation", activation);
    }
    if (partial != 1) {
        return refuse(where, error, "\"partial_rotary_factor\" other than 1 is", NULL);
    }
    if (config->architecture != EW_ARCHITECTURE_QWEN2 && attention_bias) {
        config->qkv_bias = config->o_bias = true;
    }
    config->rms_norm_eps = (float)eps;
    return refuse_windows(object, where, config, error);
}

/* A member of the RoPE parameters that is not understood would silently change every position. */
static ew_status refuse_unknown_rope(const json_t *rope, const char *where, ew_error *error) {
    static const char *const known[] = {"rope_type",
                                        "type",
                                        "rope_theta",
                                        "factor",
                                        "original_max_position_embeddings",
                                        "attention_factor",
                                        "beta_fast",
                                        "beta_slow",
                                        "mscale",
                                        "mscale_all_dim",
                                        "low_freq_factor",
                                        "high_freq_factor",
                                        "truncate",
                                        "partial_rotary_factor",
                                        "finetuned"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)rope, key, value) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            found = found || strcmp(known[i], key) == 0;
        }
        if (!found && !json_is_null(value)) {
            return refuse(where, error, "RoPE parameter", key);
        }
    }
    return EW_OK;
}

static ew_status read_rope_type(const json_t *rope, const char *where, ew_config *config, ew_error *error) {
    static const struct {
        const char *name;
        ew_rope_scaling scaling;
    } types[] = {{"default", EW_ROPE_NONE},
                 {"linear", EW_ROPE_LINEAR},
                 {"llama3", EW_ROPE_LLAMA3},
                 {"yarn", EW_ROPE_YARN}};
    const char *type = "default";
    bool found;
    ew_status status = ew_json_get_text(rope, "rope_type", where, &found, &type, error);
    if (status == EW_OK && !found) {
        status = ew_json_get_text(rope, "type", where, NULL, &type, error);
    }
    if (status != EW_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, type) == 0) {
            config->rope.scaling = types[i].scaling;
            return refuse_unknown_rope(rope, where, error);
        }
    }
    return refuse(where, error, "RoPE scaling", type);
}

static ew_status read_rope_numbers(const json_t *object, const char *where, ew_config *config,
                                   ew_error *error) {
    ew_rope *rope = &config->rope;
    double partial = 1;
    const struct {
        const char *key;
        double *value;
        int required_by; /* the scaling that cannot do without; -1: none */
    } numbers[] = {
        {"rope_theta", &rope->theta, -1},
        {"factor", &rope->factor, EW_ROPE_NONE}, /* by all but none */
        {"low_freq_factor", &rope->low_freq_factor, EW_ROPE_LLAMA3},
        {"high_freq_factor", &rope->high_freq_factor, EW_ROPE_LLAMA3},
        {"beta_fast", &rope->beta_fast, -1},
        {"beta_slow", &rope->beta_slow, -1},
        {"attention_factor", &rope->attention_factor, -1},
        {"mscale", &rope->mscale, -1},
        {"mscale_all_dim", &rope->mscale_all_dim, -1},
        {"partial_rotary_factor", &partial, -1},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        bool found;
        ew_status status = ew_json_get_number(object, numbers[i].key, where, &found, numbers[i].value, error);
        if (status != EW_OK) {
            return status;
        }
        bool required = numbers[i].required_by == EW_ROPE_NONE ? rope->scaling != EW_ROPE_NONE
                                                               : numbers[i].required_by == (int)rope->scaling;
        if (!found && required) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: RoPE scaling %s has no \"%s\"", where,
                           ew_rope_scaling_name(rope->scaling), numbers[i].key);
        }
    }
    if (partial != 1) {
        return refuse(where, error, "\"partial_rotary_factor\" other than 1 is", NULL);
    }
    rope->original_context = config->context_length;
    ew_status status = ew_json_get_size(object, "original_max_position_embeddings", where, NULL,
                                        &rope->original_context, error);
    return status == EW_OK ? ew_json_get_bool(object, "truncate", where, NULL, &rope->truncate, error)
                           : status;
}

/* Parameters that the scaling does not use must not tell two equal models apart. */
static void forget_unused(ew_rope *rope) {
    ew_config neutral;
    ew_config_begin(&neutral);
    if (rope->scaling != EW_ROPE_YARN) {
        rope->beta_fast = neutral.rope.beta_fast;
        rope->beta_slow = neutral.rope.beta_slow;
        rope->attention_factor = rope->mscale = rope->mscale_all_dim = 0;
        rope->truncate = true;
    }
    if (rope->scaling != EW_ROPE_LLAMA3) {
        rope->low_freq_factor = rope->high_freq_factor = 0;
    }
    if (rope->scaling == EW_ROPE_NONE) {
        rope->factor = 1;
    }
    if (rope->scaling == EW_ROPE_NONE || rope->scaling == EW_ROPE_LINEAR) {
        rope->original_context = 0;
    }
}

static ew_status read_rope(const json_t *object, const char *where, ew_config *config, ew_error *error) {
    ew_status status = ew_json_get_number(object, "rope_theta", where, NULL, &config->rope.theta, error);
    if (status != EW_OK) {
        return status;
    }
    const json_t *rope = json_object_get(object, "rope_parameters");
    if (!rope || json_is_null(rope)) {
        rope = json_object_get(object, "rope_scaling");
    }
    if (!rope || json_is_null(rope)) {
        return EW_OK;
    }
    if (!json_is_object(rope)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the RoPE parameters are no object", where);
    }
    if ((status = read_rope_type(rope, where, config, error)) == EW_OK &&
        (status = read_rope_numbers(rope, where, config, error)) == EW_OK) {
        forget_unused(&config->rope);
    }
    return status;
}

/* "eos_token_id" is one id, a list, or null. */
static ew_status read_eos(const json_t *object, const char *where, ew_config *config, ew_error *error) {
    const json_t *value = json_object_get(object, "eos_token_id");
    size_t count = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(id) || json_integer_value(id) < 0) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: \"eos_token_id\" must be an id or a list of ids",
                           where);
        }
        ew_status status = ew_config_add_eos(config, (uint64_t)json_integer_value(id), where, error);
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

static ew_status read_bos(const json_t *object, const char *where, ew_config *config, ew_error *error) {
    size_t id;
    bool found;
    ew_status status = ew_json_get_size(object, "bos_token_id", where, &found, &id, error);
    if (status == EW_OK && found) {
        if (id >= EW_CONFIG_MAX_VOCAB) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: begin token %zu is in no vocabulary", where, id);
        }
        config->bos_id = (int32_t)id;
    }
    return status;
}

static ew_status read_main(const json_t *object, const char *where, ew_config *config, ew_error *error) {
    ew_status status;
    if ((status = read_architecture(object, where, config, error)) != EW_OK ||
        (status = read_sizes(object, where, config, error)) != EW_OK ||
        (status = read_flags(object, where, config, error)) != EW_OK ||
        (status = read_rope(object, where, config, error)) != EW_OK ||
        (status = read_bos(object, where, config, error)) != EW_OK) {
        return status;
    }
    return read_eos(object, where, config, error);
}

static ew_status read_generation(const json_t *object, const char *where, ew_config *config,
                                 ew_error *error) {
    ew_sampling_defaults *s = &config->sampling;
    size_t top_k = 0;
    bool found[6] = {false};
    ew_status status;
    if ((status = ew_json_get_bool(object, "do_sample", where, &found[0], &s->do_sample, error)) != EW_OK ||
        (status = ew_json_get_number(object, "temperature", where, &found[1], &s->temperature, error)) !=
            EW_OK ||
        (status = ew_json_get_size(object, "top_k", where, &found[2], &top_k, error)) != EW_OK ||
        (status = ew_json_get_number(object, "top_p", where, &found[3], &s->top_p, error)) != EW_OK ||
        (status = ew_json_get_number(object, "min_p", where, &found[4], &s->min_p, error)) != EW_OK ||
        (status = ew_json_get_number(object, "repetition_penalty", where, &found[5], &s->repetition_penalty,
                                     error)) != EW_OK) {
        return status;
    }
    s->top_k = top_k < EW_CONFIG_MAX_VOCAB ? (uint32_t)top_k : EW_CONFIG_MAX_VOCAB;
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        s->given = s->given || found[i];
    }
    return read_eos(object, where, config, error);
}

typedef ew_status part_reader(const json_t *object, const char *where, ew_config *config, ew_error *error);

static ew_status read_part(ew_string text, const char *where, part_reader *reader, ew_config *config,
                           ew_error *error) {
    json_t *object;
    if (!text.data) {
        return EW_OK;
    }
    ew_status status = ew_json_parse(text, where, &object, error);
    if (status == EW_OK) {
        status = reader(object, where, config, error);
        json_decref(object);
    }
    return status;
}

ew_status ew_config_from_texts(const ew_config_texts *texts, const char *where, ew_config *config,
                               ew_error *error) {
    ew_config_begin(config);
    ew_status status;
    if ((status = read_part(texts->config, where, read_main, config, error)) != EW_OK ||
        (status = read_part(texts->generation, where, read_generation, config, error)) != EW_OK ||
        (status = ew_config_read_token_files(texts, where, config, error)) != EW_OK) {
        return status;
    }
    return ew_config_check(config, where, error);
}
