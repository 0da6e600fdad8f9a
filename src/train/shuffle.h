/* The order of an epoch. */
#ifndef EW_TRAIN_SHUFFLE_H
#define EW_TRAIN_SHUFFLE_H

#include <stddef.h>
#include <stdint.h>

/* A permutation of 0 .. n - 1 by (seed, epoch), the same on every machine; the caller frees it. NULL: memory is out. */
size_t *ew_shuffled(size_t n, uint64_t seed, uint64_t epoch);

#endif
