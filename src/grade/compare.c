/* Structure: units and percent taken off, lists matched in any order, tuples in theirs, sets as sets. */
#include "grade/compare.h"

#include "grade/evaluate.h"
#include "grade/sets.h"
#include "grade/text.h"
#include "grade/units.h"

#include <string.h>

enum { COMPARE_DEPTH = 60, LIST_LIMIT = 64, SIGNS_LIMIT = 3 };

/* ---- Plus-minus ---- */

typedef struct signs {
    ew_work *work;
    unsigned mask, next; /* bit `next` is for the next sign met */
    bool linked;         /* with a \mp in sight all signs turn together */
} signs;

static void count_signs(const ew_expr *expr, int *signs, bool *minus_plus) {
    if (expr->kind == EW_PLUS_MINUS) {
        ++*signs;
        *minus_plus |= expr->op == '-';
    }
    for (uint32_t i = 0; i < expr->count; i++) {
        count_signs(expr->items[i], signs, minus_plus);
    }
}

/* The tree with each plus-minus replaced by the sign that the mask says. */
static ew_expr *with_signs(signs *s, const ew_expr *expr) {
    ew_expr *copy = ew_expr_new(s->work, (ew_kind)expr->kind, expr->count);
    if (!copy) {
        return NULL;
    }
    ew_expr **items = copy->items;
    *copy = *expr;
    copy->items = items;
    bool minus = false;
    if (expr->kind == EW_PLUS_MINUS) {
        minus = ((s->mask >> s->next) & 1) != (unsigned)(expr->op == '-');
        s->next += !s->linked;
    }
    for (uint32_t i = 0; i < expr->count; i++) {
        items[i] = with_signs(s, expr->items[i]);
        if (!items[i]) {
            return NULL;
        }
    }
    if (expr->kind == EW_PLUS_MINUS) {
        ew_expr **last = &items[expr->count - 1];
        *last = minus ? ew_expr_unary(s->work, EW_NEGATIVE, *last) : *last;
        if (!*last || expr->count == 1) {
            return *last;
        }
        copy->kind = EW_SUM;
    }
    return copy;
}

static bool push_expanded(ew_comparison *c, const ew_expr *expr, const ew_expr **items, uint32_t *count) {
    int found = 0;
    bool linked = false;
    count_signs(expr, &found, &linked);
    linked |= found > SIGNS_LIMIT;
    unsigned variants = found == 0 ? 1 : linked ? 2 : 1U << found;
    for (unsigned mask = 0; mask < variants; mask++) {
        signs s = {.work = c->work, .mask = mask, .linked = linked};
        const ew_expr *item = found ? with_signs(&s, expr) : expr;
        if (!item || *count == LIST_LIMIT) {
            return false;
        }
        items[(*count)++] = item;
    }
    return true;
}

/* ---- Lists and sets: any order, each value once ---- */

static bool is_collection(const ew_expr *expr) {
    return expr->kind == EW_LIST || expr->kind == EW_SET;
}

static bool is_list_bracket(const ew_comparison *c, const ew_expr *expr) {
    return expr->kind == EW_BRACKET && expr->open == '[' && expr->close == ']' && (c->list || expr->count != 2);
}

static bool is_closed_pair(const ew_expr *expr) {
    return expr->kind == EW_BRACKET &&
           ((expr->open == '(' && expr->close == ')') || (expr->open == '[' && expr->close == ']'));
}

static bool members(ew_comparison *c, const ew_expr *expr, const ew_expr **items, uint32_t *count) {
    const ew_expr *expanded[LIST_LIMIT];
    uint32_t total = 0;
    bool several = is_collection(expr) || (c->list && is_closed_pair(expr)) || is_list_bracket(c, expr);
    for (uint32_t i = 0; i < (several ? expr->count : 1); i++) {
        if (!push_expanded(c, several ? expr->items[i] : expr, expanded, &total)) {
            return false;
        }
    }
    *count = 0;
    for (uint32_t i = 0; i < total; i++) {
        bool seen = false;
        for (uint32_t j = 0; j < *count && !seen; j++) {
            seen = ew_same_answer(c, expanded[i], items[j]);
        }
        if (!seen) {
            items[(*count)++] = expanded[i];
        }
    }
    return true;
}

