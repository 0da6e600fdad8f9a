/* The kernel sets that a build may hold beside scalar; select.c knows which the machine can run. */
#ifndef EW_KERNEL_TABLES_H
#define EW_KERNEL_TABLES_H

#include "kernel/kernel.h"

extern const ew_kernels ew_kernels_avx2;
extern const ew_kernels ew_kernels_avxvnni;
extern const ew_kernels ew_kernels_avx512vl; /* the source of avxvnni, EVEX encoded: for machines without AVX-VNNI */
extern const ew_kernels ew_kernels_avx512;
extern const ew_kernels ew_kernels_amx;
extern const ew_kernels ew_kernels_neon;
extern const ew_kernels ew_kernels_neon_i8mm;

#endif
