/* UTF-8: reading, checking and writing one character at a time. Well-formed means as Unicode's table 3-7 has
 * it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef EW_BASE_UTF8_H
#define EW_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EW_UTF8_MAX = 4 }; /* bytes of the longest character */

/* Length in bytes (1 to 4) of the well-formed character at `bytes`, its number in *codepoint (which may be
 * NULL); 0 when there is none: no bytes left, an ill-formed or a cut sequence. */
size_t ew_utf8_decode(const void *bytes, size_t length, uint32_t *codepoint);

/* Where ew_utf8_decode returns 0 and length > 0: how many bytes one U+FFFD stands for (the maximal subpart of
 * Unicode's section 3.9, at least 1). *cut tells whether these are all the bytes there are and more could
 * complete a character. */
size_t ew_utf8_broken(const void *bytes, size_t length, bool *cut);

/* Bytes of the longest well-formed prefix. */
size_t ew_utf8_valid_prefix(const void *bytes, size_t length);

/* How much of a text a message shows, for "%.*s": whole well-formed characters, at most 80 bytes. */
int ew_utf8_shown(const char *text, size_t length);

/* Writes the character (1 to 4 bytes, no NUL); surrogates and numbers above U+10FFFF become U+FFFD. */
size_t ew_utf8_encode(uint32_t codepoint, char out[EW_UTF8_MAX]);

#endif
