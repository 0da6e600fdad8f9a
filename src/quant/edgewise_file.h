/* What `edgewise quantize` made, read back: the edgewise.* metadata of an opened checkpoint, and views of its
 * packed matrices straight in the mapped file (docs/formats.md, "The Edgewise file").
 *
 * Reading checks all sizes: every weight that the configuration asks for is there in the right shape, every
 * matrix has exactly the bytes that its format wants, and nothing else is in the file. Values are not looked
 * at, so that opening costs no reading of weights; ew_edgewise_file_check does. */
#ifndef EW_QUANT_EDGEWISE_FILE_H
#define EW_QUANT_EDGEWISE_FILE_H

#include "format/checkpoint.h"
#include "kernel/activations.h"
#include "kernel/matrix.h"

typedef struct ew_named_matrix {
    const char *name; /* "blk.0.attn_q.weight"; the checkpoint's */
    ew_matrix matrix;
} ew_named_matrix;

typedef struct ew_edgewise_file {
    const ew_checkpoint *checkpoint; /* not owned; must outlive this */
    ew_activation_type activations;
    size_t kv_grain;              /* channels under one scale of the cache; 0: all of a head */
    char source_fingerprint[65];  /* of the model before quantization, hexadecimal */
    char weights_fingerprint[65]; /* of this file's tensors */
    ew_named_matrix *matrices;    /* owned; sorted by name */
    size_t n_matrices;
    const uint8_t *tokenizer; /* the blob of the tensor edgewise.tokenizer, in the file */
    size_t tokenizer_bytes;
} ew_edgewise_file;

/* EW_ERROR_ARGUMENT for a checkpoint that is no Edgewise file, EW_ERROR_FORMAT for a malformed one. */
ew_status ew_edgewise_file_read(const ew_checkpoint *checkpoint, ew_edgewise_file *out, ew_error *error);
void ew_edgewise_file_free(ew_edgewise_file *file); /* safe on {0} */

/* By name; NULL when absent. A file without "output.weight" is tied: the head is "token_embd.weight". (A tied
 * model whose head was made INT4 has one, and its ew_config then says untied.) */
const ew_matrix *ew_edgewise_file_matrix(const ew_edgewise_file *file, const char *name);

/* A norm or a bias: F32 values in the file; NULL when absent. Their number was checked at reading. */
const float *ew_edgewise_file_vector(const ew_edgewise_file *file, const char *name);

/* Reads every value: scales, offsets, norms and biases must be finite, and the tensors must have the
 * fingerprint that the file gives. EW_ERROR_NUMERIC or EW_ERROR_FORMAT names the first thing that is wrong.
 */
ew_status ew_edgewise_file_check(const ew_edgewise_file *file, ew_error *error);

#endif
