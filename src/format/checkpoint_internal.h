/* The parts of a checkpoint: which tensors a configuration asks for, and where a folder keeps them. */
#ifndef EW_FORMAT_CHECKPOINT_INTERNAL_H
#define EW_FORMAT_CHECKPOINT_INTERNAL_H

#include "format/checkpoint.h"
#include "format/safetensors.h"

enum { EW_TENSOR_NAME_BYTES = 48, EW_FOLDER_NAME_BYTES = 72 };

/* One tensor that the configuration asks for. */
typedef struct ew_expected {
    char name[EW_TENSOR_NAME_BYTES];        /* canonical */
    char folder_name[EW_FOLDER_NAME_BYTES]; /* in Hugging Face folders */
    size_t rows, cols;
    bool vector;  /* one dimension: cols */
    bool rotated; /* rows stand in the order of RoPE's pairs, so llama files interleave them */
} ew_expected;

/* All of them, in the order of checkpoint.h; owned by the caller. */
ew_status ew_expect_tensors(const ew_config *config, ew_expected **expected, size_t *count, ew_error *error);

/* One matrix of a layer by name, whether or not a model has it. */
typedef struct ew_linear {
    size_t layer;
    size_t place;                      /* within the layer, in the order of checkpoint.h */
    bool rotated;                      /* as in ew_expected */
    char name[EW_TENSOR_NAME_BYTES];   /* blk.3.attn_q.weight */
    char module[EW_FOLDER_NAME_BYTES]; /* model.layers.3.self_attn.q_proj */
} ew_linear;

/* By its canonical name or by that of its module in a folder; false when no layer of any model has such a matrix. */
bool ew_linear_by_name(ew_string name, ew_linear *linear);
bool ew_linear_by_module(ew_string module, ew_linear *linear);

/* The weights of a folder: model.safetensors, or the shards of model.safetensors.index.json, as one table. */
typedef struct ew_weight_folder {
    ew_safetensors **shards;
    size_t n_shards, shard_capacity;
    const ew_safetensors_tensor **tensors; /* of all shards */
    ew_name *names;                        /* sorted; index into tensors */
    size_t count;
} ew_weight_folder;

ew_status ew_weight_folder_open(const char *path, ew_weight_folder *folder, ew_error *error);
void ew_weight_folder_close(ew_weight_folder *folder); /* safe on {0} */

/* Whether a file of this name is in the folder. */
bool ew_folder_has(const char *folder, const char *name);

struct ew_checkpoint {
    ew_checkpoint_source kind;
    char *path;
    ew_config config;
    ew_gguf *gguf;           /* NULL for a folder */
    ew_weight_folder folder; /* {0} for a file */
    ew_expected
        *expected; /* owns the names of the tensors; NULL for an Edgewise file, whose names are gguf's */
    ew_tensor *tensors;
    ew_name *names; /* sorted; index into tensors */
    size_t count;
};

#endif
