#include "grade/evaluate.h"

#include <math.h>
#include <string.h>

enum { COST_ARITHMETIC = 100, COST_FUNCTION = 4000, FACTORIAL_LIMIT = 1000 };

static ew_value undefined(void) {
    return (ew_value){.undefined = true};
}
static ew_value exact(ew_rational value) {
    return (ew_value){.exact = true, .rational = value};
}

static ew_value inexact(ew_complex ball) {
    return ew_complex_is_undefined(ball) ? undefined() : (ew_value){.ball = ball};
}

ew_complex ew_value_ball(const ew_value *value) {
    if (value->undefined || value->infinity) {
        return ew_complex_undefined();
    }
    return value->exact ? ew_complex_real(ew_real_from_rational(value->rational)) : value->ball;
}

/* ---- Arithmetic ---- */

static ew_value negate(ew_value a) {
    a.infinity = (int8_t)-a.infinity;
    if (a.exact) {
        a.rational = ew_rational_negate(a.rational);
    } else {
        a.ball = ew_complex_negate(a.ball);
    }
    return a;
}

static bool usable(const ew_value *a, const ew_value *b) {
    return !a->undefined && !b->undefined;
}

static ew_value add(ew_point *point, ew_value a, ew_value b) {
    ew_rational sum;
    if (!usable(&a, &b) || !ew_work_spend(point->work, COST_ARITHMETIC)) {
        return undefined();
    }
    if (a.infinity || b.infinity) {
        return a.infinity && b.infinity && a.infinity != b.infinity ? undefined() : a.infinity ? a : b;
    }
    if (a.exact && b.exact && ew_rational_add(point->work, a.rational, b.rational, &sum)) {
        return exact(sum);
    }
    return inexact(ew_complex_add(ew_value_ball(&a), ew_value_ball(&b)));
}

static int sign_of(const ew_value *a) {
    if (a->infinity) {
        return a->infinity;
    }
    if (a->exact) {
        return ew_rational_is_zero(a->rational) ? 0 : a->rational.negative ? -1 : 1;
    }
    return ew_complex_is_real(a->ball) ? ew_real_is_positive(a->ball.re) - ew_real_is_negative(a->ball.re) : 0;
}

static ew_value multiply(ew_point *point, ew_value a, ew_value b) {
    ew_rational product;
    if (!usable(&a, &b) || !ew_work_spend(point->work, COST_ARITHMETIC)) {
        return undefined();
    }
    if (a.infinity || b.infinity) {
        int sign = sign_of(&a) * sign_of(&b);
        return sign ? (ew_value){.infinity = (int8_t)sign} : undefined();
    }
    if (a.exact && b.exact && ew_rational_multiply(point->work, a.rational, b.rational, &product)) {
        return exact(product);
    }
    if ((a.exact && ew_rational_is_zero(a.rational)) || (b.exact && ew_rational_is_zero(b.rational))) {
        return exact(ew_rational_small(0));
    }
    return inexact(ew_complex_multiply(ew_value_ball(&a), ew_value_ball(&b)));
}

static ew_value divide(ew_point *point, ew_value a, ew_value b) {
    ew_rational quotient;
    if (!usable(&a, &b) || a.infinity || !ew_work_spend(point->work, COST_ARITHMETIC)) {
        return undefined();
    }
    if (b.infinity) {
        return exact(ew_rational_small(0));
    }
    if (b.exact && ew_rational_is_zero(b.rational)) {
        return undefined();
    }
    if (a.exact && b.exact && ew_rational_divide(point->work, a.rational, b.rational, &quotient)) {
        return exact(quotient);
    }
    return inexact(ew_complex_divide(ew_value_ball(&a), ew_value_ball(&b)));
}

/* ---- Powers ---- */

static ew_value square_root(ew_point *point, ew_value a) {
    ew_rational root;
    if (a.undefined || a.infinity || !ew_work_spend(point->work, COST_ARITHMETIC)) {
        return a.infinity > 0 ? a : undefined();
    }
    if (a.exact && ew_rational_sqrt(point->work, a.rational, &root)) {
        return exact(root);
    }
    point->left_reals |= sign_of(&a) < 0 || (!a.exact && !ew_complex_is_real(a.ball));
    return inexact(ew_complex_sqrt(ew_value_ball(&a)));
}

