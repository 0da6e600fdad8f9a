#include "quant/pack.h"
#include "base/float16.h"
#include "base/memory.h"
#include "quant/rows.h"

#include <stdlib.h>
#include <string.h>

enum { SYMMETRIC_BIAS = 8, HALF_BYTES = 2, QUAD_BYTES = 64, ROW_QUAD = 4, CODES_OF_BLOCK = EW_BLOCK_COLS };

ew_status ew_packing_open(ew_matrix_format format, size_t rows, size_t cols, size_t group,
                          ew_packing *packing, ew_error *error) {
    *packing = (ew_packing){.format = format, .rows = rows, .cols = cols, .group = group};
    ew_status status = ew_matrix_plan(format, rows, cols, group, &packing->layout, error);
    if (status != EW_OK) {
        return status;
    }
    packing->memory = ew_allocate_aligned(packing->layout.total, 1);
    if (!packing->memory) {
        return ew_fail_memory(error, packing->layout.total, "a matrix");
    }
    if (format == EW_MATRIX_INT4_SYMMETRIC) {
        memset(packing->memory, SYMMETRIC_BIAS << 4 | SYMMETRIC_BIAS, packing->layout.scales_at);
    }
    return EW_OK;
}

void ew_packing_free(ew_packing *packing) {
    free(packing->memory);
    *packing = (ew_packing){0};
}

ew_matrix ew_packing_view(const ew_packing *packing) {
    ew_matrix matrix = {0};
    /* Cannot fail: the packing was planned the same way. */
    (void)ew_matrix_view(packing->format, packing->rows, packing->cols, packing->group, packing->memory,
                         packing->layout.total, &matrix, NULL);
    return matrix;
}

/* Where the codes of this row begin in the first block of its tile; blocks follow at layout.block_bytes. */
static uint8_t *row_codes(ew_packing *packing, size_t row) {
    size_t tile = row / EW_TILE_ROWS, lane = row % EW_TILE_ROWS;
    return packing->memory + tile * packing->layout.n_blocks * packing->layout.block_bytes + lane * ROW_QUAD;
}

static size_t table_index(const ew_packing *packing, size_t row, size_t group_index) {
    return (row / EW_TILE_ROWS * packing->layout.n_groups + group_index) * EW_TILE_ROWS + row % EW_TILE_ROWS;
}

static void put_half(ew_packing *packing, size_t table_at, size_t row, size_t group_index, uint16_t half) {
    uint16_t *table = (uint16_t *)(void *)(packing->memory + table_at);
    table[table_index(packing, row, group_index)] = half;
}

static void put_table(ew_packing *packing, size_t table_at, size_t row, const float *values) {
    if (packing->group == 0) {
        float *table = (float *)(void *)(packing->memory + table_at);
        table[table_index(packing, row, 0)] = values[0];
        return;
    }
    for (size_t group = 0; group < packing->layout.n_groups; group++) {
        put_half(packing, table_at, row, group, ew_f32_to_f16(values[group]));
    }
}

/* 32 nibbles, 0..15, in the order of the inputs. */
static void put_int4_block(uint8_t *block, const uint8_t nibbles[CODES_OF_BLOCK]) {
    for (size_t i = 0; i < CODES_OF_BLOCK / 2; i++) {
        block[i / ROW_QUAD * QUAD_BYTES + i % ROW_QUAD] =
            (uint8_t)(nibbles[i] | nibbles[CODES_OF_BLOCK / 2 + i] << 4);
    }
}

static void put_int8_block(uint8_t *block, const int8_t codes[CODES_OF_BLOCK]) {
    for (size_t i = 0; i < CODES_OF_BLOCK; i++) {
        block[i / ROW_QUAD * QUAD_BYTES + i % ROW_QUAD] = (uint8_t)codes[i];
    }
}

void ew_pack_codes(ew_packing *packing, size_t row, const int8_t *codes, const float *scales,
                   const float *offsets) {
    uint8_t *block = row_codes(packing, row);
    int bias = packing->format == EW_MATRIX_INT4_SYMMETRIC ? SYMMETRIC_BIAS : 0;
    for (size_t begin = 0; begin < packing->cols;
         begin += CODES_OF_BLOCK, block += packing->layout.block_bytes) {
        size_t n = packing->cols - begin < CODES_OF_BLOCK ? packing->cols - begin : CODES_OF_BLOCK;
        if (packing->format == EW_MATRIX_INT8) {
            int8_t padded[CODES_OF_BLOCK] = {0};
            memcpy(padded, codes + begin, n);
            put_int8_block(block, padded);
        } else {
            uint8_t nibbles[CODES_OF_BLOCK];
            for (size_t i = 0; i < CODES_OF_BLOCK; i++) {
                nibbles[i] = (uint8_t)((i < n ? codes[begin + i] : 0) + bias);
            }
            put_int4_block(block, nibbles);
        }
    }
    put_table(packing, packing->layout.scales_at, row, scales);
    if (packing->format == EW_MATRIX_INT4_OFFSET) {
        put_table(packing, packing->layout.offsets_at, row, offsets);
    }
}

