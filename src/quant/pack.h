/* Rows of codes, scales and offsets, or of plain floats, into the tile layout of kernel/matrix.h.
 *
 * Three sources: the quantizers (int4.h, int8.h), blocks of GGUF files that hold the same values (repacked
 * bit for bit, never rounded), and float rows (the unquantized reference). Unpacking is ew_matrix_code,
 * ew_matrix_scale and ew_matrix_read_row. */
#ifndef EW_QUANT_PACK_H
#define EW_QUANT_PACK_H

#include "base/threads.h"
#include "format/checkpoint.h"
#include "kernel/matrix.h"

/* A matrix being filled. Rows may be written by several threads at once, each row by one. */
typedef struct ew_packing {
    ew_matrix_format format;
    size_t rows, cols, group;
    ew_matrix_layout layout;
    uint8_t *memory; /* layout.total bytes, owned; codes of 0 and scales of 0 until rows are written */
} ew_packing;

/* Errors: those of ew_matrix_plan, EW_ERROR_MEMORY. */
ew_status ew_packing_open(ew_matrix_format format, size_t rows, size_t cols, size_t group,
                          ew_packing *packing, ew_error *error);
void ew_packing_free(ew_packing *packing); /* safe on {0}; also resets */

/* Codes as ew_matrix_code gives them; scales and offsets, one a group, are values that the format holds
 * exactly. offsets is looked at for EW_MATRIX_INT4_OFFSET only. */
void ew_pack_codes(ew_packing *packing, size_t row, const int8_t *codes, const float *scales,
                   const float *offsets);

/* w[cols] into an F32, BF16 or F16 packing (nearest, ties to even). */
void ew_pack_floats(ew_packing *packing, size_t row, const float *w);

/* The format that holds the blocks of this type without loss: Q4_0 -> INT4 symmetric, Q4_1 -> INT4 offset,
 * Q8_0 -> INT8, all of group 32. False for every other type. */
bool ew_pack_lossless_format(ew_dtype type, ew_matrix_format *format);

/* One encoded row of such a type, cols / 32 blocks, scales and offsets copied bit for bit. */
void ew_pack_blocks(ew_packing *packing, size_t row, ew_dtype type, const uint8_t *encoded);

/* The matrix as a view of the packing's memory. */
ew_matrix ew_packing_view(const ew_packing *packing);

/* Any tensor of a checkpoint as an F32 or BF16 matrix, or, where its type allows it
 * (ew_pack_lossless_format), in that packed format. *memory is owned by the caller (free) and holds what *out
 * points into. `pool` may be NULL. */
ew_status ew_matrix_from_tensor(const ew_tensor *tensor, ew_matrix_format format, ew_pool *pool,
                                void **memory, ew_matrix *out, ew_error *error);

/* The same from a packed matrix, dequantized: F32 or BF16. */
ew_status ew_matrix_dequantize(const ew_matrix *matrix, ew_matrix_format format, ew_pool *pool, void **memory,
                               ew_matrix *out, ew_error *error);

#endif
