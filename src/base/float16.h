/* 16-bit floating point <-> float32. To float32: exact. From float32: round to nearest, ties to even; too
 * large becomes infinity, too small becomes a denormal or a signed zero; a NaN stays a NaN. Formats: IEEE 754
 * binary16 (1 + 5 + 10 bits) and bfloat16 (the upper half of a float32). Integer operations only, so that no
 * FPU mode and no conversion instruction can change a bit. */
#ifndef EW_BASE_FLOAT16_H
#define EW_BASE_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline float ew_float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t ew_float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float ew_f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 31;
    uint32_t fraction = half & 0x3ff;
    if (exponent == 31) {
        return ew_float_from_bits(sign | 0x7f800000 | fraction << 13);
    }
    if (exponent == 0) {
        if (fraction == 0) {
            return ew_float_from_bits(sign);
        }
        /* A denormal is fraction * 2^-24: shift its highest bit to the place of the implicit one. */
        uint32_t shift = (uint32_t)__builtin_clz(fraction) - 21;
        fraction = fraction << shift & 0x3ff;
        exponent = 1 - shift;
    }
    return ew_float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t ew_f32_to_f16(float value) {
    uint32_t bits = ew_float_to_bits(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    }
    if (magnitude >= 0x477ff000) { /* 65520, half way between the largest binary16 and 2^16 */
        return (uint16_t)(sign | 0x7c00);
    }
    if (magnitude >= 0x38800000) { /* 2^-14: normal. A carry out of the fraction moves into the exponent. */
        uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
        return (uint16_t)(sign | (rounded - (112u << 23)) >> 13);
    }
    if (magnitude <= 0x33000000) { /* 2^-25, half the smallest denormal, ties to zero */
        return (uint16_t)sign;
    }
    uint32_t shift = 126 - (magnitude >> 23); /* of the 24-bit significand to units of 2^-24 */
    uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    uint32_t half = significand >> shift;
    uint32_t rest = significand & ((1u << shift) - 1), middle = 1u << (shift - 1);
    half += rest > middle || (rest == middle && (half & 1));
    return (uint16_t)(sign | half);
}

static inline float ew_bf16_to_f32(uint16_t upper) {
    return ew_float_from_bits((uint32_t)upper << 16);
}

static inline uint16_t ew_f32_to_bf16(float value) {
    uint32_t bits = ew_float_to_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
