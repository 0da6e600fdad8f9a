/* The final answer of a reply: its last box outside the thinking, or what follows the last of the usual
 * phrases. */
#include "grade/grade.h"
#include "grade/text.h"

#include <string.h>

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool at_text(const char *at, const char *end, const char *text) {
    size_t n = strlen(text);
    return (size_t)(end - at) >= n && memcmp(at, text, n) == 0;
}

static bool at_word(const char *at, const char *end, const char *word) { /* case-insensitive; word is lower case */
    size_t n = strlen(word);
    if ((size_t)(end - at) < n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char c = at[i] >= 'A' && at[i] <= 'Z' ? (char)(at[i] | 0x20) : at[i];
        if (c != word[i]) {
            return false;
        }
    }
    return true;
}

static const char *find(const char *at, const char *end, const char *text) {
    return at < end ? memmem(at, (size_t)(end - at), text, strlen(text)) : NULL;
}

/* ---- The thinking ---- */

/* What follows the last finished thinking block, up to the next one that is never finished. */
static ew_span outside_thinking(const char *text, size_t length) {
    const char *end = text + length, *start = text, *open = NULL;
    for (const char *at = text; at < end;) {
        const char *tag = memchr(at, '<', (size_t)(end - at));
        if (!tag) {
            break;
        }
        if (at_text(tag, end, "</think>")) { /* without an opening tag, too: the template may have written that */
            start = tag + 8;
            open = NULL;
        } else if (!open && at_text(tag, end, "<think>")) {
            open = tag;
        }
        at = tag + 1;
    }
    if (open) {
        end = open;
    }
    return ew_span_of(start, (size_t)(end - start));
}

/* ---- Boxes ---- */

typedef struct box {
    const char *command, *end; /* from the backslash to behind the closing brace */
    ew_span inside;
} box;

/* The box whose command of `n` bytes stands at `at`; false when its braces never close or nothing is in it.
 */
static bool read_box(const char *at, size_t n, const char *end, box *result) {
    const char *p = at + n;
    size_t depth = 0;
    while (p < end && is_space(*p)) {
        p++;
    }
    result->command = at;
    if (p >= end || *p != '{') { /* \boxed 5 */
        const char *start = p;
        while (p < end && !is_space(*p) && !strchr("$,;", *p)) {
            p++;
        }
        while (p > start && p[-1] == '.') {
            p--;
        }
        result->inside = ew_span_of(start, (size_t)(p - start));
        result->end = p;
        return p > start && p > at + n && !is_letter(at[n]);
    }
    for (const char *start = p; p < end; p++) {
        if (*p == '\\' && p + 1 < end) {
            p++;
        } else if (*p == '{') {
            depth++;
        } else if (*p == '}' && --depth == 0) {
            result->inside = ew_trim_answer(start + 1, (size_t)(p - start - 1));
            result->end = p + 1;
            return result->inside.length > 0;
        }
    }
    return false;
}

/* Length of the box command at `at`, 0 if there is none. */
static size_t box_command(const char *at, const char *end) {
    if (end - at < 5 || (at[1] != 'b' && at[1] != 'f')) {
        return 0;
    }
    return at_text(at, end, "\\boxed") ? 6 : at_text(at, end, "\\fbox") ? 5 : at_text(at, end, "\\framebox") ? 9 : 0;
}

enum { UNCLOSED_LIMIT = 64 }; /* a reply of endless open boxes costs this many scans, not its square */

/* The last readable box before `end` that is not inside another. */
static bool last_box(ew_span text, const char *end, box *result) {
    const char *limit = text.text + text.length;
    int tries = 0;
    bool found = false;
    for (const char *at = end; at > text.text && tries < UNCLOSED_LIMIT;) {
        box candidate;
        size_t n = *--at == '\\' ? box_command(at, limit) : 0;
        if (n && read_box(at, n, limit, &candidate)) {
            if (found && candidate.end < result->end) {
                break; /* a box before the one we have */
            }
            *result = candidate; /* the first found, or one around it */
            found = true;
        }
        tries += n > 0;
    }
    return found;
}

