#include "cli/train/blas.h"
#include "train/openblas.h"

#include <stdbool.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#if defined(__x86_64__)
/* The names of OpenBLAS for what this processor has; NULL: no better one than it chose itself. */
static const char *better_kernel(void) {
    static const char *const old[] = {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Unknown"};
    bool is_old = false;
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        is_old |= strcasecmp(ew_openblas_kernel(), old[i]) == 0;
    }
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return !is_old ? NULL : avx512 ? "SkylakeX" : avx2 ? "Haswell" : NULL;
}
#else
static const char *better_kernel(void) {
    return NULL;
}
#endif

void ew_blas_choose(char **argv) {
    ew_error error;                         /* told when a trainer opens */
    setenv("OPENBLAS_NUM_THREADS", "1", 1); /* or it starts some when it is loaded */
    bool loaded = ew_openblas_load(&error) == EW_OK;
    const char *kernel = !loaded || getenv("OPENBLAS_CORETYPE") ? NULL : better_kernel();
    if (kernel && setenv("OPENBLAS_CORETYPE", kernel, 1) == 0) {
        execv("/proc/self/exe", argv); /* returns only where that cannot be: then it is the slow kernel */
    }
}
