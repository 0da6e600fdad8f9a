#include "base/float16.h"
#include "format/checkpoint.h"
#include "format/dequantize.h"

#include <string.h>

/* Where the file keeps canonical row `row`: llama files put the two rows of a pair, i and i + head/2, next to
 * each other, as 2 i and 2 i + 1. */
static size_t place_of(const ew_tensor *tensor, size_t row) {
    size_t head = tensor->interleaved;
    if (head == 0) {
        return row;
    }
    size_t inside = row % head, half = head / 2;
    return row - inside + 2 * (inside % half) + inside / half;
}

const uint8_t *ew_tensor_row(const ew_tensor *tensor, size_t row) {
    size_t place = tensor->rows > 1 ? place_of(tensor, row) : row;
    return tensor->data + place * tensor->row_bytes;
}

static float plain_element(const ew_tensor *tensor, size_t index) {
    if (tensor->type == EW_DTYPE_F32) {
        float value;
        memcpy(&value, tensor->data + index * sizeof value, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, tensor->data + index * sizeof bits, sizeof bits);
    return tensor->type == EW_DTYPE_F16 ? ew_f16_to_f32(bits) : ew_bf16_to_f32(bits);
}

ew_status ew_tensor_read_row(const ew_tensor *tensor, size_t row, float *out, ew_error *error) {
    if (tensor->rows == 1 && tensor->interleaved > 0) { /* a bias; vectors have plain types only */
        for (size_t i = 0; i < tensor->cols; i++) {
            out[i] = plain_element(tensor, place_of(tensor, i));
        }
        return EW_OK;
    }
    return ew_dequantize_row(tensor->type, ew_tensor_row(tensor, row), tensor->cols, out, error);
}
