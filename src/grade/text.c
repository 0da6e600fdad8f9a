#include "grade/text.h"

#include "grade/token.h"

#include <string.h>

bool ew_span_equal(ew_span a, ew_span b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.text, b.text, a.length) == 0);
}
bool ew_span_is(ew_span a, const char *text) {
    return ew_span_equal(a, ew_span_of(text, strlen(text)));
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static size_t strip_pair(ew_span *s, const char *open, const char *close) {
    size_t a = strlen(open), b = strlen(close);
    if (s->length >= a + b && memcmp(s->text, open, a) == 0 && memcmp(s->text + s->length - b, close, b) == 0) {
        s->text += a;
        s->length -= a + b;
        return a;
    }
    return 0;
}

/* How many unescaped `c`; three mean many. */
static size_t count_char(ew_span s, char c) {
    size_t n = 0;
    for (size_t i = 0; i < s.length && n < 3; i++) {
        n += s.text[i] == c && (i == 0 || s.text[i - 1] != '\\');
    }
    return n;
}

static bool strip_ends(ew_span *s) {
    size_t before = s->length;
    while (s->length && is_space(s->text[0])) {
        s->text++, s->length--;
    }
    while (s->length && (is_space(s->text[s->length - 1]) || s->text[s->length - 1] == ',' ||
                         s->text[s->length - 1] == ';' || s->text[s->length - 1] == ':')) {
        if (s->length > 1 && s->text[s->length - 2] == '\\') { /* "\ ", "\," and their like are commands */
            s->length--;
        }
        s->length--;
    }
    bool delimiter = s->length > 7 && memcmp(s->text + s->length - 7, "\\right.", 7) == 0;
    if (!delimiter && s->length > 1 && s->text[s->length - 1] == '.' && s->text[s->length - 2] != '.' &&
        s->text[s->length - 2] != '\\') {
        s->length--;
    }
    strip_pair(s, "$$", "$$");
    if (count_char(*s, '$') == 2) {
        strip_pair(s, "$", "$");
    }
    strip_pair(s, "\\(", "\\)");
    if (strip_pair(s, "\\[", "\\]") == 0 && s->length > 4) {
        strip_pair(s, "**", "**");
    }
    strip_pair(s, "`", "`");
    strip_pair(s, "\"", "\"");
    return s->length < before;
}

ew_span ew_trim_answer(const char *text, size_t length) {
    ew_span s = {text, length};
    for (int i = 0; i < 16 && strip_ends(&s); i++) {
    }
    return s;
}

/* Commands that only dress their argument or nothing at all. */
static bool is_dress(const char *name, size_t length) {
    static const char *const names[] = {"left",   "right",  "text",   "mbox",   "textbf",
                                        "textit", "textrm", "mathrm", "mathbf", "operatorname",
                                        "boxed",  "fbox",   "bold",   "emph",   "textnormal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            return true;
        }
    }
    const ew_word *word = ew_find_command(name, length);
    return word && word->type == T_END && !(length == 5 && memcmp(name, "angle", 5) == 0);
}

enum { DRESS_DEPTH = 64 };

typedef struct tightener {
    char *out;
    size_t used;
    int depth;
    bool dropped[DRESS_DEPTH]; /* by brace depth: the braces of \text{...} go with it */
    bool drop_next;
    bool gap; /* white space was just left out */
} tightener;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static size_t tighten_command(tightener *t, const char *text, size_t length) {
    size_t n = 1;
    while (n < length && is_letter(text[n])) {
        n++;
    }
    if (n == 1) { /* \, \! and spaces vanish; \{ \} \% \$ \\ stay */
        if (length > 1 && strchr("{}%\\#&_|", text[1])) {
            t->out[t->used++] = text[0];
            t->out[t->used++] = text[1];
        }
        t->gap = true;
        return length > 1 ? 2 : 1;
    }
    if (is_dress(text + 1, n - 1)) {
        size_t next = n;
        while (next < length && is_space(text[next])) {
            next++;
        }
        t->drop_next = next < length && text[next] == '{';
        return n;
    }
    if (n >= 5 && memcmp(text + n - 4, "dots", 4) == 0) { /* \ldots, \cdots, \dots */
        memcpy(t->out + t->used, "...", 3);
        t->used += 3;
        return n;
    }
    if (n == 6 && memcmp(text + 2, "frac", 4) == 0) { /* \dfrac, \tfrac, \cfrac */
        memcpy(t->out + t->used, "\\frac", 5);
        t->used += 5;
    } else {
        memcpy(t->out + t->used, text, n);
        t->used += n;
    }
    if (n < length && is_space(text[n])) {
        while (n < length && is_space(text[n])) {
            n++;
        }
        if (n < length && is_letter(text[n])) {
            t->out[t->used++] = ' '; /* \pi r and \pir differ */
        }
    }
    return n;
}

