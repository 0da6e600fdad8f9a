#include "support.h"

#include "base/threads.h"

#include <stdatomic.h>

enum { N_ITEMS = 1000 };

static void count_items(void *context, size_t begin, size_t end) {
    atomic_uint *counts = context;
    for (size_t i = begin; i < end; i++) {
        atomic_fetch_add(&counts[i], 1);
    }
}

static void every_item_runs_once(void **state) {
    (void)state;
    static atomic_uint counts[N_ITEMS];
    for (size_t n_threads = 1; n_threads <= 5; n_threads += 2) {
        ew_pool *pool;
        assert_int_equal(ew_pool_create(n_threads, NULL, &pool, NULL), EW_OK);
        for (unsigned round = 1; round <= 300; round++) {
            size_t chunk = round % 17;
            ew_pool_run(pool, N_ITEMS, chunk, count_items, counts);
            for (size_t i = 0; i < N_ITEMS; i++) {
                assert_int_equal(atomic_load(&counts[i]), round);
            }
            if (round % 100 == 0) { /* long enough for the workers to fall asleep */
                nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
            }
        }
        ew_pool_destroy(pool);
        memset(counts, 0, sizeof counts);
    }
}

typedef struct {
    atomic_uint counts[N_ITEMS];
    atomic_size_t n_chunks, largest;
    size_t least;
} shrinking_loop;

static void count_chunk(void *context, size_t begin, size_t end) {
    shrinking_loop *loop = context;
    size_t size = end - begin, largest = atomic_load(&loop->largest);
    count_items(loop->counts, begin, end);
    atomic_fetch_add(&loop->n_chunks, 1);
    while (size > largest && !atomic_compare_exchange_weak(&loop->largest, &largest, size)) {
    }
    assert_true(begin % loop->least == 0 && (end % loop->least == 0 || end == N_ITEMS));
}

static void chunks_shrink(void **state) {
    (void)state;
    static const size_t LEASTS[] = {1, 4, 7, N_ITEMS - 1, N_ITEMS, 2 * N_ITEMS};
    for (size_t i = 0; i < sizeof LEASTS / sizeof LEASTS[0]; i++) {
        static shrinking_loop loop;
        ew_pool *pool;
        memset(&loop, 0, sizeof loop);
        loop.least = LEASTS[i];
        assert_int_equal(ew_pool_create(2, NULL, &pool, NULL), EW_OK);
        ew_pool_run_shrinking(pool, N_ITEMS, loop.least, count_chunk, &loop);
        ew_pool_destroy(pool);
        for (size_t item = 0; item < N_ITEMS; item++) {
            assert_int_equal(atomic_load(&loop.counts[item]), 1);
        }
        if (loop.least < 10) { /* a third of what is left, each time */
            assert_int_equal(atomic_load(&loop.largest), N_ITEMS / 3 / loop.least * loop.least);
            assert_in_range(atomic_load(&loop.n_chunks), 8, 24);
        } else {
            assert_int_equal(atomic_load(&loop.largest), loop.least < N_ITEMS ? loop.least : N_ITEMS);
        }
    }
}

/* Plain writes by workers must be seen by the caller after the loop: this is what TSan watches. */
static void fill(void *context, size_t begin, size_t end) {
    size_t *values = context;
    for (size_t i = begin; i < end; i++) {
        values[i] = i * i;
    }
}

static void results_are_visible(void **state) {
    (void)state;
    static size_t values[N_ITEMS];
    ew_pool *pool;
    assert_int_equal(ew_pool_create(3, NULL, &pool, NULL), EW_OK);
    for (int round = 0; round < 100; round++) {
        memset(values, 0, sizeof values);
        ew_pool_run(pool, N_ITEMS, 10, fill, values);
        for (size_t i = 0; i < N_ITEMS; i++) {
            assert_int_equal(values[i], i * i);
        }
    }
    ew_pool_destroy(pool);
}

static void absurd_counts_are_refused(void **state) {
    (void)state;
    ew_pool *pool;
    ew_error error;
    assert_int_equal(ew_pool_create(100000, NULL, &pool, &error), EW_ERROR_ARGUMENT);
    assert_null(pool);
    ew_pool_destroy(NULL);
    assert_true(ew_default_thread_count() >= 1);
    assert_int_equal(ew_pool_size(NULL), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_runs_once),
        cmocka_unit_test(chunks_shrink),
        cmocka_unit_test(results_are_visible),
        cmocka_unit_test(absurd_counts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
