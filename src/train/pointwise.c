#define EW_POINTWISE_TABLE ew_pointwise_plain
#include "train/pointwise_loops.h"

const ew_pointwise_table *ew_pointwise = &ew_pointwise_plain;

#if defined(__x86_64__)
extern const ew_pointwise_table ew_pointwise_avx2, ew_pointwise_avx512;

void ew_pointwise_choose(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        ew_pointwise = &ew_pointwise_avx512;
    } else if (__builtin_cpu_supports("avx2")) {
        ew_pointwise = &ew_pointwise_avx2;
    }
}
#else
void ew_pointwise_choose(void) {
}
#endif
