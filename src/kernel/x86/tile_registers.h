/* What all users of tile registers need, whatever they multiply. */
#ifndef EW_KERNEL_TILE_REGISTERS_H
#define EW_KERNEL_TILE_REGISTERS_H

#include <stdint.h>

/* The operand of LDTILECFG. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t column_bytes[16];
    uint8_t rows[16];
} tile_configuration;

/* The intrinsics do not tell the compiler that tiles are read from memory. */
static inline void memory_is_read(void) {
    __asm__ volatile("" ::: "memory");
}

#endif
