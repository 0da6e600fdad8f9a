/* The number type of the trainer. The room is built twice from one source: with float for use, and with double
 * (EW_TRAIN_DOUBLE, library ew_train_double, for tests alone), so that gradients can be checked against differences. */
#ifndef EW_TRAIN_REAL_H
#define EW_TRAIN_REAL_H

#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef EW_TRAIN_DOUBLE
typedef double real;
#define EW_REAL_GEMM cblas_dgemm
#define EW_REAL_SQRT sqrt
#else
typedef float real;
#define EW_REAL_GEMM cblas_sgemm
#define EW_REAL_SQRT sqrtf
#endif

/* OpenBLAS without threads of its own. */
static inline void ew_blas_one_thread(void) {
    openblas_set_num_threads(1);
}

/* A row-major matrix inside a larger one: `stride` values from row to row. */
typedef struct ew_view {
    const real *values;
    size_t stride;
} ew_view;

/* C[m, n] = alpha A B + beta C, A being [m, k] or transposed [k, m], B [k, n] or transposed [n, k]. */
static inline void ew_gemm(bool a_transposed, bool b_transposed, size_t m, size_t n, size_t k, real alpha, ew_view a,
                           ew_view b, real beta, real *c, size_t c_stride) {
    if (m > 0 && n > 0) {
        EW_REAL_GEMM(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans,
                     (blasint)m, (blasint)n, (blasint)k, alpha, a.values, (blasint)a.stride, b.values,
                     (blasint)b.stride, beta, c, (blasint)c_stride);
    }
}

#endif
