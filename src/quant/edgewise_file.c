#include "quant/edgewise_file.h"
#include "base/memory.h"
#include "format/checkpoint_internal.h"
#include "quant/fingerprint.h"
#include "quant/int4.h"

#include <stdlib.h>
#include <string.h>

static const char TOKENIZER[] = "edgewise.tokenizer";

/* ---- metadata ---- */

static ew_status read_fingerprint(const ew_gguf *gguf, const char *key, char out[65], ew_error *error) {
    ew_string text = {0};
    ew_status status = ew_gguf_get_string(gguf, key, NULL, &text, error);
    if (status != EW_OK) {
        return status;
    }
    bool valid = text.length == 64;
    for (size_t i = 0; valid && i < 64; i++) {
        char c = text.data[i];
        valid = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    }
    if (!valid) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s must be 64 lower-case hexadecimal digits",
                       ew_gguf_path(gguf), key);
    }
    memcpy(out, text.data, 64);
    out[64] = '\0';
    return EW_OK;
}

static ew_status read_settings(const ew_gguf *gguf, ew_edgewise_file *out, ew_error *error) {
    uint32_t version = 0, activations = 0, grain = 0;
    ew_status status = ew_gguf_get_u32(gguf, "edgewise.version", NULL, &version, error);
    if (status == EW_OK && version != EW_EDGEWISE_VERSION) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s has version %u of the Edgewise layout; this build reads %d", ew_gguf_path(gguf),
                       version, EW_EDGEWISE_VERSION);
    }
    if (status == EW_OK) {
        status = ew_gguf_get_u32(gguf, "edgewise.activations", NULL, &activations, error);
    }
    if (status == EW_OK && activations > EW_ACTIVATION_INT8) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: edgewise.activations is %u; 0 (INT16) and 1 (INT8) are known", ew_gguf_path(gguf),
                       activations);
    }
    if (status == EW_OK) {
        status = ew_gguf_get_u32(gguf, "edgewise.kv.grain", NULL, &grain, error);
    }
    if (status == EW_OK && (grain % 4 != 0 || grain > EW_CONFIG_MAX_HEAD_DIM)) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: edgewise.kv.grain is %u; it must be a multiple of 4 up to %d", ew_gguf_path(gguf),
                       grain, EW_CONFIG_MAX_HEAD_DIM);
    }
    if (status == EW_OK) {
        status = read_fingerprint(gguf, "edgewise.fingerprint.source", out->source_fingerprint, error);
    }
    if (status == EW_OK) {
        status = read_fingerprint(gguf, "edgewise.fingerprint.weights", out->weights_fingerprint, error);
    }
    out->activations = (ew_activation_type)activations;
    out->kv_grain = grain;
    return status;
}

/* ---- matrices ---- */

typedef struct matrix_table {
    const ew_gguf_value *names, *formats, *groups, *rows, *cols;
} matrix_table;

static ew_status read_table(const ew_gguf *gguf, matrix_table *table, ew_error *error) {
    const struct {
        const char *key;
        ew_gguf_type family;
        const ew_gguf_value **value;
    } columns[] = {{"edgewise.matrix.name", EW_GGUF_STRING, &table->names},
                   {"edgewise.matrix.format", EW_GGUF_INT64, &table->formats},
                   {"edgewise.matrix.group", EW_GGUF_INT64, &table->groups},
                   {"edgewise.matrix.rows", EW_GGUF_INT64, &table->rows},
                   {"edgewise.matrix.cols", EW_GGUF_INT64, &table->cols}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        ew_status status =
            ew_gguf_get_array(gguf, columns[i].key, columns[i].family, NULL, columns[i].value, error);
        if (status != EW_OK) {
            return status;
        }
        if ((*columns[i].value)->count != table->names->count) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: %s has %llu entries, edgewise.matrix.name %llu",
                           ew_gguf_path(gguf), columns[i].key, (unsigned long long)(*columns[i].value)->count,
                           (unsigned long long)table->names->count);
        }
    }
    return EW_OK;
}

/* The weights that the configuration asks for, to be found by name. */
typedef struct expectation {
    ew_expected *weights;
    ew_name *names; /* sorted; index into weights */
    size_t count;
} expectation;

