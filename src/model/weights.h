/* The weights of one model as the forward pass reads them. */
#ifndef EW_MODEL_WEIGHTS_H
#define EW_MODEL_WEIGHTS_H

#include "base/threads.h"
#include "format/checkpoint.h"
#include "kernel/activations.h"
#include "kernel/matrix.h"
#include "quant/edgewise_file.h"

typedef struct ew_layer {
    const float *attn_norm;                /* [d_model] */
    ew_matrix q;                           /* [n_heads * head_dim, d_model] */
    ew_matrix k, v;                        /* [n_kv_heads * head_dim, d_model] */
    const float *q_bias, *k_bias, *v_bias; /* NULL where the model has none */
    const float *q_norm, *k_norm;          /* [head_dim] or NULL */
    ew_matrix o;                           /* [d_model, n_heads * head_dim] */
    const float *o_bias;
    const float *ffn_norm; /* [d_model] */
    ew_matrix gate, up;    /* [d_ff, d_model] */
    ew_matrix down;        /* [d_model, d_ff] */
} ew_layer;

/* The linear layers of a layer, in the order of checkpoint.h. */
typedef enum ew_linear_kind {
    EW_LINEAR_Q,
    EW_LINEAR_K,
    EW_LINEAR_V,
    EW_LINEAR_O,
    EW_LINEAR_GATE,
    EW_LINEAR_UP,
    EW_LINEAR_DOWN,
    EW_LINEARS
} ew_linear_kind;

const ew_matrix *ew_layer_linear(const ew_layer *layer, ew_linear_kind kind);

typedef struct ew_linear_name {
    char text[48];
} ew_linear_name;
/* Its canonical name: blk.3.attn_q.weight. */
ew_linear_name ew_layer_linear_name(size_t layer, ew_linear_kind kind);

typedef struct ew_model_weights {
    bool quantized;                 /* all matrices integer; else all F32 or BF16 */
    ew_activation_type activations; /* of a quantized model */
    size_t kv_grain;
    ew_matrix embedding;      /* [vocab_size, d_model] */
    ew_layer *layers;         /* [n_layers] */
    const float *output_norm; /* [d_model] */
    ew_matrix head;           /* [vocab_size, d_model]; the embedding itself where they are tied */
    size_t bytes;             /* mapped or allocated for all of these */
    void **owned;             /* what was allocated */
    size_t n_owned, owned_capacity;
} ew_model_weights;

/* Views of an Edgewise file: nothing is copied, `file` and its checkpoint must outlive them. */
ew_status ew_weights_from_file(const ew_edgewise_file *file, ew_model_weights *weights, ew_error *error);

/* Float matrices (EW_MATRIX_F32 or EW_MATRIX_BF16) from any checkpoint; `file` is NULL unless it is an Edgewise one,
 * whose weights are then dequantized. */
ew_status ew_weights_unquantized(const ew_checkpoint *checkpoint, const ew_edgewise_file *file, ew_matrix_format format,
                                 ew_pool *pool, ew_model_weights *weights, ew_error *error);

void ew_weights_free(ew_model_weights *weights); /* safe on {0} */

#endif
