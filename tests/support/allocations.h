/* Making allocations fail: include this in one file of a test that is linked with --wrap for the four functions (extra.cmake).
 * The linker then sends the calls of all rooms here; Jansson's come through its own hook. */
#ifndef EW_TEST_ALLOCATIONS_H
#define EW_TEST_ALLOCATIONS_H

#include "support.h"

#include <jansson.h>
#include <stdatomic.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

/* Allocations that succeed before one fails; negative: none fails. Only that one fails. */
static atomic_long allocations_left = -1;

static inline bool allocation_fails(void) {
    return atomic_load(&allocations_left) >= 0 && atomic_fetch_sub(&allocations_left, 1) == 0;
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

/* Jansson tells some failures as syntax errors of the text it was reading, and loses a character of a string by others. */
static bool jansson_failed;

static inline void *jansson_allocate(size_t size) {
    if (allocation_fails()) {
        jansson_failed = true;
        return NULL;
    }
    return __real_malloc(size);
}

/* Makes the first, the second, ... allocation of `run` fail, until it gets through without a failure. Every failed
 * run must return EW_ERROR_MEMORY with a sentence (after a failure in Jansson any status will do). From `dense` runs on only every `stride`-th is tried. Returns how many allocations
 * there are. */
static inline long fail_every_allocation(ew_status (*run)(void *context, ew_error *error), void *context, long dense,
                                         long stride) {
    json_set_alloc_funcs(jansson_allocate, free);
    for (long n = 0;; n += n < dense ? 1 : stride) {
        ew_error error = {0};
        jansson_failed = false;
        atomic_store(&allocations_left, n);
        ew_status status = run(context, &error);
        bool failed = atomic_exchange(&allocations_left, -1) < 0;
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
