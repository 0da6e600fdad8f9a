#include "base/threads.h"
#include "base/memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 20 to 70 microseconds, as long as the processor makes a pause: longer than the gaps between a step's loops, much
 * shorter than a time slice. */
enum { SPINS = 4000 };

/* Some C libraries give threads less than the kernels' working sets of attention want. */
enum { WORKER_STACK_BYTES = 1 << 21 };

/* The state word: generation of the loop (high half), whether workers may still join it, and how many are in it. */
static const uint64_t GENERATION = UINT64_C(1) << 32, OPEN = UINT64_C(1) << 31, ACTIVE_MASK = (UINT64_C(1) << 31) - 1;

struct ew_pool {
    size_t n_threads;
    pthread_t *workers; /* [n_threads - 1] */
    size_t n_started;
    void (*prepare)(void);

    /* The loop. Written by the caller while no worker is in it. */
    ew_task task;
    void *context;
    size_t n_items, chunk;
    bool shrinking; /* chunks are larger while much is left */

    /* Apart from each other: these are what the threads fight over. */
    _Alignas(64) atomic_size_t next;
    _Alignas(64) _Atomic uint64_t state;
    _Alignas(64) atomic_uint wake_word; /* changes with every loop; idle workers sleep on it */
    atomic_uint n_sleepers;
    _Alignas(64) atomic_uint done_word; /* changes when the last worker leaves a closed loop */
    atomic_uint caller_sleeps;
    atomic_bool stop;
};

