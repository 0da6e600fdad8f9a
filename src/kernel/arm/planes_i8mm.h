/* The product of one block of 16 rows with one token by SMMLA: 2 rows of 8 inputs times the two planes of 8 inputs. */
#ifndef EW_KERNEL_PLANES_I8MM_H
#define EW_KERNEL_PLANES_I8MM_H

#include "kernel/lanes/tile_view.h"

/* Rows 2 i and 2 i + 1: row times hi, row times lo, next row times hi, next row times lo. */
typedef struct {
    int32x4_t rows[8];
} plane_sums;

LANES_INLINE plane_sums planes_start(int32_t value) {
    const int32_t start[4] = {0, value, 0, value};
    plane_sums sums;
    for (int i = 0; i < 8; i++) {
        sums.rows[i] = vld1q_s32(start);
    }
    return sums;
}

/* x: hi 32, lo 32. */
LANES_INLINE void planes_dot(plane_sums *sums, const bytes64 w[8], const int8_t *x) {
    for (int v = 0; v < 8; v += 2) {
        int8x16_t inputs = vcombine_s8(vld1_s8(x + 4 * v), vld1_s8(x + 32 + 4 * v));
        for (int i = 0; i < 4; i++) {
            int32x4_t first = vreinterpretq_s32_s8(w[v].q[i]), second = vreinterpretq_s32_s8(w[v + 1].q[i]);
            int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(first, second));
            int8x16_t high = vreinterpretq_s8_s32(vzip2q_s32(first, second));
            sums->rows[2 * i] = vmmlaq_s32(sums->rows[2 * i], low, inputs);
            sums->rows[2 * i + 1] = vmmlaq_s32(sums->rows[2 * i + 1], high, inputs);
        }
    }
}

LANES_INLINE i32x16 planes_total(const plane_sums *sums) {
    i32x16 hi, lo;
    for (int i = 0; i < 4; i++) {
        hi.q[i] = vuzp1q_s32(sums->rows[2 * i], sums->rows[2 * i + 1]);
        lo.q[i] = vuzp2q_s32(sums->rows[2 * i], sums->rows[2 * i + 1]);
    }
    return ints_add(ints_times_256(hi), lo);
}

/* S_b of a block for n_tiles tiles and shape.n_tokens tokens: SMMLA where a token has two planes, else SDOT. */
LANES_INLINE void block_products(const tile_view *tiles, int n_tiles, size_t block, const ew_activations *x,
                                 size_t index, matmul_shape shape, i32x16 (*dots)[LANES_TOKENS]) {
    for (int r = 0; r < n_tiles; r++) {
        bytes64 w[8];
        unpack_block(&tiles[r], block, shape.format, w);
        for (int i = 0; i < shape.n_tokens; i++) {
            size_t at = index + (size_t)i * x->n_blocks;
            int32_t start = -code_bias(shape.format) * x->sums[at];
            if (shape.type == EW_ACTIVATION_INT16) {
                plane_sums sums = planes_start(start);
                planes_dot(&sums, w, x->codes + at * 64);
                dots[r][i] = planes_total(&sums);
                continue;
            }
            dots[r][i] = ints_set(start);
            for (int v = 0; v < 8; v++) {
                dots[r][i] = dot_quad(dots[r][i], w[v], x->codes + at * 32 + 4 * v, shape.format);
            }
        }
    }
}

#endif
