#include "base/utf8.h"

/* The second byte's range depends on the first (Unicode, table 3-7); later bytes are always 80..BF. */
typedef struct lead {
    unsigned length; /* 0: no character begins so */
    uint8_t low, high;
} lead;

static lead lead_of(uint8_t byte) {
    if (byte < 0x80) {
        return (lead){1, 0, 0};
    }
    if (byte < 0xc2 || byte > 0xf4) {
        return (lead){0, 0, 0};
    }
    if (byte < 0xe0) {
        return (lead){2, 0x80, 0xbf};
    }
    if (byte < 0xf0) {
        return (lead){3, byte == 0xe0 ? 0xa0 : 0x80, byte == 0xed ? 0x9f : 0xbf};
    }
    return (lead){4, byte == 0xf0 ? 0x90 : 0x80, byte == 0xf4 ? 0x8f : 0xbf};
}

/* How many of the first bytes fit the beginning of a character whose lead is `first`. */
static size_t matching(lead first, const uint8_t *bytes, size_t length) {
    size_t n = 1;
    while (n < first.length && n < length) {
        uint8_t low = n == 1 ? first.low : 0x80, high = n == 1 ? first.high : 0xbf;
        if (bytes[n] < low || bytes[n] > high) {
            break;
        }
        n++;
    }
    return n;
}

size_t ew_utf8_decode(const void *data, size_t length, uint32_t *codepoint) {
    const uint8_t *bytes = data;
    if (length == 0) {
        return 0;
    }
    lead first = lead_of(bytes[0]);
    if (first.length == 0 || matching(first, bytes, length) < first.length) {
        return 0;
    }
    if (codepoint) {
        static const uint8_t mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
        uint32_t value = bytes[0] & mask[first.length];
        for (unsigned i = 1; i < first.length; i++) {
            value = value << 6 | (bytes[i] & 0x3f);
        }
        *codepoint = value;
    }
    return first.length;
}

size_t ew_utf8_broken(const void *data, size_t length, bool *cut) {
    const uint8_t *bytes = data;
    lead first = lead_of(bytes[0]);
    size_t n = first.length == 0 ? 1 : matching(first, bytes, length);
    *cut = first.length != 0 && n == length;
    return n;
}

size_t ew_utf8_valid_prefix(const void *data, size_t length) {
    const uint8_t *bytes = data;
    size_t at = 0;
    while (at < length) {
        size_t n = bytes[at] < 0x80 ? 1 : ew_utf8_decode(bytes + at, length - at, NULL);
        if (n == 0) {
            break;
        }
        at += n;
    }
    return at;
}

int ew_utf8_shown(const char *text, size_t length) {
    enum { SHOWN = 80 };
    return (int)ew_utf8_valid_prefix(text, length < SHOWN ? length : SHOWN);
}

size_t ew_utf8_encode(uint32_t codepoint, char out[EW_UTF8_MAX]) {
    if (codepoint > 0x10ffff || (codepoint >= 0xd800 && codepoint < 0xe000)) {
        codepoint = 0xfffd;
    }
    if (codepoint < 0x80) {
        out[0] = (char)codepoint;
        return 1;
    }
    size_t length = codepoint < 0x800 ? 2 : codepoint < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (codepoint & 0x3f));
        codepoint >>= 6;
    }
    out[0] = (char)(marks[length] | codepoint);
    return length;
}
