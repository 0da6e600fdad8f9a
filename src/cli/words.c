#include "cli/words.h"
#include "base/buffer.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void ew_words_add(ew_words *words, const char *text, size_t length) {
    if (words->n == EW_WORDS_MOST) {
        words->problem = "has too many words";
        return;
    }
    char *copy = ew_copy_text(text, length);
    if (copy) {
        words->list[words->n++] = copy;
    } else {
        words->problem = "needs more memory than there is";
    }
}

/* One word from line[at] on; where it ends. */
static size_t split_word(ew_words *words, const char *line, size_t length, size_t at) {
    ew_buffer word = {0};
    ew_buffer_append(&word, "", 0);
    while (at < length && line[at] != ' ') {
        size_t end = at + 1;
        if (line[at] == '\'' || line[at] == '"') {
            const char *close = memchr(line + end, line[at], length - end);
            if (!close) {
                words->problem = "has a quote that nothing closes";
            }
            size_t stop = close ? (size_t)(close - line) : length;
            ew_buffer_append(&word, line + end, stop - end);
            end = close ? stop + 1 : length;
        } else {
            ew_buffer_append(&word, line + at, 1);
        }
        at = end;
    }
    if (word.failed) {
        words->problem = "needs more memory than there is";
    } else {
        ew_words_add(words, word.data, word.length);
    }
    ew_buffer_free(&word);
    return at;
}

void ew_words_split(ew_words *words, const char *line, size_t length) {
    for (size_t at = 0; at < length && !words->problem;) {
        at = line[at] == ' ' ? at + 1 : split_word(words, line, length, at);
    }
}

void ew_words_free(ew_words *words) {
    for (size_t i = 0; i < words->n; i++) {
        free(words->list[i]);
    }
    *words = (ew_words){.n = 0};
}
