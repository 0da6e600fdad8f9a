/* A model's weights and configuration, one face for three kinds of source: a Hugging Face folder, a GGUF file
 * of other tools, and a GGUF file that `edgewise quantize` made.
 *
 * Tensors have llama.cpp's names and canonical order, which is Hugging Face's: RoPE turns rows i and i +
 * head_dim/2 of a head. llama files store the q and k rows interleaved; that is undone here, row by row,
 * without copying.
 *
 *   token_embd.weight [vocab_size, d_model]          output_norm.weight [d_model]
 *   output.weight [vocab_size, d_model] (untied only)
 *   blk.N.attn_norm.weight [d_model]                 blk.N.ffn_norm.weight [d_model]
 *   blk.N.attn_q.weight [n_heads * head_dim, d_model]      .bias [n_heads * head_dim]
 *   blk.N.attn_k.weight, attn_v.weight [n_kv_heads * head_dim, d_model]   .bias [n_kv_heads * head_dim]
 *   blk.N.attn_output.weight [d_model, n_heads * head_dim]                .bias [d_model]
 *   blk.N.attn_q_norm.weight, attn_k_norm.weight [head_dim]
 *   blk.N.ffn_gate.weight, ffn_up.weight [d_ff, d_model]   blk.N.ffn_down.weight [d_model, d_ff]
 *
 * For the first two kinds every tensor that the configuration asks for is there in this shape, checked at
 * open, and no other weight is. For an Edgewise file the tensors are listed as the file has them (packed
 * matrices are I8, one row), in its order, and the model room checks them. */
#ifndef EW_FORMAT_CHECKPOINT_H
#define EW_FORMAT_CHECKPOINT_H

#include "format/config.h"

typedef enum ew_checkpoint_source {
    EW_CHECKPOINT_HUGGING_FACE,
    EW_CHECKPOINT_GGUF,
    EW_CHECKPOINT_EDGEWISE
} ew_checkpoint_source;

/* The version of the file layout that this build writes and reads (metadata key edgewise.version). */
enum { EW_EDGEWISE_VERSION = 1 };

typedef struct ew_tensor {
    const char *name;
    ew_dtype type;
    size_t rows, cols; /* row-major; 1-D tensors have one row */
    const uint8_t *data;
    size_t bytes, row_bytes;
    size_t
        interleaved; /* > 0: the file holds the rows (1-D: elements) of every head of this size interleaved */
} ew_tensor;

typedef struct ew_checkpoint ew_checkpoint;

/* Opens `path`, a folder with config.json or a GGUF file. One sentence in `error` says what is missing,
 * superfluous or of the wrong shape. */
ew_status ew_checkpoint_open(const char *path, ew_checkpoint **out, ew_error *error);
void ew_checkpoint_close(ew_checkpoint *checkpoint); /* NULL is fine */

ew_checkpoint_source ew_checkpoint_kind(const ew_checkpoint *checkpoint);
const char *ew_checkpoint_path(const ew_checkpoint *checkpoint);
const ew_config *ew_checkpoint_config(const ew_checkpoint *checkpoint);
const ew_gguf *ew_checkpoint_gguf(const ew_checkpoint *checkpoint); /* NULL for a folder */

/* The tensors, in the order of the list above (layers ascending; within one: the order in the list). */
size_t ew_checkpoint_tensor_count(const ew_checkpoint *checkpoint);
const ew_tensor *ew_checkpoint_tensor_at(const ew_checkpoint *checkpoint, size_t index);
const ew_tensor *ew_checkpoint_find(const ew_checkpoint *checkpoint, const char *name); /* NULL: absent */

/* The encoded bytes of canonical row `row` < rows, row_bytes long (for repacking without loss). Of an
 * interleaved 1-D tensor use ew_tensor_read_row, which puts the elements in order. */
const uint8_t *ew_tensor_row(const ew_tensor *tensor, size_t row);

/* Row `row` as float32 in out[cols]. EW_ERROR_UNSUPPORTED for types that are no weights. */
ew_status ew_tensor_read_row(const ew_tensor *tensor, size_t row, float *out, ew_error *error);

/* The `source` fingerprint: SHA-256 over configuration, tokenizer and original weights as docs/formats.md
 * defines it, in hexadecimal. Reads all weights, except of an Edgewise file, which has it in
 * edgewise.fingerprint.source. */
ew_status ew_checkpoint_source_fingerprint(const ew_checkpoint *checkpoint, char hex[65], ew_error *error);

#endif
