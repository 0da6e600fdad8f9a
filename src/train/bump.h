/* Memory handed out piece by piece from one block; without a block the pieces are only counted. */
#ifndef EW_TRAIN_BUMP_H
#define EW_TRAIN_BUMP_H

#include "base/memory.h"
#include "train/real.h"

typedef struct ew_bump {
    uint8_t *base; /* NULL: counting */
    size_t used;
    bool overflow; /* a size was too large for any memory */
} ew_bump;

/* count * size bytes at a multiple of 64; NULL while counting. */
static inline void *ew_take(ew_bump *bump, size_t count, size_t size) {
    enum { ALIGNMENT = 64 };
    size_t bytes, end, at = bump->used;
    if (!ew_multiply_size(count, size, &bytes) || !ew_add_size(bytes, ALIGNMENT - 1, &bytes) ||
        !ew_add_size(at, bytes / ALIGNMENT * ALIGNMENT, &end)) {
        bump->overflow = true;
        return NULL;
    }
    bump->used = end;
    return bump->base ? bump->base + at : NULL;
}

static inline real *ew_take_rows(ew_bump *bump, size_t rows, size_t width) {
    size_t n;
    if (!ew_multiply_size(rows, width, &n)) {
        bump->overflow = true;
        return NULL;
    }
    return ew_take(bump, n, sizeof(real));
}

#endif
