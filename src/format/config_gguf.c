#include "format/config_internal.h"

#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 96, TOKEN_TYPE_CONTROL = 3, TOKEN_TYPE_USER = 4 };

/* A key of the architecture: "qwen2" + "." + name. */
static const char *key_of(const ew_config *config, const char *name, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s.%s", ew_architecture_name(config->architecture), name);
    return key;
}

static ew_status get_size(const ew_gguf *gguf, const ew_config *config, const char *name, bool *found,
                          size_t *value, ew_error *error) {
    char key[KEY_BYTES];
    uint64_t number = 0;
    bool there;
    ew_status status =
        ew_gguf_get_u64(gguf, key_of(config, name, key), found ? found : &there, &number, error);
    if (status == EW_OK && (found ? *found : there)) {
        *value = number < SIZE_MAX ? (size_t)number : SIZE_MAX;
    }
    return status;
}

static ew_status get_required(const ew_gguf *gguf, const ew_config *config, const char *name, size_t *value,
                              ew_error *error) {
    char key[KEY_BYTES];
    uint64_t number = 0;
    ew_status status = ew_gguf_get_u64(gguf, key_of(config, name, key), NULL, &number, error);
    *value = number < SIZE_MAX ? (size_t)number : SIZE_MAX;
    return status;
}

static ew_status get_number(const ew_gguf *gguf, const ew_config *config, const char *name, double *value,
                            ew_error *error) {
    char key[KEY_BYTES];
    bool found;
    return ew_gguf_get_f64(gguf, key_of(config, name, key), &found, value, error);
}

/* Keys of other models of the same families that change the arithmetic, unless the value is 0 or the neutral
 * one. */
static ew_status refuse_variants(const ew_gguf *gguf, const ew_config *config, ew_error *error) {
    static const struct {
        const char *name;
        double neutral;
    } variants[] = {{"expert_count", 0},
                    {"attention.sliding_window", 0},
                    {"attention.scale", 0},
                    {"attention.clamp_kqv", 0},
                    {"attention.max_alibi_bias", 0},
                    {"attn_logit_softcapping", 0},
                    {"final_logit_softcapping", 0},
                    {"logit_scale", 1},
                    {"residual_scale", 1},
                    {"embedding_scale", 1},
                    {"rope.scale_linear", 1},
                    {"rope.scaling.attn_factor", 1},
                    {"rope.scaling.yarn_log_multiplier", 0},
                    {"rope.scaling.yarn_ext_factor", 1},
                    {"rope.scaling.yarn_attn_factor", 1}};
    char key[KEY_BYTES];
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const ew_gguf_value *value = ew_gguf_find(gguf, key_of(config, variants[i].name, key));
        if (!value || value->type == EW_GGUF_ARRAY || value->type == EW_GGUF_STRING) {
            continue;
        }
        bool integer = value->type != EW_GGUF_FLOAT32 && value->type != EW_GGUF_FLOAT64;
        double number = integer ? (double)ew_gguf_integer_at(value, 0) : ew_gguf_float_at(value, 0);
        if (number != 0 && number != variants[i].neutral) {
            return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: %s = %g is not supported", ew_gguf_path(gguf),
                           key, number);
        }
    }
    return EW_OK;
}

static ew_status read_head_dim(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    bool found;
    ew_status status = get_size(gguf, config, "attention.key_length", &found, &config->head_dim, error);
    if (status != EW_OK) {
        return status;
    }
    if (!found) {
        if (config->n_heads == 0 || config->d_model % config->n_heads != 0) {
            return ew_fail(error, EW_ERROR_FORMAT,
                           "%s: no key gives the head size, and %zu heads of a hidden size of "
                           "%zu do not tell it",
                           ew_gguf_path(gguf), config->n_heads, config->d_model);
        }
        config->head_dim = config->d_model / config->n_heads;
    }
    size_t value_length = config->head_dim, turned = config->head_dim;
    if ((status = get_size(gguf, config, "attention.value_length", NULL, &value_length, error)) != EW_OK ||
        (status = get_size(gguf, config, "rope.dimension_count", NULL, &turned, error)) != EW_OK) {
        return status;
    }
    if (value_length != config->head_dim || turned != config->head_dim) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: keys of %zu, values of %zu and %zu RoPE dimensions a head; only "
                       "equal numbers are supported",
                       ew_gguf_path(gguf), config->head_dim, value_length, turned);
    }
    return EW_OK;
}

