#include "train/sft.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "train/checkpoint.h"
#include "train/shuffle.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A run: where it is. */
typedef struct sft {
    ew_network *network;
    ew_trainer *trainer;
    const ew_train_sequence *sequences, *validation;
    size_t n, n_validation;
    const ew_sft_options *options;
    ew_adamw optimizer;
    ew_schedule schedule;
    size_t *order;            /* of the epoch */
    size_t epoch, taken;      /* epochs begun; sequences taken of this one */
    ew_train_sequence *batch; /* [capacity] */
    size_t batch_capacity;
    uint64_t saved; /* the checkpoint's step; UINT64_MAX: none */
} sft;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Batches ---- */

/* Sequences of the batch that begins at order[from]. */
static size_t batch_size(const sft *s, const size_t *order, size_t from) {
    size_t n = 0, tokens = 0, left = s->n - from;
    if (s->options->batch_tokens == 0) {
        return s->options->batch < left ? s->options->batch : left;
    }
    while (n < left && tokens < s->options->batch_tokens) {
        tokens += s->sequences[order[from + n++]].n - 1;
    }
    return n;
}

static ew_status begin_epoch(sft *s, ew_error *error) {
    free(s->order);
    s->order = ew_shuffled(s->n, s->options->seed, s->epoch++);
    s->taken = 0;
    return s->order ? EW_OK : ew_fail_memory(error, s->n * sizeof *s->order, "the order of the examples");
}

/* Steps that all epochs make: batches by tokens depend on the order. */
static ew_status count_steps(sft *s, uint64_t *steps, ew_error *error) {
    *steps = 0;
    for (size_t epoch = 0; epoch < s->options->epochs; epoch++) {
        size_t *order = ew_shuffled(s->n, s->options->seed, epoch);
        if (!order) {
            return ew_fail_memory(error, s->n * sizeof *order, "the order of the examples");
        }
        for (size_t from = 0; from < s->n; from += batch_size(s, order, from)) {
            ++*steps;
        }
        free(order);
        if (s->options->most_steps > 0 && *steps >= s->options->most_steps) {
            *steps = s->options->most_steps;
            break;
        }
    }
    return EW_OK;
}

/* The next batch of the run, into s->batch; `skip` only moves on. */
static ew_status next_batch(sft *s, bool skip, size_t *n, ew_error *error) {
    if (!s->order || s->taken == s->n) {
        ew_status status = begin_epoch(s, error);
        if (status != EW_OK) {
            return status;
        }
    }
    *n = batch_size(s, s->order, s->taken);
    if (!skip && !ew_grow((void **)&s->batch, &s->batch_capacity, *n, sizeof *s->batch)) {
        return ew_fail_memory(error, *n * sizeof *s->batch, "a batch");
    }
    for (size_t i = 0; !skip && i < *n; i++) {
        s->batch[i] = s->sequences[s->order[s->taken + i]];
    }
    s->taken += *n;
    return EW_OK;
}

/* ---- Steps ---- */

static bool cancelled(const sft *s) {
    return s->options->cancel && *s->options->cancel;
}

static ew_status save(sft *s, ew_error *error) {
    if (!s->options->checkpoint || s->saved == s->optimizer.step) {
        return EW_OK;
    }
    const ew_train_state state = {s->optimizer.step, s->options->settings ? s->options->settings : ""};
    ew_status status = ew_train_save(s->options->checkpoint, &s->network->parameters, &s->optimizer, &state, error);
    s->saved = status == EW_OK ? s->optimizer.step : s->saved;
    return status;
}

