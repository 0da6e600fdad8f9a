/* LoRA adapters as files: y = W x + scale * B (A x) for some of a model's linear layers. Read from a PEFT folder
 * (adapter_config.json, adapter_model.safetensors) or a llama.cpp LoRA GGUF file, written as either.
 *
 * Whatever the source, matrices have canonical names (checkpoint.h: blk.3.attn_q.weight) and B's rows stand in
 * canonical order. GGUF files of llama models interleave the rows of B of q and k as they do those of the base; which
 * heads they belong to only the base's configuration tells, so a file is opened for a base.
 *
 * docs/formats.md ("Adapters") says what is read, written and refused. */
#ifndef EW_FORMAT_ADAPTER_H
#define EW_FORMAT_ADAPTER_H

#include "format/checkpoint.h"

/* The version of our own keys in adapter files (edgewise.adapter.version). */
enum { EW_ADAPTER_VERSION = 1, EW_ADAPTER_MAX_TOKENS = 256 };

/* A or B. Types: F32, F16, BF16; what else GGUF has for weights when it comes from such a file; I8 with `scales`. Its
 * rows are read by ew_lora_read_row, encoded ones by ew_tensor_row(&values, row). */
typedef struct ew_lora_factor {
    ew_tensor values;
    ew_tensor scales; /* I8 only: F32 [rows, 1], value = scale * code; else data is NULL */
} ew_lora_factor;

/* The adapter of one matrix W [rows, cols] of the base. */
typedef struct ew_lora_target {
    const char *name; /* canonical name of W */
    size_t rank;
    double alpha;
    ew_lora_factor a; /* [rank, cols] */
    ew_lora_factor b; /* [rows, rank] */
} ew_lora_target;

/* An adapter, read from a file or put together by a trainer; what the pointers point to is not owned. */
typedef struct ew_lora {
    const char *name;              /* of the adapter, for people; may be NULL */
    bool rslora;                   /* scale = alpha / sqrt(rank) instead of alpha / rank */
    const ew_lora_target *targets; /* layers ascending, within one in checkpoint.h's order; no name twice */
    size_t n_targets;
    const int32_t *invocation_tokens; /* aLoRA: on from the first of these on; NULL: on everywhere, or it is not said */
    size_t n_invocation_tokens;
    const char *base_name;           /* what PEFT calls base_model_name_or_path; may be NULL */
    const char *source_fingerprint;  /* of the base it was trained for: 64 hexadecimal digits; NULL: not said */
    const char *weights_fingerprint; /* of the base it was trained on; NULL: not said */
} ew_lora;

/* What B (A x) is multiplied by. */
double ew_lora_scale(const ew_lora *adapter, const ew_lora_target *target);

/* 64 hexadecimal digits by which heads know the adapter that they were trained with: of names, scales and values as
 * float32, so that a PEFT folder and a GGUF file of the same adapter agree. Reads all values. */
ew_status ew_lora_fingerprint(const ew_lora *adapter, char hex[65], ew_error *error);

/* The target of a matrix by its canonical name; NULL: the adapter leaves it alone. */
const ew_lora_target *ew_lora_find(const ew_lora *adapter, const char *name);

/* Row `row` of a factor as float32 in out[values.cols]. */
ew_status ew_lora_read_row(const ew_lora_factor *factor, size_t row, float *out, ew_error *error);

/* A row of `count` finite values as INT8: *scale = amax / 127, codes the nearest to value / scale, ties to even. */
void ew_lora_encode_int8(const float *values, size_t count, int8_t *codes, float *scale);

typedef enum ew_adapter_source { EW_ADAPTER_PEFT, EW_ADAPTER_GGUF } ew_adapter_source;

typedef struct ew_adapter_file ew_adapter_file;

/* Opens a folder with adapter_config.json or a GGUF file of type adapter, for a base of this configuration: every
 * matrix must exist there in this shape, what the file says it adapts must be there, all values must be finite (all of
 * them are read). Errors: EW_ERROR_UNSUPPORTED names what Edgewise does not do (DoRA, modules_to_save, ...);
 * EW_ERROR_FORMAT says how many matrices do not fit and which is the first; EW_ERROR_IO. `base` NULL: to look at only;
 * nothing is compared, and the rows of B stand in the order of the file. */
ew_status ew_adapter_open(const char *path, const ew_config *base, ew_adapter_file **out, ew_error *error);
void ew_adapter_close(ew_adapter_file *file); /* NULL is fine */

ew_adapter_source ew_adapter_file_kind(const ew_adapter_file *file);
const char *ew_adapter_file_path(const ew_adapter_file *file);
const ew_lora *ew_adapter_file_content(const ew_adapter_file *file); /* lives as long as the file is open */

/* Whether `path` is an adapter (a folder with adapter_config.json, a GGUF file whose general.type is adapter), without
 * looking further. Anything that cannot be read is none. */
bool ew_adapter_is(const char *path);

/* Compares an adapter's fingerprints with its base's (either may be NULL: not known). Another `source` is
 * EW_ERROR_FORMAT; *other_weights tells that only `weights` differs, which is to be said and not refused. */
ew_status ew_adapter_match_base(const ew_adapter_file *file, const char *source, const char *weights,
                                bool *other_weights, ew_error *error);

/* How factors are stored in a file that is written: ew_adapter_storage of edgewise.h. EW_ADAPTER_KEEP leaves them as
 * they are; EW_ADAPTER_INT8 (one F32 scale a row, amax / 127) is for GGUF only, and only Edgewise reads it. */

/* Writes a LoRA GGUF file for a base of this configuration, row by row. It has one alpha, and its readers take
 * alpha / rank: where a target's scale is another one, the rest is multiplied into its B, which is then F32 (an INT8
 * one stays INT8 and its scales take it). The file appears under its name only when it is complete. Errors:
 * EW_ERROR_ARGUMENT for an incomplete adapter or a value that the storage cannot hold, EW_ERROR_FORMAT for one that
 * does not fit the base, EW_ERROR_IO. */
ew_status ew_adapter_write_gguf(const ew_lora *adapter, const ew_config *base, ew_adapter_storage storage,
                                const char *path, ew_error *error);

/* Writes a PEFT folder, which is made if it is not there. Both files are complete before either gets its name. What
 * PEFT cannot hold (I8 and GGUF's block types) becomes F32. Fingerprints have no place in it. */
ew_status ew_adapter_write_peft(const ew_lora *adapter, const ew_config *base, ew_adapter_storage storage,
                                const char *folder, ew_error *error);

#endif
