#include "format/head.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_name(ew_head_kind kind) {
    return kind == EW_HEAD_SWITCHER ? "switcher" : "verifier";
}

/* ---- Memory ---- */

ew_status ew_head_allocate(ew_head_kind kind, size_t d_model, size_t n_hidden, ew_head *head, ew_error *error) {
    bool switcher = kind == EW_HEAD_SWITCHER;
    *head = (ew_head){.kind = kind,
                      .d_model = d_model,
                      .calibration_scale = 1.0,
                      .threshold = 0.5,
                      .chunk = 128,
                      .mix = 0.5,
                      .n_hidden = switcher ? n_hidden : 0};
    if (d_model == 0 || d_model > EW_HEAD_MAX_WIDTH || (switcher && (n_hidden == 0 || n_hidden > EW_HEAD_MAX_HIDDEN))) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "a head of width %zu with %zu hidden units; 1 to %d and 1 to %d are possible", d_model, n_hidden,
                       EW_HEAD_MAX_WIDTH, EW_HEAD_MAX_HIDDEN);
    }
    head->mean = ew_allocate(d_model, sizeof *head->mean);
    head->inverse_std = ew_allocate(d_model, sizeof *head->inverse_std);
    bool whole = head->mean && head->inverse_std;
    if (switcher) {
        head->hidden_weight = ew_allocate(n_hidden * d_model, sizeof *head->hidden_weight);
        head->hidden_bias = ew_allocate(n_hidden, sizeof *head->hidden_bias);
        head->output_weight = ew_allocate(n_hidden, sizeof *head->output_weight);
        whole = whole && head->hidden_weight && head->hidden_bias && head->output_weight;
    } else {
        head->codes = ew_allocate(d_model, sizeof *head->codes);
        whole = whole && head->codes;
    }
    if (!whole) {
        ew_head_free(head);
        return ew_fail_memory(error, d_model * sizeof *head->mean * (head->n_hidden + 2), "a head");
    }
    return EW_OK;
}

void ew_head_free(ew_head *head) {
    free(head->mean);
    free(head->inverse_std);
    free(head->hidden_weight);
    free(head->hidden_bias);
    free(head->output_weight);
    free(head->codes);
    free(head->text);
    *head = (ew_head){0};
}

/* ---- The arrays of a head, for reading and writing alike ---- */

typedef struct head_array {
    const char *name; /* behind the prefix */
    ew_dtype type;
    size_t rows, cols; /* rows 1: a vector */
    void *values;
} head_array;

enum { ARRAYS_MOST = 5 };
static size_t list_arrays(const ew_head *head, head_array out[ARRAYS_MOST]) {
    size_t n = 0;
    out[n++] = (head_array){"head.mean", EW_DTYPE_F32, 1, head->d_model, head->mean};
    out[n++] = (head_array){"head.inverse_std", EW_DTYPE_F32, 1, head->d_model, head->inverse_std};
    if (head->kind == EW_HEAD_SWITCHER) {
        out[n++] = (head_array){"head.hidden.weight", EW_DTYPE_F32, head->n_hidden, head->d_model, head->hidden_weight};
        out[n++] = (head_array){"head.hidden.bias", EW_DTYPE_F32, 1, head->n_hidden, head->hidden_bias};
        out[n++] = (head_array){"head.output.weight", EW_DTYPE_F32, 1, head->n_hidden, head->output_weight};
    } else {
        out[n++] = (head_array){"head.codes", EW_DTYPE_I8, 1, head->d_model, head->codes};
    }
    return n;
}

typedef struct head_number {
    const char *key; /* behind the prefix */
    double *value;
    double least, most;
} head_number;

enum { NUMBERS_MOST = 5 };
static size_t list_numbers(ew_head *head, head_number out[NUMBERS_MOST]) {
    const double large = 1e30;
    size_t n = 0;
    out[n++] = (head_number){"edgewise.head.calibration_scale", &head->calibration_scale, -large, large};
    out[n++] = (head_number){"edgewise.head.calibration_offset", &head->calibration_offset, -large, large};
    out[n++] = (head_number){"edgewise.head.output_bias", &head->output_bias, -large, large};
    if (head->kind == EW_HEAD_SWITCHER) {
        out[n++] = (head_number){"edgewise.head.threshold", &head->threshold, 0.0, 1.0};
        out[n++] = (head_number){"edgewise.head.mix", &head->mix, 0.0, 1.0};
    } else {
        out[n++] = (head_number){"edgewise.head.code_scale", &head->code_scale, 0.0, large};
    }
    return n;
}

