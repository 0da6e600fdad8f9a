/* Models of known shapes with random weights, made in memory: what benchmarks run, so that anyone can repeat them
 * without a download. They have no tokenizer and say nothing sensible; their logits are finite. */
#ifndef EW_MODEL_SYNTHETIC_H
#define EW_MODEL_SYNTHETIC_H

#include "model/adapter.h"

typedef struct ew_synthetic_options {
    const char *shape;       /* a name of ew_synthetic_shape_name */
    ew_matrix_format format; /* of the linear layers and the head: INT4 symmetric or offset, INT8 */
    size_t group;
    ew_activation_type activations;
    size_t context_length;
} ew_synthetic_options;

/* "smollm2-135m", "qwen2.5-0.5b", ...; NULL after the last. */
const char *ew_synthetic_shape_name(size_t index);

/* Closed by ew_model_close. The same options give the same weights everywhere. */
ew_status ew_synthetic_model(const ew_synthetic_options *options, ew_pool *pool, ew_model **model, ew_error *error);

/* An adapter of random values for every linear layer of any model, of the same size as trained ones; released by
 * ew_adapter_unload. The same arguments give the same values everywhere. */
ew_status ew_synthetic_adapter(const ew_model *model, size_t rank, uint64_t seed, ew_adapter_storage storage,
                               ew_adapter **adapter, ew_error *error);

#endif
