/* Matrix products against sums in double: odd sizes, every transposition, alpha and beta, strides, and nothing outside C.
 * CBLAS is held to float's rounding, tiles to 3 * 2^-16 of |A| |B|. */
#include "support.h"
#include "base/memory.h"
#include "base/random.h"
#include "train/openblas.h"
#include "train/products.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 700, GAP = 3 };

static real a[MOST * (MOST + GAP)], b[MOST * (MOST + GAP)], c[MOST * (MOST + GAP)], before[MOST * (MOST + GAP)];

static void fill(real *values, uint64_t seed) {
    for (size_t i = 0; i < (size_t)MOST * (MOST + GAP); i++) {
        double exponent = 12 * ew_random_unit(seed, 1, i) - 6;
        values[i] = (real)((ew_random_unit(seed, 0, i) - 0.5) * exp2(exponent));
    }
}

static double element(ew_view view, bool transposed, size_t row, size_t column) {
    return (double)view.values[transposed ? column * view.stride + row : row * view.stride + column];
}

static void check_value(const ew_product *p, size_t i, size_t j, double tolerance) {
    double sum = 0, size = 0;
    for (size_t k = 0; k < p->k; k++) {
        double term = element(p->a, p->a_transposed, i, k) * element(p->b, p->b_transposed, k, j);
        sum += term;
        size += fabs(term);
    }
    double old = p->beta != 0 ? (double)before[i * p->c_stride + j] : 0, value = (double)c[i * p->c_stride + j];
    double want = (double)p->alpha * sum + (double)p->beta * old;
    double allowed = tolerance * (fabs((double)p->alpha) * size + fabs((double)p->beta * old)) + 1e-30;
    if (!(fabs(value - want) <= allowed)) {
        fail_msg("%zu x %zu x %zu, transposed %d %d: C[%zu, %zu] is %g, not %g within %g", p->m, p->n, p->k,
                 p->a_transposed, p->b_transposed, i, j, value, want, allowed);
    }
}

static void check_product(void *space, bool a_transposed, bool b_transposed, size_t m, size_t n, size_t k, real alpha,
                          real beta, double tolerance) {
    const ew_product p = {.a_transposed = a_transposed,
                          .b_transposed = b_transposed,
                          .m = m,
                          .n = n,
                          .k = k,
                          .alpha = alpha,
                          .beta = beta,
                          .a = {a, (a_transposed ? m : k) + GAP},
                          .b = {b, (b_transposed ? k : n) + GAP},
                          .c = c,
                          .c_stride = n + GAP};
    for (size_t i = 0; i < m * (n + GAP); i++) {
        c[i] = before[i] = beta != 0 || i % (n + GAP) >= n ? (real)((double)(i % 17) - 8) : (real)NAN;
    }
    ew_multiply_matrices(space, &p);
    /* All of a small product, some of a large one. */
    size_t step = m * n * k > 100000 ? 37 : 1;
    for (size_t at = 0; at < m * n; at += step) {
        check_value(&p, at / n, at % n, tolerance);
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = n; j < n + GAP; j++) {
            assert_true(c[i * p.c_stride + j] == before[i * p.c_stride + j]);
        }
    }
}

static void check_all(void *space, double tolerance) {
    static const size_t sizes[][3] = {{1, 1, 1},   {16, 16, 32},  {17, 15, 33},  {3, 70, 5},    {33, 31, 1},
                                      {64, 5, 64}, {129, 33, 65}, {40, 530, 70}, {65, 48, 600}, {20, 20, 0}};
    fill(a, 1);
    fill(b, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int transposed = 0; transposed < 4; transposed++) {
            const size_t *s = sizes[i];
            check_product(space, transposed & 1, transposed & 2, s[0], s[1], s[2], 1, 0, tolerance);
            check_product(space, transposed & 1, transposed & 2, s[0], s[1], s[2], (real)-0.75, 1, tolerance);
            check_product(space, transposed & 1, transposed & 2, s[0], s[1], s[2], (real)1.5, (real)0.5, tolerance);
        }
    }
}

static void test_cblas(void **state) {
    (void)state;
    ew_error error;
    assert_int_equal(ew_openblas_load(&error), EW_OK);
    check_all(NULL, sizeof(real) == sizeof(float) ? 1e-6 : 1e-15);
}

static void test_tiles(void **state) {
    (void)state;
    if (ew_products_check(EW_PRODUCTS_BF16X3, NULL) != EW_OK) {
        printf("no tiles for BF16 here: skipped\n");
        skip();
    }
    void *space = ew_allocate_aligned(ew_products_space(EW_PRODUCTS_BF16X3), 1);
    assert_non_null(space);
    check_all(space, 3 * 0x1p-16);
    free(space);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cblas),
        cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
