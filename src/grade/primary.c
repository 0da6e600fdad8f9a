/* Factors: numbers, names, brackets, commands with arguments, function calls, and what may stand behind them.
 */
#include "grade/parser.h"
#include "grade/units.h"

#include <string.h>

static ew_expr *number_of(ew_work *work, const char *digits, size_t n, int base) {
    ew_expr *expr = ew_expr_new(work, EW_NUMBER, 0);
    return expr && ew_rational_digits(work, digits, n, base, 0, &expr->number) ? expr : NULL;
}

/* value + (the last `repeat` digits behind `fraction` digits, again and again) */
static bool add_repeating(ew_work *work, const char *tail, size_t repeat, size_t fraction, ew_rational *value) {
    ew_rational period, nines, scale, ten = ew_rational_small(10), one = ew_rational_small(-1);
    return ew_rational_digits(work, tail, repeat, 10, 0, &period) &&
           ew_rational_power(work, ten, (int64_t)repeat, &nines) && ew_rational_add(work, nines, one, &nines) &&
           ew_rational_divide(work, period, nines, &period) &&
           ew_rational_power(work, ten, -(int64_t)fraction, &scale) &&
           ew_rational_multiply(work, period, scale, &period) && ew_rational_add(work, *value, period, value);
}

static ew_expr *parse_number(ew_parser *parser) {
    const ew_token *token = &parser->tokens[parser->at++];
    ew_expr *expr = ew_expr_new(parser->work, EW_NUMBER, 0);
    const char *point = token->plain ? memchr(token->text, '.', token->length) : NULL;
    size_t whole = point ? (size_t)(point - token->text) : token->length;
    size_t fraction = point ? token->length - whole - 1 : 0;
    char *digits = ew_work_allocate(parser->work, token->length + 1);
    if (!expr || !digits) {
        return NULL;
    }
    memcpy(digits, token->text, whole);
    memcpy(digits + whole, token->text + whole + (point != NULL), fraction);
    if (!ew_rational_digits(parser->work, digits, whole + fraction, 10, fraction, &expr->number) ||
        (token->repeat && !add_repeating(parser->work, digits + whole + fraction - token->repeat, token->repeat,
                                         fraction, &expr->number))) {
        return NULL;
    }
    if (token->exponent) {
        ew_rational scale;
        if (!ew_rational_power(parser->work, ew_rational_small(10), token->exponent, &scale) ||
            !ew_rational_multiply(parser->work, expr->number, scale, &expr->number)) {
            return NULL;
        }
    }
    expr->decimal = point != NULL && !token->repeat;
    return expr;
}

static ew_expr *named(ew_work *work, ew_kind kind, const char *text, size_t length) {
    ew_expr *expr = ew_expr_new(work, kind, 0);
    if (expr) {
        expr->text = text;
        expr->text_length = length;
    }
    return expr;
}

/* name + separator + the text of tokens[from..to) as one symbol */
static ew_expr *joined_symbol(ew_parser *parser, const ew_expr *base, const char *separator, size_t from, size_t to) {
    size_t length = base->text_length + strlen(separator), used;
    for (size_t i = from; i < to; i++) {
        length += parser->tokens[i].length;
    }
    char *text = ew_work_allocate(parser->work, length + 1);
    if (!text) {
        return NULL;
    }
    memcpy(text, base->text, base->text_length);
    used = base->text_length;
    memcpy(text + used, separator, strlen(separator));
    used += strlen(separator);
    for (size_t i = from; i < to; i++) {
        if (parser->tokens[i].type != T_BRACE && parser->tokens[i].type != T_BRACE_END) {
            memcpy(text + used, parser->tokens[i].text, parser->tokens[i].length);
            used += parser->tokens[i].length;
        }
    }
    return named(parser->work, EW_SYMBOL, text, used);
}

/* Moves behind one token or one balanced group. */
static bool skip_group(ew_parser *parser) {
    if (ew_token_at(parser)->type != T_BRACE) {
        return ew_token_at(parser)->type != T_END && (parser->at++, true);
    }
    size_t depth = 0;
    do {
        uint8_t type = parser->tokens[parser->at++].type;
        depth += type == T_BRACE;
        depth -= type == T_BRACE_END;
        if (type == T_END) {
            return false;
        }
    } while (depth);
    return true;
}

