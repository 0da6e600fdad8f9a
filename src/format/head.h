/* Heads as files: the switcher (does this prompt need thinking?) and the verifier (is this solution right?), small GGUF
 * files (docs/formats.md, "Heads"). What they compute is model/head_score.h's.
 *
 * A head reads hidden states, so it belongs to the very weights that make them and to the adapter that was on; the file
 * names both by fingerprint. */
#ifndef EW_FORMAT_HEAD_H
#define EW_FORMAT_HEAD_H

#include "base/error.h"
#include "format/gguf_write.h"

typedef enum ew_head_kind { EW_HEAD_SWITCHER, EW_HEAD_VERIFIER } ew_head_kind;

enum { EW_HEAD_VERSION = 1, EW_HEAD_MAX_HIDDEN = 1024, EW_HEAD_MAX_WIDTH = 65536, EW_HEAD_MAX_TEXT = 65536 };

/* x is a hidden state after the final norm (the verifier's: of the verification prompt's last token) or a pooled one
 * (the switcher's), z = (x - mean) * inverse_std, channel by channel.
 *   switcher   logit = output_weight . relu(hidden_weight z + hidden_bias) + output_bias
 *   verifier   logit = code_scale * (codes . round(z / s)) * s + output_bias, s = max|z| / 127: both INT8
 * p = sigmoid(calibration_scale * logit + calibration_offset). */
typedef struct ew_head {
    ew_head_kind kind;
    size_t d_model;
    char weights_fingerprint[65]; /* of the base; "" : trained on a model without one */
    char adapter_fingerprint[65]; /* ew_lora_fingerprint of the adapter; "": the base alone */
    double calibration_scale, calibration_offset;
    double threshold;          /* switcher: p at or above it means thinking; a default, meant to be turned */
    float *mean, *inverse_std; /* [d_model] */
    double output_bias;
    /* switcher */
    size_t chunk; /* tokens of a chunk of the pooling */
    double mix;   /* the newest chunk's share, `a` */
    size_t n_hidden;
    float *hidden_weight; /* [n_hidden][d_model] */
    float *hidden_bias;   /* [n_hidden] */
    float *output_weight; /* [n_hidden] */
    /* verifier */
    int8_t *codes; /* [d_model] */
    double code_scale;
    char *text; /* the verification prompt, a user's message; UTF-8, NUL-terminated */
} ew_head;

/* Zeroed arrays for a head of these sizes (n_hidden 0 for a verifier), calibration 1 and 0, threshold 0.5, chunk 128,
 * mix 0.5. Freed by ew_head_free. */
ew_status ew_head_allocate(ew_head_kind kind, size_t d_model, size_t n_hidden, ew_head *head, ew_error *error);
void ew_head_free(ew_head *head); /* safe on {0} */

/* Opens a file that ew_head_write made. Everything is checked and read: what is not finite, does not fit or is not
 * known is refused. */
ew_status ew_head_open(const char *path, ew_head *head, ew_error *error);

/* The same from an opened GGUF: metadata keys and tensor names begin with `prefix` ("" in a head's own file). */
ew_status ew_head_read(const ew_gguf *gguf, const char *prefix, ew_head *head, ew_error *error);

ew_status ew_head_write(const char *path, const ew_head *head, ew_error *error);

/* The same within another file: keys and tensors between the writer's open and begin, then the tensors' bytes in turn.
 * */
void ew_head_declare(ew_gguf_writer *writer, const char *prefix, const ew_head *head);
ew_status ew_head_write_data(ew_gguf_writer *writer, const ew_head *head, ew_error *error);

/* The head is for a base of this width and weights fingerprint and this adapter (NULL: no fingerprint; no adapter).
 * EW_ERROR_ARGUMENT says what it was trained with and what was given. */
ew_status ew_head_match(const ew_head *head, size_t d_model, const char *weights_fingerprint,
                        const char *adapter_fingerprint, ew_error *error);

#endif
