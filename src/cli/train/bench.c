/* edgewise bench --train: steps of training an adapter, timed, and the memory that they took. */
#include "cli/train/bench.h"
#include "base/memory.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/train/train.h"
#include "model/synthetic.h"
#include "train/network.h"
#include "train/optimizer.h"
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MOST = 1000 };

typedef struct request {
    int shape; /* index of a synthetic shape */
    const char *file;
    size_t batch, length, prompt, rank, steps, pack_rows, n_threads, group;
    int weights, scheme, activations, products;
    bool unmasked, checkpointing, json, train;
} request;

typedef struct bench {
    request request;
    ew_model *model; /* with packed weights; NULL: floats, the network's own */
    ew_network *network;
    ew_trainer *trainer;
    ew_adamw optimizer;
    const ew_kernels *kernels;
    ew_machine machine;
    ew_train_sequence *sequences; /* [batch] */
    int32_t *ids;                 /* [batch][prompt + length] */
    float *weights;               /* [prompt + length], of every sequence */
    double seconds[STEPS_MOST];
    size_t n_steps;
    ew_train_result result; /* of the last step */
    uint64_t checksum;      /* of the values trained, after the last step */
    size_t peak_memory;     /* of the process, when the last step was done */
} bench;

static bool masked(const request *q) {
    return q->prompt > 0 && !q->unmasked;
}

/* ---- What is trained ---- */

static ew_status open_shape(bench *b, const ew_lora_plan *plan, ew_error *error) {
    enum { CONTEXT = 1 << 17 };
    const request *q = &b->request;
    const char *shape = ew_synthetic_shape_names[q->shape];
    if (q->weights == 1) {
        ew_config config;
        ew_status status = ew_synthetic_config(shape, CONTEXT, &config, error);
        return status == EW_OK ? ew_network_random(&config, plan, 0, 1, &b->network, error) : status;
    }
    static const ew_matrix_format formats[] = {EW_MATRIX_INT4_SYMMETRIC, EW_MATRIX_INT4_OFFSET, EW_MATRIX_INT8};
    const ew_synthetic_options options = {
        .shape = shape,
        .format = formats[q->scheme],
        .group = q->group,
        .activations = q->activations == 0 ? EW_ACTIVATION_INT16 : EW_ACTIVATION_INT8,
        .context_length = CONTEXT,
    };
    ew_status status = ew_synthetic_model(&options, NULL, &b->model, error);
    return status == EW_OK ? ew_network_quantized(b->model, plan, &b->network, error) : status;
}

/* As training opens it, but without a tokenizer: texts are made up. */
static ew_status open_file(bench *b, const ew_lora_plan *plan, ew_error *error) {
    const request *q = &b->request;
    ew_checkpoint *checkpoint;
    ew_status status = ew_checkpoint_open(q->file, &checkpoint, error);
    if (status != EW_OK) {
        return status;
    }
    if (q->weights == 1 || ew_checkpoint_kind(checkpoint) != EW_CHECKPOINT_EDGEWISE) {
        status = ew_network_open(checkpoint, plan, &b->network, error);
        ew_checkpoint_close(checkpoint);
        return status;
    }
    ew_checkpoint_close(checkpoint);
    status = ew_model_open(q->file, NULL, &b->model, error);
    return status == EW_OK ? ew_network_quantized(b->model, plan, &b->network, error) : status;
}

static ew_status open_network(bench *b, ew_error *error) {
    const request *q = &b->request;
    ew_lora_plan plan = {.seed = 1};
    for (size_t kind = 0; kind < EW_LINEARS; kind++) {
        plan.modules[kind] = (ew_lora_module){q->rank, 2 * (double)q->rank};
    }
    ew_status status = q->file ? open_file(b, &plan, error) : open_shape(b, &plan, error);
    size_t wanted = q->prompt + q->length;
    if (status == EW_OK && wanted > b->network->config.context_length) {
        status = ew_fail(error, EW_ERROR_ARGUMENT, "%zu positions are asked for; this model was made for at most %zu",
                         wanted, b->network->config.context_length);
    }
    return status;
}

/* Made-up texts. Every token behind a prompt's next one is a target, and every one but the first where there is none: the
 * same targets with the mask and without. */