static ew_value exp_of_product(ew_point *point, ew_complex base, ew_complex exponent) {
    if (!ew_work_spend(point->work, 3 * COST_FUNCTION)) {
        return undefined();
    }
    return inexact(ew_complex_exp(ew_complex_multiply(exponent, ew_complex_log(base))));
}

/* A negative base under an exact p/q: the real root if q is odd, the principal value otherwise. */
static ew_value rational_power(ew_point *point, ew_value a, ew_rational exponent) {
    if (a.exact && ew_rational_is_zero(a.rational)) {
        return exponent.negative || ew_rational_is_zero(exponent) ? undefined() : a;
    }
    ew_rational half = {ew_rational_small(1).numerator, ew_rational_small(2).numerator, 1, 1, false};
    if (ew_rational_equal(exponent, half)) {
        return square_root(point, a);
    }
    bool negative = sign_of(&a) < 0, odd_root = exponent.denominator[0] & 1;
    if (negative && odd_root) {
        ew_value magnitude = rational_power(point, negate(a), exponent);
        return exponent.numerator[0] & 1 ? negate(magnitude) : magnitude;
    }
    point->left_reals |= negative;
    ew_value e = exact(exponent);
    return exp_of_product(point, ew_value_ball(&a), ew_value_ball(&e));
}

static ew_value raise(ew_point *point, ew_value a, ew_value b) {
    int64_t n;
    ew_rational power;
    if (!usable(&a, &b) || b.infinity) {
        return undefined();
    }
    if (a.infinity) {
        return b.exact && ew_rational_to_int64(b.rational, &n) && n > 0
                   ? (ew_value){.infinity = (int8_t)(n & 1 ? a.infinity : 1)}
                   : undefined();
    }
    if (b.exact && ew_rational_is_zero(b.rational)) {
        return exact(ew_rational_small(1));
    }
    if (b.exact && ew_rational_is_integer(b.rational)) {
        if (a.exact && ew_rational_to_int64(b.rational, &n) && ew_rational_power(point->work, a.rational, n, &power)) {
            return exact(power);
        }
        if (a.exact && ew_rational_is_zero(a.rational)) {
            return b.rational.negative ? undefined() : a;
        }
        if (ew_rational_to_int64(b.rational, &n) && n >= -64 && n <= 64) {
            return ew_work_spend(point->work, 8 * COST_ARITHMETIC) ? inexact(ew_complex_power(ew_value_ball(&a), n))
                                                                   : undefined();
        }
        if (ew_complex_is_real(ew_value_ball(&a))) {
            return rational_power(point, a, b.rational);
        }
    }
    if (b.exact) {
        return rational_power(point, a, b.rational);
    }
    if (!a.exact || !ew_rational_is_zero(a.rational)) {
        point->left_reals |= sign_of(&a) < 0;
        return exp_of_product(point, ew_value_ball(&a), ew_value_ball(&b));
    }
    return undefined();
}

/* ---- Functions ---- */

static ew_value factorial(ew_point *point, ew_value a, int step) {
    int64_t n;
    ew_value result = exact(ew_rational_small(1));
    if (!a.exact || !ew_rational_to_int64(a.rational, &n) || n < 0 || n > FACTORIAL_LIMIT) {
        return undefined();
    }
    for (; n > 1 && !result.undefined; n -= step) {
        ew_rational factor;
        if (!ew_rational_integer(point->work, n, &factor)) {
            return undefined();
        }
        result = multiply(point, result, exact(factor));
    }
    return result;
}

static ew_value binomial(ew_point *point, ew_value n, ew_value k) {
    int64_t top, low;
    ew_value result = exact(ew_rational_small(1));
    if (!n.exact || !k.exact || !ew_rational_to_int64(n.rational, &top) || !ew_rational_to_int64(k.rational, &low)) {
        return undefined();
    }
    if (low < 0 || top < 0 || low > top) {
        return top < 0 ? undefined() : exact(ew_rational_small(0));
    }
    low = low > top - low ? top - low : low;
    for (int64_t i = 1; i <= low && i <= FACTORIAL_LIMIT + 1 && !result.undefined; i++) {
        ew_rational up, down;
        if (i > FACTORIAL_LIMIT || !ew_rational_integer(point->work, top - low + i, &up) ||
            !ew_rational_integer(point->work, i, &down)) {
            return undefined();
        }
        result = divide(point, multiply(point, result, exact(up)), exact(down));
    }
    return result;
}