/* The name that an item x = 5 assigns to; NULL for anything else. */
static const ew_expr *assigned(const ew_expr *item) {
    return item->kind == EW_RELATION && item->count == 2 && item->ops[0] == '=' && item->items[0]->kind == EW_SYMBOL
               ? item->items[0]
               : NULL;
}

/* x = 1, y = 2: several names, each once; a bare list beside it must then come in that order. */
static bool assigns_several(const ew_expr *expr) {
    if (expr->kind != EW_LIST || expr->count < 2) {
        return false;
    }
    for (uint32_t i = 0; i < expr->count; i++) {
        if (!assigned(expr->items[i])) {
            return false;
        }
    }
    return !ew_same_symbol(assigned(expr->items[0]), assigned(expr->items[1]));
}

static bool same_in_order(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++) {
        same = ew_same_answer(c, a->items[i], b->items[i]);
    }
    return same;
}

static bool same_members(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    const ew_expr *x[LIST_LIMIT], *y[LIST_LIMIT];
    uint32_t m, n;
    bool used[LIST_LIMIT] = {false};
    if (a->count > LIST_LIMIT || b->count > LIST_LIMIT) {
        return same_in_order(c, a, b);
    }
    if (!members(c, a, x, &m) || !members(c, b, y, &n) || m != n) {
        return false;
    }
    for (uint32_t i = 0; i < m; i++) {
        uint32_t j = 0;
        while (j < n && (used[j] || !ew_same_answer(c, x[i], y[j]))) {
            j++;
        }
        if (j == n) {
            return false;
        }
        used[j] = true;
    }
    return true;
}

static bool same_collection(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    const ew_expr *other = is_collection(a) ? b : a;
    if (assigns_several(a) != assigns_several(b)) {
        return (other->kind == EW_BRACKET || is_collection(a) == is_collection(b)) && same_in_order(c, a, b);
    }
    if (other->kind == EW_BRACKET && !(c->list && is_closed_pair(other)) && !is_list_bracket(c, other)) {
        /* 3, 5, 7 against (3, 5, 7): a list may stand for a tuple in the tuple's order; a set may not */
        const ew_expr *list = is_collection(a) ? a : b;
        return list->kind == EW_LIST && !c->symmetric && other->open == '(' && other->close == ')' &&
               same_in_order(c, a, b);
    }
    return same_members(c, a, b);
}

/* ---- Tuples, intervals, matrices ---- */

static char rounded(char bracket) {
    return bracket == '<' ? '(' : bracket == '>' ? ')' : bracket;
}

static bool same_ratio(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    bool same = a->count == b->count && a->open == b->open;
    for (uint32_t i = 1; same && i < a->count; i++) {
        const ew_expr *left = ew_expr_binary(c->work, EW_QUOTIENT, a->items[i], a->items[0]);
        const ew_expr *right = ew_expr_binary(c->work, EW_QUOTIENT, b->items[i], b->items[0]);
        same = left && right && ew_same_scalar(c, left, right);
    }
    return same;
}

static bool same_bracket(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    if (a->open == ':' || b->open == ':') {
        return same_ratio(c, a, b);
    }
    bool alike = rounded(a->open) == rounded(b->open) && rounded(a->close) == rounded(b->close);
    return (alike || (a->count > 2 && b->count > 2)) && same_in_order(c, a, b);
}

static const ew_expr *as_matrix(ew_comparison *c, const ew_expr *expr);

/* A tuple as a column, where it is added to or multiplied. */
static const ew_expr *as_vector(ew_comparison *c, const ew_expr *expr) {
    bool tuple = expr->kind == EW_BRACKET && (expr->open == '(' || expr->open == '<') &&
                 (expr->close == ')' || expr->close == '>');
    ew_expr *column = tuple ? ew_expr_new(c->work, EW_MATRIX, 0) : NULL;
    if (column) {
        column->items = expr->items;
        column->count = expr->count;
        column->columns = 1;
    }
    return column ? column : as_matrix(c, expr);
}

