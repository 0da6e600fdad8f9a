#include "base/memory.h"
#include "format/adapter_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a base has under the name of a target; NULL: nothing. */
static const ew_expected *look_up(const ew_expected *expected, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(expected[i].name, name) == 0) {
            return &expected[i];
        }
    }
    return NULL;
}

static ew_status fail_misfit(const ew_lora *adapter, const ew_config *base, size_t misfits, size_t first,
                             const ew_expected *wanted, const char *path, ew_error *error) {
    const ew_lora_target *target = &adapter->targets[first];
    char problem[160];
    if (wanted) {
        snprintf(problem, sizeof problem, "is [%zu, %zu] in the adapter and [%zu, %zu] in the base",
                 target->b.values.rows, target->a.values.cols, wanted->rows, wanted->cols);
    } else {
        snprintf(problem, sizeof problem, "is not in the base");
    }
    return ew_fail(error, EW_ERROR_FORMAT,
                   "%s does not fit the base, a %s model of %zu layers: %zu of its %zu matrices have no place there, "
                   "the first is %s, which %s",
                   path, ew_architecture_name(base->architecture), base->n_layers, misfits, adapter->n_targets,
                   target->name, problem);
}

static ew_status compare(const ew_lora *adapter, const ew_config *base, const ew_expected *expected, size_t count,
                         const char *path, ew_error *error) {
    const ew_expected *first_wanted = NULL;
    size_t misfits = 0, first = 0;
    for (size_t i = 0; i < adapter->n_targets; i++) {
        const ew_lora_target *target = &adapter->targets[i];
        const ew_expected *wanted = look_up(expected, count, target->name);
        if (wanted && wanted->rows == target->b.values.rows && wanted->cols == target->a.values.cols) {
            continue;
        }
        if (misfits++ == 0) {
            first = i;
            first_wanted = wanted;
        }
    }
    return misfits > 0 ? fail_misfit(adapter, base, misfits, first, first_wanted, path, error) : EW_OK;
}

ew_status ew_adapter_fit(const ew_lora *adapter, const ew_config *base, const char *path, ew_error *error) {
    if (!base) {
        return EW_OK;
    }
    for (size_t i = 0; i < adapter->n_invocation_tokens; i++) {
        if (adapter->invocation_tokens[i] < 0 || (size_t)adapter->invocation_tokens[i] >= base->vocab_size) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: invocation token %d is not in the base's vocabulary of %zu",
                           path, (int)adapter->invocation_tokens[i], base->vocab_size);
        }
    }
    ew_expected *expected = NULL;
    size_t count = 0;
    ew_status status = ew_expect_tensors(base, &expected, &count, error);
    if (status == EW_OK) {
        status = compare(adapter, base, expected, count, path, error);
    }
    free(expected);
    return status;
}

static ew_status check_factor(const ew_lora_target *target, bool b, float *row, const char *path, ew_error *error) {
    const ew_lora_factor *factor = b ? &target->b : &target->a;
    for (size_t i = 0; i < factor->values.rows; i++) {
        ew_status status = ew_lora_read_row(factor, i, row, error);
        if (status != EW_OK) {
            return status;
        }
        for (size_t j = 0; j < factor->values.cols; j++) {
            if (!isfinite(row[j])) {
                return ew_fail(error, EW_ERROR_FORMAT, "%s: lora_%c of %s has %s in row %zu, column %zu", path,
                               b ? 'B' : 'A', target->name, isnan(row[j]) ? "NaN" : "infinity", i, j);
            }
        }
    }
    return EW_OK;
}

size_t ew_adapter_widest(const ew_lora *adapter) {
    size_t widest = 1;
    for (size_t i = 0; i < adapter->n_targets; i++) {
        const ew_lora_target *target = &adapter->targets[i];
        widest = target->a.values.cols > widest ? target->a.values.cols : widest;
        widest = target->rank > widest ? target->rank : widest;
    }
    return widest;
}

ew_status ew_adapter_check_values(const ew_lora *adapter, const char *path, ew_error *error) {
    size_t widest = ew_adapter_widest(adapter);
    float *row = ew_allocate(widest, sizeof *row);
    if (!row) {
        return ew_fail_memory(error, widest * sizeof *row, "a row of an adapter");
    }
    ew_status status = EW_OK;
    for (size_t i = 0; i < adapter->n_targets && status == EW_OK; i++) {
        status = check_factor(&adapter->targets[i], false, row, path, error);
        if (status == EW_OK) {
            status = check_factor(&adapter->targets[i], true, row, path, error);
        }
    }
    free(row);
    return status;
}
