/* Rows of a packed matrix as floats, for the backward pass: the values of ew_matrix_read_row, a tile of 16 rows at a time,
 * so that codes are read in the order in which they lie. */
#include "base/float16.h"
#include "train/packed.h"
#include "train/pointwise.h"

#ifndef EW_TRAIN_DOUBLE

/* The scales and offsets of a tile's rows in one group. */
typedef struct tile_scales {
    float scale[EW_TILE_ROWS], offset[EW_TILE_ROWS];
} tile_scales;

static void read_scales(const ew_matrix *m, size_t first_row, size_t group, tile_scales *out) {
    for (size_t r = 0; r < EW_TILE_ROWS; r++) {
        bool there = first_row + r < m->rows;
        out->scale[r] = there ? ew_matrix_scale(m, first_row + r, group) : 0;
        out->offset[r] = there ? ew_matrix_offset(m, first_row + r, group) : 0;
    }
}

/* A block's codes, [8][EW_TILE_ROWS][4], as signed bytes in the same order; `room` is for those that are nibbles. */
static const int8_t *signed_codes(const ew_matrix *m, const uint8_t *block, int8_t *room) {
    enum { BYTES = EW_TILE_ROWS * EW_BLOCK_COLS / 2 };
    if (m->format == EW_MATRIX_INT8) {
        return (const int8_t *)block;
    }
    int bias = m->format == EW_MATRIX_INT4_SYMMETRIC ? 8 : 0;
    for (size_t i = 0; i < BYTES; i++) {
        room[i] = (int8_t)((block[i] & 15) - bias);
        room[BYTES + i] = (int8_t)((block[i] >> 4) - bias);
    }
    return room;
}

void ew_packed_read_rows(const ew_matrix *m, size_t begin, size_t n, real *out) {
    if (begin % EW_TILE_ROWS != 0 || ew_matrix_is_float(m->format)) {
        for (size_t row = 0; row < n; row++) {
            ew_matrix_read_row(m, begin + row, out + row * m->cols);
        }
        return;
    }
    size_t n_blocks = (m->cols + EW_BLOCK_COLS - 1) / EW_BLOCK_COLS;
    size_t block_bytes = (m->format == EW_MATRIX_INT8 ? 2 : 1) * EW_TILE_ROWS * EW_BLOCK_COLS / 2;
    for (size_t row = 0; row < n; row += EW_TILE_ROWS) {
        size_t n_rows = n - row < EW_TILE_ROWS ? n - row : EW_TILE_ROWS, known = SIZE_MAX;
        const uint8_t *codes = (const uint8_t *)m->codes + (begin + row) / EW_TILE_ROWS * n_blocks * block_bytes;
        tile_scales scales;
        for (size_t b = 0; b < n_blocks; b++) {
            size_t col = b * EW_BLOCK_COLS, group = m->group > 0 ? col / m->group : 0;
            if (group != known) {
                read_scales(m, begin + row, group, &scales);
                known = group;
            }
            int8_t room[EW_TILE_ROWS * EW_BLOCK_COLS];
            ew_scale_codes(signed_codes(m, codes + b * block_bytes, room), scales.scale,
                           m->format == EW_MATRIX_INT4_OFFSET ? scales.offset : NULL, n_rows,
                           m->cols - col < EW_BLOCK_COLS ? m->cols - col : EW_BLOCK_COLS, out + row * m->cols + col,
                           m->cols);
        }
    }
}

#else
typedef int ew_no_packed_rows; /* a file must not be empty */
#endif