/* A sum of matrices of one shape as a matrix; the expression itself when it is none. */
static const ew_expr *sum_of_matrices(ew_comparison *c, const ew_expr *expr) {
    ew_expr *terms = ew_expr_new(c->work, EW_LIST, expr->count), *result;
    for (uint32_t i = 0; terms && i < expr->count; i++) {
        const ew_expr *term = as_vector(c, expr->items[i]), *first = terms->items[0];
        if (term->kind != EW_MATRIX || (i > 0 && (term->count != first->count || term->columns != first->columns))) {
            return expr;
        }
        terms->items[i] = (ew_expr *)(uintptr_t)term; /* read only from here on */
    }
    result = terms ? ew_expr_new(c->work, EW_MATRIX, terms->items[0]->count) : NULL;
    for (uint32_t i = 0; result && i < result->count; i++) {
        ew_expr *cell = ew_expr_new(c->work, EW_SUM, expr->count);
        for (uint32_t j = 0; cell && j < expr->count; j++) {
            cell->items[j] = terms->items[j]->items[i];
        }
        if (!cell) {
            return expr;
        }
        result->items[i] = cell;
    }
    if (result) {
        result->columns = terms->items[0]->columns;
    }
    return result ? result : expr;
}

static const ew_expr *transposed(ew_comparison *c, const ew_expr *matrix) {
    uint32_t rows = matrix->count / matrix->columns;
    ew_expr *result = ew_expr_new(c->work, EW_MATRIX, matrix->count);
    for (uint32_t i = 0; result && i < matrix->count; i++) {
        result->items[i % matrix->columns * rows + i / matrix->columns] = matrix->items[i];
    }
    if (result) {
        result->columns = rows;
    }
    return result ? result : matrix;
}

/* A scalar times a matrix as a matrix; the expression itself when it is none. */
static const ew_expr *as_matrix(ew_comparison *c, const ew_expr *expr) {
    const ew_expr *matrix = NULL;
    uint32_t at = 0;
    if (expr->kind == EW_SUM) {
        return sum_of_matrices(c, expr);
    }
    if (expr->kind == EW_POWER && expr->items[0]->kind == EW_MATRIX && ew_expr_is_symbol(expr->items[1], 'T')) {
        return transposed(c, expr->items[0]);
    }
    if (expr->kind != EW_PRODUCT && expr->kind != EW_QUOTIENT && expr->kind != EW_NEGATIVE) {
        return expr;
    }
    for (uint32_t i = 0; i < expr->count; i++) {
        const ew_expr *item = as_vector(c, expr->items[i]);
        if (item->kind == EW_MATRIX) {
            if (matrix || (expr->kind == EW_QUOTIENT && i == 1)) {
                return expr;
            }
            matrix = item;
            at = i;
        }
    }
    ew_expr *result = matrix ? ew_expr_new(c->work, EW_MATRIX, matrix->count) : NULL;
    for (uint32_t i = 0; result && i < matrix->count; i++) {
        ew_expr *cell = ew_expr_new(c->work, (ew_kind)expr->kind, expr->count);
        if (!cell) {
            return expr;
        }
        memcpy(cell->items, expr->items, expr->count * sizeof *cell->items);
        cell->items[at] = matrix->items[i];
        result->items[i] = cell;
    }
    if (result) {
        result->columns = matrix->columns;
    }
    return result ? result : expr;
}

static bool same_matrix(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    if (a->kind == EW_MATRIX && b->kind == EW_MATRIX) {
        return a->columns == b->columns && same_in_order(c, a, b);
    }
    const ew_expr *matrix = a->kind == EW_MATRIX ? a : b, *tuple = a->kind == EW_MATRIX ? b : a;
    if (tuple->kind != EW_BRACKET) {
        return matrix->count == 1 && ew_same_answer(c, matrix->items[0], tuple);
    }
    uint32_t rows = matrix->count / matrix->columns;
    if (matrix->columns == 1 || rows == 1) { /* a vector as a tuple */
        return tuple->open != '[' || tuple->close != ')' ? same_in_order(c, a, b) : false;
    }
    bool same = tuple->count == rows; /* [[1, 2], [3, 4]] */
    for (uint32_t i = 0; same && i < rows; i++) {
        const ew_expr *row = tuple->items[i];
        same = row->kind == EW_BRACKET && row->count == matrix->columns;
        for (uint32_t j = 0; same && j < row->count; j++) {
            same = ew_same_answer(c, row->items[j], matrix->items[i * matrix->columns + j]);
        }
    }
    return same;
}

/* ---- Units and percent ---- */

static ew_expr *times(ew_comparison *c, ew_expr *value, ew_rational factor) {
    ew_expr *number = ew_expr_new(c->work, EW_NUMBER, 0);
    if (number) {
        number->number = factor;
    }
    return ew_expr_binary(c->work, EW_PRODUCT, value, number);
}

