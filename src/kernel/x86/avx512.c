/* AVX-512 (F, BW, DQ, VL) with VNNI. */
#include "kernel/tables.h"
#include "kernel/x86/lanes_avx512.h"

enum { LANES_TILES = 2, LANES_TOKENS = 4 };

#define LANES_TABLE ew_kernels_avx512
#define LANES_NAME "avx512"
#include "kernel/lanes/table.h"
