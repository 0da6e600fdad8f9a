#include "format/config.h"
#include "format/config_internal.h"

#include <math.h>
#include <string.h>

const char *ew_architecture_name(ew_architecture architecture) {
    static const char *const names[] = {"qwen2", "qwen3", "llama"};
    return names[architecture];
}

const char *ew_rope_scaling_name(ew_rope_scaling scaling) {
    static const char *const names[] = {"none", "linear", "llama3", "yarn", "divisors"};
    return names[scaling];
}

void ew_config_begin(ew_config *config) {
    *config = (ew_config){0};
    config->bos_id = -1;
    config->rope.theta = 10000;
    config->rope.factor = 1;
    config->rope.beta_fast = 32;
    config->rope.beta_slow = 1;
    config->rope.truncate = true;
    config->sampling.temperature = 1;
    config->sampling.top_p = 1;
    config->sampling.repetition_penalty = 1;
}

ew_status ew_config_set_architecture(ew_config *config, ew_string name, const char *where, ew_error *error) {
    for (int i = EW_ARCHITECTURE_QWEN2; i <= EW_ARCHITECTURE_LLAMA; i++) {
        if (ew_string_is(name, ew_architecture_name((ew_architecture)i))) {
            config->architecture = (ew_architecture)i;
            config->qk_norm = i == EW_ARCHITECTURE_QWEN3;
            config->qkv_bias = i == EW_ARCHITECTURE_QWEN2;
            return EW_OK;
        }
    }
    return ew_fail(error, EW_ERROR_UNSUPPORTED,
                   "%s: architecture %.*s is not supported; qwen2, qwen3 and llama are", where,
                   (int)(name.length < 100 ? name.length : 100), name.data);
}

ew_status ew_config_add_eos(ew_config *config, uint64_t id, const char *where, ew_error *error) {
    size_t place = 0;
    if (id >= EW_CONFIG_MAX_VOCAB) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: end token %llu is in no vocabulary", where,
                       (unsigned long long)id);
    }
    while (place < config->n_eos && config->eos_ids[place] < (int32_t)id) {
        place++;
    }
    if (place < config->n_eos && config->eos_ids[place] == (int32_t)id) {
        return EW_OK;
    }
    if (config->n_eos == EW_CONFIG_MAX_EOS) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: more than %d end tokens", where, EW_CONFIG_MAX_EOS);
    }
    memmove(config->eos_ids + place + 1, config->eos_ids + place,
            (config->n_eos - place) * sizeof config->eos_ids[0]);
    config->eos_ids[place] = (int32_t)id;
    config->n_eos++;
    return EW_OK;
}

static ew_status check_sizes(const ew_config *c, const char *where, ew_error *error) {
    const struct {
        const char *name;
        size_t value, most;
    } sizes[] = {
        {"the number of layers", c->n_layers, EW_CONFIG_MAX_LAYERS},
        {"the hidden size", c->d_model, EW_CONFIG_MAX_WIDTH},
        {"the number of attention heads", c->n_heads, EW_CONFIG_MAX_WIDTH},
        {"the number of key-value heads", c->n_kv_heads, EW_CONFIG_MAX_WIDTH},
        {"the head size", c->head_dim, EW_CONFIG_MAX_HEAD_DIM},
        {"the feed-forward size", c->d_ff, EW_CONFIG_MAX_WIDTH},
        {"the vocabulary size", c->vocab_size, EW_CONFIG_MAX_VOCAB},
        {"the context length", c->context_length, EW_CONFIG_MAX_CONTEXT},
        {"the width of all attention heads", c->n_heads * c->head_dim, EW_CONFIG_MAX_WIDTH},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].most) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: %s is %zu; 1 to %zu is allowed", where, sizes[i].name,
                           sizes[i].value, sizes[i].most);
        }
    }
    if (c->head_dim % 2 != 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the head size is %zu; it must be even", where,
                       c->head_dim);
    }
    if (c->n_heads % c->n_kv_heads != 0) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: %zu attention heads are no multiple of %zu key-value heads", where, c->n_heads,
                       c->n_kv_heads);
    }
    return EW_OK;
}

