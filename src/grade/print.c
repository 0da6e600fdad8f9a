/* The normal form: plain text, numbers exact and in lowest terms, sets sorted. */
#include "grade/evaluate.h"
#include "grade/expression.h"

#include <stdlib.h>
#include <string.h>

typedef struct printer {
    ew_work *work;
    char *out;
    size_t used, capacity;
    bool failed;
} printer;

enum { PRINT_LIMIT = 65536 };

static bool room(printer *p, size_t more) {
    if (p->used + more <= p->capacity) {
        return true;
    }
    size_t capacity = (p->used + more) * 2 + 64;
    char *grown = capacity > PRINT_LIMIT ? NULL : ew_work_allocate(p->work, capacity);
    if (!grown) {
        p->failed = true;
        return false;
    }
    if (p->used) {
        memcpy(grown, p->out, p->used);
    }
    p->out = grown;
    p->capacity = capacity;
    return true;
}

static void put_span(printer *p, const char *text, size_t length) {
    if (length && room(p, length)) {
        memcpy(p->out + p->used, text, length);
        p->used += length;
    }
}
static void put(printer *p, const char *text) {
    put_span(p, text, strlen(text));
}
static void put_char(printer *p, char c) {
    put_span(p, &c, 1);
}

static void put_number(printer *p, ew_rational value) {
    size_t wanted = (size_t)(value.numerator_limbs + value.denominator_limbs) * 20 + 4;
    if (room(p, wanted)) {
        size_t length = ew_rational_print(p->work, value, p->out + p->used, p->capacity - p->used);
        p->failed |= length == 0;
        p->used += length;
    }
}

static void print(printer *p, const ew_expr *e, int outer);

static void print_items(printer *p, const ew_expr *e, const char *separator) {
    for (uint32_t i = 0; i < e->count; i++) {
        if (i) {
            put(p, separator);
        }
        print(p, e->items[i], 0);
    }
}

static int compare_text(const void *a, const void *b) {
    const printer *x = a, *y = b;
    size_t n = x->used < y->used ? x->used : y->used;
    int order = n ? memcmp(x->out, y->out, n) : 0;
    return order ? order : (x->used > y->used) - (x->used < y->used);
}

/* Items in the order of their own texts. */
static void print_sorted(printer *p, const ew_expr *e) {
    printer *texts = ew_work_allocate(p->work, (e->count + 1) * sizeof *texts);
    if (!texts) {
        p->failed = true;
        return;
    }
    for (uint32_t i = 0; i < e->count; i++) {
        texts[i] = (printer){.work = p->work};
        print(&texts[i], e->items[i], 0);
        p->failed |= texts[i].failed;
    }
    qsort(texts, e->count, sizeof *texts, compare_text);
    for (uint32_t i = 0; i < e->count; i++) {
        put(p, i ? ", " : "");
        put_span(p, texts[i].out, texts[i].used);
    }
}

static const char *function_name(uint8_t op) {
    static const char *const names[] = {"sin",  "cos",  "tan",       "cot",        "sec",      "csc",  "asin", "acos",
                                        "atan", "acot", "asec",      "acsc",       "sinh",     "cosh", "tanh", "coth",
                                        "sech", "csch", "asinh",     "acosh",      "atanh",    "ln",   "log",  "exp",
                                        "sqrt", "root", "abs",       "floor",      "ceil",     "re",   "im",   "conj",
                                        "arg",  "sign", "factorial", "factorial2", "binomial", "gcd",  "lcm",  "max",
                                        "min",  "det",  "mod",       "sum",        "product"};
    return op < sizeof names / sizeof *names ? names[op] : "?";
}

static const char *relation_name(char op) {
    switch (op) {
    case 'l':
        return " <= ";
    case 'g':
        return " >= ";
    case 'n':
        return " != ";
    case 'i':
        return " in ";
    case 'e':
        return " == ";
    case '~':
        return " ~ ";
    default:
        return op == '<' ? " < " : op == '>' ? " > " : " = ";
    }
}

static const char *constant_name(uint8_t op) {
    static const char *const names[] = {"pi", "e", "i", "inf", "R", "{}"};
    return op < sizeof names / sizeof *names ? names[op] : "?";
}

static void print_relation(printer *p, const ew_expr *e) {
    for (uint32_t i = 0; i < e->count; i++) {
        print(p, e->items[i], 1);
        if (i + 1 < e->count) {
            put(p, relation_name(e->ops[i]));
        }
    }
}

static void print_matrix(printer *p, const ew_expr *e) {
    put(p, "[");
    for (uint32_t i = 0; i < e->count; i++) {
        put(p, i % e->columns ? ", " : i ? ", [" : "[");
        print(p, e->items[i], 0);
        put(p, (i + 1) % e->columns ? "" : "]");
    }
    put(p, "]");
}

