#include "grade/sets.h"

#include <string.h>

typedef struct builder {
    ew_work *work;
    const ew_expr *variable; /* the one symbol met so far */
    int depth;
} builder;

enum { SET_DEPTH = 12 }; /* a level holds sets of some 10 KB on the stack */

static ew_value evaluate(ew_work *work, const ew_expr *expr) {
    ew_point point = {.work = work};
    ew_contents contents = {0};
    ew_scan(expr, &contents);
    return contents.symbols || contents.plus_minus ? (ew_value){.undefined = true}
                                                   : ew_evaluate_expression(&point, expr);
}

/* -1, 0, 1, or 2 when the order cannot be told. */
static int order(ew_work *work, const ew_value *a, const ew_value *b) {
    if (a->infinity || b->infinity) {
        return a->infinity < b->infinity ? -1 : a->infinity > b->infinity;
    }
    if (a->exact && b->exact) {
        return ew_rational_compare(work, a->rational, b->rational);
    }
    ew_complex x = ew_value_ball(a), y = ew_value_ball(b);
    if (!ew_complex_is_real(x) || !ew_complex_is_real(y)) {
        return 2;
    }
    ew_real difference = ew_real_subtract(x.re, y.re);
    return ew_real_is_negative(difference)       ? -1
           : ew_real_is_positive(difference)     ? 1
           : ew_real_equal(x.re, y.re) == EW_YES ? 0
                                                 : 2;
}

static ew_value infinity(int sign) {
    return (ew_value){.infinity = (int8_t)sign};
}

static void one_interval(ew_real_set *set, ew_value low, bool low_closed, ew_value high, bool high_closed) {
    set->count = 1;
    set->intervals[0] = (ew_interval){low, high, low_closed && !low.infinity, high_closed && !high.infinity};
}

static void all_reals(ew_real_set *set) {
    one_interval(set, infinity(-1), false, infinity(1), false);
}

/* Does a begin before b? Ties: a closed end begins first. */
static int begins(ew_work *work, const ew_interval *a, const ew_interval *b) {
    int by_value = order(work, &a->low, &b->low);
    return by_value ? by_value : (int)b->low_closed - (int)a->low_closed;
}

static bool is_empty(ew_work *work, const ew_interval *i, bool *empty) {
    int by_value = order(work, &i->low, &i->high);
    *empty = by_value == 1 || (by_value == 0 && !(i->low_closed && i->high_closed));
    return by_value != 2;
}

/* Sorted, empty intervals gone, touching ones joined. */
static bool normalize(ew_work *work, ew_real_set *set) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        ew_interval item = set->intervals[i];
        bool empty;
        if (!is_empty(work, &item, &empty)) {
            return false;
        }
        uint32_t at = empty ? 0 : kept++;
        for (; !empty && at > 0; at--) {
            int before = begins(work, &set->intervals[at - 1], &item);
            if (before == 2) {
                return false;
            }
            if (before <= 0) {
                break;
            }
            set->intervals[at] = set->intervals[at - 1];
        }
        if (!empty) {
            set->intervals[at] = item;
        }
    }
    set->count = kept;
    kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        ew_interval *last = kept ? &set->intervals[kept - 1] : NULL, *next = &set->intervals[i];
        int gap = last ? order(work, &last->high, &next->low) : -1;
        if (gap == 2) {
            return false;
        }
        if (gap < 0 || (gap == 0 && !last->high_closed && !next->low_closed)) {
            set->intervals[kept++] = *next;
            continue;
        }
        int ends = order(work, &last->high, &next->high);
        if (ends == 2) {
            return false;
        }
        if (ends < 0) {
            last->high = next->high;
            last->high_closed = next->high_closed;
        } else if (ends == 0) {
            last->high_closed |= next->high_closed;
        }
    }
    set->count = kept;
    return true;
}

static bool unite(ew_work *work, ew_real_set *a, const ew_real_set *b) {
    if (a->count + b->count > EW_INTERVALS) {
        return false;
    }
    memcpy(a->intervals + a->count, b->intervals, b->count * sizeof *b->intervals);
    a->count += b->count;
    return normalize(work, a);
}

static bool complement(ew_real_set *set) {
    ew_real_set result = {0};
    ew_value low = infinity(-1);
    bool closed = false;
    for (uint32_t i = 0; i <= set->count; i++) {
        const ew_interval *next = i < set->count ? &set->intervals[i] : NULL;
        if (!(next && next->low.infinity) && !(!next && low.infinity > 0)) {
            if (result.count == EW_INTERVALS) {
                return false;
            }
            result.intervals[result.count++] =
                (ew_interval){low, next ? next->low : infinity(1), closed, next ? !next->low_closed : false};
        }
        if (next) {
            low = next->high;
            closed = !next->high_closed && !next->high.infinity;
        }
    }
    *set = result;
    return true;
}

