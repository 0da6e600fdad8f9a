/* Answers cut into tokens: LaTeX commands, plain words, Unicode, all in one stream. */
#ifndef EW_GRADE_TOKEN_H
#define EW_GRADE_TOKEN_H

#include "grade/expression.h"

typedef enum ew_token_type {
    T_END = 0,
    T_NUMBER, /* text: digits with at most one '.', exponent in `exponent`; repeating tail in `repeat` digits
               */
    T_BASED,  /* text: digits; the base follows as an ordinary subscript token sequence */
    T_NAME,   /* text */
    T_CONSTANT, /* id */
    T_FUNCTION, /* id */
    T_TEXT,     /* text: words, raw */
    T_PLUS,
    T_MINUS,
    T_TIMES,
    T_SLASH,
    T_POWER,
    T_SUBSCRIPT,
    T_BANG,
    T_PM,
    T_MP,
    T_RELATION, /* id: as in ew_expr.ops */
    T_OPEN,     /* id: ( [ < */
    T_CLOSE,    /* id: ) ] > */
    T_FLOOR,
    T_FLOOR_END,
    T_CEIL,
    T_CEIL_END,
    T_ABS,
    T_ABS_END,
    T_BAR,
    T_BRACE,
    T_BRACE_END, /* LaTeX groups */
    T_SET,
    T_SET_END,
    T_COMMA,
    T_SEMICOLON,
    T_COLON,
    T_AND,
    T_OR,
    T_ROW,
    T_MOD, /* mod, \bmod, \pmod */
    T_AMPERSAND,
    T_FRAC,
    T_SQRT,
    T_CUBE_ROOT,
    T_BINOM,
    T_OVER,
    T_CHOOSE,
    T_BEGIN,
    T_FINISH, /* text: environment */
    T_BIG,    /* \sum or \prod; id: ew_function */
    T_PERCENT,
    T_DEGREE,
    T_MONEY,
    T_UNION,
    T_INTERSECTION,
    T_DIFFERENCE,
    T_SUCH_THAT,
    T_ACCENT,   /* a command with one argument that changes nothing: \vec, \boxed, ... */
    T_OVERLINE, /* id 1 when over letters it is a name, else a conjugate */
    T_PRIME,
    T_UNKNOWN /* whatever makes the answer unreadable as mathematics */
} ew_token_type;

typedef struct ew_token {
    uint8_t type;
    uint8_t id;
    bool space; /* white space stood before it */
    bool plain; /* T_FRAC made from a Unicode fraction, T_NUMBER with a decimal point, ... */
    uint16_t repeat;
    int32_t exponent;
    const char *text;
    size_t length;
} ew_token;

/* All tokens of text[0..length), ended by T_END; NULL when stopped. */
/* (Not "ew_tokenize": that name is the public one for a model's tokens.) */
ew_token *ew_read_tokens(ew_work *work, const char *text, size_t length, ew_reading reading, size_t *count);

/* Names, words and units (words.c). */
typedef struct ew_word {
    const char *name;
    uint8_t type, id;
} ew_word;
const ew_word *ew_find_command(const char *name, size_t length); /* LaTeX, without the backslash */
const ew_word *ew_find_word(const char *name, size_t length);    /* plain text: sin, pi, and, infinity */

/* Unicode mathematics to LaTeX: the text itself when it is ASCII, else a copy in the workspace. NULL when
 * stopped. */
const char *ew_to_ascii(ew_work *work, const char *text, size_t *length);

#endif