static ew_value rounded_down(ew_point *point, ew_value a) {
    ew_rational floor;
    if (a.exact) {
        return ew_rational_floor(point->work, a.rational, &floor) ? exact(floor) : undefined();
    }
    if (a.undefined || a.infinity || !ew_complex_is_real(a.ball) || fabs(ew_real_to_double(a.ball.re)) > 1e15) {
        return undefined();
    }
    int64_t guess = (int64_t)nearbyint(ew_real_to_double(a.ball.re));
    ew_real rest = ew_real_subtract(a.ball.re, ew_real_from_int(guess));
    if (ew_real_is_negative(rest)) { /* within a hair of an integer it counts as that integer */
        guess--;
    }
    return ew_rational_integer(point->work, guess, &floor) ? exact(floor) : undefined();
}

static ew_value absolute(ew_value a) {
    if (a.infinity) {
        return (ew_value){.infinity = 1};
    }
    if (a.exact) {
        a.rational.negative = false;
        return a;
    }
    return a.undefined ? a : inexact(ew_complex_real(ew_complex_abs(a.ball)));
}

static bool greater(ew_point *point, const ew_value *a, const ew_value *b) {
    ew_value difference = add(point, *a, negate(*b));
    return sign_of(&difference) > 0;
}

/* gcd and lcm of two positive integers by Euclid; exact arguments only. */
static ew_value common(ew_point *point, ew_function function, ew_value a, ew_value b) {
    ew_value x = absolute(a), y = absolute(b);
    if (!a.exact || !b.exact || !ew_rational_is_integer(a.rational) || !ew_rational_is_integer(b.rational)) {
        return undefined();
    }
    for (int i = 0; i < 5000 && !ew_rational_is_zero(y.rational); i++) {
        ew_value quotient = rounded_down(point, divide(point, x, y));
        ew_value rest = add(point, x, negate(multiply(point, quotient, y)));
        if (!rest.exact) {
            return undefined();
        }
        x = y;
        y = rest;
    }
    return function == EW_GCD ? x : absolute(divide(point, multiply(point, a, b), x));
}

static ew_value fold(ew_point *point, const ew_expr *expr) {
    ew_value result = ew_evaluate_expression(point, expr->items[0]);
    for (uint32_t i = 1; i < expr->count && !result.undefined; i++) {
        ew_value next = ew_evaluate_expression(point, expr->items[i]);
        if (next.undefined) {
            return next;
        }
        if (expr->op == EW_GCD || expr->op == EW_LCM) {
            result = common(point, (ew_function)expr->op, result, next);
        } else if (greater(point, &next, &result) == (expr->op == EW_MAX)) {
            result = next;
        }
    }
    return result;
}

static ew_complex reciprocal(ew_complex a) {
    return ew_complex_divide(ew_complex_real(ew_real_from_int(1)), a);
}

static ew_complex circular(ew_function function, ew_complex a) {
    ew_complex sine, cosine;
    ew_complex_sin_cos(a, &sine, &cosine);
    switch (function) {
    case EW_SIN:
        return sine;
    case EW_COS:
        return cosine;
    case EW_TAN:
        return ew_complex_divide(sine, cosine);
    case EW_COT:
        return ew_complex_divide(cosine, sine);
    case EW_SEC:
        return reciprocal(cosine);
    default:
        return reciprocal(sine);
    }
}

static ew_complex inverse_circular(ew_function function, ew_complex a) {
    ew_complex quarter = ew_complex_real(ew_real_scale(ew_real_pi(), -1));
    switch (function) {
    case EW_ASIN:
        return ew_complex_asin(a);
    case EW_ACOS:
        return ew_complex_subtract(quarter, ew_complex_asin(a));
    case EW_ATAN:
        return ew_complex_atan(a);
    case EW_ACOT:
        return ew_complex_subtract(quarter, ew_complex_atan(a));
    case EW_ACSC:
        return ew_complex_asin(reciprocal(a));
    default:
        return ew_complex_subtract(quarter, ew_complex_asin(reciprocal(a)));
    }
}