static ew_expr *parse_name(ew_parser *parser) {
    const ew_token *token = &parser->tokens[parser->at++];
    ew_expr *expr = token->type == T_CONSTANT ? ew_expr_new(parser->work, EW_CONSTANT, 0)
                                              : named(parser->work, EW_SYMBOL, token->text, token->length);
    if (expr) {
        expr->spaced = token->space;
    }
    if (expr && token->type == T_CONSTANT) {
        expr->op = token->id;
        if (token->id > EW_I || ew_token_at(parser)->type != T_SUBSCRIPT) {
            return expr;
        }
        expr = named(parser->work, EW_SYMBOL, token->text, token->length); /* e_1 is a name */
    }
    while (expr && (ew_token_at(parser)->type == T_SUBSCRIPT || ew_token_at(parser)->type == T_PRIME)) {
        size_t from = parser->at + 1;
        bool prime = parser->tokens[parser->at++].type == T_PRIME;
        if (!prime && !skip_group(parser)) {
            return NULL;
        }
        expr = joined_symbol(parser, expr, prime ? "'" : "_", from, prime ? from : parser->at);
    }
    return expr;
}

static ew_expr *parse_based(ew_parser *parser) {
    const ew_token *token = &parser->tokens[parser->at++];
    if (!ew_accept(parser, T_SUBSCRIPT)) {
        return NULL;
    }
    ew_expr *expr = ew_expr_unary(parser->work, EW_BASED, ew_parse_argument(parser));
    if (expr) {
        expr->text = token->text;
        expr->text_length = token->length;
    }
    return expr;
}

/* {a}, {a \over b}, {a \choose b} behind the opening brace; {a, b} is a set that plain text wrote. */
static ew_expr *parse_group(ew_parser *parser, bool may_be_set) {
    if (may_be_set && ew_accept(parser, T_BRACE_END)) {
        return ew_expr_new(parser->work, EW_SET, 0);
    }
    ew_expr *first = may_be_set ? ew_parse_list(parser) : ew_parse_relation(parser);
    if (ew_token_at(parser)->type == T_OVER || ew_token_at(parser)->type == T_CHOOSE) {
        bool over = parser->tokens[parser->at++].type == T_OVER;
        ew_expr *second = ew_parse_sum(parser);
        first = over     ? ew_expr_binary(parser->work, EW_QUOTIENT, first, second)
                : second ? ew_expr_call(parser->work, EW_BINOMIAL, first, second)
                         : NULL;
    }
    if (!first || !ew_accept(parser, T_BRACE_END)) {
        return NULL;
    }
    if (may_be_set && first->kind == EW_LIST) {
        first->kind = EW_SET;
    }
    return first;
}

ew_expr *ew_parse_argument(ew_parser *parser) {
    ew_token *token = ew_token_at(parser);
    ew_expr *result = NULL;
    if (!ew_enter(parser)) {
        return NULL;
    }
    if (token->type == T_BRACE) {
        parser->at++;
        result = parse_group(parser, false);
    } else if (token->type == T_NUMBER && !token->plain && token->exponent == 0 && token->length > 1) {
        result = number_of(parser->work, token->text, 1, 10); /* \frac12: one digit */
        token->text++;
        token->length--;
    } else if (token->type == T_NUMBER) {
        result = parse_number(parser);
    } else if (token->type == T_NAME || token->type == T_CONSTANT) {
        result = parse_name(parser);
    } else if (ew_starts_factor(parser)) {
        result = ew_parse_factor(parser);
    }
    ew_leave(parser);
    return result;
}

/* What ^ raises to: a group, a number of any length, a signed atom. */
static ew_expr *parse_exponent(ew_parser *parser) {
    if (!ew_enter(parser)) {
        return NULL;
    }
    ew_expr *result;
    if (ew_accept(parser, T_MINUS)) {
        result = ew_expr_unary(parser->work, EW_NEGATIVE, parse_exponent(parser));
    } else if (ew_accept(parser, T_PLUS)) {
        result = parse_exponent(parser);
    } else if (ew_token_at(parser)->type == T_NUMBER) {
        result = parse_number(parser);
    } else {
        result = ew_parse_argument(parser);
    }
    if (result && ew_accept(parser, T_POWER)) { /* plain text: 2^3^2 */
        result = ew_expr_binary(parser->work, EW_POWER, result, parse_exponent(parser));
    }
    ew_leave(parser);
    return result;
}

