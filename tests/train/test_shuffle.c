/* An epoch's order has everything once and is reproducible. */
#include "support.h"

#include "train/shuffle.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shuffle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