static ew_complex hyperbolic(ew_function function, ew_complex a) {
    ew_complex up = ew_complex_exp(a), down = ew_complex_exp(ew_complex_negate(a));
    ew_complex sine = ew_complex_scale(ew_complex_subtract(up, down), -1);
    ew_complex cosine = ew_complex_scale(ew_complex_add(up, down), -1);
    switch (function) {
    case EW_SINH:
        return sine;
    case EW_COSH:
        return cosine;
    case EW_TANH:
        return ew_complex_divide(sine, cosine);
    case EW_COTH:
        return ew_complex_divide(cosine, sine);
    case EW_SECH:
        return reciprocal(cosine);
    default:
        return reciprocal(sine);
    }
}

static ew_complex inverse_hyperbolic(ew_function function, ew_complex a) {
    ew_complex one = ew_complex_real(ew_real_from_int(1)), square = ew_complex_multiply(a, a);
    if (function == EW_ATANH) {
        return ew_complex_scale(ew_complex_log(ew_complex_divide(ew_complex_add(one, a), ew_complex_subtract(one, a))),
                                -1);
    }
    square = function == EW_ASINH ? ew_complex_add(square, one) : ew_complex_subtract(square, one);
    return ew_complex_log(ew_complex_add(a, ew_complex_sqrt(square)));
}

static ew_value logarithm(ew_point *point, const ew_expr *expr, ew_value a) {
    ew_value base = {.undefined = true};
    bool natural = expr->op == EW_LN || (expr->count < 2 && !point->log_10);
    point->left_reals |= sign_of(&a) < 0;
    if (a.infinity > 0) {
        return a;
    }
    if (natural) {
        return inexact(ew_complex_log(ew_value_ball(&a)));
    }
    base = expr->count > 1 ? ew_evaluate_expression(point, expr->items[1]) : exact(ew_rational_small(10));
    if (!ew_work_spend(point->work, COST_FUNCTION)) {
        return undefined();
    }
    return inexact(ew_complex_divide(ew_complex_log(ew_value_ball(&a)), ew_complex_log(ew_value_ball(&base))));
}

/* Degrees below a circular function are angles: pi / 180 each. */
static ew_value angle(ew_point *point, const ew_expr *expr, ew_value a) {
    ew_contents contents = {0};
    ew_scan(expr, &contents);
    if (!contents.degrees) {
        return a;
    }
    ew_value pi = inexact(ew_complex_real(ew_real_divide_small(ew_real_pi(), 180)));
    return multiply(point, a, pi);
}

static ew_value part(const ew_expr *expr, ew_value a) {
    ew_complex ball = ew_value_ball(&a);
    switch (expr->op) {
    case EW_RE:
        return inexact(ew_complex_real(ball.re));
    case EW_IM:
        return inexact(ew_complex_real(ball.im));
    case EW_ARG:
        return inexact(ew_complex_real(ew_real_atan2(ball.im, ball.re)));
    default:
        ball.im = ew_real_negate(ball.im);
        return a.exact ? a : inexact(ball);
    }
}

static ew_value transcendental(ew_point *point, const ew_expr *expr, ew_value a) {
    ew_function function = (ew_function)expr->op;
    if (a.undefined || a.infinity || !ew_work_spend(point->work, COST_FUNCTION)) {
        return undefined();
    }
    if (function <= EW_CSC) {
        a = angle(point, expr->items[0], a);
        ew_complex ball = ew_value_ball(&a);
        return inexact(circular(function, ball));
    }
    ew_complex ball = ew_value_ball(&a);
    return inexact(function <= EW_ACSC    ? inverse_circular(function, ball)
                   : function <= EW_CSCH  ? hyperbolic(function, ball)
                   : function <= EW_ATANH ? inverse_hyperbolic(function, ball)
                                          : ew_complex_exp(ball));
}

enum { DETERMINANT_LIMIT = 5 };

/* By the first row; `used` has a bit for every column taken. */
static ew_value minor_of(ew_point *point, const ew_expr *matrix, uint32_t row, unsigned used) {
    ew_value sum = exact(ew_rational_small(row == matrix->columns));
    bool negative = false;
    for (uint32_t column = 0; column < matrix->columns && row < matrix->columns && !sum.undefined; column++) {
        if (used & (1U << column)) {
            continue;
        }
        ew_value cell = ew_evaluate_expression(point, matrix->items[row * matrix->columns + column]);
        ew_value term = multiply(point, cell, minor_of(point, matrix, row + 1, used | 1U << column));
        sum = add(point, sum, negative ? negate(term) : term);
        negative = !negative;
    }
    return sum;
}

