#include "base/buffer.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(ew_buffer *buffer, size_t more) {
    size_t wanted;
    if (buffer->failed || !ew_add_size(buffer->length, more, &wanted) || !ew_add_size(wanted, 1, &wanted) ||
        !ew_grow((void **)&buffer->data, &buffer->capacity, wanted, 1)) {
        buffer->failed = true;
        return false;
    }
    return true;
}

void ew_buffer_append(ew_buffer *buffer, const void *bytes, size_t length) {
    if (!reserve(buffer, length)) {
        return;
    }
    if (length > 0) {
        memcpy(buffer->data + buffer->length, bytes, length);
    }
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void ew_buffer_append_text(ew_buffer *buffer, const char *text) {
    ew_buffer_append(buffer, text, strlen(text));
}

void ew_buffer_append_format(ew_buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !reserve(buffer, (size_t)length)) {
        buffer->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)length;
}

void ew_buffer_clear(ew_buffer *buffer) {
    buffer->length = 0;
    buffer->failed = false;
    if (buffer->data) {
        buffer->data[0] = '\0';
    }
}

void ew_buffer_free(ew_buffer *buffer) {
    free(buffer->data);
    *buffer = (ew_buffer){0};
}
