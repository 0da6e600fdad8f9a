/* Lists, relations, unions, sums and products. Juxtaposition multiplies, and binds as tightly as * and /. */
#include "grade/parser.h"
#include "grade/text.h"

#include <string.h>

enum { DEPTH_LIMIT = 200 };

bool ew_enter(ew_parser *parser) {
    return ++parser->depth <= DEPTH_LIMIT && ew_work_spend(parser->work, 5);
}
void ew_leave(ew_parser *parser) {
    parser->depth--;
}

/* The [ that closes a half-open interval of the French kind, [0, 1[. */
static bool closes_interval(const ew_parser *parser) {
    if (ew_token_at(parser)->id != '[') {
        return false;
    }
    switch (ew_token_ahead(parser, 1)) {
    case T_END:
    case T_UNION:
    case T_INTERSECTION:
    case T_DIFFERENCE:
    case T_COMMA:
    case T_CLOSE:
    case T_RELATION:
    case T_AND:
    case T_OR:
        return true;
    default:
        return false;
    }
}

bool ew_starts_factor(const ew_parser *parser) {
    switch (ew_token_at(parser)->type) {
    case T_OPEN:
        return !closes_interval(parser);
    case T_NUMBER:
    case T_BASED:
    case T_NAME:
    case T_CONSTANT:
    case T_FUNCTION:
    case T_FLOOR:
    case T_CEIL:
    case T_ABS:
    case T_BRACE:
    case T_SET:
    case T_FRAC:
    case T_SQRT:
    case T_CUBE_ROOT:
    case T_BINOM:
    case T_BEGIN:
    case T_ACCENT:
    case T_OVERLINE:
    case T_MONEY:
    case T_BIG:
        return true;
    case T_BAR:
        return parser->bars == 0 && !parser->building;
    default:
        return false;
    }
}

/* A letter U between brackets is how plain text writes a union. */
static bool union_letter(const ew_parser *parser) {
    const ew_token *token = ew_token_at(parser);
    uint8_t next = ew_token_ahead(parser, 1);
    uint8_t before = parser->at > 0 ? token[-1].type : (uint8_t)T_END;
    return token->type == T_NAME && token->length == 1 && token->text[0] == 'U' &&
           (before == T_CLOSE || before == T_SET_END || before == T_BRACE_END) &&
           (next == T_OPEN || next == T_SET || next == T_BRACE);
}

static bool is_integer_token(const ew_token *token) {
    return token->type == T_NUMBER && !token->plain && token->exponent == 0 && token->repeat == 0;
}

/* n \frac{a}{b} or n a/b with a < b in integers: a mixed number. */
static bool mixed_behind(const ew_parser *parser, const ew_expr *whole) {
    const ew_token *before = &parser->tokens[parser->at - 1];
    if (whole->kind != EW_NUMBER || !is_integer_token(before)) {
        return false;
    }
    if (ew_token_at(parser)->type == T_FRAC ||
        (ew_token_at(parser)->type == T_BRACE && ew_token_ahead(parser, 1) == T_FRAC)) {
        return true;
    }
    return is_integer_token(ew_token_at(parser)) && ew_token_ahead(parser, 1) == T_SLASH &&
           is_integer_token(ew_token_at(parser) + 2);
}

static bool proper_fraction(ew_work *work, const ew_expr *e) {
    return e && e->kind == EW_QUOTIENT && e->items[0]->kind == EW_NUMBER && e->items[1]->kind == EW_NUMBER &&
           ew_rational_is_integer(e->items[0]->number) && ew_rational_is_integer(e->items[1]->number) &&
           ew_rational_compare(work, e->items[0]->number, e->items[1]->number) < 0;
}

static ew_expr *parse_mixed(ew_parser *parser, ew_expr *whole) {
    ew_expr *fraction;
    if (ew_token_at(parser)->type != T_NUMBER) {
        fraction = ew_parse_primary(parser);
    } else {
        ew_expr *top = ew_parse_primary(parser);
        parser->at++;
        fraction = ew_expr_binary(parser->work, EW_QUOTIENT, top, ew_parse_primary(parser));
    }
    if (proper_fraction(parser->work, fraction)) { /* what follows, a percent sign or a unit, is for both */
        return ew_parse_suffixes(parser, ew_expr_binary(parser->work, EW_SUM, whole, fraction));
    }
    return ew_expr_binary(parser->work, EW_PRODUCT, whole, ew_parse_suffixes(parser, fraction));
}

