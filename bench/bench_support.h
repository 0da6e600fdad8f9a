/* What the benchmarks of kernels share: threads that time themselves, memory, random bytes, medians. */
#ifndef EW_BENCH_SUPPORT_H
#define EW_BENCH_SUPPORT_H

#include "base/memory.h"
#include "kernel/kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 64, MAX_SETS = 16, MAX_ROUNDS = 101 };

/* The thread's own time: what other programs take away does not count. */
static inline double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    void (*share)(const void *job, size_t index); /* what thread `index` does */
    const void *job;
    size_t index;
    double seconds;
} bench_worker;

static inline void *bench_work(void *argument) {
    bench_worker *self = argument;
    double start = thread_seconds();
    self->share(self->job, self->index);
    self->seconds = thread_seconds() - start;
    return NULL;
}

/* Seconds of the thread that took longest. */
static inline double bench_run(size_t n_threads, void (*share)(const void *job, size_t index), const void *job) {
    pthread_t threads[MAX_THREADS];
    bench_worker workers[MAX_THREADS];
    for (size_t i = 0; i < n_threads; i++) {
        workers[i] = (bench_worker){.share = share, .job = job, .index = i};
        if (i > 0 && pthread_create(&threads[i], NULL, bench_work, &workers[i]) != 0) {
            exit(1);
        }
    }
    bench_work(&workers[0]);
    double seconds = workers[0].seconds;
    for (size_t i = 1; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
        seconds = workers[i].seconds > seconds ? workers[i].seconds : seconds;
    }
    return seconds;
}

static inline void *bench_allocate(size_t size) {
    void *memory = ew_allocate_aligned(size, 1);
    if (!memory) {
        fprintf(stderr, "no memory for %zu bytes\n", size);
        exit(1);
    }
    return memory;
}

static inline void fill_random(void *memory, size_t size) {
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i + 8 <= size; i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy((char *)memory + i, &state, 8);
    }
}

static inline int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static inline double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, compare_doubles);
    return values[n / 2];
}

/* The sets that names[n] name, or all but scalar, which takes minutes, when there are none; exits where one is not there. */
static inline size_t find_sets(char **names, int n, const ew_kernels **sets) {
    size_t count, found = 0;
    const ew_kernels *const *all = ew_kernels_available(&count);
    for (size_t i = 1; i < count && n <= 0; i++) {
        sets[found++] = all[i];
    }
    for (int i = 0; i < n && found < MAX_SETS; i++) {
        sets[found] = ew_kernels_find(names[i]);
        if (!sets[found++]) {
            fprintf(stderr, "this machine has no kernel set %s\n", names[i]);
            exit(2);
        }
    }
    return found;
}

#endif
