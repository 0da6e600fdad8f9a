/* Models of known shapes with random weights, made in memory: what benchmarks run, so that anyone can repeat them
 * without a download. They have no tokenizer and say nothing sensible; their logits are finite. */
#ifndef EW_MODEL_SYNTHETIC_H
#define EW_MODEL_SYNTHETIC_H

#include "model/adapter.h"

typedef struct ew_synthetic_options {
    const char *shape;       /* one of ew_synthetic_shape_names */
    ew_matrix_format format; /* of the linear layers and the head: INT4 symmetric or offset, INT8 */
    size_t group;
    ew_activation_type activations;
    size_t context_length;
} ew_synthetic_options;

/* "smollm2-135m", "qwen2.5-0.5b", ...; NULL after the last. */
extern const char *const ew_synthetic_shape_names[];

/* Its configuration; EW_ERROR_ARGUMENT when there is no such shape. */
ew_status ew_synthetic_config(const char *shape, size_t context_length, ew_config *config, ew_error *error);

/* Closed by ew_model_close. The same options give the same weights everywhere. */
ew_status ew_synthetic_model(const ew_synthetic_options *options, ew_pool *pool, ew_model **model, ew_error *error);

/* An adapter of random values for every linear layer of any model, of the same size as trained ones; released by
 * ew_adapter_unload. The same arguments give the same values everywhere. */
ew_status ew_synthetic_adapter(const ew_model *model, size_t rank, uint64_t seed, ew_adapter_storage storage,
                               ew_adapter **adapter, ew_error *error);

/* Appends positions to the stream until it has `length`, whose cells hold random keys and values as no text makes them:
 * a long context at once. They match no text (ew_stream_common_prefix). The same seed gives the same cells
 * everywhere. EW_ERROR_CONTEXT, EW_ERROR_MEMORY; then the stream is as before. */
ew_status ew_synthetic_cells(ew_stream *stream, size_t length, uint64_t seed, ew_error *error);

#endif
