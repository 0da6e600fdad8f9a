/* The trainer: loss and gradient of a batch, and steps of AdamW.
 *
 * docs/training.md has the formulas. A batch is any number of sequences of any lengths; they are cut into packs of whole
 * sequences, the packs spread over workers, one a thread, and each worker runs forward and backward over its packs one
 * after the other with a gradient of its own, summed at the end in the workers' order. So the memory is that of one pack
 * a worker, however large the batch, and the same thread count gives the same bits. Sequences never see each other.
 *
 * Masked LoRA: positions before a sequence's prompt_length are run by the base alone, without gradient; the rest attends to
 * their cells with the adapter on. prompt_length 0: the adapter is on everywhere. Dense training has prompt_length 0.
 *
 * On a quantized base the forward pass is the engine's kernels, the same quantized activations and cells; the backward
 * pass treats each quantizer as x + constant and dequantizes weights by tile. */
#ifndef EW_TRAIN_TRAIN_H
#define EW_TRAIN_TRAIN_H

#include "train/network.h"
#include "train/products.h"

#include <signal.h>

typedef struct ew_train_sequence {
    const int32_t *ids; /* [n] */
    size_t n;
    size_t prompt_length; /* < n */
    const float *weights; /* [n]: of token t as a target, predicted at position t - 1; 0: none. Targets at positions <=
                             prompt_length (> 0) are predicted by the base and do not count */
} ew_train_sequence;

/* The loss is the sum over all targets of weight * term / divisor. */
typedef struct ew_train_loss {
    double temperature; /* log-probabilities are of logits / temperature; 0: 1 */
    double divisor;     /* 0: the sum of the weights */
    /* NULL: -log p. Else the term of token `token` of sequence `sequence` and its derivative by log p; called by
     * several threads. */
    double (*term)(void *context, size_t sequence, size_t token, double log_probability, double *derivative);
    void *context;
    float *const *log_probabilities; /* may be NULL; [n_sequences]: [n] each (may be NULL), filled at targets */
} ew_train_loss;

typedef struct ew_trainer_options {
    size_t n_threads;   /* 0: as many as are useful */
    size_t pack_rows;   /* tokens run together by one worker; 0: 512. One longer sequence makes a longer pack */
    bool checkpointing; /* keep a layer's input only and compute the rest again in the backward pass */
    double dropout;     /* of the adapters' inputs, while gradients are computed */
    uint64_t seed;      /* of dropout */
    ew_products_kind products; /* how matrices in float are multiplied; the engine's kernels stay what they are */
    const volatile sig_atomic_t *cancel; /* may be NULL; while it is not 0, calls return EW_ERROR_CANCELLED soon */
} ew_trainer_options;

typedef struct ew_train_result {
    double loss;
    double weight; /* sum of the weights of all targets that count */
    size_t n_targets;
    size_t n_rows;   /* positions run forward and backward */
    size_t n_prompt; /* positions run forward by the base */
} ew_train_result;

typedef struct ew_trainer ew_trainer;

/* The network must outlive the trainer. */
ew_status ew_trainer_open(ew_network *network, const ew_trainer_options *options, ew_trainer **trainer,
                          ew_error *error);
void ew_trainer_close(ew_trainer *trainer); /* NULL is fine */

/* Loss without gradient, dropout off. `loss` may be NULL: cross-entropy. */
ew_status ew_trainer_evaluate(ew_trainer *trainer, const ew_train_sequence *sequences, size_t n,
                              const ew_train_loss *loss, ew_train_result *result, ew_error *error);

/* Loss and gradient of a batch; replaces the gradient of the last one. `step` keys the dropout. EW_ERROR_NUMERIC when the
 * loss is not finite. */
ew_status ew_trainer_gradient(ew_trainer *trainer, const ew_train_sequence *sequences, size_t n,
                              const ew_train_loss *loss, uint64_t step, ew_train_result *result, ew_error *error);

/* Logits of one sequence's own positions prompt_length .. n - 2: [n - 1 - prompt_length][vocab_size]. For tests. */
ew_status ew_trainer_logits(ew_trainer *trainer, const ew_train_sequence *sequence, real *logits, ew_error *error);

/* [network->parameters.total]: of the last ew_trainer_gradient, unclipped. */
real *ew_trainer_gradient_vector(ew_trainer *trainer);

ew_pool *ew_trainer_pool(ew_trainer *trainer); /* its threads, between calls */

size_t ew_trainer_memory(const ew_trainer *trainer); /* bytes held by workers, gradients included */

#endif
