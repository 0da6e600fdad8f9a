/* How many threads are worth starting: what the scheduler, the cgroup and the kind of cores allow. */
#include "base/threads.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* A core this much slower than the fastest holds a row-chunked loop up more than it helps. */
static const double FAST_ENOUGH = 0.7;

static bool read_number(const char *path, double *number) {
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    bool read = fscanf(file, "%lf", number) == 1;
    fclose(file);
    return read && *number > 0;
}

/* Relative speed of a CPU; 1 where the system does not say. */
static double cpu_speed(int cpu) {
    char path[128];
    double speed;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpu_capacity", cpu);
    if (read_number(path, &speed)) {
        return speed;
    }
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", cpu);
    return read_number(path, &speed) ? speed : 1.0;
}

static size_t count_fast_cpus(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return 1;
    }
    double fastest = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && cpu_speed(cpu) > fastest) {
            fastest = cpu_speed(cpu);
        }
    }
    size_t count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        count += CPU_ISSET(cpu, &allowed) && cpu_speed(cpu) >= FAST_ENOUGH * fastest;
    }
    return count > 0 ? count : 1;
}

/* CPUs that a cgroup v2 folder's cpu.max allows; false when it says "max" or is not there. */
static bool folder_quota(const char *folder, double *cpus) {
    char path[512];
    double quota, period;
    if (snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder) >= (int)sizeof path) {
        return false;
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    bool limited = fscanf(file, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0;
    fclose(file);
    if (limited) {
        *cpus = quota / period;
    }
    return limited;
}

/* The tightest quota on the way from this process's cgroup up to the root (v2), or that of v1's mount. */
static bool cgroup_quota(double *cpus) {
    char line[512], folder[512] = "";
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(folder, sizeof folder, "%s", line + 3);
        }
    }
    if (file) {
        fclose(file);
    }
    bool limited = false;
    for (;;) {
        double quota;
        if (folder_quota(folder, &quota) && (!limited || quota < *cpus)) {
            *cpus = quota;
            limited = true;
        }
        char *slash = strrchr(folder, '/');
        if (!slash) {
            break;
        }
        *slash = '\0';
    }
    double quota, period;
    if (!limited && read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &quota) &&
        read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &period)) {
        *cpus = quota / period;
        limited = true;
    }
    return limited;
}

size_t ew_default_thread_count(void) {
    size_t count = count_fast_cpus();
    double cpus;
    if (cgroup_quota(&cpus)) {
        size_t quota = cpus < 1 ? 1 : (size_t)(cpus + 0.5);
        count = quota < count ? quota : count;
    }
    return count < EW_THREADS_MAX ? count : EW_THREADS_MAX;
}
