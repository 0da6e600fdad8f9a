/* The 16 virtual lanes on AVX2 with FMA and F16C: two registers hold them; lanes_avx512.h explains the words.
 * With -mavxvnni, or AVX-512 VL and VNNI, the byte products are VPDPBUSD, else multiplications of words. */
#ifndef EW_KERNEL_LANES_AVX2_H
#define EW_KERNEL_LANES_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES_INLINE static inline __attribute__((always_inline))

typedef struct {
    __m256 a, b;
} f32x16;
typedef struct {
    __m256i a, b;
} i32x16;
typedef i32x16 bytes64;

/* Shape of the register block of matmul_float: 12 of 16 registers are sums. */
enum { LANES_FLOAT_TILES = 1, LANES_FLOAT_TOKENS = 6 };
/* Attention: half pages of keys that go through the registers together; rows, 16 channels and sums of both of outputs. */
#define LANES_MANY_REGISTERS 0
enum { LANES_SCORE_HALVES = 1, LANES_VALUE_ROWS = 2, LANES_VALUE_LANES = 2, LANES_VALUE_SUMS = 4 };
/* Sums that fit the registers in dot_peak. */
enum { LANES_PEAK_CHAINS = 6 };

#define LANES_EACH(type, operation)                                                                                    \
    return (type) {                                                                                                    \
        operation(x.a, y.a), operation(x.b, y.b)                                                                       \
    }

