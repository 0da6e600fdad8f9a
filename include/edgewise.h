/* Edgewise: on-device LLM reasoning. Being written: the errors below are settled. */
#ifndef EDGEWISE_H
#define EDGEWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define EW_API __attribute__((visibility("default")))
#else
#define EW_API
#endif

/* Errors. A function that can fail returns an ew_status; EW_OK is 0. If it is given an ew_error (it may be
 * NULL) it also fills it with one sentence: what was wrong, where, and what would be right. */
typedef enum ew_status {
    EW_OK = 0,
    EW_ERROR_ARGUMENT,    /* the caller asked for something that makes no sense */
    EW_ERROR_MEMORY,      /* an allocation failed */
    EW_ERROR_IO,          /* the operating system refused a read or a write */
    EW_ERROR_FORMAT,      /* a file or a line is malformed */
    EW_ERROR_UNSUPPORTED, /* well-formed, but something that Edgewise does not do; the message names it */
    EW_ERROR_CONTEXT,     /* the context (or the KV memory) is full */
    EW_ERROR_NUMERIC,     /* NaN or infinity where a number is needed */
    EW_ERROR_CANCELLED    /* ew_cancel was called */
} ew_status;

typedef struct ew_error {
    ew_status status;
    char message[512]; /* UTF-8, NUL-terminated, no newline */
} ew_error;

#ifdef __cplusplus
}
#endif

#endif
