/* Intervals of shares and of paired differences: values computed independently, in Python. The first row is the example
 * of Newcombe 1998, whose table has 0.0569 to 0.3404 for it. */
#include "support.h"

#include "base/statistics.h"

#include <math.h>

static const struct {
    ew_paired pairs;
    double difference, low, high, p;
} rows[] = {
    {{36, 2, 12, 0}, 0.2, 0.056929584003, 0.340427602975, 0.012939453125},
    {{100, 19, 31, 150}, 0.04, -0.006372603254, 0.086008399368, 0.118920452559},
    {{5, 0, 0, 5}, 0.0, -0.166593157081, 0.166593157081, 1.0},
    {{0, 10, 0, 0}, -1.0, -1.0, -0.607509350431, 0.001953125},
    {{1, 3, 3, 1}, 0.0, -0.493260249425, 0.493260249425, 1.0},
    {{200, 90, 150, 60}, 0.12, 0.059775029976, 0.179021863105, 0.000129876675408},
    {{0, 0, 0, 0}, 0.0, 0.0, 0.0, 1.0},
};

static void test_paired(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double difference, low, high;
        ew_paired_difference(&rows[i].pairs, &difference, &low, &high);
        assert_true(fabs(difference - rows[i].difference) < 1e-12);
        assert_true(fabs(low - rows[i].low) < 1e-11 && fabs(high - rows[i].high) < 1e-11);
        assert_true(fabs(ew_mcnemar(&rows[i].pairs) - rows[i].p) < 1e-11);
    }
}

static void test_wilson(void **state) {
    (void)state;
    double low, high;
    ew_wilson(0, 0, &low, &high);
    assert_true(low == 0.0 && high == 1.0);
    ew_wilson(10, 10, &low, &high);
    assert_true(fabs(low - 0.722467200137) < 1e-11 && high <= 1.0 && high > 1.0 - 1e-12);
    ew_wilson(120, 300, &low, &high);
    assert_true(low > 0.345 && low < 0.347 && high > 0.456 && high < 0.458);
}

/* So many pairs that every term of the binomial sum underflows where it begins. */
static void test_many(void **state) {
    (void)state;
    const ew_paired even = {0, 5000, 5000, 0}, uneven = {0, 4000, 6000, 0};
    assert_true(ew_mcnemar(&even) == 1.0);
    double p = ew_mcnemar(&uneven);
    assert_true(p > 0.0 && p < 1e-80);
}

static void test_ratio(void **state) {
    (void)state;
    /* Residuals of {1, 3} from 2 are -1 and 1: half is 1.96 sqrt(2 * 2 / 1) / 2. Weights that are as large as the values
     * leave no spread. */
    const double values[] = {1, 3}, ones[] = {1, 1};
    double ratio, half;
    ew_ratio_of_sums(values, ones, 2, &ratio, &half);
    assert_true(ratio == 2 && fabs(half - 1.959963984540054) < 1e-12);
    ew_ratio_of_sums(values, values, 2, &ratio, &half);
    assert_true(ratio == 1 && half == 0);
    ew_ratio_of_sums(values, ones, 1, &ratio, &half);
    assert_true(ratio == 1 && half == 0);
    ew_ratio_of_sums(NULL, NULL, 0, &ratio, &half);
    assert_true(isnan(ratio));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_paired), cmocka_unit_test(test_wilson),
                                       cmocka_unit_test(test_many), cmocka_unit_test(test_ratio)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
