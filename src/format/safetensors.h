/* Reading and writing safetensors files: 8 bytes of header length, a JSON header, then the tensors' bytes.
 * Source of the format: the safetensors repository's README. */
#ifndef EW_FORMAT_SAFETENSORS_H
#define EW_FORMAT_SAFETENSORS_H

#include "base/buffer.h"
#include "base/file.h"
#include "format/dtype.h"

enum { EW_SAFETENSORS_MAX_DIMS = 8 };

/* shape[n_dims - 1] is the fastest dimension. n_dims 0 is a scalar. */
typedef struct ew_safetensors_tensor {
    const char *name; /* NUL-terminated */
    ew_dtype type;
    uint32_t n_dims;
    uint64_t shape[EW_SAFETENSORS_MAX_DIMS]; /* unused ones are 1 */
    const uint8_t *data;
    size_t bytes;
} ew_safetensors_tensor;

typedef struct ew_safetensors ew_safetensors;

/* Maps the file and checks the header against its size: JSON, types, shapes, offsets; tensors must cover the
 * data section without gap or overlap. Errors: EW_ERROR_IO, EW_ERROR_FORMAT, EW_ERROR_UNSUPPORTED for an
 * element type that is not read, by its name. */
ew_status ew_safetensors_open(const char *path, ew_safetensors **out, ew_error *error);

/* The same over bytes in memory, which must outlive it; `path` is used in messages. */
ew_status ew_safetensors_open_memory(const uint8_t *bytes, size_t size, const char *path,
                                     ew_safetensors **out, ew_error *error);
void ew_safetensors_close(ew_safetensors *file); /* NULL is fine */

const char *ew_safetensors_path(const ew_safetensors *file);
size_t ew_safetensors_count(const ew_safetensors *file);
const ew_safetensors_tensor *ew_safetensors_at(const ew_safetensors *file,
                                               size_t index); /* ascending by name */
const ew_safetensors_tensor *ew_safetensors_find(const ew_safetensors *file,
                                                 const char *name);               /* NULL: absent */
const char *ew_safetensors_metadata(const ew_safetensors *file, const char *key); /* NULL: absent */

/* Writing: open, metadata and declarations, begin, the tensors' bytes in the order of declaration, commit.
 * The file appears under its name only at commit. */
typedef struct ew_safetensors_writer {
    ew_output output;
    ew_buffer metadata, tensors; /* JSON members */
    uint64_t declared, written;  /* bytes of data */
    const char *refused;
} ew_safetensors_writer;

ew_status ew_safetensors_writer_open(const char *path, ew_safetensors_writer *writer, ew_error *error);

/* Failures of these two are told by ew_safetensors_writer_begin. Names and values: valid UTF-8. */
void ew_safetensors_write_metadata(ew_safetensors_writer *writer, const char *key, const char *value);
void ew_safetensors_write_tensor(ew_safetensors_writer *writer, const char *name, ew_dtype type,
                                 uint32_t n_dims, const uint64_t *shape);
ew_status ew_safetensors_writer_begin(ew_safetensors_writer *writer, ew_error *error);
ew_status ew_safetensors_writer_data(ew_safetensors_writer *writer, const void *bytes, size_t length,
                                     ew_error *error);
ew_status ew_safetensors_writer_commit(ew_safetensors_writer *writer,
                                       ew_error *error);           /* releases in any case */
void ew_safetensors_writer_abandon(ew_safetensors_writer *writer); /* safe on {0} */

#endif
