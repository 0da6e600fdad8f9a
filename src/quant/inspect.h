/* What is in a model file, as numbers: `edgewise inspect` prints them. */
#ifndef EW_QUANT_INSPECT_H
#define EW_QUANT_INSPECT_H

#include "base/threads.h"
#include "quant/edgewise_file.h"
#include "quant/layer_kind.h"

#include <signal.h>

typedef struct ew_inspected_kind {
    size_t n_tensors, n_weights;
    size_t stored_bytes; /* codes, scales and offsets, padding included */
    char formats[96]; /* "INT4 offset 32", "Q4_K, Q6_K": each that occurs, in order of appearance, cut if too
                         long */
} ew_inspected_kind;

typedef struct ew_inspection {
    ew_inspected_kind kinds[EW_LAYER_KINDS + 1]; /* the last: norms and biases */
    size_t n_parameters;
    double bits_per_weight; /* of the matrices: stored bytes * 8 / weights */
    bool quantized;         /* an Edgewise file; anything else runs as F32 */
    size_t weight_bytes;    /* of all weights where the model runs: mapped from the file, or made F32 */
    size_t kv_grain;        /* channels under one scale; 0 where the cache is F32 */
    size_t kv_bytes_per_token;
    size_t kv_bytes_per_page; /* 32 positions, all layers and heads */
} ew_inspection;

/* `file` is NULL unless the checkpoint is an Edgewise file. Reads no values. */
ew_status ew_inspect(const ew_checkpoint *checkpoint, const ew_edgewise_file *file, ew_inspection *out,
                     ew_error *error);

/* Bytes of the cache of one stream with `context` positions. */
size_t ew_inspect_kv_bytes(const ew_inspection *inspection, size_t context);

/* Reads every value of every weight: all must be finite, and an Edgewise file must have the fingerprint it
 * gives. EW_ERROR_NUMERIC, EW_ERROR_FORMAT: the first thing that is wrong. `pool` and `cancel` may be NULL.
 */
ew_status ew_check_values(const ew_checkpoint *checkpoint, const ew_edgewise_file *file, ew_pool *pool,
                          const volatile sig_atomic_t *cancel, ew_error *error);

#endif