/* ---- Reading ---- */

typedef struct head_reader {
    const ew_gguf *gguf;
    const char *prefix;
    ew_head *head;
} head_reader;

enum { NAME_BYTES = 160 };
static const char *full_name(const head_reader *reader, const char *name, char out[NAME_BYTES]) {
    snprintf(out, NAME_BYTES, "%s%s", reader->prefix, name);
    return out;
}

static ew_status read_text(const head_reader *reader, const char *name, ew_string *text, ew_error *error) {
    char key[NAME_BYTES];
    return ew_gguf_get_string(reader->gguf, full_name(reader, name, key), NULL, text, error);
}

static ew_status read_size(const head_reader *reader, const char *name, size_t most, size_t *value, ew_error *error) {
    char key[NAME_BYTES];
    uint64_t number = 0;
    ew_status status = ew_gguf_get_u64(reader->gguf, full_name(reader, name, key), NULL, &number, error);
    if (status == EW_OK && (number == 0 || number > most)) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s: %s is %llu; 1 to %zu is possible", ew_gguf_path(reader->gguf),
                         key, (unsigned long long)number, most);
    }
    *value = (size_t)number;
    return status;
}

static ew_status read_fingerprint(const head_reader *reader, const char *name, char out[65], ew_error *error) {
    ew_string text = {"", 0};
    ew_status status = read_text(reader, name, &text, error);
    bool sound = status != EW_OK || text.length == 0 || text.length == 64;
    for (size_t i = 0; sound && i < text.length; i++) {
        char c = text.data[i];
        sound = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    }
    if (!sound) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s%s is no fingerprint of 64 hexadecimal digits",
                       ew_gguf_path(reader->gguf), reader->prefix, name);
    }
    if (status == EW_OK) {
        snprintf(out, 65, "%.*s", (int)text.length, text.data);
    }
    return status;
}

static ew_status read_kind(const head_reader *reader, ew_head_kind *kind, ew_error *error) {
    char key[NAME_BYTES];
    uint32_t version = 0;
    ew_string text = {"", 0};
    ew_status status =
        ew_gguf_get_u32(reader->gguf, full_name(reader, "edgewise.head.version", key), NULL, &version, error);
    if (status == EW_OK && version != EW_HEAD_VERSION) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: a head of version %u; this build reads version %d",
                       ew_gguf_path(reader->gguf), (unsigned)version, EW_HEAD_VERSION);
    }
    if (status == EW_OK) {
        status = read_text(reader, "edgewise.head.kind", &text, error);
    }
    *kind = ew_string_is(text, "switcher") ? EW_HEAD_SWITCHER : EW_HEAD_VERIFIER;
    if (status == EW_OK && !ew_string_is(text, kind_name(*kind))) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s: a head of kind \"%.*s\"; switcher and verifier are known",
                         ew_gguf_path(reader->gguf), ew_utf8_shown(text.data, text.length), text.data);
    }
    return status;
}

static ew_status read_numbers(const head_reader *reader, ew_error *error) {
    head_number numbers[NUMBERS_MOST];
    size_t n = list_numbers(reader->head, numbers);
    for (size_t i = 0; i < n; i++) {
        char key[NAME_BYTES];
        ew_status status =
            ew_gguf_get_f64(reader->gguf, full_name(reader, numbers[i].key, key), NULL, numbers[i].value, error);
        if (status != EW_OK) {
            return status;
        }
        if (!(*numbers[i].value >= numbers[i].least && *numbers[i].value <= numbers[i].most)) {
            return ew_fail(error, EW_ERROR_NUMERIC, "%s: %s is %g; %g to %g is possible", ew_gguf_path(reader->gguf),
                           key, *numbers[i].value, numbers[i].least, numbers[i].most);
        }
    }
    return EW_OK;
}

static ew_status check_floats(const head_reader *reader, const head_array *array, ew_error *error) {
    const float *values = array->values;
    bool positive = values == reader->head->inverse_std;
    for (size_t i = 0; i < array->rows * array->cols; i++) {
        if (!(values[i] >= -1e30f && values[i] <= 1e30f) || (positive && values[i] < 0.0f)) {
            return ew_fail(error, EW_ERROR_NUMERIC, "%s: %s%s has the value %g at %zu", ew_gguf_path(reader->gguf),
                           reader->prefix, array->name, (double)values[i], i);
        }
    }
    return EW_OK;
}

