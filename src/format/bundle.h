/* A bundle: an Edgewise file that has beside the model, as tensors of bytes, whole files of what goes with it
 * (docs/formats.md, "Bundles"): bundle.adapter.NAME, a LoRA GGUF file; bundle.switcher and bundle.verifier, heads.
 * Every part keeps its own keys and checks; the model's tensors and fingerprints are those of the file that it was
 * made from. */
#ifndef EW_FORMAT_BUNDLE_H
#define EW_FORMAT_BUNDLE_H

#include "format/adapter.h"
#include "format/head.h"

#define EW_BUNDLE_TENSOR "bundle." /* what the names of parts' tensors begin with */
#define EW_BUNDLE_PATH "bundle:"   /* a path that means a part of the model's own file */
#define EW_BUNDLE_POLICY "edgewise.bundle.policy"

enum { EW_BUNDLE_MAX_PARTS = 64, EW_BUNDLE_MAX_NAME = 40 };

/* One part to be written: "adapter.think", "switcher", "verifier", and the file. */
typedef struct ew_bundle_part {
    const char *name;
    const char *path;
} ew_bundle_part;

/* Copies an Edgewise file and puts the parts into it. `policy` (may be NULL): options of `edgewise run` that hold
 * unless others are given. EW_ERROR_ARGUMENT: the base is no Edgewise file or has parts already, a part's name is none
 * or there twice. The parts are copied as they are: open them for the base first. */
ew_status ew_bundle_write(const char *path, const char *base, const ew_bundle_part *parts, size_t n_parts,
                          const char *policy, ew_error *error);

/* The bytes of a part by its name; false when the file has none such. */
bool ew_bundle_find(const ew_gguf *gguf, const char *name, const uint8_t **bytes, size_t *size);

/* The name of the part that tensor `index` is (behind "bundle."), or NULL. */
const char *ew_bundle_name_at(const ew_gguf *gguf, size_t index);

/* Whether a path means a part of the model's file; *name is the part's. */
bool ew_bundle_path(const char *path, const char **name);

/* Opens a part of an open bundle (NULL: the model's file is none). EW_ERROR_ARGUMENT when there is no such part. */
ew_status ew_bundle_adapter_open(const ew_gguf *gguf, const char *name, const ew_config *base, ew_adapter_file **out,
                                 ew_error *error);
ew_status ew_bundle_head_open(const ew_gguf *gguf, const char *name, ew_head *head, ew_error *error);

#endif