static int compare_sizes(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* "; its batch had lines 3, 7, 12 and 5 more of the data" of the last n sequences taken; nothing where lines are not known. */
static void describe_batch(const sft *s, size_t n, ew_buffer *text) {
    enum { SHOWN = 8 };
    size_t *lines = s->options->lines ? ew_allocate(n, sizeof *lines) : NULL, n_lines = 0;
    if (!lines) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        lines[i] = s->options->lines[s->order[s->taken - n + i]];
    }
    qsort(lines, n, sizeof *lines, compare_sizes);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || lines[i] != lines[i - 1]) { /* a line may have made several sequences */
            lines[n_lines++] = lines[i];
        }
    }
    size_t shown = n_lines <= SHOWN ? n_lines : SHOWN - 1;
    ew_buffer_append_format(text, "; its batch had line%s", n_lines > 1 ? "s" : "");
    for (size_t i = 0; i < shown; i++) {
        const char *before = i == 0 ? "" : i + 1 == n_lines ? " and" : ",";
        ew_buffer_append_format(text, "%s %zu", before, lines[i]);
    }
    if (shown < n_lines) {
        ew_buffer_append_format(text, " and %zu more", n_lines - shown);
    }
    ew_buffer_append_text(text, " of the data");
    free(lines);
}

/* Says where a run stands that met no number: in a batch of n sequences, or (n = 0) in the validation set. */
static ew_status fail_numeric(const sft *s, uint64_t step, size_t n, const ew_error *reason, ew_error *error) {
    ew_buffer where = {0};
    if (n > 0) {
        describe_batch(s, n, &where);
    } else {
        ew_buffer_append_text(&where, " on the validation set");
    }
    const char *batch = where.data && !where.failed ? where.data : "";
    if (s->saved == UINT64_MAX) {
        ew_fail(error, EW_ERROR_NUMERIC,
                "step %" PRIu64 ": %s%s; no checkpoint was saved before; a smaller learning rate may help", step,
                reason->message, batch);
    } else {
        ew_fail(error, EW_ERROR_NUMERIC,
                "step %" PRIu64 ": %s%s; the last good state, of step %" PRIu64
                ", is %s; a smaller learning rate may help",
                step, reason->message, batch, s->saved, s->options->checkpoint);
    }
    ew_buffer_free(&where);
    return EW_ERROR_NUMERIC;
}

static ew_status validate(sft *s, double *loss, ew_error *error) {
    ew_train_result result;
    ew_error local;
    *loss = NAN;
    if (s->n_validation == 0) {
        return EW_OK;
    }
    ew_status status = ew_trainer_evaluate(s->trainer, s->validation, s->n_validation, NULL, &result, &local);
    if (status == EW_ERROR_NUMERIC) {
        return fail_numeric(s, s->optimizer.step, 0, &local, error);
    }
    *loss = status == EW_OK ? result.loss : NAN;
    return status == EW_OK ? EW_OK : ew_fail(error, status, "%s", local.message);
}

static void report(const sft *s, const ew_sft_report *r) {
    if (s->options->report) {
        s->options->report(s->options->context, r);
    }
}

static ew_status run_step(sft *s, ew_error *error) {
    ew_error local;
    uint64_t step = s->optimizer.step + 1;
    ew_sft_report r = {.step = step, .n_steps = s->schedule.n_steps, .validation_loss = NAN};
    ew_train_result result;
    size_t n;
    double started = now();
    ew_status status = next_batch(s, false, &n, error);
    if (status != EW_OK) {
        return status;
    }
    r.epoch = s->epoch;
    r.rate = ew_schedule_rate(&s->schedule, step);
    status = ew_trainer_gradient(s->trainer, s->batch, n, NULL, step, &result, &local);
    if (status == EW_OK) {
        status = ew_adamw_step(&s->optimizer, &s->network->parameters, ew_trainer_gradient_vector(s->trainer), r.rate,
                               ew_trainer_pool(s->trainer), &r.norm, &local);
    }
    if (status == EW_ERROR_NUMERIC) {
        return fail_numeric(s, step, n, &local, error);
    }
    if (status != EW_OK) {
        return ew_fail(error, status, "%s", local.message);
    }
    r.loss = result.loss;
    r.n_targets = result.n_targets;
    r.n_rows = result.n_rows;
    r.seconds = now() - started;
    r.memory = ew_trainer_memory(s->trainer) + 3 * s->network->parameters.total * sizeof(real);
    bool last = step == s->schedule.n_steps,
         every = s->options->evaluate_every > 0 && step % s->options->evaluate_every == 0;
    status = last || every ? validate(s, &r.validation_loss, error) : EW_OK;
    if (status == EW_OK) {
        report(s, &r);
    }
    if (status == EW_OK && s->options->save_every > 0 && (last || step % s->options->save_every == 0)) {
        status = save(s, error);
        status = last && status == EW_ERROR_IO ? EW_OK : status; /* the weights are written next, and may still fit */
    }
    if (status == EW_OK && s->options->keep_every > 0 && !last && step % s->options->keep_every == 0) {
        status = s->options->keep(s->options->context, step, error);
    }
    return status;
}

