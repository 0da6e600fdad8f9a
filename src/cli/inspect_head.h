/* What is in a head, and what a bundle has beside its model. */
#ifndef EW_CLI_INSPECT_HEAD_H
#define EW_CLI_INSPECT_HEAD_H

#include "cli/json_output.h"
#include "format/bundle.h"

/* Whether the file is a head; anything that cannot be read is none. */
bool ew_is_head(const char *path);

ew_status ew_inspect_head(const char *path, bool as_json, ew_error *error);

/* Lines of a bundle's parts and its policy; nothing for a file that is none. */
void ew_print_bundle(const ew_gguf *gguf);

/* The same as an object: parts (names and bytes) and policy; null for a file that is none. */
json_t *ew_bundle_json(const ew_gguf *gguf);

#endif
