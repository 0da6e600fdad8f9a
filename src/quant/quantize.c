#include "quant/quantize.h"
#include "base/file.h"
#include "base/memory.h"
#include "kernel/kernel.h"
#include "quant/fingerprint.h"
#include "quant/int8.h"
#include "quant/pack.h"
#include "quant/quantize_plan.h"
#include "quant/rows.h"
#include "text/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROWS_BETWEEN_PROGRESS = 2048 };

ew_quantize_options ew_quantize_default_options(void) {
    return (ew_quantize_options){.scheme = EW_SCHEME_DEFAULT,
                                 .group = 32,
                                 .range = EW_RANGE_MSE,
                                 .head = EW_HEAD_INT4,
                                 .activations = EW_ACTIVATION_INT16,
                                 .kv_grain = 32};
}

typedef struct quantization {
    const ew_quantize_options *options;
    ew_checkpoint *checkpoint;
    ew_quantize_plan plan;
    ew_pool *pool;
    ew_buffer tokenizer;
    ew_gguf_writer writer;
    ew_sha256 hash;
    ew_quantize_progress progress;
    ew_quantize_report report;
} quantization;

static bool is_matrix(const ew_planned *item) {
    return item->kind != EW_LAYER_VECTOR;
}

/* ---- what stands before the tensors ---- */

static bool starts_with(ew_string string, const char *prefix) {
    size_t length = strlen(prefix);
    return string.length >= length && memcmp(string.data, prefix, length) == 0;
}

/* Author, licence and the like travel with the weights; what describes the old file's encoding does not. */
static void write_general(quantization *work) {
    static const char *const own[] = {"general.architecture", "general.alignment", "general.file_type",
                                      "general.quantization_version"};
    const ew_gguf *gguf = ew_checkpoint_gguf(work->checkpoint);
    bool named = false;
    for (size_t i = 0; gguf && i < ew_gguf_value_count(gguf); i++) {
        const ew_gguf_value *value = ew_gguf_value_at(gguf, i);
        bool skip = !starts_with(value->key, "general.");
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
            skip = skip || ew_string_is(value->key, own[k]);
        }
        if (!skip) {
            named = named || ew_string_is(value->key, "general.name");
            ew_gguf_write_copy(&work->writer, value);
        }
    }
    if (!named) {
        ew_string name;
        name.data = ew_last_name(ew_checkpoint_path(work->checkpoint), &name.length);
        ew_gguf_write_string(&work->writer, "general.name", name);
    }
}

static ew_status write_matrix_table(quantization *work, ew_error *error) {
    const ew_quantize_plan *plan = &work->plan;
    ew_string *names = ew_allocate(plan->count, sizeof *names);
    uint32_t *columns = ew_allocate(plan->count, 4 * sizeof *columns);
    if (!names || !columns) {
        free(names);
        free(columns);
        return ew_fail_memory(error, plan->count * sizeof *names, "the table of matrices");
    }
    uint32_t *formats = columns, *groups = columns + plan->count, *rows = groups + plan->count,
             *cols = rows + plan->count;
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const ew_planned *item = &plan->items[i];
        if (is_matrix(item)) {
            names[count] = ew_string_of(item->name);
            formats[count] = (uint32_t)item->format;
            groups[count] = (uint32_t)item->group;
            rows[count] = (uint32_t)item->rows;
            cols[count] = (uint32_t)item->cols;
            count++;
        }
    }
    ew_gguf_write_strings(&work->writer, "edgewise.matrix.name", names, count);
    ew_gguf_write_array(&work->writer, "edgewise.matrix.format", EW_GGUF_UINT32, formats, count);
    ew_gguf_write_array(&work->writer, "edgewise.matrix.group", EW_GGUF_UINT32, groups, count);
    ew_gguf_write_array(&work->writer, "edgewise.matrix.rows", EW_GGUF_UINT32, rows, count);
    ew_gguf_write_array(&work->writer, "edgewise.matrix.cols", EW_GGUF_UINT32, cols, count);
    free(names);
    free(columns);
    return EW_OK;
}

