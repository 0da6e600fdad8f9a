/* The kernel set that defines the others (docs/arithmetic.md). */
#ifndef EW_KERNEL_SCALAR_H
#define EW_KERNEL_SCALAR_H

#include "kernel/kernel.h"

extern const ew_kernels ew_kernels_scalar;

#endif