/* 5 m and 12 m^2 in plain text read as products; beside a plain number or a value with a unit they are
 * metres. */
static const ew_expr *as_unit(ew_comparison *c, const ew_expr *expr) {
    static const char *const areas[] = {"m", "m^2", "m^3"};
    const ew_expr *last = expr->kind == EW_PRODUCT && expr->count == 2 ? expr->items[1] : NULL;
    int64_t power = 1;
    if (last && last->kind == EW_POWER && last->items[1]->kind == EW_NUMBER &&
        ew_rational_to_int64(last->items[1]->number, &power)) {
        last = last->items[0];
    }
    if (!last || c->symmetric || last->kind != EW_SYMBOL || !last->spaced || last->text_length != 1 || power < 1 ||
        power > 3 || !strchr(power == 1 ? "mgshL" : "m", last->text[0]) || expr->items[0]->kind != EW_NUMBER) {
        return expr;
    }
    ew_expr *unit = ew_expr_unary(c->work, EW_UNIT, expr->items[0]);
    if (unit) {
        unit->text = power == 1 ? last->text : areas[power - 1];
        unit->text_length = power == 1 ? 1 : 3;
    }
    return unit ? unit : expr;
}

static bool same_units(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    ew_unit x, y;
    a = as_unit(c, a);
    b = as_unit(c, b);
    if (a->kind != EW_UNIT || b->kind != EW_UNIT || c->symmetric ||
        !ew_parse_unit(c->work, a->text, a->text_length, &x) || !ew_parse_unit(c->work, b->text, b->text_length, &y)) {
        return ew_same_answer(c, a->kind == EW_UNIT ? a->items[0] : a, b->kind == EW_UNIT ? b->items[0] : b);
    }
    if (memcmp(x.powers, y.powers, sizeof x.powers) != 0) {
        for (int i = 0; i < EW_DIMENSIONS; i++) { /* cm for cm^2 is a slip; hours for miles is another quantity */
            if ((x.powers[i] != 0) != (y.powers[i] != 0)) {
                return false;
            }
        }
        return ew_same_answer(c, a->items[0], b->items[0]);
    }
    if (ew_rational_equal(x.factor, y.factor)) {
        return ew_same_answer(c, a->items[0], b->items[0]);
    }
    ew_expr *left = times(c, a->items[0], x.factor), *right = times(c, b->items[0], y.factor);
    return left && right && ew_same_answer(c, left, right);
}

static bool same_percent(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    bool both = a->kind == EW_PERCENT && b->kind == EW_PERCENT;
    const ew_expr *x = a->kind == EW_PERCENT ? a->items[0] : a, *y = b->kind == EW_PERCENT ? b->items[0] : b;
    return ew_same_answer(c, x, y) || (!both && !c->symmetric && ew_same_scalar(c, a, b));
}

/* ---- All together ---- */

/* red without \text reads as r e d: the text that a product of letters spells. */
static bool spells(const ew_expr *product, const ew_expr *text) {
    bool same = product->kind == EW_PRODUCT && text->kind == EW_TEXT && product->count == text->text_length;
    for (uint32_t i = 0; same && i < product->count; i++) {
        const ew_expr *item = product->items[i];
        char letter = item->kind == EW_SYMBOL && item->text_length == 1 ? (char)(item->text[0] | 0x20)
                      : item->kind == EW_CONSTANT && item->op == EW_E   ? 'e'
                      : item->kind == EW_CONSTANT && item->op == EW_I   ? 'i'
                                                                        : 0;
        same = letter && letter == text->text[i];
    }
    return same;
}

static bool same_text(const ew_expr *a, const ew_expr *b) {
    return a->kind == EW_TEXT && b->kind == EW_TEXT && a->text_length > 0 &&
           ew_span_equal(ew_span_of(a->text, a->text_length), ew_span_of(b->text, b->text_length));
}

/* {5} as a solution set for 5 */
static bool is_single(const ew_expr *expr) {
    return expr->kind == EW_SET && expr->count == 1 && !is_collection(expr->items[0]) &&
           !(expr->items[0]->kind == EW_CONSTANT && expr->items[0]->op == EW_EMPTY);
}

