/* Tile registers: their configuration, and unpacked weights as they want them. */
#ifndef EW_KERNEL_AMX_TILES_H
#define EW_KERNEL_AMX_TILES_H

#include "kernel/lanes/matmul_ops.h"

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

/* The operand of LDTILECFG. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t column_bytes[16];
    uint8_t rows[16];
} tile_configuration;

static void configure_tiles(void) {
    tile_configuration configuration = {.palette = 1};
    for (int i = SUMS_HI; i < WEIGHTS; i++) {
        configuration.rows[i] = AMX_TOKENS;
        configuration.column_bytes[i] = i < INPUTS_HI ? 64 : 32;
    }
    for (int i = WEIGHTS; i <= NEXT_WEIGHTS; i++) {
        configuration.rows[i] = 8;
        configuration.column_bytes[i] = 64;
    }
    _tile_loadconfig(&configuration);
}

/* The intrinsics do not tell the compiler that tiles are read from memory. */
LANES_INLINE void memory_is_read(void) {
    __asm__ volatile("" ::: "memory");
}

typedef int32_t amx_sums[AMX_TOKENS][16];

/* Unpacked codes of a span as signed bytes, INT4 only. */
LANES_INLINE void unpack_signed(const tile_view *tile, size_t begin, size_t end, ew_matrix_format format, int8_t *out) {
    __m512i bias = _mm512_set1_epi8(format == EW_MATRIX_INT4_SYMMETRIC ? 8 : 0);
    for (size_t block = begin; block < end; block++, out += AMX_BLOCK) {
        bytes64 w[8];
        unpack_block(tile, block, format, w);
        for (int v = 0; v < 8; v++) {
            _mm512_store_si512(out + v * 64, _mm512_sub_epi8(w[v], bias));
        }
    }
}

#endif