/* ---- Brackets ---- */

static ew_expr *parse_bracket(ew_parser *parser) {
    char open = (char)parser->tokens[parser->at++].id;
    int bars = parser->bars;
    bool building = parser->building;
    ew_items items = {0};
    parser->bars = 0;
    parser->building = false;
    do {
        if (!ew_items_push(parser->work, &items, ew_parse_relation(parser))) {
            return NULL;
        }
    } while (ew_accept(parser, T_COMMA) || ew_accept(parser, T_SEMICOLON));
    parser->bars = bars;
    parser->building = building;
    const ew_token *end = ew_token_at(parser);
    char close = end->type == T_CLOSE ? (char)end->id : 0;
    if (open == ']' && end->type == T_OPEN && end->id == '[') {
        close = ')'; /* ]a, b[ */
    }
    if (open == '[' && end->type == T_OPEN && end->id == '[' && items.count == 2) {
        close = ')';
    }
    if (!close) {
        return NULL;
    }
    parser->at++;
    open = open == ']' ? '(' : open;
    if (items.count == 1 && ((open == '(' && close == ')') || (open == '[' && close == ']'))) {
        return items.data[0];
    }
    ew_expr *result = ew_items_expr(parser->work, EW_BRACKET, &items);
    if (result) {
        result->open = open;
        result->close = close;
    }
    return result;
}

/* \{x : x > 2\}, \{x \in R | x > 2\}; NULL with nothing consumed when it is no builder. */
static ew_expr *parse_builder(ew_parser *parser) {
    size_t start = parser->at, i = start;
    while (parser->tokens[i].type != T_SUCH_THAT && parser->tokens[i].type != T_BAR &&
           parser->tokens[i].type != T_COLON) {
        uint8_t type = parser->tokens[i].type;
        if ((type != T_NAME && type != T_RELATION && type != T_CONSTANT) || i - start > 3) {
            return NULL;
        }
        i++;
    }
    if (i == start || parser->tokens[start].type != T_NAME) {
        return NULL;
    }
    ew_expr *name = parse_name(parser);
    parser->at = i + 1;
    ew_expr *condition = ew_parse_list(parser);
    return condition && ew_accept(parser, T_SET_END) ? ew_expr_binary(parser->work, EW_CONDITION, name, condition)
                                                     : NULL;
}

static ew_expr *parse_matrix(ew_parser *parser);
static ew_expr *as_system(ew_expr *matrix);

static ew_expr *parse_set(ew_parser *parser) {
    size_t start = ++parser->at;
    if (ew_token_at(parser)->type == T_BEGIN) { /* \left\{ \begin{array}... \right. */
        ew_expr *matrix = parse_matrix(parser);
        bool open = matrix && matrix->kind == EW_MATRIX && matrix->columns == 1 && ew_token_at(parser)->type == T_END;
        if (open || !matrix) {
            return open ? as_system(matrix) : NULL;
        }
        parser->at = start;
    }
    if (ew_accept(parser, T_SET_END)) {
        return ew_expr_new(parser->work, EW_SET, 0);
    }
    ew_expr *builder = parse_builder(parser);
    if (builder || parser->at != start) {
        return builder;
    }
    ew_items items = {0};
    do {
        if (!ew_items_push(parser->work, &items, ew_parse_relation(parser))) {
            return NULL;
        }
    } while (ew_accept(parser, T_COMMA) || ew_accept(parser, T_SEMICOLON));
    return ew_accept(parser, T_SET_END) ? ew_items_expr(parser->work, EW_SET, &items) : NULL;
}

static ew_expr *parse_enclosed(ew_parser *parser, ew_token_type close, ew_function function) {
    int bars = parser->bars;
    parser->at++;
    parser->bars = close == T_BAR ? bars + 1 : 0;
    ew_expr *inside = ew_parse_sum(parser);
    parser->bars = bars;
    if (!ew_accept(parser, close) && !(close == T_ABS_END && ew_accept(parser, T_BAR))) {
        return NULL;
    }
    return inside ? ew_expr_call(parser->work, function, inside, NULL) : NULL;
}

