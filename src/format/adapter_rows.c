#include "format/adapter_rows.h"
#include "base/float16.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INT8_LARGEST = 127 };

static bool factor_is_right(const ew_lora_factor *factor, size_t rows, size_t cols) {
    const ew_tensor *values = &factor->values, *scales = &factor->scales;
    if (!values->data || values->rows != rows || values->cols != cols) {
        return false;
    }
    return values->type == EW_DTYPE_I8
               ? scales->data && scales->type == EW_DTYPE_F32 && scales->rows == rows && scales->cols == 1
               : ew_dtype_is_weight(values->type);
}

ew_status ew_adapter_check(const ew_lora *adapter, const ew_config *base, const char *path, ew_error *error) {
    ew_linear linear, last = {0};
    for (size_t i = 0; i < adapter->n_targets; i++) {
        const ew_lora_target *t = &adapter->targets[i];
        bool right = ew_linear_by_name(ew_string_of(t->name), &linear) && t->rank > 0 && t->alpha > 0 &&
                     isfinite(t->alpha) && factor_is_right(&t->a, t->rank, t->a.values.cols) &&
                     factor_is_right(&t->b, t->b.values.rows, t->rank);
        bool ordered = i == 0 || linear.layer > last.layer || (linear.layer == last.layer && linear.place > last.place);
        if (!right || !ordered) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "cannot write %s: %s is %s", path, t->name,
                           right ? "out of order or given twice" : "no complete pair of LoRA matrices of a layer");
        }
        last = linear;
    }
    if (adapter->n_targets == 0 || adapter->n_invocation_tokens > EW_ADAPTER_MAX_TOKENS) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "cannot write %s: it needs a matrix and at most %d invocation tokens",
                       path, EW_ADAPTER_MAX_TOKENS);
    }
    if (adapter->base_name &&
        ew_utf8_valid_prefix(adapter->base_name, strlen(adapter->base_name)) < strlen(adapter->base_name)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "cannot write %s: the base's name is not valid UTF-8", path);
    }
    ew_status status = ew_adapter_fit(adapter, base, path, error);
    return status == EW_OK ? ew_adapter_check_values(adapter, path, error) : status;
}

ew_status ew_adapter_row_allocate(const ew_lora *adapter, ew_adapter_row *row, ew_error *error) {
    size_t widest = ew_adapter_widest(adapter);
    row->values = ew_allocate(widest, sizeof *row->values);
    row->bytes = ew_allocate(widest, sizeof(uint16_t));
    return row->values && row->bytes ? EW_OK
                                     : ew_fail_memory(error, widest * sizeof *row->values, "a row of an adapter");
}

void ew_adapter_row_free(ew_adapter_row *row) {
    free(row->values);
    free(row->bytes);
    *row = (ew_adapter_row){0};
}

/* Which canonical row stands at `place` of the file: the inverse of what reading does (tensor.c). */
static size_t row_at(const ew_adapter_job *job, size_t place) {
    size_t head = job->interleave;
    if (head == 0) {
        return place;
    }
    size_t inside = place % head;
    return place - inside + inside / 2 + (inside % 2) * (head / 2);
}

static ew_status read_values(const ew_adapter_job *job, size_t row, float *values, ew_error *error) {
    ew_status status = ew_lora_read_row(job->factor, row, values, error);
    for (size_t i = 0; job->multiplier != 1 && i < job->factor->values.cols && status == EW_OK; i++) {
        values[i] = (float)((double)values[i] * job->multiplier);
    }
    return status;
}

static float scale_of(const float *values, size_t count) {
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
    }
    return largest / INT8_LARGEST;
}

void ew_lora_encode_int8(const float *values, size_t count, int8_t *codes, float *scale) {
    *scale = scale_of(values, count);
    for (size_t i = 0; i < count; i++) {
        double code = *scale > 0 ? rint((double)values[i] / (double)*scale) : 0;
        code = code > INT8_LARGEST ? INT8_LARGEST : code < -INT8_LARGEST ? -INT8_LARGEST : code;
        codes[i] = (int8_t)code;
    }
}

