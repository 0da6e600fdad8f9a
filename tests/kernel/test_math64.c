/* Our double functions against libm's: a few units in the last place, over the arguments that the engine uses. */
#include "support.h"

#include "kernel/math64.h"

#include <math.h>

static void assert_near(double got, double wanted, double magnitude) {
    assert_true(fabs(got - wanted) <= 1e-15 * fabs(magnitude));
}

static void exp_and_log_agree_with_libm(void **state) {
    (void)state;
    for (double x = -700; x < 700; x += 0.37) {
        assert_near(ew_exp64(x), exp(x), exp(x));
    }
    for (double x = 1e-300; x < 1e300; x *= 1.7) {
        assert_near(ew_log64(x), log(x), fmax(fabs(log(x)), 1e-3));
    }
    assert_true(ew_log64(1.0) == 0.0);
    assert_true(ew_exp64(0.0) == 1.0);
    assert_true(ew_exp64(-800) == 0.0);
    assert_true(isinf(ew_exp64(800)));
    assert_true(isinf(ew_log64(0)));
    assert_true(isnan(ew_log64(-1)));
    assert_true(isnan(ew_exp64(NAN)));
}

static void sine_and_cosine_agree_with_libm(void **state) {
    (void)state;
    for (double x = -10; x < 1.2e6; x = x < 20 ? x + 0.01 : x * 1.001) {
        double s, c;
        ew_sincos64(x, &s, &c);
        assert_near(s, sin(x), 1);
        assert_near(c, cos(x), 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_log_agree_with_libm),
        cmocka_unit_test(sine_and_cosine_agree_with_libm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
