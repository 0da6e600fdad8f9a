/* Values by evaluation, equations and inequalities by the ratio of their sides' differences. */
#include "grade/compare.h"
#include "grade/evaluate.h"

#include <string.h>

enum { TRIALS = 12, LEAST_TRIALS = 6, AGREEMENTS = 3 };

bool ew_same_symbol(const ew_expr *a, const ew_expr *b) {
    return a->kind == EW_SYMBOL && b->kind == EW_SYMBOL && a->text_length == b->text_length &&
           memcmp(a->text, b->text, a->text_length) == 0;
}

/* a - b for the two sides of a relation; a alone when b is NULL. */
static ew_value difference(ew_point *point, const ew_expr *a, const ew_expr *b) {
    ew_value x = ew_evaluate_expression(point, a), y;
    if (!b || x.undefined) {
        return x;
    }
    y = ew_evaluate_expression(point, b);
    if (y.undefined || x.infinity || y.infinity) {
        return (ew_value){.undefined = true};
    }
    return (ew_value){.ball = ew_complex_subtract(ew_value_ball(&x), ew_value_ball(&y))};
}

static ew_point point_at(ew_comparison *c, uint32_t trial, const ew_contents *contents, bool log_10) {
    return (ew_point){.work = c->work,
                      .trial = trial,
                      .integers = contents->integers_wanted && contents->symbols,
                      .complex = contents->complex_wanted,
                      .log_10 = log_10};
}

/* At positive points complex values count as they are; at others a point is passed over when roots or
 * logarithms of negative numbers were met, since there the usual identities hold only up to branches. */
static bool passed_over(const ew_point *point, uint32_t trial) {
    return (trial & 1) && point->left_reals;
}

static ew_ternary same_at_points(ew_comparison *c, const ew_expr *a, const ew_expr *b, const ew_contents *contents,
                                 bool log_10) {
    int agreements = 0, wanted = contents->symbols ? AGREEMENTS : 1;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        ew_point point = point_at(c, trial, contents, log_10);
        ew_value x = ew_evaluate_expression(&point, a), y = ew_evaluate_expression(&point, b);
        if (passed_over(&point, trial)) {
            continue;
        }
        if (x.undefined != y.undefined && !ew_work_stopped(c->work)) {
            continue; /* a hole in one of them: x^2 / x at 0 */
        }
        ew_ternary equal = ew_value_equal(&x, &y, c->tolerance);
        if (equal == EW_NO || ew_work_stopped(c->work)) {
            return EW_NO;
        }
        agreements += equal == EW_YES;
        if (!contents->symbols || (agreements >= wanted && trial + 1 >= LEAST_TRIALS)) {
            break;
        }
    }
    return agreements >= wanted ? EW_YES : EW_UNDECIDED;
}

/* The same operations on the same operands: what is left for numbers like 10^10^10 that no ball holds. */
static bool same_structure(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    bool same = a->kind == b->kind && a->op == b->op && a->count == b->count && a->count > 0;
    for (uint32_t i = 0; same && i < a->count; i++) {
        same = ew_same_answer(c, a->items[i], b->items[i]);
    }
    return same;
}

static bool same_values(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    ew_contents contents = {0};
    ew_scan(a, &contents);
    ew_scan(b, &contents);
    if (contents.structure || contents.plus_minus) {
        return false;
    }
    ew_ternary same = same_at_points(c, a, b, &contents, false);
    if (same != EW_YES && contents.bare_log) {
        same = same_at_points(c, a, b, &contents, true);
    }
    return same == EW_YES || (same == EW_UNDECIDED && same_structure(c, a, b));
}

static bool same_based(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    if (a->kind != EW_NUMBER && b->kind != EW_NUMBER) {
        return same_values(c, a, b);
    }
    /* "Write it in base 8": a bare 52 is 52_8 then, and 42 is not what was asked. */
    const ew_expr *based = a->kind == EW_BASED ? a : b, *bare = a->kind == EW_BASED ? b : a;
    ew_rational digits;
    bool decimal = true;
    for (size_t i = 0; i < based->text_length; i++) {
        decimal &= based->text[i] >= '0' && based->text[i] <= '9';
    }
    return decimal && bare->kind == EW_NUMBER &&
           ew_rational_digits(c->work, based->text, based->text_length, 10, 0, &digits) &&
           ew_rational_equal(digits, bare->number);
}

