/* Files: whole files mapped for reading, and outputs written beside their target and renamed when complete. */
#ifndef EW_BASE_FILE_H
#define EW_BASE_FILE_H

#include "base/error.h"

#include <stdio.h>

typedef struct ew_mapping {
    const uint8_t *data; /* read-only; NULL for an empty file */
    size_t size;         /* bytes */
} ew_mapping;

/* Maps a regular file. Errors: EW_ERROR_IO with the path and the system's reason; a folder is refused as such. */
ew_status ew_map_file(const char *path, ew_mapping *mapping, ew_error *error);
void ew_unmap(ew_mapping *mapping); /* safe on {0} */

/* Reads a whole file of at most `limit` bytes; *text is NUL-terminated and owned by the caller. */
ew_status ew_read_file(const char *path, size_t limit, char **text, size_t *length, ew_error *error);

/* An output file: bytes go to a temporary file beside `path`; ew_output_commit makes it durable and renames it,
 * ew_output_abandon removes it. Exactly one of the two ends it. */
typedef struct ew_output {
    FILE *stream;
    char *path;
    char *temporary;
} ew_output;
ew_status ew_output_open(const char *path, ew_output *output, ew_error *error);
ew_status ew_output_write(ew_output *output, const void *bytes, size_t length, ew_error *error);
ew_status ew_output_commit(ew_output *output, ew_error *error);
void ew_output_abandon(ew_output *output); /* safe on {0} and after commit */

/* folder + "/" + name, owned by the caller; NULL when memory is out. */
char *ew_join_path(const char *folder, const char *name);

/* The last part of a path, slashes at its end left out: a view of `path`, *length bytes long. */
const char *ew_last_name(const char *path, size_t *length);

#endif
