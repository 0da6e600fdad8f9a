#include "train/train.h"
#include "base/memory.h"
#include "train/openblas.h"
#include "train/pointwise.h"
#include "train/worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ew_trainer {
    ew_network *network;
    ew_trainer_options options;
    ew_pool *pool;
    ew_worker *workers; /* [n_workers] */
    size_t n_workers;
    real *gradient; /* [parameters.total] */
    double *costs;  /* of sequences, while they are assigned */
    size_t *order;
    size_t costs_capacity, order_capacity;
};

static void prepare_thread(void) {
    ew_float_enter();
}

static ew_status open_workers(ew_trainer *trainer, ew_error *error) {
    trainer->n_workers = ew_pool_size(trainer->pool);
    trainer->workers = ew_allocate(trainer->n_workers, sizeof *trainer->workers);
    trainer->gradient = ew_allocate_aligned(trainer->network->parameters.total, sizeof(real));
    if (!trainer->workers || !trainer->gradient) {
        return ew_fail_memory(error, trainer->network->parameters.total * sizeof(real), "a gradient");
    }
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < trainer->n_workers; i++) {
        status = ew_worker_open(&trainer->workers[i], trainer->network, &trainer->options, error);
    }
    return status;
}

ew_status ew_trainer_open(ew_network *network, const ew_trainer_options *options, ew_trainer **out, ew_error *error) {
    enum { PACK_ROWS = 512 };
    *out = NULL;
    if (!(options->dropout >= 0 && options->dropout < 1)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a dropout of %g makes no sense: 0 to below 1", options->dropout);
    }
    if (ew_products_check(options->products, error) != EW_OK) {
        return EW_ERROR_ARGUMENT;
    }
    ew_trainer *trainer = ew_allocate(1, sizeof *trainer);
    if (!trainer) {
        return ew_fail_memory(error, sizeof *trainer, "a trainer");
    }
    trainer->network = network;
    trainer->options = *options;
    if (trainer->options.pack_rows == 0) {
        trainer->options.pack_rows = PACK_ROWS;
    }
    ew_pointwise_choose();
    ew_status status = ew_openblas_load(error);
    if (status == EW_OK) {
        status = ew_pool_create(options->n_threads, prepare_thread, &trainer->pool, error);
    }
    if (status == EW_OK) {
        status = open_workers(trainer, error);
    }
    if (status != EW_OK) {
        ew_trainer_close(trainer);
        return status;
    }
    *out = trainer;
    return EW_OK;
}

void ew_trainer_close(ew_trainer *trainer) {
    if (!trainer) {
        return;
    }
    for (size_t i = 0; trainer->workers && i < trainer->n_workers; i++) {
        ew_worker_close(&trainer->workers[i]);
    }
    free(trainer->workers);
    free(trainer->gradient);
    free(trainer->costs);
    free(trainer->order);
    ew_pool_destroy(trainer->pool);
    free(trainer);
}

/* ---- A batch ---- */

static ew_status check_sequence(const ew_trainer *trainer, const ew_train_sequence *sequence, size_t index,
                                ew_error *error) {
    size_t vocab_size = trainer->network->config.vocab_size;
    if (sequence->n < 2 || sequence->prompt_length >= sequence->n) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "sequence %zu has %zu tokens of which %zu are its prompt: nothing can be learned from it", index,
                       sequence->n, sequence->prompt_length);
    }
    if (trainer->network->dense && sequence->prompt_length > 0) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "sequence %zu has a prompt for the base: in dense training there is none", index);
    }
    for (size_t i = 0; i < sequence->n; i++) {
        if (sequence->ids[i] < 0 || (size_t)sequence->ids[i] >= vocab_size) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "sequence %zu, token %zu: %d does not exist: ids are 0 to %zu",
                           index, i, sequence->ids[i], vocab_size - 1);
        }
    }
    return EW_OK;
}

/* Products of a row and attention of all rows before it, in units that only have to be about right. */
static double cost_of(const ew_network *network, const ew_train_sequence *sequence) {
    const ew_config *config = &network->config;
    double layer = (double)config->d_model * (double)(2 * config->n_heads * config->head_dim + 3 * config->d_ff);
    double own = (double)ew_own_rows(sequence), prompt = (double)sequence->prompt_length;
    double linear = layer * (double)config->n_layers + (double)config->d_model * (double)config->vocab_size;
    double reading = (double)(config->n_layers * config->n_heads * config->head_dim);
    return linear * (3 * own + prompt) + reading * (6 * own * (prompt + own / 2) + prompt * prompt);
}

