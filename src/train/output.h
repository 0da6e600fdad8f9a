/* What training leaves: an adapter, or a whole model as a Hugging Face folder. Float build only. */
#ifndef EW_TRAIN_OUTPUT_H
#define EW_TRAIN_OUTPUT_H

#include "train/base.h"

/* Whether an adapter of this name is a GGUF file, NAME.gguf; else it is a PEFT folder. */
bool ew_train_is_file(const char *path);

/* Writes the adapters: a GGUF file if `path` ends in .gguf, else a PEFT folder. `masked`: with the tokens of the template's
 * reply header as invocation tokens. Files carry the fingerprints of the base. */
ew_status ew_train_write_adapter(const ew_train_base *base, bool masked, ew_adapter_storage storage, const char *path,
                                 ew_error *error);

/* Writes the weights as F32 or BF16 and beside them the base's configuration and tokenizer; the folder is made if it is not
 * there. The weights come last: a folder with model.safetensors is whole. */
ew_status ew_train_write_model(const ew_train_base *base, bool bf16, const char *folder, ew_error *error);

/* Refuses, before any work is done, a path that the two could not write to. */
ew_status ew_train_check_output(const ew_train_base *base, const char *path, ew_error *error);

#endif
