/* NEON with dot product (ARMv8.2). */
#include "kernel/arm/lanes_neon.h"
#include "kernel/tables.h"

enum { LANES_TILES = 1, LANES_TOKENS = 2 };

#define LANES_TABLE ew_kernels_neon
#define LANES_NAME "neon"
#include "kernel/lanes/table.h"