/* "x =", "y_1 = ": moves *next behind it. */
static bool is_assignment(const char *at, const char *end, const char **next) {
    if (!is_letter(*at)) {
        return false;
    }
    for (at++; at < end && (*at == '_' || is_digit(*at) || is_space(*at)); at++) {
    }
    *next = at < end && *at == '=' ? at + 1 : *next;
    return at < end && *at == '=';
}

/* Nothing but separators and dress between two boxes: both are parts of one answer. */
static bool only_separators(const char *at, const char *end) {
    while (at < end) {
        if (at_word(at, end, "and")) {
            at += 3;
        } else if (at_word(at, end, "or")) {
            at += 2;
        } else if (is_assignment(at, end, &at)) {
            continue;
        } else if (at_text(at, end, "\\text") || at_text(at, end, "\\quad")) {
            at += 5;
        } else if (is_space(*at) || strchr(",;${}\\()[]&*", *at)) {
            at++;
        } else {
            return false;
        }
    }
    return true;
}

static ew_extract found(ew_span answer) {
    return (ew_extract){answer.text, answer.length, answer.length > 0};
}

static ew_extract boxed(ew_span text, ew_grade_task task) {
    box last, before;
    if (!last_box(text, text.text + text.length, &last)) {
        return (ew_extract){0};
    }
    ew_span answer = last.inside;
    const char *start = last.command;
    for (int i = 0; task == EW_TASK_LIST && i < UNCLOSED_LIMIT && last_box(text, start, &before) &&
                    before.end <= start && only_separators(before.end, start);
         i++) {
        start = before.command;
        answer = ew_span_of(start, (size_t)(last.end - start));
    }
    return found(answer);
}

/* ---- Phrases ---- */

static const char *skip_dress(const char *at, const char *end) {
    while (at < end && (is_space(*at) || *at == '*' || *at == '_' || *at == '#')) {
        if (*at == '\n') {
            break;
        }
        at++;
    }
    return at;
}

/* Where the answer starts behind "answer", or NULL when no verb or colon follows. */
static const char *behind_answer(const char *at, const char *end) {
    static const char *const verbs[] = {"is", "was", "are", "should be", "would be", "must be", "will be", "=", ":"};
    at = skip_dress(at + (at < end && *at == 's'), end); /* answers are */
    if (at < end && *at == '(') {                        /* Answer (in cm): */
        const char *close = memchr(at, ')', (size_t)(end - at) < 40 ? (size_t)(end - at) : 40);
        at = close ? skip_dress(close + 1, end) : at;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        size_t n = strlen(verbs[i]);
        if (at_word(at, end, verbs[i]) && (!is_letter(verbs[i][0]) || at + n == end || !is_letter(at[n]))) {
            at = skip_dress(at + n, end);
            if (at < end && *at == ':') {
                at = skip_dress(at + 1, end);
            }
            static const char *const fillers[] = {"therefore ", "thus ", "simply ",   "just ",  "option ",
                                                  "choice ",    "then ", "equal to ", "indeed "};
            for (size_t j = 0; j < sizeof fillers / sizeof *fillers; j++) {
                at += at_word(at, end, fillers[j]) ? strlen(fillers[j]) : 0;
            }
            return at;
        }
    }
    return NULL;
}

