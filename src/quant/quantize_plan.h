/* What becomes of every tensor of a checkpoint: the decisions of `quantize`, made before anything is written.
 */
#ifndef EW_QUANT_QUANTIZE_PLAN_H
#define EW_QUANT_QUANTIZE_PLAN_H

#include "format/checkpoint.h"
#include "quant/quantize.h"

typedef struct ew_planned {
    const ew_tensor *source;
    const char *name; /* in the output */
    ew_layer_kind kind;
    size_t rows, cols;
    ew_matrix_format format; /* matrices only; vectors stay F32 */
    size_t group;
    bool lossless; /* blocks are repacked */
    ew_matrix_layout layout;
} ew_planned;

typedef struct ew_quantize_plan {
    ew_quantize_scheme scheme; /* never EW_SCHEME_DEFAULT */
    ew_planned *items;         /* owned, in the order of the output */
    size_t count;
    bool head_is_embedding;
    ew_config config; /* of the output: a tied model whose head gets a matrix of its own is untied there */
} ew_quantize_plan;

/* Errors: EW_ERROR_ARGUMENT for options that do not exist and for a checkpoint that is an Edgewise file
 * already. */
ew_status ew_quantize_plan_make(const ew_checkpoint *checkpoint, const ew_quantize_options *options,
                                ew_quantize_plan *plan, ew_error *error);
void ew_quantize_plan_free(ew_quantize_plan *plan); /* safe on {0} */

#endif