static bool intersect(ew_work *work, ew_real_set *a, const ew_real_set *b) {
    ew_real_set other = *b;
    return complement(a) && complement(&other) && unite(work, a, &other) && complement(a) && normalize(work, a);
}

static bool build(builder *b, const ew_expr *expr, ew_real_set *set);

static bool same_symbol(builder *b, const ew_expr *symbol) {
    if (!b->variable) {
        b->variable = symbol;
    }
    return symbol->text_length == b->variable->text_length &&
           memcmp(symbol->text, b->variable->text, symbol->text_length) == 0;
}

static char mirrored(char op) {
    return op == '<' ? '>' : op == '>' ? '<' : op == 'l' ? 'g' : op == 'g' ? 'l' : op;
}

/* x op value */
static bool ray(builder *b, char op, const ew_expr *value, ew_real_set *set) {
    if (op == 'i') {
        return build(b, value, set);
    }
    ew_value at = evaluate(b->work, value);
    if (at.undefined) {
        return false;
    }
    switch (op) {
    case '<':
        one_interval(set, infinity(-1), false, at, false);
        break;
    case 'l':
        one_interval(set, infinity(-1), false, at, true);
        break;
    case '>':
        one_interval(set, at, false, infinity(1), false);
        break;
    case 'g':
        one_interval(set, at, true, infinity(1), false);
        break;
    case '=':
        one_interval(set, at, true, at, true);
        break;
    case 'n':
        one_interval(set, at, true, at, true);
        return complement(set);
    default:
        return false;
    }
    return normalize(b->work, set);
}

/* |x| < c, |x| >= c */
static bool absolute(builder *b, const ew_expr *expr, ew_real_set *set) {
    const ew_expr *left = expr->items[0];
    char op = expr->ops[0];
    ew_value limit = evaluate(b->work, expr->items[1]), zero = {.exact = true, .rational = ew_rational_small(0)};
    if (left->items[0]->kind != EW_SYMBOL || !same_symbol(b, left->items[0]) || !strchr("<l>g", op) ||
        limit.undefined || limit.infinity || order(b->work, &limit, &zero) != 1) {
        return false;
    }
    ew_value minus = limit;
    if (limit.exact) {
        minus.rational = ew_rational_negate(limit.rational);
    } else {
        minus.ball = ew_complex_negate(limit.ball);
    }
    bool inside = op == '<' || op == 'l', closed = op == 'l' || op == '>'; /* the complement of an open ray is closed */
    one_interval(set, minus, closed, limit, closed);
    return inside || complement(set);
}

static bool relation(builder *b, const ew_expr *expr, ew_real_set *set) {
    bool any = false;
    if (expr->count == 2 && expr->items[0]->kind == EW_CALL && expr->items[0]->op == EW_ABS) {
        return absolute(b, expr, set);
    }
    all_reals(set);
    for (uint32_t i = 0; i + 1 < expr->count; i++) {
        const ew_expr *left = expr->items[i], *right = expr->items[i + 1];
        bool symbol_left = left->kind == EW_SYMBOL;
        const ew_expr *symbol = symbol_left ? left : right;
        ew_real_set part;
        if (symbol->kind != EW_SYMBOL || !same_symbol(b, symbol) || (!symbol_left && expr->ops[i] == 'i') ||
            !ray(b, symbol_left ? expr->ops[i] : mirrored(expr->ops[i]), symbol_left ? right : left, &part) ||
            !intersect(b->work, set, &part)) {
            return false;
        }
        any = true;
    }
    return any;
}

/* x != 1: bare values behind it in a list are excluded, too. */
static bool is_exclusion(const ew_expr *expr) {
    return expr->kind == EW_RELATION && expr->count == 2 && expr->ops[0] == 'n';
}

/* Conditions side by side: "or" unites, "and" intersects; a comma intersects unless nothing would be left. */
static bool conditions(builder *b, const ew_expr *expr, ew_real_set *set) {
    ew_real_set part, joined;
    for (uint32_t i = 0; i < expr->count; i++) {
        const ew_expr *item = expr->items[i];
        bool built = item->kind == EW_RELATION      ? build(b, item, &part)
                     : is_exclusion(expr->items[0]) ? i > 0 && ray(b, 'n', item, &part)
                                                    : false;
        if (!built) {
            return false;
        }
        if (i == 0) {
            *set = joined = part;
        } else if (expr->op == '|') {
            if (!unite(b->work, set, &part)) {
                return false;
            }
        } else if (!intersect(b->work, set, &part) || !unite(b->work, &joined, &part)) {
            return false;
        }
    }
    if (expr->op == ',' && set->count == 0) {
        *set = joined;
    }
    return true;
}

