/* The output of `edgewise sample`: lines of whole problems, so that a run that was ended goes on where it was. */
#ifndef EW_CLI_SAMPLE_FILE_H
#define EW_CLI_SAMPLE_FILE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdio.h>

typedef struct ew_sample_file {
    FILE *stream; /* stdout without a path */
    char **ids;   /* [n_ids] of problems that are done; sorted */
    size_t n_ids, capacity;
} ew_sample_file;

/* Opens `path` for more lines, or stdout for NULL. What is there already must be lines of `sample`; the ids of
 * problems with all n_samples lines are kept, what stands behind the last of them is cut off (a problem that was not
 * finished). EW_ERROR_FORMAT when the file is something else. */
ew_status ew_sample_file_open(const char *path, size_t n_samples, ew_sample_file *file, ew_error *error);
bool ew_sample_file_has(const ew_sample_file *file, const char *id);

/* Writes the lines of one problem at once. */
ew_status ew_sample_file_write(ew_sample_file *file, const ew_buffer *lines, ew_error *error);

/* Whatever came of it. EW_ERROR_IO when the last bytes could not be written. */
ew_status ew_sample_file_close(ew_sample_file *file, ew_error *error);

#endif
