#include "text/chat_literals.h"

#include <string.h>

typedef struct scanner {
    const char *text;
    size_t length;
    size_t at;
    bool gap; /* something else than a literal came since the last one */
} scanner;

static bool starts(const scanner *s, const char *word) {
    size_t n = strlen(word);
    return s->length - s->at >= n && memcmp(s->text + s->at, word, n) == 0;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* At a quote: the literal, escapes resolved, appended to `out` (which may be NULL); moves behind it. */
static void read_literal(scanner *s, ew_buffer *out) {
    char quote = s->text[s->at++];
    while (s->at < s->length && s->text[s->at] != quote) {
        char c = s->text[s->at++];
        if (c == '\\' && s->at < s->length) {
            char escaped = s->text[s->at++];
            c = escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped;
        }
        if (out) {
            ew_buffer_append(out, &c, 1);
        }
    }
    s->at += s->at < s->length;
}

static void mark_gap(scanner *s, ew_buffer *out) {
    if (s->gap) {
        ew_buffer_append(out, "", 1);
    }
    s->gap = false;
}

/* The inside of {{ }} or {% %}. */
static void read_code(scanner *s, const char *close, ew_buffer *out) {
    s->gap = true; /* a block of its own: what it writes need not follow what was written before */
    while (s->at < s->length && !starts(s, close)) {
        char c = s->text[s->at];
        if (c == '\'' || c == '"') {
            mark_gap(s, out);
            read_literal(s, out);
            continue;
        }
        s->gap |= !is_blank(c) && c != '+' && c != '~';
        s->at++;
    }
    s->gap = true;
    s->at += s->at < s->length ? strlen(close) : 0;
}

static void skip_comment(scanner *s) {
    while (s->at < s->length && !starts(s, "#}")) {
        s->at++;
    }
    s->at += s->at < s->length ? 2 : 0;
}

static void read_outside(scanner *s, ew_buffer *out) {
    size_t begin = s->at;
    bool blank = true;
    while (s->at < s->length && !starts(s, "{{") && !starts(s, "{%") && !starts(s, "{#")) {
        blank &= is_blank(s->text[s->at]);
        s->at++;
    }
    if (!blank) {
        mark_gap(s, out);
        ew_buffer_append(out, s->text + begin, s->at - begin);
        s->gap = true;
    }
}

void ew_chat_literals(ew_string template, ew_buffer *out) {
    scanner s = {template.data, template.length, 0, false};
    while (s.at < s.length) {
        if (starts(&s, "{#")) {
            skip_comment(&s);
        } else if (starts(&s, "{{") || starts(&s, "{%")) {
            const char *close = s.text[s.at + 1] == '{' ? "}}" : "%}";
            s.at += 2;
            read_code(&s, close, out);
        } else {
            read_outside(&s, out);
        }
    }
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

bool ew_chat_assigned_system(ew_string template, ew_buffer *out) {
    static const char word[] = "system";
    scanner s = {template.data, template.length, 0, false};
    while (s.at < s.length) {
        if (!starts(&s, word)) {
            s.at++;
            continue;
        }
        while (s.at < s.length && is_name(s.text[s.at])) {
            s.at++;
        }
        while (s.at < s.length && is_blank(s.text[s.at])) {
            s.at++;
        }
        if (!starts(&s, "=") || starts(&s, "==")) {
            continue;
        }
        s.at++;
        while (s.at < s.length && is_blank(s.text[s.at])) {
            s.at++;
        }
        if (starts(&s, "'") || starts(&s, "\"")) {
            size_t before = out->length;
            read_literal(&s, out);
            if (out->length > before) {
                return true;
            }
        }
    }
    return false;
}
