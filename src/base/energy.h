/* Energy that the machine used, where it has a counter that may be read: RAPL's packages (powercap), else a battery
 * that is discharging. Of the whole machine, not of this program. */
#ifndef EW_BASE_ENERGY_H
#define EW_BASE_ENERGY_H

#include <stdbool.h>
#include <stddef.h>

enum { EW_ENERGY_SOURCES = 8 };

typedef struct ew_energy_source {
    char path[160]; /* of the counter */
    double joules_per_count;
    double range; /* counts after which it begins anew; 0: it never does */
    bool falls;   /* a battery's: what is left */
    double start; /* the count at the beginning */
} ew_energy_source;

typedef struct ew_energy {
    ew_energy_source sources[EW_ENERGY_SOURCES];
    size_t n_sources; /* 0: the machine has none, or does not let us read it */
} ew_energy;

/* Finds the counters and reads them. `root` is "" but in tests. */
void ew_energy_start(const char *root, ew_energy *energy);

/* Joules since then; below 0 when there is nothing to read. */
double ew_energy_joules(const ew_energy *energy);

#endif
