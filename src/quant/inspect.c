#include "quant/inspect.h"
#include "kernel/kv_page.h"
#include "quant/int4.h"
#include "quant/rows.h"

#include <stdio.h>
#include <string.h>

static void add_format(ew_inspected_kind *kind, const char *name) {
    size_t used = strlen(kind->formats), length = strlen(name);
    for (const char *at = kind->formats; (at = strstr(at, name)) != NULL; at += length) {
        if ((at == kind->formats || at[-1] == ' ') && (at[length] == '\0' || at[length] == ',')) {
            return;
        }
    }
    snprintf(kind->formats + used, sizeof kind->formats - used, "%s%s", used > 0 ? ", " : "", name);
}

static void add_tensor(ew_inspection *out, ew_layer_kind kind, size_t n_weights, size_t bytes,
                       const char *format) {
    ew_inspected_kind *sum = &out->kinds[kind];
    sum->n_tensors++;
    sum->n_weights += n_weights;
    sum->stored_bytes += bytes;
    out->n_parameters += n_weights;
    add_format(sum, format);
}

static void add_matrix(ew_inspection *out, const ew_matrix *matrix, const ew_tensor *tensor) {
    char format[32];
    if (matrix->group == 0) {
        snprintf(format, sizeof format, "%s per row", ew_matrix_format_name(matrix->format));
    } else {
        snprintf(format, sizeof format, "%s group %u", ew_matrix_format_name(matrix->format), matrix->group);
    }
    size_t n_weights = (size_t)matrix->rows * matrix->cols;
    add_tensor(out, ew_layer_kind_of(tensor->name), n_weights, tensor->bytes, format);
    out->weight_bytes += tensor->bytes;
}

/* A tensor that runs as F32, whatever it is in the file. */
static ew_status add_plain(ew_inspection *out, const ew_tensor *tensor, ew_error *error) {
    ew_layer_kind kind = ew_layer_kind_of(tensor->name);
    add_tensor(out, kind, tensor->rows * tensor->cols, tensor->bytes, ew_dtype_name(tensor->type));
    if (kind == EW_LAYER_VECTOR) {
        out->weight_bytes += tensor->cols * sizeof(float);
        return EW_OK;
    }
    ew_matrix_layout layout;
    ew_status status = ew_matrix_plan(EW_MATRIX_F32, tensor->rows, tensor->cols, 0, &layout, error);
    out->weight_bytes += status == EW_OK ? layout.total : 0;
    return status;
}

static void add_cache(ew_inspection *out, const ew_config *config, size_t grain) {
    ew_kv_layout layout = ew_kv_layout_make(out->quantized, config->head_dim, grain);
    out->kv_grain = out->quantized ? layout.grain : 0;
    out->kv_bytes_per_page = layout.page_bytes * config->n_layers * config->n_kv_heads;
    out->kv_bytes_per_token = out->kv_bytes_per_page / EW_PAGE_POSITIONS;
}

ew_status ew_inspect(const ew_checkpoint *checkpoint, const ew_edgewise_file *file, ew_inspection *out,
                     ew_error *error) {
    *out = (ew_inspection){.quantized = file != NULL};
    for (size_t i = 0; i < ew_checkpoint_tensor_count(checkpoint); i++) {
        const ew_tensor *tensor = ew_checkpoint_tensor_at(checkpoint, i);
        const ew_matrix *matrix = file ? ew_edgewise_file_matrix(file, tensor->name) : NULL;
        ew_status status = EW_OK;
        if (matrix) {
            add_matrix(out, matrix, tensor);
        } else if (!file || ew_edgewise_file_vector(file, tensor->name)) {
            status = add_plain(out, tensor, error);
        } /* else: the tokenizer */
        if (status != EW_OK) {
            return status;
        }
    }
    add_cache(out, ew_checkpoint_config(checkpoint), file ? file->kv_grain : 0);
    double bytes = 0, weights = 0;
    for (int kind = 0; kind < EW_LAYER_KINDS; kind++) {
        bytes += (double)out->kinds[kind].stored_bytes;
        weights += (double)out->kinds[kind].n_weights;
    }
    out->bits_per_weight = weights > 0 ? bytes * 8 / weights : 0;
    return EW_OK;
}

size_t ew_inspect_kv_bytes(const ew_inspection *inspection, size_t context) {
    return (context + EW_PAGE_POSITIONS - 1) / EW_PAGE_POSITIONS * inspection->kv_bytes_per_page;
}

static ew_status check_row(void *context, size_t row, void *scratch, ew_error *error) {
    const ew_tensor *tensor = context;
    ew_status status = ew_tensor_read_row(tensor, row, scratch, error);
    return status == EW_OK ? ew_check_finite(tensor->name, row, scratch, tensor->cols, error) : status;
}

ew_status ew_check_values(const ew_checkpoint *checkpoint, const ew_edgewise_file *file, ew_pool *pool,
                          const volatile sig_atomic_t *cancel, ew_error *error) {
    if (file) {
        return ew_edgewise_file_check(file, error);
    }
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < ew_checkpoint_tensor_count(checkpoint); i++) {
        ew_tensor tensor = *ew_checkpoint_tensor_at(checkpoint, i);
        status =
            ew_for_rows(pool, 0, tensor.rows, tensor.cols * sizeof(float), check_row, &tensor, cancel, error);
    }
    return status;
}
