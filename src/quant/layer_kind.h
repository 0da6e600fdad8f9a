/* The kinds of matrices that a model is made of, for tables by kind. */
#ifndef EW_QUANT_LAYER_KIND_H
#define EW_QUANT_LAYER_KIND_H

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
    EW_LAYER_KINDS,                  /* the number of kinds of matrices */
    EW_LAYER_VECTOR = EW_LAYER_KINDS /* everything else: a norm, a bias */
} ew_layer_kind;

const char *ew_layer_kind_name(ew_layer_kind kind); /* "embedding", "q", ... */

/* The kind of a tensor by its canonical name ("blk.3.attn_q.weight"). */
ew_layer_kind ew_layer_kind_of(const char *name);

#endif
