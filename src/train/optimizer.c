#include "train/optimizer.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { CHUNK = 1 << 15 };

ew_status ew_adamw_open(ew_adamw *optimizer, const ew_parameters *parameters, ew_error *error) {
    optimizer->total = parameters->total;
    optimizer->m = ew_allocate_aligned(parameters->total, sizeof(real));
    optimizer->v = ew_allocate_aligned(parameters->total, sizeof(real));
    if (!optimizer->m || !optimizer->v) {
        ew_adamw_close(optimizer);
        return ew_fail_memory(error, 2 * parameters->total * sizeof(real), "the optimizer");
    }
    return EW_OK;
}

void ew_adamw_close(ew_adamw *optimizer) {
    free(optimizer->m);
    free(optimizer->v);
    optimizer->m = optimizer->v = NULL;
}

/* One step: what every chunk of it reads. */
typedef struct step {
    const ew_adamw *optimizer;
    const ew_parameters *parameters;
    const real *gradient;
    double *squares; /* [chunks] */
    real rate, clip; /* the clip's factor */
    real correction1, correction2;
} step;

/* Sums of squares by chunks of fixed places: the same whoever makes them. */
static void sum_squares(void *context, size_t begin, size_t end) {
    const step *s = context;
    for (size_t chunk = begin; chunk < end; chunk++) {
        size_t first = chunk * CHUNK, last = first + CHUNK < s->optimizer->total ? first + CHUNK : s->optimizer->total;
        double lanes[8] = {0};
        for (size_t i = first; i + 8 <= last; i += 8) { /* total is a multiple of 16 */
            for (size_t j = 0; j < 8; j++) {
                lanes[j] += (double)s->gradient[i + j] * (double)s->gradient[i + j];
            }
        }
        s->squares[chunk] =
            ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
    }
}

/* Values begin .. end - 1, all of one parameter. */
static void update(const step *s, size_t begin, size_t end, real decay) {
    const ew_adamw *o = s->optimizer;
    real *restrict p = s->parameters->values, *restrict m = o->m, *restrict v = o->v;
    real beta1 = (real)o->beta1, beta2 = (real)o->beta2, epsilon = (real)o->epsilon;
    real rest1 = (real)(1 - o->beta1), rest2 = (real)(1 - o->beta2), kept = 1 - s->rate * decay;
    real root = EW_REAL_SQRT(s->correction2), rate = s->rate / s->correction1;
    const real *restrict gradient = s->gradient;
    for (size_t i = begin; i < end; i++) {
        real g = gradient[i] * s->clip;
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * g * g;
        p[i] = p[i] * kept - rate * m[i] / (EW_REAL_SQRT(v[i]) / root + epsilon);
    }
}

static void update_chunks(void *context, size_t begin, size_t end) {
    const step *s = context;
    size_t first = begin * CHUNK, last = end * CHUNK < s->optimizer->total ? end * CHUNK : s->optimizer->total;
    for (size_t i = 0; i < s->parameters->n_items; i++) {
        const ew_parameter *item = &s->parameters->items[i];
        size_t from = item->at > first ? item->at : first, to = item->at + item->rows * item->cols;
        to = to < last ? to : last;
        if (from < to) {
            update(s, from, to, item->decays ? (real)s->optimizer->weight_decay : 0);
        }
    }
}

ew_status ew_adamw_step(ew_adamw *optimizer, ew_parameters *parameters, const real *gradient, double rate,
                        ew_pool *pool, double *norm, ew_error *error) {
    size_t n_chunks = (optimizer->total + CHUNK - 1) / CHUNK;
    step s = {.optimizer = optimizer, .parameters = parameters, .gradient = gradient, .rate = (real)rate};
    s.squares = ew_allocate(n_chunks, sizeof *s.squares);
    if (!s.squares) {
        return ew_fail_memory(error, n_chunks * sizeof *s.squares, "a step");
    }
    ew_pool_run(pool, n_chunks, 1, sum_squares, &s);
    double sum = 0;
    for (size_t i = 0; i < n_chunks; i++) {
        sum += s.squares[i];
    }
    free(s.squares);
    *norm = sqrt(sum);
    if (!isfinite(*norm)) {
        return ew_fail(error, EW_ERROR_NUMERIC, "the gradient is not a number");
    }
    double factor = optimizer->clip > 0 ? optimizer->clip / (*norm + 1e-6) : 1;
    optimizer->step++;
    s.clip = (real)(factor < 1 ? factor : 1);
    s.correction1 = (real)(1 - pow(optimizer->beta1, (double)optimizer->step));
    s.correction2 = (real)(1 - pow(optimizer->beta2, (double)optimizer->step));
    ew_pool_run(pool, n_chunks, 1, update_chunks, &s);
    return EW_OK;
}

double ew_schedule_rate(const ew_schedule *schedule, uint64_t step) {
    const double pi = 3.141592653589793;
    double least = schedule->min_ratio, s = (double)step, begin = (double)schedule->warmup;
    if (step <= schedule->warmup) {
        return schedule->peak * s / begin;
    }
    if (schedule->kind == EW_SCHEDULE_CONSTANT) {
        begin =
            (double)(schedule->n_steps - (schedule->decay < schedule->n_steps ? schedule->decay : schedule->n_steps));
        begin = begin > (double)schedule->warmup ? begin : (double)schedule->warmup;
    }
    double length = (double)schedule->n_steps - begin;
    double done = length > 0 ? (s - begin) / length : 1;
    done = done < 0 ? 0 : done > 1 ? 1 : done;
    double left = schedule->kind == EW_SCHEDULE_COSINE ? 0.5 * (1 + cos(pi * done)) : 1 - done;
    return schedule->peak * (least + (1 - least) * left);
}
