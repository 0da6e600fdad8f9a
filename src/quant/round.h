/* Rounding to an integer, ties to even, as vector code on every machine (rint is a call on many): adding and
 * taking off 1.5 * 2^52 (2^23) rounds there, wherever rounding is to nearest. For |x| < 2^51 (2^22). */
#ifndef EW_QUANT_ROUND_H
#define EW_QUANT_ROUND_H

static inline double ew_round_even(double x) {
    return (x + 6755399441055744.0) - 6755399441055744.0;
}
static inline float ew_round_even_float(float x) {
    return (x + 12582912.0f) - 12582912.0f;
}

#endif
