#include "train/parameters.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ew_status ew_parameters_add(ew_parameters *parameters, const char *name, size_t rows, size_t cols, bool decays,
                            size_t *at, ew_error *error) {
    enum { ALIGNMENT = 16 };
    size_t n, end;
    ew_parameter item = {.rows = rows, .cols = cols, .at = parameters->total, .decays = decays};
    if (strlen(name) >= sizeof item.name) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "the name %s is too long for a parameter", name);
    }
    snprintf(item.name, sizeof item.name, "%s", name);
    if (!ew_multiply_size(rows, cols, &n) || !ew_add_size(item.at, n, &end) || !ew_add_size(end, ALIGNMENT - 1, &end)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%s: %zu x %zu values do not fit memory", name, rows, cols);
    }
    if (!ew_grow((void **)&parameters->items, &parameters->capacity, parameters->n_items + 1, sizeof item)) {
        return ew_fail_memory(error, sizeof item, "the list of parameters");
    }
    parameters->items[parameters->n_items++] = item;
    parameters->total = end / ALIGNMENT * ALIGNMENT;
    *at = item.at;
    return EW_OK;
}

ew_status ew_parameters_allocate(ew_parameters *parameters, ew_error *error) {
    parameters->values = ew_allocate_aligned(parameters->total, sizeof(real));
    return parameters->values ? EW_OK : ew_fail_memory(error, parameters->total * sizeof(real), "the parameters");
}

void ew_parameters_free(ew_parameters *parameters) {
    free(parameters->items);
    free(parameters->values);
    *parameters = (ew_parameters){0};
}

const ew_parameter *ew_parameters_find(const ew_parameters *parameters, const char *name) {
    for (size_t i = 0; i < parameters->n_items; i++) {
        if (strcmp(parameters->items[i].name, name) == 0) {
            return &parameters->items[i];
        }
    }
    return NULL;
}