LANES_INLINE f32x16 lanes_zero(void) {
    return (f32x16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
LANES_INLINE f32x16 lanes_set(float value) {
    return (f32x16){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}
LANES_INLINE f32x16 lanes_load(const float *p) {
    return (f32x16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LANES_INLINE void lanes_store(float *p, f32x16 v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
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
    return (f32x16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                    _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
LANES_INLINE f32x16 lanes_load_bfloat16(const uint16_t *p) {
    __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
    return (f32x16){_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
}

LANES_INLINE f32x16 lanes_add(f32x16 x, f32x16 y) {
    LANES_EACH(f32x16, _mm256_add_ps);
}
LANES_INLINE f32x16 lanes_sub(f32x16 x, f32x16 y) {
    LANES_EACH(f32x16, _mm256_sub_ps);
}
LANES_INLINE f32x16 lanes_mul(f32x16 x, f32x16 y) {
    LANES_EACH(f32x16, _mm256_mul_ps);
}
LANES_INLINE f32x16 lanes_div(f32x16 x, f32x16 y) {
    LANES_EACH(f32x16, _mm256_div_ps);
}
LANES_INLINE f32x16 lanes_fma(f32x16 x, f32x16 y, f32x16 z) {
    return (f32x16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
LANES_INLINE f32x16 lanes_fma_at(const float *x, f32x16 y, f32x16 z) {
    return lanes_fma(lanes_set(*x), y, z);
}
LANES_INLINE f32x16 lanes_max(f32x16 x, f32x16 y) {
    LANES_EACH(f32x16, _mm256_max_ps);
}
LANES_INLINE f32x16 lanes_at_most(f32x16 y, float limit) {
    f32x16 x = lanes_set(limit);
    LANES_EACH(f32x16, _mm256_min_ps); /* the second operand where one is NaN */
}
LANES_INLINE f32x16 lanes_zero_below(f32x16 x, float limit, f32x16 v) {
    __m256 l = _mm256_set1_ps(limit);
    return (f32x16){_mm256_and_ps(_mm256_cmp_ps(x.a, l, _CMP_NLT_UQ), v.a),
                    _mm256_and_ps(_mm256_cmp_ps(x.b, l, _CMP_NLT_UQ), v.b)};
}
LANES_INLINE f32x16 lanes_negate(f32x16 x) {
    f32x16 y = lanes_set(-0.0f);
    LANES_EACH(f32x16, _mm256_xor_ps);
}
LANES_INLINE f32x16 lanes_round(f32x16 v) {
    return (f32x16){_mm256_round_ps(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                    _mm256_round_ps(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
LANES_INLINE __m256 in_order(__m256 v) { /* shuffles work within 128-bit halves */
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
}
LANES_INLINE void lanes_split_pairs(f32x16 a, f32x16 b, f32x16 *even, f32x16 *odd) {
    *even = (f32x16){in_order(_mm256_shuffle_ps(a.a, a.b, 0x88)), in_order(_mm256_shuffle_ps(b.a, b.b, 0x88))};
    *odd = (f32x16){in_order(_mm256_shuffle_ps(a.a, a.b, 0xdd)), in_order(_mm256_shuffle_ps(b.a, b.b, 0xdd))};
}
LANES_INLINE float lanes_sum(f32x16 v) {
    __m256 eight = _mm256_add_ps(v.a, v.b);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
LANES_INLINE float lanes_largest(f32x16 v) {
    __m256 eight = _mm256_max_ps(v.a, v.b);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

LANES_INLINE i32x16 ints_zero(void) {
    return (i32x16){_mm256_setzero_si256(), _mm256_setzero_si256()};
}
LANES_INLINE i32x16 ints_set(int32_t value) {
    return (i32x16){_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
}
LANES_INLINE i32x16 ints_load(const void *p) {
    return (i32x16){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
LANES_INLINE i32x16 ints_add(i32x16 x, i32x16 y) {
    LANES_EACH(i32x16, _mm256_add_epi32);
}
LANES_INLINE i32x16 ints_sub(i32x16 x, i32x16 y) {
    LANES_EACH(i32x16, _mm256_sub_epi32);
}
LANES_INLINE i32x16 ints_max(i32x16 x, i32x16 y) {
    LANES_EACH(i32x16, _mm256_max_epi32);
}
LANES_INLINE i32x16 ints_min(i32x16 x, i32x16 y) {
    LANES_EACH(i32x16, _mm256_min_epi32);
}
LANES_INLINE i32x16 ints_clamp(i32x16 v, int32_t limit) {
    return ints_max(ints_min(v, ints_set(limit)), ints_set(-limit));
}
LANES_INLINE i32x16 ints_times_256(i32x16 v) {
    return (i32x16){_mm256_slli_epi32(v.a, 8), _mm256_slli_epi32(v.b, 8)};
}
LANES_INLINE i32x16 ints_over_256(i32x16 v) {
    return (i32x16){_mm256_srai_epi32(v.a, 8), _mm256_srai_epi32(v.b, 8)};
}
LANES_INLINE i32x16 ints_byte(i32x16 v, int e) {
    __m128i left = _mm_cvtsi32_si128(24 - 8 * e);
    return (i32x16){_mm256_srai_epi32(_mm256_sll_epi32(v.a, left), 24),
                    _mm256_srai_epi32(_mm256_sll_epi32(v.b, left), 24)};
}
LANES_INLINE i32x16 ints_load_int8(const int8_t *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return (i32x16){_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
LANES_INLINE void ints_store_int8(int8_t *p, i32x16 v) {
    /* The values fit int8, so saturation changes nothing; packing works within 128-bit halves. */
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)p, bytes);
}
LANES_INLINE int32_t ints_sum(i32x16 v) {
    __m256i eight = _mm256_add_epi32(v.a, v.b);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
LANES_INLINE f32x16 ints_to_lanes(i32x16 v) {
    return (f32x16){_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)};
}
LANES_INLINE i32x16 lanes_to_ints(f32x16 v) {
    return (i32x16){_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b)};
}
LANES_INLINE f32x16 lanes_times_power_of_two(f32x16 v, f32x16 n) {
    i32x16 exponent = ints_add(lanes_to_ints(n), ints_set(127));
    f32x16 power = {_mm256_castsi256_ps(_mm256_slli_epi32(exponent.a, 23)),
                    _mm256_castsi256_ps(_mm256_slli_epi32(exponent.b, 23))};
    return lanes_mul(v, power);
}
LANES_INLINE i32x16 ints_max_magnitude(i32x16 a, f32x16 v) {
    __m256i mask = _mm256_set1_epi32(INT32_MAX);
    i32x16 magnitude = {_mm256_and_si256(_mm256_castps_si256(v.a), mask),
                        _mm256_and_si256(_mm256_castps_si256(v.b), mask)};
    return ints_max(a, magnitude);
}
LANES_INLINE int32_t ints_largest(i32x16 v) {
    __m256i eight = _mm256_max_epi32(v.a, v.b);
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

LANES_INLINE bytes64 bytes_load(const void *p) {
    return ints_load(p);
}
LANES_INLINE bytes64 bytes_low_nibbles(bytes64 v) {
    __m256i mask = _mm256_set1_epi8(15);
    return (bytes64){_mm256_and_si256(v.a, mask), _mm256_and_si256(v.b, mask)};
}
LANES_INLINE bytes64 bytes_high_nibbles(bytes64 v) {
    return bytes_low_nibbles((bytes64){_mm256_srli_epi16(v.a, 4), _mm256_srli_epi16(v.b, 4)});
}
LANES_INLINE __m256i quad_set(const int8_t *x) {
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return _mm256_set1_epi32(quad);
}

#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
enum { SIGNED_BIAS = 128, LANES_PEAK_DISTINCT = 0 };
LANES_INLINE bytes64 bytes_signed(bytes64 v) {
    __m256i flip = _mm256_set1_epi8(-128);
    return (bytes64){_mm256_xor_si256(v.a, flip), _mm256_xor_si256(v.b, flip)};
}
LANES_INLINE i32x16 ints_dot_nibbles(i32x16 sum, bytes64 v, const int8_t *x) {
#if defined(__AVXVNNI__)
    return (i32x16){_mm256_dpbusd_avx_epi32(sum.a, v.a, quad_set(x)), _mm256_dpbusd_avx_epi32(sum.b, v.b, quad_set(x))};
#else
    return (i32x16){_mm256_dpbusd_epi32(sum.a, v.a, quad_set(x)), _mm256_dpbusd_epi32(sum.b, v.b, quad_set(x))};
#endif
}
LANES_INLINE i32x16 ints_dot_signed(i32x16 sum, bytes64 v, const int8_t *x) {
    return ints_dot_nibbles(sum, v, x);
}
#else
/* VPMADDUBSW saturates pair sums at 32767: out of reach for nibbles (2 * 15 * 128), not for whole bytes, which
 * therefore are widened to words, even and odd ones apart. */
enum { SIGNED_BIAS = 0, LANES_PEAK_DISTINCT = 1 };
LANES_INLINE bytes64 bytes_signed(bytes64 v) {
    return v;
}
LANES_INLINE __m256i dot_nibbles_half(__m256i sum, __m256i v, __m256i x) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(v, x), _mm256_set1_epi16(1)));
}
LANES_INLINE i32x16 ints_dot_nibbles(i32x16 sum, bytes64 v, const int8_t *x) {
    return (i32x16){dot_nibbles_half(sum.a, v.a, quad_set(x)), dot_nibbles_half(sum.b, v.b, quad_set(x))};
}
LANES_INLINE __m256i even_bytes(__m256i v) {
    return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
}
LANES_INLINE __m256i odd_bytes(__m256i v) {
    return _mm256_srai_epi16(v, 8);
}
LANES_INLINE __m256i dot_signed_half(__m256i sum, __m256i v, __m256i x) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even_bytes(v), even_bytes(x)));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(odd_bytes(v), odd_bytes(x)));
}
LANES_INLINE i32x16 ints_dot_signed(i32x16 sum, bytes64 v, const int8_t *x) {
    return (i32x16){dot_signed_half(sum.a, v.a, quad_set(x)), dot_signed_half(sum.b, v.b, quad_set(x))};
}
#endif

#undef LANES_EACH

#endif
