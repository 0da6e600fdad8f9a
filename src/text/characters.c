#include "text/characters.h"

#include "base/utf8.h"

#include <utf8proc.h>

bool ew_is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

bool ew_is_python_space(uint32_t c) {
    return ew_is_space(c) || (c >= 0x1c && c <= 0x1f);
}

/* Circled and squared letters, and the joiners: word characters by property, not by category. */
static bool is_other_word(uint32_t c) {
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
           (c >= 0x1f170 && c <= 0x1f189) || c == 0x200c || c == 0x200d;
}

bool ew_is_word(uint32_t codepoint) {
    switch (utf8proc_category((utf8proc_int32_t)codepoint)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return is_other_word(codepoint);
    }
}

size_t ew_character_before(const char *text, size_t end, uint32_t *codepoint) {
    for (size_t n = 1; n <= EW_UTF8_MAX && n <= end; n++) {
        if (ew_utf8_decode(text + end - n, n, codepoint) == n) {
            return n;
        }
    }
    return 0;
}

size_t ew_leading_space(const char *text, size_t length) {
    size_t at = 0;
    uint32_t codepoint = 0;
    for (;;) {
        size_t n = ew_utf8_decode(text + at, length - at, &codepoint);
        if (n == 0 || !ew_is_space(codepoint)) {
            return at;
        }
        at += n;
    }
}

size_t ew_trim_end(const char *text, size_t length) {
    uint32_t codepoint = 0;
    for (;;) {
        size_t n = ew_character_before(text, length, &codepoint);
        if (n == 0 || !ew_is_space(codepoint)) {
            return length;
        }
        length -= n;
    }
}

/* Printable bytes of Latin-1 stand for themselves, the 68 others in order for U+0100 onwards. */
static bool stands_for_itself(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

uint32_t ew_byte_letter(uint8_t byte) {
    uint32_t before = 0;
    if (stands_for_itself(byte)) {
        return byte;
    }
    for (uint32_t other = 0; other < byte; other++) {
        before += !stands_for_itself(other);
    }
    return 0x100 + before;
}

int ew_letter_byte(uint32_t codepoint) {
    if (codepoint < 0x100) {
        return stands_for_itself(codepoint) ? (int)codepoint : -1;
    }
    if (codepoint < 0x121) { /* 00 .. 20 */
        return (int)(codepoint - 0x100);
    }
    if (codepoint < 0x143) { /* 7F .. A0 */
        return (int)(codepoint - 0x121 + 0x7f);
    }
    return codepoint == 0x143 ? 0xad : -1;
}
