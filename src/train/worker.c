#include "train/worker.h"
#include "train/pointwise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ew_status ew_worker_open(ew_worker *worker, ew_network *network, const ew_trainer_options *options, ew_error *error) {
    *worker = (ew_worker){.network = network, .options = options};
    worker->records = ew_allocate(network->config.n_layers + 1, sizeof *worker->records);
    if (!worker->records) {
        return ew_fail_memory(error, network->config.n_layers * sizeof *worker->records, "a worker's records");
    }
    if (!network->model) {
        return EW_OK;
    }
    return ew_kernels_select(&worker->packed.kernels, error);
}

void ew_worker_close(ew_worker *worker) {
    free(worker->records);
    free(worker->memory);
    free(worker->gradient);
    free(worker->assigned);
    *worker = (ew_worker){0};
}

static bool stopped(ew_worker *worker) {
    if (worker->status == EW_OK && worker->options->cancel && *worker->options->cancel) {
        worker->status = ew_fail(&worker->error, EW_ERROR_CANCELLED, "cancelled");
    }
    return worker->status != EW_OK;
}

/* The prompts' cells, by the base. */
static void run_prompts(ew_worker *worker) {
    if (worker->prompt.n_rows == 0) {
        return;
    }
    ew_embed_rows(worker, &worker->prompt, worker->spare.input);
    for (size_t i = 0; i < worker->network->config.n_layers && !stopped(worker); i++) {
        ew_forward_layer(worker, &worker->prompt, i, false, &worker->spare, worker->spare.input);
    }
}

/* The record that layer `index` fills: its own, or the spare one around what is kept of it. */
static ew_record record_of(const ew_worker *worker, size_t index) {
    ew_record record = worker->records[index];
    if (worker->wants_gradient && !worker->options->checkpointing) {
        return record;
    }
    const real *kept = record.input;
    record = worker->spare;
    record.input = worker->wants_gradient ? (real *)kept : worker->records[worker->network->config.n_layers].input;
    return record;
}

static real *output_of(const ew_worker *worker, size_t index) {
    size_t n_layers = worker->network->config.n_layers;
    return worker->records[worker->wants_gradient ? index + 1 : n_layers].input;
}

static void run_forward(ew_worker *worker) {
    ew_embed_rows(worker, &worker->rows, record_of(worker, 0).input);
    for (size_t i = 0; i < worker->network->config.n_layers && !stopped(worker); i++) {
        ew_record record = record_of(worker, i);
        ew_forward_layer(worker, &worker->rows, i, true, &record, output_of(worker, i));
    }
}

static void run_backward(ew_worker *worker) {
    const ew_network *network = worker->network;
    size_t d_model = network->config.d_model;
    for (size_t i = network->config.n_layers; i-- > 0 && !stopped(worker);) {
        ew_record record = record_of(worker, i);
        if (worker->options->checkpointing) {
            ew_forward_layer(worker, &worker->rows, i, true, &record, output_of(worker, i));
        }
        ew_backward_layer(worker, i, &record);
    }
    real *d_embedding = ew_gradient_of(worker, &network->embedding);
    for (size_t row = 0; d_embedding && row < worker->rows.n_rows; row++) {
        ew_add(d_embedding + (size_t)worker->rows.tokens[row] * d_model, worker->scratch.stream + row * d_model,
               d_model);
    }
}

static void run_pack(ew_worker *worker, const size_t *listed, size_t n_listed) {
    worker->status = ew_pack_begin(worker, listed, n_listed);
    if (worker->status != EW_OK) {
        return;
    }
    if (worker->network->model) {
        ew_packed_begin(worker);
    }
    run_prompts(worker);
    run_forward(worker);
    if (stopped(worker)) {
        return;
    }
    if (worker->logits_out) {
        ew_head_logits(worker, worker->logits_out);
        return;
    }
    ew_head_run(worker);
    worker->result.n_targets += worker->n_targets;
    worker->result.n_rows += worker->rows.n_rows;
    worker->result.n_prompt += worker->prompt.n_rows;
    if (!isfinite(worker->loss_sum)) {
        worker->status = ew_fail(&worker->error, EW_ERROR_NUMERIC, "the loss is not a number");
    } else if (worker->wants_gradient) {
        run_backward(worker);
    }
}

void ew_worker_run(ew_worker *worker) {
    worker->status = EW_OK;
    worker->loss_sum = 0;
    worker->result = (ew_train_result){0};
    if (worker->wants_gradient) {
        memset(worker->gradient, 0, worker->network->parameters.total * sizeof(real));
    }
    for (size_t begin = 0; begin < worker->n_assigned && worker->status == EW_OK;) {
        size_t end = begin, rows = 0;
        do {
            rows += ew_own_rows(&worker->sequences[worker->assigned[end++]]);
        } while (end < worker->n_assigned &&
                 rows + ew_own_rows(&worker->sequences[worker->assigned[end]]) <= worker->options->pack_rows);
        run_pack(worker, worker->assigned + begin, end - begin);
        begin = end;
    }
}
