/* Tile registers: their configuration, and unpacked weights as they want them. */
#ifndef EW_KERNEL_AMX_TILES_H
#define EW_KERNEL_AMX_TILES_H

#include "kernel/lanes/matmul_ops.h"
#include "kernel/x86/tile_registers.h"

enum {
    AMX_TOKENS = 16, /* rows of a tile register */
    AMX_BLOCK = 512  /* bytes of an unpacked block */
};

/* Tile registers, for intrinsics that paste the number: sums of the two planes, inputs of the two planes, weights. */
#define SUMS_HI 0
#define SUMS_LO 1
#define NEXT_HI 2
#define NEXT_LO 3
#define INPUTS_HI 4
#define INPUTS_LO 5
#define WEIGHTS 6
#define NEXT_WEIGHTS 7

static void configure_tiles(void) {
    tile_configuration configuration = {.palette = 1};
    for (int i = SUMS_HI; i < WEIGHTS; i++) {
        configuration.rows[i] = AMX_TOKENS;
        configuration.column_bytes[i] = i < INPUTS_HI ? 64 : EW_BLOCK_COLS;
    }
    for (int i = WEIGHTS; i <= NEXT_WEIGHTS; i++) {
        configuration.rows[i] = 8;
        configuration.column_bytes[i] = 64;
    }
    _tile_loadconfig(&configuration);
}

typedef int32_t amx_sums[AMX_TOKENS][16];

/* One nibble of every byte, low or high, less the format's bias, as signed bytes: an affine map of the byte's bits. Bit i
 * of the result is the parity of the byte and mask i, which stands in byte 7 - i of the matrix, inverted where the
 * constant has a 1: symmetric codes 0..15 become -8..7 by copying their inverted highest bit upwards. */
#define SIGNED_NIBBLES(bytes, high, format)                                                                            \
    ((format) == EW_MATRIX_INT4_SYMMETRIC                                                                              \
         ? _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_set1_epi64(0x0102040808080808LL << ((high) ? 4 : 0)), 0xf8)     \
         : _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_set1_epi64(0x0102040800000000LL << ((high) ? 4 : 0)), 0))

/* Unpacked codes of a span as signed bytes, INT4 only. */
LANES_INLINE void unpack_signed(const tile_view *tile, size_t begin, size_t end, ew_matrix_format format, int8_t *out) {
    for (size_t block = begin; block < end; block++, out += AMX_BLOCK) {
        for (int v = 0; v < 4; v++) {
            bytes64 both = bytes_load(tile->codes + block * INT4_BLOCK_BYTES + v * 64);
            _mm512_store_si512(out + v * 64, SIGNED_NIBBLES(both, false, format));
            _mm512_store_si512(out + (v + 4) * 64, SIGNED_NIBBLES(both, true, format));
        }
    }
}

/* 256 hi + lo. With INT4 symmetric weights |hi| is at most 8 * 127 * 32, which a word holds. */
LANES_INLINE i32x16 join_planes(i32x16 hi, i32x16 lo, ew_matrix_format format) {
    if (format == EW_MATRIX_INT4_SYMMETRIC) {
        return _mm512_dpwssd_epi32(lo, _mm512_set1_epi32(256), hi); /* the last operand may come from memory */
    }
    return ints_add(ints_times_256(hi), lo);
}

#endif
