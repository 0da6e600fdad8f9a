/* Balls against MPFR at 400 bits: every value within its radius, every radius small. */
#include "grade/real.h"
#include "support.h"

#include <mpfr.h>

static void to_mpfr(mpfr_t out, ew_real value) {
    mpfr_set_zero(out, 1);
    for (int i = EW_REAL_LIMBS - 1; i >= 0 && !value.zero; i--) {
        mpfr_t part;
        mpfr_init2(part, 400);
        mpfr_set_uj_2exp(part, value.mantissa[i], 64 * (i - EW_REAL_LIMBS) + value.exponent, MPFR_RNDN);
        mpfr_add(out, out, part, MPFR_RNDN);
        mpfr_clear(part);
    }
    if (value.negative) {
        mpfr_neg(out, out, MPFR_RNDN);
    }
}

/* |value - truth| <= 2^radius, and the radius at most `slack` bits below the value's own size. */
static void expect_close(ew_real value, mpfr_t truth, int slack, const char *what, double x) {
    mpfr_t got;
    assert_false(value.undefined);
    mpfr_init2(got, 400);
    to_mpfr(got, value);
    mpfr_sub(got, got, truth, MPFR_RNDN);
    if (!mpfr_zero_p(got) && mpfr_get_exp(got) > value.radius && value.radius != EW_REAL_EXACT) {
        fail_msg("%s(%g): off by 2^%ld, radius 2^%lld", what, x, (long)mpfr_get_exp(got),
                 (long long)value.radius);
    }
    if (value.radius == EW_REAL_EXACT) {
        assert_true(mpfr_zero_p(got));
    } else if (!mpfr_zero_p(truth) && value.radius > mpfr_get_exp(truth) - slack) {
        fail_msg("%s(%g): radius 2^%lld for a value of 2^%ld", what, x, (long long)value.radius,
                 (long)mpfr_get_exp(truth));
    }
    mpfr_clear(got);
}

static const double points[] = {1e-9, 0.001, 0.25, 0.4999, 0.70710678, 0.9999999999, 1.0000000001, 1,
                                1.5,  2,     3.75, 10,     22.0,       345.678,      12345.678,    9.87e7};

static void test_elementary_functions(void **state) {
    (void)state;
    mpfr_t x, y;
    mpfr_init2(x, 400);
    mpfr_init2(y, 400);
    for (size_t i = 0; i < 2 * sizeof points / sizeof *points; i++) {
        double v = i & 1 ? -points[i / 2] : points[i / 2];
        ew_real a = ew_real_from_double(v), sine, cosine;
        mpfr_set_d(x, v, MPFR_RNDN);
        mpfr_exp(y, x, MPFR_RNDN);
        expect_close(ew_real_exp(a), y, 200, "exp", v);
        mpfr_atan(y, x, MPFR_RNDN);
        expect_close(ew_real_atan(a), y, 190, "atan", v);
        ew_real_sin_cos(a, &sine, &cosine);
        mpfr_sin(y, x, MPFR_RNDN);
        expect_close(sine, y, 170, "sin", v);
        mpfr_cos(y, x, MPFR_RNDN);
        expect_close(cosine, y, 170, "cos", v);
        if (v > 0) {
            mpfr_log(y, x, MPFR_RNDN);
            expect_close(ew_real_log(a), y, 190, "log", v);
            mpfr_sqrt(y, x, MPFR_RNDN);
            expect_close(ew_real_sqrt(a), y, 240, "sqrt", v);
        } else {
            assert_true(ew_real_log(a).undefined);
            assert_true(ew_real_sqrt(a).undefined);
        }
    }
    mpfr_const_pi(y, MPFR_RNDN);
    expect_close(ew_real_pi(), y, 250, "pi", 0);
    mpfr_clears(x, y, (mpfr_ptr)0);
    mpfr_free_cache();
}

static void test_arithmetic(void **state) {
    (void)state;
    mpfr_t x, y, z;
    mpfr_inits2(600, x, y, z, (mpfr_ptr)0);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        for (size_t j = 0; j < sizeof points / sizeof *points; j++) {
            /* thirds are inexact in binary, so that radii have something to carry */
            ew_real a = ew_real_divide_small(ew_real_from_double(points[i]), 3);
            ew_real b = ew_real_divide(ew_real_from_double(-points[j]), ew_real_from_int(7));
            mpfr_set_d(x, points[i], MPFR_RNDN);
            mpfr_div_ui(x, x, 3, MPFR_RNDN);
            mpfr_set_d(y, -points[j], MPFR_RNDN);
            mpfr_div_ui(y, y, 7, MPFR_RNDN);
            mpfr_add(z, x, y, MPFR_RNDN);
            expect_close(ew_real_add(a, b), z, 150, "add", points[i]);
            mpfr_mul(z, x, y, MPFR_RNDN);
            expect_close(ew_real_multiply(a, b), z, 245, "multiply", points[i]);
            mpfr_div(z, x, y, MPFR_RNDN);
            expect_close(ew_real_divide(a, b), z, 245, "divide", points[i]);
        }
    }
    mpfr_clears(x, y, z, (mpfr_ptr)0);
}

