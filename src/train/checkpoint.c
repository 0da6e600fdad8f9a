#include "train/checkpoint.h"
#include "format/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kind[] = "edgewise training state 1";

/* Three tensors: the vector and both moments, whole, in the order of the parameters. */
static const char *const names[] = {"parameters", "first_moment", "second_moment"};

/* Names and shapes of the parameters, one a line: what the vector means. */
static void describe(const ew_parameters *parameters, ew_buffer *text) {
    for (size_t i = 0; i < parameters->n_items; i++) {
        const ew_parameter *item = &parameters->items[i];
        ew_buffer_append_format(text, "%s %zu %zu %zu\n", item->name, item->rows, item->cols, item->at);
    }
}

ew_status ew_train_save(const char *path, const ew_parameters *parameters, const ew_adamw *optimizer,
                        const ew_train_state *state, ew_error *error) {
    const real *values[] = {parameters->values, optimizer->m, optimizer->v};
    const uint64_t shape[] = {parameters->total};
    ew_safetensors_writer writer;
    ew_status status = ew_safetensors_writer_open(path, &writer, error);
    if (status != EW_OK) {
        return status;
    }
    ew_buffer layout = {0};
    char step[24];
    describe(parameters, &layout);
    snprintf(step, sizeof step, "%" PRIu64, state->step);
    ew_safetensors_write_metadata(&writer, "kind", kind);
    ew_safetensors_write_metadata(&writer, "step", step);
    ew_safetensors_write_metadata(&writer, "settings", state->settings);
    ew_safetensors_write_metadata(&writer, "layout", layout.data ? layout.data : "");
    for (size_t i = 0; i < 3; i++) {
        ew_safetensors_write_tensor(&writer, names[i], sizeof(real) == sizeof(float) ? EW_DTYPE_F32 : EW_DTYPE_F64, 1,
                                    shape);
    }
    status = layout.failed ? ew_fail_memory(error, layout.length, "a checkpoint")
                           : ew_safetensors_writer_begin(&writer, error);
    for (size_t i = 0; status == EW_OK && i < 3; i++) {
        status = ew_safetensors_writer_data(&writer, values[i], parameters->total * sizeof(real), error);
    }
    ew_buffer_free(&layout);
    if (status != EW_OK) {
        ew_safetensors_writer_abandon(&writer);
        return status;
    }
    return ew_safetensors_writer_commit(&writer, error);
}

/* Says the first of the settings, parted by semicolons, that is not the same. */
static ew_status fail_settings(const char *path, const char *then, const char *now, ew_error *error) {
    size_t a = 0, b = 0;
    for (;; then += a + 1, now += b + 1) {
        a = strcspn(then, ";");
        b = strcspn(now, ";");
        if (a != b || memcmp(then, now, a) != 0 || then[a] == '\0' || now[b] == '\0') {
            break;
        }
    }
    then += *then == ' ';
    now += *now == ' ';
    return ew_fail(error, EW_ERROR_FORMAT, "%s was started with other settings or data: %.*s then, %.*s now", path,
                   (int)strcspn(then, ";"), then, (int)strcspn(now, ";"), now);
}

static ew_status check_metadata(const ew_safetensors *file, const ew_parameters *parameters, ew_train_state *state,
                                ew_error *error) {
    const char *path = ew_safetensors_path(file), *found = ew_safetensors_metadata(file, "kind");
    const char *settings = ew_safetensors_metadata(file, "settings"), *step = ew_safetensors_metadata(file, "step");
    const char *layout = ew_safetensors_metadata(file, "layout");
    char *end = NULL;
    if (!found || strcmp(found, kind) != 0 || !settings || !step || !layout) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s is no training state of this version", path);
    }
    if (strcmp(settings, state->settings) != 0) {
        return fail_settings(path, settings, state->settings, error);
    }
    state->step = strtoull(step, &end, 10);
    if (*end != '\0' || end == step) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: its step is \"%s\", no number", path, step);
    }
    ew_buffer expected = {0};
    describe(parameters, &expected);
    bool same = !expected.failed && expected.data && strcmp(expected.data, layout) == 0;
    ew_buffer_free(&expected);
    return same ? EW_OK : ew_fail(error, EW_ERROR_FORMAT, "%s is the state of another network", path);
}

ew_status ew_train_load(const char *path, ew_parameters *parameters, ew_adamw *optimizer, ew_train_state *state,
                        ew_error *error) {
    real *values[] = {parameters->values, optimizer->m, optimizer->v};
    ew_safetensors *file;
    ew_status status = ew_safetensors_open(path, &file, error);
    if (status != EW_OK) {
        return status;
    }
    const ew_safetensors_tensor *tensors[3];
    status = check_metadata(file, parameters, state, error);
    for (size_t i = 0; status == EW_OK && i < 3; i++) {
        tensors[i] = ew_safetensors_find(file, names[i]);
        if (!tensors[i] || tensors[i]->bytes != parameters->total * sizeof(real)) {
            status = ew_fail(error, EW_ERROR_FORMAT, "%s has no %s of %zu values", path, names[i], parameters->total);
        }
    }
    for (size_t i = 0; status == EW_OK && i < 3; i++) {
        memcpy(values[i], tensors[i]->data, tensors[i]->bytes);
    }
    if (status == EW_OK) {
        optimizer->step = state->step;
    }
    ew_safetensors_close(file);
    return status;
}
