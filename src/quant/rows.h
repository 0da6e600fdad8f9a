/* Work on every row of a matrix, by a pool of threads, that can fail and be cancelled. */
#ifndef EW_QUANT_ROWS_H
#define EW_QUANT_ROWS_H

#include "base/threads.h"

#include <signal.h>

/* One row. `scratch` is the thread's own, not initialized, aligned to 64 bytes. */
typedef ew_status (*ew_row_function)(void *context, size_t row, void *scratch, ew_error *error);

/* Runs `function` over rows begin .. end - 1, 16 rows (a tile) at a time. The error returned is that of the
 * lowest row that fails, whatever the number of threads; rows above it may be left out. `pool` and `cancel`
 * may be NULL; a *cancel that is not 0 ends the work with EW_ERROR_CANCELLED. */
ew_status ew_for_rows(ew_pool *pool, size_t begin, size_t end, size_t scratch_bytes, ew_row_function function,
                      void *context, const volatile sig_atomic_t *cancel, ew_error *error);

#endif
