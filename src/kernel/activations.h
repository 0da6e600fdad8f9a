/* Quantized activations: the right-hand sides of the integer matrix products, one row per token. */
#ifndef EW_KERNEL_ACTIVATIONS_H
#define EW_KERNEL_ACTIVATIONS_H

#include "base/error.h"

/* The values stand in model files: never renumber. */
typedef enum ew_activation_type {
    EW_ACTIVATION_INT16 = 0, /* one scale per token; two planes, x = 256 hi + lo */
    EW_ACTIVATION_INT8 = 1   /* one scale per 32 inputs; one plane */
} ew_activation_type;

typedef struct ew_activations {
    ew_activation_type type;
    size_t cols;
    size_t n_blocks; /* ceil(cols / 32); inputs beyond cols have code 0 */
    size_t n_tokens; /* rows in use */
    size_t capacity; /* rows allocated */
    /* INT16: [token][block][hi 32, lo 32]; INT8: [token][block][32]. 64-byte aligned. */
    int8_t *codes;
    int32_t *sums; /* [token][block]: sum of the block's codes (of 256 hi + lo for INT16) */
    float *scales; /* INT16: [token]; INT8: [token][block] */
} ew_activations;

static inline size_t ew_activation_block_bytes(ew_activation_type type) {
    return type == EW_ACTIVATION_INT16 ? 64 : 32;
}
static inline size_t ew_activation_scales_per_token(const ew_activations *activations) {
    return activations->type == EW_ACTIVATION_INT16 ? 1 : activations->n_blocks;
}

/* Tokens first .. first + n_tokens - 1 as activations of their own. */
static inline ew_activations ew_activations_rows(const ew_activations *x, size_t first, size_t n_tokens) {
    ew_activations rows = *x;
    rows.codes += first * x->n_blocks * ew_activation_block_bytes(x->type);
    rows.sums += first * x->n_blocks;
    rows.scales += first * ew_activation_scales_per_token(x);
    rows.n_tokens = n_tokens;
    rows.capacity = n_tokens;
    return rows;
}

/* Room for `capacity` tokens of up to `cols` inputs. Freed by ew_activations_free (safe on {0}). */
ew_status ew_activations_allocate(ew_activations *activations, ew_activation_type type, size_t cols, size_t capacity,
                                  ew_error *error);
void ew_activations_free(ew_activations *activations);

#endif
