/* Character classes and walks that the text room needs beside its patterns. */
#ifndef EW_TEXT_CHARACTERS_H
#define EW_TEXT_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Unicode's White_Space; `ew_is_python_space` has U+001C..U+001F too, as Python's str.strip (and Jinja's
 * trim). */
bool ew_is_space(uint32_t codepoint);
bool ew_is_python_space(uint32_t codepoint);

/* Alphabetic characters, marks, decimal digits, connectors and joiners: \w of Rust's regular expressions, by
 * which the `tokenizers` library finds words beside added tokens. (Its patterns have another \w:
 * pattern_dialect.c.) */
bool ew_is_word(uint32_t codepoint);

/* The well-formed character that ends at text[end]: its length, 0 if there is none. */
size_t ew_character_before(const char *text, size_t end, uint32_t *codepoint);

/* Bytes of white space at the beginning; length without the white space at the end. */
size_t ew_leading_space(const char *text, size_t length);
size_t ew_trim_end(const char *text, size_t length);

/* GPT-2's byte alphabet, in which byte-level vocabularies are written: every byte is one printable character.
 * Returns the character of a byte, and the byte of a character, -1 if it is no letter of the alphabet. */
uint32_t ew_byte_letter(uint8_t byte);
int ew_letter_byte(uint32_t codepoint);

#endif
