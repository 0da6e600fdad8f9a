/* Random numbers by counter: a draw is a function of (seed, stream, position), whatever was drawn before. */
#ifndef EW_BASE_RANDOM_H
#define EW_BASE_RANDOM_H

#include <stdint.h>

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits in which every input bit reaches
 * every output bit. */
static inline uint64_t ew_random_mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t ew_random_bits(uint64_t seed, uint64_t stream, uint64_t position) {
    return ew_random_mix(ew_random_mix(ew_random_mix(seed) ^ stream) ^ position);
}

/* Uniform in [0, 1), a multiple of 2^-53. */
static inline double ew_random_unit(uint64_t seed, uint64_t stream, uint64_t position) {
    return (double)(ew_random_bits(seed, stream, position) >> 11) * 0x1p-53;
}

#endif