/* Sorts order[n] by descending cost, equal costs by index (a heap sort: no recursion, no worst case). */
static bool before(const double *costs, size_t a, size_t b) {
    return costs[a] != costs[b] ? costs[a] > costs[b] : a < b;
}

static void sift_down(const double *costs, size_t *order, size_t root, size_t n) {
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(costs, order[child], order[child + 1])) {
            child++;
        }
        if (!before(costs, order[root], order[child])) {
            return;
        }
        size_t held = order[root];
        order[root] = order[child];
        order[child] = held;
    }
}

static void sort_by_cost(const double *costs, size_t *order, size_t n) {
    for (size_t i = n / 2; i-- > 0;) {
        sift_down(costs, order, i, n);
    }
    for (size_t end = n; end-- > 1;) {
        size_t held = order[0];
        order[0] = order[end];
        order[end] = held;
        sift_down(costs, order, 0, end);
    }
}

/* The largest sequence that is left goes to the worker that has least: the same for the same batch and thread count. */
static ew_status assign(ew_trainer *trainer, const ew_train_sequence *sequences, size_t n, ew_error *error) {
    if (!ew_grow((void **)&trainer->costs, &trainer->costs_capacity, n, sizeof *trainer->costs) ||
        !ew_grow((void **)&trainer->order, &trainer->order_capacity, n, sizeof *trainer->order)) {
        return ew_fail_memory(error, n * sizeof *trainer->costs, "a batch");
    }
    double load[EW_THREADS_MAX] = {0};
    for (size_t i = 0; i < trainer->n_workers; i++) {
        ew_worker *worker = &trainer->workers[i];
        worker->n_assigned = 0;
        if (!ew_grow((void **)&worker->assigned, &worker->assigned_capacity, n, sizeof *worker->assigned)) {
            return ew_fail_memory(error, n * sizeof *worker->assigned, "a batch");
        }
    }
    for (size_t i = 0; i < n; i++) {
        trainer->costs[i] = cost_of(trainer->network, &sequences[i]);
        trainer->order[i] = i;
    }
    sort_by_cost(trainer->costs, trainer->order, n);
    for (size_t i = 0; i < n; i++) {
        size_t least = 0;
        for (size_t j = 1; j < trainer->n_workers; j++) {
            least = load[j] < load[least] ? j : least;
        }
        ew_worker *worker = &trainer->workers[least];
        worker->assigned[worker->n_assigned++] = trainer->order[i];
        load[least] += trainer->costs[trainer->order[i]];
    }
    return EW_OK;
}

/* The weights of targets that count. */
static double total_weight(const ew_train_sequence *sequences, size_t n) {
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t t = sequences[i].prompt_length + 1; t < sequences[i].n; t++) {
            total += (double)sequences[i].weights[t];
        }
    }
    return total;
}

static void run_workers(void *context, size_t begin, size_t end) {
    ew_trainer *trainer = context;
    for (size_t i = begin; i < end; i++) {
        ew_worker_run(&trainer->workers[i]);
    }
}

typedef struct reduction {
    const ew_trainer *trainer;
    size_t chunk;
} reduction;

/* In the workers' order, whoever does it. */
static void sum_gradients(void *context, size_t begin, size_t end) {
    const reduction *r = context;
    const ew_trainer *trainer = r->trainer;
    size_t first = begin * r->chunk, last = end * r->chunk;
    last = last < trainer->network->parameters.total ? last : trainer->network->parameters.total;
    memcpy(trainer->gradient + first, trainer->workers[0].gradient + first, (last - first) * sizeof(real));
    for (size_t w = 1; w < trainer->n_workers; w++) {
        const real *more = trainer->workers[w].gradient;
        for (size_t i = first; trainer->workers[w].n_assigned > 0 && i < last; i++) {
            trainer->gradient[i] += more[i];
        }
    }
}