static ew_status fail_number(const char *where, const char *name, double value, const char *right,
                             ew_error *error) {
    return ew_fail(error, EW_ERROR_FORMAT, "%s: %s is %g; %s is right", where, name, value, right);
}

static ew_status check_divisors(const ew_config *c, const char *where, ew_error *error) {
    for (size_t i = 0; i < c->head_dim / 2; i++) {
        if (!(c->rope.divisors[i] > 0 && c->rope.divisors[i] <= 1e6f)) {
            return fail_number(where, "a divisor of the RoPE frequencies", c->rope.divisors[i], "more than 0",
                               error);
        }
    }
    return EW_OK;
}

static ew_status check_rope(const ew_config *c, const char *where, ew_error *error) {
    const ew_rope *rope = &c->rope;
    if (!(rope->theta >= 1 && rope->theta <= 1e15)) {
        return fail_number(where, "the base of the RoPE frequencies", rope->theta, "1 to 1e15", error);
    }
    if (rope->scaling == EW_ROPE_NONE) {
        return EW_OK;
    }
    if (rope->scaling == EW_ROPE_DIVISORS) {
        return check_divisors(c, where, error);
    }
    if (!(rope->factor >= 1 && rope->factor <= 1e6)) {
        return fail_number(where, "the factor of the RoPE scaling", rope->factor, "1 to 1e6", error);
    }
    if (rope->scaling == EW_ROPE_LINEAR) {
        return EW_OK;
    }
    if (rope->original_context < 1 || rope->original_context > EW_CONFIG_MAX_CONTEXT) {
        return fail_number(where, "the original context length of the RoPE scaling",
                           (double)rope->original_context, "a positive length", error);
    }
    if (rope->scaling == EW_ROPE_LLAMA3 &&
        !(rope->low_freq_factor > 0 && rope->high_freq_factor > rope->low_freq_factor &&
          rope->high_freq_factor <= 1e6)) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: low_freq_factor %g and high_freq_factor %g must be positive and "
                       "ascending",
                       where, rope->low_freq_factor, rope->high_freq_factor);
    }
    if (rope->scaling == EW_ROPE_YARN &&
        !(rope->beta_slow > 0 && rope->beta_fast > rope->beta_slow && rope->beta_fast <= 1e6)) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: beta_slow %g and beta_fast %g must be positive and ascending", where,
                       rope->beta_slow, rope->beta_fast);
    }
    if (!(rope->attention_factor >= 0 && rope->attention_factor <= 1e3 && rope->mscale >= 0 &&
          rope->mscale <= 1e3 && rope->mscale_all_dim >= 0 && rope->mscale_all_dim <= 1e3)) {
        return fail_number(where, "the attention factor of YaRN", rope->attention_factor, "a positive number",
                           error);
    }
    return EW_OK;
}

static ew_status check_sampling(const ew_sampling_defaults *s, const char *where, ew_error *error) {
    if (!(s->temperature >= 0 && s->temperature <= 1e3)) {
        return fail_number(where, "the default temperature", s->temperature, "0 to 1000", error);
    }
    if (!(s->top_p > 0 && s->top_p <= 1)) {
        return fail_number(where, "the default top_p", s->top_p, "more than 0 and at most 1", error);
    }
    if (!(s->min_p >= 0 && s->min_p <= 1)) {
        return fail_number(where, "the default min_p", s->min_p, "0 to 1", error);
    }
    if (!(s->repetition_penalty > 0 && s->repetition_penalty <= 1e3)) {
        return fail_number(where, "the default repetition penalty", s->repetition_penalty, "more than 0",
                           error);
    }
    return EW_OK;
}