/* ---- Matrices ---- */

static bool is_matrix(const ew_token *token) {
    static const char *const names[] = {"matrix",  "pmatrix",     "bmatrix", "Bmatrix", "vmatrix",
                                        "Vmatrix", "smallmatrix", "array",   "cases",   "dcases"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == token->length && memcmp(names[i], token->text, token->length) == 0) {
            return true;
        }
    }
    return false;
}

/* One equation below the other: a list. */
static ew_expr *as_system(ew_expr *matrix) {
    bool relations = matrix->count > 1;
    for (uint32_t i = 0; relations && i < matrix->count; i++) {
        relations = matrix->items[i]->kind == EW_RELATION;
    }
    matrix->kind = relations ? EW_LIST : EW_MATRIX;
    matrix->op = '&';
    return matrix;
}

static ew_expr *parse_matrix(ew_parser *parser) {
    const ew_token *begin = &parser->tokens[parser->at++];
    ew_items items = {0};
    uint32_t columns = 0, row = 0;
    bool determinant = begin->length == 7 && begin->text[0] == 'v';
    if (!is_matrix(begin)) {
        return NULL;
    }
    while (ew_token_at(parser)->type != T_FINISH) {
        if (!ew_items_push(parser->work, &items, ew_parse_relation(parser))) {
            return NULL;
        }
        row++;
        if (ew_accept(parser, T_AMPERSAND)) {
            continue;
        }
        bool end = ew_token_at(parser)->type == T_FINISH;
        if ((columns && columns != row) || (!end && !ew_accept(parser, T_ROW))) {
            return NULL;
        }
        columns = row;
        row = 0;
    }
    parser->at++;
    if (columns == 0 || row != 0) {
        return NULL;
    }
    ew_expr *matrix = ew_items_expr(parser->work, EW_MATRIX, &items);
    if (matrix) {
        bool system = columns == 1 && begin->length >= 5 && memcmp(begin->text + begin->length - 5, "cases", 5) == 0;
        matrix->columns = columns;
        return system        ? as_system(matrix)
               : determinant ? ew_expr_call(parser->work, EW_DETERMINANT, matrix, NULL)
                             : matrix;
    }
    return NULL;
}

/* ---- Commands and calls ---- */

static ew_expr *parse_root(ew_parser *parser) {
    ew_expr *index = NULL;
    parser->at++;
    if (ew_token_at(parser)->type == T_OPEN && ew_token_at(parser)->id == '[') {
        parser->at++;
        index = ew_parse_sum(parser);
        if (!index || ew_token_at(parser)->type != T_CLOSE || ew_token_at(parser)->id != ']') {
            return NULL;
        }
        parser->at++;
    }
    ew_expr *inside = ew_token_at(parser)->type == T_NUMBER ? parse_number(parser) : ew_parse_argument(parser);
    if (!inside || (index && index->kind == EW_NUMBER && ew_rational_equal(index->number, ew_rational_small(2)))) {
        index = NULL;
    }
    return inside ? ew_expr_call(parser->work, index ? EW_ROOT : EW_SQRT, inside, index) : NULL;
}

/* A juxtaposed product: \sin 2\pi x, \ln 2x, stopped by an operator, a bracket or another function. */
static ew_expr *parse_bare_argument(ew_parser *parser) {
    ew_items factors = {0};
    if (ew_token_at(parser)->type == T_MINUS) {
        parser->at++;
        return ew_expr_unary(parser->work, EW_NEGATIVE, parse_bare_argument(parser));
    }
    while (ew_starts_factor(parser) && ew_token_at(parser)->type != T_OPEN &&
           (factors.count == 0 || ew_token_at(parser)->type != T_FUNCTION)) {
        if (!ew_items_push(parser->work, &factors, ew_parse_factor(parser))) {
            return NULL;
        }
        if (ew_token_at(parser)->type == T_SLASH && parser->tokens[parser->at + 1].type == T_NUMBER) {
            parser->at++; /* sin pi/6 */
            ew_expr *top = ew_items_expr(parser->work, EW_PRODUCT, &factors);
            return ew_expr_binary(parser->work, EW_QUOTIENT, top, parse_number(parser));
        }
    }
    return factors.count == 0   ? NULL
           : factors.count == 1 ? factors.data[0]
                                : ew_items_expr(parser->work, EW_PRODUCT, &factors);
}

