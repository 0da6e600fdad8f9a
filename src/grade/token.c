#include "grade/token.h"
#include "grade/units.h"

#include <string.h>

enum { TOKENS_LIMIT = 20000, /* bytes */ SPLICE_DEPTH = 4 };

typedef struct lexer {
    ew_work *work;
    const char *at, *end;
    ew_token *tokens;
    size_t count, capacity;
    int brackets; /* open ( [ \{: a comma inside separates, it never groups digits */
    int splices;
    char *digits; /* room for the digits of every number in the text */
    bool space;
    bool grouping;
    bool failed;
} lexer;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static char peek(const lexer *lex, size_t ahead) {
    return (size_t)(lex->end - lex->at) > ahead ? lex->at[ahead] : 0;
}

static bool starts(const lexer *lex, const char *text) {
    size_t n = strlen(text);
    return (size_t)(lex->end - lex->at) >= n && memcmp(lex->at, text, n) == 0;
}

static ew_token *push(lexer *lex, ew_token_type type, uint8_t id, const char *text, size_t length) {
    if (lex->count == lex->capacity) {
        size_t capacity = lex->capacity ? lex->capacity * 2 : 32;
        ew_token *grown = ew_work_allocate(lex->work, capacity * sizeof *grown);
        if (!grown) {
            lex->failed = true;
            return NULL;
        }
        if (lex->count) {
            memcpy(grown, lex->tokens, lex->count * sizeof *grown);
        }
        lex->tokens = grown;
        lex->capacity = capacity;
    }
    ew_token *token = &lex->tokens[lex->count++];
    *token = (ew_token){.type = (uint8_t)type, .id = id, .space = lex->space, .text = text, .length = length};
    lex->space = false;
    return token;
}

static uint8_t last_type(const lexer *lex) {
    return lex->count ? lex->tokens[lex->count - 1].type : T_END;
}

/* ---- Numbers ---- */

static size_t digits_at(const char *at, const char *end) {
    size_t n = 0;
    while (at + n < end && is_digit(at[n])) {
        n++;
    }
    return n;
}

/* The length of a thousands separator at lex->at that is followed by exactly three digits, or 0. */
static size_t separator(const lexer *lex) {
    static const char *const forms[] = {"{,}", ",\\!", "\\,", "\\!", ",", "\\ ", "~", " "};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(forms[i]);
        if (!starts(lex, forms[i]) || (i == 4 && (lex->brackets > 0 || !lex->grouping))) {
            continue;
        }
        if (i <= 1) { /* LaTeX writes space after these at will */
            while (lex->at + n < lex->end && is_space(lex->at[n])) {
                n++;
            }
        }
        const char *digits = lex->at + n;
        if (digits_at(digits, lex->end) == 3 && !(digits + 3 < lex->end && digits[3] == '/')) {
            return n;
        }
    }
    return 0;
}

static bool copy_digits(lexer *lex, char *out, size_t *used) {
    size_t n = digits_at(lex->at, lex->end);
    memcpy(out + *used, lex->at, n);
    *used += n;
    lex->at += n;
    return n > 0;
}

/* A repeating tail behind the decimal point: \overline{36}, (36), or 0.3636... guessed from what is written.
 */
static size_t repeating(lexer *lex, char *out, size_t *used, size_t fraction) {
    static const char *const forms[] = {"\\overline{", "\\bar{", "\\dot{", "\\overline ", "\\bar ", "("};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(forms[i]), digits;
        if (!starts(lex, forms[i])) {
            continue;
        }
        digits = digits_at(lex->at + n, lex->end);
        bool braced = i < 3 || i == 5;
        if (digits == 0 || digits > 1000 ||
            (braced && (lex->at + n + digits >= lex->end || lex->at[n + digits] != (i < 3 ? '}' : ')')))) {
            continue;
        }
        digits = braced ? digits : 1;
        memcpy(out + *used, lex->at + n, digits);
        *used += digits;
        lex->at += n + digits + braced;
        return digits;
    }
    size_t dots = starts(lex, "...")                                 ? 3
                  : starts(lex, "\\ldots") || starts(lex, "\\cdots") ? 6
                  : starts(lex, "\\dots")                            ? 5
                                                                     : 0;
    const char *tail = out + *used;
    for (size_t period = 1; dots && period <= 60 && period * 2 <= fraction; period++) {
        size_t times = period == 1 ? 3 : 2;
        if (fraction >= period * times && memcmp(tail - period, tail - 2 * period, period) == 0 &&
            (times == 2 || tail[-1] == tail[-3])) {
            lex->at += dots;
            return period;
        }
    }
    return 0;
}