static ew_status check_ids(const ew_config *c, const char *where, ew_error *error) {
    int32_t highest = c->n_eos > 0 ? c->eos_ids[c->n_eos - 1] : -1;
    highest = highest > c->bos_id ? highest : c->bos_id;
    if (highest >= (int32_t)c->vocab_size) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: token %d is named as a begin or end token, but the vocabulary has "
                       "only %zu",
                       where, highest, c->vocab_size);
    }
    if (c->add_bos && c->bos_id < 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: a begin token is to be added, but none is named", where);
    }
    return EW_OK;
}

ew_status ew_config_check(const ew_config *config, const char *where, ew_error *error) {
    ew_status status = check_sizes(config, where, error);
    if (status != EW_OK || (status = check_rope(config, where, error)) != EW_OK ||
        (status = check_sampling(&config->sampling, where, error)) != EW_OK) {
        return status;
    }
    if (!(config->rms_norm_eps > 0 && config->rms_norm_eps < 1)) {
        return fail_number(where, "the epsilon of the norms", config->rms_norm_eps,
                           "more than 0 and less than 1", error);
    }
    return check_ids(config, where, error);
}

static void describe_rope(const ew_config *config, ew_buffer *text) {
    const ew_rope *rope = &config->rope;
    ew_buffer_append_format(text, "rope_theta=%.17g\nrope_scaling=%s\n", rope->theta,
                            ew_rope_scaling_name(rope->scaling));
    switch (rope->scaling) {
    case EW_ROPE_NONE:
        return;
    case EW_ROPE_DIVISORS:
        for (size_t i = 0; i < config->head_dim / 2; i++) {
            ew_buffer_append_format(text, "rope_divisor=%.9g\n", (double)rope->divisors[i]);
        }
        return;
    case EW_ROPE_LINEAR:
        ew_buffer_append_format(text, "rope_factor=%.17g\n", rope->factor);
        return;
    case EW_ROPE_LLAMA3:
        ew_buffer_append_format(text, "rope_factor=%.17g\nrope_original_context=%zu\n", rope->factor,
                                rope->original_context);
        ew_buffer_append_format(text, "rope_low_freq_factor=%.17g\nrope_high_freq_factor=%.17g\n",
                                rope->low_freq_factor, rope->high_freq_factor);
        return;
    case EW_ROPE_YARN:
        ew_buffer_append_format(text, "rope_factor=%.17g\nrope_original_context=%zu\n", rope->factor,
                                rope->original_context);
        ew_buffer_append_format(text, "rope_beta_fast=%.17g\nrope_beta_slow=%.17g\nrope_truncate=%d\n",
                                rope->beta_fast, rope->beta_slow, rope->truncate);
        ew_buffer_append_format(text,
                                "rope_attention_factor=%.17g\nrope_mscale=%.17g\nrope_mscale_all_dim=%.17g\n",
                                rope->attention_factor, rope->mscale, rope->mscale_all_dim);
        return;
    }
}

void ew_config_describe(const ew_config *config, ew_buffer *text) {
    ew_buffer_append_format(text, "architecture=%s\nn_layers=%zu\nd_model=%zu\n",
                            ew_architecture_name(config->architecture), config->n_layers, config->d_model);
    ew_buffer_append_format(text, "n_heads=%zu\nn_kv_heads=%zu\nhead_dim=%zu\nd_ff=%zu\nvocab_size=%zu\n",
                            config->n_heads, config->n_kv_heads, config->head_dim, config->d_ff,
                            config->vocab_size);
    ew_buffer_append_format(text,
                            "rms_norm_eps=%.9g\nqkv_bias=%d\no_bias=%d\nqk_norm=%d\ntied_embeddings=%d\n",
                            (double)config->rms_norm_eps, config->qkv_bias, config->o_bias, config->qk_norm,
                            config->tied_embeddings);
    describe_rope(config, text);
}