static ew_expr *call_arguments(ew_parser *parser, ew_function function, ew_expr *base) {
    bool several = function == EW_GCD || function == EW_LCM || function == EW_MAX || function == EW_MIN;
    ew_expr *inside;
    if (ew_token_at(parser)->type == T_OPEN || ew_token_at(parser)->type == T_BRACE) {
        inside = ew_token_at(parser)->type == T_OPEN ? parse_bracket(parser) : ew_parse_argument(parser);
    } else if (ew_token_at(parser)->type == T_SET && several) {
        inside = parse_set(parser);
    } else {
        inside = parse_bare_argument(parser);
    }
    if (!inside) {
        return NULL;
    }
    if (inside->kind == EW_BRACKET || inside->kind == EW_SET) {
        if (!several) {
            return NULL;
        }
        ew_expr *call = ew_expr_new(parser->work, EW_CALL, 0);
        if (call) {
            call->op = (uint8_t)function;
            call->items = inside->items;
            call->count = inside->count;
        }
        return call;
    }
    return ew_expr_call(parser->work, function, inside, base);
}

static ew_function inverse_of(ew_function function) {
    return function <= EW_CSC                           ? (ew_function)(EW_ASIN + function)
           : function >= EW_SINH && function <= EW_TANH ? (ew_function)(EW_ASINH + (function - EW_SINH))
                                                        : function;
}

static bool is_minus_one(const ew_expr *e) {
    return e->kind == EW_NEGATIVE && e->items[0]->kind == EW_NUMBER &&
           ew_rational_equal(e->items[0]->number, ew_rational_small(1));
}

static ew_expr *parse_call(ew_parser *parser) {
    ew_function function = (ew_function)parser->tokens[parser->at++].id;
    ew_expr *base = NULL, *power = NULL;
    for (int i = 0; i < 2; i++) {
        if (!base && ew_accept(parser, T_SUBSCRIPT)) {
            base = function == EW_LOG
                       ? ew_token_at(parser)->type == T_NUMBER ? parse_number(parser) : ew_parse_argument(parser)
                       : NULL;
            if (!base) {
                return NULL;
            }
        } else if (!power && ew_accept(parser, T_POWER)) {
            power = parse_exponent(parser);
            if (!power) {
                return NULL;
            }
        }
    }
    if (power && is_minus_one(power) && inverse_of(function) != function) {
        function = inverse_of(function);
        power = NULL;
    }
    ew_expr *call = call_arguments(parser, function, base);
    return power ? ew_expr_binary(parser->work, EW_POWER, call, power) : call;
}

/* \sum_{k=1}^{n} term: the term is the product that follows. */
static ew_expr *parse_big(ew_parser *parser) {
    uint8_t op = parser->tokens[parser->at++].id;
    ew_expr *range = ew_accept(parser, T_SUBSCRIPT) ? ew_parse_argument(parser) : NULL;
    ew_expr *to = range && ew_accept(parser, T_POWER) ? parse_exponent(parser) : NULL;
    ew_expr *term = to ? ew_parse_product(parser) : NULL;
    if (!term || range->kind != EW_RELATION || range->count != 2 || range->ops[0] != '=' ||
        (range->items[0]->kind != EW_SYMBOL &&
         !(range->items[0]->kind == EW_CONSTANT && range->items[0]->op == EW_I))) {
        return NULL;
    }
    ew_items items = {0};
    if (!ew_items_push(parser->work, &items, range->items[0]) ||
        !ew_items_push(parser->work, &items, range->items[1]) || !ew_items_push(parser->work, &items, to) ||
        !ew_items_push(parser->work, &items, term)) {
        return NULL;
    }
    ew_expr *call = ew_items_expr(parser->work, EW_CALL, &items);
    if (call) {
        call->op = op;
    }
    return call;
}

