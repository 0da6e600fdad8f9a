/* What the byte dot products of a set reach with all operands in registers. */
#ifndef EW_KERNEL_LANES_PEAK_OPS_H
#define EW_KERNEL_LANES_PEAK_OPS_H

#include "kernel/lanes/tile_view.h"

static int32_t dot_peak(size_t repeats) {
    static const uint8_t weights[64] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int8_t inputs[4] = {1, -2, 3, -4};
    const bytes64 w = bytes_load(weights);
    i32x16 sums[EW_DOT_PEAK_CHAINS];
    for (int c = 0; c < EW_DOT_PEAK_CHAINS; c++) {
        sums[c] = ints_set(c);
    }
    for (size_t i = 0; i < repeats; i++) {
        for (int c = 0; c < EW_DOT_PEAK_CHAINS; c++) {
            sums[c] = ints_dot_nibbles(sums[c], w, inputs);
        }
    }
    i32x16 total = sums[0];
    for (int c = 1; c < EW_DOT_PEAK_CHAINS; c++) {
        total = ints_add(total, sums[c]);
    }
    float lanes[16];
    lanes_store(lanes, ints_to_lanes(total));
    return (int32_t)lanes[0];
}

#endif
