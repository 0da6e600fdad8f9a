/* Answers as words: what is compared when mathematics has nothing to say. */
#ifndef EW_GRADE_TEXT_H
#define EW_GRADE_TEXT_H

#include "grade/work.h"

typedef struct ew_span {
    const char *text;
    size_t length;
} ew_span;

static inline ew_span ew_span_of(const char *text, size_t length) {
    return (ew_span){text, length};
}
bool ew_span_equal(ew_span a, ew_span b);
bool ew_span_is(ew_span a, const char *text);

enum { EW_TEXT_LIMIT = 65536 }; /* bytes; a longer answer is compared as it is */

/* Without what LaTeX prints as nothing or only as looks: spaces, $, \left, \text{...}, \displaystyle, \dfrac
 * for \frac, a final full stop. {NULL, 0} when the workspace stopped or the text is too long. */
ew_span ew_text_tight(ew_work *work, const char *text, size_t length);

/* Lower case words with single spaces, without punctuation and a leading article; length 0 when the text
 * holds anything but words, figures and plain punctuation. */
ew_span ew_text_words(ew_work *work, const char *text, size_t length);

/* "twenty-five", "one hundred and three": true if the words are a number. */
bool ew_words_number(ew_span words, int64_t *value);

/* Spaces, then surrounding $, \( \), \[ \], ** and the full stop of a sentence taken off. */
ew_span ew_trim_answer(const char *text, size_t length);

#endif