static void test_equality_is_proved(void **state) {
    (void)state;
    ew_real root = ew_real_sqrt(ew_real_from_int(2)), sine, cosine;
    assert_int_equal(ew_real_equal(ew_real_multiply(root, root), ew_real_from_int(2)), EW_YES);
    assert_int_equal(ew_real_equal(root, ew_real_from_double(1.4142135623730951)), EW_NO);
    ew_real_sin_cos(ew_real_pi(), &sine, &cosine);
    assert_int_equal(ew_real_equal(sine, ew_real_from_int(0)), EW_YES);
    assert_int_equal(ew_real_equal(cosine, ew_real_from_int(-1)), EW_YES);
    assert_true(ew_real_divide(ew_real_from_int(1), sine).undefined);
    assert_true(ew_real_divide(ew_real_from_int(1), ew_real_from_int(0)).undefined);
    /* 1 + 2^-200 is not 1 */
    ew_real hair = ew_real_scale(ew_real_from_int(1), -200);
    assert_int_equal(ew_real_equal(ew_real_add(ew_real_from_int(1), hair), ew_real_from_int(1)), EW_NO);
}

static ew_rational digits(ew_work *work, const char *text, size_t fraction) {
    ew_rational value;
    assert_true(ew_rational_digits(work, text, strlen(text), 10, fraction, &value));
    return value;
}

static void expect_text(ew_work *work, ew_rational value, const char *expected) {
    char text[8192];
    text[ew_rational_print(work, value, text, sizeof text - 1)] = 0;
    assert_string_equal(text, expected);
}

static void test_rationals(void **state) {
    (void)state;
    static ew_work work;
    ew_rational r;
    ew_work_begin(&work);
    expect_text(&work, digits(&work, "00012500", 4), "5/4");
    expect_text(&work, digits(&work, "0", 0), "0");
    expect_text(&work, digits(&work, "0000", 3), "0");
    assert_true(ew_rational_add(&work, digits(&work, "1", 1), digits(&work, "2", 1), &r));
    expect_text(&work, r, "3/10");
    assert_true(ew_rational_power(&work, ew_rational_small(2), 200, &r));
    expect_text(&work, r, "1606938044258990275541962092341162602522202993782792835301376");
    ew_rational big = r;
    assert_true(ew_rational_divide(&work, ew_rational_small(-6), big, &r));
    assert_true(ew_rational_multiply(&work, r, big, &r));
    expect_text(&work, r, "-6");
    assert_true(ew_rational_sqrt(&work, big, &r));
    expect_text(&work, r, "1267650600228229401496703205376");
    assert_false(ew_rational_sqrt(&work, ew_rational_small(2), &r));
    assert_true(ew_rational_power(&work, ew_rational_small(-3), -3, &r));
    expect_text(&work, r, "-1/27");
    assert_true(ew_rational_floor(&work, r, &r));
    expect_text(&work, r, "-1");
    assert_false(ew_rational_divide(&work, r, ew_rational_small(0), &r));
    assert_false(ew_rational_power(&work, ew_rational_small(10), 10000, &r));
    assert_true(ew_rational_digits(&work, "1Az", 3, 36, 0, &r));
    expect_text(&work, r, "1691");
    assert_false(ew_rational_digits(&work, "128", 3, 8, 0, &r));
    ew_work_end(&work);
}

/* Sums of wide fractions, against the identity 1/a - 1/b = (b - a) / (a b). */
static void test_wide_rationals(void **state) {
    (void)state;
    static ew_work work;
    for (int size = 1; size < 120; size += 7) {
        char text[200];
        ew_rational a, b, one = ew_rational_small(1), x, y;
        ew_work_begin(&work);
        for (int i = 0; i < size; i++) {
            text[i] = (char)('1' + (i * 7 + size) % 9);
        }
        text[size] = 0;
        a = digits(&work, text, 0);
        assert_true(ew_rational_add(&work, ew_rational_small(30), a, &b));
        assert_true(ew_rational_divide(&work, one, a, &x));
        assert_true(ew_rational_divide(&work, ew_rational_small(-1), b, &y));
        assert_true(ew_rational_add(&work, x, y, &x));
        assert_true(ew_rational_multiply(&work, a, b, &y));
        assert_true(ew_rational_multiply(&work, x, y, &x));
        expect_text(&work, x, "30");
        ew_work_end(&work);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementary_functions), cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_equality_is_proved),   cmocka_unit_test(test_rationals),
        cmocka_unit_test(test_wide_rationals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
