/* Making an Edgewise file out of any checkpoint: `edgewise quantize` as a function.
 *
 * One matrix at a time is in memory; the output appears under its name only when it is complete. The bytes of
 * the output depend on input and options only, not on threads or machine. */
#ifndef EW_QUANT_QUANTIZE_H
#define EW_QUANT_QUANTIZE_H

#include "kernel/activations.h"
#include "quant/int4.h"
#include "quant/layer_kind.h"

#include <signal.h>

typedef enum ew_quantize_scheme {
    EW_SCHEME_DEFAULT,   /* keep if any matrix of a layer is Q4_0, Q4_1 or Q8_0, else symmetric */
    EW_SCHEME_SYMMETRIC, /* 4.5 bits a weight at group 32 */
    EW_SCHEME_OFFSET,    /* 5.0 bits a weight at group 32 */
    EW_SCHEME_KEEP /* Q4_0, Q4_1 and Q8_0 are repacked without loss, and a tied matrix among them is the head
                      as well; what is in another type becomes symmetric by `group` and `range`, or what
                      `head` says (embedding: INT8) */
} ew_quantize_scheme;

typedef enum ew_head_format {
    EW_HEAD_INT4, /* by the scheme, written as output.weight even where the model is tied */
    EW_HEAD_INT8  /* group 32; a tied head is the embedding itself and not stored twice */
} ew_head_format;

typedef struct ew_quantize_progress {
    size_t weights_done, weights_total;
    const char *tensor; /* the one being worked on */
} ew_quantize_progress;

typedef struct ew_quantize_options {
    ew_quantize_scheme scheme;
    size_t group; /* 0 (per row), 32, 64, 128 */
    ew_quantize_range range;
    ew_head_format head;
    ew_activation_type activations;
    size_t kv_grain;  /* a multiple of 4; 0: one scale for a whole head */
    size_t n_threads; /* 0: as many as the machine offers */
    void (*progress)(void *context,
                     const ew_quantize_progress *progress); /* may be NULL; called by the caller's thread */
    void *progress_context;
    const volatile sig_atomic_t
        *cancel; /* may be NULL; becomes non-zero: EW_ERROR_CANCELLED, nothing is left */
} ew_quantize_options;

/* Default scheme, group 32, mse, INT4 head, INT16 activations, grain 32. */
ew_quantize_options ew_quantize_default_options(void);

/* What all matrices of one kind lost. The error of a set of weights is |w - w'| / |w| in the 2-norm. */
typedef struct ew_layer_loss {
    size_t n_matrices;
    size_t n_weights;
    size_t stored_bytes;    /* codes, scales and offsets, padding included */
    double squared_error;   /* sum of (w - w')^2; relative error = sqrt(squared_error / squared_weights) */
    double squared_weights; /* sum of w^2 */
    double worst_row_error; /* the largest relative error of one row; 0 where nothing was lost */
    char worst_tensor[48];
    size_t worst_row;
    bool lossless;           /* every matrix of this kind was repacked, not rounded */
    ew_matrix_format format; /* of the last one */
    size_t group;
} ew_layer_loss;

typedef struct ew_quantize_report {
    ew_quantize_scheme scheme; /* the one used: never EW_SCHEME_DEFAULT */
    ew_layer_loss layers[EW_LAYER_KINDS];
    bool head_is_embedding; /* nothing stored for the head */
    size_t file_bytes;
    double bits_per_weight; /* stored matrix bytes * 8 / matrix weights */
    char source_fingerprint[65], weights_fingerprint[65];
} ew_quantize_report;

/* `input`: a folder or GGUF file that ew_checkpoint_open reads. An Edgewise file is refused
 * (EW_ERROR_ARGUMENT): its weights are rounded already, and rounding them again would pass for the source's
 * quantization. `report` may be NULL. Errors: those of opening; EW_ERROR_NUMERIC for a weight or scale that
 * cannot be (naming the tensor); EW_ERROR_IO; EW_ERROR_CANCELLED. After any error nothing is left on the disk
 * and an older `output` is untouched. */
ew_status ew_quantize(const char *input, const char *output, const ew_quantize_options *options,
                      ew_quantize_report *report, ew_error *error);

#endif
