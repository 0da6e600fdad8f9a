/* A tile of an integer matrix as the products read it, and its codes in virtual lanes. */
#ifndef EW_KERNEL_LANES_TILE_VIEW_H
#define EW_KERNEL_LANES_TILE_VIEW_H

#include "kernel/lanes/float_ops.h"

enum { INT4_BLOCK_BYTES = 256, INT8_BLOCK_BYTES = 512 };

/* What is constant in a specialised program. */
typedef struct {
    ew_matrix_format format;
    ew_activation_type type;
    int n_tokens;
    bool per_row; /* INT8 with one scale a row, else of group 32 */
} matmul_shape;

/* Bytes of one block of INT4 or INT8 codes. */
LANES_INLINE size_t block_bytes_of(ew_matrix_format format) {
    return format == EW_MATRIX_INT8 ? INT8_BLOCK_BYTES : INT4_BLOCK_BYTES;
}

/* Where one tile's parts lie. */
typedef struct {
    const uint8_t *codes;
    const uint8_t *scales, *offsets;
    size_t n_blocks, group_blocks;
    bool float32_scales;
} tile_view;

LANES_INLINE tile_view tile_at(const ew_matrix *w, size_t tile) {
    tile_view view = {.n_blocks = (w->cols + EW_BLOCK_COLS - 1) / EW_BLOCK_COLS, .float32_scales = w->group == 0};
    view.group_blocks = w->group == 0 ? view.n_blocks : w->group / EW_BLOCK_COLS;
    size_t n_groups = (view.n_blocks + view.group_blocks - 1) / view.group_blocks;
    size_t table = tile * n_groups * EW_TILE_ROWS * (w->group == 0 ? sizeof(float) : sizeof(uint16_t));
    view.codes = (const uint8_t *)w->codes + tile * view.n_blocks * block_bytes_of(w->format);
    view.scales = (const uint8_t *)w->scales + table;
    view.offsets = w->format == EW_MATRIX_INT4_OFFSET ? (const uint8_t *)w->offsets + table : NULL;
    return view;
}

LANES_INLINE f32x16 group_factor(const uint8_t *table, bool float32, size_t group) {
    return float32 ? lanes_load((const float *)(const void *)table + group * EW_TILE_ROWS)
                   : lanes_load_float16((const uint16_t *)(const void *)table + group * EW_TILE_ROWS);
}

/* The codes of one block as 8 vectors of 16 rows by 4 inputs, in the order of the inputs. */
LANES_INLINE void unpack_block(const tile_view *tile, size_t block, ew_matrix_format format, bytes64 out[8]) {
    if (format == EW_MATRIX_INT8) {
        for (int v = 0; v < 8; v++) {
            out[v] = bytes_signed(bytes_load(tile->codes + block * INT8_BLOCK_BYTES + v * 64));
        }
        return;
    }
    for (int v = 0; v < 4; v++) {
        bytes64 both = bytes_load(tile->codes + block * INT4_BLOCK_BYTES + v * 64);
        out[v] = bytes_low_nibbles(both);
        out[v + 4] = bytes_high_nibbles(both);
    }
}

/* What unpacked codes hold above the weight's own code. */
LANES_INLINE int32_t code_bias(ew_matrix_format format) {
    return format == EW_MATRIX_INT8 ? SIGNED_BIAS : format == EW_MATRIX_INT4_SYMMETRIC ? 8 : 0;
}

LANES_INLINE i32x16 dot_quad(i32x16 sum, bytes64 w, const int8_t *x, ew_matrix_format format) {
    return format == EW_MATRIX_INT8 ? ints_dot_signed(sum, w, x) : ints_dot_nibbles(sum, w, x);
}

#endif