static void tighten_char(tightener *t, char c, char next) { /* next: the one after the next */
    if (is_space(c) || c == '$' || c == '~') {
        t->gap = true;
        return;
    }
    if (t->gap && is_digit(c) && t->used && is_digit(t->out[t->used - 1])) {
        t->out[t->used++] = ' '; /* 3 4 is not 34 */
    }
    t->gap = false;
    if (c == '{') {
        bool after_script = t->used && (t->out[t->used - 1] == '^' || t->out[t->used - 1] == '_');
        bool drop = t->drop_next || (after_script && next == '}'); /* x^{2} is x^2 */
        t->drop_next = false;
        if (t->depth < DRESS_DEPTH) {
            t->dropped[t->depth] = drop;
        } else {
            drop = false;
        }
        t->depth++;
        if (drop) {
            return;
        }
    } else if (c == '}' && t->depth > 0) {
        t->depth--;
        if (t->depth < DRESS_DEPTH && t->dropped[t->depth]) {
            return;
        }
    }
    t->out[t->used++] = c;
}

ew_span ew_text_tight(ew_work *work, const char *text, size_t length) {
    tightener t = {0};
    text = length <= EW_TEXT_LIMIT ? ew_to_ascii(work, text, &length) : NULL;
    t.out = text ? ew_work_allocate(work, length + 8) : NULL;
    if (!t.out || !ew_work_spend(work, (int64_t)(length / 4))) {
        return (ew_span){NULL, 0};
    }
    for (size_t i = 0; i < length;) {
        if (text[i] == '\\') {
            i += tighten_command(&t, text + i, length - i);
        } else {
            tighten_char(&t, text[i], i + 2 < length ? text[i + 2] : 0);
            i++;
        }
    }
    while (t.used > 1 && t.out[t.used - 1] == '.') {
        t.used--;
    }
    return (ew_span){t.out, t.used};
}

/* Copies a text command's argument without the command, so that words can be read through \text{...}. */
static size_t skip_dress(const char *text, size_t length) {
    size_t n = 1;
    while (n < length && is_letter(text[n])) {
        n++;
    }
    if (n == 1) {
        return length > 1 && strchr(" ,;:!$%", text[1]) ? 2 : 0;
    }
    return is_dress(text + 1, n - 1) ? n : 0;
}

ew_span ew_text_words(ew_work *work, const char *text, size_t length) {
    text = length <= EW_TEXT_LIMIT ? ew_to_ascii(work, text, &length) : NULL;
    char *out = text ? ew_work_allocate(work, length + 1) : NULL;
    size_t used = 0;
    bool letters = false;
    if (!out || !ew_work_spend(work, (int64_t)(length / 4))) {
        return (ew_span){NULL, 0};
    }
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '\\') {
            size_t n = skip_dress(text + i, length - i);
            if (n == 0) {
                return (ew_span){out, 0};
            }
            i += n - 1;
            c = ' ';
        }
        if (is_letter(c) || (c & 0x80) || (c >= '0' && c <= '9')) {
            letters |= is_letter(c) || (c & 0x80);
            out[used++] = lower(c);
        } else if (c != '\'' && strchr(" \t\r\n\v\f,.;:!?()\"-{}$*&#_[]", c)) {
            if (used && out[used - 1] != ' ') {
                out[used++] = ' ';
            }
        } else if (c != '\'') {
            return (ew_span){out, 0};
        }
    }
    while (used && out[used - 1] == ' ') {
        used--;
    }
    if (!letters) {
        used = 0;
    }
    ew_span words = {out, used};
    static const char *const articles[] = {"the ", "a ", "an "};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(articles[i]);
        if (words.length > n && memcmp(words.text, articles[i], n) == 0) {
            words.text += n;
            words.length -= n;
            break;
        }
    }
    return words;
}

bool ew_words_number(ew_span words, int64_t *value) {
    static const char *const small[] = {
        "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
        "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
    static const char *const tens[] = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
    int64_t total = 0, group = 0;
    size_t at = 0, known = 0;
    while (at < words.length) {
        size_t n = 0;
        while (at + n < words.length && words.text[at + n] != ' ') {
            n++;
        }
        ew_span word = {words.text + at, n};
        at += n + (at + n < words.length);
        int64_t add = -1;
        for (int i = 0; i < 20; i++) {
            add = ew_span_is(word, small[i]) ? i : add;
        }
        for (int i = 0; i < 8; i++) {
            add = ew_span_is(word, tens[i]) ? 20 + 10 * i : add;
        }
        if (add >= 0) {
            if (group % 100 != 0 && !(group % 10 == 0 && group % 100 >= 20 && add < 10)) {
                return false;
            }
            group += add;
        } else if (ew_span_is(word, "hundred") && group > 0 && group < 10) {
            group *= 100;
        } else if (ew_span_is(word, "thousand") && group > 0 && total == 0) {
            total = group * 1000;
            group = 0;
        } else if (!(ew_span_is(word, "and") && known)) {
            return false;
        }
        known++;
    }
    *value = total + group;
    return known > 0;
}
