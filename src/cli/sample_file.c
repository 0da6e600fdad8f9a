#include "cli/sample_file.h"

#include "base/file.h"
#include "base/memory.h"
#include "format/json.h"
#include "format/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare_ids(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

bool ew_sample_file_has(const ew_sample_file *file, const char *id) {
    return file->n_ids > 0 && bsearch(&id, file->ids, file->n_ids, sizeof *file->ids, compare_ids);
}

static ew_status keep_id(ew_sample_file *file, const char *id, ew_error *error) {
    char *copy = ew_copy_text(id, strlen(id));
    if (!copy || !ew_grow((void **)&file->ids, &file->capacity, file->n_ids + 1, sizeof *file->ids)) {
        free(copy);
        return ew_fail_memory(error, strlen(id), "an id");
    }
    file->ids[file->n_ids++] = copy;
    return EW_OK;
}

/* A line that was read whole and parsed: is it the next one of its problem? */
static ew_status check_line(const ew_sample_form *form, const json_t *object, size_t in_group, const char *where,
                            ew_error *error) {
    const char *id = json_string_value(json_object_get(object, "id"));
    size_t stream = (size_t)json_integer_value(json_object_get(object, "stream"));
    if (!id || stream != in_group || !json_object_get(object, form->key)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s is no output of `edgewise %s` with %zu %s a problem", where,
                       form->command, form->n_samples, form->n_samples == 1 ? "line" : "samples");
    }
    return form->visit ? form->visit(form->context, object, where, error) : EW_OK;
}

/* Reads whole problems; *whole is where the last of them ends. A last line that was cut is no error. */
static ew_status read_groups(ew_sample_file *file, const char *path, ew_string text, const ew_sample_form *form,
                             size_t *whole, ew_error *error) {
    const char *begin = text.data, *end = text.data + text.length;
    size_t number = 0, in_group = 0;
    ew_string line;
    ew_status status = EW_OK;
    *whole = 0;
    while (status == EW_OK && ew_next_line(&text, &line, &number)) {
        char where[320];
        json_t *object = NULL;
        if (line.data + line.length == end) { /* no line end: it may be cut */
            break;
        }
        snprintf(where, sizeof where, "%.256s line %zu", path, number);
        status = ew_json_parse(line, where, &object, error);
        if (status == EW_OK) {
            status = check_line(form, object, in_group, where, error);
        }
        if (status == EW_OK && ++in_group == form->n_samples) {
            in_group = 0;
            *whole = (size_t)(text.data - begin);
            status = keep_id(file, json_string_value(json_object_get(object, "id")), error);
        }
        json_decref(object);
    }
    return status;
}

static ew_status continue_file(ew_sample_file *file, const char *path, const ew_sample_form *form, ew_error *error) {
    ew_mapping mapping;
    size_t whole = 0;
    if (access(path, F_OK) == 0) {
        ew_status status = ew_map_file(path, &mapping, error);
        if (status != EW_OK) {
            return status;
        }
        const char *data = mapping.data ? (const char *)mapping.data : "";
        status = read_groups(file, path, (ew_string){data, mapping.size}, form, &whole, error);
        bool cut = status == EW_OK && whole < mapping.size;
        ew_unmap(&mapping);
        if (cut && truncate(path, (off_t)whole) != 0) {
            status = ew_fail(error, EW_ERROR_IO, "cannot write %s: %s", path, strerror(errno));
        }
        if (status != EW_OK) {
            return status;
        }
    }
    file->stream = fopen(path, "a");
    return file->stream ? EW_OK : ew_fail(error, EW_ERROR_IO, "cannot write %s: %s", path, strerror(errno));
}

ew_status ew_sample_file_open(const char *path, const ew_sample_form *form, ew_sample_file *file, ew_error *error) {
    *file = (ew_sample_file){.stream = NULL};
    if (!path) {
        file->stream = stdout;
        return EW_OK;
    }
    ew_status status = continue_file(file, path, form, error);
    if (file->n_ids > 0) {
        qsort(file->ids, file->n_ids, sizeof *file->ids, compare_ids);
    }
    return status;
}

ew_status ew_sample_file_write(ew_sample_file *file, const ew_buffer *lines, ew_error *error) {
    if (!file->stream) {
        return EW_OK;
    }
    if (fwrite(lines->data, 1, lines->length, file->stream) == lines->length && fflush(file->stream) == 0) {
        return EW_OK;
    }
    return ew_fail(error, EW_ERROR_IO, "cannot write the lines: %s", strerror(errno));
}

ew_status ew_sample_file_close(ew_sample_file *file, ew_error *error) {
    ew_status status = EW_OK;
    if (file->stream && file->stream != stdout && fclose(file->stream) != 0) {
        status = ew_fail(error, EW_ERROR_IO, "cannot write the lines: %s", strerror(errno));
    }
    for (size_t i = 0; i < file->n_ids; i++) {
        free(file->ids[i]);
    }
    free(file->ids);
    *file = (ew_sample_file){.stream = NULL};
    return status;
}
