/* The product of one block of 16 rows with one token: by byte dot products, plane by plane. */
#ifndef EW_KERNEL_LANES_PLANES_H
#define EW_KERNEL_LANES_PLANES_H

#include "kernel/lanes/dot_plane.h"

/* 256 hi + lo is the sum. */
typedef struct {
    i32x16 hi, lo;
} plane_sums;

LANES_INLINE plane_sums planes_start(int32_t value) {
    return (plane_sums){ints_zero(), ints_set(value)};
}
/* x: hi 32, lo 32. */
LANES_INLINE void planes_dot(plane_sums *sums, const bytes64 w[8], const int8_t *x, ew_matrix_format format) {
    dot_plane(&sums->hi, w, x, format);
    dot_plane(&sums->lo, w, x + 32, format);
}
LANES_INLINE i32x16 planes_total(const plane_sums *sums) {
    return ints_add(ints_times_256(sums->hi), sums->lo);
}

#endif