static ew_status make_batch(bench *b, ew_error *error) {
    const request *q = &b->request;
    size_t n = q->prompt + q->length, total;
    if (!ew_multiply_size(n, q->batch, &total)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a batch of %zu x %zu tokens does not fit memory", q->batch, n);
    }
    b->ids = ew_allocate(total, sizeof *b->ids);
    b->weights = ew_allocate(n, sizeof *b->weights);
    b->sequences = ew_allocate(q->batch, sizeof *b->sequences);
    if (!b->ids || !b->weights || !b->sequences) {
        return ew_fail_memory(error, total * sizeof *b->ids, "a batch");
    }
    for (size_t i = 0; i < total; i++) {
        b->ids[i] = (int32_t)((i * 7919 + i / n * 104729 + 17) % b->network->config.vocab_size);
    }
    for (size_t i = q->prompt + 1; i < n; i++) {
        b->weights[i] = 1;
    }
    for (size_t i = 0; i < q->batch; i++) {
        b->sequences[i] = (ew_train_sequence){b->ids + i * n, n, masked(q) ? q->prompt : 0, b->weights};
    }
    return EW_OK;
}

static ew_status open_all(bench *b, ew_error *error) {
    const request *q = &b->request;
    const ew_trainer_options options = {.n_threads = q->n_threads,
                                        .pack_rows = q->pack_rows,
                                        .checkpointing = q->checkpointing,
                                        .products = (ew_products_kind)q->products,
                                        .cancel = &ew_interrupted};
    ew_machine_describe(&b->machine);
    ew_status status = ew_kernels_select(&b->kernels, error);
    if (status == EW_OK) {
        status = open_network(b, error);
    }
    if (status == EW_OK) {
        status = make_batch(b, error);
    }
    if (status == EW_OK) {
        status = ew_trainer_open(b->network, &options, &b->trainer, error);
    }
    if (status == EW_OK) {
        b->machine.n_threads = ew_pool_size(ew_trainer_pool(b->trainer));
        b->optimizer = (ew_adamw)EW_ADAMW_INIT;
        status = ew_adamw_open(&b->optimizer, &b->network->parameters, error);
    }
    return status;
}

static void close_all(bench *b) {
    ew_adamw_close(&b->optimizer);
    ew_trainer_close(b->trainer);
    ew_network_close(b->network);
    ew_model_close(b->model);
    free(b->sequences);
    free(b->ids);
    free(b->weights);
}

/* ---- Steps ---- */

static ew_status run_step(bench *b, ew_error *error) {
    double start = ew_clock_seconds(), norm;
    ew_status status =
        ew_trainer_gradient(b->trainer, b->sequences, b->request.batch, NULL, b->optimizer.step, &b->result, error);
    if (status == EW_OK) {
        status = ew_adamw_step(&b->optimizer, &b->network->parameters, ew_trainer_gradient_vector(b->trainer), 1e-4,
                               ew_trainer_pool(b->trainer), &norm, error);
    }
    b->seconds[b->n_steps++] = ew_clock_seconds() - start;
    return status;
}

/* A sequence for each thread first, not timed: all memory is touched once. */
static ew_status run_steps(bench *b, ew_error *error) {
    const request *q = &b->request;
    size_t n_threads = ew_pool_size(ew_trainer_pool(b->trainer));
    ew_train_result result;
    ew_progress progress;
    ew_status status = ew_trainer_gradient(b->trainer, b->sequences, q->batch < n_threads ? q->batch : n_threads, NULL,
                                           0, &result, error);
    ew_progress_begin(&progress, "training", "steps", q->steps);
    while (status == EW_OK && b->n_steps < q->steps) {
        status = run_step(b, error);
        ew_progress_update(&progress, b->n_steps, NULL);
    }
    ew_progress_end(&progress);
    b->peak_memory = ew_peak_memory();
    b->checksum = ew_checksum_floats(b->network->parameters.values, b->network->parameters.total);
    return status;
}

/* ---- What is told ---- */

typedef struct summary {
    const char *name, *weights, *why_not;
    size_t trainer_memory; /* with the parameters and the optimizer's moments */
    double step, spread, tokens_per_s;
} summary;

static summary summarize(bench *b) {
    const request *q = &b->request;
    size_t values = 3 * b->network->parameters.total * sizeof(real);
    summary s = {.name = q->file ? q->file : ew_synthetic_shape_names[q->shape],
                 .weights = b->network->model ? "quantized" : "f32",
                 .trainer_memory = ew_trainer_memory(b->trainer) + values};
    s.step = ew_median(b->seconds, b->n_steps);
    s.spread = (b->seconds[b->n_steps - 1] - b->seconds[0]) / s.step;
    s.tokens_per_s = (double)(q->batch * q->length) / s.step;
    s.why_not = ew_machine_complaint(&b->machine, s.spread);
    return s;
}

static const char *products_of(const bench *b) {
    return ew_products_name((ew_products_kind)b->request.products);
}

