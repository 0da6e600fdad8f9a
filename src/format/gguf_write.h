/* Writing GGUF version 3, alignment 64. The order is: open, metadata and tensor declarations in any mix,
 * begin, the tensors' bytes in the order of declaration, commit. Tensor bytes go straight to the file, so
 * memory stays bounded by the metadata. The file appears under its name only at commit. */
#ifndef EW_FORMAT_GGUF_WRITE_H
#define EW_FORMAT_GGUF_WRITE_H

#include "base/buffer.h"
#include "base/file.h"
#include "format/gguf.h"

enum { EW_GGUF_ALIGNMENT = 64 };

typedef struct ew_gguf_writer {
    ew_output output;
    ew_buffer metadata; /* encoded key-value pairs */
    ew_buffer tensors;  /* encoded tensor infos */
    ew_buffer sizes;    /* uint64_t bytes of each declared tensor */
    ew_buffer keys;     /* where the keys stand in `metadata` */
    uint64_t n_values, n_tensors;
    uint64_t data_size;  /* bytes of the data section declared so far, padding included */
    uint64_t tensor;     /* the one being written */
    uint64_t written;    /* bytes of it so far */
    const char *refused; /* what was wrong with a declaration; told by ew_gguf_writer_begin */
    bool begun;
} ew_gguf_writer;

ew_status ew_gguf_writer_open(const char *path, ew_gguf_writer *writer, ew_error *error);

/* Metadata. These cannot fail at once; what failed (memory, a key of more than 65535 bytes) is told by
 * ew_gguf_writer_begin. A key must not be written twice (begin refuses it); general.alignment is
 * written by begin itself. */
void ew_gguf_write_u32(ew_gguf_writer *writer, const char *key, uint32_t value);
void ew_gguf_write_i32(ew_gguf_writer *writer, const char *key, int32_t value);
void ew_gguf_write_u64(ew_gguf_writer *writer, const char *key, uint64_t value);
void ew_gguf_write_f32(ew_gguf_writer *writer, const char *key, float value);
void ew_gguf_write_f64(ew_gguf_writer *writer, const char *key, double value);
void ew_gguf_write_bool(ew_gguf_writer *writer, const char *key, bool value);
void ew_gguf_write_string(ew_gguf_writer *writer, const char *key, ew_string value);
void ew_gguf_write_text(ew_gguf_writer *writer, const char *key, const char *value);

/* Arrays. `elements`: `count` values of the fixed-size type, in this machine's memory layout. */
void ew_gguf_write_array(ew_gguf_writer *writer, const char *key, ew_gguf_type type, const void *elements,
                         size_t count);
void ew_gguf_write_strings(ew_gguf_writer *writer, const char *key, const ew_string *strings, size_t count);

/* A value of any type as another file has it, under the same key. */
void ew_gguf_write_copy(ew_gguf_writer *writer, const ew_gguf_value *value);

/* Declares a tensor; shape[0] is the row length. Refused shapes are told by ew_gguf_writer_begin. */
void ew_gguf_write_tensor(ew_gguf_writer *writer, const char *name, ew_dtype type, uint32_t n_dims,
                          const uint64_t *shape);

/* Writes the header. Errors: anything refused or out of memory above, EW_ERROR_IO. */
ew_status ew_gguf_writer_begin(ew_gguf_writer *writer, ew_error *error);

/* The next `length` bytes of the current tensor; padding between tensors is added by itself. A call may end a
 * tensor but not reach into the next one. */
ew_status ew_gguf_writer_data(ew_gguf_writer *writer, const void *bytes, size_t length, ew_error *error);

/* Replaces the string of `key` by one of the same length, for what is known only after the tensors
 * (fingerprints). After begin and before commit. */
ew_status ew_gguf_writer_patch(ew_gguf_writer *writer, const char *key, const char *value, ew_error *error);

/* Ends the file and gives it its name; EW_ERROR_ARGUMENT if a tensor is incomplete. Whatever happens the
 * writer is released. */
ew_status ew_gguf_writer_commit(ew_gguf_writer *writer, ew_error *error);
void ew_gguf_writer_abandon(
    ew_gguf_writer *writer); /* removes the unfinished file; safe on {0}, after commit */

#endif
