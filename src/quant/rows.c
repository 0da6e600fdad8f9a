#include "quant/rows.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { ROWS_AT_ONCE = 16 };

typedef struct row_work {
    ew_row_function function;
    void *context;
    size_t first_row, scratch_bytes;
    const volatile sig_atomic_t *cancel;
    atomic_size_t failed_row; /* SIZE_MAX while all is well */
    atomic_bool cancelled;
    pthread_mutex_t lock; /* for error, and for failed_row together with it */
    ew_error error;
} row_work;

static void record(row_work *work, size_t row, const ew_error *error) {
    pthread_mutex_lock(&work->lock);
    if (row < atomic_load(&work->failed_row)) {
        work->error = *error;
        atomic_store(&work->failed_row, row);
    }
    pthread_mutex_unlock(&work->lock);
}

static void run_rows(void *context, size_t begin, size_t end) {
    row_work *work = context;
    begin += work->first_row;
    end += work->first_row;
    if (work->cancel && *work->cancel) {
        atomic_store(&work->cancelled, true);
        return;
    }
    ew_error error;
    void *scratch = ew_allocate_aligned(work->scratch_bytes, 1);
    if (!scratch) {
        ew_fail_memory(&error, work->scratch_bytes, "a row of a matrix");
        record(work, begin, &error);
        return;
    }
    for (size_t row = begin; row < end && row < atomic_load(&work->failed_row); row++) {
        if (work->function(work->context, row, scratch, &error) != EW_OK) {
            record(work, row, &error);
        }
    }
    free(scratch);
}

ew_status ew_for_rows(ew_pool *pool, size_t begin, size_t end, size_t scratch_bytes, ew_row_function function,
                      void *context, const volatile sig_atomic_t *cancel, ew_error *error) {
    row_work work = {.function = function,
                     .context = context,
                     .first_row = begin,
                     .scratch_bytes = scratch_bytes,
                     .cancel = cancel};
    atomic_init(&work.failed_row, SIZE_MAX);
    atomic_init(&work.cancelled, false);
    if (pthread_mutex_init(&work.lock, NULL) != 0) {
        return ew_fail(error, EW_ERROR_MEMORY, "the system has no mutex left");
    }
    ew_pool_run(pool, end - begin, ROWS_AT_ONCE, run_rows, &work);
    pthread_mutex_destroy(&work.lock);
    if (atomic_load(&work.cancelled)) {
        return ew_fail(error, EW_ERROR_CANCELLED, "cancelled");
    }
    if (atomic_load(&work.failed_row) != SIZE_MAX) {
        return ew_fail(error, work.error.status, "%s", work.error.message);
    }
    return EW_OK;
}
