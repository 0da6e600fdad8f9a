/* IEEE binary16 and bfloat16 to and from float, exactly and portably (no F16C or ARM conversion needed). */
#ifndef EW_BASE_FLOAT16_H
#define EW_BASE_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline float ew_bits_to_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t ew_float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Exact for every value, denormals, infinity and NaN included. */
static inline float ew_float16_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 31, fraction = half & 0x3ff;
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    uint32_t widened = exponent == 31 ? 255 : exponent + 112;
    return ew_bits_to_float(sign | widened << 23 | fraction << 13);
}

/* Round to nearest, ties to even; beyond the range infinity; NaN stays NaN (quiet). */
static inline uint16_t ew_float_to_float16(float value) {
    uint32_t bits = ew_float_to_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return sign | 0x7e00;
    }
    if (magnitude >= 0x477ff000) { /* 65520 and above round to infinity */
        return sign | 0x7c00;
    }
    if (magnitude < 0x38800000) { /* below 2^-14: a multiple of 2^-24, found by an addition that rounds there */
        float shifted = ew_bits_to_float(magnitude) + 0.5f;
        return sign | (uint16_t)(ew_float_to_bits(shifted) - 0x3f000000);
    }
    uint32_t odd = magnitude >> 13 & 1;
    return sign | (uint16_t)((magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

static inline float ew_bfloat16_to_float(uint16_t half) {
    return ew_bits_to_float((uint32_t)half << 16);
}

/* Round to nearest, ties to even; NaN stays NaN (quiet). */
static inline uint16_t ew_float_to_bfloat16(float value) {
    uint32_t bits = ew_float_to_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
