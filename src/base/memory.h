/* Allocation with the products checked. Everything comes from malloc's family and is returned by free. */
#ifndef EW_BASE_MEMORY_H
#define EW_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* a * b and a + b, false on overflow (the result is then not written). */
static inline bool ew_multiply_size(size_t a, size_t b, size_t *product) {
    size_t result;
    if (__builtin_mul_overflow(a, b, &result)) {
        return false;
    }
    *product = result;
    return true;
}
static inline bool ew_add_size(size_t a, size_t b, size_t *sum) {
    size_t result;
    if (__builtin_add_overflow(a, b, &result)) {
        return false;
    }
    *sum = result;
    return true;
}

/* count * size zeroed bytes; NULL when the product overflows or memory is out. Never NULL for 0 bytes. */
void *ew_allocate(size_t count, size_t size);

/* As ew_allocate, aligned to 64 bytes (a cache line and the widest vector). Returned by free. */
void *ew_allocate_aligned(size_t count, size_t size);

/* Asks the system for large pages under memory that is read from end to end again and again; page-aligned. */
void ew_prefer_huge_pages(const void *memory, size_t bytes);

/* Grows `array` to hold `wanted` elements, at least doubling; true on success. *array and *capacity are unchanged
 * on failure. New elements are not initialized. */
bool ew_grow(void **array, size_t *capacity, size_t wanted, size_t size);

/* A NUL-terminated copy of `length` bytes; NULL when memory is out. */
char *ew_copy_text(const char *text, size_t length);

#endif