static ew_expr *parse_command(ew_parser *parser) {
    const ew_token *token = ew_token_at(parser);
    ew_expr *a, *b;
    parser->at++;
    switch (token->type) {
    case T_FRAC:
        a = ew_parse_argument(parser);
        b = a ? ew_parse_argument(parser) : NULL;
        return ew_expr_binary(parser->work, EW_QUOTIENT, a, b);
    case T_BINOM:
        if (ew_token_at(parser)->type == T_OPEN) {
            a = parse_bracket(parser);
            return a && a->kind == EW_BRACKET && a->count == 2
                       ? ew_expr_call(parser->work, EW_BINOMIAL, a->items[0], a->items[1])
                       : NULL;
        }
        a = ew_parse_argument(parser);
        b = a ? ew_parse_argument(parser) : NULL;
        return b ? ew_expr_call(parser->work, EW_BINOMIAL, a, b) : NULL;
    case T_ACCENT:
        return ew_parse_argument(parser);
    case T_OVERLINE: {
        a = ew_parse_argument(parser);
        bool segment = a && a->kind == EW_PRODUCT; /* \overline{AB} */
        for (uint32_t i = 0; segment && i < a->count; i++) {
            segment = a->items[i]->kind == EW_SYMBOL;
        }
        return !a || segment ? a : ew_expr_call(parser->work, EW_CONJUGATE, a, NULL);
    }
    case T_MONEY:
        a = ew_expr_unary(parser->work, EW_UNIT, ew_parse_factor(parser));
        if (a) {
            a->text = token->text;
            a->text_length = token->length;
        }
        return a;
    default:
        return NULL;
    }
}

ew_expr *ew_parse_primary(ew_parser *parser) {
    switch (ew_token_at(parser)->type) {
    case T_NUMBER:
        return parse_number(parser);
    case T_BASED:
        return parse_based(parser);
    case T_NAME:
    case T_CONSTANT:
        return parse_name(parser);
    case T_FUNCTION:
        return parse_call(parser);
    case T_OPEN:
        return parse_bracket(parser);
    case T_CLOSE:
        return ew_token_at(parser)->id == ']' ? parse_bracket(parser) : NULL;
    case T_FLOOR:
        return parse_enclosed(parser, T_FLOOR_END, EW_FLOOR);
    case T_CEIL:
        return parse_enclosed(parser, T_CEIL_END, EW_CEIL);
    case T_ABS:
        return parse_enclosed(parser, T_ABS_END, EW_ABS);
    case T_BAR:
        return parse_enclosed(parser, T_BAR, EW_ABS);
    case T_BRACE:
        parser->at++;
        return parse_group(parser, true);
    case T_SET:
        return parse_set(parser);
    case T_BEGIN:
        return parse_matrix(parser);
    case T_SQRT:
        return parse_root(parser);
    case T_BIG:
        return parse_big(parser);
    default:
        return parse_command(parser);
    }
}

/* "5 or more", "3 less than": words that are no mere unit. */
static bool changes_the_value(const ew_parser *parser, size_t from) {
    static const char *const words[] = {"more", "less", "least", "most", "greater", "fewer", "not", "than", "never"};
    for (size_t i = from; i < parser->at; i++) {
        const ew_token *token = &parser->tokens[i];
        for (size_t w = 0; token->type == T_TEXT && w < sizeof words / sizeof *words; w++) {
            if (memmem(token->text, token->length, words[w], strlen(words[w]))) {
                return true;
            }
        }
    }
    return false;
}

/* Words behind a value, with the powers and slashes of units: " cm^2", "miles/hour". What follows must end
 * the term. */
static ew_expr *parse_unit(ew_parser *parser, ew_expr *value) {
    size_t from = parser->at, length = 1;
    for (uint8_t type = T_TEXT; type == T_TEXT || type == T_POWER || type == T_SLASH;
         type = ew_token_at(parser)->type) {
        if (type == T_POWER || (type == T_SLASH && ew_token_ahead(parser, 1) != T_TEXT)) {
            if (type == T_SLASH) {
                break;
            }
            parser->at++;
            if (!skip_group(parser)) {
                return NULL;
            }
        } else {
            parser->at++;
        }
    }
    if (ew_starts_factor(parser) || changes_the_value(parser, from)) {
        return NULL;
    }
    for (size_t i = from; i < parser->at; i++) {
        length += parser->tokens[i].length + 1;
    }
    char *text = ew_work_allocate(parser->work, length);
    ew_expr *unit = ew_expr_unary(parser->work, EW_UNIT, value);
    if (!text || !unit) {
        return NULL;
    }
    unit->text = text;
    for (size_t i = from; i < parser->at; i++) {
        if (unit->text_length) {
            text[unit->text_length++] = ' ';
        }
        memcpy(text + unit->text_length, parser->tokens[i].text, parser->tokens[i].length);
        unit->text_length += parser->tokens[i].length;
    }
    return unit;
}

