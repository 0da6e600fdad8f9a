/* The words of a line of options, as a bundle's policy is: separated by spaces; '...' and "..." hold spaces. */
#ifndef EW_CLI_WORDS_H
#define EW_CLI_WORDS_H

#include <stdbool.h>
#include <stddef.h>

enum { EW_WORDS_MOST = 128 };

typedef struct ew_words {
    char *list[EW_WORDS_MOST]; /* [n], owned */
    size_t n;
    const char *problem; /* what went wrong; NULL: nothing */
} ew_words;

void ew_words_add(ew_words *words, const char *text, size_t length);

/* Adds the words of a line. No character is special within quotes but the closing one. */
void ew_words_split(ew_words *words, const char *line, size_t length);
void ew_words_free(ew_words *words); /* safe on {0} */

#endif