/* Takes up the checkpoint, and goes through the batches that were done. */
static ew_status resume(sft *s, ew_error *error) {
    ew_train_state state = {0, s->options->settings ? s->options->settings : ""};
    ew_status status = ew_train_load(s->options->checkpoint, &s->network->parameters, &s->optimizer, &state, error);
    size_t n;
    for (uint64_t i = 0; status == EW_OK && i < state.step && i < s->schedule.n_steps; i++) {
        status = next_batch(s, true, &n, error);
    }
    s->saved = state.step;
    return status;
}

static ew_status run_steps(sft *s, ew_error *error) {
    ew_status status = EW_OK;
    if (s->optimizer.step == 0 && s->n_validation > 0) {
        ew_sft_report r = {.n_steps = s->schedule.n_steps, .epoch = 1, .loss = NAN};
        status = validate(s, &r.validation_loss, error);
        if (status == EW_OK) {
            report(s, &r);
        }
    }
    while (status == EW_OK && s->optimizer.step < s->schedule.n_steps) {
        status = cancelled(s) ? EW_ERROR_CANCELLED : run_step(s, error);
    }
    if (status == EW_ERROR_CANCELLED) {
        status = save(s, error);
        return status == EW_OK ? ew_fail(error, EW_ERROR_CANCELLED, "cancelled after step %" PRIu64, s->optimizer.step)
                               : status;
    }
    return status;
}

static ew_status check_options(const ew_sft_options *options, ew_error *error) {
    if (options->resume && !options->checkpoint) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "there is no checkpoint to resume from");
    }
    if (options->batch == 0 && options->batch_tokens == 0) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a batch needs at least one example");
    }
    return EW_OK;
}

ew_status ew_sft_run(ew_network *network, ew_trainer *trainer, const ew_train_sequence *sequences, size_t n,
                     const ew_train_sequence *validation, size_t n_validation, const ew_sft_options *options,
                     ew_error *error) {
    sft s = {.network = network, .trainer = trainer, .sequences = sequences, .validation = validation, .n = n};
    s.n_validation = n_validation;
    s.options = options;
    s.saved = UINT64_MAX;
    s.optimizer = (ew_adamw){.beta1 = options->beta1, .beta2 = options->beta2, .epsilon = options->epsilon};
    s.optimizer.weight_decay = options->weight_decay;
    s.optimizer.clip = options->clip;
    s.schedule = (ew_schedule){.kind = options->schedule, .peak = options->rate, .min_ratio = options->min_ratio};
    ew_status status = check_options(options, error);
    if (status == EW_OK) {
        status = count_steps(&s, &s.schedule.n_steps, error);
    }
    s.schedule.warmup = (uint64_t)(options->warmup * (double)s.schedule.n_steps + 0.5);
    s.schedule.decay = (uint64_t)(options->decay * (double)s.schedule.n_steps + 0.5);
    if (status == EW_OK) {
        status = ew_adamw_open(&s.optimizer, &network->parameters, error);
    }
    if (status == EW_OK && options->resume) {
        status = resume(&s, error);
    }
    if (status == EW_OK) {
        status = run_steps(&s, error);
    }
    ew_adamw_close(&s.optimizer);
    free(s.order);
    free(s.batch);
    return status;
}
