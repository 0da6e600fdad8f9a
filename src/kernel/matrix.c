#include "kernel/matrix.h"
#include "base/float16.h"
#include "base/memory.h"

enum { INT4_BLOCK_BYTES = 256, INT8_BLOCK_BYTES = 512, VECTOR_BYTES = 64, ROW_BYTES_OF_QUAD = 4 };

static bool align(size_t *size) {
    if (!ew_add_size(*size, EW_MATRIX_ALIGNMENT - 1, size)) {
        return false;
    }
    *size -= *size % EW_MATRIX_ALIGNMENT;
    return true;
}

bool ew_matrix_group_exists(ew_matrix_format format, size_t group) {
    switch (format) {
    case EW_MATRIX_F32:
    case EW_MATRIX_BF16:
    case EW_MATRIX_F16:
        return group == 0;
    case EW_MATRIX_INT8:
        return group == 0 || group == EW_BLOCK_COLS;
    case EW_MATRIX_INT4_SYMMETRIC:
    case EW_MATRIX_INT4_OFFSET:
        return group == 0 || group == 32 || group == 64 || group == 128;
    }
    return false;
}

/* False when a size overflows. */
static bool plan_sizes(ew_matrix_format format, size_t cols, size_t group, ew_matrix_layout *layout) {
    size_t codes, table;
    if (ew_matrix_is_float(format)) {
        size_t column_bytes = EW_TILE_ROWS * (format == EW_MATRIX_F32 ? sizeof(float) : sizeof(uint16_t));
        layout->block_bytes = column_bytes * EW_BLOCK_COLS;
        if (!ew_multiply_size(layout->n_tiles, cols, &codes) || !ew_multiply_size(codes, column_bytes, &codes) ||
            !align(&codes)) {
            return false;
        }
        layout->scales_at = layout->offsets_at = layout->total = codes;
        return true;
    }
    size_t scale_bytes = EW_TILE_ROWS * (group == 0 ? sizeof(float) : sizeof(uint16_t));
    layout->block_bytes = format == EW_MATRIX_INT8 ? INT8_BLOCK_BYTES : INT4_BLOCK_BYTES;
    if (!ew_multiply_size(layout->n_tiles, layout->n_blocks, &codes) ||
        !ew_multiply_size(codes, layout->block_bytes, &codes) ||
        !ew_multiply_size(layout->n_tiles, layout->n_groups, &table) || !ew_multiply_size(table, scale_bytes, &table) ||
        !align(&table)) {
        return false;
    }
    layout->scales_at = codes; /* a multiple of 256 */
    if (!ew_add_size(codes, table, &layout->offsets_at)) {
        return false;
    }
    return ew_add_size(layout->offsets_at, format == EW_MATRIX_INT4_OFFSET ? table : 0, &layout->total);
}

ew_status ew_matrix_plan(ew_matrix_format format, size_t rows, size_t cols, size_t group, ew_matrix_layout *layout,
                         ew_error *error) {
    if (!ew_matrix_group_exists(format, group)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "there is no matrix format %d with groups of %zu", (int)format, group);
    }
    if (rows == 0 || cols == 0 || rows > UINT32_MAX - EW_TILE_ROWS || cols > UINT32_MAX - EW_BLOCK_COLS) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a matrix of %zu rows and %zu columns cannot be", rows, cols);
    }
    *layout = (ew_matrix_layout){0};
    layout->n_tiles = (rows + EW_TILE_ROWS - 1) / EW_TILE_ROWS;
    layout->n_blocks = (cols + EW_BLOCK_COLS - 1) / EW_BLOCK_COLS;
    layout->n_groups = group == 0 ? 1 : (cols + group - 1) / group;
    if (!plan_sizes(format, cols, group, layout)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a matrix of %zu rows and %zu columns does not fit memory", rows,
                       cols);
    }
    return EW_OK;
}

ew_status ew_matrix_view(ew_matrix_format format, size_t rows, size_t cols, size_t group, const void *data, size_t size,
                         ew_matrix *matrix, ew_error *error) {
    ew_matrix_layout layout = {0};
    ew_status status = ew_matrix_plan(format, rows, cols, group, &layout, error);
    if (status != EW_OK) {
        return status;
    }
    if (size != layout.total) {
        return ew_fail(error, EW_ERROR_FORMAT, "%zu bytes for a matrix of %zu rows and %zu columns; %zu would be right",
                       size, rows, cols, layout.total);
    }
    if ((uintptr_t)data % EW_MATRIX_ALIGNMENT != 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "matrix data must lie at a multiple of %d bytes", EW_MATRIX_ALIGNMENT);
    }
    const uint8_t *bytes = data;
    bool has_scales = !ew_matrix_is_float(format), has_offsets = format == EW_MATRIX_INT4_OFFSET;
    *matrix = (ew_matrix){.format = format,
                          .rows = (uint32_t)rows,
                          .cols = (uint32_t)cols,
                          .group = (uint32_t)group,
                          .codes = bytes,
                          .scales = has_scales ? bytes + layout.scales_at : NULL,
                          .offsets = has_offsets ? bytes + layout.offsets_at : NULL};
    return EW_OK;
}

size_t ew_matrix_tile_bytes(const ew_matrix *matrix) {
    size_t n_blocks = (matrix->cols + EW_BLOCK_COLS - 1) / EW_BLOCK_COLS;
    return ew_matrix_is_float(matrix->format)
               ? matrix->cols * EW_TILE_ROWS * (matrix->format == EW_MATRIX_F32 ? sizeof(float) : sizeof(uint16_t))
               : n_blocks * (matrix->format == EW_MATRIX_INT8 ? INT8_BLOCK_BYTES : INT4_BLOCK_BYTES);
}

