/* A weight matrix as the kernels read it: y[rows] = W[rows, cols] x[cols].
 *
 * Rows are cut into tiles of 16, columns into blocks of 32, the last of each padded with zero codes and zero scales.
 * docs/arithmetic.md ("Weights") says what the codes mean; this is where they lie, the same for every instruction
 * set and for matrix-vector and matrix-matrix products, in memory and in the file:
 *
 *   codes    INT4  [n_tiles][n_blocks][4 vectors][16 rows][4]: one byte holds two codes. Byte (row, e) of vector v has
 *                  input 4 v + e of the block in its low nibble, input 16 + 4 v + e in its high one. 256 bytes a block.
 *                  Symmetric codes are stored plus 8, so that every nibble is 0..15.
 *            INT8  [n_tiles][n_blocks][8 vectors][16 rows][4]: byte (row, e) of vector v is input 4 v + e, two's
 *                  complement, -127..127 (-128 is accepted from files). 512 bytes a block.
 *            F32   [n_tiles][cols][16 rows] floats, and BF16 and F16 likewise with 16-bit values (the unquantized
 *                  reference, and adapters).
 *   scales   group > 0: F16 [n_tiles][n_groups][16 rows]; group 0: F32 [n_tiles][16 rows]; none for F32, BF16 and F16
 *   offsets  as scales, for INT4_OFFSET only
 *
 * In one allocation or tensor the three lie behind each other in that order, each at a multiple of 64 bytes. */
#ifndef EW_KERNEL_MATRIX_H
#define EW_KERNEL_MATRIX_H

#include "base/error.h"

enum { EW_TILE_ROWS = 16, EW_BLOCK_COLS = 32, EW_MATRIX_ALIGNMENT = 64 };

/* The values stand in model files: never renumber. */
typedef enum ew_matrix_format {
    EW_MATRIX_F32 = 0,
    EW_MATRIX_BF16 = 1,
    EW_MATRIX_INT4_SYMMETRIC = 2, /* w = scale * q, q in -8..7 */
    EW_MATRIX_INT4_OFFSET = 3,    /* w = scale * q + offset, q in 0..15 */
    EW_MATRIX_INT8 = 4,           /* w = scale * q, group 32; adapters, which are in no model file: group 0 */
    EW_MATRIX_F16 = 5             /* adapters only */
} ew_matrix_format;

/* Whether matrices of a format have scales for so many inputs; 0: one for a row. */
bool ew_matrix_group_exists(ew_matrix_format format, size_t group);

static inline bool ew_matrix_is_float(ew_matrix_format format) {
    return format == EW_MATRIX_F32 || format == EW_MATRIX_BF16 || format == EW_MATRIX_F16;
}

typedef struct ew_matrix {
    ew_matrix_format format;
    uint32_t rows;
    uint32_t cols;
    uint32_t group;      /* inputs under one scale: 32, 64, 128, or 0 for a whole row */
    const void *codes;   /* not owned */
    const void *scales;  /* not owned */
    const void *offsets; /* not owned */
} ew_matrix;

/* Where the parts of a matrix of this shape lie in its memory, in bytes. */
typedef struct ew_matrix_layout {
    size_t n_tiles;  /* ceil(rows / 16) */
    size_t n_blocks; /* ceil(cols / 32) */
    size_t n_groups; /* ceil(cols / group), 1 for group 0 */
    size_t block_bytes;
    size_t scales_at;  /* the codes are at 0 */
    size_t offsets_at; /* equal to total where there are none */
    size_t total;
} ew_matrix_layout;

/* Errors: EW_ERROR_ARGUMENT for a shape, format or group that does not exist or whose size overflows. */
ew_status ew_matrix_plan(ew_matrix_format format, size_t rows, size_t cols, size_t group, ew_matrix_layout *layout,
                         ew_error *error);

/* A view of `size` bytes at `data` (64-byte aligned) that must be exactly layout.total. The data stays the caller's. */
ew_status ew_matrix_view(ew_matrix_format format, size_t rows, size_t cols, size_t group, const void *data, size_t size,
                         ew_matrix *matrix, ew_error *error);

/* Bytes of the codes (or floats) of one tile. */
size_t ew_matrix_tile_bytes(const ew_matrix *matrix);

/* Tiles begin .. end - 1 of a float matrix or one of group 0, as a matrix of its own. */
ew_matrix ew_matrix_tiles(const ew_matrix *matrix, size_t begin, size_t end);

/* Integer codes of one row in a block, -8..7, 0..15 or -128..127 by format (INT4 and INT8 only), the padding of the last
 * block among them; and that of one weight. */
void ew_matrix_block_codes(const ew_matrix *matrix, size_t row, size_t block, int8_t codes[EW_BLOCK_COLS]);
int ew_matrix_code(const ew_matrix *matrix, size_t row, size_t col);
float ew_matrix_scale(const ew_matrix *matrix, size_t row, size_t group_index);
float ew_matrix_offset(const ew_matrix *matrix, size_t row, size_t group_index); /* 0 where the format has none */

/* One row dequantized: scale * q, or scale * q + offset with both operations rounded. out[cols]. */
void ew_matrix_read_row(const ew_matrix *matrix, size_t row, float *out);

const char *ew_matrix_format_name(ew_matrix_format format);

#endif