/* e12, E-5 right behind the digits; 2e, 2e-1 and 3e+2 stay products of Euler's number. */
static bool exponent(lexer *lex, bool point, const char *mantissa, size_t n, int32_t *value) {
    char e = peek(lex, 0), sign = peek(lex, 1);
    size_t skip = sign == '-' || sign == '+' ? 2 : 1;
    size_t digits = (size_t)(lex->end - lex->at) > skip ? digits_at(lex->at + skip, lex->end) : 0;
    bool certain = e == 'E' || point || skip == 1 || digits > 1 || (n == 1 && mantissa[0] == '1');
    if ((e != 'e' && e != 'E') || digits == 0 || digits > 6 || !certain) {
        return false;
    }
    *value = 0;
    for (size_t i = 0; i < digits; i++) {
        *value = *value * 10 + (lex->at[skip + i] - '0');
    }
    *value = sign == '-' ? -*value : *value;
    lex->at += skip + digits;
    return true;
}

static void lex_number(lexer *lex) {
    char *out = lex->digits;
    size_t used = 0, n, fraction = 0, repeat = 0;
    int32_t power = 0;
    bool point = false;
    if (copy_digits(lex, out, &used) && used <= 3) {
        while ((n = separator(lex)) > 0) {
            lex->at += n;
            copy_digits(lex, out, &used);
        }
    }
    if (peek(lex, 0) == '.' && !(peek(lex, 1) == '.')) {
        lex->at++;
        point = true;
        out[used++] = '.';
        size_t before = used;
        copy_digits(lex, out, &used);
        fraction = used - before;
        repeat = repeating(lex, out, &used, fraction);
    } else if (starts(lex, "{.}") && is_digit(peek(lex, 3))) {
        lex->at += 3;
        point = true;
        out[used++] = '.';
        copy_digits(lex, out, &used);
    }
    exponent(lex, point, out, used, &power);
    lex->digits += used;
    ew_token *token = push(lex, T_NUMBER, 0, out, used);
    if (token) {
        token->exponent = power;
        token->repeat = (uint16_t)repeat;
        token->plain = point;
    }
}

/* 52_8, 4210_{5}, 1A_{16}: digits (letters among them) that a subscript follows. */
static bool lex_based(lexer *lex) {
    size_t n = 0;
    bool wrapped = peek(lex, 0) == '(';
    const char *digits = lex->at + wrapped;
    while (digits + n < lex->end && (is_digit(digits[n]) || (digits[n] >= 'A' && digits[n] <= 'F'))) {
        n++;
    }
    const char *behind = digits + n;
    if (n == 0 || n > 4000 || (wrapped && (behind >= lex->end || *behind++ != ')')) || behind >= lex->end ||
        *behind != '_' || (!is_digit(digits[0]) && n < 2)) {
        return false;
    }
    bool letters = false;
    for (size_t i = 0; i < n; i++) {
        letters |= !is_digit(digits[i]);
    }
    if (letters && !(behind + 1 < lex->end && (behind[1] == '{' || behind[1] == '1'))) {
        return false;
    }
    push(lex, T_BASED, 0, digits, n);
    lex->at = behind;
    return true;
}

/* ---- Words and commands ---- */

static void lex_range(lexer *lex, const char *text, size_t length);

static size_t trim(const char **text, size_t length) {
    while (length && (is_space((*text)[0]) || (*text)[0] == '~')) {
        ++*text, length--;
    }
    while (length && (is_space((*text)[length - 1]) || (*text)[length - 1] == '~')) {
        length--;
    }
    return length;
}

static bool same_word(const char *text, size_t length, const char *word) {
    size_t n = strlen(word);
    if (n != length) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if ((text[i] | 0x20) != word[i]) {
            return false;
        }
    }
    return true;
}

/* The length of a separator between words at text[i]: ", and ", " and ", ", "; 0 if none is there. */
static size_t word_separator(const char *text, size_t length, bool *and) {
    static const char *const forms[] = {", and ", " and ", ", ", ","};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(forms[i]);
        if (length > n && memcmp(text, forms[i], n) == 0) {
            *and = i < 2;
            return n;
        }
    }
    return 0;
}