ew_matrix ew_matrix_tiles(const ew_matrix *matrix, size_t begin, size_t end) {
    size_t first = begin * EW_TILE_ROWS, table = first * sizeof(float),
           last = end * EW_TILE_ROWS < matrix->rows ? end * EW_TILE_ROWS : matrix->rows;
    ew_matrix part = *matrix;
    part.rows = (uint32_t)(last - first);
    part.codes = (const uint8_t *)matrix->codes + begin * ew_matrix_tile_bytes(matrix);
    part.scales = matrix->scales ? (const uint8_t *)matrix->scales + table : NULL;
    part.offsets = matrix->offsets ? (const uint8_t *)matrix->offsets + table : NULL;
    return part;
}

void ew_matrix_block_codes(const ew_matrix *matrix, size_t row, size_t block, int8_t codes[EW_BLOCK_COLS]) {
    enum { HALF = EW_BLOCK_COLS / 2 };
    size_t n_blocks = (matrix->cols + EW_BLOCK_COLS - 1) / EW_BLOCK_COLS;
    size_t index = (row / EW_TILE_ROWS) * n_blocks + block, lane = row % EW_TILE_ROWS;
    if (matrix->format == EW_MATRIX_INT8) {
        const int8_t *stored = (const int8_t *)matrix->codes + index * INT8_BLOCK_BYTES + lane * ROW_BYTES_OF_QUAD;
        for (size_t i = 0; i < EW_BLOCK_COLS; i++) {
            codes[i] = stored[i / 4 * VECTOR_BYTES + i % 4];
        }
        return;
    }
    const uint8_t *pairs = (const uint8_t *)matrix->codes + index * INT4_BLOCK_BYTES + lane * ROW_BYTES_OF_QUAD;
    int bias = matrix->format == EW_MATRIX_INT4_SYMMETRIC ? 8 : 0;
    for (size_t i = 0; i < HALF; i++) {
        uint8_t pair = pairs[i / 4 * VECTOR_BYTES + i % 4];
        codes[i] = (int8_t)((pair & 15) - bias);
        codes[HALF + i] = (int8_t)((pair >> 4) - bias);
    }
}

int ew_matrix_code(const ew_matrix *matrix, size_t row, size_t col) {
    int8_t codes[EW_BLOCK_COLS];
    ew_matrix_block_codes(matrix, row, col / EW_BLOCK_COLS, codes);
    return codes[col % EW_BLOCK_COLS];
}

static float read_table(const ew_matrix *matrix, const void *table, size_t row, size_t group_index) {
    size_t tile = row / EW_TILE_ROWS, lane = row % EW_TILE_ROWS;
    if (matrix->group == 0) {
        return ((const float *)table)[tile * EW_TILE_ROWS + lane];
    }
    size_t n_groups = (matrix->cols + matrix->group - 1) / matrix->group;
    return ew_f16_to_f32(((const uint16_t *)table)[(tile * n_groups + group_index) * EW_TILE_ROWS + lane]);
}

float ew_matrix_scale(const ew_matrix *matrix, size_t row, size_t group_index) {
    return matrix->scales ? read_table(matrix, matrix->scales, row, group_index) : 1.0f;
}

float ew_matrix_offset(const ew_matrix *matrix, size_t row, size_t group_index) {
    return matrix->offsets ? read_table(matrix, matrix->offsets, row, group_index) : 0.0f;
}

static float read_float(const ew_matrix *matrix, size_t index) {
    switch (matrix->format) {
    case EW_MATRIX_F32:
        return ((const float *)matrix->codes)[index];
    case EW_MATRIX_F16:
        return ew_f16_to_f32(((const uint16_t *)matrix->codes)[index]);
    default:
        return ew_bf16_to_f32(((const uint16_t *)matrix->codes)[index]);
    }
}

static void read_float_row(const ew_matrix *matrix, size_t row, float *out) {
    size_t first = (row / EW_TILE_ROWS) * matrix->cols * EW_TILE_ROWS + row % EW_TILE_ROWS;
    for (size_t col = 0; col < matrix->cols; col++) {
        out[col] = read_float(matrix, first + col * EW_TILE_ROWS);
    }
}

void ew_matrix_read_row(const ew_matrix *matrix, size_t row, float *out) {
    if (ew_matrix_is_float(matrix->format)) {
        read_float_row(matrix, row, out);
        return;
    }
    size_t group = matrix->group == 0 ? matrix->cols : matrix->group;
    for (size_t begin = 0; begin < matrix->cols; begin += group) {
        float scale = ew_matrix_scale(matrix, row, begin / group);
        float offset = ew_matrix_offset(matrix, row, begin / group);
        size_t end = begin + group < matrix->cols ? begin + group : matrix->cols;
        int8_t codes[EW_BLOCK_COLS];
        for (size_t col = begin; col < end; col++) { /* groups begin with blocks */
            if (col % EW_BLOCK_COLS == 0) {
                ew_matrix_block_codes(matrix, row, col / EW_BLOCK_COLS, codes);
            }
            float value = scale * (float)codes[col % EW_BLOCK_COLS];
            out[col] = matrix->offsets ? value + offset : value;
        }
    }
}

const char *ew_matrix_format_name(ew_matrix_format format) {
    switch (format) {
    case EW_MATRIX_F32:
        return "F32";
    case EW_MATRIX_BF16:
        return "BF16";
    case EW_MATRIX_INT4_SYMMETRIC:
        return "INT4 symmetric";
    case EW_MATRIX_INT4_OFFSET:
        return "INT4 offset";
    case EW_MATRIX_INT8:
        return "INT8";
    case EW_MATRIX_F16:
        return "F16";
    }
    return "unknown";
}
