#include "base/error.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void make_printable(char *text) {
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        size_t n = ew_utf8_decode(text + at, length - at, NULL);
        if (n == 0 || (unsigned char)text[at] < 0x20 || text[at] == 0x7f) {
            text[at] = '?';
            n = 1;
        }
        at += n;
    }
}

/* A sentence cut by the buffer may end inside a UTF-8 sequence: take the broken sequence off. */
static void cut_at_character(char *text, size_t length) {
    size_t start = length;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80) {
        start--;
    }
    if (start > 0 && (unsigned char)text[start - 1] >= 0xc0) {
        text[start - 1] = '\0';
    }
}

ew_status ew_fail(ew_error *error, ew_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        int wanted = vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
        if (wanted < 0) {
            error->message[0] = '\0';
        } else if ((size_t)wanted >= sizeof error->message) {
            cut_at_character(error->message, sizeof error->message - 1);
        }
        make_printable(error->message);
        error->status = status;
    }
    return status;
}

ew_status ew_fail_memory(ew_error *error, size_t bytes, const char *what) {
    return ew_fail(error, EW_ERROR_MEMORY, "out of memory: %zu bytes for %s", bytes, what);
}