static void print_table(const bench *b, const summary *s) {
    const request *q = &b->request;
    printf("%s, %s kernels, products by %s, %zu threads; load %.2f\n", b->machine.cpu, b->kernels->name, products_of(b),
           b->machine.n_threads, b->machine.load);
    printf("%s: %s weights; adapters of rank %zu on all linear layers, %zu values%s\n\n", s->name, s->weights, q->rank,
           b->network->parameters.total, q->checkpointing ? "; checkpointing" : "");
    printf(
        "phase    batch  prompt  length  masked  tokens/s   step ms  spread  peak MB  trainer MB    loss  checksum\n");
    printf("%-7s  %5zu  %6zu  %6zu  %6s  %8.1f  %8.0f  %5.1f%%  %7.0f  %10.0f  %6.3f  %016llx\n", "train", q->batch,
           q->prompt, q->length, masked(q) ? "yes" : "no", s->tokens_per_s, s->step * 1e3, s->spread * 100,
           (double)b->peak_memory * 1e-6, (double)s->trainer_memory * 1e-6, b->result.loss,
           (unsigned long long)b->checksum);
    if (s->why_not) {
        printf("\nNot a good measurement: %s. Run it again on a quiet machine.\n", s->why_not);
    }
}

static json_t *row_json(const bench *b, const summary *s) {
    const request *q = &b->request;
    const ew_model *model = b->network->model;
    char checksum[17];
    json_t *object = json_object();
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)b->checksum);
    ew_json_put(&object, "phase", json_string("train"));
    ew_json_put(&object, "shape", ew_json_repaired(s->name, strlen(s->name)));
    ew_json_put(&object, "weights", json_string(s->weights));
    if (model) {
        ew_json_put(&object, "group", json_integer((json_int_t)model->weights.layers[0].q.group));
        ew_json_put(&object, "activations",
                    json_string(model->weights.activations == EW_ACTIVATION_INT16 ? "int16" : "int8"));
    }
    ew_json_put(&object, "adapter_rank", json_integer((json_int_t)q->rank));
    ew_json_put(&object, "trained_values", json_integer((json_int_t)b->network->parameters.total));
    ew_json_put(&object, "batch", json_integer((json_int_t)q->batch));
    ew_json_put(&object, "prompt", json_integer((json_int_t)q->prompt));
    ew_json_put(&object, "length", json_integer((json_int_t)q->length));
    ew_json_put(&object, "masked", json_boolean(masked(q)));
    ew_json_put(&object, "checkpointing", json_boolean(q->checkpointing));
    ew_json_put(&object, "steps", json_integer((json_int_t)b->n_steps));
    ew_json_put(&object, "tokens_per_s", json_real(s->tokens_per_s));
    ew_json_put(&object, "step_ms", json_real(s->step * 1e3));
    ew_json_put(&object, "spread", json_real(s->spread));
    ew_json_put(&object, "peak_memory_bytes", json_integer((json_int_t)b->peak_memory));
    ew_json_put(&object, "trainer_bytes", json_integer((json_int_t)s->trainer_memory));
    ew_json_put(&object, "loss", json_real(b->result.loss));
    ew_json_put(&object, "checksum", json_string(checksum));
    return object;
}

static ew_status print_json(const bench *b, const summary *s, ew_error *error) {
    const ew_machine *m = &b->machine;
    json_t *machine = json_object(), *rows = json_array(), *object = json_object();
    ew_json_put(&machine, "cpu", ew_json_repaired(m->cpu, strlen(m->cpu)));
    ew_json_put(&machine, "isa", json_string(b->kernels->name));
    ew_json_put(&machine, "products", json_string(products_of(b)));
    ew_json_put(&machine, "threads", json_integer((json_int_t)m->n_threads));
    ew_json_put(&machine, "load", json_real(m->load));
    if (rows && json_array_append_new(rows, row_json(b, s)) != 0) {
        json_decref(rows);
        rows = NULL;
    }
    ew_json_put(&object, "machine", machine);
    ew_json_put(&object, "rows", rows);
    ew_json_put(&object, "good", json_boolean(s->why_not == NULL));
    if (s->why_not) {
        ew_json_put(&object, "why_not", json_string(s->why_not));
    }
    return ew_json_print(object, error);
}

static int run(bench *b) {
    ew_error error;
    ew_interrupt_install();
    ew_status status = open_all(b, &error);
    if (status == EW_OK) {
        status = run_steps(b, &error);
    }
    if (status == EW_OK) {
        summary s = summarize(b);
        if (b->request.json) {
            status = print_json(b, &s, &error);
        } else {
            print_table(b, &s);
        }
    }
    close_all(b);
    return status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
}

