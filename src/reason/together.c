#include "reason/together.h"
#include "base/memory.h"
#include "reason/prefix.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct together together;

typedef struct worker {
    together *all;
    ew_source source;
    pthread_t thread;
    bool waiting; /* for the batch that the next five describe */
    const ew_input *inputs;
    size_t n_inputs;
    float *logits, *hidden;
    ew_status status;
    ew_error error;
} worker;

struct together {
    const ew_source *base;
    ew_status (*work)(void *context, const ew_source *source, ew_error *error);
    void *context;
    pthread_mutex_t running; /* whoever has it runs */
    pthread_cond_t evaluated;
    worker *workers;            /* [n_workers] */
    size_t n_workers, n_active, n_waiting;
    ew_input *inputs;           /* of a batch */
    float *logits, *hidden;     /* of a batch, in the order of its inputs */
    size_t input_capacity, logit_capacity, hidden_capacity;
    ew_status status;           /* the first failure */
    ew_error error;
};

/* ---- A batch ---- */

static size_t count_rows(const worker *w) {
    size_t n = 0;
    for (size_t i = 0; i < w->n_inputs; i++) {
        n += w->inputs[i].wants_logits;
    }
    return n;
}

static void fail(together *t, ew_status status, const ew_error *error) {
    if (t->status == EW_OK) {
        t->status = status;
        t->error = *error;
    }
}

static void finish(together *t, worker *w, ew_status status, const ew_error *error) {
    if (status == EW_ERROR_CANCELLED) {
        fail(t, status, error);
    }
    w->status = status;
    w->error = *error;
    w->waiting = false;
    t->n_waiting--;
}

/* Each by itself. */
static void evaluate_apart(together *t) {
    for (size_t i = 0; i < t->n_workers; i++) {
        worker *w = &t->workers[i];
        if (w->waiting) {
            ew_error error = {0};
            ew_status status =
                t->base->evaluate(t->base->self, w->inputs, w->n_inputs, w->logits, w->hidden, &error);
            finish(t, w, status, &error);
        }
    }
}

/* Gathers the inputs, with room for what is wanted of them. */
static ew_status gather(together *t, size_t *n_inputs, size_t *n_rows, bool *wants_hidden, ew_error *error) {
    const ew_config *config = &t->base->session->model->config;
    size_t n = 0, rows = 0, floats = 0, hidden_floats = 0;
    *wants_hidden = false;
    for (size_t i = 0; i < t->n_workers; i++) {
        const worker *w = &t->workers[i];
        n += w->waiting ? w->n_inputs : 0;
        rows += w->waiting ? count_rows(w) : 0;
        *wants_hidden |= w->waiting && w->hidden;
    }
    if (!ew_multiply_size(rows, config->vocab_size, &floats) || !ew_multiply_size(n, config->d_model, &hidden_floats) ||
        !ew_grow((void **)&t->inputs, &t->input_capacity, n, sizeof *t->inputs) ||
        !ew_grow((void **)&t->logits, &t->logit_capacity, floats, sizeof *t->logits) ||
        (*wants_hidden && !ew_grow((void **)&t->hidden, &t->hidden_capacity, hidden_floats, sizeof *t->hidden))) {
        return ew_fail_memory(error, (floats + hidden_floats) * sizeof *t->logits, "a batch");
    }
    *n_inputs = *n_rows = 0;
    for (size_t i = 0; i < t->n_workers; i++) {
        const worker *w = &t->workers[i];
        if (w->waiting) {
            memcpy(t->inputs + *n_inputs, w->inputs, w->n_inputs * sizeof *w->inputs);
            *n_inputs += w->n_inputs;
        }
    }
    *n_rows = rows;
    return EW_OK;
}

static void refuse(together *t, ew_status status, const ew_error *error) {
    for (size_t i = 0; i < t->n_workers; i++) {
        if (t->workers[i].waiting) {
            finish(t, &t->workers[i], status, error);
        }
    }
}

static void hand_out(together *t) {
    const ew_config *config = &t->base->session->model->config;
    const ew_error none = {0};
    size_t logits_at = 0, hidden_at = 0;
    for (size_t i = 0; i < t->n_workers; i++) {
        worker *w = &t->workers[i];
        if (!w->waiting) {
            continue;
        }
        size_t n_logits = count_rows(w) * config->vocab_size, n_hidden = w->n_inputs * config->d_model;
        if (n_logits > 0) {
            memcpy(w->logits, t->logits + logits_at, n_logits * sizeof *t->logits);
        }
        if (w->hidden) {
            memcpy(w->hidden, t->hidden + hidden_at, n_hidden * sizeof *t->hidden);
        }
        logits_at += n_logits;
        hidden_at += n_hidden;
        finish(t, w, EW_OK, &none);
    }
}