/* The key, else the number of tokens, else the rows of the embedding. */
static ew_status read_vocab_size(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    bool found;
    ew_status status = get_size(gguf, config, "vocab_size", &found, &config->vocab_size, error);
    if (status != EW_OK || found) {
        return status;
    }
    const ew_gguf_value *tokens;
    status = ew_gguf_get_array(gguf, "tokenizer.ggml.tokens", EW_GGUF_STRING, &found, &tokens, error);
    if (status != EW_OK) {
        return status;
    }
    const ew_gguf_tensor *embedding = ew_gguf_find_tensor(gguf, "token_embd.weight");
    uint64_t count = found ? tokens->count : embedding ? embedding->shape[1] : 0;
    config->vocab_size = count < SIZE_MAX ? (size_t)count : SIZE_MAX;
    return EW_OK;
}

static ew_status read_sizes(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    double eps = 0;
    char key[KEY_BYTES];
    ew_status status;
    if ((status = get_required(gguf, config, "block_count", &config->n_layers, error)) != EW_OK ||
        (status = get_required(gguf, config, "context_length", &config->context_length, error)) != EW_OK ||
        (status = get_required(gguf, config, "embedding_length", &config->d_model, error)) != EW_OK ||
        (status = get_required(gguf, config, "feed_forward_length", &config->d_ff, error)) != EW_OK ||
        (status = get_required(gguf, config, "attention.head_count", &config->n_heads, error)) != EW_OK) {
        return status;
    }
    config->n_kv_heads = config->n_heads;
    const char *eps_key = key_of(config, "attention.layer_norm_rms_epsilon", key);
    if ((status = ew_gguf_get_f64(gguf, eps_key, NULL, &eps, error)) != EW_OK ||
        (status = get_size(gguf, config, "attention.head_count_kv", NULL, &config->n_kv_heads, error)) !=
            EW_OK ||
        (status = get_number(gguf, config, "rope.freq_base", &config->rope.theta, error)) != EW_OK ||
        (status = read_head_dim(gguf, config, error)) != EW_OK) {
        return status;
    }
    config->rms_norm_eps = (float)eps;
    return read_vocab_size(gguf, config, error);
}

static ew_status read_divisors(const ew_gguf *gguf, ew_config *config, const ew_gguf_tensor *tensor,
                               ew_error *error) {
    size_t half = config->head_dim / 2;
    if (config->head_dim > EW_CONFIG_MAX_HEAD_DIM) {
        return EW_OK; /* the checks at the end refuse it */
    }
    if (tensor->type != EW_DTYPE_F32 || tensor->n_dims != 1 || tensor->shape[0] != half) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: rope_freqs.weight must be %zu values of type F32, one for every "
                       "pair of a head",
                       ew_gguf_path(gguf), half);
    }
    if (config->rope.scaling != EW_ROPE_NONE) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: rope_freqs.weight together with RoPE scaling %s is not "
                       "supported",
                       ew_gguf_path(gguf), ew_rope_scaling_name(config->rope.scaling));
    }
    memcpy(config->rope.divisors, tensor->data, half * sizeof(float));
    config->rope.scaling = EW_ROPE_DIVISORS;
    return EW_OK;
}

