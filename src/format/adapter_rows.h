/* The factors of an adapter on their way into a file: row by row, in the file's type and order. */
#ifndef EW_FORMAT_ADAPTER_ROWS_H
#define EW_FORMAT_ADAPTER_ROWS_H

#include "format/adapter_internal.h"

/* One factor to be written. */
typedef struct ew_adapter_job {
    const ew_lora_factor *factor;
    char name[EW_TENSOR_NAME_BYTES]; /* of its matrix, for messages */
    ew_dtype type;                   /* in the file */
    double multiplier;               /* of every value */
    size_t interleave;               /* > 0: the file keeps the rows of heads of this size interleaved */
} ew_adapter_job;

/* Memory for one row of any factor of the adapter. */
typedef struct ew_adapter_row {
    float *values;
    uint8_t *bytes;
} ew_adapter_row;

/* Takes the bytes of a file as they come; `file` is a writer's. */
typedef ew_status (*ew_adapter_sink)(void *file, const void *bytes, size_t length, ew_error *error);

/* What a writer is given, checked before a file is opened: names, order, ranks, the base's shapes, finite values. */
ew_status ew_adapter_check(const ew_lora *adapter, const ew_config *base, const char *path, ew_error *error);

ew_status ew_adapter_row_allocate(const ew_lora *adapter, ew_adapter_row *row, ew_error *error);
void ew_adapter_row_free(ew_adapter_row *row); /* safe on {0} */

/* All rows of a factor, encoded; of I8 the codes, then by the second function the scales. EW_ERROR_ARGUMENT for a value
 * that the type cannot hold. */
ew_status ew_adapter_write_values(const ew_adapter_job *job, ew_adapter_row *row, ew_adapter_sink sink, void *file,
                                  const char *path, ew_error *error);
ew_status ew_adapter_write_scales(const ew_adapter_job *job, ew_adapter_row *row, ew_adapter_sink sink, void *file,
                                  ew_error *error);

/* The targets by name: linears[i] belongs to target i, order[] lists the modules' names in ascending order, which is
 * that of PEFT's files. Both are owned by the caller, order's names lie in linears. */
ew_status ew_adapter_order(const ew_lora *adapter, ew_linear **linears, ew_name **order, ew_error *error);

/* The value that most of the `count` have; the smallest of several. Sorts them. */
double ew_most_common(double *values, size_t count);

#endif
