#include "base/memory.h"
#include "format/checkpoint_internal.h"

#include <stdio.h>
#include <string.h>

typedef enum width { ONE, HEAD, MODEL, QUERY, KEY, FEED, VOCABULARY } width;

typedef enum condition { ALWAYS, QKV_BIAS, O_BIAS, QK_NORM, UNTIED } condition;

typedef struct part {
    const char *name, *folder_name; /* behind "blk.N." and "model.layers.N." */
    width rows, cols;               /* rows ONE: a vector */
    condition condition;
    bool rotated;
} part;

static const part model_parts[] = {
    {"token_embd.weight", "model.embed_tokens.weight", VOCABULARY, MODEL, ALWAYS, false},
    {"output_norm.weight", "model.norm.weight", ONE, MODEL, ALWAYS, false},
    {"output.weight", "lm_head.weight", VOCABULARY, MODEL, UNTIED, false},
};

static const part layer_parts[] = {
    {"attn_norm.weight", "input_layernorm.weight", ONE, MODEL, ALWAYS, false},
    {"attn_q.weight", "self_attn.q_proj.weight", QUERY, MODEL, ALWAYS, true},
    {"attn_q.bias", "self_attn.q_proj.bias", ONE, QUERY, QKV_BIAS, true},
    {"attn_k.weight", "self_attn.k_proj.weight", KEY, MODEL, ALWAYS, true},
    {"attn_k.bias", "self_attn.k_proj.bias", ONE, KEY, QKV_BIAS, true},
    {"attn_v.weight", "self_attn.v_proj.weight", KEY, MODEL, ALWAYS, false},
    {"attn_v.bias", "self_attn.v_proj.bias", ONE, KEY, QKV_BIAS, false},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", ONE, HEAD, QK_NORM, false},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", ONE, HEAD, QK_NORM, false},
    {"attn_output.weight", "self_attn.o_proj.weight", MODEL, QUERY, ALWAYS, false},
    {"attn_output.bias", "self_attn.o_proj.bias", ONE, MODEL, O_BIAS, false},
    {"ffn_norm.weight", "post_attention_layernorm.weight", ONE, MODEL, ALWAYS, false},
    {"ffn_gate.weight", "mlp.gate_proj.weight", FEED, MODEL, ALWAYS, false},
    {"ffn_up.weight", "mlp.up_proj.weight", FEED, MODEL, ALWAYS, false},
    {"ffn_down.weight", "mlp.down_proj.weight", MODEL, FEED, ALWAYS, false},
};

enum {
    N_MODEL_PARTS = sizeof model_parts / sizeof *model_parts,
    N_LAYER_PARTS = sizeof layer_parts / sizeof *layer_parts
};

static size_t size_of(width width, const ew_config *config) {
    switch (width) {
    case HEAD:
        return config->head_dim;
    case MODEL:
        return config->d_model;
    case QUERY:
        return config->n_heads * config->head_dim;
    case KEY:
        return config->n_kv_heads * config->head_dim;
    case FEED:
        return config->d_ff;
    case VOCABULARY:
        return config->vocab_size;
    default:
        return 1;
    }
}

static bool holds(condition condition, const ew_config *config) {
    switch (condition) {
    case QKV_BIAS:
        return config->qkv_bias;
    case O_BIAS:
        return config->o_bias;
    case QK_NORM:
        return config->qk_norm;
    case UNTIED:
        return !config->tied_embeddings;
    default:
        return true;
    }
}

static ew_expected *add(const part *part, const ew_config *config, ew_expected *next) {
    next->rows = size_of(part->rows, config);
    next->cols = size_of(part->cols, config);
    next->vector = part->rows == ONE;
    next->rotated = part->rotated;
    return next + 1;
}

ew_status ew_expect_tensors(const ew_config *config, ew_expected **expected, size_t *count, ew_error *error) {
    size_t most = N_MODEL_PARTS + config->n_layers * N_LAYER_PARTS;
    ew_expected *next = ew_allocate(most, sizeof *next);
    if (!next) {
        return ew_fail_memory(error, most * sizeof *next, "the table of tensors");
    }
    *expected = next;
    for (size_t i = 0; i < N_MODEL_PARTS; i++) {
        if (holds(model_parts[i].condition, config)) {
            snprintf(next->name, sizeof next->name, "%s", model_parts[i].name);
            snprintf(next->folder_name, sizeof next->folder_name, "%s", model_parts[i].folder_name);
            next = add(&model_parts[i], config, next);
        }
    }
    for (size_t layer = 0; layer < config->n_layers; layer++) {
        for (size_t i = 0; i < N_LAYER_PARTS; i++) {
            const part *part = &layer_parts[i];
            if (holds(part->condition, config)) {
                snprintf(next->name, sizeof next->name, "blk.%zu.%s", layer, part->name);
                snprintf(next->folder_name, sizeof next->folder_name, "model.layers.%zu.%s", layer,
                         part->folder_name);
                next = add(part, config, next);
            }
        }
    }
    *count = (size_t)(next - *expected);
    return EW_OK;
}

/* Takes PREFIX, a number as one writes it and a dot off the front. */
static bool take_layer(ew_string *name, const char *prefix, size_t *layer) {
    enum { MAX_DIGITS = 6 };
    size_t at = strlen(prefix), first = at;
    if (name->length < at || memcmp(name->data, prefix, at) != 0) {
        return false;
    }
    for (*layer = 0; at < name->length && name->data[at] >= '0' && name->data[at] <= '9'; at++) {
        if (at - first == MAX_DIGITS) {
            return false;
        }
        *layer = *layer * 10 + (size_t)(name->data[at] - '0');
    }
    if (at == first || (at > first + 1 && name->data[first] == '0') || at == name->length || name->data[at] != '.') {
        return false;
    }
    *name = (ew_string){name->data + at + 1, name->length - at - 1};
    return true;
}

static size_t module_length(const part *part) {
    return strlen(part->folder_name) - strlen(".weight");
}

static void set_linear(size_t layer, size_t place, ew_linear *linear) {
    const part *part = &layer_parts[place];
    linear->layer = layer;
    linear->place = place;
    linear->rotated = part->rotated;
    snprintf(linear->name, sizeof linear->name, "blk.%zu.%s", layer, part->name);
    snprintf(linear->module, sizeof linear->module, "model.layers.%zu.%.*s", layer, (int)module_length(part),
             part->folder_name);
}

bool ew_linear_by_name(ew_string name, ew_linear *linear) {
    size_t layer;
    if (!take_layer(&name, "blk.", &layer)) {
        return false;
    }
    for (size_t i = 0; i < N_LAYER_PARTS; i++) {
        if (layer_parts[i].rows != ONE && ew_string_is(name, layer_parts[i].name)) {
            set_linear(layer, i, linear);
            return true;
        }
    }
    return false;
}

bool ew_linear_by_module(ew_string module, ew_linear *linear) {
    size_t layer;
    if (!take_layer(&module, "model.layers.", &layer)) {
        return false;
    }
    for (size_t i = 0; i < N_LAYER_PARTS; i++) {
        const part *part = &layer_parts[i];
        if (part->rows != ONE && module.length == module_length(part) &&
            memcmp(module.data, part->folder_name, module.length) == 0) {
            set_linear(layer, i, linear);
            return true;
        }
    }
    return false;
}
