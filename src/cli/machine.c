#include "cli/machine.h"
#include "base/memory.h"
#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 7,
    READ_BYTES = 1 << 29,
    READ_CHUNK = 1 << 20,
    READ_AHEAD = 4096,
    PEAK_CHUNK = 20000,
    PEAK_CHUNKS_PER_THREAD = 40
};

/* A spread or a load above these, and figures are not called good. */
static const double SPREAD_GOOD = 0.15, LOAD_GOOD = 0.5;

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ew_median(double *values, size_t n) {
    qsort(values, n, sizeof *values, compare_doubles);
    return values[n / 2];
}

typedef struct reading {
    const uint64_t *words;
    volatile uint64_t sink;
} reading;

/* Sums in eight chains, so that memory and not the additions set the pace. */
static void read_task(void *context, size_t begin, size_t end) {
    reading *r = context;
    uint64_t sums[8] = {0};
    for (size_t i = begin * READ_CHUNK / 8; i < end * READ_CHUNK / 8; i += 8) {
        __builtin_prefetch(r->words + i + READ_AHEAD / 8);
        for (size_t k = 0; k < 8; k++) {
            sums[k] += r->words[i + k];
        }
    }
    uint64_t total = 0;
    for (size_t k = 0; k < 8; k++) {
        total += sums[k];
    }
    if (total == 1) {
        r->sink = total;
    }
}

static ew_status measure_reading(ew_pool *pool, double *gbps, ew_error *error) {
    uint64_t *words = ew_allocate_aligned(READ_BYTES + READ_AHEAD, 1);
    if (!words) {
        return ew_fail_memory(error, READ_BYTES, "measuring the memory");
    }
    memset(words, 3, READ_BYTES);
    reading r = {.words = words};
    double rates[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        double start = ew_clock_seconds();
        ew_pool_run(pool, READ_BYTES / READ_CHUNK, 4, read_task, &r);
        rates[i] = READ_BYTES / (ew_clock_seconds() - start) * 1e-9;
    }
    free(words);
    *gbps = ew_median(rates, ROUNDS);
    return EW_OK;
}

typedef struct peaking {
    const ew_kernels *kernels;
    volatile int32_t sink;
} peaking;

static void peak_task(void *context, size_t begin, size_t end) {
    peaking *p = context;
    int32_t result = p->kernels->dot_peak((end - begin) * PEAK_CHUNK);
    if (result == 1) {
        p->sink = result;
    }
}

static double measure_peak(ew_pool *pool, const ew_kernels *kernels) {
    peaking p = {.kernels = kernels};
    size_t n = ew_pool_size(pool) * PEAK_CHUNKS_PER_THREAD;
    double rates[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        double start = ew_clock_seconds();
        ew_pool_run(pool, n, 1, peak_task, &p);
        rates[i] = (double)n * PEAK_CHUNK * EW_DOT_PEAK_PRODUCTS / (ew_clock_seconds() - start) * 1e-9;
    }
    return ew_median(rates, ROUNDS);
}

static void read_cpu_name(char name[96]) {
    char line[256];
    snprintf(name, 96, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(name, 96, "%.95s", colon + 2);
            break;
        }
    }
    if (file) {
        fclose(file);
    }
}

void ew_machine_describe(ew_machine *machine) {
    double load;
    *machine = (ew_machine){.load = getloadavg(&load, 1) == 1 ? load : 0};
    read_cpu_name(machine->cpu);
}

ew_status ew_machine_measure(ew_pool *pool, const ew_kernels *kernels, ew_machine *machine, ew_error *error) {
    ew_machine_describe(machine);
    machine->n_threads = ew_pool_size(pool);
    machine->int8_gmacs = measure_peak(pool, kernels);
    return measure_reading(pool, &machine->read_gbps, error);
}

const char *ew_machine_complaint(const ew_machine *machine, double spread) {
    if (machine->load > LOAD_GOOD) {
        return "the machine was busy before the run began";
    }
    return spread > SPREAD_GOOD ? "the rounds differ too much" : NULL;
}

uint64_t ew_checksum_floats(const float *values, size_t n) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a over the bit patterns */
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    }
    return hash;
}

size_t ew_peak_memory(void) {
    /* Not getrusage: its figure may be that of the program that started this one. */
    char line[128];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %zu kB", &kilobytes) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kilobytes * 1024;
}
