/* One block of one or more tiles times one plane of a token's inputs. */
#ifndef EW_KERNEL_LANES_DOT_TILES_H
#define EW_KERNEL_LANES_DOT_TILES_H

#include "kernel/matrix.h"

LANES_INLINE i32x16 dot_quad(i32x16 sum, bytes64 w, const int8_t *x, ew_matrix_format format) {
    return format == EW_MATRIX_INT8 ? ints_dot_signed(sum, w, x) : ints_dot_nibbles(sum, w, x);
}

/* dots[r] += unpacked codes of tile r times 32 inputs of int8. */
LANES_INLINE void dot_tiles_int8(i32x16 *dots, bytes64 (*w)[8], int n_tiles, const int8_t *x, ew_matrix_format format) {
    for (int v = 0; v < 8; v++) {
        for (int r = 0; r < n_tiles; r++) {
            dots[r] = dot_quad(dots[r], w[r][v], x + 4 * v, format);
        }
    }
}

#endif