static ew_status write_header(quantization *work, ew_error *error) {
    static const char unknown[65] = "0000000000000000000000000000000000000000000000000000000000000000";
    ew_gguf_writer *writer = &work->writer;
    ew_config_write_gguf(&work->plan.config, writer);
    write_general(work);
    ew_gguf_write_u32(writer, "edgewise.version", EW_EDGEWISE_VERSION);
    ew_gguf_write_u32(writer, "edgewise.activations", (uint32_t)work->options->activations);
    ew_gguf_write_u32(writer, "edgewise.kv.grain", (uint32_t)work->options->kv_grain);
    ew_gguf_write_text(writer, "edgewise.fingerprint.source", work->report.source_fingerprint);
    ew_gguf_write_text(writer, "edgewise.fingerprint.weights", unknown);
    ew_status status = write_matrix_table(work, error);
    for (size_t i = 0; i < work->plan.count; i++) {
        const ew_planned *item = &work->plan.items[i];
        uint64_t size = is_matrix(item) ? item->layout.total : item->cols;
        ew_gguf_write_tensor(writer, item->name, is_matrix(item) ? EW_DTYPE_I8 : EW_DTYPE_F32, 1, &size);
    }
    uint64_t blob_size = work->tokenizer.length;
    ew_gguf_write_tensor(writer, "edgewise.tokenizer", EW_DTYPE_I8, 1, &blob_size);
    return status == EW_OK ? ew_gguf_writer_begin(writer, error) : status;
}

/* ---- one tensor ---- */

static ew_status put(quantization *work, const char *name, const ew_matrix *matrix, const void *bytes,
                     size_t size, ew_error *error) {
    ew_fingerprint_tensor(&work->hash, name, matrix, size);
    ew_sha256_add(&work->hash, bytes, size);
    return ew_gguf_writer_data(&work->writer, bytes, size, error);
}

static ew_status write_vector(quantization *work, const ew_planned *item, ew_error *error) {
    size_t size = item->cols * sizeof(float);
    float *values = ew_allocate(item->cols, sizeof *values);
    if (!values) {
        return ew_fail_memory(error, size, item->name);
    }
    ew_status status = ew_tensor_read_row(item->source, 0, values, error);
    if (status == EW_OK) {
        status = ew_check_finite(item->name, 0, values, item->cols, error);
    }
    if (status == EW_OK) {
        status = put(work, item->name, NULL, values, size, error);
    }
    free(values);
    return status;
}

typedef struct matrix_work {
    const ew_planned *item;
    ew_int4_rule rule;
    ew_packing packing;
    ew_matrix view;
    double *squared_error, *squared_weights; /* of each row */
} matrix_work;

/* The parts of a thread's scratch memory, in floats from its start; codes come last. */
static size_t scratch_floats(const ew_planned *item) {
    return 2 * item->cols + 2 * item->layout.n_groups;
}

/* The loss is measured on what was packed, so that it covers the packing, too. */
static void measure_row(matrix_work *work, size_t row, const float *w, float *packed) {
    ew_matrix_read_row(&work->view, row, packed);
    double error = 0, square = 0;
    for (size_t i = 0; i < work->item->cols; i++) {
        double left = (double)w[i] - packed[i];
        error += left * left;
        square += (double)w[i] * w[i];
    }
    work->squared_error[row] = error;
    work->squared_weights[row] = square;
}

static ew_status quantize_row(void *context, size_t row, void *scratch, ew_error *error) {
    matrix_work *work = context;
    const ew_planned *item = work->item;
    const char *name = item->name;
    size_t cols = item->cols;
    float *w = scratch, *packed = w + cols, *scales = packed + cols,
          *offsets = scales + item->layout.n_groups;
    int8_t *codes = (int8_t *)(offsets + item->layout.n_groups);
    ew_status status = ew_tensor_read_row(item->source, row, w, error);
    if (status != EW_OK) {
        return status;
    }
    if (item->lossless) {
        status = ew_check_finite(name, row, w, cols, error);
        if (status == EW_OK) {
            ew_pack_blocks(&work->packing, row, item->source->type, ew_tensor_row(item->source, row));
        }
    } else {
        status = item->format == EW_MATRIX_INT8
                     ? ew_int8_quantize_row(name, row, w, cols, codes, scales, error)
                     : ew_int4_quantize_row(&work->rule, name, row, w, cols, codes, scales, offsets, error);
        if (status == EW_OK) {
            ew_pack_codes(&work->packing, row, codes, scales, offsets);
        }
    }
    if (status == EW_OK) {
        measure_row(work, row, w, packed);
    }
    return status;
}

