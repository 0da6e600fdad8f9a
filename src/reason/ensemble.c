#include "reason/ensemble.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ew_status ew_ensemble_open(ew_ensemble *e, size_t capacity, ew_error *error) {
    size_t vocab_size = e->writing->model->config.vocab_size, n_logits = 0;
    bool fits = ew_multiply_size(capacity, vocab_size, &n_logits);
    e->strands = ew_allocate(capacity, sizeof *e->strands);
    e->candidates = ew_allocate(capacity, sizeof *e->candidates);
    e->logits = fits ? ew_allocate_aligned(n_logits, sizeof *e->logits) : NULL;
    e->classes = ew_allocate(capacity, sizeof *e->classes);
    e->scores = ew_allocate(capacity, sizeof *e->scores);
    e->answers = ew_allocate(capacity, sizeof *e->answers);
    e->capacity = capacity;
    if (!e->strands || !e->candidates || !e->logits || !e->classes || !e->scores || !e->answers) {
        return ew_fail_memory(error, fits ? n_logits * sizeof *e->logits : SIZE_MAX, "the streams of an answer");
    }
    return EW_OK;
}

void ew_ensemble_free(ew_ensemble *e) {
    for (size_t i = 0; i < e->n; i++) {
        ew_strand_free(&e->strands[i]);
        if (e->candidates) {
            ew_candidate_free(&e->candidates[i]);
        }
    }
    free(e->strands);
    free(e->candidates);
    free(e->logits);
    free(e->classes);
    free(e->scores);
    free(e->answers);
    *e = (ew_ensemble){0};
}

/* ---- Beginning ---- */

static ew_status add(ew_ensemble *e, ew_stream *stream, bool owns_stream, const float *logits, const uint8_t *seen,
                     ew_error *error) {
    size_t i = e->n++, vocab_size = e->writing->model->config.vocab_size;
    float *row = e->logits + i * vocab_size;
    ew_status status =
        ew_strand_open(e->writing, i, stream, owns_stream, seen, &e->candidates[i], &e->strands[i], error);
    if (status == EW_OK) {
        memcpy(row, logits, vocab_size * sizeof *row);
        ew_strand_draw(e->writing, &e->strands[i], &e->writing->samplers[0], row);
        status = ew_strand_take(e->writing, &e->strands[i], error);
    }
    return status;
}

ew_status ew_ensemble_add_trunk(ew_ensemble *e, ew_stream *trunk, const float *logits, const uint8_t *seen,
                                ew_error *error) {
    return add(e, trunk, false, logits, seen, error);
}

ew_status ew_ensemble_add_forks(ew_ensemble *e, ew_stream *trunk, const float *logits, const uint8_t *seen, size_t n,
                                ew_error *error) {
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        ew_stream *fork;
        status = ew_stream_fork(trunk, &fork, error);
        if (status == EW_OK) {
            status = add(e, fork, true, logits, seen, error);
        }
    }
    return status;
}

/* ---- A step ---- */

static size_t count_waiting(const ew_ensemble *e) {
    size_t n = 0;
    for (size_t i = 0; i < e->n; i++) {
        n += e->strands[i].ended ? 0 : e->strands[i].queue.count;
    }
    return n;
}

static void list_inputs(const ew_ensemble *e, ew_input *inputs) {
    size_t n = 0;
    for (size_t i = 0; i < e->n; i++) {
        const ew_strand *strand = &e->strands[i];
        for (size_t k = 0; !strand->ended && k < strand->queue.count; k++) {
            inputs[n++] = (ew_input){strand->stream, strand->queue.ids[k], k + 1 == strand->queue.count};
        }
    }
}

static ew_status evaluate(ew_ensemble *e, size_t n_inputs, ew_error *error) {
    const ew_source *source = e->writing->source;
    size_t d_model = e->follows ? e->follows->d_model : 0;
    ew_input *inputs = ew_allocate(n_inputs, sizeof *inputs);
    float *hidden = d_model > 0 ? ew_allocate(n_inputs * d_model, sizeof *hidden) : NULL;
    ew_status status;
    if (!inputs || (d_model > 0 && !hidden)) {
        status = ew_fail_memory(error, n_inputs * (sizeof *inputs + d_model * sizeof *hidden), "a batch");
    } else {
        list_inputs(e, inputs);
        status = source->evaluate(source->self, inputs, n_inputs, e->logits, hidden, error);
    }
    if (status == EW_OK && hidden) {
        status = ew_pooling_add(e->follows, hidden, n_inputs, error);
    }
    free(inputs);
    free(hidden);
    return status;
}

/* Samplers begin .. end - 1: the strands of sampler k are every n_samplers-th from the k-th on. */
static void draw_task(void *context, size_t begin, size_t end) {
    const ew_ensemble *e = context;
    size_t n_samplers = e->writing->n_samplers, vocab_size = e->writing->model->config.vocab_size, row = 0;
    for (size_t i = 0; i < e->n; i++) {
        if (e->strands[i].ended) {
            continue;
        }
        size_t sampler = row % n_samplers;
        float *logits = e->logits + row++ * vocab_size;
        if (sampler >= begin && sampler < end) {
            ew_strand_draw(e->writing, &e->strands[i], &e->writing->samplers[sampler], logits);
        }
    }
}

static ew_status advance_all(ew_ensemble *e, ew_error *error) {
    ew_pool *pool = e->writing->n_samplers > 1 ? e->writing->source->session->pool : NULL;
    ew_status status = EW_OK;
    ew_pool_run(pool, e->writing->n_samplers, 1, draw_task, e);
    for (size_t i = 0; status == EW_OK && i < e->n; i++) {
        if (!e->strands[i].ended) {
            status = ew_strand_take(e->writing, &e->strands[i], error);
        }
    }
    return status;
}

