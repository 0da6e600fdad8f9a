/* Which kernel sets this machine can run, and which one to use. */
#include "kernel/scalar.h"
#include "kernel/tables.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const ew_kernels *kernels;
    bool (*runs_here)(void);
} candidate;

static bool always(void) {
    return true;
}

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum {
    /* leaf 1 ecx */ BIT_FMA = 12,
    BIT_OSXSAVE = 27,
    BIT_AVX = 28,
    BIT_F16C = 29,
    /* leaf 7.0 ebx */ BIT_AVX2 = 5,
    BIT_AVX512F = 16,
    BIT_AVX512DQ = 17,
    BIT_AVX512BW = 30,
    BIT_AVX512VL = 31,
    /* leaf 7.0 ecx */ BIT_GFNI = 8,
    BIT_AVX512VNNI = 11,
    /* leaf 7.0 edx */ BIT_AMX_BF16 = 22,
    BIT_AMX_TILE = 24,
    BIT_AMX_INT8 = 25,
    /* leaf 7.1 eax */ BIT_AVXVNNI = 4,
    BIT_AVX512BF16 = 5,
    /* XCR0 */ STATE_AVX = 0x06,
    STATE_AVX512 = 0xe6,
    STATE_AMX = 0x60000
};

typedef struct {
    unsigned ecx1, ebx7, ecx7, edx7, eax7_1, state;
} cpu_words;

static bool has(unsigned word, unsigned bit) {
    return word >> bit & 1;
}

/* All zero when the operating system does not save the AVX registers. */
static cpu_words read_cpu(void) {
    cpu_words cpu = {0};
    unsigned eax, ebx, ecx, edx, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !has(ecx, BIT_OSXSAVE)) {
        return cpu;
    }
    cpu.ecx1 = ecx;
    __asm__ volatile("xgetbv" : "=a"(cpu.state), "=d"(high) : "c"(0));
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
        cpu.ebx7 = ebx;
        cpu.ecx7 = ecx;
        cpu.edx7 = edx;
        unsigned last_subleaf = eax;
        if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) {
            cpu.eax7_1 = eax;
        }
    }
    return cpu;
}

static bool runs_avx2(void) {
    cpu_words cpu = read_cpu();
    return (cpu.state & STATE_AVX) == STATE_AVX && has(cpu.ecx1, BIT_AVX) && has(cpu.ecx1, BIT_FMA) &&
           has(cpu.ecx1, BIT_F16C) && has(cpu.ebx7, BIT_AVX2);
}

static bool runs_avxvnni(void) {
    return runs_avx2() && has(read_cpu().eax7_1, BIT_AVXVNNI);
}

static bool runs_avx512(void) {
    cpu_words cpu = read_cpu();
    return runs_avx2() && (cpu.state & STATE_AVX512) == STATE_AVX512 && has(cpu.ebx7, BIT_AVX512F) &&
           has(cpu.ebx7, BIT_AVX512DQ) && has(cpu.ebx7, BIT_AVX512BW) && has(cpu.ebx7, BIT_AVX512VL) &&
           has(cpu.ecx7, BIT_AVX512VNNI);
}

/* Linux saves tile registers only for processes that have asked for it. */
static bool runs_amx(void) {
#if defined(__linux__)
    enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    cpu_words cpu = read_cpu();
    return runs_avx512() && (cpu.state & STATE_AMX) == STATE_AMX && has(cpu.edx7, BIT_AMX_TILE) &&
           has(cpu.edx7, BIT_AMX_INT8) && has(cpu.ecx7, BIT_GFNI) &&
           syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
#else
    return false;
#endif
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* From the kernel's <asm/hwcap.h>, which old headers lack in part. */
static const unsigned long CAPABILITY_DOT = 1ul << 20, CAPABILITY_2_I8MM = 1ul << 13;

static bool runs_neon(void) {
    return getauxval(AT_HWCAP) & CAPABILITY_DOT;
}

static bool runs_neon_i8mm(void) {
    return runs_neon() && (getauxval(AT_HWCAP2) & CAPABILITY_2_I8MM);
}
#endif

/* From slow to fast: the last that runs is the default. */
static const candidate CANDIDATES[] = {
    {&ew_kernels_scalar, always},
#if defined(__x86_64__)
    {&ew_kernels_avx2, runs_avx2},     {&ew_kernels_avx512vl, runs_avx512}, {&ew_kernels_avxvnni, runs_avxvnni},
    {&ew_kernels_avx512, runs_avx512}, {&ew_kernels_amx, runs_amx},
#elif defined(__aarch64__) && defined(__linux__)
    {&ew_kernels_neon, runs_neon},
    {&ew_kernels_neon_i8mm, runs_neon_i8mm},
#endif
};
enum { N_CANDIDATES = sizeof CANDIDATES / sizeof CANDIDATES[0] };

static const ew_kernels *available[N_CANDIDATES];
static size_t n_available;
static pthread_once_t detected = PTHREAD_ONCE_INIT;

static void detect(void) {
    for (size_t i = 0; i < N_CANDIDATES; i++) {
        if (CANDIDATES[i].runs_here()) {
            available[n_available++] = CANDIDATES[i].kernels;
        }
    }
}

const ew_kernels *const *ew_kernels_available(size_t *count) {
    pthread_once(&detected, detect);
    *count = n_available;
    return available;
}

const ew_kernels *ew_kernels_find(const char *name) {
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}

static ew_status refuse(const char *name, ew_error *error) {
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count);
    char names[256] = "";
    for (size_t i = 0, used = 0; i < count && used < sizeof names; i++) {
        const char *before = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        int written = snprintf(names + used, sizeof names - used, "%s%s", before, all[i]->name);
        used += written > 0 ? (size_t)written : 0;
    }
    return ew_fail(error, EW_ERROR_ARGUMENT,
                   "EDGEWISE_ISA is '%s', which this machine or this build lacks; %s would do", name, names);
}

ew_status ew_kernels_select(const ew_kernels **kernels, ew_error *error) {
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count);
    const char *name = getenv("EDGEWISE_ISA");
    *kernels = name && *name ? ew_kernels_find(name) : all[count - 1];
    return *kernels ? EW_OK : refuse(name, error);
}

bool ew_kernels_have_bf16_tiles(void) {
#if defined(__x86_64__)
    const ew_kernels *chosen;
    cpu_words cpu = read_cpu();
    return ew_kernels_select(&chosen, NULL) == EW_OK && chosen == &ew_kernels_amx && has(cpu.edx7, BIT_AMX_BF16) &&
           has(cpu.eax7_1, BIT_AVX512BF16);
#else
    return false;
#endif
}
