#include "format/lines.h"

#include <string.h>

static bool is_blank(ew_string line) {
    for (size_t i = 0; i < line.length; i++) {
        if (!strchr(" \t\r", line.data[i]) || line.data[i] == '\0') {
            return false;
        }
    }
    return true;
}

bool ew_next_line(ew_string *text, ew_string *line, size_t *number) {
    if (*number == 0 && text->length >= 3 && memcmp(text->data, "\xef\xbb\xbf", 3) == 0) {
        text->data += 3;
        text->length -= 3;
    }
    while (text->length > 0) {
        const char *end = memchr(text->data, '\n', text->length);
        size_t length = end ? (size_t)(end - text->data) : text->length, taken = length + (end != NULL);
        *line = (ew_string){text->data, length};
        text->data += taken;
        text->length -= taken;
        ++*number;
        if (line->length > 0 && line->data[line->length - 1] == '\r') {
            line->length--;
        }
        if (!is_blank(*line)) {
            return true;
        }
    }
    return false;
}
