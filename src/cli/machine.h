/* What the machine can do at best, measured in the run that it is compared with. */
#ifndef EW_CLI_MACHINE_H
#define EW_CLI_MACHINE_H

#include "base/threads.h"
#include "kernel/kernel.h"

typedef struct ew_machine {
    char cpu[96];      /* the model's name, as the system gives it */
    size_t n_threads;
    double read_gbps;  /* memory read by all threads, 1e9 bytes a second */
    double int8_gmacs; /* byte products in registers, all threads, 1e9 a second */
    double load;       /* load average of the last minute, before anything was measured */
} ew_machine;

/* Takes about a second. */
ew_status ew_machine_measure(ew_pool *pool, const ew_kernels *kernels, ew_machine *machine, ew_error *error);

/* The middle one of n values, which are sorted by this. */
double ew_median(double *values, size_t n);

#endif
