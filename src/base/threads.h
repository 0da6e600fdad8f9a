/* A pool of threads for short parallel loops: the caller works too, workers spin a little between loops and then sleep.
 *
 * Items are handed out in chunks from one counter, so a slow or interrupted thread takes fewer. A worker that has not
 * woken by the time the last chunk is taken is not waited for: with another busy program on the machine a loop
 * degrades in proportion instead of waiting for the scheduler. One loop at a time per pool; different pools are
 * independent. */
#ifndef EW_BASE_THREADS_H
#define EW_BASE_THREADS_H

#include "base/error.h"

typedef struct ew_pool ew_pool;

/* Items begin .. end - 1 of a loop. */
typedef void (*ew_task)(void *context, size_t begin, size_t end);

/* Threads worth using here: the CPUs this process may run on, no more than its cgroup's quota, and of unequal cores
 * only the fast ones. At least 1. */
size_t ew_default_thread_count(void);

enum { EW_THREADS_MAX = 256 };

/* A pool of n_threads in all, the calling one included (0: ew_default_thread_count()). `prepare` (may be NULL) runs
 * once in every worker. Fewer threads than asked for is an error, EW_ERROR_MEMORY. */
ew_status ew_pool_create(size_t n_threads, void (*prepare)(void), ew_pool **pool, ew_error *error);
void ew_pool_destroy(ew_pool *pool); /* NULL is fine */
size_t ew_pool_size(const ew_pool *pool);

/* Runs task over 0 .. n_items - 1 in chunks of `chunk` items (at least 1) and returns when all is done. A NULL pool
 * runs in the caller. */
void ew_pool_run(ew_pool *pool, size_t n_items, size_t chunk, ew_task task, void *context);

/* The same in chunks that shrink: large ones while much is left, because each begins cold, small ones at the end, so that
 * threads end together though one core may be slower. All but the last have a multiple of `least` items (at least 1). */
void ew_pool_run_shrinking(ew_pool *pool, size_t n_items, size_t least, ew_task task, void *context);

#endif
