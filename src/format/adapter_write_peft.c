#include "base/file.h"
#include "base/memory.h"
#include "format/adapter_rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is being written. */
typedef struct peft_export {
    const ew_lora *adapter;
    const ew_config *base;
    ew_adapter_storage storage;
    char *config_path, *model_path;
    ew_linear *linears;
    ew_name *order;
    double *numbers; /* as many as targets, for counting */
    ew_adapter_row row;
    ew_safetensors_writer model;
    ew_output config;
} peft_export;

static ew_status to_safetensors(void *file, const void *bytes, size_t length, ew_error *error) {
    return ew_safetensors_writer_data(file, bytes, length, error);
}

static ew_adapter_job job_of(const peft_export *export, size_t index, bool b) {
    const ew_lora_target *target = &export->adapter->targets[index];
    ew_adapter_job job = {.factor = b ? &target->b : &target->a, .type = EW_DTYPE_F32, .multiplier = 1};
    snprintf(job.name, sizeof job.name, "%s", export->linears[index].name);
    ew_dtype own = job.factor->values.type;
    if (export->storage == EW_ADAPTER_F16) {
        job.type = EW_DTYPE_F16;
    } else if (export->storage == EW_ADAPTER_KEEP && (own == EW_DTYPE_F16 || own == EW_DTYPE_BF16)) {
        job.type = own;
    }
    return job;
}

static ew_status write_model(peft_export *export, ew_error *error) {
    size_t count = export->adapter->n_targets;
    ew_status status = ew_safetensors_writer_open(export->model_path, &export->model, error);
    if (status != EW_OK) {
        return status;
    }
    ew_safetensors_write_metadata(&export->model, "format", "pt");
    for (size_t i = 0; i < 2 * count; i++) {
        size_t index = export->order[i / 2].index;
        ew_adapter_job job = job_of(export, index, i % 2 == 1);
        char name[EW_FOLDER_NAME_BYTES + 64];
        snprintf(name, sizeof name, "base_model.model.%s.lora_%c.weight", export->linears[index].module,
                 i % 2 == 1 ? 'B' : 'A');
        ew_safetensors_write_tensor(&export->model, name, job.type, 2,
                                    (uint64_t[]){job.factor->values.rows, job.factor->values.cols});
    }
    status = ew_safetensors_writer_begin(&export->model, error);
    for (size_t i = 0; i < 2 * count && status == EW_OK; i++) {
        ew_adapter_job job = job_of(export, export->order[i / 2].index, i % 2 == 1);
        status = ew_adapter_write_values(&job, &export->row, to_safetensors, &export->model, export->model_path, error);
    }
    return status;
}

/* As peft writes it: 8 and not 8.0. */
static json_t *number(double value) {
    return fabs(value) < 1e15 && rint(value) == value ? json_integer((json_int_t)value) : json_real(value);
}

static double rank_of(const ew_lora_target *target) {
    return (double)target->rank;
}

static double alpha_of(const ew_lora_target *target) {
    return target->alpha;
}

/* The value of most targets under `key`, the other targets' by their paths under `pattern_key`. */
static bool put_numbers(const peft_export *export, json_t *config, const char *key, const char *pattern_key,
                        double (*value)(const ew_lora_target *target)) {
    size_t count = export->adapter->n_targets;
    for (size_t i = 0; i < count; i++) {
        export->numbers[i] = value(&export->adapter->targets[i]);
    }
    double common = ew_most_common(export->numbers, count);
    json_t *pattern = json_object();
    bool right = pattern && json_object_set_new(config, key, number(common)) == 0;
    for (size_t i = 0; i < count && right; i++) {
        double own = value(&export->adapter->targets[i]);
        if (own != common) {
            right = json_object_set_new(pattern, export->linears[i].module, number(own)) == 0;
        }
    }
    return json_object_set_new(config, pattern_key, pattern) == 0 && right;
}

/* The names of the kinds where each adapts all layers, else the paths. */
static json_t *target_modules(const peft_export *export) {
    enum { MAX_PLACES = 32 };
    size_t seen[MAX_PLACES] = {0}, count = export->adapter->n_targets;
    bool uniform = true;
    for (size_t i = 0; i < count; i++) {
        seen[export->linears[i].place % MAX_PLACES]++;
    }
    for (size_t i = 0; i < MAX_PLACES; i++) {
        uniform = uniform && (seen[i] == 0 || seen[i] == export->base->n_layers);
    }
    json_t *names = json_array();
    bool right = names != NULL;
    for (size_t i = 0; i < count && right; i++) {
        const ew_linear *linear = &export->linears[i];
        if (!uniform) {
            right = json_array_append_new(names, json_string(linear->module)) == 0;
        } else if (linear->layer == 0) {
            right = json_array_append_new(names, json_string(strrchr(linear->module, '.') + 1)) == 0;
        }
    }
    if (!right) {
        json_decref(names);
        return NULL;
    }
    return names;
}

