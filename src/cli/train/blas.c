#include "cli/train/blas.h"

#include <cblas.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
/* The names of OpenBLAS for what this processor has; NULL: no better one than it chose itself. */
static const char *better_kernel(void) {
    static const char *const old[] = {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Unknown"};
    bool is_old = false;
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        is_old |= strcasecmp(openblas_get_corename(), old[i]) == 0;
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
    const char *kernel = getenv("OPENBLAS_CORETYPE") ? NULL : better_kernel();
    if (kernel && setenv("OPENBLAS_CORETYPE", kernel, 1) == 0) {
        execv("/proc/self/exe", argv); /* returns only where that cannot be: then it is the slow kernel */
    }
}
