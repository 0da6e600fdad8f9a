/* From the regular expressions of the `tokenizers` library to PCRE2's (pattern.h, docs/text.md). */
#ifndef EW_TEXT_PATTERN_DIALECT_H
#define EW_TEXT_PATTERN_DIALECT_H

#include "base/buffer.h"
#include "base/error.h"

/* Appends the translated pattern. Errors: EW_ERROR_UNSUPPORTED naming the construct. */
ew_status ew_pattern_translate(const char *pattern, size_t length, ew_buffer *out, ew_error *error);

#endif