static ew_value determinant(ew_point *point, const ew_expr *matrix) {
    bool square = matrix->kind == EW_MATRIX && matrix->columns * matrix->columns == matrix->count;
    return square && matrix->columns <= DETERMINANT_LIMIT ? minor_of(point, matrix, 0, 0) : undefined();
}

/* An index of a sum and the value it has now. */
typedef struct ew_binding {
    const ew_expr *index;
    int64_t value;
    const struct ew_binding *outer;
} ew_binding;

static bool same_name(const ew_expr *a, const ew_expr *b) {
    return a->kind == b->kind && a->op == b->op && a->text_length == b->text_length &&
           (a->text_length == 0 || memcmp(a->text, b->text, a->text_length) == 0);
}

static const ew_binding *bound(const ew_point *point, const ew_expr *name) {
    const ew_binding *binding = point->bindings;
    while (binding && !same_name(binding->index, name)) {
        binding = binding->outer;
    }
    return binding;
}

static ew_value remainder_of(ew_point *point, ew_value a, ew_value b) {
    if (!a.exact || !b.exact) {
        return undefined();
    }
    return add(point, a, negate(multiply(point, b, rounded_down(point, divide(point, a, b)))));
}

enum { TERMS_LIMIT = 1000 };

static ew_value sum_over(ew_point *point, const ew_expr *expr) {
    ew_value from = ew_evaluate_expression(point, expr->items[1]), to = ew_evaluate_expression(point, expr->items[2]);
    ew_binding binding = {.index = expr->items[0], .outer = point->bindings};
    bool sum = expr->op == EW_SUM_OVER;
    int64_t last;
    if (!from.exact || !to.exact || !ew_rational_to_int64(from.rational, &binding.value) ||
        !ew_rational_to_int64(to.rational, &last) || last - binding.value >= TERMS_LIMIT) {
        return undefined();
    }
    ew_value total = exact(ew_rational_small(!sum));
    point->bindings = &binding;
    for (; binding.value <= last && !total.undefined; binding.value++) {
        ew_value term = ew_evaluate_expression(point, expr->items[3]);
        total = sum ? add(point, total, term) : multiply(point, total, term);
    }
    point->bindings = binding.outer;
    return total;
}

static ew_value call(ew_point *point, const ew_expr *expr) {
    ew_function function = (ew_function)expr->op;
    if (function >= EW_SUM_OVER) {
        return sum_over(point, expr);
    }
    if (function == EW_MOD) {
        ew_value value = ew_evaluate_expression(point, expr->items[0]);
        return remainder_of(point, value, ew_evaluate_expression(point, expr->items[1]));
    }
    if (function == EW_DETERMINANT) {
        return determinant(point, expr->items[0]);
    }
    if (function >= EW_GCD) {
        return fold(point, expr);
    }
    ew_value a = ew_evaluate_expression(point, expr->items[0]);
    ew_value b = expr->count > 1 && function != EW_LOG ? ew_evaluate_expression(point, expr->items[1])
                                                       : exact(ew_rational_small(1));
    if (!usable(&a, &b)) {
        return undefined();
    }
    switch (function) {
    case EW_LN:
    case EW_LOG:
        return logarithm(point, expr, a);
    case EW_SQRT:
        return square_root(point, a);
    case EW_ROOT:
        return raise(point, a, divide(point, exact(ew_rational_small(1)), b));
    case EW_ABS:
        return absolute(a);
    case EW_FLOOR:
        return rounded_down(point, a);
    case EW_CEIL:
        return negate(rounded_down(point, negate(a)));
    case EW_RE:
    case EW_IM:
    case EW_CONJUGATE:
    case EW_ARG:
        return part(expr, a);
    case EW_SIGN:
        return exact(ew_rational_small(sign_of(&a)));
    case EW_FACTORIAL:
        return factorial(point, a, 1);
    case EW_DOUBLE_FACTORIAL:
        return factorial(point, a, 2);
    case EW_BINOMIAL:
        return binomial(point, a, b);
    default:
        return transcendental(point, expr, a);
    }
}

