/* Products of one block with tokens by byte dot products. */
#ifndef EW_KERNEL_LANES_PLANES_H
#define EW_KERNEL_LANES_PLANES_H

#include "kernel/lanes/tile_view.h"

/* 256 hi + lo is the sum. */
typedef struct {
    i32x16 hi, lo;
} plane_sums;

LANES_INLINE plane_sums planes_start(int32_t value) {
    return (plane_sums){ints_zero(), ints_set(value)};
}
/* Unpacked nibbles w times one token's block x: hi 32, lo 32. */
LANES_INLINE void planes_dot(plane_sums *sums, const bytes64 w[8], const int8_t *x) {
    for (int v = 0; v < 8; v++) {
        sums->hi = ints_dot_nibbles(sums->hi, w[v], x + 4 * v);
        sums->lo = ints_dot_nibbles(sums->lo, w[v], x + 32 + 4 * v);
    }
}
LANES_INLINE i32x16 planes_total(const plane_sums *sums) {
    return ints_add(ints_times_256(sums->hi), sums->lo);
}

/* Vector v (inputs 4 v to 4 v + 3) and v + 4 of a block, unpacked. */
LANES_INLINE void unpack_pair(const tile_view *tile, size_t block, int v, ew_matrix_format format, bytes64 out[2]) {
    const uint8_t *at = tile->codes + block * block_bytes_of(format) + v * 64;
    bytes64 both = bytes_load(at);
    if (format == EW_MATRIX_INT8) {
        out[0] = bytes_signed(both);
        out[1] = bytes_signed(bytes_load(at + 256));
    } else {
        out[0] = bytes_low_nibbles(both);
        out[1] = bytes_high_nibbles(both);
    }
}

/* S_b of a block for n_tiles tiles and shape.n_tokens tokens. The chains of dot products of all of them advance side by
 * side, each weight vector unpacked where it is used: a core that sees one chain at a time fills its window with
 * instructions that wait. Where there are fewer chains than the units can hold in flight, each is cut into two. */
LANES_INLINE void block_products(const tile_view *tiles, int n_tiles, size_t block, const ew_activations *x,
                                 size_t index, matmul_shape shape, i32x16 (*dots)[LANES_TOKENS]) {
    enum { IN_FLIGHT = 10 };
    bool wide = shape.type == EW_ACTIVATION_INT16;
    int split = n_tiles * shape.n_tokens * (wide ? 2 : 1) < IN_FLIGHT ? 1 : 0;
    size_t token_bytes = x->n_blocks * (wide ? 64 : 32);
    const int8_t *codes = x->codes + index * (wide ? 64 : 32);
    plane_sums sums[2][LANES_TILES][LANES_TOKENS];
    for (int r = 0; r < n_tiles; r++) {
        for (int i = 0; i < shape.n_tokens; i++) {
            sums[0][r][i] = planes_start(-code_bias(shape.format) * x->sums[index + (size_t)i * x->n_blocks]);
            sums[1][r][i] = planes_start(0);
        }
    }
    for (int v = 0; v < 4; v++) {
        bytes64 w[LANES_TILES][2];
        for (int r = 0; r < n_tiles; r++) {
            unpack_pair(&tiles[r], block, v, shape.format, w[r]);
        }
        for (int half = 0; half < 2; half++) {
            int chain = half & split;
            for (int i = 0; i < shape.n_tokens; i++) {
                const int8_t *at = codes + (size_t)i * token_bytes + 16 * half + 4 * v;
                for (int r = 0; r < n_tiles; r++) {
                    plane_sums *sum = &sums[chain][r][i];
                    sum->hi = wide ? dot_quad(sum->hi, w[r][half], at, shape.format) : sum->hi;
                    sum->lo = dot_quad(sum->lo, w[r][half], wide ? at + 32 : at, shape.format);
                }
            }
        }
    }
    for (int r = 0; r < n_tiles; r++) {
        for (int i = 0; i < shape.n_tokens; i++) {
            plane_sums sum = sums[0][r][i];
            if (split) {
                sum.hi = ints_add(sum.hi, sums[1][r][i].hi);
                sum.lo = ints_add(sum.lo, sums[1][r][i].lo);
            }
            dots[r][i] = wide ? planes_total(&sum) : sum.lo;
        }
    }
}

#endif
