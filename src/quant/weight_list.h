/* Every weight that a configuration asks for, with its name, shape and kind: the list of format/checkpoint.h as data. */
#ifndef EW_QUANT_WEIGHT_LIST_H
#define EW_QUANT_WEIGHT_LIST_H

#include "format/config.h"

typedef enum ew_layer_kind {
    EW_LAYER_EMBEDDING,
    EW_LAYER_Q,
    EW_LAYER_K,
    EW_LAYER_V,
    EW_LAYER_O,
    EW_LAYER_GATE,
    EW_LAYER_UP,
    EW_LAYER_DOWN,
    EW_LAYER_HEAD,
    EW_LAYER_KINDS,  /* the number of kinds of matrices */
    EW_LAYER_VECTOR = EW_LAYER_KINDS /* a norm or a bias: one row */
} ew_layer_kind;

const char *ew_layer_kind_name(ew_layer_kind kind); /* "embedding", "q", ... */

typedef struct ew_weight {
    char name[48]; /* "blk.12.attn_output.weight" */
    ew_layer_kind kind;
    size_t rows, cols;
} ew_weight;

/* Embedding, final norm and head first (no head where it is tied), then layer by layer. */
size_t ew_weight_count(const ew_config *config);
ew_weight ew_weight_at(const ew_config *config, size_t index);

/* The kind by name; EW_LAYER_VECTOR for everything that is no matrix. */
ew_layer_kind ew_weight_kind(const char *name);

/* Whether the list has this name; *weight is filled then. */
bool ew_weight_find(const ew_config *config, const char *name, ew_weight *weight);

#endif
