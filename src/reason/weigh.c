#define EW_WEIGH_TABLE ew_weigh_plain
#include "reason/weigh_loops.h"

size_t ew_weigh_all(const ew_weigh_table *tables[3]) {
    size_t n = 0;
    tables[n++] = &ew_weigh_plain;
#if defined(__x86_64__)
    extern const ew_weigh_table ew_weigh_avx2, ew_weigh_avx512;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        tables[n++] = &ew_weigh_avx2;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        tables[n++] = &ew_weigh_avx512;
    }
#endif
    return n;
}

const ew_weigh_table *ew_weigh_choose(void) {
    const ew_weigh_table *tables[3];
    return tables[ew_weigh_all(tables) - 1];
}