static void futex_wait(atomic_uint *word, unsigned expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* How many of the `left` items come next: shrinking ones are two thirds of a thread's fair share. */
static size_t next_chunk(const ew_pool *pool, size_t left) {
    size_t chunk = pool->chunk;
    if (pool->shrinking) {
        size_t share = 2 * left / (3 * pool->n_threads) / chunk * chunk;
        chunk = share > chunk ? share : chunk;
    }
    return chunk < left ? chunk : left;
}

static void work(ew_pool *pool) {
    size_t begin = atomic_load_explicit(&pool->next, memory_order_relaxed);
    while (begin < pool->n_items) {
        size_t end = begin + next_chunk(pool, pool->n_items - begin);
        if (atomic_compare_exchange_weak_explicit(&pool->next, &begin, end, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            pool->task(pool->context, begin, end);
            begin = atomic_load_explicit(&pool->next, memory_order_relaxed);
        }
    }
}

/* Joins the open loop, if it is still open; `seen` is the state last read. */
static bool join_loop(ew_pool *pool, uint64_t seen) {
    while (seen & OPEN) {
        if (atomic_compare_exchange_weak(&pool->state, &seen, seen + 1)) {
            return true;
        }
    }
    return false;
}

static void leave_loop(ew_pool *pool) {
    uint64_t state = atomic_fetch_sub(&pool->state, 1) - 1;
    if (!(state & OPEN) && (state & ACTIVE_MASK) == 0) {
        atomic_fetch_add(&pool->done_word, 1);
        if (atomic_load(&pool->caller_sleeps)) {
            futex_wake(&pool->done_word, 1);
        }
    }
}

static bool is_news(const ew_pool *pool, uint64_t state, uint64_t last) {
    return ((state & OPEN) && state / GENERATION != last) || atomic_load(&pool->stop);
}

/* Returns the state of a loop this worker has not been in, or anything when the pool stops. */
static uint64_t wait_for_loop(ew_pool *pool, uint64_t last) {
    for (;;) {
        for (int i = 0; i < SPINS; i++) {
            uint64_t state = atomic_load_explicit(&pool->state, memory_order_acquire);
            if (is_news(pool, state, last)) {
                return state;
            }
            relax();
        }
        unsigned word = atomic_load(&pool->wake_word);
        atomic_fetch_add(&pool->n_sleepers, 1);
        if (!is_news(pool, atomic_load(&pool->state), last)) {
            futex_wait(&pool->wake_word, word);
        }
        atomic_fetch_sub(&pool->n_sleepers, 1);
    }
}

static void *worker_main(void *argument) {
    ew_pool *pool = argument;
    uint64_t last = 0;
    if (pool->prepare) {
        pool->prepare();
    }
    for (;;) {
        uint64_t state = wait_for_loop(pool, last);
        if (atomic_load(&pool->stop)) {
            return NULL;
        }
        last = state / GENERATION;
        if (join_loop(pool, state)) {
            work(pool);
            leave_loop(pool);
        }
    }
}

static void wake_workers(ew_pool *pool) {
    atomic_fetch_add(&pool->wake_word, 1);
    if (atomic_load(&pool->n_sleepers) > 0) {
        futex_wake(&pool->wake_word, EW_THREADS_MAX);
    }
}

/* No more joins; waits for the workers that are in the loop. */
static void close_loop(ew_pool *pool) {
    atomic_fetch_and(&pool->state, ~OPEN);
    for (;;) {
        for (int i = 0; i < SPINS; i++) {
            if ((atomic_load_explicit(&pool->state, memory_order_acquire) & ACTIVE_MASK) == 0) {
                return;
            }
            relax();
        }
        unsigned word = atomic_load(&pool->done_word);
        atomic_store(&pool->caller_sleeps, 1);
        if ((atomic_load(&pool->state) & ACTIVE_MASK) != 0) {
            futex_wait(&pool->done_word, word);
        }
        atomic_store(&pool->caller_sleeps, 0);
    }
}

static void run_loop(ew_pool *pool, size_t n_items, size_t chunk, bool shrinking, ew_task task, void *context) {
    if (n_items == 0) {
        return;
    }
    if (chunk == 0) {
        chunk = 1;
    }
    if (!pool || pool->n_threads == 1 || n_items <= chunk) {
        task(context, 0, n_items);
        return;
    }
    pool->task = task;
    pool->context = context;
    pool->n_items = n_items;
    pool->chunk = chunk;
    pool->shrinking = shrinking;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    uint64_t generation = atomic_load(&pool->state) / GENERATION + 1;
    atomic_store(&pool->state, generation * GENERATION | OPEN);
    wake_workers(pool);
    work(pool);
    close_loop(pool);
}

void ew_pool_run(ew_pool *pool, size_t n_items, size_t chunk, ew_task task, void *context) {
    run_loop(pool, n_items, chunk, false, task, context);
}

void ew_pool_run_shrinking(ew_pool *pool, size_t n_items, size_t least, ew_task task, void *context) {
    run_loop(pool, n_items, least, true, task, context);
}

/* Workers take no signals: those are for the program's own threads, which may be waiting to be interrupted. */
static void start_workers(ew_pool *pool) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return;
    }
    pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->n_started + 1 < pool->n_threads &&
           pthread_create(&pool->workers[pool->n_started], &attributes, worker_main, pool) == 0) {
        pool->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

ew_status ew_pool_create(size_t n_threads, void (*prepare)(void), ew_pool **out, ew_error *error) {
    *out = NULL;
    if (n_threads == 0) {
        n_threads = ew_default_thread_count();
    }
    if (n_threads > EW_THREADS_MAX) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%zu threads are asked for; at most %d are possible", n_threads,
                       EW_THREADS_MAX);
    }
    ew_pool *pool = ew_allocate_aligned(1, sizeof *pool);
    if (!pool) {
        return ew_fail_memory(error, sizeof *pool, "a thread pool");
    }
    pool->n_threads = n_threads;
    pool->prepare = prepare;
    pool->workers = ew_allocate(n_threads, sizeof *pool->workers);
    if (!pool->workers) {
        ew_pool_destroy(pool);
        return ew_fail_memory(error, n_threads * sizeof(pthread_t), "a thread pool");
    }
    start_workers(pool);
    if (pool->n_started + 1 < n_threads) {
        ew_pool_destroy(pool);
        return ew_fail(error, EW_ERROR_MEMORY, "the system refused to start %zu threads", n_threads);
    }
    *out = pool;
    return EW_OK;
}

void ew_pool_destroy(ew_pool *pool) {
    if (!pool) {
        return;
    }
    atomic_store(&pool->stop, true);
    wake_workers(pool);
    for (size_t i = 0; i < pool->n_started; i++) {
        pthread_join(pool->workers[i], NULL);
    }
    free(pool->workers);
    free(pool);
}

size_t ew_pool_size(const ew_pool *pool) {
    return pool ? pool->n_threads : 1;
}
