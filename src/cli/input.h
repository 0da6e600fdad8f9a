/* Text that comes from files or standard input. */
#ifndef EW_CLI_INPUT_H
#define EW_CLI_INPUT_H

#include "base/buffer.h"
#include "base/error.h"

/* Appends all that standard input holds. EW_ERROR_CANCELLED when a signal came meanwhile. */
ew_status ew_read_stdin(ew_buffer *text, ew_error *error);

/* Appends a file's bytes; "-" is standard input. */
ew_status ew_read_text(const char *path, ew_buffer *text, ew_error *error);

#endif