bool ew_same_scalar(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    if (a->kind == EW_NUMBER && b->kind == EW_NUMBER && c->tolerance <= 0) {
        return ew_rational_equal(a->number, b->number);
    }
    if (a->kind == EW_CALL && a->op == EW_MOD && b->kind == EW_CALL && b->op == EW_MOD) { /* residue classes */
        return ew_same_answer(c, a->items[1], b->items[1]) && same_values(c, a, b);
    }
    if (a->kind == EW_BASED || b->kind == EW_BASED) {
        return same_based(c, a, b);
    }
    if ((a->kind == EW_DEGREE) != (b->kind == EW_DEGREE)) { /* 90 degrees: 90, or pi / 2 */
        const ew_expr *degree = a->kind == EW_DEGREE ? a : b, *other = a->kind == EW_DEGREE ? b : a;
        ew_contents contents = {0};
        ew_scan(other, &contents);
        if (same_values(c, degree->items[0], other)) {
            return true;
        }
        ew_point point = {.work = c->work};
        ew_value x = ew_evaluate_expression(&point, degree->items[0]), y = ew_evaluate_expression(&point, other);
        if (contents.symbols || contents.structure || x.undefined || x.infinity || other->kind == EW_NUMBER) {
            return false;
        }
        ew_real per_degree = ew_real_divide_small(ew_real_pi(), 180);
        ew_value radians = {.ball = ew_complex_multiply(ew_value_ball(&x), ew_complex_real(per_degree))};
        return ew_value_equal(&radians, &y, c->tolerance) == EW_YES;
    }
    return same_values(c, a, b);
}

static bool mentions(const ew_expr *expr, const ew_expr *symbol) {
    if (ew_same_symbol(expr, symbol)) {
        return true;
    }
    for (uint32_t i = 0; i < expr->count; i++) {
        if (mentions(expr->items[i], symbol)) {
            return true;
        }
    }
    return false;
}

/* A name for the value on the other side: x, f(x), AB, a tuple of names; not an expression with numbers. */
static bool is_name(const ew_expr *expr) {
    if (expr->kind == EW_SYMBOL) {
        return true;
    }
    if (expr->kind == EW_CONSTANT) {
        return expr->op == EW_E || expr->op == EW_I;
    }
    bool names =
        expr->count > 0 && (expr->kind == EW_PRODUCT || expr->kind == EW_QUOTIENT || expr->kind == EW_BRACKET ||
                            expr->kind == EW_UNIT || (expr->kind == EW_CALL && expr->op == EW_ABS));
    for (uint32_t i = 0; names && i < expr->count; i++) {
        names = is_name(expr->items[i]) || (expr->kind == EW_PRODUCT && i > 0 && expr->items[i]->kind == EW_NUMBER);
    }
    return names;
}

const ew_expr *ew_relation_value(ew_comparison *c, const ew_expr *relation) {
    (void)c;
    uint32_t last = relation->count - 1;
    if (relation->kind != EW_RELATION) {
        return NULL;
    }
    if (relation->count == 2 && relation->ops[0] == 'i') {
        return relation->items[0]->kind == EW_SYMBOL ? relation->items[1] : NULL;
    }
    if (relation->count == 2 && relation->ops[0] == 'e') {
        return is_name(relation->items[0]) ? relation->items[1] : NULL;
    }
    if (strspn(relation->ops, "=~") != last) {
        return NULL;
    }
    while (last > 1 && relation->ops[last - 1] == '~') { /* x = 1/3 ~ 0.33: what is before is exact */
        last--;
    }
    if (last == 1 && relation->ops[0] == '~' && !is_name(relation->items[0])) {
        return relation->items[0];
    }
    const ew_expr *value = relation->items[last], *name = relation->items[0];
    ew_contents contents = {0};
    ew_scan(value, &contents);
    if (is_name(name) && !(name->kind == EW_SYMBOL && mentions(value, name))) {
        if (contents.symbols && value->kind == EW_SYMBOL && name->kind == EW_SYMBOL) {
            return NULL; /* x = y says more than either */
        }
        return value;
    }
    if (last == 1 && is_name(value) && value->kind == EW_SYMBOL && !mentions(name, value)) {
        return name; /* 5 = x */
    }
    /* x + y = 7, 2 + 3 = 5: the value asked for stands on the right; an equation against 0 gives none. */
    bool zero = value->kind == EW_NUMBER && ew_rational_is_zero(value->number);
    return !contents.symbols && !zero ? value : NULL;
}

