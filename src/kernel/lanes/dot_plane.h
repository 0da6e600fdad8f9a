/* One block of 16 rows times one plane of a token's inputs. */
#ifndef EW_KERNEL_LANES_DOT_PLANE_H
#define EW_KERNEL_LANES_DOT_PLANE_H

#include "kernel/matrix.h"

/* Unpacked codes w, 8 vectors of 16 rows by 4 inputs, times 32 inputs of int8. */
LANES_INLINE void dot_plane(i32x16 *sum, const bytes64 w[8], const int8_t *x, ew_matrix_format format) {
    for (int v = 0; v < 8; v++) {
        *sum = format == EW_MATRIX_INT8 ? ints_dot_signed(*sum, w[v], x + 4 * v) : ints_dot_nibbles(*sum, w[v], x + 4 * v);
    }
}

#endif
