#include "train/shuffle.h"

#include "base/memory.h"
#include "base/random.h"

size_t *ew_shuffled(size_t n, uint64_t seed, uint64_t epoch) {
    size_t *order = ew_allocate(n, sizeof *order);
    for (size_t i = 0; order && i < n; i++) {
        order[i] = i;
    }
    /* Fisher and Yates; the remainder's bias is below n / 2^64. */
    for (size_t i = n; order && i > 1; i--) {
        size_t j = (size_t)(ew_random_bits(seed, epoch, i) % i);
        size_t moved = order[i - 1];
        order[i - 1] = order[j];
        order[j] = moved;
    }
    return order;
}