static void end_all(ew_ensemble *e, ew_stop_reason reason) {
    for (size_t i = 0; i < e->n; i++) {
        if (!e->strands[i].ended) {
            ew_strand_end(&e->strands[i], reason);
            e->n_stopped += reason == EW_STOP_DECIDED;
        }
    }
}

/* The KV memory is full: the last strand makes room for the others. */
static void end_last(ew_ensemble *e) {
    for (size_t i = e->n; i > 0; i--) {
        if (!e->strands[i - 1].ended) {
            ew_strand_end(&e->strands[i - 1], EW_STOP_CONTEXT);
            return;
        }
    }
}

/* One batch. */
static ew_status step(ew_ensemble *e, ew_error *error) {
    const ew_writing *writing = e->writing;
    double limit = writing->policy->time_limit;
    if (writing->cancelled) {
        end_all(e, EW_STOP_CANCELLED);
    } else if (limit > 0 && writing->source->now(writing->source->self) - writing->start >= limit) {
        end_all(e, EW_STOP_TIME);
    }
    size_t n_inputs = count_waiting(e);
    if (n_inputs == 0) {
        return EW_OK;
    }
    ew_error problem = {0};
    ew_status status = evaluate(e, n_inputs, &problem);
    if (status == EW_OK) {
        return advance_all(e, error);
    }
    if (status == EW_ERROR_CONTEXT) {
        end_last(e);
        return EW_OK;
    }
    if (status == EW_ERROR_CANCELLED) {
        end_all(e, EW_STOP_CANCELLED);
        return EW_OK;
    }
    if (error) {
        *error = problem;
    }
    return status;
}

/* ---- Ended strands ---- */

/* Ended by itself, and not from outside: what it says can be counted. */
static bool is_complete(const ew_candidate *candidate) {
    return candidate->stop_reason != EW_STOP_CANCELLED && candidate->stop_reason != EW_STOP_TIME &&
           candidate->stop_reason != EW_STOP_DECIDED;
}

/* Its texts, what it answers, its score; its cells are given back. */
static ew_status settle(ew_ensemble *e, ew_strand *strand, ew_error *error) {
    ew_status status = ew_strand_finish(e->writing, strand, error);
    if (status == EW_OK && is_complete(strand->out)) {
        status = ew_final_answer(strand->out->answer, e->writing->policy->task, &strand->out->final_answer, error);
        if (status == EW_OK && e->verifier && !e->writing->cancelled) {
            status = ew_verifier_ask(e->verifier, e->writing->source, strand, error);
        }
    }
    if (status == EW_ERROR_CANCELLED) {
        e->writing->cancelled = true;
        status = EW_OK;
    }
    if (strand->owns_stream) {
        ew_stream_close(strand->stream);
        strand->stream = NULL;
        strand->owns_stream = false;
    }
    strand->settled = true;
    return status;
}

static ew_status settle_ended(ew_ensemble *e, bool *any, ew_error *error) {
    ew_status status = EW_OK;
    *any = false;
    for (size_t i = 0; status == EW_OK && i < e->n; i++) {
        if (e->strands[i].ended && !e->strands[i].settled) {
            status = settle(e, &e->strands[i], error);
            *any = true;
        }
    }
    return status;
}

ew_status ew_ensemble_ballots(ew_ensemble *e, ew_ballots *ballots, ew_error *error) {
    for (size_t i = 0; i < e->n; i++) {
        e->answers[i] = e->strands[i].settled ? e->candidates[i].final_answer : NULL;
        e->scores[i] = isnan(e->candidates[i].score) ? 0 : e->candidates[i].score;
    }
    ew_status status = ew_answer_classes(e->answers, e->n, e->writing->policy->task, e->classes, error);
    for (size_t i = 0; status == EW_OK && i < e->n; i++) {
        e->candidates[i].answer_class = e->classes[i];
    }
    *ballots = (ew_ballots){e->vote, e->classes, e->scores, e->n};
    return status;
}

static size_t count_running(const ew_ensemble *e) {
    size_t n = 0;
    for (size_t i = 0; i < e->n; i++) {
        n += !e->strands[i].ended;
    }
    return n;
}

/* Ends the others when what ended has decided the vote. */
static ew_status decide(ew_ensemble *e, ew_error *error) {
    const ew_policy *policy = e->writing->policy;
    size_t n_left = count_running(e);
    if (policy->run_all || n_left == 0 || e->n < 2) {
        return EW_OK;
    }
    ew_ballots ballots;
    double probability = 0;
    ew_status status = ew_ensemble_ballots(e, &ballots, error);
    if (status == EW_OK) {
        status = ew_vote_certainty(&ballots, n_left, &probability, error);
    }
    if (status == EW_OK && probability >= (policy->decision_level > 0 ? policy->decision_level : 1)) {
        end_all(e, EW_STOP_DECIDED);
    }
    return status;
}

ew_status ew_ensemble_run(ew_ensemble *e, ew_error *error) {
    ew_status status = EW_OK;
    for (;;) {
        bool any;
        status = settle_ended(e, &any, error);
        if (status == EW_OK && any) {
            status = decide(e, error);
        }
        if (status != EW_OK || (count_running(e) == 0 && !any)) {
            return status;
        }
        if (count_running(e) > 0) {
            status = step(e, error);
        }
        if (status != EW_OK) {
            return status;
        }
    }
}
