#include "format/dequantize.h"
#include "base/float16.h"

#include <string.h>

/* Below, `b` is one block as it lies in the file and `y` its 32 or 256 values. Layouts: ggml-common.h of
 * llama.cpp. */

static uint16_t read_u16(const uint8_t *bytes) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static float read_f16(const uint8_t *bytes) {
    return ew_f16_to_f32(read_u16(bytes));
}

static uint32_t read_u32(const uint8_t *bytes) {
    return (uint32_t)read_u16(bytes) | (uint32_t)read_u16(bytes + 2) << 16;
}

static void block_q4_0(const uint8_t *b, float *y) {
    float d = read_f16(b);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)((b[2 + i] & 15) - 8) * d;
        y[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
    }
}

static void block_q4_1(const uint8_t *b, float *y) {
    float d = read_f16(b), m = read_f16(b + 2);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)(b[4 + i] & 15) * d + m;
        y[i + 16] = (float)(b[4 + i] >> 4) * d + m;
    }
}

/* The fifth bits of the 32 elements stand in one word, element 0 lowest. */
static void codes_of_5_bits(const uint8_t *high, const uint8_t *low, int codes[32]) {
    uint32_t bits = read_u32(high);
    for (int i = 0; i < 16; i++) {
        codes[i] = (low[i] & 15) | (int)(bits >> i & 1) << 4;
        codes[i + 16] = low[i] >> 4 | (int)(bits >> (i + 16) & 1) << 4;
    }
}

static void block_q5_0(const uint8_t *b, float *y) {
    float d = read_f16(b);
    int codes[32];
    codes_of_5_bits(b + 2, b + 6, codes);
    for (int i = 0; i < 32; i++) {
        y[i] = (float)(codes[i] - 16) * d;
    }
}

static void block_q5_1(const uint8_t *b, float *y) {
    float d = read_f16(b), m = read_f16(b + 2);
    int codes[32];
    codes_of_5_bits(b + 4, b + 8, codes);
    for (int i = 0; i < 32; i++) {
        y[i] = (float)codes[i] * d + m;
    }
}

static void block_q8_0(const uint8_t *b, float *y) {
    float d = read_f16(b);
    for (int i = 0; i < 32; i++) {
        y[i] = (float)(int8_t)b[2 + i] * d;
    }
}

/* Sixteen groups of 16; a scale byte holds scale (low) and minimum (high) in 4 bits each. */
static void block_q2_k(const uint8_t *b, float *y) {
    const uint8_t *scales = b, *codes = b + 16;
    float d = read_f16(b + 80), least = read_f16(b + 82);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, plane = i % 128 / 32, place = i % 32;
        int code = codes[32 * half + place] >> (2 * plane) & 3;
        uint8_t scale = scales[i / 16];
        y[i] = d * (float)(scale & 15) * (float)code - least * (float)(scale >> 4);
    }
}

/* Sixteen scales of 6 bits in 12 bytes: the low 4 bits in bytes 0..7, the high 2 in bytes 8..11. */
static int scale_q3_k(const uint8_t *scales, int group) {
    int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    int high = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
    return (low | high << 4) - 32;
}

static void block_q3_k(const uint8_t *b, float *y) {
    const uint8_t *high = b, *codes = b + 32, *scales = b + 96;
    float d = read_f16(b + 108);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, plane = i % 128 / 32, place = i % 32;
        int code = codes[32 * half + place] >> (2 * plane) & 3;
        if (!(high[place] >> (4 * half + plane) & 1)) {
            code -= 4;
        }
        y[i] = d * (float)scale_q3_k(scales, i / 16) * (float)code;
    }
}

/* Eight scales and eight minima of 6 bits in 12 bytes. */
static void scale_q4_k(const uint8_t *scales, int group, int *scale, int *least) {
    if (group < 4) {
        *scale = scales[group] & 63;
        *least = scales[group + 4] & 63;
    } else {
        *scale = (scales[group + 4] & 15) | scales[group - 4] >> 6 << 4;
        *least = scales[group + 4] >> 4 | scales[group] >> 6 << 4;
    }
}