/* ^ behind a value: a power, ^\circ, or a prime. */
static ew_expr *parse_power(ew_parser *parser, ew_expr *value) {
    size_t braces = ew_token_at(parser)->type == T_BRACE;
    uint8_t type = ew_token_ahead(parser, braces);
    const ew_token *inside = ew_token_at(parser) + (braces && parser->at < parser->count);
    bool letter_o = value->kind == EW_NUMBER && type == T_NAME && inside->length == 1 && inside->text[0] == 'o';
    if ((type == T_DEGREE || letter_o) && (!braces || ew_token_ahead(parser, 2) == T_BRACE_END)) {
        parser->at += 1 + 2 * braces;
        return ew_expr_unary(parser->work, EW_DEGREE, value);
    }
    return ew_expr_binary(parser->work, EW_POWER, value, parse_exponent(parser));
}

/* The C of 25 degrees C, at the end of its term. */
static bool is_scale(const ew_parser *parser) {
    const ew_token *token = ew_token_at(parser);
    uint8_t next = ew_token_ahead(parser, 1);
    return token->type == T_NAME && token->length == 1 && (token->text[0] == 'C' || token->text[0] == 'F') &&
           (next == T_END || next == T_COMMA || next == T_CLOSE);
}

/* 3 million, 2 dozen: what the word multiplies by; 0 for other words. */
static int64_t large_number(const ew_token *token) {
    static const struct {
        const char *word;
        int64_t value;
    } words[] = {{"dozen", 12},        {"hundred", 100},        {"thousand", 1000},
                 {"million", 1000000}, {"billion", 1000000000}, {"trillion", 1000000000000}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) == token->length && memcmp(words[i].word, token->text, token->length) == 0) {
            return words[i].value;
        }
    }
    return 0;
}

static ew_expr *times_large_number(ew_parser *parser, ew_expr *value) {
    ew_expr *number = ew_expr_new(parser->work, EW_NUMBER, 0);
    if (!number || !ew_rational_integer(parser->work, large_number(ew_token_at(parser)), &number->number)) {
        return NULL;
    }
    parser->at++;
    return ew_expr_binary(parser->work, EW_PRODUCT, value, number);
}

ew_expr *ew_parse_suffixes(ew_parser *parser, ew_expr *value) {
    while (value) {
        if (ew_accept(parser, T_POWER)) {
            value = parse_power(parser, value);
        } else if (ew_accept(parser, T_BANG)) {
            bool twice = ew_accept(parser, T_BANG);
            value = ew_expr_call(parser->work, twice ? EW_DOUBLE_FACTORIAL : EW_FACTORIAL, value, NULL);
        } else if (ew_accept(parser, T_PERCENT)) {
            value = ew_expr_unary(parser->work, EW_PERCENT, value);
        } else if (ew_accept(parser, T_DEGREE)) {
            value = ew_expr_unary(parser->work, EW_DEGREE, value);
        } else if (value->kind == EW_DEGREE && is_scale(parser)) {
            parser->at++; /* Celsius or Fahrenheit */
        } else if (ew_token_at(parser)->type == T_TEXT && large_number(ew_token_at(parser))) {
            value = times_large_number(parser, value);
        } else if (ew_token_at(parser)->type == T_TEXT) {
            value = parse_unit(parser, value);
        } else if (ew_token_at(parser)->type == T_MONEY && value->kind == EW_NUMBER) {
            const ew_token *money = &parser->tokens[parser->at++]; /* 18$ */
            value = ew_expr_unary(parser->work, EW_UNIT, value);
            if (value) {
                value->text = money->text;
                value->text_length = money->length;
            }
        } else {
            break;
        }
    }
    return value;
}

ew_expr *ew_parse_factor(ew_parser *parser) {
    ew_expr *value = ew_enter(parser) ? ew_parse_suffixes(parser, ew_parse_primary(parser)) : NULL;
    ew_leave(parser);
    return value;
}