/* \text{Alice, Bob and Eve}: three texts and what separates them. */
static void push_words(lexer *lex, const char *text, size_t length) {
    size_t start = 0;
    bool and;
    for (size_t i = 1; i < length;) {
        size_t n = word_separator(text + i, length - i, &and);
        if (n == 0) {
            i++;
            continue;
        }
        push(lex, T_TEXT, 0, text + start, i - start);
        push(lex, and? T_AND : T_COMMA, 0, text + i, n);
        i += n;
        start = i;
    }
    push(lex, T_TEXT, 0, text + start, length - start);
}

/* The inside of \text{...}: a separator, mathematics to read on, or words. */
static void push_text(lexer *lex, const char *text, size_t length) {
    length = trim(&text, length);
    bool letters = false, digits = false, spaces = false;
    for (size_t i = 0; i < length; i++) {
        letters |= is_letter(text[i]) || (text[i] & 0x80);
        digits |= is_digit(text[i]) || text[i] == '$' || text[i] == '\\';
        spaces |= is_space(text[i]);
    }
    if (length == 0) {
        lex->space = true;
    } else if (same_word(text, length, "and") || same_word(text, length, ", and")) {
        push(lex, T_AND, 0, text, length);
    } else if (same_word(text, length, "or") || same_word(text, length, ", or")) {
        push(lex, T_OR, 0, text, length);
    } else if (lex->splices < SPLICE_DEPTH && !ew_is_unit(text, length) &&
               ((digits && !spaces) || (!letters && !spaces) ||
                (length == 1 && (last_type(lex) != T_NUMBER || text[0] == 'i' || text[0] == 'e')) ||
                (digits && is_digit(text[0])) || (!spaces && ew_find_word(text, length)))) {
        lex->splices++;
        lex_range(lex, text, length);
        lex->splices--;
    } else if (digits) {
        push(lex, T_TEXT, 0, text, length);
    } else {
        push_words(lex, text, length);
    }
}

/* The balanced {...} at lex->at (spaces allowed before it); moves behind it. */
static bool braced(lexer *lex, const char **text, size_t *length) {
    while (is_space(peek(lex, 0))) {
        lex->at++;
    }
    if (peek(lex, 0) != '{') {
        return false;
    }
    size_t depth = 0;
    for (const char *p = lex->at; p < lex->end; p++) {
        if (*p == '\\' && p + 1 < lex->end) {
            p++;
        } else if (*p == '{') {
            depth++;
        } else if (*p == '}' && --depth == 0) {
            *text = lex->at + 1;
            *length = (size_t)(p - lex->at - 1);
            lex->at = p + 1;
            return ew_work_spend(lex->work, (int64_t)*length + 1);
        }
    }
    ew_work_spend(lex->work, lex->end - lex->at);
    return false;
}

