/* AVX-VNNI: 256-bit registers, VEX encoded. */
#include "kernel/tables.h"
#include "kernel/x86/lanes_avx2.h"

enum { LANES_TILES = 1, LANES_TOKENS = 2 };

#define LANES_TABLE ew_kernels_avxvnni
#define LANES_NAME "avxvnni"
#include "kernel/lanes/table.h"
