/* A model as the trainer sees it: every weight with its place among the trained parameters, if it has one.
 *
 *   dense      all weights are trained; they live in the parameter vector
 *   LoRA       weights are frozen, floats or the packed matrices of a quantized model; adapters live in the vector */
#ifndef EW_TRAIN_NETWORK_H
#define EW_TRAIN_NETWORK_H

#include "format/adapter.h"
#include "model/adapter.h"
#include "train/parameters.h"

#define EW_FROZEN SIZE_MAX

typedef struct ew_train_tensor {
    const real *values; /* NULL: absent, or a packed matrix */
    size_t gradient;    /* where its gradient stands in a vector like the parameters'; EW_FROZEN: not trained */
} ew_train_tensor;

/* y = W x + bias + scale B (A x) */
typedef struct ew_train_linear {
    size_t rows, cols;
    ew_train_tensor weight;  /* [rows, cols] */
    const ew_matrix *packed; /* in place of weight: of a quantized model, never trained */
    ew_train_tensor bias;    /* [rows] */
    size_t rank;             /* 0: no adapter */
    real scale;
    double alpha;         /* what the scale was made from */
    ew_train_tensor a, b; /* [rank, cols], [rows, rank] */
} ew_train_linear;

typedef struct ew_train_layer {
    ew_train_tensor attn_norm, ffn_norm; /* [d_model] */
    ew_train_tensor q_norm, k_norm;      /* [head_dim] or absent */
    ew_train_linear linears[EW_LINEARS];
} ew_train_layer;

typedef struct ew_network {
    ew_config config;
    ew_rope_table rope;
    const ew_model *model;     /* the quantized base, whose kernels are the forward pass; NULL: float weights */
    const ew_adapter *adapter; /* on a quantized base: the adapters as the kernels read them, during a batch */
    ew_train_tensor embedding; /* [vocab_size, d_model] */
    ew_train_layer *layers;
    ew_train_tensor output_norm;
    ew_train_linear head; /* tied: its weight is the embedding */
    ew_parameters parameters;
    bool rslora;  /* how the adapters' scales were made */
    bool dense;   /* all weights are trained, else adapters */
    real *frozen; /* float weights that are not trained, in one allocation */
} ew_network;

/* Which linear layers get which adapter. */
typedef struct ew_lora_module {
    size_t rank; /* 0: none */
    double alpha;
} ew_lora_module;
typedef struct ew_lora_plan {
    ew_lora_module modules[EW_LINEARS];
    bool rslora;   /* scale = alpha / sqrt(rank) */
    uint64_t seed; /* A is drawn uniformly within 1 / sqrt(cols), as PEFT's kaiming does; B is 0 */
} ew_lora_plan;

/* Float weights of any checkpoint (those of an Edgewise file dequantized). plan NULL: dense training. */
ew_status ew_network_open(const ew_checkpoint *checkpoint, const ew_lora_plan *plan, ew_network **network,
                          ew_error *error);
/* From nothing, for dense training (plan NULL) and for tests: matrices normal with deviation `deviation` (0: 0.02), those that write into the residual
 * stream divided by sqrt(2 n_layers); norms 1, biases 0. */
ew_status ew_network_random(const ew_config *config, const ew_lora_plan *plan, double deviation, uint64_t seed,
                            ew_network **network, ew_error *error);
/* Adapters on a quantized model, which must outlive the network. Float build only. */
ew_status ew_network_quantized(const ew_model *model, const ew_lora_plan *plan, ew_network **network, ew_error *error);
/* The same two with the shape and the values of an adapter that exists: training goes on from there. `model` NULL: the
 * float weights of `checkpoint`. */
ew_status ew_network_continue(const ew_checkpoint *checkpoint, const ew_model *model, const ew_lora *lora,
                              ew_network **network, ew_error *error);
/* Puts the adapters' present values where the kernels read them; on float weights nothing. */
ew_status ew_network_publish(ew_network *network, ew_error *error);
void ew_network_close(ew_network *network); /* NULL is fine */

/* The adapters as a thing that can be loaded and written: views of the network's values. Float build only. */
typedef struct ew_lora_view {
    ew_lora lora;
    ew_lora_target *targets; /* owned, as the names are */
    ew_linear_name *names;
} ew_lora_view;
ew_status ew_lora_view_open(const ew_network *network, ew_lora_view *view, ew_error *error);
void ew_lora_view_close(ew_lora_view *view); /* safe on {0} */

#endif
