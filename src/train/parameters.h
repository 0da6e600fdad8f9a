/* What is trained: named tensors in one vector, so that optimizer, clipping and checkpoints see one array. */
#ifndef EW_TRAIN_PARAMETERS_H
#define EW_TRAIN_PARAMETERS_H

#include "base/error.h"
#include "train/real.h"

#include <stdint.h>

typedef struct ew_parameter {
    char name[80];     /* checkpoint.h's; the factors of an adapter are NAME.lora_a and NAME.lora_b */
    size_t rows, cols; /* row-major; norms and biases have one row */
    size_t at;         /* index of the first value in the vector */
    bool decays;       /* weight decay: matrices */
} ew_parameter;

typedef struct ew_parameters {
    ew_parameter *items; /* owned */
    size_t n_items, capacity;
    size_t total; /* values in all */
    real *values; /* [total], owned, 64-byte aligned; made by ew_parameters_allocate */
} ew_parameters;

/* Adds a tensor and gives its place in the vector, a multiple of 16. */
ew_status ew_parameters_add(ew_parameters *parameters, const char *name, size_t rows, size_t cols, bool decays,
                            size_t *at, ew_error *error);
/* After the last one was added: the vector, zeroed. */
ew_status ew_parameters_allocate(ew_parameters *parameters, ew_error *error);
void ew_parameters_free(ew_parameters *parameters); /* safe on {0} */

const ew_parameter *ew_parameters_find(const ew_parameters *parameters, const char *name); /* NULL: not trained */

#endif
