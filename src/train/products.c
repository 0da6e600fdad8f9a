#include "train/products.h"
#include "kernel/kernel.h"
#include "train/openblas.h"

#if defined(__x86_64__) && !defined(EW_TRAIN_DOUBLE)
#define HAS_TILES 1
#else
#define HAS_TILES 0
#endif

const char *const ew_products_options[] = {"float32", "bf16x3", NULL};

ew_status ew_products_check(ew_products_kind kind, ew_error *error) {
    if (kind == EW_PRODUCTS_FLOAT32 || (HAS_TILES && ew_kernels_have_bf16_tiles())) {
        return EW_OK;
    }
    return ew_fail(
        error, EW_ERROR_ARGUMENT,
        "products by BF16x3 need AMX tiles that take BF16, which this machine lacks or EDGEWISE_ISA excludes; "
        "float32 would do");
}

const char *ew_products_name(ew_products_kind kind) {
    return kind == EW_PRODUCTS_BF16X3 ? "BF16x3 in AMX tiles" : ew_openblas_kernel();
}

size_t ew_products_space(ew_products_kind kind) {
#if HAS_TILES
    return kind == EW_PRODUCTS_BF16X3 ? ew_tiles_space() : 0;
#else
    (void)kind;
    return 0;
#endif
}

static void multiply_by_cblas(const ew_product *p) {
    ew_openblas_gemm()(CblasRowMajor, p->a_transposed ? CblasTrans : CblasNoTrans,
                       p->b_transposed ? CblasTrans : CblasNoTrans, (blasint)p->m, (blasint)p->n, (blasint)p->k,
                       p->alpha, p->a.values, (blasint)p->a.stride, p->b.values, (blasint)p->b.stride, p->beta, p->c,
                       (blasint)p->c_stride);
}

void ew_multiply_matrices(void *space, const ew_product *product) {
    if (product->m == 0 || product->n == 0) {
        return;
    }
#if HAS_TILES
    if (space) {
        ew_multiply_in_tiles(space, product);
        return;
    }
#else
    (void)space;
#endif
    multiply_by_cblas(product);
}