/* The end of the answer that starts at `at`: of its mathematics, its sentence or its line. */
static ew_span until_end(const char *at, const char *end) {
    const char *p = at;
    static const char *const pairs[][2] = {{"$$", "$$"}, {"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}};
    while (at < end && is_space(*at)) { /* the next line when this one is empty */
        p = ++at;
    }
    for (size_t i = 0; i < 4; i++) {
        size_t n = strlen(pairs[i][0]);
        if (at_text(at, end, pairs[i][0]) &&
            !(i == 1 && at + 1 < end && is_digit(at[1]) && !memchr(at + 1, '$', (size_t)(end - at - 1)))) {
            const char *close = find(at + n, end, pairs[i][1]);
            const char *line = memchr(at, '\n', (size_t)(end - at));
            if (close && (i != 1 || !line || close < line)) {
                const char *behind = close + n;
                /* "$3$ and $5$" goes on; "$5$ meters." ends with the sentence */
                if (behind < end &&
                    (at_word(behind, end, " and $") || at_word(behind, end, " or $") || at_word(behind, end, ", $"))) {
                    break;
                }
                return ew_trim_answer(at, (size_t)(behind - at));
            }
        }
    }
    for (p = at; p < end && *p != '\n'; p++) {
        bool stop = *p == '.' && (p + 1 == end || is_space(p[1]) || p[1] == '*' || p[1] == '<' || p[1] == '\\') &&
                    !(p > at && p[-1] == '.');
        if ((stop && !(p + 1 < end && p[1] == '.')) || at_text(p, end, "<|") || at_text(p, end, "</answer>")) {
            break;
        }
    }
    ew_span line = ew_trim_answer(at, (size_t)(p - at));
    while (line.length > 1 && line.text[line.length - 1] == '*') {
        line.length--;
    }
    while (line.length > 1 && line.text[0] == '*') {
        line.text++, line.length--;
    }
    return ew_trim_answer(line.text, line.length);
}

/* Behind the last "answer is", "Answer:" and their like; `rest` is the word without its first letter, in one
 * case. */
static const char *last_answer(ew_span text, const char *rest) {
    const char *end = text.text + text.length, *start = NULL;
    for (const char *at = text.text; (at = find(at, end, rest)) != NULL; at += 5) {
        bool whole = at > text.text && (at[-1] == 'a' || at[-1] == 'A') && !(at - 1 > text.text && is_letter(at[-2]));
        const char *behind = whole ? behind_answer(at + 5, end) : NULL;
        if (whole && !behind && at - text.text > 6 && at_word(at - 7, end, "final ")) { /* a heading: Final Answer */
            const char *line = skip_dress(at + 5, end);
            behind = line < end && *line == '\n' ? line : NULL;
        }
        start = behind ? behind : start;
    }
    return start;
}

static ew_extract phrase(ew_span text) {
    const char *end = text.text + text.length;
    const char *hashes = NULL, *tag = NULL, *start;
    for (const char *at = text.text; (at = find(at, end, "####")) != NULL; at += 4) {
        hashes = at + 4;
    }
    for (const char *at = text.text; (at = find(at, end, "<answer>")) != NULL; at += 8) {
        tag = at + 8;
    }
    start = last_answer(text, "nswer");
    const char *loud = last_answer(text, "NSWER");
    start = loud && (!start || loud > start) ? loud : start;
    if (hashes && (!start || hashes > start)) {
        start = hashes;
    }
    start = tag && (!start || tag > start) ? tag : start;
    ew_span answer = start ? until_end(start, end) : ew_span_of(NULL, 0);
    bool empty_box = answer.length >= 8 && memcmp(answer.text, "\\boxed{}", 8) == 0;
    return empty_box ? (ew_extract){0} : found(answer);
}

/* ---- Choices ---- */

/* A letter A-J that stands alone at `at`, in its dress: "A", "(A)", "**A.**", "\text{A}", "A) 12". 0 if none.
 */
static char lone_letter(const char *at, const char *end, const char **where) {
    while (at < end) {
        if (is_space(*at) || strchr("(*[_{$\"'`", *at)) {
            at++;
        } else if (*at == '\\' && at + 1 < end && is_letter(at[1])) {
            for (at++; at < end && is_letter(*at); at++) {
            }
        } else if (*at == '\\' && at + 1 < end) {
            at += 2;
        } else if (at_word(at, end, "option ") || at_word(at, end, "choice ") || at_word(at, end, "answer ")) {
            at += 7;
            at += at_word(at, end, "is ") ? 3 : 0;
        } else if (at_word(at, end, "option:") || at_word(at, end, "choice:")) {
            at += 7;
        } else {
            break;
        }
    }
    if (at >= end || *at < 'A' || *at > 'J') {
        return 0;
    }
    const char *next = at + 1;
    *where = at;
    if (next < end &&
        (is_letter(*next) || is_digit(*next) || *next == '_' || *next == '^' || *next == '\'' || (*next & 0x80))) {
        return 0;
    }
    while (next < end && (is_space(*next) || strchr("*)]}$\\_", *next))) {
        next++;
    }
    if (next < end && strchr("=+<>-/&", *next)) {
        return 0; /* A = 5 is no choice */
    }
    /* "A man ...", "I think ..." are sentences, "A or B" two answers */
    bool prose = next < end && is_letter(*next) && next - at > 1 && (*at == 'A' || *at == 'I') && is_space(at[1]) &&
                 !at_word(next, end, "because") && !at_word(next, end, "is") && !at_word(next, end, "since");
    bool two = at_word(next, end, "or ") || at_word(next, end, "and ") ||
               (next < end && *next == ',' && next + 2 < end && next[2] >= 'A' && next[2] <= 'J' &&
                !(next + 3 < end && is_letter(next[3])));
    return prose || two ? 0 : *at;
}

/* The last line of the text that is nothing but a letter in its dress, or "option B" anywhere, the last of
 * them. */
static ew_extract bare_choice(ew_span text) {
    const char *end = text.text + text.length, *where;
    ew_span trimmed = ew_trim_answer(text.text, text.length);
    if (trimmed.length == 0) {
        return (ew_extract){0};
    }
    const char *line = memrchr(trimmed.text, '\n', trimmed.length);
    line = line ? line + 1 : trimmed.text;
    const char *line_end = trimmed.text + trimmed.length;
    if ((line == trimmed.text || line_end - line < 12) && lone_letter(line, line_end, &where)) {
        return found(ew_span_of(line, (size_t)(line_end - line)));
    }
    const char *last = NULL;
    for (const char *at = text.text; at < end; at++) {
        if ((*at == 'o' || *at == 'O' || *at == 'c' || *at == 'C') &&
            (at_word(at, end, "option") || at_word(at, end, "choice")) && lone_letter(at, end, &where)) {
            last = where;
        }
    }
    return last ? found(ew_span_of(last, 1)) : (ew_extract){0};
}

/* ---- All together ---- */

/* A reply that is one short line of mathematics and nothing else is its own answer. */
static ew_extract whole(ew_span text) {
    ew_span answer = ew_trim_answer(text.text, text.length);
    size_t letters = 0, run = 0;
    if (answer.length == 0 || answer.length > 200 || memchr(answer.text, '\n', answer.length)) {
        return (ew_extract){0};
    }
    for (size_t i = 0; i < answer.length; i++) {
        bool command = answer.text[i] == '\\';
        if (command) {
            while (i + 1 < answer.length && is_letter(answer.text[i + 1])) {
                i++;
            }
        }
        run = !command && is_letter(answer.text[i]) ? run + 1 : 0;
        letters = run > letters ? run : letters;
    }
    return letters >= 4 ? (ew_extract){0} : found(answer);
}

ew_extract ew_extract_answer(const char *reply, size_t length, ew_grade_task task) {
    ew_span text = outside_thinking(reply, length);
    ew_extract answer = boxed(text, task);
    if (!answer.found) {
        answer = phrase(text);
    }
    if (!answer.found && task == EW_TASK_CHOICE) {
        answer = bare_choice(text);
    }
    return answer.found ? answer : whole(text);
}

ew_extract ew_extract_bare(const char *answer, size_t length, ew_grade_task task) {
    ew_span text = ew_trim_answer(answer, length);
    ew_extract inside = boxed(text, task);
    if (!inside.found) {
        inside = phrase(text);
    }
    return inside.found ? inside : found(text);
}

char ew_choice_letter(const char *answer, size_t length) {
    const char *where;
    return lone_letter(answer, answer + length, &where);
}