static bool is_text_command(const char *name, size_t length) {
    static const char *const names[] = {"text",   "mbox",       "textbf",       "textit", "textrm",
                                        "mathrm", "textsf",     "texttt",       "mathsf", "mathtt",
                                        "hbox",   "textnormal", "operatorname", "emph",   "rm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* \operatorname{lcm} and \mathrm{sin} are functions, \text{...} is text. */
static bool lex_text_command(lexer *lex, const char *name, size_t length) {
    const char *text;
    size_t n;
    if (length && name[length - 1] == '*') {
        length--;
    }
    if (!is_text_command(name, length)) {
        return false;
    }
    if (peek(lex, 0) == '*') {
        lex->at++;
    }
    if (!braced(lex, &text, &n)) {
        return length == 2; /* {\rm ...} is a switch; any other needs its braces */
    }
    const char *word = text;
    size_t word_length = trim(&word, n), figures = 0;
    while (figures < word_length && (is_digit(word[figures]) || (word[figures] >= 'A' && word[figures] <= 'F'))) {
        figures++;
    }
    if (peek(lex, 0) == '_' && figures == word_length && figures > 0 && is_digit(word[0])) { /* \text{1A}_{16} */
        push(lex, T_BASED, 0, word, figures);
        return true;
    }
    const ew_word *function = ew_find_command(word, word_length);
    if (function && function->type == T_FUNCTION) {
        push(lex, T_FUNCTION, function->id, word, word_length);
    } else {
        push_text(lex, text, n);
    }
    return true;
}

static void lex_blackboard(lexer *lex) {
    const char *text;
    size_t n;
    if (braced(lex, &text, &n) || (is_letter(peek(lex, 0)) && (text = lex->at, n = 1, lex->at++, true))) {
        n = trim(&text, n);
        if (n == 1 && *text == 'R') {
            push(lex, T_CONSTANT, EW_REALS, text, n);
        } else {
            char *name = ew_work_allocate(lex->work, n + 2);
            if (name) {
                memcpy(name, "bb", 2);
                memcpy(name + 2, text, n);
                push(lex, T_NAME, 0, name, n + 2);
            } else {
                lex->failed = true;
            }
        }
    }
}

/* \left and \right: what they make big is a plain bracket, except the bars, which get a side. */
static void lex_sided(lexer *lex, bool left) {
    while (is_space(peek(lex, 0))) {
        lex->at++;
    }
    if (peek(lex, 0) == '.') {
        lex->at++;
    } else if (peek(lex, 0) == '|' || starts(lex, "\\vert") || starts(lex, "\\|")) {
        lex->at += peek(lex, 0) == '|' ? 1 : starts(lex, "\\|") ? 2 : 5;
        push(lex, left ? T_ABS : T_ABS_END, 0, "|", 1);
    } else if (peek(lex, 0) == '<' || peek(lex, 0) == '>') {
        push(lex, left ? T_OPEN : T_CLOSE, (uint8_t)*lex->at, lex->at, 1);
        lex->at++;
    }
}

static const char *usual_name(const char *name, size_t *length) {
    if (*length > 3 && memcmp(name, "var", 3) == 0) {
        *length -= 3;
        return name + 3;
    }
    return name;
}

static void skip_argument(lexer *lex) {
    const char *text;
    size_t n;
    braced(lex, &text, &n);
}

static void push_word(lexer *lex, const ew_word *word, const char *name, size_t length) {
    if (word->type == T_FUNCTION && word->id == 255) { /* lg: base 10 */
        push(lex, T_FUNCTION, EW_LOG, name, length);
        push(lex, T_SUBSCRIPT, 0, "_", 1);
        push(lex, T_NUMBER, 0, "10", 2);
    } else if (word->type == T_CUBE_ROOT) {
        push(lex, T_SQRT, 0, name, length);
        push(lex, T_OPEN, '[', "[", 1);
        push(lex, T_NUMBER, 0, "3", 1);
        push(lex, T_CLOSE, ']', "]", 1);
    } else if (word->type == T_NAME) {
        name = usual_name(name, &length);
        push(lex, T_NAME, 0, name, length);
    } else {
        push(lex, (ew_token_type)word->type, word->id, name, length);
    }
}

static void lex_command_name(lexer *lex) {
    const char *name = lex->at, *text;
    size_t length = 0, n;
    while (lex->at + length < lex->end && is_letter(name[length])) {
        length++;
    }
    lex->at += length;
    if ((length == 4 && memcmp(name, "left", 4) == 0) || (length == 5 && memcmp(name, "right", 5) == 0)) {
        lex_sided(lex, length == 4);
        return;
    }
    if (lex_text_command(lex, name, length)) {
        return;
    }
    if (length == 6 && memcmp(name, "mathbb", 6) == 0) {
        lex_blackboard(lex);
        return;
    }
    bool color = length == 5 && memcmp(name, "color", 5) == 0;
    if (color || (length == 9 && memcmp(name, "textcolor", 9) == 0) ||
        (length == 6 && (memcmp(name, "hspace", 6) == 0 || memcmp(name, "vspace", 6) == 0)) ||
        (length == 8 && memcmp(name, "phantom", 7) == 0)) {
        skip_argument(lex);
        return;
    }
    if (length == 3 && memcmp(name, "not", 3) == 0 && peek(lex, 0) == '=') {
        lex->at++;
        push(lex, T_RELATION, 'n', name, length);
        return;
    }
    const ew_word *word = ew_find_command(name, length);
    if (!word) {
        push(lex, T_UNKNOWN, 0, name, length);
    } else if (word->type == T_BEGIN || word->type == T_FINISH) {
        if (braced(lex, &text, &n)) {
            push(lex, (ew_token_type)word->type, 0, text, n);
            if (word->type == T_BEGIN && n == 5 && memcmp(text, "array", 5) == 0) {
                skip_argument(lex);
            }
        } else {
            push(lex, T_UNKNOWN, 0, name, length);
        }
    } else if (word->type == T_END) {
        lex->space = true;
    } else {
        push_word(lex, word, name, length);
    }
}

static void lex_command(lexer *lex) {
    char next = peek(lex, 1);
    lex->at++;
    if (is_letter(next)) {
        lex_command_name(lex);
        return;
    }
    lex->at += next != 0;
    switch (next) {
    case '{':
        lex->brackets++, push(lex, T_SET, 0, "{", 1);
        break;
    case '}':
        lex->brackets--, push(lex, T_SET_END, 0, "}", 1);
        break;
    case '|':
        push(lex, T_BAR, 0, "|", 1);
        break;
    case '%':
        push(lex, T_PERCENT, 0, "%", 1);
        break;
    case '$':
        push(lex, T_MONEY, 0, "$", 1);
        break;
    case '\\':
        push(lex, T_ROW, 0, "\\\\", 2);
        break;
    case '&':
        push(lex, T_AND, 0, "&", 1);
        break;
    case '#':
    case '-':
    case '/':
        break;
    case '(':
    case ')':
    case '[':
    case ']': /* math delimiters left inside */
    default:
        lex->space = true;
        break; /* \, \; \: \! and "\ " */
    }
}

/* A run of letters in plain text: a word we know, a short product, or text. */
static void lex_letters(lexer *lex) {
    const char *name = lex->at;
    size_t n = 0;
    while (name + n < lex->end && (is_letter(name[n]) || (name[n] & 0x80))) {
        n++;
    }
    const ew_word *word = n > 1 ? ew_find_word(name, n) : NULL;
    if (word) {
        lex->at += n;
        push_word(lex, word, name, n);
        return;
    }
    if (n == 3 && same_word(name, n, "usd")) {
        lex->at += n;
        push(lex, T_MONEY, 0, "$", 1);
        return;
    }
    if (n > 3) { /* sinx, lnx, xsinx is not worth the guess */
        for (size_t head = n - 1; head >= 2 && head + 2 >= n; head--) {
            word = ew_find_word(name, head);
            if (word && word->type == T_FUNCTION) {
                lex->at += head;
                push_word(lex, word, name, head);
                return;
            }
        }
    }
    bool value_before = last_type(lex) == T_NUMBER || last_type(lex) == T_CLOSE || last_type(lex) == T_BRACE_END ||
                        last_type(lex) == T_TEXT || last_type(lex) == T_CONSTANT || last_type(lex) == T_SLASH;
    bool per = n == 1 && last_type(lex) == T_SLASH && lex->count > 1 && lex->tokens[lex->count - 2].type == T_TEXT;
    bool ordinal =
        n == 2 && !lex->space && last_type(lex) == T_NUMBER &&
        (same_word(name, n, "st") || same_word(name, n, "nd") || same_word(name, n, "rd") || same_word(name, n, "th"));
    bool name_like = n == 3 && name[0] <= 'Z' && name[1] >= 'a' && name[2] >= 'a'; /* Bob */
    if (n > 3 || name_like || ordinal || ((n > 1 || per) && value_before && ew_is_unit(name, n)) || (name[0] & 0x80) ||
        (n > 1 && (same_word(name, n, "yes") || same_word(name, n, "no") || same_word(name, n, "not") ||
                   same_word(name, n, "is") || same_word(name, n, "of") || same_word(name, n, "the") ||
                   same_word(name, n, "per") || same_word(name, n, "one") || same_word(name, n, "two") ||
                   same_word(name, n, "six") || same_word(name, n, "ten") || same_word(name, n, "all") ||
                   same_word(name, n, "dne")))) {
        lex->at += n;
        push(lex, T_TEXT, 0, name, n);
        return;
    }
    lex->at++;
    if (name[0] == 'i' || name[0] == 'e') {
        push(lex, T_CONSTANT, name[0] == 'i' ? EW_I : EW_E, name, 1);
    } else {
        push(lex, T_NAME, 0, name, 1);
    }
}

/* ---- The rest ---- */

static void simple(lexer *lex, ew_token_type type, uint8_t id, size_t length) {
    push(lex, type, id, lex->at, length);
    lex->at += length;
}

static void lex_comparison(lexer *lex) {
    char first = peek(lex, 0), second = peek(lex, 1);
    if (first == '!' && second != '=') {
        simple(lex, T_BANG, 0, 1);
    } else if (first == '!') {
        simple(lex, T_RELATION, 'n', 2);
    } else if (first == '<' || first == '>') {
        bool equal = second == '=';
        simple(lex, T_RELATION, equal ? (first == '<' ? 'l' : 'g') : (uint8_t)first, 1 + equal);
    } else {
        bool less = second == '<';
        simple(lex, T_RELATION, less ? 'l' : '=', 1 + (less || second == '='));
    }
}

/* Characters that are always one token by themselves. */
static bool lex_single(lexer *lex) {
    static const struct {
        char character;
        uint8_t type;
    } singles[] = {{'-', T_MINUS},     {'/', T_SLASH}, {'^', T_POWER},     {'_', T_SUBSCRIPT},
                   {'{', T_BRACE},     {',', T_COMMA}, {';', T_SEMICOLON}, {'}', T_BRACE_END},
                   {'&', T_AMPERSAND}, {':', T_COLON}, {'%', T_PERCENT},   {'\'', T_PRIME}};
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
        if (*lex->at == singles[i].character) {
            simple(lex, (ew_token_type)singles[i].type, 0, 1);
            return true;
        }
    }
    return false;
}

/* A dollar sign is money before digits at the start, else it delimits mathematics and is nothing. */
static void lex_dollar(lexer *lex) {
    if (is_digit(peek(lex, 1)) && (last_type(lex) == T_END || last_type(lex) == T_MINUS)) {
        simple(lex, T_MONEY, 0, 1);
    } else {
        lex->at++;
        lex->space = true;
    }
}

static void lex_bracket(lexer *lex, char c) {
    if (c == '(' && lex_based(lex)) {
        return;
    }
    bool open = c == '(' || c == '[';
    lex->brackets += open ? 1 : -1;
    simple(lex, open ? T_OPEN : T_CLOSE, (uint8_t)c, 1);
}

static void lex_one(lexer *lex) {
    char c = *lex->at;
    if (lex_single(lex)) {
        return;
    }
    switch (c) {
    case '\\':
        lex_command(lex);
        break;
    case '+':
        simple(lex, T_PLUS, 0, 1);
        break;
    case '*':
        peek(lex, 1) == '*' ? simple(lex, T_POWER, 0, 2) : simple(lex, T_TIMES, 0, 1);
        break;
    case '|':
        simple(lex, T_BAR, 0, peek(lex, 1) == '|' ? 2 : 1);
        break;
    case '(':
    case '[':
    case ')':
    case ']':
        lex_bracket(lex, c);
        break;
    case '<':
    case '>':
    case '=':
    case '!':
        lex_comparison(lex);
        break;
    case '$':
        lex_dollar(lex);
        break;
    case '"':
    case '`':
    case '#':
        lex->at++;
        break;
    default:
        simple(lex, T_UNKNOWN, 0, 1);
        break;
    }
}

static void lex_range(lexer *lex, const char *text, size_t length) {
    const char *at = lex->at, *end = lex->end;
    lex->at = text;
    lex->end = text + length;
    while (lex->at < lex->end && !lex->failed && !ew_work_stopped(lex->work)) {
        char c = *lex->at;
        if (!ew_work_spend(lex->work, 10)) {
            break;
        }
        if (is_space(c) || c == '~') {
            lex->at++;
            lex->space = true;
        } else if ((is_digit(c) || (c >= 'A' && c <= 'F')) && lex_based(lex)) {
            continue;
        } else if (is_digit(c) || (c == '.' && is_digit(peek(lex, 1))) || starts(lex, ".\\overline")) {
            lex_number(lex);
        } else if (is_letter(c) || (c & 0x80)) {
            lex_letters(lex);
        } else {
            lex_one(lex);
        }
    }
    lex->at = at;
    lex->end = end;
}

ew_token *ew_read_tokens(ew_work *work, const char *text, size_t length, ew_reading reading, size_t *count) {
    lexer lex = {.work = work, .grouping = reading.grouping};
    if (length > TOKENS_LIMIT) {
        return NULL;
    }
    lex.digits = ew_work_allocate(work, length + 1);
    if (!lex.digits) {
        return NULL;
    }
    lex_range(&lex, text, length);
    lex.space = false;
    push(&lex, T_END, 0, "", 0);
    *count = lex.count - 1;
    return lex.failed || ew_work_stopped(work) ? NULL : lex.tokens;
}