static ew_status read_rope(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    char key[KEY_BYTES];
    bool found;
    ew_string type = {0};
    ew_rope *rope = &config->rope;
    ew_status status =
        ew_gguf_get_string(gguf, key_of(config, "rope.scaling.type", key), &found, &type, error);
    if (status != EW_OK) {
        return status;
    }
    if (found && ew_string_is(type, "linear")) {
        rope->scaling = EW_ROPE_LINEAR;
    } else if (found && ew_string_is(type, "yarn")) {
        rope->scaling = EW_ROPE_YARN;
    } else if (found && !ew_string_is(type, "none")) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: RoPE scaling %.*s is not supported",
                       ew_gguf_path(gguf), (int)(type.length < 100 ? type.length : 100), type.data);
    }
    if (rope->scaling != EW_ROPE_NONE) {
        rope->factor = 0;
        status = get_number(gguf, config, "rope.scaling.factor", &rope->factor, error);
    }
    if (status == EW_OK && rope->scaling == EW_ROPE_YARN) {
        rope->original_context = config->context_length;
        if ((status = get_size(gguf, config, "rope.scaling.original_context_length", NULL,
                               &rope->original_context, error)) != EW_OK ||
            (status = get_number(gguf, config, "rope.scaling.yarn_beta_fast", &rope->beta_fast, error)) !=
                EW_OK) {
            return status;
        }
        status = get_number(gguf, config, "rope.scaling.yarn_beta_slow", &rope->beta_slow, error);
    }
    const ew_gguf_tensor *divisors = ew_gguf_find_tensor(gguf, "rope_freqs.weight");
    return status == EW_OK && divisors ? read_divisors(gguf, config, divisors, error) : status;
}

/* Texts that end a reply in the vocabularies of these families, as llama.cpp knows them too. */
static bool ends_by_text(ew_string text) {
    static const char *const texts[] = {"<|im_end|>",      "<|endoftext|>", "<|eot_id|>",
                                        "<|end_of_text|>", "<|eom_id|>",    "<|end|>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (ew_string_is(text, texts[i])) {
            return true;
        }
    }
    return false;
}

/* GGUF has one key for an end token; the others are found among the special tokens by their texts. */
static ew_status find_end_tokens(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    const ew_gguf_value *tokens, *types;
    bool found, typed;
    ew_status status =
        ew_gguf_get_array(gguf, "tokenizer.ggml.tokens", EW_GGUF_STRING, &found, &tokens, error);
    if (status == EW_OK) {
        status = ew_gguf_get_array(gguf, "tokenizer.ggml.token_type", EW_GGUF_INT32, &typed, &types, error);
    }
    if (status != EW_OK || !found || !typed || types->count != tokens->count) {
        return status;
    }
    ew_gguf_strings strings = ew_gguf_strings_begin(tokens);
    ew_string text;
    for (uint64_t id = 0; ew_gguf_strings_next(&strings, &text); id++) {
        int64_t type = ew_gguf_integer_at(types, id);
        if ((type == TOKEN_TYPE_CONTROL || type == TOKEN_TYPE_USER) && ends_by_text(text)) {
            status = ew_config_add_eos(config, id, ew_gguf_path(gguf), error);
            if (status != EW_OK) {
                return status;
            }
        }
    }
    return EW_OK;
}

static ew_status read_bos(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    uint32_t id;
    bool found;
    ew_string pre = {0};
    ew_status status = ew_gguf_get_u32(gguf, "tokenizer.ggml.bos_token_id", &found, &id, error);
    if (status != EW_OK) {
        return status;
    }
    if (found) {
        config->bos_id = id < EW_CONFIG_MAX_VOCAB ? (int32_t)id : EW_CONFIG_MAX_VOCAB;
    }
    status = ew_gguf_get_string(gguf, "tokenizer.ggml.pre", &found, &pre, error);
    if (status != EW_OK) {
        return status;
    }
    /* What llama.cpp assumes of these pre-tokenizers when the key below is missing. */
    config->add_bos = found && (ew_string_is(pre, "llama-bpe") || ew_string_is(pre, "llama3") ||
                                ew_string_is(pre, "llama-v3"));
    return ew_gguf_get_bool(gguf, "tokenizer.ggml.add_bos_token", &found, &config->add_bos, error);
}

