/* The program of avxvnni.c in AVX-512 VL + VNNI encoding: the same text on machines that lack AVX-VNNI. */
#include "kernel/tables.h"
#include "kernel/x86/lanes_avx2.h"

enum { LANES_TILES = 1, LANES_TOKENS = 2 };

#define LANES_TABLE ew_kernels_avx512vl
#define LANES_NAME "avx512vl"
#include "kernel/lanes/table.h"
