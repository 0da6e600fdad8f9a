#include "train/openblas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char library_name[] = "libopenblas.so.0";
#ifdef EW_TRAIN_DOUBLE
static const char gemm_name[] = "cblas_dgemm";
#else
static const char gemm_name[] = "cblas_sgemm";
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char problem[256]; /* "": it is loaded */
static ew_gemm_function gemm;
static char *(*core_name)(void);
static void (*set_threads)(int n);

/* POSIX lets an address of a symbol be called; ISO C knows no such conversion. */
static void find(void *library, const char *name, void *function, size_t size) {
    void *address = dlsym(library, name);
    memcpy(function, &address, size);
    if (!address && problem[0] == '\0') {
        snprintf(problem, sizeof problem, "%s has no %s", library_name, name);
    }
}

static void load(void) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL); /* stays until the program ends */
    if (!library) {
        const char *reason = dlerror();
        snprintf(problem, sizeof problem, "%s", reason ? reason : library_name);
        return;
    }
    find(library, gemm_name, &gemm, sizeof gemm);
    find(library, "openblas_get_corename", &core_name, sizeof core_name);
    find(library, "openblas_set_num_threads", &set_threads, sizeof set_threads);
    if (problem[0] == '\0') {
        set_threads(1); /* the trainer's workers are the threads */
    }
}

ew_status ew_openblas_load(ew_error *error) {
    pthread_once(&once, load);
    return problem[0] == '\0'
               ? EW_OK
               : ew_fail(error, EW_ERROR_IO,
                         "training needs OpenBLAS (Debian: libopenblas0), which cannot be loaded: %s", problem);
}

ew_gemm_function ew_openblas_gemm(void) {
    return gemm;
}

const char *ew_openblas_kernel(void) {
    return core_name ? core_name() : "none";
}