static ew_expr *parse_signed_factor(ew_parser *parser) {
    if (!ew_enter(parser)) {
        return NULL;
    }
    ew_expr *result;
    if (ew_accept(parser, T_MINUS)) {
        result = ew_expr_unary(parser->work, EW_NEGATIVE, parse_signed_factor(parser));
    } else if (ew_accept(parser, T_PLUS)) {
        result = parse_signed_factor(parser);
    } else {
        result = ew_parse_factor(parser);
    }
    ew_leave(parser);
    return result;
}

/* value \bmod n, value (mod n) */
static ew_expr *parse_modulus(ew_parser *parser, ew_expr *value) {
    bool bracket = ew_accept(parser, T_OPEN);
    parser->at++;
    ew_expr *modulus = parse_signed_factor(parser);
    if (!value || !modulus || (bracket && !ew_accept(parser, T_CLOSE))) {
        return NULL;
    }
    return ew_expr_call(parser->work, EW_MOD, value, modulus);
}

ew_expr *ew_parse_product(ew_parser *parser) {
    ew_items factors = {0};
    ew_expr *first = ew_parse_factor(parser);
    if (!first || !ew_items_push(parser->work, &factors, first)) {
        return NULL;
    }
    for (;;) {
        ew_expr **last = &factors.data[factors.count - 1], *next;
        if (ew_accept(parser, T_TIMES)) {
            next = parse_signed_factor(parser);
        } else if (ew_accept(parser, T_SLASH)) {
            /* a * b / c is (a b) / c: all factors so far become the numerator */
            ew_expr *top = factors.count > 1 ? ew_items_expr(parser->work, EW_PRODUCT, &factors) : *last;
            next = ew_expr_binary(parser->work, EW_QUOTIENT, top, parse_signed_factor(parser));
            factors = (ew_items){0};
        } else if (ew_token_at(parser)->type == T_MOD ||
                   (ew_token_at(parser)->type == T_OPEN && ew_token_ahead(parser, 1) == T_MOD)) {
            next = parse_modulus(parser, factors.count > 1 ? ew_items_expr(parser->work, EW_PRODUCT, &factors) : *last);
            factors = (ew_items){0};
        } else if (mixed_behind(parser, *last)) {
            next = parse_mixed(parser, *last);
            factors.count--;
        } else if (ew_starts_factor(parser) && !union_letter(parser)) {
            /* two numbers side by side are no product: "3 4" is unreadable */
            if (ew_token_at(parser)->type == T_NUMBER && (*last)->kind == EW_NUMBER) {
                return NULL;
            }
            next = ew_parse_factor(parser);
        } else {
            break;
        }
        if (!ew_items_push(parser->work, &factors, next)) {
            return NULL;
        }
    }
    return factors.count == 1 ? factors.data[0] : ew_items_expr(parser->work, EW_PRODUCT, &factors);
}

static ew_expr *plus_minus(ew_parser *parser, bool minus, ew_expr *left) {
    ew_expr *right = ew_parse_product(parser);
    ew_expr *result = left ? ew_expr_binary(parser->work, EW_PLUS_MINUS, left, right)
                           : ew_expr_unary(parser->work, EW_PLUS_MINUS, right);
    if (result) {
        result->op = minus ? '-' : '+';
    }
    return result;
}

static ew_expr *parse_sum_inside(ew_parser *parser) {
    ew_items terms = {0};
    ew_expr *term;
    bool negative = false;
    if (ew_token_at(parser)->type == T_PM || ew_token_at(parser)->type == T_MP) {
        term = plus_minus(parser, parser->tokens[parser->at++].type == T_MP, NULL);
    } else {
        while (ew_token_at(parser)->type == T_MINUS || ew_token_at(parser)->type == T_PLUS) {
            negative ^= ew_token_at(parser)->type == T_MINUS;
            parser->at++;
        }
        term = ew_parse_product(parser);
        term = negative ? ew_expr_unary(parser->work, EW_NEGATIVE, term) : term;
    }
    if (!ew_items_push(parser->work, &terms, term)) {
        return NULL;
    }
    for (;;) {
        uint8_t type = ew_token_at(parser)->type;
        if (type == T_PLUS || type == T_MINUS) {
            parser->at++;
            negative = type == T_MINUS;
            while (ew_token_at(parser)->type == T_MINUS || ew_token_at(parser)->type == T_PLUS) {
                negative ^= parser->tokens[parser->at++].type == T_MINUS;
            }
            term = ew_parse_product(parser);
            term = negative ? ew_expr_unary(parser->work, EW_NEGATIVE, term) : term;
        } else if (type == T_PM || type == T_MP) {
            parser->at++;
            ew_expr *left = terms.count > 1 ? ew_items_expr(parser->work, EW_SUM, &terms) : terms.data[0];
            term = plus_minus(parser, type == T_MP, left);
            terms = (ew_items){0};
        } else {
            break;
        }
        if (!ew_items_push(parser->work, &terms, term)) {
            return NULL;
        }
    }
    return terms.count == 1 ? terms.data[0] : ew_items_expr(parser->work, EW_SUM, &terms);
}

