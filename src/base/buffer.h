/* A growing string of bytes. Always NUL-terminated behind its length once something was appended. */
#ifndef EW_BASE_BUFFER_H
#define EW_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ew_buffer {
    char *data;      /* owned; NULL while empty */
    size_t length;   /* bytes in use, without the NUL */
    size_t capacity; /* bytes allocated */
    bool failed;     /* an append ran out of memory: the content is incomplete. Check once at the end */
} ew_buffer;

void ew_buffer_append(ew_buffer *buffer, const void *bytes, size_t length);
void ew_buffer_append_text(ew_buffer *buffer, const char *text);
void ew_buffer_append_format(ew_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ew_buffer_clear(ew_buffer *buffer); /* length 0, memory kept, `failed` reset */
void ew_buffer_free(ew_buffer *buffer);  /* also resets to {0} */

#endif
