/* What `edgewise inspect` tells of a LoRA adapter. */
#ifndef EW_CLI_INSPECT_ADAPTER_H
#define EW_CLI_INSPECT_ADAPTER_H

#include "edgewise.h"

/* Prints what is in the adapter at `path`, as text or as one JSON object. `base` (may be NULL): a model that it must fit. */
ew_status ew_inspect_adapter(const char *path, const char *base, bool as_json, ew_error *error);

#endif
