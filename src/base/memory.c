#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, SMALLEST_CAPACITY = 8 };

/* What is this large is read from end to end in every step: fewer, larger pages are read a fifth faster. */
enum { HUGE_PAGE = 1 << 21, LARGE = 1 << 23 };

void ew_prefer_huge_pages(const void *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    (void)madvise((void *)(uintptr_t)memory, bytes, MADV_HUGEPAGE); /* a wish: refusal changes nothing */
#else
    (void)memory, (void)bytes;
#endif
}

void *ew_allocate(size_t count, size_t size) {
    size_t bytes;
    if (!ew_multiply_size(count, size, &bytes)) { /* sanitizers abort where calloc would return NULL */
        return NULL;
    }
    return calloc(bytes > 0 ? bytes : 1, 1);
}

void *ew_allocate_aligned(size_t count, size_t size) {
    size_t bytes;
    if (!ew_multiply_size(count, size, &bytes) || !ew_add_size(bytes, ALIGNMENT, &bytes)) {
        return NULL;
    }
    bytes -= bytes % ALIGNMENT;
    if (bytes >= LARGE && bytes < SIZE_MAX - HUGE_PAGE) {
        bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        void *large = aligned_alloc(HUGE_PAGE, bytes);
        if (large) {
            ew_prefer_huge_pages(large, bytes);
            memset(large, 0, bytes);
        }
        return large;
    }
    void *memory = aligned_alloc(ALIGNMENT, bytes);
    if (memory) {
        memset(memory, 0, bytes);
    }
    return memory;
}

bool ew_grow(void **array, size_t *capacity, size_t wanted, size_t size) {
    if (wanted <= *capacity) {
        return true;
    }
    size_t grown = *capacity > SIZE_MAX / 2 ? wanted : *capacity * 2;
    if (grown < SMALLEST_CAPACITY) {
        grown = SMALLEST_CAPACITY;
    }
    if (grown < wanted) {
        grown = wanted;
    }
    size_t bytes;
    if (!ew_multiply_size(grown, size, &bytes)) {
        return false;
    }
    void *moved = realloc(*array, bytes);
    if (!moved) {
        return false;
    }
    *array = moved;
    *capacity = grown;
    return true;
}

char *ew_copy_text(const char *text, size_t length) {
    char *copy = malloc(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}