void ew_pack_floats(ew_packing *packing, size_t row, const float *w) {
    size_t first = row / EW_TILE_ROWS * packing->cols * EW_TILE_ROWS + row % EW_TILE_ROWS;
    if (packing->format == EW_MATRIX_F32) {
        float *out = (float *)(void *)packing->memory + first;
        for (size_t col = 0; col < packing->cols; col++) {
            out[col * EW_TILE_ROWS] = w[col];
        }
    } else {
        uint16_t *out = (uint16_t *)(void *)packing->memory + first;
        bool half = packing->format == EW_MATRIX_F16;
        for (size_t col = 0; col < packing->cols; col++) {
            out[col * EW_TILE_ROWS] = half ? ew_f32_to_f16(w[col]) : ew_f32_to_bf16(w[col]);
        }
    }
}

bool ew_pack_lossless_format(ew_dtype type, ew_matrix_format *format) {
    switch (type) {
    case EW_DTYPE_Q4_0:
        *format = EW_MATRIX_INT4_SYMMETRIC;
        return true;
    case EW_DTYPE_Q4_1:
        *format = EW_MATRIX_INT4_OFFSET;
        return true;
    case EW_DTYPE_Q8_0:
        *format = EW_MATRIX_INT8;
        return true;
    default:
        return false;
    }
}

static uint16_t read_half(const uint8_t *bytes) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

/* ggml's blocks: the scale, for Q4_1 the offset ("m"), then the codes. A byte of Q4_0 and Q4_1 holds inputs i
 * and 16 + i just as ours does; Q4_0 stores its codes plus 8, too. */
void ew_pack_blocks(ew_packing *packing, size_t row, ew_dtype type, const uint8_t *encoded) {
    uint8_t *block = row_codes(packing, row);
    for (size_t i = 0; i < packing->layout.n_blocks; i++, block += packing->layout.block_bytes) {
        put_half(packing, packing->layout.scales_at, row, i, read_half(encoded));
        encoded += HALF_BYTES;
        if (type == EW_DTYPE_Q4_1) {
            put_half(packing, packing->layout.offsets_at, row, i, read_half(encoded));
            encoded += HALF_BYTES;
        }
        size_t n_quads = type == EW_DTYPE_Q8_0 ? CODES_OF_BLOCK / ROW_QUAD : CODES_OF_BLOCK / 2 / ROW_QUAD;
        for (size_t quad = 0; quad < n_quads; quad++, encoded += ROW_QUAD) {
            memcpy(block + quad * QUAD_BYTES, encoded, ROW_QUAD);
        }
    }
}

/* ---- whole matrices ---- */

typedef struct conversion {
    ew_packing packing;
    const ew_tensor *tensor; /* one of the two */
    const ew_matrix *matrix;
} conversion;

static ew_status convert_row(void *context, size_t row, void *scratch, ew_error *error) {
    conversion *work = context;
    if (!ew_matrix_is_float(work->packing.format)) {
        ew_pack_blocks(&work->packing, row, work->tensor->type, ew_tensor_row(work->tensor, row));
        return EW_OK;
    }
    float *w = scratch;
    if (work->tensor) {
        ew_status status = ew_tensor_read_row(work->tensor, row, w, error);
        if (status != EW_OK) {
            return status;
        }
    } else {
        ew_matrix_read_row(work->matrix, row, w);
    }
    ew_pack_floats(&work->packing, row, w);
    return EW_OK;
}

static ew_status convert(conversion *work, size_t group, ew_pool *pool, void **memory, ew_matrix *out,
                         ew_error *error) {
    ew_packing *packing = &work->packing;
    size_t rows = packing->rows, cols = packing->cols;
    ew_status status = ew_packing_open(packing->format, rows, cols, group, packing, error);
    if (status == EW_OK) {
        status = ew_for_rows(pool, 0, rows, cols * sizeof(float), convert_row, work, NULL, error);
    }
    if (status != EW_OK) {
        ew_packing_free(packing);
        return status;
    }
    *out = ew_packing_view(packing);
    *memory = packing->memory;
    return EW_OK;
}

ew_status ew_matrix_from_tensor(const ew_tensor *tensor, ew_matrix_format format, ew_pool *pool,
                                void **memory, ew_matrix *out, ew_error *error) {
    ew_matrix_format lossless;
    bool same = ew_pack_lossless_format(tensor->type, &lossless) && lossless == format;
    if (!ew_matrix_is_float(format) && !same) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%s holds %s values, which are not %s without rounding",
                       tensor->name, ew_dtype_name(tensor->type), ew_matrix_format_name(format));
    }
    conversion work = {.packing = {.format = format, .rows = tensor->rows, .cols = tensor->cols},
                       .tensor = tensor};
    return convert(&work, same ? EW_BLOCK_COLS : 0, pool, memory, out, error);
}

ew_status ew_matrix_dequantize(const ew_matrix *matrix, ew_matrix_format format, ew_pool *pool, void **memory,
                               ew_matrix *out, ew_error *error) {
    if (!ew_matrix_is_float(format)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a matrix is dequantized to F32 or BF16, not to %s",
                       ew_matrix_format_name(format));
    }
    conversion work = {.packing = {.format = format, .rows = matrix->rows, .cols = matrix->cols},
                       .matrix = matrix};
    return convert(&work, 0, pool, memory, out, error);
}
