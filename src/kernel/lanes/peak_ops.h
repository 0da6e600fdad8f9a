/* What the byte dot products of a set reach with all operands in registers. */
#ifndef EW_KERNEL_LANES_PEAK_OPS_H
#define EW_KERNEL_LANES_PEAK_OPS_H

#include "kernel/lanes/tile_view.h"

/* Each repeat is EW_DOT_PEAK_CHAINS dot products, dealt out to as many chains as the set's registers hold; rounds are
 * unrolled, or moves between registers would cost as much as the products. */
static int32_t dot_peak(size_t repeats) {
    enum { ROUNDS = EW_DOT_PEAK_CHAINS / LANES_PEAK_CHAINS, UNROLLED = 8 };
    static const uint8_t weights[64] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int8_t inputs[4 * LANES_PEAK_CHAINS] = {1, -2, 3, -4};
    const bytes64 w = bytes_load(weights);
    i32x16 sums[LANES_PEAK_CHAINS];
    for (int c = 0; c < LANES_PEAK_CHAINS; c++) {
        sums[c] = ints_set(c);
    }
    for (size_t i = 0; i < repeats * ROUNDS; i += UNROLLED) {
        for (int round = 0; round < UNROLLED; round++) {
            const int8_t *x = inputs;
            if (LANES_PEAK_DISTINCT) {
                __asm__ volatile("" : "+r"(x)); /* else the product, of several instructions, would be made only once */
            }
            for (int c = 0; c < LANES_PEAK_CHAINS; c++) {
                sums[c] = ints_dot_nibbles(sums[c], w, x + (LANES_PEAK_DISTINCT ? 4 * c : 0));
            }
        }
    }
    i32x16 total = sums[0];
    for (int c = 1; c < LANES_PEAK_CHAINS; c++) {
        total = ints_add(total, sums[c]);
    }
    float lanes[16];
    lanes_store(lanes, ints_to_lanes(total));
    return (int32_t)lanes[0];
}

#endif
