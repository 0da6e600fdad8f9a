/* Tile registers: their configuration, and unpacked weights as they want them. */
#ifndef EW_KERNEL_AMX_TILES_H
#define EW_KERNEL_AMX_TILES_H

#include "kernel/lanes/matmul_ops.h"
#include "kernel/x86/tile_registers.h"

enum {
    AMX_TOKENS = 16, /* rows of a tile register */
    AMX_BLOCK = 512  /* bytes of an unpacked block */
};

/* Tile registers, for intrinsics that paste the number: two sets of sums, for even and odd blocks, of two planes or of
 * two tiles of weights; 16 tokens (or 8 in two planes) by 32 inputs; 32 inputs by 16 rows of weights.
 *
 * What a register holds is let go with TILEZERO as soon as it is not wanted: writing to one needs a place that nobody
 * uses, and beside a busy hyperthread a processor has few of them beyond the eight (docs/performance.md, step 24). */
#define EVEN_FIRST 0
#define EVEN_SECOND 1
#define ODD_FIRST 2
#define ODD_SECOND 3
#define INPUTS 4
#define WEIGHTS 5

static void configure_tiles(void) {
    tile_configuration configuration = {.palette = 1};
    for (int i = EVEN_FIRST; i <= ODD_SECOND; i++) {
        configuration.rows[i] = AMX_TOKENS;
        configuration.column_bytes[i] = 64;
    }
    configuration.rows[INPUTS] = AMX_TOKENS;
    configuration.column_bytes[INPUTS] = EW_BLOCK_COLS;
    configuration.rows[WEIGHTS] = EW_BLOCK_COLS / 4;
    configuration.column_bytes[WEIGHTS] = 64;
    _tile_loadconfig(&configuration);
}

/* `sums` grows by the inputs at `codes` times WEIGHTS. */
#define MULTIPLY_INPUTS(sums, codes, stride)                                                                           \
    do {                                                                                                               \
        _tile_loadd(INPUTS, codes, stride);                                                                            \
        _tile_dpbssd(sums, INPUTS, WEIGHTS);                                                                           \
        _tile_zero(INPUTS);                                                                                            \
    } while (0)

#define STORE_SUMS(sums, out)                                                                                          \
    do {                                                                                                               \
        _tile_stored(sums, out, 64);                                                                                   \
        _tile_zero(sums);                                                                                              \
    } while (0)

typedef int32_t amx_sums[AMX_TOKENS][16];

/* One nibble of every byte, low or high, less the format's bias, as signed bytes: an affine map of the byte's bits. Bit i
 * of the result is the parity of the byte and mask i, which stands in byte 7 - i of the matrix, inverted where the
 * constant has a 1: symmetric codes 0..15 become -8..7 by copying their inverted highest bit upwards. */
#define SIGNED_NIBBLES(bytes, high, format)                                                                            \
    ((format) == EW_MATRIX_INT4_SYMMETRIC                                                                              \
         ? _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_set1_epi64(0x0102040808080808LL << ((high) ? 4 : 0)), 0xf8)     \
         : _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_set1_epi64(0x0102040800000000LL << ((high) ? 4 : 0)), 0))

/* The codes of an INT4 block as signed bytes. */
LANES_INLINE void unpack_codes(const uint8_t *codes, ew_matrix_format format, int8_t *out) {
    for (int v = 0; v < 4; v++) {
        bytes64 both = bytes_load(codes + v * 64);
        _mm512_store_si512(out + v * 64, SIGNED_NIBBLES(both, false, format));
        _mm512_store_si512(out + (v + 4) * 64, SIGNED_NIBBLES(both, true, format));
    }
}

/* 256 hi + lo; `factor` is 256. With INT4 symmetric weights |hi| is at most 8 * 127 * 32, which a word holds. */
LANES_INLINE i32x16 join_planes(i32x16 hi, i32x16 lo, i32x16 factor, ew_matrix_format format) {
    if (format == EW_MATRIX_INT4_SYMMETRIC) {
        return _mm512_dpwssd_epi32(lo, factor, hi); /* the last operand may come from memory */
    }
    return ints_add(ints_times_256(hi), lo);
}

#endif