/* ---- The command line ---- */

static const char examples[] = "  edgewise bench --train --shape smollm2-135m --weights f32\n"
                               "  edgewise bench --train --shape qwen2.5-1.5b --batch 4 --checkpointing --steps 5\n"
                               "  edgewise bench --train -m smollm2.gguf --prompt 256 --length 256 --json\n";

static const char *const schemes[] = {"symmetric", "offset", "int8", NULL};
static const char *const types[] = {"int16", "int8", NULL};
static bool shape_given;
static bench measured = {.request = {.batch = 8, .length = 512, .rank = 16, .steps = 5, .group = 32}};
#define GIVEN measured.request

static const ew_option option_table[] = {
    {"train", 0, EW_OPTION_FLAG, &GIVEN.train, .help = "this benchmark"},
    {"shape", 0, EW_OPTION_CHOICE, &GIVEN.shape, .help = "random weights of this shape", .given = &shape_given,
     .choices = ew_synthetic_shape_names},
    {"model", 'm', EW_OPTION_TEXT, &GIVEN.file, .argument = "MODEL", .help = "a model instead: any that `train` takes"},
    {"weights", 0, EW_OPTION_CHOICE, &GIVEN.weights, .choices = ew_train_weights,
     .help = "f32: float weights in memory"},
    {"batch", 0, EW_OPTION_COUNT, &GIVEN.batch, .argument = "N", .help = "sequences of a step (8)", .least = 1,
     .most = 1 << 16},
    {"length", 0, EW_OPTION_COUNT, &GIVEN.length, .argument = "N", .help = "tokens of each response (512)", .least = 2,
     .most = 1 << 16},
    {"prompt", 0, EW_OPTION_COUNT, &GIVEN.prompt, .argument = "N",
     .help = "tokens of a prompt before it, by the base alone (0)", .most = 1 << 16},
    {"unmasked", 0, EW_OPTION_FLAG, &GIVEN.unmasked, .help = "the adapter is on in the prompt too"},
    {"rank", 0, EW_OPTION_COUNT, &GIVEN.rank, .argument = "N", .help = "of the adapter, on all linear layers (16)",
     .least = 1, .most = 4096},
    {"checkpointing", 0, EW_OPTION_FLAG, &GIVEN.checkpointing, .help = "less memory: activations are computed twice"},
    {"products", 0, EW_OPTION_CHOICE, &GIVEN.products, .choices = ew_products_options,
     .help = "of float matrices, as of `train sft`"},
    {"pack", 0, EW_OPTION_COUNT, &GIVEN.pack_rows, .argument = "N", .help = "tokens that a thread runs together (512)"},
    {"steps", 0, EW_OPTION_COUNT, &GIVEN.steps, .argument = "N", .help = "steps that are timed (5)", .least = 1,
     .most = STEPS_MOST},
    {"threads", 't', EW_OPTION_COUNT, &GIVEN.n_threads, .argument = "N", .help = "0: the fast cores (0)",
     .most = EW_THREADS_MAX},
    {"group", 0, EW_OPTION_COUNT, &GIVEN.group, .argument = "N",
     .help = "of a shape: inputs a scale: 32, 64, 128, 0 (32)"},
    {"scheme", 0, EW_OPTION_CHOICE, &GIVEN.scheme, .help = "weights of a shape (symmetric)", .choices = schemes},
    {"activations", 0, EW_OPTION_CHOICE, &GIVEN.activations, .help = "of a shape (int16)", .choices = types},
    {"json", 0, EW_OPTION_FLAG, &GIVEN.json, .help = "print one JSON object"},
};

static const ew_command command = {
    .name = "bench --train",
    .positionals = "",
    .summary = "Measures training: an adapter on random texts, response tokens a second and the memory it takes.",
    .examples = examples,
    .options = option_table,
    .n_options = sizeof option_table / sizeof *option_table,
};

int ew_cli_bench_train(int argc, char **argv) {
    const request *q = &GIVEN;
    const char *none[1];
    int exit_code;
    if (!ew_arguments_parse(&command, argc, argv, none, &exit_code)) {
        return exit_code;
    }
    if (q->file && shape_given) {
        return ew_usage_error(&command, "-m and --shape exclude each other");
    }
    if (!ew_matrix_group_exists(EW_MATRIX_INT4_SYMMETRIC, q->group)) {
        return ew_usage_error(&command, "--group is 32, 64, 128 or 0, not %zu", q->group);
    }
    return ew_cli_finish(run(&measured));
}