/* ---- Names ---- */

static ew_value constant(const ew_expr *expr) {
    switch (expr->op) {
    case EW_PI:
        return inexact(ew_complex_real(ew_real_pi()));
    case EW_E:
        return inexact(ew_complex_real(ew_real_exp(ew_real_from_int(1))));
    case EW_I:
        return inexact((ew_complex){ew_real_from_int(0), ew_real_from_int(1)});
    case EW_INFINITY:
        return (ew_value){.infinity = 1};
    default:
        return undefined();
    }
}

static uint64_t mix(uint64_t x) { /* splitmix64's finalizer */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static ew_value variable(const ew_point *point, const ew_expr *expr) {
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < expr->text_length; i++) {
        hash = (hash ^ (unsigned char)expr->text[i]) * UINT64_C(1099511628211);
    }
    hash = mix(hash + point->trial * UINT64_C(0x9e3779b97f4a7c15));
    if (point->integers) {
        return exact(ew_rational_small(2 + (int64_t)(hash % 13)));
    }
    /* Near enough to 1 that a term of high degree is seen beside others, but once well above. */
    double unit = 0.7 + 0.27 * (double)(hash >> 11) / 9007199254740992.0;
    double value = point->trial == 4 ? 100 * (unit - 0.67) : point->trial & 2 ? 1 / unit : unit;
    if (point->trial & 1) { /* all negative, then signs by the bits of the name's last letter: x and y differ */
        unsigned last = expr->text_length ? (unsigned char)expr->text[expr->text_length - 1] : 0;
        value = point->trial == 1 || (last >> (point->trial / 2 - 1) & 1) ? -value : value;
    }
    double imaginary = point->complex ? 0.3 + (double)(hash & 255) / 256 : 0;
    return inexact((ew_complex){ew_real_from_double(value), ew_real_from_double(imaginary)});
}

static ew_value based(ew_point *point, const ew_expr *expr) {
    ew_value base = ew_evaluate_expression(point, expr->items[0]), value = exact(ew_rational_small(0));
    int64_t small;
    ew_rational number;
    if (base.exact && ew_rational_to_int64(base.rational, &small) && small >= 2 && small <= 36) {
        return ew_rational_digits(point->work, expr->text, expr->text_length, (int)small, 0, &number) ? exact(number)
                                                                                                      : undefined();
    }
    for (size_t i = 0; i < expr->text_length && !value.undefined; i++) {
        char c = expr->text[i];
        value = add(point, multiply(point, value, base), exact(ew_rational_small(c <= '9' ? c - '0' : c - 'A' + 10)));
    }
    return value;
}

static ew_value evaluate_node(ew_point *point, const ew_expr *expr) {
    ew_value value;
    const ew_binding *index =
        point->bindings && (expr->kind == EW_SYMBOL || expr->kind == EW_CONSTANT) ? bound(point, expr) : NULL;
    if (index) {
        ew_rational number;
        return ew_rational_integer(point->work, index->value, &number) ? exact(number) : undefined();
    }
    switch (expr->kind) {
    case EW_NUMBER:
        return exact(expr->number);
    case EW_SYMBOL:
        return variable(point, expr);
    case EW_CONSTANT:
        return constant(expr);
    case EW_SUM:
    case EW_PRODUCT:
        value = ew_evaluate_expression(point, expr->items[0]);
        for (uint32_t i = 1; i < expr->count && !value.undefined; i++) {
            ew_value next = ew_evaluate_expression(point, expr->items[i]);
            value = expr->kind == EW_SUM ? add(point, value, next) : multiply(point, value, next);
        }
        return value;
    case EW_QUOTIENT:
        value = ew_evaluate_expression(point, expr->items[0]);
        return divide(point, value, ew_evaluate_expression(point, expr->items[1]));
    case EW_NEGATIVE:
        return negate(ew_evaluate_expression(point, expr->items[0]));
    case EW_POWER:
        if (expr->items[0]->kind == EW_CONSTANT && expr->items[0]->op == EW_E) {
            value = ew_evaluate_expression(point, expr->items[1]);
            return value.undefined || value.infinity || !ew_work_spend(point->work, COST_FUNCTION)
                       ? undefined()
                       : inexact(ew_complex_exp(ew_value_ball(&value)));
        }
        value = ew_evaluate_expression(point, expr->items[0]);
        return raise(point, value, ew_evaluate_expression(point, expr->items[1]));
    case EW_CALL:
        return call(point, expr);
    case EW_PERCENT:
        return divide(point, ew_evaluate_expression(point, expr->items[0]),
                      multiply(point, exact(ew_rational_small(10)), exact(ew_rational_small(10))));
    case EW_DEGREE:
    case EW_UNIT:
        return ew_evaluate_expression(point, expr->items[0]);
    case EW_BASED:
        return based(point, expr);
    default:
        return undefined();
    }
}