ew_expr *ew_parse_sum(ew_parser *parser) {
    ew_expr *result = ew_enter(parser) ? parse_sum_inside(parser) : NULL;
    ew_leave(parser);
    return result;
}

/* 3:4 is a quotient, 1:2:3 a tuple up to a factor. */
static ew_expr *parse_ratio(ew_parser *parser) {
    ew_items parts = {0};
    do {
        if (!ew_items_push(parser->work, &parts, ew_parse_sum(parser))) {
            return NULL;
        }
    } while (ew_accept(parser, T_COLON));
    if (parts.count <= 2) {
        return parts.count == 1 ? parts.data[0]
                                : ew_expr_binary(parser->work, EW_QUOTIENT, parts.data[0], parts.data[1]);
    }
    ew_expr *ratio = ew_items_expr(parser->work, EW_BRACKET, &parts);
    if (ratio) {
        ratio->open = ratio->close = ':';
    }
    return ratio;
}

static ew_expr *parse_union(ew_parser *parser) {
    ew_expr *left = parse_ratio(parser);
    while (left) {
        uint8_t type = union_letter(parser) ? (uint8_t)T_UNION : ew_token_at(parser)->type;
        if (type != T_UNION && type != T_INTERSECTION && type != T_DIFFERENCE) {
            break;
        }
        parser->at++;
        left = ew_expr_binary(parser->work, EW_SET_OPERATION, left, parse_ratio(parser));
        if (left) {
            left->op = type == T_UNION ? '|' : type == T_INTERSECTION ? '&' : '\\';
        }
    }
    return left;
}

/* "x in [2, 7]" in plain text: the two letters i, n between a name and a bracket. */
static bool in_letters(const ew_parser *parser) {
    const ew_token *token = ew_token_at(parser);
    return token->type == T_CONSTANT && token->id == EW_I && ew_token_ahead(parser, 1) == T_NAME &&
           token[1].length == 1 && token[1].text[0] == 'n' && !token[1].space && token->space &&
           (ew_token_ahead(parser, 2) == T_OPEN || ew_token_ahead(parser, 2) == T_SET ||
            ew_token_ahead(parser, 2) == T_CONSTANT);
}

ew_expr *ew_parse_relation(ew_parser *parser) {
    ew_items sides = {0};
    char ops[16];
    if (!ew_enter(parser) || !ew_items_push(parser->work, &sides, parse_union(parser))) {
        return NULL;
    }
    for (;;) {
        const ew_token *token = ew_token_at(parser);
        bool in = in_letters(parser);
        if (token->type != T_RELATION && !in) {
            break;
        }
        if (sides.count > sizeof ops) {
            return NULL;
        }
        ops[sides.count - 1] = in ? 'i' : (char)token->id;
        parser->at += in ? 2 : 1;
        if (!ew_items_push(parser->work, &sides, parse_union(parser))) {
            return NULL;
        }
    }
    ew_leave(parser);
    if (sides.count == 1) {
        return sides.data[0];
    }
    ew_expr *result = ew_items_expr(parser->work, EW_RELATION, &sides);
    char *copy = ew_work_allocate(parser->work, sides.count);
    if (!result || !copy) {
        return NULL;
    }
    memcpy(copy, ops, sides.count - 1);
    copy[sides.count - 1] = 0;
    result->ops = copy;
    return result;
}

/* The separator at hand as ew_expr.op, several as one (", and"); 0 when there is none. */
static uint8_t list_separator(ew_parser *parser) {
    uint8_t op = 0;
    for (;; parser->at++) {
        switch (ew_token_at(parser)->type) {
        case T_COMMA:
        case T_SEMICOLON:
        case T_ROW:
            op = op ? op : ',';
            break;
        case T_AND:
            op = '&';
            break;
        case T_OR:
            op = '|';
            break;
        default:
            return op;
        }
    }
}

