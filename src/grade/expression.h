/* An answer as a tree, read from LaTeX or plain text. */
#ifndef EW_GRADE_EXPRESSION_H
#define EW_GRADE_EXPRESSION_H

#include "grade/rational.h"

typedef enum ew_kind {
    EW_NUMBER,     /* number */
    EW_SYMBOL,     /* text: "x", "theta", "x_1", "f'" */
    EW_CONSTANT,   /* op: ew_constant */
    EW_SUM,        /* items */
    EW_PRODUCT,    /* items */
    EW_QUOTIENT,   /* items[0] / items[1] */
    EW_NEGATIVE,   /* -items[0] */
    EW_POWER,      /* items[0] ^ items[1] */
    EW_CALL,       /* op: ew_function of items */
    EW_PLUS_MINUS, /* op '+' (\pm) or '-' (\mp); items[0] +- items[1], or +-items[0] */
    EW_PERCENT,    /* items[0] % */
    EW_DEGREE,     /* items[0] degrees */
    EW_UNIT,       /* items[0], with a unit or remark as text, normalized */
    EW_BASED,      /* text: digits; items[0]: the base */
    EW_BRACKET, /* items between `open` and `close`, of "()[]<>": tuples, points, intervals; "::": a ratio */
    EW_SET,     /* items, in braces */
    EW_CONDITION,     /* set builder: items[0] the variable, items[1] its condition */
    EW_MATRIX,        /* items, row by row; columns */
    EW_RELATION,      /* items[0] ops[0] items[1] ops[1] ... */
    EW_SET_OPERATION, /* op: '|' union, '&' intersection, '\\' difference, of two items */
    EW_LIST,          /* op: ',' '|' (or) '&' (and); items without brackets around them */
    EW_TEXT           /* text, normalized */
} ew_kind;

typedef enum ew_constant { EW_PI, EW_E, EW_I, EW_INFINITY, EW_REALS, EW_EMPTY } ew_constant;

typedef enum ew_function {
    EW_SIN,
    EW_COS,
    EW_TAN,
    EW_COT,
    EW_SEC,
    EW_CSC,
    EW_ASIN,
    EW_ACOS,
    EW_ATAN,
    EW_ACOT,
    EW_ASEC,
    EW_ACSC,
    EW_SINH,
    EW_COSH,
    EW_TANH,
    EW_COTH,
    EW_SECH,
    EW_CSCH,
    EW_ASINH,
    EW_ACOSH,
    EW_ATANH,
    EW_LN,
    EW_LOG, /* items[1], if present, is the base; without it LOG is ambiguous */
    EW_EXP,
    EW_SQRT,
    EW_ROOT, /* ROOT: items[0] to the 1 / items[1] */
    EW_ABS,
    EW_FLOOR,
    EW_CEIL,
    EW_RE,
    EW_IM,
    EW_CONJUGATE,
    EW_ARG,
    EW_SIGN,
    EW_FACTORIAL,
    EW_DOUBLE_FACTORIAL,
    EW_BINOMIAL,
    EW_GCD,
    EW_LCM,
    EW_MAX,
    EW_MIN,
    EW_DETERMINANT,
    EW_MOD, /* the remainder of items[0] by items[1] */
    EW_SUM_OVER,
    EW_PRODUCT_OVER /* items: the index, from, to, the term */
} ew_function;

typedef struct ew_expr {
    uint8_t kind, op;
    char open, close;
    bool decimal;   /* a number written with a decimal point */
    bool spaced;    /* a symbol that white space stood before: the m of "5 m" may be metres */
    uint16_t depth; /* of the tree below; limited, so that recursion over it is */
    uint32_t count, columns;
    struct ew_expr **items;
    const char *ops; /* relations: '=' '<' '>' 'l' (<=) 'g' (>=) 'n' (not equal) 'i' (in) '~' (about) 'e'
                        (congruent) */
    const char *text;
    size_t text_length;
    ew_rational number;
} ew_expr;

ew_expr *ew_expr_new(ew_work *work, ew_kind kind, uint32_t count); /* items allocated; NULL when stopped */
ew_expr *ew_expr_unary(ew_work *work, ew_kind kind, ew_expr *a);
ew_expr *ew_expr_binary(ew_work *work, ew_kind kind, ew_expr *a, ew_expr *b);
ew_expr *ew_expr_call(ew_work *work, ew_function function, ew_expr *a, ew_expr *b); /* b may be NULL */

/* How the same characters may be read. */
typedef struct ew_reading {
    bool grouping; /* 3,456 is one number */
} ew_reading;

/* Parses text[0..length); NULL when it is no expression we know (or the workspace stopped). Never partial. */
ew_expr *ew_parse(ew_work *work, const char *text, size_t length, ew_reading reading);

/* As ew_parse, and what it cannot read becomes EW_TEXT: NULL only when the workspace stopped. Words that mean
 * a number, an empty set or all reals become that. */
ew_expr *ew_read(ew_work *work, const char *text, size_t length, ew_reading reading);

/* The tree as plain text, `*length` bytes in the workspace; NULL when stopped. */
const char *ew_expr_print(ew_work *work, const ew_expr *expr, size_t *length);

static inline bool ew_expr_is_symbol(const ew_expr *e, char letter) {
    return e->kind == EW_SYMBOL && e->text_length == 1 && e->text[0] == letter;
}

#endif