static json_t *token_list(const ew_lora *adapter) {
    json_t *list = adapter->n_invocation_tokens > 0 ? json_array() : json_null();
    for (size_t i = 0; i < adapter->n_invocation_tokens && list; i++) {
        if (json_array_append_new(list, json_integer(adapter->invocation_tokens[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static bool fill_config(const peft_export *export, json_t *config) {
    const ew_lora *adapter = export->adapter;
    const struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"alora_invocation_tokens", token_list(adapter)},
        {"base_model_name_or_path", adapter->base_name ? json_string(adapter->base_name) : json_null()},
        {"bias", json_string("none")},
        {"fan_in_fan_out", json_false()},
        {"inference_mode", json_true()},
        {"init_lora_weights", json_true()},
        {"layers_to_transform", json_null()},
        {"lora_bias", json_false()},
        {"lora_dropout", json_real(0)},
        {"modules_to_save", json_null()},
        {"peft_type", json_string("LORA")},
        {"target_modules", target_modules(export)},
        {"task_type", json_string("CAUSAL_LM")},
        {"use_dora", json_false()},
        {"use_rslora", json_boolean(adapter->rslora)},
    };
    bool right = true;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        right = json_object_set_new(config, members[i].key, members[i].value) == 0 && right;
    }
    return right && put_numbers(export, config, "r", "rank_pattern", rank_of) &&
           put_numbers(export, config, "lora_alpha", "alpha_pattern", alpha_of);
}

static ew_status write_config(peft_export *export, ew_error *error) {
    json_t *config = json_object();
    char *text = config && fill_config(export, config) ? json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(config);
    if (!text) {
        return ew_fail_memory(error, sizeof(json_t), "adapter_config.json");
    }
    ew_status status = ew_output_open(export->config_path, &export->config, error);
    if (status == EW_OK) {
        status = ew_output_write(&export->config, text, strlen(text), error);
    }
    free(text);
    return status;
}

static ew_status write_both(peft_export *export, ew_error *error) {
    ew_status status = write_model(export, error);
    if (status == EW_OK) {
        status = write_config(export, error);
    }
    if (status == EW_OK) {
        status = ew_safetensors_writer_commit(&export->model, error);
    }
    if (status == EW_OK) {
        status = ew_output_commit(&export->config, error);
    }
    ew_safetensors_writer_abandon(&export->model);
    ew_output_abandon(&export->config);
    return status;
}

static ew_status prepare(peft_export *export, const char *folder, ew_error *error) {
    size_t count = export->adapter->n_targets;
    export->config_path = ew_join_path(folder, "adapter_config.json");
    export->model_path = ew_join_path(folder, "adapter_model.safetensors");
    export->numbers = ew_allocate(count, sizeof *export->numbers);
    if (!export->config_path || !export->model_path || !export->numbers) {
        return ew_fail_memory(error, count * sizeof *export->numbers, "writing an adapter");
    }
    ew_status status = ew_adapter_order(export->adapter, &export->linears, &export->order, error);
    return status == EW_OK ? ew_adapter_row_allocate(export->adapter, &export->row, error) : status;
}

static ew_status make_folder(const char *folder, bool *made, ew_error *error) {
    *made = mkdir(folder, 0777) == 0;
    if (!*made && errno != EEXIST) {
        return ew_fail(error, EW_ERROR_IO, "cannot make the folder %s: %s", folder, strerror(errno));
    }
    return EW_OK;
}

ew_status ew_adapter_write_peft(const ew_lora *adapter, const ew_config *base, ew_adapter_storage storage,
                                const char *folder, ew_error *error) {
    peft_export export = {.adapter = adapter, .base = base, .storage = storage};
    bool made = false;
    if (storage == EW_ADAPTER_INT8) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "cannot write %s: a PEFT folder has no INT8 adapters; F32 and F16 are right", folder);
    }
    ew_status status = ew_adapter_check(adapter, base, folder, error);
    if (status == EW_OK) {
        status = prepare(&export, folder, error);
    }
    if (status == EW_OK) {
        status = make_folder(folder, &made, error);
    }
    if (status == EW_OK) {
        status = write_both(&export, error);
    }
    if (status != EW_OK && made) {
        (void)unlink(export.model_path);
        (void)rmdir(folder);
    }
    ew_adapter_row_free(&export.row);
    free(export.config_path);
    free(export.model_path);
    free(export.numbers);
    free(export.linears);
    free(export.order);
    return status;
}
