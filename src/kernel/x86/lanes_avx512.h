/* The 16 virtual lanes of docs/arithmetic.md on AVX-512 with VNNI: one register holds them. src/kernel/lanes/ has the
 * programs written in these words; lanes_avx2.h and lanes_neon.h say the same in other instruction sets.
 *
 * f32x16 and i32x16 are 16 floats or int32; bytes64 is 16 rows (or positions) of 4 bytes, whose dot products with one
 * quad of int8 give an i32x16. */
#ifndef EW_KERNEL_LANES_AVX512_H
#define EW_KERNEL_LANES_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES_INLINE static inline __attribute__((always_inline))

typedef __m512 f32x16;
typedef __m512i i32x16;
typedef __m512i bytes64;

/* Shape of the register block of matmul_float: 2 tiles by 12 tokens are 24 sums. */
enum { LANES_FLOAT_TILES = 2, LANES_FLOAT_TOKENS = 12 };
/* Attention: half pages of keys that go through the registers together; rows, 16 channels and sums of both of outputs. */
#define LANES_MANY_REGISTERS 1
enum { LANES_SCORE_HALVES = 2, LANES_VALUE_ROWS = 8, LANES_VALUE_LANES = 4, LANES_VALUE_SUMS = 24 };
/* Sums that fit the registers in dot_peak. */
enum { LANES_PEAK_CHAINS = 12, LANES_PEAK_DISTINCT = 0 };

LANES_INLINE __mmask16 lanes_first(size_t n) {
    return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
}

LANES_INLINE f32x16 lanes_zero(void) {
    return _mm512_setzero_ps();
}
LANES_INLINE f32x16 lanes_set(float value) {
    return _mm512_set1_ps(value);
}
LANES_INLINE f32x16 lanes_load(const float *p) {
    return _mm512_loadu_ps(p);
}
/* The first n lanes (at most 16) of memory, the others 0. */
LANES_INLINE f32x16 lanes_load_first(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(lanes_first(n), p);
}
LANES_INLINE void lanes_store(float *p, f32x16 v) {
    _mm512_storeu_ps(p, v);
}
LANES_INLINE void lanes_store_first(float *p, f32x16 v, size_t n) {
    _mm512_mask_storeu_ps(p, lanes_first(n), v);
}
LANES_INLINE f32x16 lanes_load_float16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
LANES_INLINE f32x16 lanes_load_bfloat16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

