#include "quant/weight_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum extent { ONE, D_MODEL, D_FF, Q_WIDTH, KV_WIDTH, HEAD_DIM, VOCAB } extent;
typedef enum condition { ALWAYS, UNTIED, QKV_BIAS, O_BIAS, QK_NORM } condition;

typedef struct entry {
    const char *suffix; /* of "blk.N."; the whole name outside of the layers */
    ew_layer_kind kind;
    extent rows, cols;
    condition condition;
} entry;

static const entry outside[] = {
    {"token_embd.weight", EW_LAYER_EMBEDDING, VOCAB, D_MODEL, ALWAYS},
    {"output_norm.weight", EW_LAYER_VECTOR, ONE, D_MODEL, ALWAYS},
    {"output.weight", EW_LAYER_HEAD, VOCAB, D_MODEL, UNTIED},
};

static const entry inside[] = {
    {"attn_norm.weight", EW_LAYER_VECTOR, ONE, D_MODEL, ALWAYS},
    {"ffn_norm.weight", EW_LAYER_VECTOR, ONE, D_MODEL, ALWAYS},
    {"attn_q.weight", EW_LAYER_Q, Q_WIDTH, D_MODEL, ALWAYS},
    {"attn_q.bias", EW_LAYER_VECTOR, ONE, Q_WIDTH, QKV_BIAS},
    {"attn_k.weight", EW_LAYER_K, KV_WIDTH, D_MODEL, ALWAYS},
    {"attn_k.bias", EW_LAYER_VECTOR, ONE, KV_WIDTH, QKV_BIAS},
    {"attn_v.weight", EW_LAYER_V, KV_WIDTH, D_MODEL, ALWAYS},
    {"attn_v.bias", EW_LAYER_VECTOR, ONE, KV_WIDTH, QKV_BIAS},
    {"attn_output.weight", EW_LAYER_O, D_MODEL, Q_WIDTH, ALWAYS},
    {"attn_output.bias", EW_LAYER_VECTOR, ONE, D_MODEL, O_BIAS},
    {"attn_q_norm.weight", EW_LAYER_VECTOR, ONE, HEAD_DIM, QK_NORM},
    {"attn_k_norm.weight", EW_LAYER_VECTOR, ONE, HEAD_DIM, QK_NORM},
    {"ffn_gate.weight", EW_LAYER_GATE, D_FF, D_MODEL, ALWAYS},
    {"ffn_up.weight", EW_LAYER_UP, D_FF, D_MODEL, ALWAYS},
    {"ffn_down.weight", EW_LAYER_DOWN, D_MODEL, D_FF, ALWAYS},
};

enum { N_OUTSIDE = sizeof outside / sizeof *outside, N_INSIDE = sizeof inside / sizeof *inside };

static size_t extent_of(const ew_config *config, extent what) {
    switch (what) {
    case ONE:
        return 1;
    case D_MODEL:
        return config->d_model;
    case D_FF:
        return config->d_ff;
    case Q_WIDTH:
        return config->n_heads * config->head_dim;
    case KV_WIDTH:
        return config->n_kv_heads * config->head_dim;
    case HEAD_DIM:
        return config->head_dim;
    case VOCAB:
        return config->vocab_size;
    }
    return 0;
}

static bool holds(const ew_config *config, condition what) {
    switch (what) {
    case ALWAYS:
        return true;
    case UNTIED:
        return !config->tied_embeddings;
    case QKV_BIAS:
        return config->qkv_bias;
    case O_BIAS:
        return config->o_bias;
    case QK_NORM:
        return config->qk_norm;
    }
    return false;
}

static size_t count_of(const ew_config *config, const entry *entries, size_t n_entries) {
    size_t count = 0;
    for (size_t i = 0; i < n_entries; i++) {
        count += holds(config, entries[i].condition);
    }
    return count;
}

static const entry *entry_at(const ew_config *config, const entry *entries, size_t index) {
    for (;; entries++) {
        if (holds(config, entries->condition) && index-- == 0) {
            return entries;
        }
    }
}

size_t ew_weight_count(const ew_config *config) {
    return count_of(config, outside, N_OUTSIDE) + config->n_layers * count_of(config, inside, N_INSIDE);
}

static ew_weight shaped(const ew_config *config, const entry *found) {
    return (ew_weight){.kind = found->kind,
                       .rows = extent_of(config, found->rows),
                       .cols = extent_of(config, found->cols)};
}

static ew_weight weight_inside(const ew_config *config, const entry *found, size_t layer) {
    ew_weight weight = shaped(config, found);
    snprintf(weight.name, sizeof weight.name, "blk.%zu.%s", layer, found->suffix);
    return weight;
}

static ew_weight weight_outside(const ew_config *config, const entry *found) {
    ew_weight weight = shaped(config, found);
    snprintf(weight.name, sizeof weight.name, "%s", found->suffix);
    return weight;
}

ew_weight ew_weight_at(const ew_config *config, size_t index) {
    size_t n_outside = count_of(config, outside, N_OUTSIDE), n_inside = count_of(config, inside, N_INSIDE);
    if (index < n_outside) {
        return weight_outside(config, entry_at(config, outside, index));
    }
    index -= n_outside;
    return weight_inside(config, entry_at(config, inside, index % n_inside), index / n_inside);
}

static const entry *entry_named(const char *name, size_t *layer) {
    for (size_t i = 0; i < N_OUTSIDE; i++) {
        if (strcmp(name, outside[i].suffix) == 0) {
            return &outside[i];
        }
    }
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') {
        return NULL;
    }
    char *end;
    *layer = strtoul(name + 4, &end, 10);
    for (size_t i = 0; *end == '.' && i < N_INSIDE; i++) {
        if (strcmp(end + 1, inside[i].suffix) == 0) {
            return &inside[i];
        }
    }
    return NULL;
}

ew_layer_kind ew_weight_kind(const char *name) {
    size_t layer = 0;
    const entry *found = entry_named(name, &layer);
    return found ? found->kind : EW_LAYER_VECTOR;
}

bool ew_weight_find(const ew_config *config, const char *name, ew_weight *weight) {
    size_t layer = 0;
    const entry *found = entry_named(name, &layer);
    if (!found || !holds(config, found->condition)) {
        return false;
    }
    bool in_layers = found >= inside && found < inside + N_INSIDE;
    if (in_layers && layer >= config->n_layers) {
        return false;
    }
    *weight = in_layers ? weight_inside(config, found, layer) : weight_outside(config, found);
    return strcmp(weight->name, name) == 0; /* "blk.01." is no name */
}

const char *ew_layer_kind_name(ew_layer_kind kind) {
    static const char *const names[] = {"embedding", "q",  "k",    "v",    "o",
                                        "gate",      "up", "down", "head", "norm or bias"};
    return names[kind];
}
