/* AVX2 with FMA and F16C, without VNNI. */
#include "kernel/tables.h"
#include "kernel/x86/lanes_avx2.h"

enum { LANES_TILES = 1, LANES_TOKENS = 2 };

#define LANES_TABLE ew_kernels_avx2
#define LANES_NAME "avx2"
#include "kernel/lanes/table.h"