static ew_status read_tokens(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    ew_string model = {0};
    bool found;
    ew_status status = ew_gguf_get_string(gguf, "tokenizer.ggml.model", &found, &model, error);
    if (status != EW_OK) {
        return status;
    }
    if (found && !ew_string_is(model, "gpt2")) {
        bool pieces = ew_string_is(model, "llama");
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: tokenizer %.*s%s is not supported; byte-level BPE (gpt2) is", ew_gguf_path(gguf),
                       (int)(model.length < 100 ? model.length : 100), model.data,
                       pieces ? " (SentencePiece)" : "");
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint32_t id;
        status = ew_gguf_get_u32(gguf, keys[i], &found, &id, error);
        if (status == EW_OK && found) {
            status = ew_config_add_eos(config, id, ew_gguf_path(gguf), error);
        }
        if (status != EW_OK) {
            return status;
        }
    }
    return read_bos(gguf, config, error);
}

static ew_status read_sampling(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    ew_sampling_defaults *s = &config->sampling;
    bool found[5];
    ew_status status;
    if ((status = ew_gguf_get_f64(gguf, "general.sampling.temp", &found[0], &s->temperature, error)) !=
            EW_OK ||
        (status = ew_gguf_get_u32(gguf, "general.sampling.top_k", &found[1], &s->top_k, error)) != EW_OK ||
        (status = ew_gguf_get_f64(gguf, "general.sampling.top_p", &found[2], &s->top_p, error)) != EW_OK ||
        (status = ew_gguf_get_f64(gguf, "general.sampling.min_p", &found[3], &s->min_p, error)) != EW_OK ||
        (status = ew_gguf_get_f64(gguf, "general.sampling.penalty_repeat", &found[4], &s->repetition_penalty,
                                  error)) != EW_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        s->given = s->given || found[i];
    }
    s->do_sample = s->given && s->temperature > 0; /* the converter writes these only where sampling is on */
    return EW_OK;
}

static ew_status refuse_other_kinds(const ew_gguf *gguf, ew_error *error) {
    ew_string type = {0};
    bool found;
    ew_status status = ew_gguf_get_string(gguf, "general.type", &found, &type, error);
    if (status == EW_OK && found && !ew_string_is(type, "model")) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s is of type %.*s (general.type); a model is needed",
                       ew_gguf_path(gguf), (int)(type.length < 100 ? type.length : 100), type.data);
    }
    return status;
}

static void read_flags(const ew_gguf *gguf, ew_config *config) {
    config->tied_embeddings = ew_gguf_find_tensor(gguf, "output.weight") == NULL;
    config->qkv_bias = config->qkv_bias || ew_gguf_find_tensor(gguf, "blk.0.attn_q.bias") != NULL;
    config->o_bias = ew_gguf_find_tensor(gguf, "blk.0.attn_output.bias") != NULL;
}

ew_status ew_config_from_gguf(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    ew_string architecture = {0};
    ew_config_begin(config);
    ew_status status = ew_gguf_get_string(gguf, "general.architecture", NULL, &architecture, error);
    if (status != EW_OK || (status = refuse_other_kinds(gguf, error)) != EW_OK ||
        (status = ew_config_set_architecture(config, architecture, ew_gguf_path(gguf), error)) != EW_OK ||
        (status = refuse_variants(gguf, config, error)) != EW_OK ||
        (status = read_sizes(gguf, config, error)) != EW_OK ||
        (status = read_tokens(gguf, config, error)) != EW_OK) {
        return status;
    }
    if (ew_gguf_find(gguf, "edgewise.version")) {
        status = ew_config_read_own_keys(gguf, config, error);
    } else {
        read_flags(gguf, config);
        if ((status = read_rope(gguf, config, error)) == EW_OK &&
            (status = read_sampling(gguf, config, error)) == EW_OK) {
            status = find_end_tokens(gguf, config, error);
        }
    }
    return status == EW_OK ? ew_config_check(config, ew_gguf_path(gguf), error) : status;
}
