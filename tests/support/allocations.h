/* Making allocations fail: include this in one file of a test whose name ends in "memory"
 * (tests/CMakeLists.txt wraps the four functions for those).
 * The linker then sends the calls of all rooms here; Jansson's come through its own hook. */
#ifndef EW_TEST_ALLOCATIONS_H
#define EW_TEST_ALLOCATIONS_H

#include "support.h"

#include "edgewise.h"

#include <jansson.h>
#include <limits.h>
#include <stdatomic.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

/* Allocations that succeed before one fails; NONE_FAILS: all do. */
#define NONE_FAILS LONG_MAX
static atomic_long allocations_left = NONE_FAILS;
static bool all_fail_from_there; /* the failing one is followed by others that fail too */

static inline bool allocation_fails(void) {
    if (atomic_load(&allocations_left) == NONE_FAILS) {
        return false;
    }
    long left = atomic_fetch_sub(&allocations_left, 1);
    return left == 0 || (left < 0 && all_fail_from_there);
}

void *__wrap_malloc(size_t size) {
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return allocation_fails() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return allocation_fails() ? NULL : __real_aligned_alloc(alignment, size);
}

/* Jansson 2.14 does not survive an allocation that fails among others that do not: it loses a character of a string,
 * and may then meet an assertion of its own. Once it has met a failure, it meets no success until the run is over. */
static bool jansson_failed;

static inline void *jansson_allocate(size_t size) {
    jansson_failed = jansson_failed || allocation_fails();
    return jansson_failed ? NULL : __real_malloc(size);
}

/* Makes the first, the second, ... allocation of `run` fail, until it gets through without a failure. Every failed
 * run must return EW_ERROR_MEMORY with a sentence (after a failure in Jansson any status will do). From `dense` runs on
 * only every `stride`-th is tried. Returns how many allocations there are. */
static inline long fail_every_allocation(ew_status (*run)(void *context, ew_error *error), void *context, long dense,
                                         long stride) {
    json_set_alloc_funcs(jansson_allocate, free);
    for (long n = 0;; n += n < dense ? 1 : stride) {
        ew_error error = {0};
        jansson_failed = false;
        atomic_store(&allocations_left, n);
        ew_status status = run(context, &error);
        bool failed = atomic_exchange(&allocations_left, NONE_FAILS) < 0;
        if (!failed) {
            assert_int_equal(status, EW_OK);
            return n;
        }
        if (jansson_failed) {
            continue; /* it was survived */
        }
        if (status != EW_ERROR_MEMORY || error.message[0] == '\0') {
            fail_msg("allocation %ld failed: status %d, \"%s\"", n, (int)status, error.message);
        }
    }
}

#endif
