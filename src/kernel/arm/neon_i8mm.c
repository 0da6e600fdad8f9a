/* NEON with the INT8 matrix instructions (i8mm): SMMLA multiplies 2 rows by the two planes of a token at once. */
#include "kernel/arm/lanes_neon.h"
#include "kernel/tables.h"

enum { LANES_TILES = 1, LANES_TOKENS = 2 };

#define LANES_HAS_I8MM
#define LANES_TABLE ew_kernels_neon_i8mm
#define LANES_NAME "neon-i8mm"
#include "kernel/lanes/table.h"
