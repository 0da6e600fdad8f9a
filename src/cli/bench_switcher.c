#include "cli/bench_switcher.h"
#include "base/memory.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "reason/heads.h"
#include "reason/prefix.h"

#include <stdlib.h>

enum { PAIRS = 24, WARM_UP = 2 };

typedef struct measuring {
    ew_source source;
    ew_prefix *prefix;
    ew_switcher switcher; /* of zeros: its weights do not matter to the time */
    int32_t *tokens;      /* [n_prompt] */
    size_t n_prompt;
} measuring;

/* One prompt from an empty stream, up to the routing decision. */
static ew_status read_prompt(measuring *m, bool asks, double *seconds, ew_error *error) {
    const ew_answer_callbacks silent = EW_ANSWER_CALLBACKS_INIT;
    size_t n_cached;
    double probability;
    ew_stream_truncate(m->prefix->stream, 0);
    ew_status status = ew_prefix_pool(m->prefix, NULL, error); /* forgets what was pooled */
    if (status == EW_OK && asks) {
        status = ew_prefix_pool(m->prefix, &m->switcher.head, error);
    }
    double start = ew_clock_seconds();
    if (status == EW_OK) {
        status = ew_prefix_prefill(m->prefix, &m->source, m->tokens, m->n_prompt, &silent, NULL, &n_cached, error);
    }
    if (status == EW_OK && asks) {
        status = ew_switcher_ask(&m->switcher, &m->prefix->pooling, &probability, error);
    }
    *seconds = ew_clock_seconds() - start;
    return status;
}

/* Turn about, and every other pair the other way round: a drift of the machine meets both alike. */
static ew_status run_pairs(measuring *m, ew_switcher_cost *cost, ew_error *error) {
    double ratios[PAIRS];
    ew_status status = EW_OK;
    ew_progress bar;
    ew_progress_begin(&bar, "measuring", "prompts", 2 * (PAIRS + WARM_UP));
    for (size_t i = 0; status == EW_OK && i < PAIRS + WARM_UP; i++) {
        double seconds[2] = {0}; /* alone, with it */
        bool first = i % 2;
        status = read_prompt(m, first, &seconds[first], error);
        if (status == EW_OK) {
            status = read_prompt(m, !first, &seconds[!first], error);
        }
        if (status == EW_OK && i >= WARM_UP) {
            size_t k = i - WARM_UP;
            ratios[k] = seconds[1] / seconds[0] - 1;
            cost->alone = k == 0 || seconds[0] < cost->alone ? seconds[0] : cost->alone;
            cost->with = k == 0 || seconds[1] < cost->with ? seconds[1] : cost->with;
        }
        ew_progress_update(&bar, 2 * (i + 1), NULL);
    }
    ew_progress_end(&bar);
    if (status == EW_OK) {
        cost->n_pairs = PAIRS;
        cost->share = ew_median(ratios, PAIRS); /* sorts them */
        cost->low = ratios[PAIRS / 4];
        cost->high = ratios[PAIRS - 1 - PAIRS / 4];
    }
    return status;
}

/* Pairs tell no more than the machine's unrest lets them; this does, of all that is not the model's own. */
static ew_status time_own_work(const measuring *m, const ew_session *session, double *fastest, ew_error *error) {
    enum { ROUNDS = 15 };
    size_t d_model = session->model->config.d_model;
    float *states = ew_allocate(m->n_prompt * d_model, sizeof *states);
    ew_status status = states ? EW_OK : ew_fail_memory(error, m->n_prompt * d_model * sizeof *states, "hidden states");
    for (size_t i = 0; status == EW_OK && i < m->n_prompt * d_model; i++) {
        states[i] = (float)(i % 7) - 3.0f;
    }
    for (size_t round = 0; status == EW_OK && round < ROUNDS; round++) {
        ew_pooling pooling = {0};
        double probability;
        status = ew_pooling_open(d_model, m->switcher.head.chunk, m->switcher.head.mix, &pooling, error);
        double start = ew_clock_seconds();
        for (size_t t = 0; status == EW_OK && t < m->n_prompt; t++) {
            session->kernels->rms_norm(states + t * d_model, session->model->weights.output_norm, d_model,
                                       session->model->config.rms_norm_eps, states + t * d_model);
        }
        if (status == EW_OK) {
            status = ew_pooling_add(&pooling, states, m->n_prompt, error);
        }
        if (status == EW_OK) {
            status = ew_switcher_ask(&m->switcher, &pooling, &probability, error);
        }
        double seconds = ew_clock_seconds() - start;
        *fastest = round == 0 || seconds < *fastest ? seconds : *fastest;
        ew_pooling_free(&pooling);
    }
    free(states);
    return status;
}

ew_status ew_switcher_cost_measure(ew_session *session, size_t n_prompt, ew_switcher_cost *cost, ew_error *error) {
    const ew_config *config = &session->model->config;
    measuring m = {.source = ew_engine_source(session), .n_prompt = n_prompt};
    *cost = (ew_switcher_cost){0};
    m.switcher.model = session->model;
    m.tokens = ew_allocate(n_prompt, sizeof *m.tokens);
    ew_status status = m.tokens ? ew_prefix_of(&m.source, &m.prefix, error)
                                : ew_fail_memory(error, n_prompt * sizeof *m.tokens, "a prompt");
    if (status == EW_OK) {
        status = ew_head_allocate(EW_HEAD_SWITCHER, config->d_model, 8, &m.switcher.head, error);
    }
    for (size_t i = 0; status == EW_OK && i < n_prompt; i++) {
        m.tokens[i] = (int32_t)((i * 7919 + 17) % config->vocab_size);
    }
    if (status == EW_OK) {
        status = time_own_work(&m, session, &cost->own, error);
    }
    if (status == EW_OK) {
        status = run_pairs(&m, cost, error);
    }
    ew_head_free(&m.switcher.head);
    free(m.tokens);
    return status;
}
