/* Matrix products of the trainer: CBLAS, or tile registers where the machine multiplies BF16 in them. */
#ifndef EW_TRAIN_PRODUCTS_H
#define EW_TRAIN_PRODUCTS_H

#include "base/error.h"
#include "train/real.h"

/* A row-major matrix inside a larger one: `stride` values from row to row. */
typedef struct ew_view {
    const real *values;
    size_t stride;
} ew_view;

/* C[m, n] = alpha A B + beta C, A being [m, k] or transposed [k, m], B [k, n] or transposed [n, k]. */
typedef struct ew_product {
    bool a_transposed, b_transposed;
    size_t m, n, k;
    real alpha, beta;
    ew_view a, b;
    real *c;
    size_t c_stride;
} ew_product;

/* In float by CBLAS; or, in the trainer's float build, by tile registers that multiply BF16, at about a hundredth of
 * BF16's error (below). */
typedef enum { EW_PRODUCTS_FLOAT32, EW_PRODUCTS_BF16X3 } ew_products_kind;

/* "float32", "bf16x3", NULL, in the order of ew_products_kind: for options. */
extern const char *const ew_products_options[];

/* EW_ERROR_ARGUMENT when the kind cannot run here: BF16X3 needs the kernel set with tile registers (ew_kernels_select) on
 * a machine whose tiles take BF16. */
ew_status ew_products_check(ew_products_kind kind, ew_error *error);
/* For reports: "BF16x3 in AMX tiles", or the BLAS kernel's name, like "SkylakeX". */
const char *ew_products_name(ew_products_kind kind);
/* Bytes that a thread's products need to work in; 0: none. */
size_t ew_products_space(ew_products_kind kind);

/* `space`: ew_products_space bytes at a multiple of 64; NULL: CBLAS, which ew_openblas_load has loaded. */
void ew_multiply_matrices(void *space, const ew_product *product);

/* ---- Tiles, for x86-64 in float ---- */

/* Every value is split into two of BF16, x = hi + lo + error with |error| <= 2^-16 |x|, and
 * A B = A_hi B_hi + A_lo B_hi + A_hi B_lo is summed in float: what is left out is at most 3 * 2^-16 |A| |B|. (The same
 * split as "BF16x3" in Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For
 * Higher-Precision Computations, 2019.) Values and sums below 2^-126 count as 0. */
void ew_multiply_in_tiles(void *space, const ew_product *product);
size_t ew_tiles_space(void);

#endif
