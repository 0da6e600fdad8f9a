/* The 16 virtual lanes on aarch64 NEON with dot product: four registers hold them; x86/lanes_avx512.h explains the
 * words. */
#ifndef EW_KERNEL_LANES_NEON_H
#define EW_KERNEL_LANES_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES_INLINE static inline __attribute__((always_inline))

typedef struct {
    float32x4_t q[4];
} f32x16;
typedef struct {
    int32x4_t q[4];
} i32x16;
typedef struct {
    int8x16_t q[4];
} bytes64;

/* Shape of the register block of matmul_float: 24 of 32 registers are sums. */
enum { LANES_FLOAT_TILES = 1, LANES_FLOAT_TOKENS = 6 };
/* Attention: half pages of keys that go through the registers together; rows, 16 channels and sums of both of outputs. */
#define LANES_MANY_REGISTERS 0
enum { LANES_SCORE_HALVES = 1, LANES_VALUE_ROWS = 2, LANES_VALUE_LANES = 2, LANES_VALUE_SUMS = 4 };
/* Sums that fit the registers in dot_peak. */
enum { LANES_PEAK_CHAINS = 6, LANES_PEAK_DISTINCT = 0 };

/* Defines a function that applies an operation to each register of its operands. */
#define LANES_UNARY(name, to, from, operation)                                                                         \
    LANES_INLINE to name(from x) {                                                                                     \
        to out;                                                                                                        \
        for (int i = 0; i < 4; i++) {                                                                                  \
            out.q[i] = operation(x.q[i]);                                                                              \
        }                                                                                                              \
        return out;                                                                                                    \
    }
#define LANES_BINARY(name, type, operation)                                                                            \
    LANES_INLINE type name(type x, type y) {                                                                           \
        type out;                                                                                                      \
        for (int i = 0; i < 4; i++) {                                                                                  \
            out.q[i] = operation(x.q[i], y.q[i]);                                                                      \
        }                                                                                                              \
        return out;                                                                                                    \
    }

LANES_INLINE f32x16 lanes_set(float value) {
    float32x4_t v = vdupq_n_f32(value);
    return (f32x16){{v, v, v, v}};
}
LANES_INLINE f32x16 lanes_zero(void) {
    return lanes_set(0.0f);
}
LANES_INLINE f32x16 lanes_load(const float *p) {
    return (f32x16){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}
LANES_INLINE void lanes_store(float *p, f32x16 v) {
    for (int i = 0; i < 4; i++) {
        vst1q_f32(p + 4 * i, v.q[i]);
    }
}
LANES_INLINE f32x16 lanes_load_first(const float *p, size_t n) {
    float all[16] = {0};
    memcpy(all, p, (n < 16 ? n : 16) * sizeof *p);
    return lanes_load(all);
}
LANES_INLINE void lanes_store_first(float *p, f32x16 v, size_t n) {
    float all[16];
    lanes_store(all, v);
    memcpy(p, all, (n < 16 ? n : 16) * sizeof *p);
}
LANES_INLINE f32x16 lanes_load_float16(const uint16_t *p) {
    f32x16 out;
    for (int i = 0; i < 4; i++) {
        out.q[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
    }
    return out;
}
LANES_INLINE f32x16 lanes_load_bfloat16(const uint16_t *p) {
    f32x16 out;
    for (int i = 0; i < 4; i++) {
        out.q[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16));
    }
    return out;
}

LANES_BINARY(lanes_add, f32x16, vaddq_f32)
LANES_BINARY(lanes_sub, f32x16, vsubq_f32)
LANES_BINARY(lanes_mul, f32x16, vmulq_f32)
LANES_BINARY(lanes_div, f32x16, vdivq_f32)
LANES_BINARY(lanes_max, f32x16, vmaxq_f32)
LANES_BINARY(lanes_min, f32x16, vminq_f32)
LANES_UNARY(lanes_negate, f32x16, f32x16, vnegq_f32)
LANES_UNARY(lanes_round, f32x16, f32x16, vrndnq_f32)
LANES_INLINE f32x16 lanes_fma(f32x16 x, f32x16 y, f32x16 z) {
    f32x16 out;
    for (int i = 0; i < 4; i++) {
        out.q[i] = vfmaq_f32(z.q[i], x.q[i], y.q[i]);
    }
    return out;
}
LANES_INLINE f32x16 lanes_fma_at(const float *x, f32x16 y, f32x16 z) {
    return lanes_fma(lanes_set(*x), y, z);
}
LANES_INLINE f32x16 lanes_at_most(f32x16 v, float limit) {
    return lanes_min(v, lanes_set(limit)); /* NaN where v is */
}
LANES_INLINE f32x16 lanes_zero_below(f32x16 x, float limit, f32x16 v) {
    f32x16 out;
    for (int i = 0; i < 4; i++) {
        uint32x4_t below = vcltq_f32(x.q[i], vdupq_n_f32(limit));
        out.q[i] = vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v.q[i]), below));
    }
    return out;
}
LANES_INLINE void lanes_split_pairs(f32x16 a, f32x16 b, f32x16 *even, f32x16 *odd) {
    for (int i = 0; i < 2; i++) {
        even->q[i] = vuzp1q_f32(a.q[2 * i], a.q[2 * i + 1]);
        even->q[i + 2] = vuzp1q_f32(b.q[2 * i], b.q[2 * i + 1]);
        odd->q[i] = vuzp2q_f32(a.q[2 * i], a.q[2 * i + 1]);
        odd->q[i + 2] = vuzp2q_f32(b.q[2 * i], b.q[2 * i + 1]);
    }
}
LANES_INLINE float lanes_sum(f32x16 v) {
    float32x4_t four = vaddq_f32(vaddq_f32(v.q[0], v.q[2]), vaddq_f32(v.q[1], v.q[3]));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
LANES_INLINE float lanes_largest(f32x16 v) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.q[0], v.q[1]), vmaxq_f32(v.q[2], v.q[3])));
}

