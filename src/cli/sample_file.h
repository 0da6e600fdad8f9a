/* The output of `edgewise sample` and `edgewise eval`: lines of whole problems, so that a run that was ended goes on
 * where it was. */
#ifndef EW_CLI_SAMPLE_FILE_H
#define EW_CLI_SAMPLE_FILE_H

#include "base/buffer.h"
#include "base/error.h"

#include <jansson.h>
#include <stdio.h>

/* What the lines of a file must be, and who looks at those that are there already. */
typedef struct ew_sample_form {
    const char *command; /* that writes such lines */
    size_t n_samples;    /* lines of a problem: their "stream" counts from 0 */
    const char *key;     /* a member that every line has */
    /* May be NULL: sees each line that is kept, where n_samples is 1. */
    ew_status (*visit)(void *context, const json_t *object, const char *where, ew_error *error);
    void *context;
} ew_sample_form;

typedef struct ew_sample_file {
    FILE *stream; /* NULL: lines are not kept */
    char **ids;   /* [n_ids] of problems that are done; sorted */
    size_t n_ids, capacity;
} ew_sample_file;

/* Opens `path` for more lines, or stdout for NULL. What is there already must have this form; the ids of problems with
 * all their lines are kept, what stands behind the last of them is cut off (a problem that was not finished).
 * EW_ERROR_FORMAT when the file is something else. */
ew_status ew_sample_file_open(const char *path, const ew_sample_form *form, ew_sample_file *file, ew_error *error);
bool ew_sample_file_has(const ew_sample_file *file, const char *id);

/* Writes the lines of one problem at once. */
ew_status ew_sample_file_write(ew_sample_file *file, const ew_buffer *lines, ew_error *error);

/* Whatever came of it. EW_ERROR_IO when the last bytes could not be written. */
ew_status ew_sample_file_close(ew_sample_file *file, ew_error *error);

#endif
