/* Every document lies in one row, rows keep their bounds, and the order is reproducible. */
#include "status.h"

#include "base/random.h"
#include "train/packing.h"

static void test_shuffle(void **state) {
    (void)state;
    enum { N = 1000 };
    size_t *a = ew_shuffled(N, 7, 0), *b = ew_shuffled(N, 7, 0), *c = ew_shuffled(N, 7, 1), moved = 0, seen[N] = {0};
    assert_true(a && b && c);
    assert_memory_equal(a, b, N * sizeof *a);
    for (size_t i = 0; i < N; i++) {
        seen[a[i]]++;
        moved += a[i] != c[i];
    }
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_true(moved > N - 10);
    free(a);
    free(b);
    free(c);
    size_t *none = ew_shuffled(0, 1, 1);
    assert_non_null(none);
    free(none);
}

static void test_rows(void **state) {
    (void)state;
    enum { N = 500, ROW = 256 };
    size_t lengths[N], seen[N] = {0}, total = 0;
    for (size_t i = 0; i < N; i++) {
        lengths[i] = 2 + (size_t)(ew_random_bits(3, 0, i) % 150);
        total += lengths[i];
    }
    size_t *order = ew_shuffled(N, 1, 0);
    ew_packing packing;
    EW_ASSERT_OK(ew_pack(lengths, order, N, ROW, 3, &packing, error));
    for (size_t row = 0; row < packing.n_rows; row++) {
        size_t tokens = 0;
        assert_true(packing.rows[row] < packing.rows[row + 1] && packing.rows[row + 1] - packing.rows[row] <= 3);
        for (size_t i = packing.rows[row]; i < packing.rows[row + 1]; i++) {
            tokens += lengths[packing.documents[i]];
            seen[packing.documents[i]]++;
        }
        assert_true(tokens <= ROW);
    }
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(seen[i], 1);
    }
    ew_packing_free(&packing);
    EW_ASSERT_OK(ew_pack(lengths, order, N, ROW, 0, &packing, error));
    assert_true(packing.n_rows * ROW < total + total / 5); /* rows are nearly full */
    ew_packing_free(&packing);
    free(order);

    ew_error error;
    assert_int_equal(ew_pack(lengths, NULL, N, 100, 0, &packing, &error), EW_ERROR_ARGUMENT);
    EW_ASSERT_OK(ew_pack(lengths, NULL, 0, ROW, 0, &packing, error));
    assert_int_equal(packing.n_rows, 0);
    ew_packing_free(&packing);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shuffle), cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