static void free_expectation(expectation *expected) {
    free(expected->weights);
    free(expected->names);
}

static ew_status expect_weights(const ew_config *config, expectation *out, ew_error *error) {
    *out = (expectation){0};
    ew_status status = ew_expect_tensors(config, &out->weights, &out->count, error);
    if (status != EW_OK) {
        return status;
    }
    out->names = ew_allocate(out->count, sizeof *out->names);
    if (!out->names) {
        free_expectation(out);
        return ew_fail_memory(error, out->count * sizeof *out->names, "the table of weights");
    }
    for (size_t i = 0; i < out->count; i++) {
        out->names[i] = (ew_name){ew_string_of(out->weights[i].name), i};
    }
    (void)ew_names_sort(out->names, out->count); /* layers are numbered: no name is there twice */
    return EW_OK;
}

static const ew_expected *find_expected(const expectation *expected, ew_string name) {
    const ew_name *found = ew_names_find(expected->names, expected->count, name);
    return found ? &expected->weights[found->index] : NULL;
}

/* The tensor that a name of the table means, and what the configuration asks of it. */
static ew_status find_matrix(const ew_checkpoint *checkpoint, const expectation *expected, ew_string name,
                             const ew_tensor **tensor, const ew_expected **weight, ew_error *error) {
    const char *path = ew_checkpoint_path(checkpoint);
    *weight = find_expected(expected, name);
    if (!*weight || (*weight)->vector) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: edgewise.matrix.name holds %.*s, which is no matrix of the model", path,
                       (int)(name.length < 100 ? name.length : 100), name.data);
    }
    const char *text = (*weight)->name;
    *tensor = ew_checkpoint_find(checkpoint, text);
    if (!*tensor) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s lacks the tensor %s", path, text);
    }
    if ((*tensor)->type != EW_DTYPE_I8 || (*tensor)->rows != 1) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the matrix %s must be one row of I8 bytes, not %s", path,
                       text, ew_dtype_name((*tensor)->type));
    }
    return EW_OK;
}

static ew_status read_matrix(const ew_checkpoint *checkpoint, const expectation *expected,
                             const matrix_table *table, uint64_t index, ew_string name, ew_named_matrix *out,
                             ew_error *error) {
    const ew_tensor *tensor = NULL;
    const ew_expected *weight = NULL;
    ew_status status = find_matrix(checkpoint, expected, name, &tensor, &weight, error);
    if (status != EW_OK) {
        return status;
    }
    int64_t format = ew_gguf_integer_at(table->formats, index),
            group = ew_gguf_integer_at(table->groups, index);
    int64_t rows = ew_gguf_integer_at(table->rows, index), cols = ew_gguf_integer_at(table->cols, index);
    bool known = format >= EW_MATRIX_INT4_SYMMETRIC && format <= EW_MATRIX_INT8 && group >= 0 && group <= 128;
    if (!known || (format == EW_MATRIX_INT8 && group != EW_BLOCK_COLS)) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: %s has format %lld with groups of %lld; neither is known here",
                       ew_checkpoint_path(checkpoint), tensor->name, (long long)format, (long long)group);
    }
    if (rows != (int64_t)weight->rows || cols != (int64_t)weight->cols) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s is %lld x %lld; the configuration asks for %zu x %zu",
                       ew_checkpoint_path(checkpoint), tensor->name, (long long)rows, (long long)cols,
                       weight->rows, weight->cols);
    }
    ew_error inner;
    status = ew_matrix_view((ew_matrix_format)format, weight->rows, weight->cols, (size_t)group, tensor->data,
                            tensor->bytes, &out->matrix, &inner);
    out->name = tensor->name;
    return status == EW_OK ? EW_OK
                           : ew_fail(error, EW_ERROR_FORMAT, "%s: %s: %s", ew_checkpoint_path(checkpoint),
                                     tensor->name, inner.message);
}

static int compare_names(const void *left, const void *right) {
    return strcmp(((const ew_named_matrix *)left)->name, ((const ew_named_matrix *)right)->name);
}

