#include "text/pattern_dialect.h"

#include <string.h>

typedef struct translation {
    const char *pattern;
    size_t length;
    size_t at;
    bool in_class;
    ew_buffer *out;
    ew_error *error;
} translation;

/* The white space and word characters of the two libraries differ (U+180E; marks, connectors, Latin-1's
 * superscripts and fractions): spell them out. */
static const char word_members[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
static const char hexadecimal_members[] = "0-9A-Fa-f";

static ew_status refuse(translation *t, size_t from, size_t length, const char *why) {
    size_t left = t->length - from;
    return ew_fail(t->error, EW_ERROR_UNSUPPORTED, "the pattern uses '%.*s' at byte %zu: %s",
                   (int)(length < left ? length : left), t->pattern + from, from, why);
}

static char peek(const translation *t, size_t ahead) {
    return t->at + ahead < t->length ? t->pattern[t->at + ahead] : '\0';
}

static void copy(translation *t, size_t length) {
    ew_buffer_append(t->out, t->pattern + t->at, length);
    t->at += length;
}

static void replace(translation *t, size_t length, const char *text) {
    ew_buffer_append_text(t->out, text);
    t->at += length;
}

static void replace_members(translation *t, const char *members) {
    if (t->in_class) {
        replace(t, 2, members);
    } else {
        ew_buffer_append_text(t->out, "[");
        replace(t, 2, members);
        ew_buffer_append_text(t->out, "]");
    }
}

/* \p{..}: general categories mean the same in both; any other name is taken as a script, which PCRE2 would
 * otherwise read as script extensions. */
static ew_status translate_property(translation *t) {
    const char *name = t->pattern + t->at + 3;
    const char *close = peek(t, 2) == '{' ? memchr(name, '}', t->length - t->at - 3) : NULL;
    if (!close) {
        return refuse(t, t->at, 3, "a property is written \\p{Name}");
    }
    size_t length = (size_t)(close - name);
    for (size_t i = 0; i < length; i++) {
        bool letter = (name[i] | 32) >= 'a' && (name[i] | 32) <= 'z';
        if (!letter && name[i] != '_' && !(i == 0 && name[i] == '^')) {
            return refuse(t, t->at, 4 + length, "a property has a plain name");
        }
    }
    size_t skip = name[0] == '^' ? 1 : 0;
    bool category = length - skip >= 1 && length - skip <= 2 && strchr("LMNPSZC", name[skip]) != NULL;
    if (category) {
        copy(t, 4 + length);
    } else {
        ew_buffer_append_format(t->out, "\\%c{%ssc:%.*s}", peek(t, 1), skip ? "^" : "", (int)(length - skip),
                                name + skip);
        t->at += 4 + length;
    }
    return EW_OK;
}

static bool is_hexadecimal(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static ew_status translate_number(translation *t) {
    size_t digits = 0;
    if (peek(t, 1) == 'x' && peek(t, 2) == '{') {
        while (is_hexadecimal(peek(t, 3 + digits))) {
            digits++;
        }
        if (digits >= 1 && digits <= 6 && peek(t, 3 + digits) == '}') {
            copy(t, 4 + digits);
            return EW_OK;
        }
        return refuse(t, t->at, 4 + digits, "a character is written \\x{1F600}");
    }
    size_t wanted = peek(t, 1) == 'x' ? 2 : 4;
    while (digits < wanted && is_hexadecimal(peek(t, 2 + digits))) {
        digits++;
    }
    if (digits < wanted) {
        return refuse(t, t->at, 2 + wanted, "a character is written \\x41, \\x{1F600} or \\u0041");
    }
    ew_buffer_append_format(t->out, "\\x{%.*s}", (int)digits, t->pattern + t->at + 2);
    t->at += 2 + digits;
    return EW_OK;
}

static ew_status translate_escape(translation *t) {
    char c = peek(t, 1);
    bool alphanumeric = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    if (t->at + 1 >= t->length || (!alphanumeric && (unsigned char)c >= 0x80)) {
        return refuse(t, t->at, 2, "a backslash stands before an ASCII character");
    }
    if (!alphanumeric || strchr("nrtfae", c)) {
        copy(t, 2);
        return EW_OK;
    }
    switch (c) {
    case 's':
        replace(t, 2, "\\p{White_Space}");
        return EW_OK;
    case 'S':
        replace(t, 2, "\\P{White_Space}");
        return EW_OK;
    case 'd':
        replace(t, 2, "\\p{Nd}");
        return EW_OK;
    case 'D':
        replace(t, 2, "\\P{Nd}");
        return EW_OK;
    case 'v':
        replace(t, 2, "\\x{0b}");
        return EW_OK;
    case 'w':
        replace_members(t, word_members);
        return EW_OK;
    case 'h':
        replace_members(t, hexadecimal_members);
        return EW_OK;
    case 'p':
    case 'P':
        return translate_property(t);
    case 'x':
    case 'u':
        return translate_number(t);
    case 'W':
        if (!t->in_class) {
            ew_buffer_append_format(t->out, "[^%s]", word_members);
            t->at += 2;
            return EW_OK;
        }
        break;
    case 'A':
    case 'z':
        if (!t->in_class) {
            copy(t, 2);
            return EW_OK;
        }
        break;
    default:
        break;
    }
    return refuse(t, t->at, 2, "this escape is not known");
}

static ew_status translate_in_class(translation *t) {
    char c = peek(t, 0);
    if (c == '\\') {
        return translate_escape(t);
    }
    if (c == '[') {
        return refuse(t, t->at, 8, "a class inside a class is not known");
    }
    if (c == '&' && peek(t, 1) == '&') {
        return refuse(t, t->at, 2, "an intersection of classes is not known");
    }
    t->in_class = c != ']';
    copy(t, 1);
    return EW_OK;
}

static ew_status open_class(translation *t) {
    copy(t, 1);
    if (peek(t, 0) == '^') {
        copy(t, 1);
    }
    if (peek(t, 0) == ']') {
        return refuse(t, t->at, 1, "a class does not begin with a bracket that closes it");
    }
    t->in_class = true;
    return EW_OK;
}

/* Groups: what means the same in both languages. A bare (?i) reaches to the end of the group and over its
 * alternatives in Ruby's syntax; at the very beginning PCRE2 agrees. */
static ew_status open_group(translation *t) {
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    if (peek(t, 1) == '*') {
        return refuse(t, t->at, 2, "a group does not begin with a star");
    }
    if (peek(t, 1) != '?') {
        copy(t, 1);
        return EW_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t length = strlen(known[i]);
        if (t->length - t->at >= length && memcmp(t->pattern + t->at, known[i], length) == 0) {
            copy(t, length);
            return EW_OK;
        }
    }
    if (t->at == 0 && t->length >= 4 && memcmp(t->pattern, "(?i)", 4) == 0) {
        copy(t, 4);
        return EW_OK;
    }
    return refuse(t, t->at, 5, "this kind of group is not known");
}

/* {n}, {n,}, {n,m}, {,m}; the last is literal text in PCRE2. Elsewhere a brace is literal in both. A plus
 * behind the interval is possessive in PCRE2 and a second repetition in Ruby's syntax, a question mark behind
 * {n} lazy or a second repetition. */
static ew_status translate_interval(translation *t) {
    size_t first = 0, second = 0, n = 1;
    while (peek(t, n) >= '0' && peek(t, n) <= '9') {
        n++, first++;
    }
    bool comma = peek(t, n) == ',';
    if (comma) {
        n++;
        while (peek(t, n) >= '0' && peek(t, n) <= '9') {
            n++, second++;
        }
    }
    if (peek(t, n) != '}' || first + second == 0) {
        replace(t, 1, "\\{");
        return EW_OK;
    }
    n++;
    if (peek(t, n) == '+' || (!comma && peek(t, n) == '?')) {
        return refuse(t, t->at, n + 1, "a repetition of a repetition is not known");
    }
    if (first == 0) {
        replace(t, 1, "{0");
        copy(t, n - 1);
    } else {
        copy(t, n);
    }
    return EW_OK;
}

ew_status ew_pattern_translate(const char *pattern, size_t length, ew_buffer *out, ew_error *error) {
    translation t = {pattern, length, 0, false, out, error};
    ew_status status = EW_OK;
    while (status == EW_OK && t.at < t.length) {
        char c = peek(&t, 0);
        if (t.in_class) {
            status = translate_in_class(&t);
        } else if (c == '\\') {
            status = translate_escape(&t);
        } else if (c == '[') {
            status = open_class(&t);
        } else if (c == '(') {
            status = open_group(&t);
        } else if (c == '{') {
            status = translate_interval(&t);
        } else {
            copy(&t, 1);
        }
    }
    if (status == EW_OK && out->failed) {
        return ew_fail_memory(error, length, "a pattern");
    }
    return status;
}