/* Binding strength: 1 sum, 2 product and quotient, 3 power, 4 atom. */
static int strength(const ew_expr *e) {
    switch (e->kind) {
    case EW_SUM:
    case EW_PLUS_MINUS:
    case EW_NEGATIVE:
    case EW_RELATION:
    case EW_LIST:
    case EW_SET_OPERATION:
        return 1;
    case EW_PRODUCT:
    case EW_QUOTIENT:
        return 2;
    case EW_POWER:
        return 3;
    case EW_NUMBER:
        return e->number.negative ? 1 : ew_rational_is_integer(e->number) ? 4 : 2;
    default:
        return 4;
    }
}

static void print_sum(printer *p, const ew_expr *e) {
    for (uint32_t i = 0; i < e->count; i++) {
        const ew_expr *term = e->items[i];
        bool minus = term->kind == EW_NEGATIVE && i > 0;
        put(p, i == 0 ? "" : minus ? " - " : " + ");
        print(p, minus ? term->items[0] : term, minus ? 2 : 1);
    }
}

/* What has items but is no value by itself. */
static void print_structure(printer *p, const ew_expr *e) {
    switch (e->kind) {
    case EW_BASED:
        put_span(p, e->text, e->text_length), put(p, "_"), print(p, e->items[0], 4);
        break;
    case EW_BRACKET:
        put_char(p, e->open), print_items(p, e, ", "), put_char(p, e->close);
        break;
    case EW_SET:
        put(p, "{"), print_sorted(p, e), put(p, "}");
        break;
    case EW_CONDITION:
        put(p, "{"), print(p, e->items[0], 0), put(p, " : "), print(p, e->items[1], 0), put(p, "}");
        break;
    case EW_MATRIX:
        print_matrix(p, e);
        break;
    case EW_RELATION:
        print_relation(p, e);
        break;
    case EW_SET_OPERATION:
        print(p, e->items[0], 2),
            put(p, e->op == '|'   ? " u "
                   : e->op == '&' ? " n "
                                  : " \\ "),
            print(p, e->items[1], 2);
        break;
    case EW_LIST:
        print_sorted(p, e);
        break;
    default:
        break;
    }
}

static void print_node(printer *p, const ew_expr *e) {
    switch (e->kind) {
    case EW_NUMBER:
        put_number(p, e->number);
        break;
    case EW_SYMBOL:
    case EW_TEXT:
        put_span(p, e->text, e->text_length);
        break;
    case EW_CONSTANT:
        put(p, constant_name(e->op));
        break;
    case EW_SUM:
        print_sum(p, e);
        break;
    case EW_PRODUCT:
        for (uint32_t i = 0; i < e->count; i++) {
            put(p, i ? "*" : "");
            print(p, e->items[i], 3);
        }
        break;
    case EW_QUOTIENT:
        print(p, e->items[0], 2), put(p, "/"), print(p, e->items[1], 3);
        break;
    case EW_NEGATIVE:
        put(p, "-"), print(p, e->items[0], 2);
        break;
    case EW_POWER:
        print(p, e->items[0], 4), put(p, "^"), print(p, e->items[1], 4);
        break;
    case EW_CALL:
        put(p, function_name(e->op)), put(p, "("), print_items(p, e, ", "), put(p, ")");
        break;
    case EW_PLUS_MINUS:
        if (e->count == 2) {
            print(p, e->items[0], 1);
        }
        put(p, e->op == '-' ? " -+ " : " +- "), print(p, e->items[e->count - 1], 2);
        break;
    case EW_PERCENT:
        print(p, e->items[0], 3), put(p, "%");
        break;
    case EW_DEGREE:
    case EW_UNIT:
        print(p, e->items[0], 0);
        break;
    default:
        print_structure(p, e);
        break;
    }
}

static void print(printer *p, const ew_expr *e, int outer) {
    if (p->failed || !ew_work_spend(p->work, 20)) {
        p->failed = true;
        return;
    }
    ew_contents contents = {0};
    if (e->count > 0 && e->kind <= EW_CALL) { /* what has an exact value is that value */
        ew_scan(e, &contents);
        if (!contents.symbols && !contents.structure && !contents.plus_minus && !contents.irrational &&
            !contents.degrees) {
            ew_point point = {.work = p->work};
            ew_value value = ew_evaluate_expression(&point, e);
            ew_expr number = {.kind = EW_NUMBER, .number = value.rational};
            if (value.exact) {
                bool wrap = strength(&number) < outer;
                put(p, wrap ? "(" : ""), put_number(p, value.rational), put(p, wrap ? ")" : "");
                return;
            }
        }
    }
    bool wrap = strength(e) < outer;
    put(p, wrap ? "(" : "");
    print_node(p, e);
    put(p, wrap ? ")" : "");
}

const char *ew_expr_print(ew_work *work, const ew_expr *expr, size_t *length) {
    printer p = {.work = work};
    print(&p, expr, 0);
    if (p.failed || !room(&p, 1)) {
        return NULL;
    }
    *length = p.used;
    return p.out;
}