static void evaluate_together(together *t) {
    const ew_source *base = t->base;
    size_t n_inputs = 0, n_rows = 0;
    bool wants_hidden = false;
    ew_error error = {0};
    ew_status status = gather(t, &n_inputs, &n_rows, &wants_hidden, &error);
    if (status == EW_OK) {
        status = base->evaluate(base->self, t->inputs, n_inputs, n_rows > 0 ? t->logits : NULL,
                                wants_hidden ? t->hidden : NULL, &error);
    }
    if (status == EW_ERROR_CONTEXT || status == EW_ERROR_NUMERIC) {
        evaluate_apart(t); /* one cannot go on: the others may */
    } else if (status != EW_OK) {
        refuse(t, status, &error);
    } else {
        hand_out(t);
    }
}

/* All that run want a batch. */
static void run_batch(together *t) {
    ew_error error = {0};
    if (t->status != EW_OK) {
        ew_status cancelled = ew_fail(&error, EW_ERROR_CANCELLED, "cancelled");
        refuse(t, cancelled, &error);
    } else if (t->n_waiting == 1) {
        evaluate_apart(t);
    } else {
        evaluate_together(t);
    }
    pthread_cond_broadcast(&t->evaluated);
}

/* ---- A worker ---- */

static ew_status evaluate(void *self, const ew_input *inputs, size_t n_inputs, float *logits, float *hidden,
                          ew_error *error) {
    worker *w = self;
    together *t = w->all;
    w->inputs = inputs;
    w->n_inputs = n_inputs;
    w->logits = logits;
    w->hidden = hidden;
    w->waiting = true;
    if (++t->n_waiting == t->n_active) {
        run_batch(t);
    }
    while (w->waiting) {
        pthread_cond_wait(&t->evaluated, &t->running);
    }
    if (w->status != EW_OK && error) {
        *error = w->error;
    }
    return w->status;
}

static double now(void *self) {
    const ew_source *base = ((const worker *)self)->all->base;
    return base->now(base->self);
}

static void begin(void *self, const ew_stream *stream, size_t index) {
    const ew_source *base = ((const worker *)self)->all->base;
    if (base->begin) {
        base->begin(base->self, stream, index);
    }
}

static void *run(void *argument) {
    worker *w = argument;
    together *t = w->all;
    ew_error error = {0};
    pthread_mutex_lock(&t->running);
    ew_status status = t->status == EW_OK ? t->work(t->context, &w->source, &error) : EW_OK;
    if (status != EW_OK) {
        fail(t, status, &error);
    }
    t->n_active--;
    if (t->n_active > 0 && t->n_waiting == t->n_active) {
        run_batch(t);
    }
    pthread_mutex_unlock(&t->running);
    return NULL;
}

/* The threads of all workers but the first; how many there are. */
static size_t start(together *t) {
    size_t n = 1;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    while (n < t->n_workers && pthread_create(&t->workers[n].thread, NULL, run, &t->workers[n]) == 0) {
        n++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n;
}

static ew_status open_workers(together *t, ew_error *error) {
    t->workers = ew_allocate(t->n_workers, sizeof *t->workers);
    if (!t->workers) {
        return ew_fail_memory(error, t->n_workers * sizeof *t->workers, "workers");
    }
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < t->n_workers; i++) {
        worker *w = &t->workers[i];
        w->all = t;
        w->source = *t->base;
        w->source.self = w;
        w->source.evaluate = evaluate;
        w->source.now = now;
        w->source.begin = begin;
        status = ew_prefix_open(t->base->session, &w->source.prefix, error);
    }
    return status;
}

static void close_all(together *t) {
    for (size_t i = 0; t->workers && i < t->n_workers; i++) {
        ew_prefix_close(t->workers[i].source.prefix);
    }
    free(t->workers);
    free(t->inputs);
    free(t->logits);
    free(t->hidden);
    pthread_cond_destroy(&t->evaluated);
    pthread_mutex_destroy(&t->running);
}

ew_status ew_together(const ew_source *base, size_t n_workers,
                      ew_status (*work)(void *context, const ew_source *source, ew_error *error), void *context,
                      ew_error *error) {
    together t = {.base = base,
                  .work = work,
                  .context = context,
                  .running = PTHREAD_MUTEX_INITIALIZER,
                  .evaluated = PTHREAD_COND_INITIALIZER,
                  .n_workers = n_workers > 0 ? n_workers : 1};
    ew_status status = open_workers(&t, error);
    if (status == EW_OK) {
        pthread_mutex_lock(&t.running); /* nobody runs before it is known how many do */
        size_t n_started = start(&t);
        t.n_active = n_started;
        pthread_mutex_unlock(&t.running);
        run(&t.workers[0]);
        for (size_t i = 1; i < n_started; i++) {
            pthread_join(t.workers[i].thread, NULL);
        }
        status = t.status;
        if (status != EW_OK && error) {
            *error = t.error;
        }
    }
    close_all(&t);
    return status;
}
