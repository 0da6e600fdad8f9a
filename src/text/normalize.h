/* Unicode normalization form C, in time proportional to the text whatever the text is. */
#ifndef EW_TEXT_NORMALIZE_H
#define EW_TEXT_NORMALIZE_H

#include "base/buffer.h"
#include "base/error.h"

/* Appends the normalized text; `text` is well-formed UTF-8 (else EW_ERROR_FORMAT). */
ew_status ew_normalize_nfc(const char *text, size_t length, ew_buffer *out, ew_error *error);

#endif