LANES_INLINE f32x16 lanes_add(f32x16 a, f32x16 b) {
    return _mm512_add_ps(a, b);
}
LANES_INLINE f32x16 lanes_sub(f32x16 a, f32x16 b) {
    return _mm512_sub_ps(a, b);
}
LANES_INLINE f32x16 lanes_mul(f32x16 a, f32x16 b) {
    return _mm512_mul_ps(a, b);
}
LANES_INLINE f32x16 lanes_div(f32x16 a, f32x16 b) {
    return _mm512_div_ps(a, b);
}
/* a b + c, rounded once. */
LANES_INLINE f32x16 lanes_fma(f32x16 a, f32x16 b, f32x16 c) {
    return _mm512_fmadd_ps(a, b, c);
}
/* The same for one float at a. The compilers would load it into a register first, an instruction more. */
LANES_INLINE f32x16 lanes_fma_at(const float *a, f32x16 b, f32x16 c) {
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(*a));
    return c;
}
LANES_INLINE f32x16 lanes_max(f32x16 a, f32x16 b) {
    return _mm512_max_ps(a, b);
}
/* v where it is below the limit or NaN, else the limit. */
LANES_INLINE f32x16 lanes_at_most(f32x16 v, float limit) {
    return _mm512_min_ps(_mm512_set1_ps(limit), v);
}
/* 0 where x is below the limit, else v. */
LANES_INLINE f32x16 lanes_zero_below(f32x16 x, float limit, f32x16 v) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_NLT_UQ), v);
}
LANES_INLINE f32x16 lanes_negate(f32x16 v) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MIN)));
}
/* Rounded to an integer, ties to even. */
LANES_INLINE f32x16 lanes_round(f32x16 v) {
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* v 2^n for integers n in -126..127. */
LANES_INLINE f32x16 lanes_times_power_of_two(f32x16 v, f32x16 n) {
    return _mm512_scalef_ps(v, n);
}
/* Lanes 0, 2, .. and 1, 3, .. of a and b behind each other. */
LANES_INLINE void lanes_split_pairs(f32x16 a, f32x16 b, f32x16 *even, f32x16 *odd) {
    const __m512i at = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    *even = _mm512_permutex2var_ps(a, at, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(1)), b);
}
/* The page's tree: 8 + 8, 4 + 4, 2 + 2, 1 + 1. */
LANES_INLINE float lanes_sum(f32x16 v) {
    __m256 low = _mm512_castps512_ps256(v);
    __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
    __m256 eight = _mm256_add_ps(low, high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
LANES_INLINE float lanes_largest(f32x16 v) {
    return _mm512_reduce_max_ps(v);
}

LANES_INLINE i32x16 ints_zero(void) {
    return _mm512_setzero_si512();
}
LANES_INLINE i32x16 ints_set(int32_t value) {
    return _mm512_set1_epi32(value);
}
LANES_INLINE i32x16 ints_load(const void *p) {
    return _mm512_loadu_si512(p);
}
LANES_INLINE i32x16 ints_add(i32x16 a, i32x16 b) {
    return _mm512_add_epi32(a, b);
}
LANES_INLINE i32x16 ints_sub(i32x16 a, i32x16 b) {
    return _mm512_sub_epi32(a, b);
}
LANES_INLINE i32x16 ints_clamp(i32x16 v, int32_t limit) {
    return _mm512_max_epi32(_mm512_min_epi32(v, _mm512_set1_epi32(limit)), _mm512_set1_epi32(-limit));
}
LANES_INLINE i32x16 ints_times_256(i32x16 v) {
    return _mm512_slli_epi32(v, 8);
}
/* floor(v / 256) */
LANES_INLINE i32x16 ints_over_256(i32x16 v) {
    return _mm512_srai_epi32(v, 8);
}
/* Byte e (0..3) of every lane, sign extended. */
LANES_INLINE i32x16 ints_byte(i32x16 v, int e) {
    return _mm512_srai_epi32(_mm512_sllv_epi32(v, _mm512_set1_epi32(24 - 8 * e)), 24);
}
LANES_INLINE i32x16 ints_load_int8(const int8_t *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}
/* The low byte of every lane. */
LANES_INLINE void ints_store_int8(int8_t *p, i32x16 v) {
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(v));
}
LANES_INLINE int32_t ints_sum(i32x16 v) {
    return _mm512_reduce_add_epi32(v);
}
LANES_INLINE f32x16 ints_to_lanes(i32x16 v) {
    return _mm512_cvtepi32_ps(v);
}
/* Ties to even; the values must fit. */
LANES_INLINE i32x16 lanes_to_ints(f32x16 v) {
    return _mm512_cvtps_epi32(v);
}
/* max(a, bits of |v|): magnitudes compare as integers, and NaN and infinity come out above every number. */
LANES_INLINE i32x16 ints_max_magnitude(i32x16 a, f32x16 v) {
    return _mm512_max_epi32(a, _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MAX)));
}
LANES_INLINE int32_t ints_largest(i32x16 v) {
    return _mm512_reduce_max_epi32(v);
}

LANES_INLINE bytes64 bytes_load(const void *p) {
    return _mm512_loadu_si512(p);
}
LANES_INLINE bytes64 bytes_low_nibbles(bytes64 v) {
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
}
LANES_INLINE bytes64 bytes_high_nibbles(bytes64 v) {
    return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
}
/* VPDPBUSD takes its weights unsigned, so signed ones go in plus SIGNED_BIAS, which the caller takes off again by the
 * sum of the other side. */
enum { SIGNED_BIAS = 128 };
LANES_INLINE bytes64 bytes_signed(bytes64 v) {
    return _mm512_xor_si512(v, _mm512_set1_epi8(-128));
}
/* sum + 4 products a lane: bytes of nibbles (0..15) or from bytes_signed, times the quad of int8 at x. Around the
 * intrinsic gcc copies registers in loops of many sums. */
LANES_INLINE i32x16 ints_dot_nibbles(i32x16 sum, bytes64 v, const int8_t *x) {
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(v), "v"(_mm512_set1_epi32(quad)));
    return sum;
}
LANES_INLINE i32x16 ints_dot_signed(i32x16 sum, bytes64 v, const int8_t *x) {
    return ints_dot_nibbles(sum, v, x);
}

#endif
