/* Patterns of pre-tokenizers: written for the regular expressions of the `tokenizers` library (Oniguruma,
 * Ruby syntax), run by PCRE2. Where the two languages differ the pattern is rewritten to mean the same; what
 * has no equal is refused with the construct's name. */
#ifndef EW_TEXT_PATTERN_H
#define EW_TEXT_PATTERN_H

#include "base/error.h"

typedef struct ew_pattern ew_pattern;

enum { EW_PATTERN_MAX_LENGTH = 8192 }; /* bytes of a pattern */

/* GPT-2's pattern, which ByteLevel with use_regex means. */
extern const char ew_pattern_gpt2[];

/* Compiles a pattern, or with `literal` a text to be found as it stands. Errors: EW_ERROR_UNSUPPORTED for a
 * construct that is not translated, EW_ERROR_FORMAT for a pattern that is none, both quoting it. */
ew_status ew_pattern_compile(const char *pattern, size_t length, bool literal, ew_pattern **out,
                             ew_error *error);
void ew_pattern_free(ew_pattern *pattern); /* NULL is fine */

/* What one thread needs for matching; not shared between threads. Free with ew_matcher_free. */
typedef struct ew_matcher {
    void *context; /* PCRE2's; NULL before the first use */
    void *data;
} ew_matcher;
void ew_matcher_free(ew_matcher *matcher);

/* Iterates over the matches in `text`, which is well-formed UTF-8 below 2 GiB. Start from {0}. */
typedef struct ew_match_cursor {
    size_t from;     /* where to search next */
    size_t last_end; /* end of the last match */
    bool matched;    /* whether there was one */
} ew_match_cursor;

/* *found false: no more. An empty match at the end of the previous one is passed over, as Oniguruma's
 * iteration does. Errors: EW_ERROR_UNSUPPORTED when the match limit (in proportion to the text) is exceeded.
 */
ew_status ew_pattern_next(const ew_pattern *pattern, ew_matcher *matcher, const char *text, size_t length,
                          ew_match_cursor *cursor, bool *found, size_t *start, size_t *end, ew_error *error);

#endif