static bool operation(builder *b, const ew_expr *expr, ew_real_set *set) {
    ew_real_set right;
    if (!build(b, expr->items[0], set) || !build(b, expr->items[1], &right)) {
        return false;
    }
    if (expr->op == '|') {
        return unite(b->work, set, &right);
    }
    return (expr->op != '\\' || complement(&right)) && intersect(b->work, set, &right);
}

/* R - {1} */
static bool is_difference(const ew_expr *expr) {
    return expr->kind == EW_SUM && expr->count == 2 && ew_is_real_set(expr->items[0]) &&
           expr->items[1]->kind == EW_NEGATIVE;
}

static bool difference(builder *b, const ew_expr *expr, ew_real_set *set) {
    ew_real_set right;
    return build(b, expr->items[0], set) && build(b, expr->items[1]->items[0], &right) && complement(&right) &&
           intersect(b->work, set, &right);
}

static bool points(builder *b, const ew_expr *expr, ew_real_set *set) {
    set->count = 0;
    for (uint32_t i = 0; i < expr->count; i++) {
        ew_value value = evaluate(b->work, expr->items[i]);
        ew_real_set point;
        one_interval(&point, value, true, value, true);
        if (value.undefined || value.infinity || !unite(b->work, set, &point)) {
            return false;
        }
    }
    return true;
}

static bool build_node(builder *b, const ew_expr *expr, ew_real_set *set) {
    switch (expr->kind) {
    case EW_BRACKET: {
        bool interval =
            expr->count == 2 && (expr->open == '(' || expr->open == '[') && (expr->close == ')' || expr->close == ']');
        ew_value low = interval ? evaluate(b->work, expr->items[0]) : infinity(1);
        ew_value high = interval ? evaluate(b->work, expr->items[1]) : infinity(1);
        if (!interval || low.undefined || high.undefined || low.infinity > 0 || high.infinity < 0) {
            return false;
        }
        one_interval(set, low, expr->open == '[', high, expr->close == ']');
        return normalize(b->work, set);
    }
    case EW_SET:
        return points(b, expr, set);
    case EW_CONSTANT:
        set->count = 0;
        if (expr->op == EW_REALS) {
            all_reals(set);
        }
        return expr->op == EW_REALS || expr->op == EW_EMPTY;
    case EW_SET_OPERATION:
        return operation(b, expr, set);
    case EW_SUM:
        return is_difference(expr) && difference(b, expr, set);
    case EW_RELATION:
        return relation(b, expr, set);
    case EW_LIST:
        return conditions(b, expr, set);
    case EW_CONDITION:
        return build(b, expr->items[1], set);
    default:
        return false;
    }
}

static bool build(builder *b, const ew_expr *expr, ew_real_set *set) {
    bool built = ++b->depth <= SET_DEPTH && ew_work_spend(b->work, 500) && build_node(b, expr, set);
    b->depth--;
    return built;
}

static bool is_inequality(const ew_expr *expr) {
    return expr->kind == EW_RELATION && strpbrk(expr->ops, "<>lgni") != NULL;
}

bool ew_is_real_set(const ew_expr *expr) {
    switch (expr->kind) {
    case EW_SET_OPERATION:
    case EW_CONDITION:
        return true;
    case EW_SUM:
        return is_difference(expr);
    case EW_CONSTANT:
        return expr->op == EW_REALS || expr->op == EW_EMPTY;
    case EW_RELATION:
        return is_inequality(expr);
    case EW_BRACKET:
        return expr->count == 2 && (expr->open == '[') != (expr->close == ']');
    case EW_LIST:
        for (uint32_t i = 0; i < expr->count; i++) {
            if (!is_inequality(expr->items[i]) && !is_exclusion(expr->items[0])) {
                return false;
            }
        }
        return true;
    default:
        return false;
    }
}

bool ew_set_of(ew_work *work, const ew_expr *expr, ew_real_set *set) {
    builder b = {.work = work};
    return build(&b, expr, set) && !ew_work_stopped(work);
}

bool ew_sets_equal(ew_work *work, const ew_real_set *a, const ew_real_set *b, double tolerance) {
    if (a->count != b->count) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const ew_interval *x = &a->intervals[i], *y = &b->intervals[i];
        if (x->low_closed != y->low_closed || x->high_closed != y->high_closed ||
            ew_value_equal(&x->low, &y->low, tolerance) != EW_YES ||
            ew_value_equal(&x->high, &y->high, tolerance) != EW_YES) {
            return false;
        }
    }
    return !ew_work_stopped(work);
}