/* Q4_K and Q5_K: eight groups of 32; the groups 2 k and 2 k + 1 share 32 bytes, low and high halves. `fifth`,
 * where not NULL, has one bit more for each: byte i % 32, bit group. */
static void block_q45_k(const uint8_t *b, const uint8_t *fifth, const uint8_t *codes, float *y) {
    float d = read_f16(b), minimum = read_f16(b + 2);
    for (int group = 0; group < 8; group++) {
        int scale, least;
        scale_q4_k(b + 4, group, &scale, &least);
        float step = d * (float)scale, offset = minimum * (float)least;
        for (int i = 0; i < 32; i++) {
            int code = codes[group / 2 * 32 + i] >> (4 * (group % 2)) & 15;
            if (fifth) {
                code |= (fifth[i] >> group & 1) << 4;
            }
            y[group * 32 + i] = step * (float)code - offset;
        }
    }
}

static void block_q4_k(const uint8_t *b, float *y) {
    block_q45_k(b, NULL, b + 16, y);
}

static void block_q5_k(const uint8_t *b, float *y) {
    block_q45_k(b, b + 16, b + 48, y);
}

static void block_q6_k(const uint8_t *b, float *y) {
    const uint8_t *low = b, *high = b + 128, *scales = b + 192;
    float d = read_f16(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, plane = i % 128 / 32, place = i % 32;
        int nibble = low[64 * half + 32 * (plane % 2) + place] >> (4 * (plane / 2)) & 15;
        int code = (nibble | (high[32 * half + place] >> (2 * plane) & 3) << 4) - 32;
        y[i] = d * (float)(int8_t)scales[i / 16] * (float)code;
    }
}

typedef void block_reader(const uint8_t *block, float *values);

static block_reader *reader_of(ew_dtype type) {
    switch (type) {
    case EW_DTYPE_Q4_0:
        return block_q4_0;
    case EW_DTYPE_Q4_1:
        return block_q4_1;
    case EW_DTYPE_Q5_0:
        return block_q5_0;
    case EW_DTYPE_Q5_1:
        return block_q5_1;
    case EW_DTYPE_Q8_0:
        return block_q8_0;
    case EW_DTYPE_Q2_K:
        return block_q2_k;
    case EW_DTYPE_Q3_K:
        return block_q3_k;
    case EW_DTYPE_Q4_K:
        return block_q4_k;
    case EW_DTYPE_Q5_K:
        return block_q5_k;
    case EW_DTYPE_Q6_K:
        return block_q6_k;
    default:
        return NULL;
    }
}

static void read_plain(ew_dtype type, const uint8_t *encoded, size_t cols, float *out) {
    if (type == EW_DTYPE_F32) {
        memcpy(out, encoded, cols * sizeof *out);
        return;
    }
    for (size_t i = 0; i < cols; i++) {
        uint16_t bits = read_u16(encoded + 2 * i);
        out[i] = type == EW_DTYPE_F16 ? ew_f16_to_f32(bits) : ew_bf16_to_f32(bits);
    }
}

ew_status ew_dequantize_row(ew_dtype type, const uint8_t *encoded, size_t cols, float *out, ew_error *error) {
    if (!ew_dtype_is_weight(type)) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "values of type %s are no weights", ew_dtype_name(type));
    }
    block_reader *reader = reader_of(type);
    if (!reader) {
        read_plain(type, encoded, cols, out);
        return EW_OK;
    }
    size_t elements = ew_dtype_block_elements(type), bytes = ew_dtype_block_bytes(type);
    if (cols % elements != 0) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "a row of %zu values cannot be %s: it is stored in blocks of %zu", cols,
                       ew_dtype_name(type), elements);
    }
    for (size_t i = 0; i < cols / elements; i++) {
        reader(encoded + i * bytes, out + i * elements);
    }
    return EW_OK;
}
