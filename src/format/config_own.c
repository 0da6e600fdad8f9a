/* The keys edgewise.config.*: what llama.cpp's keys cannot say, or not exactly. Written and read here. */
#include "format/config_internal.h"

#include <stdio.h>
#include <string.h>

#define OWN "edgewise.config."

enum { KEY_BYTES = 96 };

static const char *key_of(const ew_config *config, const char *name, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s.%s", ew_architecture_name(config->architecture), name);
    return key;
}

typedef struct member_key {
    const char *key;
    size_t place; /* of the double or the bool in ew_config */
} member_key;

#define PLACE(member) offsetof(ew_config, member)
static const member_key numbers[] = {
    {OWN "rope_theta", PLACE(rope.theta)},
    {OWN "rope_factor", PLACE(rope.factor)},
    {OWN "rope_low_freq_factor", PLACE(rope.low_freq_factor)},
    {OWN "rope_high_freq_factor", PLACE(rope.high_freq_factor)},
    {OWN "rope_beta_fast", PLACE(rope.beta_fast)},
    {OWN "rope_beta_slow", PLACE(rope.beta_slow)},
    {OWN "rope_attention_factor", PLACE(rope.attention_factor)},
    {OWN "rope_mscale", PLACE(rope.mscale)},
    {OWN "rope_mscale_all_dim", PLACE(rope.mscale_all_dim)},
    {OWN "sampling_temperature", PLACE(sampling.temperature)},
    {OWN "sampling_top_p", PLACE(sampling.top_p)},
    {OWN "sampling_min_p", PLACE(sampling.min_p)},
    {OWN "sampling_repetition_penalty", PLACE(sampling.repetition_penalty)},
};

static const member_key flags[] = {
    {OWN "qkv_bias", PLACE(qkv_bias)},
    {OWN "o_bias", PLACE(o_bias)},
    {OWN "qk_norm", PLACE(qk_norm)},
    {OWN "tied_embeddings", PLACE(tied_embeddings)},
    {OWN "rope_truncate", PLACE(rope.truncate)},
    {OWN "sampling_given", PLACE(sampling.given)},
    {OWN "sampling_do_sample", PLACE(sampling.do_sample)},
};

enum { N_NUMBERS = sizeof numbers / sizeof *numbers, N_FLAGS = sizeof flags / sizeof *flags };

static void write_standard_keys(const ew_config *c, ew_gguf_writer *writer) {
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {{"block_count", c->n_layers},          {"context_length", c->context_length},
                 {"embedding_length", c->d_model},      {"feed_forward_length", c->d_ff},
                 {"attention.head_count", c->n_heads},  {"attention.head_count_kv", c->n_kv_heads},
                 {"attention.key_length", c->head_dim}, {"attention.value_length", c->head_dim},
                 {"rope.dimension_count", c->head_dim}, {"vocab_size", c->vocab_size}};
    char key[KEY_BYTES];
    ew_gguf_write_text(writer, "general.architecture", ew_architecture_name(c->architecture));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ew_gguf_write_u32(writer, key_of(c, sizes[i].name, key), (uint32_t)sizes[i].value);
    }
    ew_gguf_write_f32(writer, key_of(c, "attention.layer_norm_rms_epsilon", key), c->rms_norm_eps);
    ew_gguf_write_f32(writer, key_of(c, "rope.freq_base", key), (float)c->rope.theta);
    if (c->bos_id >= 0) {
        ew_gguf_write_u32(writer, "tokenizer.ggml.bos_token_id", (uint32_t)c->bos_id);
    }
    ew_gguf_write_bool(writer, "tokenizer.ggml.add_bos_token", c->add_bos);
    if (c->n_eos > 0) {
        ew_gguf_write_u32(writer, "tokenizer.ggml.eos_token_id", (uint32_t)c->eos_ids[c->n_eos - 1]);
    }
}

