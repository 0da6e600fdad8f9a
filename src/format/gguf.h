/* Reading GGUF files, versions 2 and 3, little-endian: metadata and the table of tensors.
 *
 * The file is mapped; opening walks the header once and checks all of it against the file's size: counts,
 * string lengths, products of shapes, types, alignment, that tensors lie inside the file and do not overlap,
 * that no key and no tensor name occurs twice. Nothing is copied but tensor names; strings are views into the
 * map, NOT NUL-terminated, valid until ew_gguf_close. Source of the format: ggml/docs/gguf.md. */
#ifndef EW_FORMAT_GGUF_H
#define EW_FORMAT_GGUF_H

#include "base/error.h"
#include "format/dtype.h"
#include "format/names.h"

/* The numbers are those of the format. */
typedef enum ew_gguf_type {
    EW_GGUF_UINT8 = 0,
    EW_GGUF_INT8 = 1,
    EW_GGUF_UINT16 = 2,
    EW_GGUF_INT16 = 3,
    EW_GGUF_UINT32 = 4,
    EW_GGUF_INT32 = 5,
    EW_GGUF_FLOAT32 = 6,
    EW_GGUF_BOOL = 7,
    EW_GGUF_STRING = 8,
    EW_GGUF_ARRAY = 9,
    EW_GGUF_UINT64 = 10,
    EW_GGUF_INT64 = 11,
    EW_GGUF_FLOAT64 = 12
} ew_gguf_type;

const char *ew_gguf_type_name(ew_gguf_type type); /* "uint32", "string", ... */

/* Bytes of one element as stored; 0 for strings, arrays and unknown numbers. */
size_t ew_gguf_scalar_bytes(uint32_t type);

/* One metadata entry. For arrays `type` is EW_GGUF_ARRAY, element_type that of the elements (never ARRAY:
 * nested arrays are refused at open) and count their number; otherwise element_type equals type and count
 * is 1. `data` is where the (first) element stands in the file, `bytes` the size of all elements as stored.
 */
typedef struct ew_gguf_value {
    ew_string key;
    ew_gguf_type type;
    ew_gguf_type element_type;
    uint64_t count;
    const uint8_t *data;
    size_t bytes;
} ew_gguf_value;

/* One tensor. shape[0] is the length of a row (the fastest dimension), as the file has it; unused dimensions
 * are 1. */
typedef struct ew_gguf_tensor {
    const char *name; /* NUL-terminated */
    ew_dtype type;
    uint32_t n_dims; /* 1..4 */
    uint64_t shape[4];
    const uint8_t *data;
    size_t bytes;
} ew_gguf_tensor;

typedef struct ew_gguf ew_gguf;

/* Opens a file. Errors: EW_ERROR_IO, EW_ERROR_FORMAT with what is wrong and where, EW_ERROR_UNSUPPORTED
 * (version 1, big-endian, a tensor type that is not read: by its name). */
ew_status ew_gguf_open(const char *path, ew_gguf **out, ew_error *error);

/* The same over bytes in memory, which must outlive the ew_gguf; `path` is used in messages. */
ew_status ew_gguf_open_memory(const uint8_t *bytes, size_t size, const char *path, ew_gguf **out,
                              ew_error *error);

void ew_gguf_close(ew_gguf *gguf); /* NULL is fine */

const char *ew_gguf_path(const ew_gguf *gguf);
uint32_t ew_gguf_version(const ew_gguf *gguf);
size_t ew_gguf_file_size(const ew_gguf *gguf);

/* Metadata in the file's order, and by key (NULL when absent). */
size_t ew_gguf_value_count(const ew_gguf *gguf);
const ew_gguf_value *ew_gguf_value_at(const ew_gguf *gguf, size_t index);
const ew_gguf_value *ew_gguf_find(const ew_gguf *gguf, const char *key);

/* Typed reading. `found` NULL: the key is required, absence is EW_ERROR_FORMAT. Otherwise absence sets *found
 * false, leaves *value alone and is EW_OK. A value of another kind or out of range is EW_ERROR_FORMAT, naming
 * file and key. The integer getters take every integer type whose value fits, f64 takes both float types,
 * bool only bool. */
ew_status ew_gguf_get_u32(const ew_gguf *gguf, const char *key, bool *found, uint32_t *value,
                          ew_error *error);
ew_status ew_gguf_get_u64(const ew_gguf *gguf, const char *key, bool *found, uint64_t *value,
                          ew_error *error);
ew_status ew_gguf_get_f64(const ew_gguf *gguf, const char *key, bool *found, double *value, ew_error *error);
ew_status ew_gguf_get_bool(const ew_gguf *gguf, const char *key, bool *found, bool *value, ew_error *error);
ew_status ew_gguf_get_string(const ew_gguf *gguf, const char *key, bool *found, ew_string *value,
                             ew_error *error);

/* An array of strings, of any integers, of any floats (element_type STRING, INT64, FLOAT64 asks for the
 * family). */
ew_status ew_gguf_get_array(const ew_gguf *gguf, const char *key, ew_gguf_type family, bool *found,
                            const ew_gguf_value **value, ew_error *error);

/* Element `index` < value->count of an integer or a float array (or index 0 of a scalar). A uint64 above
 * INT64_MAX is returned as INT64_MAX. */
int64_t ew_gguf_integer_at(const ew_gguf_value *value, uint64_t index);
double ew_gguf_float_at(const ew_gguf_value *value, uint64_t index);

/* Walks a string array from the front; false after the last. */
typedef struct ew_gguf_strings {
    const uint8_t *next;
    uint64_t left;
} ew_gguf_strings;
ew_gguf_strings ew_gguf_strings_begin(const ew_gguf_value *value);
bool ew_gguf_strings_next(ew_gguf_strings *strings, ew_string *string);

/* Tensors in the file's order, and by name (NULL when absent). */
size_t ew_gguf_tensor_count(const ew_gguf *gguf);
const ew_gguf_tensor *ew_gguf_tensor_at(const ew_gguf *gguf, size_t index);
const ew_gguf_tensor *ew_gguf_find_tensor(const ew_gguf *gguf, const char *name);

#endif
