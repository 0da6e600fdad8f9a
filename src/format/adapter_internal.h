/* How adapter files are taken apart: adapter.c is what both kinds share, adapter_peft.c and adapter_gguf.c read one
 * each, adapter_fit.c compares with a base. */
#ifndef EW_FORMAT_ADAPTER_INTERNAL_H
#define EW_FORMAT_ADAPTER_INTERNAL_H

#include "format/adapter.h"
#include "format/checkpoint_internal.h"
#include "format/json.h"

/* What a tensor of an adapter file is to its matrix. */
typedef enum ew_adapter_part { EW_PART_A, EW_PART_A_SCALES, EW_PART_B, EW_PART_B_SCALES } ew_adapter_part;

/* One tensor of the file, its name taken apart. */
typedef struct ew_adapter_piece {
    ew_linear linear;
    ew_adapter_part part;
    ew_tensor tensor; /* rows and cols as in ew_lora_factor */
} ew_adapter_piece;

struct ew_adapter_file {
    ew_adapter_source kind;
    char *path;
    ew_gguf *gguf; /* one of the two */
    ew_safetensors *peft;
    json_t *config;           /* adapter_config.json; NULL for GGUF */
    ew_adapter_piece *pieces; /* in the order of targets, whose names they hold */
    size_t n_pieces;
    ew_lora_target *targets;
    char *name;
    char *base_name;
    int32_t *tokens;
    char source[65], weights[65];
    ew_lora content;
};

/* Room for the pieces of `count` tensors. */
ew_status ew_adapter_allocate_pieces(ew_adapter_file *file, size_t count, ew_error *error);

/* Sorts the pieces and pairs them up as targets, whose alpha is not set. EW_ERROR_FORMAT for what is there twice or
 * half, for ranks that differ and types that cannot be. */
ew_status ew_adapter_pair(ew_adapter_file *file, ew_error *error);

/* Memory for `count` invocation tokens, at most EW_ADAPTER_MAX_TOKENS; ids are set by ew_adapter_set_token. */
ew_status ew_adapter_allocate_tokens(ew_adapter_file *file, size_t count, ew_error *error);
ew_status ew_adapter_set_token(ew_adapter_file *file, size_t index, int64_t id, ew_error *error);

/* From a configuration text and an open safetensors file, which it takes over in failure too; from an open GGUF file
 * likewise. `path` names them in messages. All of the checks of ew_adapter_open. */
ew_status ew_adapter_from_peft(ew_string config, ew_safetensors *weights, const char *path, const ew_config *base,
                               ew_adapter_file **out, ew_error *error);
ew_status ew_adapter_from_gguf(ew_gguf *gguf, const char *path, const ew_config *base, ew_adapter_file **out,
                               ew_error *error);

/* Refuses what does not belong to the base (NULL: anything does): how many of the targets and which is the first. */
ew_status ew_adapter_fit(const ew_lora *adapter, const ew_config *base, const char *path, ew_error *error);

/* The longest row of any factor, at least 1. */
size_t ew_adapter_widest(const ew_lora *adapter);

/* Refuses a value that is not finite, by its place. Rows are read as float32, one at a time. */
ew_status ew_adapter_check_values(const ew_lora *adapter, const char *path, ew_error *error);

#endif