/* False: a value is too large for the type. */
static bool encode(ew_dtype type, ew_adapter_row *row, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float value = row->values[i];
        if (!isfinite(value)) {
            return false;
        }
        if (type == EW_DTYPE_F16) {
            uint16_t half = ew_f32_to_f16(value);
            memcpy(row->bytes + i * sizeof half, &half, sizeof half);
            if ((half & 0x7c00) == 0x7c00) {
                return false;
            }
        }
    }
    if (type == EW_DTYPE_I8) {
        float scale;
        ew_lora_encode_int8(row->values, count, (int8_t *)row->bytes, &scale);
    }
    return true;
}

static ew_status write_row(const ew_adapter_job *job, size_t index, ew_adapter_row *row, ew_adapter_sink sink,
                           void *file, const char *path, ew_error *error) {
    const ew_tensor *values = &job->factor->values;
    if (job->type == values->type && (job->multiplier == 1 || job->type == EW_DTYPE_I8)) {
        return sink(file, ew_tensor_row(values, index), values->row_bytes, error);
    }
    ew_status status = read_values(job, index, row->values, error);
    if (status != EW_OK) {
        return status;
    }
    if (!encode(job->type, row, values->cols)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "cannot write %s: a value of %s is too large for %s", path, job->name,
                       ew_dtype_name(job->type));
    }
    const void *bytes = job->type == EW_DTYPE_F32 ? (const void *)row->values : row->bytes;
    return sink(file, bytes, values->cols * ew_dtype_block_bytes(job->type), error);
}

ew_status ew_adapter_write_values(const ew_adapter_job *job, ew_adapter_row *row, ew_adapter_sink sink, void *file,
                                  const char *path, ew_error *error) {
    ew_status status = EW_OK;
    for (size_t place = 0; place < job->factor->values.rows && status == EW_OK; place++) {
        status = write_row(job, row_at(job, place), row, sink, file, path, error);
    }
    return status;
}

ew_status ew_adapter_write_scales(const ew_adapter_job *job, ew_adapter_row *row, ew_adapter_sink sink, void *file,
                                  ew_error *error) {
    const ew_tensor *values = &job->factor->values;
    ew_status status = EW_OK;
    for (size_t place = 0; place < values->rows && status == EW_OK; place++) {
        size_t index = row_at(job, place);
        float scale;
        if (values->type == EW_DTYPE_I8) {
            memcpy(&scale, ew_tensor_row(&job->factor->scales, index), sizeof scale);
            scale = (float)((double)scale * job->multiplier);
        } else {
            status = read_values(job, index, row->values, error);
            scale = scale_of(row->values, values->cols);
        }
        if (status == EW_OK) {
            status = sink(file, &scale, sizeof scale, error);
        }
    }
    return status;
}

ew_status ew_adapter_order(const ew_lora *adapter, ew_linear **linears, ew_name **order, ew_error *error) {
    size_t count = adapter->n_targets;
    *linears = ew_allocate(count, sizeof **linears);
    *order = ew_allocate(count, sizeof **order);
    if (!*linears || !*order) {
        return ew_fail_memory(error, count * sizeof **linears, "the table of tensors");
    }
    for (size_t i = 0; i < count; i++) {
        (void)ew_linear_by_name(ew_string_of(adapter->targets[i].name), &(*linears)[i]);
        (*order)[i] = (ew_name){ew_string_of((*linears)[i].module), i};
    }
    ew_names_sort(*order, count);
    return EW_OK;
}

static int compare_numbers(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double ew_most_common(double *values, size_t count) {
    double best = values[0];
    qsort(values, count, sizeof *values, compare_numbers);
    for (size_t i = 0, longest = 0; i < count;) {
        size_t first = i;
        while (i < count && !(values[i] > values[first])) {
            i++;
        }
        if (i - first > longest) {
            longest = i - first;
            best = values[first];
        }
    }
    return best;
}