static bool has_signs(const ew_expr *expr) {
    int found = 0;
    bool linked = false;
    count_signs(expr, &found, &linked);
    return found > 0 && (expr->kind != EW_BRACKET || expr->count != 2);
}

static bool both_sets(ew_comparison *c, const ew_expr *a, const ew_expr *b, bool *same) {
    ew_real_set x, y;
    if ((!ew_is_real_set(a) && !ew_is_real_set(b)) || !ew_set_of(c->work, a, &x) || !ew_set_of(c->work, b, &y)) {
        return false;
    }
    *same = ew_sets_equal(c->work, &x, &y, c->tolerance);
    return true;
}

static bool same_set_operation(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    return a->op == b->op && (same_in_order(c, a, b) || (a->op != '\\' && ew_same_answer(c, a->items[0], b->items[1]) &&
                                                         ew_same_answer(c, a->items[1], b->items[0])));
}

static bool same_kind(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    if (a->kind == EW_TEXT || b->kind == EW_TEXT) {
        return same_text(a, b) || spells(a, b) || spells(b, a);
    }
    if (a->kind == EW_MATRIX || b->kind == EW_MATRIX) {
        return same_matrix(c, a, b);
    }
    if (a->kind == EW_BRACKET || b->kind == EW_BRACKET) {
        return a->kind == b->kind && same_bracket(c, a, b);
    }
    if (a->kind == EW_CONDITION || b->kind == EW_CONDITION) {
        return a->kind == b->kind && same_in_order(c, a, b);
    }
    if (a->kind == EW_SET_OPERATION || b->kind == EW_SET_OPERATION) {
        return a->kind == b->kind && same_set_operation(c, a, b);
    }
    if (a->kind == EW_CONSTANT && b->kind == EW_CONSTANT) {
        return a->op == b->op;
    }
    return ew_same_scalar(c, a, b);
}

static bool same_by_relation(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    if (a->kind == b->kind) {
        return ew_same_relation(c, a, b);
    }
    const ew_expr *relation = a->kind == EW_RELATION ? a : b;
    const ew_expr *value = ew_relation_value(c, relation);
    return value && ew_same_answer(c, relation == a ? value : a, relation == a ? b : value);
}

/* S = {1, 2} or (x, y) = (1, 2) beside several values: what the name stands for. */
static const ew_expr *named_value(ew_comparison *c, const ew_expr *expr, const ew_expr *other) {
    const ew_expr *value = expr->kind == EW_RELATION && is_collection(other) ? ew_relation_value(c, expr) : NULL;
    return value && (is_collection(value) || value->kind == EW_BRACKET) ? value : expr;
}

static bool same_inside(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    bool same;
    a = b->kind == EW_NUMBER ? as_unit(c, a) : a;
    b = a->kind == EW_NUMBER ? as_unit(c, b) : b;
    if (a->kind == EW_UNIT || b->kind == EW_UNIT) {
        return same_units(c, a, b);
    }
    if (a->kind == EW_PERCENT || b->kind == EW_PERCENT) {
        return same_percent(c, a, b);
    }
    if (both_sets(c, a, b, &same)) {
        return same;
    }
    a = named_value(c, as_matrix(c, a), b);
    b = named_value(c, as_matrix(c, b), a);
    bool lists = c->list && c->depth == 1 && is_closed_pair(a) && is_closed_pair(b);
    if ((is_collection(a) || is_collection(b)) && !is_single(a) && !is_single(b) &&
        (is_collection(a) == is_collection(b) || a->kind == EW_BRACKET || b->kind == EW_BRACKET)) {
        return same_collection(c, a, b);
    }
    if (lists) {
        return same_members(c, a, b);
    }
    bool list_beside_value =
        (a->kind == EW_LIST) != (b->kind == EW_LIST) && a->kind != EW_BRACKET && b->kind != EW_BRACKET;
    if (has_signs(a) || has_signs(b) || is_single(a) || is_single(b) || list_beside_value) {
        return same_members(c, a, b);
    }
    if (a->kind == EW_RELATION || b->kind == EW_RELATION) {
        return same_by_relation(c, a, b);
    }
    return !is_collection(a) && !is_collection(b) && same_kind(c, a, b);
}

bool ew_same_answer(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    bool same = ++c->depth <= COMPARE_DEPTH && ew_work_spend(c->work, 50) && same_inside(c, a, b);
    c->depth--;
    return same && !ew_work_stopped(c->work);
}
