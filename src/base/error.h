/* Filling an ew_error: one sentence, what was wrong, where, what would be right. */
#ifndef EW_BASE_ERROR_H
#define EW_BASE_ERROR_H

#include "edgewise.h"

/* Writes the formatted sentence and the status into `error` (which may be NULL) and returns the status, so that
 * `return ew_fail(error, EW_ERROR_FORMAT, "...")` is the whole of an error path. A message too long is cut at a
 * UTF-8 border; control bytes and broken UTF-8 from hostile input are shown as '?'. */
ew_status ew_fail(ew_error *error, ew_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* EW_ERROR_MEMORY with a sentence that says how many bytes were wanted for what. */
ew_status ew_fail_memory(ew_error *error, size_t bytes, const char *what);

#endif
