/* Reading the structs that callers fill: each begins with its size (edgewise.h). */
#ifndef EW_MODEL_OPTIONS_H
#define EW_MODEL_OPTIONS_H

#include "base/error.h"

/* Copies a caller's struct of `given->size` bytes into `known` of known_size bytes: what the caller does not know reads
 * as 0; what this library does not know must be 0. `given` NULL leaves `known`, which holds the defaults, alone. `what`
 * names the struct. */
ew_status ew_read_options(const void *given, void *known, size_t known_size, const char *what, ew_error *error);

/* Copies `known` into the caller's struct, as much of it as its size says. */
void ew_write_info(const void *known, size_t known_size, void *given);

#endif
