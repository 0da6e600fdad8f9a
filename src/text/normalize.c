#include "text/normalize.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

typedef struct characters {
    utf8proc_int32_t *list;
    size_t count;
    size_t capacity;
} characters;

static ew_status decompose(const char *text, size_t length, characters *out, ew_error *error) {
    size_t at = 0;
    int boundary = 0;
    while (at < length) {
        uint32_t codepoint = 0;
        size_t n = ew_utf8_decode(text + at, length - at, &codepoint);
        if (n == 0) {
            return ew_fail(error, EW_ERROR_FORMAT, "a text to be normalized is not UTF-8 at byte %zu", at);
        }
        size_t room = 4;
        for (;;) {
            if (!ew_grow((void **)&out->list, &out->capacity, out->count + room, sizeof *out->list)) {
                return ew_fail_memory(error, (out->count + room) * sizeof *out->list, "normalizing a text");
            }
            utf8proc_ssize_t got = utf8proc_decompose_char((utf8proc_int32_t)codepoint,
                                                           out->list + out->count, (utf8proc_ssize_t)room,
                                                           UTF8PROC_STABLE | UTF8PROC_COMPOSE, &boundary);
            if (got < 0) {
                return ew_fail(error, EW_ERROR_FORMAT, "normalizing a text: %s", utf8proc_errmsg(got));
            }
            if ((size_t)got <= room) {
                out->count += (size_t)got;
                break;
            }
            room = (size_t)got;
        }
        at += n;
    }
    return EW_OK;
}

static unsigned combining_class(utf8proc_int32_t character) {
    return (unsigned)utf8proc_get_property(character)->combining_class & 255;
}

/* Puts one run of combining marks into canonical order: stable, by class, by counting (utf8proc's own
 * ordering exchanges neighbours, which a run of 100,000 marks makes endless). `spare` has room for the run.
 */
static void order_marks(utf8proc_int32_t *run, size_t count, utf8proc_int32_t *spare) {
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++) {
        starts[combining_class(run[i]) + 1]++;
    }
    for (size_t c = 1; c < 257; c++) {
        starts[c] += starts[c - 1];
    }
    for (size_t i = 0; i < count; i++) {
        spare[starts[combining_class(run[i])]++] = run[i];
    }
    memcpy(run, spare, count * sizeof *run);
}

static ew_status order(characters *text, ew_error *error) {
    utf8proc_int32_t *spare = NULL;
    size_t at = 0;
    while (at < text->count) {
        size_t end = at;
        while (end < text->count && combining_class(text->list[end]) != 0) {
            end++;
        }
        if (end - at > 1) {
            if (!spare) {
                spare = ew_allocate(text->count, sizeof *spare);
            }
            if (!spare) {
                return ew_fail_memory(error, text->count * sizeof *spare, "normalizing a text");
            }
            order_marks(text->list + at, end - at, spare);
        }
        at = end + 1;
    }
    free(spare);
    return EW_OK;
}

static ew_status normalize_stretch(const char *text, size_t length, characters *scratch, ew_buffer *out,
                                   ew_error *error) {
    scratch->count = 0;
    ew_status status = decompose(text, length, scratch, error);
    if (status == EW_OK) {
        status = order(scratch, error);
    }
    if (status != EW_OK) {
        return status;
    }
    utf8proc_ssize_t count = utf8proc_normalize_utf32(scratch->list, (utf8proc_ssize_t)scratch->count,
                                                      UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (count < 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "normalizing a text: %s", utf8proc_errmsg(count));
    }
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        char bytes[EW_UTF8_MAX];
        ew_buffer_append(out, bytes, ew_utf8_encode((uint32_t)scratch->list[i], bytes));
    }
    return EW_OK;
}

/* ASCII is its own normal form and never joins what stands before it, so only stretches of other characters,
 * each with the ASCII character before it, go through the tables. */
ew_status ew_normalize_nfc(const char *text, size_t length, ew_buffer *out, ew_error *error) {
    characters scratch = {0};
    ew_status status = EW_OK;
    size_t at = 0;
    while (status == EW_OK && at < length) {
        size_t ascii = at;
        while (ascii < length && (unsigned char)text[ascii] < 0x80) {
            ascii++;
        }
        if (ascii == length) {
            ew_buffer_append(out, text + at, length - at);
            break;
        }
        size_t begin = ascii > at ? ascii - 1 : ascii, end = ascii;
        ew_buffer_append(out, text + at, begin - at);
        while (end < length && (unsigned char)text[end] >= 0x80) {
            end++;
        }
        status = normalize_stretch(text + begin, end - begin, &scratch, out, error);
        at = end;
    }
    free(scratch.list);
    if (status == EW_OK && out->failed) {
        return ew_fail_memory(error, length, "normalizing a text");
    }
    return status;
}