static ew_status read_arrays(const head_reader *reader, ew_error *error) {
    head_array arrays[ARRAYS_MOST];
    size_t n = list_arrays(reader->head, arrays);
    for (size_t i = 0; i < n; i++) {
        char name[NAME_BYTES];
        const head_array *array = &arrays[i];
        const ew_gguf_tensor *tensor = ew_gguf_find_tensor(reader->gguf, full_name(reader, array->name, name));
        if (!tensor || tensor->type != array->type || tensor->shape[0] != array->cols ||
            tensor->shape[1] != array->rows || tensor->shape[2] != 1 || tensor->shape[3] != 1) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: the tensor %s must be there, %s [%zu, %zu]",
                           ew_gguf_path(reader->gguf), name, ew_dtype_name(array->type), array->rows, array->cols);
        }
        memcpy(array->values, tensor->data, tensor->bytes);
        ew_status status = array->type == EW_DTYPE_F32 ? check_floats(reader, array, error) : EW_OK;
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

static ew_status read_prompt(const head_reader *reader, ew_error *error) {
    ew_string text = {"", 0};
    ew_status status = read_text(reader, "edgewise.head.text", &text, error);
    if (status != EW_OK) {
        return status;
    }
    if (text.length == 0 || text.length > EW_HEAD_MAX_TEXT || memchr(text.data, '\0', text.length) ||
        ew_utf8_valid_prefix(text.data, text.length) != text.length) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the verification prompt must be 1 to %d bytes of UTF-8",
                       ew_gguf_path(reader->gguf), EW_HEAD_MAX_TEXT);
    }
    reader->head->text = ew_copy_text(text.data, text.length);
    return reader->head->text ? EW_OK : ew_fail_memory(error, text.length, "a verification prompt");
}

static ew_status read_sizes(const head_reader *reader, ew_error *error) {
    ew_head_kind kind = EW_HEAD_SWITCHER;
    size_t d_model = 0, n_hidden = 0, chunk = 128;
    ew_status status = read_kind(reader, &kind, error);
    if (status == EW_OK) {
        status = read_size(reader, "edgewise.head.d_model", EW_HEAD_MAX_WIDTH, &d_model, error);
    }
    if (status == EW_OK && kind == EW_HEAD_SWITCHER) {
        status = read_size(reader, "edgewise.head.n_hidden", EW_HEAD_MAX_HIDDEN, &n_hidden, error);
    }
    if (status == EW_OK && kind == EW_HEAD_SWITCHER) {
        status = read_size(reader, "edgewise.head.chunk", 1 << 20, &chunk, error);
    }
    if (status == EW_OK) {
        status = ew_head_allocate(kind, d_model, n_hidden, reader->head, error);
        reader->head->chunk = chunk;
    }
    return status;
}

ew_status ew_head_read(const ew_gguf *gguf, const char *prefix, ew_head *head, ew_error *error) {
    *head = (ew_head){0};
    const head_reader reader = {gguf, prefix, head};
    ew_status status = read_sizes(&reader, error);
    if (status == EW_OK) {
        status = read_fingerprint(&reader, "edgewise.head.weights", head->weights_fingerprint, error);
    }
    if (status == EW_OK) {
        status = read_fingerprint(&reader, "edgewise.head.adapter", head->adapter_fingerprint, error);
    }
    if (status == EW_OK) {
        status = read_numbers(&reader, error);
    }
    if (status == EW_OK) {
        status = read_arrays(&reader, error);
    }
    if (status == EW_OK && head->kind == EW_HEAD_VERIFIER) {
        status = read_prompt(&reader, error);
    }
    if (status != EW_OK) {
        ew_head_free(head);
    }
    return status;
}

ew_status ew_head_open(const char *path, ew_head *head, ew_error *error) {
    ew_gguf *gguf = NULL;
    head_array arrays[ARRAYS_MOST];
    *head = (ew_head){0};
    ew_status status = ew_gguf_open(path, &gguf, error);
    if (status == EW_OK && !ew_gguf_find(gguf, "edgewise.head.version")) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s is no head: it has no key edgewise.head.version", path);
    }
    if (status == EW_OK) {
        status = ew_head_read(gguf, "", head, error);
    }
    if (status == EW_OK && ew_gguf_tensor_count(gguf) != list_arrays(head, arrays)) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s has %zu tensors; a %s has %zu", path, ew_gguf_tensor_count(gguf),
                         kind_name(head->kind), list_arrays(head, arrays));
        ew_head_free(head);
    }
    ew_gguf_close(gguf);
    return status;
}