ew_value ew_evaluate_expression(ew_point *point, const ew_expr *expr) {
    return ew_work_spend(point->work, 10) ? evaluate_node(point, expr) : undefined();
}

static bool within(ew_real a, ew_real b, double tolerance) {
    double x = ew_real_to_double(a), y = ew_real_to_double(b);
    return fabs(x - y) <= tolerance * fabs(y);
}

ew_ternary ew_value_equal(const ew_value *a, const ew_value *b, double tolerance) {
    if (!usable(a, b)) {
        return EW_UNDECIDED;
    }
    if (a->infinity || b->infinity) {
        return a->infinity == b->infinity ? EW_YES : EW_NO;
    }
    if (a->exact && b->exact && ew_rational_equal(a->rational, b->rational)) {
        return EW_YES;
    }
    ew_complex x = ew_value_ball(a), y = ew_value_ball(b);
    if (x.re.undefined || y.re.undefined) {
        return EW_UNDECIDED;
    }
    if (tolerance > 0 && within(x.re, y.re, tolerance) && within(x.im, y.im, tolerance)) {
        return EW_YES;
    }
    if (a->exact && b->exact) {
        return EW_NO;
    }
    /* A rational finer than the balls cannot be told from them: sqrt 2 is none of its decimals. */
    const ew_value *rational = a->exact ? a : b;
    ew_ternary equal = ew_complex_equal(x, y);
    return rational->exact && rational->rational.denominator_limbs > 2 && equal == EW_YES ? EW_UNDECIDED : equal;
}

void ew_scan(const ew_expr *expr, ew_contents *contents) {
    switch (expr->kind) {
    case EW_SYMBOL:
        contents->symbols |= !contents->index || !same_name(contents->index, expr);
        break;
    case EW_CALL:
        if (expr->op >= EW_SUM_OVER) {
            const ew_expr *outer = contents->index;
            contents->integers_wanted = true;
            ew_scan(expr->items[1], contents), ew_scan(expr->items[2], contents);
            contents->index = expr->items[0];
            ew_scan(expr->items[3], contents);
            contents->index = outer;
            return;
        }
        contents->bare_log |= expr->op == EW_LOG && expr->count == 1;
        if (expr->op == EW_DETERMINANT && expr->items[0]->kind == EW_MATRIX) { /* the matrix itself is not asked for */
            for (uint32_t i = 0; i < expr->items[0]->count; i++) {
                ew_scan(expr->items[0]->items[i], contents);
            }
            return;
        }
        contents->irrational |= expr->op <= EW_EXP;
        contents->complex_wanted |= expr->op >= EW_RE && expr->op <= EW_ARG;
        contents->integers_wanted |= expr->op == EW_FACTORIAL || expr->op == EW_BINOMIAL ||
                                     expr->op == EW_DOUBLE_FACTORIAL || expr->op == EW_GCD || expr->op == EW_LCM ||
                                     expr->op == EW_MOD;
        break;
    case EW_DEGREE:
        contents->degrees = true;
        break;
    case EW_PLUS_MINUS:
        contents->plus_minus = true;
        break;
    case EW_CONSTANT:
        contents->structure |= expr->op >= EW_REALS;
        contents->irrational = true;
        break;
    case EW_BRACKET:
    case EW_SET:
    case EW_CONDITION:
    case EW_MATRIX:
    case EW_RELATION:
    case EW_SET_OPERATION:
    case EW_LIST:
    case EW_TEXT:
        contents->structure = true;
        break;
    default:
        break;
    }
    for (uint32_t i = 0; i < expr->count; i++) {
        ew_scan(expr->items[i], contents);
    }
}