LANES_INLINE i32x16 ints_set(int32_t value) {
    int32x4_t v = vdupq_n_s32(value);
    return (i32x16){{v, v, v, v}};
}
LANES_INLINE i32x16 ints_zero(void) {
    return ints_set(0);
}
LANES_INLINE bytes64 bytes_load(const void *p) {
    const int8_t *bytes = p;
    return (bytes64){{vld1q_s8(bytes), vld1q_s8(bytes + 16), vld1q_s8(bytes + 32), vld1q_s8(bytes + 48)}};
}
LANES_UNARY(ints_of_bytes, i32x16, bytes64, vreinterpretq_s32_s8)
LANES_INLINE i32x16 ints_load(const void *p) {
    return ints_of_bytes(bytes_load(p));
}
LANES_BINARY(ints_add, i32x16, vaddq_s32)
LANES_BINARY(ints_sub, i32x16, vsubq_s32)
LANES_BINARY(ints_max, i32x16, vmaxq_s32)
LANES_BINARY(ints_min, i32x16, vminq_s32)
LANES_INLINE i32x16 ints_clamp(i32x16 v, int32_t limit) {
    return ints_max(ints_min(v, ints_set(limit)), ints_set(-limit));
}
LANES_INLINE i32x16 ints_times_256(i32x16 v) {
    for (int i = 0; i < 4; i++) {
        v.q[i] = vshlq_n_s32(v.q[i], 8);
    }
    return v;
}
LANES_INLINE i32x16 ints_over_256(i32x16 v) {
    for (int i = 0; i < 4; i++) {
        v.q[i] = vshrq_n_s32(v.q[i], 8);
    }
    return v;
}
LANES_INLINE i32x16 ints_byte(i32x16 v, int e) {
    for (int i = 0; i < 4; i++) {
        v.q[i] = vshrq_n_s32(vshlq_s32(v.q[i], vdupq_n_s32(24 - 8 * e)), 24);
    }
    return v;
}
LANES_INLINE i32x16 ints_load_int8(const int8_t *p) {
    int8x16_t bytes = vld1q_s8(p);
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return (i32x16){
        {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)}};
}
LANES_INLINE void ints_store_int8(int8_t *p, i32x16 v) {
    int16x8_t low = vcombine_s16(vmovn_s32(v.q[0]), vmovn_s32(v.q[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(v.q[2]), vmovn_s32(v.q[3]));
    vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
LANES_INLINE int32_t ints_sum(i32x16 v) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(v.q[0], v.q[1]), vaddq_s32(v.q[2], v.q[3])));
}
LANES_UNARY(ints_to_lanes, f32x16, i32x16, vcvtq_f32_s32)
LANES_UNARY(lanes_to_ints, i32x16, f32x16, vcvtnq_s32_f32)
LANES_INLINE f32x16 lanes_times_power_of_two(f32x16 v, f32x16 n) {
    i32x16 exponent = ints_add(lanes_to_ints(n), ints_set(127));
    f32x16 power;
    for (int i = 0; i < 4; i++) {
        power.q[i] = vreinterpretq_f32_s32(vshlq_n_s32(exponent.q[i], 23));
    }
    return lanes_mul(v, power);
}
LANES_INLINE i32x16 ints_max_magnitude(i32x16 a, f32x16 v) {
    for (int i = 0; i < 4; i++) {
        a.q[i] = vmaxq_s32(a.q[i], vandq_s32(vreinterpretq_s32_f32(v.q[i]), vdupq_n_s32(INT32_MAX)));
    }
    return a;
}
LANES_INLINE int32_t ints_largest(i32x16 v) {
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(v.q[0], v.q[1]), vmaxq_s32(v.q[2], v.q[3])));
}

LANES_INLINE bytes64 bytes_low_nibbles(bytes64 v) {
    for (int i = 0; i < 4; i++) {
        v.q[i] = vandq_s8(v.q[i], vdupq_n_s8(15));
    }
    return v;
}
LANES_INLINE bytes64 bytes_high_nibbles(bytes64 v) {
    for (int i = 0; i < 4; i++) {
        v.q[i] = vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(v.q[i]), 4));
    }
    return v;
}
/* SDOT takes both sides signed. */
enum { SIGNED_BIAS = 0 };
LANES_INLINE bytes64 bytes_signed(bytes64 v) {
    return v;
}
LANES_INLINE i32x16 ints_dot_signed(i32x16 sum, bytes64 v, const int8_t *x) {
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    int8x16_t inputs = vreinterpretq_s8_s32(vdupq_n_s32(quad));
    for (int i = 0; i < 4; i++) {
        sum.q[i] = vdotq_s32(sum.q[i], v.q[i], inputs);
    }
    return sum;
}
LANES_INLINE i32x16 ints_dot_nibbles(i32x16 sum, bytes64 v, const int8_t *x) {
    return ints_dot_signed(sum, v, x);
}

#undef LANES_UNARY
#undef LANES_BINARY

#endif