static ew_status read_matrices(const ew_checkpoint *checkpoint, const expectation *expected,
                               ew_edgewise_file *out, ew_error *error) {
    const ew_gguf *gguf = ew_checkpoint_gguf(checkpoint);
    matrix_table table = {0};
    ew_status status = read_table(gguf, &table, error);
    if (status != EW_OK) {
        return status;
    }
    size_t count = (size_t)table.names->count; /* bounded by the file's size: each name has bytes there */
    out->matrices = ew_allocate(count, sizeof *out->matrices);
    if (!out->matrices) {
        return ew_fail_memory(error, count * sizeof *out->matrices, "the table of matrices");
    }
    ew_gguf_strings names = ew_gguf_strings_begin(table.names);
    ew_string name;
    while (status == EW_OK && ew_gguf_strings_next(&names, &name)) {
        ew_named_matrix *next = &out->matrices[out->n_matrices];
        status = read_matrix(checkpoint, expected, &table, out->n_matrices, name, next, error);
        out->n_matrices += status == EW_OK;
    }
    if (status != EW_OK) {
        return status;
    }
    qsort(out->matrices, out->n_matrices, sizeof *out->matrices, compare_names);
    for (size_t i = 1; i < out->n_matrices; i++) {
        if (strcmp(out->matrices[i - 1].name, out->matrices[i].name) == 0) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: edgewise.matrix.name holds %s twice",
                           ew_checkpoint_path(checkpoint), out->matrices[i].name);
        }
    }
    return EW_OK;
}

/* ---- the whole ---- */

static ew_status check_vector(const ew_checkpoint *checkpoint, const ew_expected *weight, ew_error *error) {
    const ew_tensor *tensor = ew_checkpoint_find(checkpoint, weight->name);
    if (!tensor) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s lacks the tensor %s", ew_checkpoint_path(checkpoint),
                       weight->name);
    }
    if (tensor->type != EW_DTYPE_F32 || tensor->rows != 1 || tensor->cols != weight->cols ||
        tensor->interleaved != 0 || (uintptr_t)tensor->data % sizeof(float) != 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s must be %zu aligned F32 values in one row",
                       ew_checkpoint_path(checkpoint), weight->name, weight->cols);
    }
    return EW_OK;
}

/* Every weight is there, and together with the tokenizer they are all that is there. */
static ew_status check_completeness(const ew_edgewise_file *file, const expectation *expected,
                                    ew_error *error) {
    const ew_checkpoint *checkpoint = file->checkpoint;
    for (size_t i = 0; i < expected->count; i++) {
        const ew_expected *weight = &expected->weights[i];
        ew_status status = weight->vector ? check_vector(checkpoint, weight, error) : EW_OK;
        if (status != EW_OK) {
            return status;
        }
        if (!weight->vector && !ew_edgewise_file_matrix(file, weight->name)) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s lacks the matrix %s", ew_checkpoint_path(checkpoint),
                           weight->name);
        }
    }
    for (size_t i = 0; i < ew_checkpoint_tensor_count(checkpoint); i++) {
        const char *name = ew_checkpoint_tensor_at(checkpoint, i)->name;
        if (strcmp(name, TOKENIZER) != 0 && !find_expected(expected, ew_string_of(name))) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: %s is no tensor of this model",
                           ew_checkpoint_path(checkpoint), name);
        }
    }
    return EW_OK;
}

static ew_status read_weights(const ew_checkpoint *checkpoint, ew_edgewise_file *out, ew_error *error) {
    expectation expected;
    ew_status status = expect_weights(ew_checkpoint_config(checkpoint), &expected, error);
    if (status != EW_OK) {
        return status;
    }
    status = read_matrices(checkpoint, &expected, out, error);
    if (status == EW_OK) {
        status = check_completeness(out, &expected, error);
    }
    free_expectation(&expected);
    return status;
}

