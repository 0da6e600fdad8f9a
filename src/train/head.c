/* The end of the model: final norm, head and loss, fused so that the logits of a few rows are in memory at a time.
 *
 *   z = logits / T;  log p = z_t - log sum exp z;  dlogits = dL/dlogp (onehot_t - softmax z) / T */
#include "train/pointwise.h"
#include "train/worker.h"

#include <math.h>
#include <string.h>

static ew_view view(const real *values, size_t stride) {
    return (ew_view){values, stride};
}

static const real *final_rows(const ew_worker *worker) {
    return worker->records[worker->network->config.n_layers].input;
}

/* Logits of n rows that stand normed in scratch.normed, as the head reads them. */
static void head_forward(ew_worker *worker, size_t n, real *logits) {
    const ew_train_linear *head = &worker->network->head;
    if (head->packed) {
        ew_packed_head(worker, n, logits);
    } else {
        ew_gemm(worker, false, true, n, head->rows, head->cols, 1, view(worker->scratch.normed, head->cols),
                view(head->weight.values, head->cols), 0, logits, head->rows);
    }
}

static void final_norm(ew_worker *worker, size_t row, size_t to) {
    const ew_network *network = worker->network;
    size_t d_model = network->config.d_model;
    const real *x = final_rows(worker) + row * d_model;
    real *y = worker->scratch.normed + to * d_model;
    if (network->model) {
        ew_packed_norm(worker, x, network->output_norm.values, d_model, y);
    } else {
        ew_norm_forward(x, network->output_norm.values, d_model, (real)network->config.rms_norm_eps, y);
    }
}

static double target_term(const ew_worker *worker, const ew_target *target, double log_probability,
                          double *derivative) {
    const ew_train_loss *loss = worker->loss;
    if (loss && loss->log_probabilities && loss->log_probabilities[target->sequence]) {
        loss->log_probabilities[target->sequence][target->position] = (float)log_probability;
    }
    if (loss && loss->term) {
        return loss->term(loss->context, target->sequence, target->position, log_probability, derivative);
    }
    *derivative = -1;
    return -log_probability;
}

/* One target's loss; its logits become their gradient. */
static void target_loss(ew_worker *worker, const ew_target *target, real *logits) {
    size_t vocab_size = worker->network->config.vocab_size;
    size_t token = (size_t)worker->sequences[target->sequence].ids[target->position];
    double temperature = worker->loss && worker->loss->temperature > 0 ? worker->loss->temperature : 1;
    real scale = (real)(1 / temperature), most, chosen = logits[token] * scale;
    real sum = ew_exponentials(logits, scale, vocab_size, vocab_size, &most);
    double derivative = 0, log_probability = (double)(chosen - most) - log((double)sum);
    worker->loss_sum += target->weight * target_term(worker, target, log_probability, &derivative);
    if (worker->wants_gradient) {
        double by_log_probability = derivative * target->weight / worker->divisor / temperature;
        ew_multiply(logits, (real)(-by_log_probability / (double)sum), vocab_size);
        logits[token] += (real)by_log_probability;
    }
}

/* The gradient of targets begin .. begin + n - 1 through head and norm; their logits' gradients stand in scratch.logits,
 * their normed rows in scratch.normed. */
static void head_backward(ew_worker *worker, size_t begin, size_t n) {
    const ew_network *network = worker->network;
    const ew_train_linear *head = &network->head;
    ew_scratch *scratch = &worker->scratch;
    size_t d_model = head->cols;
    real *d_weight = ew_gradient_of(worker, &head->weight), *d_normed = scratch->projected;
    ew_packed_round_rows(worker, scratch->normed, n, d_model);
    memset(d_normed, 0, n * d_model * sizeof *d_normed);
    ew_linear_transposed(worker, head, n, scratch->logits, head->rows, d_normed);
    if (d_weight) {
        ew_gemm(worker, true, false, head->rows, d_model, n, 1, view(scratch->logits, head->rows),
                view(scratch->normed, d_model), 1, d_weight, d_model);
    }
    for (size_t i = 0; i < n; i++) {
        size_t row = worker->targets[begin + i].row;
        ew_norm_backward(final_rows(worker) + row * d_model, network->output_norm.values, d_normed + i * d_model,
                         d_model, (real)network->config.rms_norm_eps, scratch->stream + row * d_model,
                         ew_gradient_of(worker, &network->output_norm));
    }
}

void ew_head_run(ew_worker *worker) {
    size_t vocab_size = worker->network->config.vocab_size, d_model = worker->network->config.d_model;
    ew_scratch *scratch = &worker->scratch;
    if (worker->wants_gradient) {
        memset(scratch->stream, 0, worker->rows.n_rows * d_model * sizeof *scratch->stream);
    }
    for (size_t begin = 0; begin < worker->n_targets; begin += scratch->head_rows) {
        size_t left = worker->n_targets - begin, n = left < scratch->head_rows ? left : scratch->head_rows;
        for (size_t i = 0; i < n; i++) {
            final_norm(worker, worker->targets[begin + i].row, i);
        }
        head_forward(worker, n, scratch->logits);
        for (size_t i = 0; i < n; i++) {
            target_loss(worker, &worker->targets[begin + i], scratch->logits + i * vocab_size);
        }
        if (worker->wants_gradient) {
            head_backward(worker, begin, n);
        }
    }
}

void ew_head_logits(ew_worker *worker, real *logits) {
    for (size_t row = 0; row < worker->rows.n_rows; row++) {
        final_norm(worker, row, row);
    }
    head_forward(worker, worker->rows.n_rows, logits);
}
