/* Products of one block with one token by byte dot products. Weights are unpacked codes, 8 vectors of 16 rows by 4 inputs a
 * tile. */
#ifndef EW_KERNEL_LANES_PLANES_H
#define EW_KERNEL_LANES_PLANES_H

#include "kernel/lanes/dot_tiles.h"

/* 256 hi + lo is the sum. */
typedef struct {
    i32x16 hi, lo;
} plane_sums;

LANES_INLINE plane_sums planes_start(int32_t value) {
    return (plane_sums){ints_zero(), ints_set(value)};
}
/* x: hi 32, lo 32. */
LANES_INLINE void planes_dot(plane_sums *sums, const bytes64 w[8], const int8_t *x) {
    for (int v = 0; v < 8; v++) {
        sums->hi = ints_dot_nibbles(sums->hi, w[v], x + 4 * v);
        sums->lo = ints_dot_nibbles(sums->lo, w[v], x + 32 + 4 * v);
    }
}
LANES_INLINE i32x16 planes_total(const plane_sums *sums) {
    return ints_add(ints_times_256(sums->hi), sums->lo);
}

/* dots[r] += the product of tile r, x being hi 32, lo 32. Each quad of inputs meets all tiles while it is in a register. */
LANES_INLINE void dot_tiles_int16(i32x16 *dots, bytes64 (*w)[8], int n_tiles, const int8_t *x, ew_matrix_format format) {
    i32x16 hi[LANES_TILES];
    for (int r = 0; r < n_tiles; r++) {
        hi[r] = ints_zero();
    }
    for (int v = 0; v < 8; v++) {
        for (int r = 0; r < n_tiles; r++) {
            hi[r] = dot_quad(hi[r], w[r][v], x + 4 * v, format);
            dots[r] = dot_quad(dots[r], w[r][v], x + 32 + 4 * v, format);
        }
    }
    for (int r = 0; r < n_tiles; r++) {
        dots[r] = ints_add(ints_times_256(hi[r]), dots[r]);
    }
}

#endif
