#include "cli/input.h"
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t largest_text = (size_t)1 << 31; /* what a tokenizer takes */

ew_status ew_read_stdin(ew_buffer *text, ew_error *error) {
    char block[65536];
    size_t got;
    while ((got = fread(block, 1, sizeof block, stdin)) > 0) {
        ew_buffer_append(text, block, got);
        if (text->failed) {
            return ew_fail_memory(error, text->length + got, "standard input");
        }
        if (text->length >= largest_text) {
            return ew_fail(error, EW_ERROR_FORMAT, "standard input holds more than 2 GiB");
        }
    }
    if (ferror(stdin)) {
        return errno == EINTR
                   ? ew_fail(error, EW_ERROR_CANCELLED, "interrupted")
                   : ew_fail(error, EW_ERROR_IO, "cannot read standard input: %s", strerror(errno));
    }
    return EW_OK;
}

ew_status ew_read_text(const char *path, ew_buffer *text, ew_error *error) {
    if (strcmp(path, "-") == 0) {
        return ew_read_stdin(text, error);
    }
    char *bytes = NULL;
    size_t length = 0;
    ew_status status = ew_read_file(path, largest_text - 1, &bytes, &length, error);
    if (status != EW_OK) {
        return status;
    }
    ew_buffer_append(text, bytes, length);
    free(bytes);
    return text->failed ? ew_fail_memory(error, length, path) : EW_OK;
}