static void add_loss(ew_layer_loss *loss, const matrix_work *work) {
    const ew_planned *item = work->item;
    loss->lossless = (loss->n_matrices == 0 || loss->lossless) && item->lossless;
    loss->n_matrices++;
    loss->n_weights += item->rows * item->cols;
    loss->stored_bytes += item->layout.total;
    loss->format = item->format;
    loss->group = item->group;
    for (size_t row = 0; row < item->rows; row++) {
        loss->squared_error += work->squared_error[row];
        loss->squared_weights += work->squared_weights[row];
        double relative =
            work->squared_weights[row] > 0 ? sqrt(work->squared_error[row] / work->squared_weights[row]) : 0;
        if (relative > loss->worst_row_error) {
            loss->worst_row_error = relative;
            loss->worst_row = row;
            snprintf(loss->worst_tensor, sizeof loss->worst_tensor, "%s", item->name);
        }
    }
}

static void tell_progress(quantization *work, const char *tensor) {
    work->progress.tensor = tensor;
    if (work->options->progress) {
        work->options->progress(work->options->progress_context, &work->progress);
    }
}

static ew_status quantize_rows(quantization *work, matrix_work *matrix, ew_error *error) {
    const ew_planned *item = matrix->item;
    size_t rows = item->rows, cols = item->cols;
    size_t scratch = scratch_floats(item) * sizeof(float) + cols;
    ew_status status = EW_OK;
    for (size_t begin = 0; status == EW_OK && begin < rows; begin += ROWS_BETWEEN_PROGRESS) {
        size_t end = rows - begin < ROWS_BETWEEN_PROGRESS ? rows : begin + ROWS_BETWEEN_PROGRESS;
        tell_progress(work, item->name);
        status =
            ew_for_rows(work->pool, begin, end, scratch, quantize_row, matrix, work->options->cancel, error);
        work->progress.weights_done += (end - begin) * cols;
    }
    return status;
}

static ew_status write_matrix(quantization *work, const ew_planned *item, ew_error *error) {
    size_t rows = item->rows;
    matrix_work matrix = {.item = item, .rule = {item->format, item->group, work->options->range}};
    matrix.squared_error = ew_allocate(rows, 2 * sizeof(double));
    if (!matrix.squared_error) {
        return ew_fail_memory(error, rows * 2 * sizeof(double), item->name);
    }
    matrix.squared_weights = matrix.squared_error + rows;
    ew_status status = ew_packing_open(item->format, rows, item->cols, item->group, &matrix.packing, error);
    if (status == EW_OK) {
        matrix.view = ew_packing_view(&matrix.packing);
        status = quantize_rows(work, &matrix, error);
    }
    if (status == EW_OK) {
        add_loss(&work->report.layers[item->kind], &matrix);
        status = put(work, item->name, &matrix.view, matrix.packing.memory, item->layout.total, error);
    }
    ew_packing_free(&matrix.packing);
    free(matrix.squared_error);
    return status;
}

static ew_status write_tensors(quantization *work, ew_error *error) {
    ew_sha256_begin(&work->hash);
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < work->plan.count; i++) {
        const ew_planned *item = &work->plan.items[i];
        if (work->options->cancel && *work->options->cancel) {
            return ew_fail(error, EW_ERROR_CANCELLED, "cancelled");
        }
        status = is_matrix(item) ? write_matrix(work, item, error) : write_vector(work, item, error);
    }
    if (status == EW_OK) {
        tell_progress(work, "edgewise.tokenizer");
        status = put(work, "edgewise.tokenizer", NULL, work->tokenizer.data, work->tokenizer.length, error);
    }
    if (status == EW_OK) {
        ew_sha256_end_hex(&work->hash, work->report.weights_fingerprint);
        status = ew_gguf_writer_patch(&work->writer, "edgewise.fingerprint.weights",
                                      work->report.weights_fingerprint, error);
    }
    return status;
}

/* ---- the whole ---- */