/* The sides' differences of a and b are in one ratio everywhere; its sign is returned: 0 when they are not.
 */
static int constant_ratio(ew_comparison *c, const ew_expr *a, const ew_expr *b, bool log_10) {
    ew_contents contents = {0};
    ew_complex ratio = ew_complex_undefined();
    int agreements = 0;
    ew_scan(a->items[0], &contents), ew_scan(a->items[1], &contents);
    ew_scan(b->items[0], &contents), ew_scan(b->items[1], &contents);
    if (contents.structure || contents.plus_minus) {
        return 0;
    }
    for (uint32_t trial = 0; trial < TRIALS && (agreements < AGREEMENTS || trial < LEAST_TRIALS); trial++) {
        ew_point point = point_at(c, trial, &contents, log_10);
        ew_value x = difference(&point, a->items[0], a->items[1]), y = difference(&point, b->items[0], b->items[1]);
        ew_complex here = ew_complex_divide(ew_value_ball(&x), ew_value_ball(&y));
        if (passed_over(&point, trial) || ew_complex_is_undefined(here)) {
            continue;
        }
        if (ew_work_stopped(c->work) || (ew_real_may_be_zero(here.re) && ew_real_may_be_zero(here.im))) {
            return 0;
        }
        if (agreements > 0 && ew_complex_equal(ratio, here) != EW_YES) {
            return 0;
        }
        ratio = here;
        agreements++;
    }
    return agreements < AGREEMENTS ? 0 : ew_real_is_negative(ratio.re) ? -1 : 1;
}

static char turned(char op) {
    return op == '<' ? '>' : op == '>' ? '<' : op == 'l' ? 'g' : op == 'g' ? 'l' : op;
}

static bool is_application(const ew_expr *expr) {
    return expr->kind == EW_PRODUCT && expr->count == 2 && expr->items[0]->kind == EW_SYMBOL &&
           expr->items[1]->kind == EW_SYMBOL;
}

/* c > b > a for a < b < c */
static bool reversed_equal(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++) {
        same = (i + 1 == a->count || (a->ops[i] == turned(b->ops[a->count - 2 - i]) && !strchr("ie", a->ops[i]))) &&
               ew_same_answer(c, a->items[i], b->items[a->count - 1 - i]);
    }
    return same;
}

bool ew_same_relation(ew_comparison *c, const ew_expr *a, const ew_expr *b) {
    bool same_ops = a->count == b->count && memcmp(a->ops, b->ops, a->count - 1) == 0;
    if (same_ops) {
        bool same = true;
        for (uint32_t i = 0; same && i < a->count; i++) {
            same = ew_same_answer(c, a->items[i], b->items[i]);
        }
        if (same) {
            return true;
        }
    }
    if (reversed_equal(c, a, b)) {
        return true;
    }
    if (a->count == 2 && b->count == 2 && a->ops[0] != 'e' && b->ops[0] != 'e') {
        int sign = constant_ratio(c, a, b, false);
        sign = sign ? sign : constant_ratio(c, a, b, true);
        char op = sign < 0 ? turned(b->ops[0]) : b->ops[0];
        if (sign && op == a->ops[0]) {
            return true;
        }
    }
    if (same_ops && a->count == 2 && a->ops[0] == '=' && ew_same_symbol(a->items[0], b->items[0])) {
        return false;
    }
    /* f(x) = x^2 against y = x^2 */
    const ew_expr *left = a->items[0], *right = b->items[0];
    if ((is_application(left) && ew_expr_is_symbol(right, 'y')) ||
        (is_application(right) && ew_expr_is_symbol(left, 'y'))) {
        const ew_expr *x = ew_relation_value(c, a), *y = ew_relation_value(c, b);
        return x && y && ew_same_answer(c, x, y);
    }
    /* x = 2 + 3 = 5 against x = 5: the names and the values agree */
    const ew_expr *x = ew_relation_value(c, a), *y = ew_relation_value(c, b);
    return x && y && (a->count > 2 || b->count > 2) && ew_same_answer(c, a->items[0], b->items[0]) &&
           ew_same_answer(c, x, y);
}