static ew_status read_all(const ew_checkpoint *checkpoint, ew_edgewise_file *out, ew_error *error) {
    ew_status status = read_settings(ew_checkpoint_gguf(checkpoint), out, error);
    if (status == EW_OK) {
        status = read_weights(checkpoint, out, error);
    }
    if (status != EW_OK) {
        return status;
    }
    const ew_tensor *tokenizer = ew_checkpoint_find(checkpoint, TOKENIZER);
    if (!tokenizer || tokenizer->type != EW_DTYPE_I8 || tokenizer->rows != 1) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s must hold the tensor %s, one row of I8 bytes",
                       ew_checkpoint_path(checkpoint), TOKENIZER);
    }
    out->tokenizer = tokenizer->data;
    out->tokenizer_bytes = tokenizer->bytes;
    return EW_OK;
}

ew_status ew_edgewise_file_read(const ew_checkpoint *checkpoint, ew_edgewise_file *out, ew_error *error) {
    *out = (ew_edgewise_file){.checkpoint = checkpoint};
    if (ew_checkpoint_kind(checkpoint) != EW_CHECKPOINT_EDGEWISE) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%s was not made by edgewise quantize",
                       ew_checkpoint_path(checkpoint));
    }
    ew_status status = read_all(checkpoint, out, error);
    if (status != EW_OK) {
        ew_edgewise_file_free(out);
    }
    return status;
}

void ew_edgewise_file_free(ew_edgewise_file *file) {
    free(file->matrices);
    *file = (ew_edgewise_file){0};
}

const ew_matrix *ew_edgewise_file_matrix(const ew_edgewise_file *file, const char *name) {
    const ew_named_matrix wanted = {.name = name};
    const ew_named_matrix *found = file->n_matrices == 0 ? NULL
                                                         : bsearch(&wanted, file->matrices, file->n_matrices,
                                                                   sizeof *file->matrices, compare_names);
    return found ? &found->matrix : NULL;
}

const float *ew_edgewise_file_vector(const ew_edgewise_file *file, const char *name) {
    const ew_tensor *tensor = ew_checkpoint_find(file->checkpoint, name);
    return tensor && tensor->type == EW_DTYPE_F32 ? (const float *)(const void *)tensor->data : NULL;
}

/* ---- values ---- */

static ew_status check_matrix(const char *name, const ew_matrix *matrix, ew_error *error) {
    size_t group = matrix->group == 0 ? matrix->cols : matrix->group;
    size_t n_groups = (matrix->cols + group - 1) / group;
    for (size_t row = 0; row < matrix->rows; row++) {
        for (size_t k = 0; k < n_groups; k++) {
            const float pair[2] = {ew_matrix_scale(matrix, row, k), ew_matrix_offset(matrix, row, k)};
            if (ew_check_finite(name, row, pair, 2, NULL) != EW_OK) {
                return ew_fail(error, EW_ERROR_NUMERIC,
                               "%s, row %zu, group %zu: the scale or offset is not finite", name, row, k);
            }
        }
    }
    return EW_OK;
}

ew_status ew_edgewise_file_check(const ew_edgewise_file *file, ew_error *error) {
    ew_sha256 hash;
    ew_sha256_begin(&hash);
    for (size_t i = 0; i < ew_checkpoint_tensor_count(file->checkpoint); i++) {
        const ew_tensor *tensor = ew_checkpoint_tensor_at(file->checkpoint, i);
        const ew_matrix *matrix = ew_edgewise_file_matrix(file, tensor->name);
        const float *vector = ew_edgewise_file_vector(file, tensor->name);
        ew_status status = EW_OK;
        if (matrix) {
            status = check_matrix(tensor->name, matrix, error);
        } else if (vector) {
            status = ew_check_finite(tensor->name, 0, vector, tensor->cols, error);
        }
        if (status != EW_OK) {
            return status;
        }
        ew_fingerprint_tensor(&hash, tensor->name, matrix, tensor->bytes);
        ew_sha256_add(&hash, tensor->data, tensor->bytes);
    }
    char hex[65];
    ew_sha256_end_hex(&hash, hex);
    if (strcmp(hex, file->weights_fingerprint) != 0) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s is damaged: its tensors have the fingerprint %s, the file says %s",
                       ew_checkpoint_path(file->checkpoint), hex, file->weights_fingerprint);
    }
    return EW_OK;
}
