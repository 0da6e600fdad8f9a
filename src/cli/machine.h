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

/* The name and the load, without measuring: all else is 0. Before any work is done. */
void ew_machine_describe(ew_machine *machine);

/* All of it. Takes about a second. */
ew_status ew_machine_measure(ew_pool *pool, const ew_kernels *kernels, ew_machine *machine, ew_error *error);

/* Why figures are not good that were measured on such a machine and whose rounds lie as far apart as `spread`, over their
 * middle; NULL: they are. */
const char *ew_machine_complaint(const ew_machine *machine, double spread);

/* The most memory that this process ever had, in bytes; 0: not known. */
size_t ew_peak_memory(void);

/* A hash of the values' bits: whether two runs computed the same. */
uint64_t ew_checksum_floats(const float *values, size_t n);

/* The middle one of n values, which are sorted by this. */
double ew_median(double *values, size_t n);

#endif