/* Words up to the next separator, as one item of a list: red, blue. NULL when there is anything but words. */
static ew_expr *text_item(ew_parser *parser) {
    size_t from = parser->at, at = from;
    while (parser->tokens[at].type == T_TEXT) {
        at++;
    }
    uint8_t end = parser->tokens[at].type;
    bool separated = end == T_COMMA || end == T_SEMICOLON || end == T_AND || end == T_OR || end == T_END;
    if (at == from || !separated) {
        return NULL;
    }
    const char *text = parser->tokens[from].text, *behind = parser->tokens[at - 1].text + parser->tokens[at - 1].length;
    ew_span words = {NULL, 0};
    if (behind > text) { /* tokens of one text; the insides of \text{...} lie in the same */
        words = ew_text_words(parser->work, text, (size_t)(behind - text));
    }
    ew_expr *expr = words.length ? ew_expr_new(parser->work, EW_TEXT, 0) : NULL;
    int64_t value;
    if (expr && ew_words_number(words, &value)) {
        expr->kind = EW_NUMBER;
        expr = ew_rational_integer(parser->work, value, &expr->number) ? expr : NULL;
    } else if (expr) {
        expr->text = words.text;
        expr->text_length = words.length;
    }
    parser->at = expr ? at : from;
    return expr;
}

static ew_expr *parse_item(ew_parser *parser) {
    ew_expr *text = text_item(parser);
    return text ? text : ew_parse_relation(parser);
}

ew_expr *ew_parse_list(ew_parser *parser) {
    ew_items items = {0};
    uint8_t op = 0;
    list_separator(parser);
    if (!ew_items_push(parser->work, &items, parse_item(parser))) {
        return NULL;
    }
    for (;;) {
        uint8_t found = list_separator(parser);
        if (!found || ew_token_at(parser)->type == T_END) {
            break;
        }
        op = op == 0 || op == ',' ? found : op;
        if (!ew_items_push(parser->work, &items, parse_item(parser))) {
            return NULL;
        }
    }
    if (items.count == 1) {
        return items.data[0];
    }
    ew_expr *list = ew_items_expr(parser->work, EW_LIST, &items);
    if (list) {
        list->op = op;
    }
    return list;
}

static bool is_hedge(const ew_token *token) {
    static const char *const hedges[] = {"about", "approximately", "around", "roughly", "exactly", "only",
                                         "just",  "simply",        "both",   "Both",    "either",  "Either"};
    for (size_t i = 0; i < sizeof hedges / sizeof *hedges; i++) {
        if (token->length == strlen(hedges[i]) && memcmp(token->text, hedges[i], token->length) == 0) {
            return true;
        }
    }
    return false;
}

/* "Area = 5", "x-intercept: 4", "about 7", "= 3": what stands before the value and says nothing about it. */
static void skip_label(ew_parser *parser) {
    const ew_token *tokens = parser->tokens;
    size_t at = 0;
    while (tokens[at].type == T_TEXT) {
        at++;
    }
    bool equals = tokens[at].type == T_RELATION && (tokens[at].id == '=' || (tokens[at].id == '~' && at == 0));
    if ((at > 0 && tokens[at].type == T_COLON) || equals) {
        parser->at = at + 1;
    } else if (at == 1 && is_hedge(&tokens[0])) {
        parser->at = 1;
    }
}

/* Only words, so that the answer is a text; or a number in words, with its "and". */
static bool only_text(const ew_parser *parser, const char *text, size_t length) {
    bool and = false;
    int64_t value;
    for (size_t i = 0; i < parser->count; i++) {
        uint8_t type = parser->tokens[i].type;
        and |= type == T_AND;
        if (type != T_TEXT && type != T_AND) {
            return false;
        }
    }
    return !and || ew_words_number(ew_text_words(parser->work, text, length), &value);
}

ew_expr *ew_parse(ew_work *work, const char *text, size_t length, ew_reading reading) {
    ew_parser parser = {.work = work};
    text = length <= EW_TEXT_LIMIT ? ew_to_ascii(work, text, &length) : NULL;
    if (!text) {
        return NULL;
    }
    parser.tokens = ew_read_tokens(work, text, length, reading, &parser.count);
    if (!parser.tokens || parser.count == 0) {
        return NULL;
    }
    if (only_text(&parser, text, length)) {
        return NULL;
    }
    skip_label(&parser);
    ew_expr *result = ew_parse_list(&parser);
    return parser.at == parser.count && !ew_work_stopped(work) ? result : NULL;
}
