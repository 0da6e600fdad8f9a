/* OpenBLAS, loaded when the first trainer opens. Loading it starts threads and takes memory, for which commands that train
 * nothing have no use; and where memory is short its end waits for a thread that never began. */
#ifndef EW_TRAIN_OPENBLAS_H
#define EW_TRAIN_OPENBLAS_H

#include "base/error.h"
#include "train/real.h"

#include <cblas.h>

/* c[m][n] = alpha op(a) op(b) + beta c: cblas_sgemm, or cblas_dgemm in the build for doubles. */
typedef void (*ew_gemm_function)(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE a_transposed,
                                 enum CBLAS_TRANSPOSE b_transposed, blasint m, blasint n, blasint k, real alpha,
                                 const real *a, blasint a_stride, const real *b, blasint b_stride, real beta, real *c,
                                 blasint c_stride);

/* Loads it, once, without threads of its own. From any thread. Errors: EW_ERROR_IO, what is missing. */
ew_status ew_openblas_load(ew_error *error);

ew_gemm_function ew_openblas_gemm(void); /* NULL before it is loaded */
const char *ew_openblas_kernel(void);    /* which kernel it picked, "SkylakeX"; "none" before it is loaded */

#endif
