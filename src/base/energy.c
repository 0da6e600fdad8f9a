#include "base/energy.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* A path that was cut opens nothing. */
static bool read_count(const char *path, double *count) {
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    bool read = fscanf(file, "%lf", count) == 1;
    fclose(file);
    return read && *count >= 0;
}

static bool read_word(const char *path, char word[32]) {
    FILE *file = fopen(path, "re");
    bool read = file && fscanf(file, "%31s", word) == 1;
    if (file) {
        fclose(file);
    }
    return read;
}

/* intel-rapl:0 is a package; intel-rapl:0:1 is a part of it, and counted with it. */
static bool is_package(const char *name) {
    const char *colon = strchr(name, ':');
    return strncmp(name, "intel-rapl", 10) == 0 && colon && !strchr(colon + 1, ':');
}

/* Each adds one source if it can be read. */
static void add_package(const char *folder, ew_energy *energy) {
    ew_energy_source *source = &energy->sources[energy->n_sources];
    char range[160];
    *source = (ew_energy_source){.joules_per_count = 1e-6};
    snprintf(source->path, sizeof source->path, "%s/energy_uj", folder);
    snprintf(range, sizeof range, "%s/max_energy_range_uj", folder);
    if (!read_count(range, &source->range)) {
        source->range = 0;
    }
    energy->n_sources += read_count(source->path, &source->start);
}

static void add_battery(const char *folder, ew_energy *energy) {
    ew_energy_source *source = &energy->sources[energy->n_sources];
    char path[160], word[32];
    double volts = 0;
    snprintf(path, sizeof path, "%s/status", folder);
    if (!read_word(path, word) || strcmp(word, "Discharging") != 0) {
        return;
    }
    *source = (ew_energy_source){.joules_per_count = 3600e-6, .falls = true}; /* microwatt hours */
    snprintf(source->path, sizeof source->path, "%s/energy_now", folder);
    if (read_count(source->path, &source->start)) {
        energy->n_sources++;
        return;
    }
    snprintf(path, sizeof path, "%s/voltage_now", folder);
    snprintf(source->path, sizeof source->path, "%s/charge_now", folder); /* microampere hours */
    if (read_count(path, &volts) && read_count(source->path, &source->start)) {
        source->joules_per_count = 3600e-6 * volts * 1e-6;
        energy->n_sources++;
    }
}

static void add_folders(const char *root, const char *where, bool batteries, ew_energy *energy) {
    char path[128];
    snprintf(path, sizeof path, "%s%s", root, where);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && energy->n_sources < EW_ENERGY_SOURCES && (entry = readdir(folder)) != NULL) {
        char one[128];
        bool fits = snprintf(one, sizeof one, "%.60s/%.60s", path, entry->d_name) < (int)sizeof one;
        if (fits && batteries && strncmp(entry->d_name, "BAT", 3) == 0) {
            add_battery(one, energy);
        } else if (fits && !batteries && is_package(entry->d_name)) {
            add_package(one, energy);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

void ew_energy_start(const char *root, ew_energy *energy) {
    *energy = (ew_energy){.n_sources = 0};
    add_folders(root, "/sys/class/powercap", false, energy);
    if (energy->n_sources == 0) {
        add_folders(root, "/sys/class/power_supply", true, energy);
    }
}

double ew_energy_joules(const ew_energy *energy) {
    double joules = 0;
    for (size_t i = 0; i < energy->n_sources; i++) {
        const ew_energy_source *source = &energy->sources[i];
        double now;
        if (!read_count(source->path, &now)) {
            return -1;
        }
        double counts = source->falls ? source->start - now : now - source->start;
        if (counts < 0) {
            counts = source->falls ? 0 : counts + source->range; /* plugged in meanwhile; begun anew */
        }
        joules += counts > 0 ? counts * source->joules_per_count : 0;
    }
    return energy->n_sources > 0 ? joules : -1;
}