static ew_status prepare(ew_trainer *trainer, const ew_train_sequence *sequences, size_t n, const ew_train_loss *loss,
                         uint64_t step, bool wants_gradient, ew_train_result *result, ew_error *error) {
    ew_status status = n == 0 ? ew_fail(error, EW_ERROR_ARGUMENT, "a batch without a sequence") : EW_OK;
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        status = check_sequence(trainer, &sequences[i], i, error);
    }
    if (status == EW_OK) {
        status = assign(trainer, sequences, n, error);
    }
    if (status != EW_OK) {
        return status;
    }
    *result = (ew_train_result){.weight = total_weight(sequences, n)};
    double divisor = loss && loss->divisor > 0 ? loss->divisor : result->weight;
    if (!(divisor > 0)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "no token of the batch is a target");
    }
    for (size_t i = 0; i < trainer->n_workers; i++) {
        ew_worker *worker = &trainer->workers[i];
        worker->sequences = sequences;
        worker->loss = loss;
        worker->divisor = divisor;
        worker->step = step;
        worker->wants_gradient = wants_gradient;
        if (wants_gradient && !worker->gradient) {
            worker->gradient = ew_allocate_aligned(trainer->network->parameters.total, sizeof(real));
            if (!worker->gradient) {
                return ew_fail_memory(error, trainer->network->parameters.total * sizeof(real), "a worker's gradient");
            }
        }
    }
    return EW_OK;
}

static ew_status run_batch(ew_trainer *trainer, const ew_train_sequence *sequences, size_t n, const ew_train_loss *loss,
                           uint64_t step, bool wants_gradient, ew_train_result *result, ew_error *error) {
    ew_status status = prepare(trainer, sequences, n, loss, step, wants_gradient, result, error);
    if (status == EW_OK) {
        status = ew_network_publish(trainer->network, error);
    }
    if (status != EW_OK) {
        return status;
    }
    ew_float_state state = ew_float_enter();
    ew_pool_run(trainer->pool, trainer->n_workers, 1, run_workers, trainer);
    ew_float_leave(state);
    double sum = 0;
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const ew_worker *worker = &trainer->workers[i];
        if (worker->status != EW_OK) {
            return ew_fail(error, worker->status, "%s", worker->error.message);
        }
        sum += worker->loss_sum;
        result->n_targets += worker->result.n_targets;
        result->n_rows += worker->result.n_rows;
        result->n_prompt += worker->result.n_prompt;
    }
    result->loss = sum / trainer->workers[0].divisor;
    return EW_OK;
}

ew_status ew_trainer_evaluate(ew_trainer *trainer, const ew_train_sequence *sequences, size_t n,
                              const ew_train_loss *loss, ew_train_result *result, ew_error *error) {
    return run_batch(trainer, sequences, n, loss, 0, false, result, error);
}

ew_status ew_trainer_gradient(ew_trainer *trainer, const ew_train_sequence *sequences, size_t n,
                              const ew_train_loss *loss, uint64_t step, ew_train_result *result, ew_error *error) {
    enum { CHUNK = 1 << 16 };
    ew_status status = run_batch(trainer, sequences, n, loss, step, true, result, error);
    if (status == EW_OK) {
        reduction r = {trainer, CHUNK};
        ew_pool_run(trainer->pool, (trainer->network->parameters.total + CHUNK - 1) / CHUNK, 1, sum_gradients, &r);
    }
    return status;
}

ew_status ew_trainer_logits(ew_trainer *trainer, const ew_train_sequence *sequence, real *logits, ew_error *error) {
    ew_train_result result;
    ew_train_loss loss = {.divisor = 1};
    trainer->workers[0].logits_out = logits;
    ew_status status = run_batch(trainer, sequence, 1, &loss, 0, false, &result, error);
    trainer->workers[0].logits_out = NULL;
    return status;
}

real *ew_trainer_gradient_vector(ew_trainer *trainer) {
    return trainer->gradient;
}

ew_pool *ew_trainer_pool(ew_trainer *trainer) {
    return trainer->pool;
}

size_t ew_trainer_memory(const ew_trainer *trainer) {
    size_t bytes = trainer->network->parameters.total * sizeof(real);
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const ew_worker *worker = &trainer->workers[i];
        bytes += worker->memory_size + (worker->gradient ? trainer->network->parameters.total * sizeof(real) : 0);
    }
    return bytes;
}