/* ---- Writing ---- */

void ew_head_declare(ew_gguf_writer *writer, const char *prefix, const ew_head *head) {
    head_number numbers[NUMBERS_MOST];
    head_array arrays[ARRAYS_MOST];
    ew_head view = *head;
    char name[NAME_BYTES];
    const head_reader naming = {NULL, prefix, &view};
    ew_gguf_write_u32(writer, full_name(&naming, "edgewise.head.version", name), EW_HEAD_VERSION);
    ew_gguf_write_text(writer, full_name(&naming, "edgewise.head.kind", name), kind_name(head->kind));
    ew_gguf_write_u64(writer, full_name(&naming, "edgewise.head.d_model", name), head->d_model);
    ew_gguf_write_text(writer, full_name(&naming, "edgewise.head.weights", name), head->weights_fingerprint);
    ew_gguf_write_text(writer, full_name(&naming, "edgewise.head.adapter", name), head->adapter_fingerprint);
    if (head->kind == EW_HEAD_SWITCHER) {
        ew_gguf_write_u64(writer, full_name(&naming, "edgewise.head.n_hidden", name), head->n_hidden);
        ew_gguf_write_u64(writer, full_name(&naming, "edgewise.head.chunk", name), head->chunk);
    } else {
        ew_gguf_write_text(writer, full_name(&naming, "edgewise.head.text", name), head->text);
    }
    size_t n = list_numbers(&view, numbers);
    for (size_t i = 0; i < n; i++) {
        ew_gguf_write_f64(writer, full_name(&naming, numbers[i].key, name), *numbers[i].value);
    }
    n = list_arrays(head, arrays);
    for (size_t i = 0; i < n; i++) {
        const uint64_t shape[] = {arrays[i].cols, arrays[i].rows};
        ew_gguf_write_tensor(writer, full_name(&naming, arrays[i].name, name), arrays[i].type,
                             arrays[i].rows > 1 ? 2 : 1, shape);
    }
}

ew_status ew_head_write_data(ew_gguf_writer *writer, const ew_head *head, ew_error *error) {
    head_array arrays[ARRAYS_MOST];
    size_t n = list_arrays(head, arrays);
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        size_t bytes = 0;
        ew_dtype_size(arrays[i].type, arrays[i].rows * arrays[i].cols, &bytes);
        status = ew_gguf_writer_data(writer, arrays[i].values, bytes, error);
    }
    return status;
}

ew_status ew_head_write(const char *path, const ew_head *head, ew_error *error) {
    ew_gguf_writer writer = {0};
    ew_status status = ew_gguf_writer_open(path, &writer, error);
    if (status != EW_OK) {
        return status;
    }
    ew_gguf_write_text(&writer, "general.architecture", "edgewise-head");
    ew_gguf_write_text(&writer, "general.type", "head");
    ew_head_declare(&writer, "", head);
    status = ew_gguf_writer_begin(&writer, error);
    if (status == EW_OK) {
        status = ew_head_write_data(&writer, head, error);
    }
    if (status == EW_OK) {
        return ew_gguf_writer_commit(&writer, error);
    }
    ew_gguf_writer_abandon(&writer);
    return status;
}

/* ---- What it belongs to ---- */

static ew_status match(const char *kind, const char *what, const char *trained, const char *given, ew_error *error) {
    given = given ? given : "";
    if (strcmp(trained, given) == 0) {
        return EW_OK;
    }
    return ew_fail(error, EW_ERROR_ARGUMENT, "the %s was trained with %s %.12s, and %s %.12s is in use; train it anew",
                   kind, what, trained[0] ? trained : "of none", what, given[0] ? given : "of none");
}

ew_status ew_head_match(const ew_head *head, size_t d_model, const char *weights_fingerprint,
                        const char *adapter_fingerprint, ew_error *error) {
    if (head->d_model != d_model) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "the %s is for states of %zu numbers; the model's have %zu",
                       kind_name(head->kind), head->d_model, d_model);
    }
    ew_status status = match(kind_name(head->kind), "weights", head->weights_fingerprint, weights_fingerprint, error);
    return status == EW_OK
               ? match(kind_name(head->kind), "the adapter", head->adapter_fingerprint, adapter_fingerprint, error)
               : status;
}