static ew_status read_tokenizer(quantization *work, ew_error *error) {
    const ew_gguf *gguf = ew_checkpoint_gguf(work->checkpoint);
    const char *path = ew_checkpoint_path(work->checkpoint);
    ew_tokenizer *tokenizer = NULL;
    ew_status status = gguf ? ew_tokenizer_open_gguf(gguf, &tokenizer, error)
                            : ew_tokenizer_open_folder(path, &tokenizer, error);
    if (status != EW_OK) {
        return status;
    }
    size_t tokens = ew_tokenizer_vocab_size(tokenizer),
           rows = ew_checkpoint_config(work->checkpoint)->vocab_size;
    status = tokens > rows ? ew_fail(error, EW_ERROR_FORMAT,
                                     "%s: the tokenizer has %zu tokens, the model embeddings for only %zu",
                                     path, tokens, rows)
                           : ew_tokenizer_serialize(tokenizer, &work->tokenizer, error);
    ew_tokenizer_close(tokenizer);
    return status;
}

static ew_status refuse_same_file(const char *input, const char *output, ew_error *error) {
    struct stat from, to;
    if (stat(input, &from) == 0 && stat(output, &to) == 0 && from.st_dev == to.st_dev &&
        from.st_ino == to.st_ino) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "%s would overwrite the model it is made from; give another name", output);
    }
    return EW_OK;
}

static void finish_report(quantization *work) {
    ew_quantize_report *report = &work->report;
    report->scheme = work->plan.scheme;
    report->head_is_embedding = work->plan.head_is_embedding;
    double bytes = 0, weights = 0;
    for (int kind = 0; kind < EW_LAYER_KINDS; kind++) {
        bytes += (double)report->layers[kind].stored_bytes;
        weights += (double)report->layers[kind].n_weights;
    }
    report->bits_per_weight = weights > 0 ? bytes * 8 / weights : 0;
}

static ew_status prepare(quantization *work, const char *input, const char *output, ew_error *error) {
    ew_status status = refuse_same_file(input, output, error);
    if (status == EW_OK) {
        status = ew_checkpoint_open(input, &work->checkpoint, error);
    }
    if (status == EW_OK) {
        status = ew_quantize_plan_make(work->checkpoint, work->options, &work->plan, error);
    }
    if (status == EW_OK) {
        status = read_tokenizer(work, error);
    }
    if (status == EW_OK) {
        status = ew_checkpoint_source_fingerprint(work->checkpoint, work->report.source_fingerprint, error);
    }
    for (size_t i = 0; status == EW_OK && i < work->plan.count; i++) {
        const ew_planned *item = &work->plan.items[i];
        work->progress.weights_total += is_matrix(item) ? item->rows * item->cols : 0;
    }
    return status;
}

static void enter_float_state(void) {
    (void)ew_float_enter();
}

static ew_status run(quantization *work, const char *input, const char *output, ew_error *error) {
    ew_status status = prepare(work, input, output, error);
    if (status == EW_OK) {
        status = ew_pool_create(work->options->n_threads, enter_float_state, &work->pool, error);
    }
    if (status == EW_OK) {
        status = ew_gguf_writer_open(output, &work->writer, error);
    }
    if (status == EW_OK) {
        status = write_header(work, error);
    }
    if (status == EW_OK) {
        status = write_tensors(work, error);
    }
    if (status == EW_OK) {
        status = ew_gguf_writer_commit(&work->writer, error);
    }
    return status;
}

ew_status ew_quantize(const char *input, const char *output, const ew_quantize_options *options,
                      ew_quantize_report *report, ew_error *error) {
    quantization work = {.options = options};
    ew_float_state state = ew_float_enter();
    ew_status status = run(&work, input, output, error);
    ew_float_leave(state);
    if (status == EW_OK) {
        finish_report(&work);
        struct stat written;
        work.report.file_bytes = stat(output, &written) == 0 ? (size_t)written.st_size : 0;
        if (report) {
            *report = work.report;
        }
    }
    ew_gguf_writer_abandon(&work.writer);
    ew_pool_destroy(work.pool);
    ew_buffer_free(&work.tokenizer);
    ew_quantize_plan_free(&work.plan);
    ew_checkpoint_close(work.checkpoint);
    return status;
}