void ew_config_write_gguf(const ew_config *config, ew_gguf_writer *writer) {
    const char *bytes = (const char *)config;
    write_standard_keys(config, writer);
    for (int i = 0; i < N_NUMBERS; i++) {
        double number;
        memcpy(&number, bytes + numbers[i].place, sizeof number);
        ew_gguf_write_f64(writer, numbers[i].key, number);
    }
    for (int i = 0; i < N_FLAGS; i++) {
        bool flag;
        memcpy(&flag, bytes + flags[i].place, sizeof flag);
        ew_gguf_write_bool(writer, flags[i].key, flag);
    }
    ew_gguf_write_text(writer, OWN "rope_scaling", ew_rope_scaling_name(config->rope.scaling));
    ew_gguf_write_u64(writer, OWN "rope_original_context", config->rope.original_context);
    ew_gguf_write_u32(writer, OWN "sampling_top_k", config->sampling.top_k);
    ew_gguf_write_array(writer, OWN "eos_token_ids", EW_GGUF_INT32, config->eos_ids, config->n_eos);
    if (config->rope.scaling == EW_ROPE_DIVISORS) {
        ew_gguf_write_array(writer, OWN "rope_divisors", EW_GGUF_FLOAT32, config->rope.divisors,
                            config->head_dim / 2);
    }
}

static ew_status read_scaling(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    ew_string name = {0};
    ew_status status = ew_gguf_get_string(gguf, OWN "rope_scaling", NULL, &name, error);
    if (status != EW_OK) {
        return status;
    }
    for (int i = EW_ROPE_NONE; i <= EW_ROPE_DIVISORS; i++) {
        if (ew_string_is(name, ew_rope_scaling_name((ew_rope_scaling)i))) {
            config->rope.scaling = (ew_rope_scaling)i;
            return EW_OK;
        }
    }
    return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: RoPE scaling %.*s is not supported", ew_gguf_path(gguf),
                   (int)(name.length < 100 ? name.length : 100), name.data);
}

static ew_status read_divisors(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    const ew_gguf_value *value;
    ew_status status = ew_gguf_get_array(gguf, OWN "rope_divisors", EW_GGUF_FLOAT64, NULL, &value, error);
    if (status != EW_OK) {
        return status;
    }
    if (value->count > EW_CONFIG_MAX_HEAD_DIM / 2 || value->count != config->head_dim / 2) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: " OWN "rope_divisors has %llu values for a head of %zu",
                       ew_gguf_path(gguf), (unsigned long long)value->count, config->head_dim);
    }
    for (uint64_t i = 0; i < value->count; i++) {
        config->rope.divisors[i] = (float)ew_gguf_float_at(value, i);
    }
    return EW_OK;
}

static ew_status read_eos(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    const ew_gguf_value *value;
    ew_status status = ew_gguf_get_array(gguf, OWN "eos_token_ids", EW_GGUF_INT64, NULL, &value, error);
    for (uint64_t i = 0; status == EW_OK && i < value->count; i++) {
        status = ew_config_add_eos(config, (uint64_t)ew_gguf_integer_at(value, i), ew_gguf_path(gguf), error);
    }
    return status;
}

ew_status ew_config_read_own_keys(const ew_gguf *gguf, ew_config *config, ew_error *error) {
    char *bytes = (char *)config;
    ew_status status;
    for (int i = 0; i < N_NUMBERS; i++) {
        double number = 0;
        if ((status = ew_gguf_get_f64(gguf, numbers[i].key, NULL, &number, error)) != EW_OK) {
            return status;
        }
        memcpy(bytes + numbers[i].place, &number, sizeof number);
    }
    for (int i = 0; i < N_FLAGS; i++) {
        bool flag = false;
        if ((status = ew_gguf_get_bool(gguf, flags[i].key, NULL, &flag, error)) != EW_OK) {
            return status;
        }
        memcpy(bytes + flags[i].place, &flag, sizeof flag);
    }
    uint64_t original = 0;
    if ((status = ew_gguf_get_u64(gguf, OWN "rope_original_context", NULL, &original, error)) != EW_OK ||
        (status = ew_gguf_get_u32(gguf, OWN "sampling_top_k", NULL, &config->sampling.top_k, error)) !=
            EW_OK ||
        (status = read_scaling(gguf, config, error)) != EW_OK) {
        return status;
    }
    config->rope.original_context =
        original < EW_CONFIG_MAX_CONTEXT ? (size_t)original : EW_CONFIG_MAX_CONTEXT + 1;
    if (config->rope.scaling == EW_ROPE_DIVISORS && (status = read_divisors(gguf, config, error)) != EW_OK) {
        return status;
    }
    return read_eos(gguf, config, error);
}
