/* edgewise train sft: adapters, or all weights, from examples of replies. */
#include "base/memory.h"
#include "base/sha256.h"
#include "cli/interrupt.h"
#include "cli/output_check.h"
#include "cli/progress.h"
#include "cli/train/examples.h"
#include "cli/train/train.h"
#include "train/output.h"
#include "train/sft.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the command line asks for. */
typedef struct request {
    const char *base, *data, *output, *log, *validation_path, *targets, *adapter, *chat_template;
    bool unmasked, full, from_nothing, float_weights, no_think, all_turns, plain_text, checkpointing, rslora, resume,
        bf16;
    bool alpha_given, rate_given, batch_given, dropout_given, beta2_given;
    size_t rank, batch, batch_tokens, epochs, steps, max_tokens, pack_rows, n_threads, evaluate_every, save_every;
    size_t keep_every, validation_last;
    double alpha, rate, warmup, decay, min_ratio, weight_decay, beta1, beta2, epsilon, clip, dropout, prompt_weight;
    int schedule, storage, products;
    uint64_t seed;
} request;

/* A run that is going on. */
typedef struct run {
    const request *asked;
    ew_train_base base;
    ew_examples examples; /* validation last */
    size_t n, n_validation;
    ew_trainer *trainer;
    FILE *log;
    ew_progress bar;
    double started, rows, first_validation, last_validation;
    char *checkpoint;
} run;

/* ---- Data ---- */

/* Reads both sets; the validation set stands behind the training set. */
static ew_status open_data(run *r, ew_error *error) {
    const request *asked = r->asked;
    const ew_example_form form = {.unmasked = asked->unmasked,
                                  .no_think = asked->no_think,
                                  .all_turns = asked->all_turns,
                                  .plain_text = asked->plain_text,
                                  .max_tokens = asked->max_tokens,
                                  .prompt_weight = asked->prompt_weight};
    ew_status status = ew_examples_read(&r->base, &form, asked->data, asked->validation_path, &r->examples, error);
    if (status != EW_OK) {
        return status;
    }
    r->n_validation = asked->validation_path ? r->examples.n_more : asked->validation_last;
    if (r->n_validation >= r->examples.n) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "%s has %zu examples: none is left when the last %zu are for validation", asked->data,
                       r->examples.n, r->n_validation);
    }
    r->n = r->examples.n - r->n_validation;
    return EW_OK;
}

/* ---- What is shown ---- */

static void write_log(run *r, const ew_sft_report *report) {
    if (!r->log) {
        return;
    }
    fprintf(r->log, "{\"step\": %llu", (unsigned long long)report->step);
    if (report->step > 0) {
        fprintf(r->log,
                ", \"epoch\": %zu, \"loss\": %.9g, \"rate\": %.9g, \"gradient_norm\": %.9g, \"targets\": %zu, "
                "\"tokens\": %zu, \"seconds\": %.4f, \"tokens_per_second\": %.1f, \"memory_bytes\": %zu",
                report->epoch, report->loss, report->rate, report->norm, report->n_targets, report->n_rows,
                report->seconds, (double)report->n_rows / report->seconds, report->memory);
    }
    if (!isnan(report->validation_loss)) {
        fprintf(r->log, ", \"validation_loss\": %.9g", report->validation_loss);
    }
    fprintf(r->log, "}\n");
    fflush(r->log);
}

static void show(void *context, const ew_sft_report *report) {
    run *r = context;
    char note[160];
    if (!isnan(report->validation_loss)) {
        r->first_validation = report->step == 0 ? report->validation_loss : r->first_validation;
        r->last_validation = report->validation_loss;
    }
    write_log(r, report);
    if (r->bar.total == 0) {
        ew_progress_begin(&r->bar, "training", "steps", report->n_steps);
    }
    if (report->step == 0) {
        return;
    }
    r->rows += (double)report->n_rows;
    int length =
        snprintf(note, sizeof note, "loss %.4f, rate %.2e, norm %.2f, %.0f tokens/s, %.0f MB", report->loss,
                 report->rate, report->norm, (double)report->n_rows / report->seconds, (double)report->memory / 1e6);
    if (!isnan(r->last_validation) && length > 0) {
        snprintf(note + length, sizeof note - (size_t)length, ", validation %.4f", r->last_validation);
    }
    ew_progress_update(&r->bar, report->step, note);
}

static void describe(const run *r) {
    const ew_network *network = r->base.network;
    size_t n_tokens = 0, n_targets = 0;
    for (size_t i = 0; i < r->n; i++) { /* the examples for validation stand behind these */
        n_tokens += r->examples.data.examples[i].length;
        n_targets += r->examples.data.examples[i].n_targets;
    }
    printf("%s: %zu %s trained; %zu examples, %zu tokens, %zu of them targets; %zu for validation; products by %s\n",
           r->base.path, network->parameters.total, network->dense ? "weights are" : "values of the adapter are", r->n,
           n_tokens, n_targets, r->n_validation, ew_products_name((ew_products_kind)r->asked->products));
    fflush(stdout);
}

/* ---- The run ---- */

static const char *const schedules[] = {"cosine", "linear", "constant", NULL};

/* All that is learned from, as the trainer sees it: the tokens, what each counts, and where the adapter begins. */
static void hash_data(const run *r, char hex[65]) {
    ew_sha256 hash;
    ew_sha256_begin(&hash);
    for (size_t i = 0; i < r->n; i++) {
        const ew_train_sequence *sequence = &r->examples.sequences[i];
        const uint64_t sizes[] = {sequence->n, sequence->prompt_length};
        ew_sha256_add(&hash, sizes, sizeof sizes);
        ew_sha256_add(&hash, sequence->ids, sequence->n * sizeof *sequence->ids);
        ew_sha256_add(&hash, sequence->weights, sequence->n * sizeof *sequence->weights);
    }
    ew_sha256_end_hex(&hash, hex);
}

/* Everything that decides the weights but the thread count: a run is resumed with the same. */
static ew_status describe_settings(const run *r, ew_buffer *text, ew_error *error) {
    const request *a = r->asked;
    const ew_train_base *base = &r->base;
    const ew_checkpoint *checkpoint = base->model ? base->model->checkpoint : base->checkpoint;
    char source[65] = "a configuration", data[65]; /* weights that begin at random have no other source */
    ew_status status = checkpoint ? ew_checkpoint_source_fingerprint(checkpoint, source, error) : EW_OK;
    if (status != EW_OK) {
        return status;
    }
    hash_data(r, data);
    ew_buffer_append_format(text, "base %s; weights %s; data %s (%zu examples); %s; rank %zu; alpha %g; rslora %d; ",
                            source,
                            a->float_weights ? "as floats"
                            : base->model    ? base->model->file.weights_fingerprint
                                             : "of a folder",
                            data, r->n,
                            a->full       ? (a->from_nothing ? "from nothing" : "full")
                            : a->unmasked ? "unmasked"
                                          : "masked",
                            a->rank, a->alpha, a->rslora);
    ew_buffer_append_format(
        text,
        "targets %s; dropout %g; epochs %zu; steps %zu; batch %zu; batch tokens %zu; rate %.15g; schedule %s; "
        "warmup %g; decay %g; min ratio %g; weight decay %g; betas %g %g; epsilon %g; clip %g; pack %zu; "
        "products %s; seed %llu",
        a->targets ? a->targets : "all", a->dropout, a->epochs, a->steps, a->batch, a->batch_tokens, a->rate,
        schedules[a->schedule], a->warmup, a->decay, a->min_ratio, a->weight_decay, a->beta1, a->beta2, a->epsilon,
        a->clip, a->pack_rows, ew_products_options[a->products], (unsigned long long)a->seed);
    return text->failed ? ew_fail_memory(error, 0, "the settings") : EW_OK;
}

static ew_status write_weights(const run *r, const char *path, ew_error *error) {
    const request *a = r->asked;
    static const ew_adapter_storage storages[] = {EW_ADAPTER_F32, EW_ADAPTER_F16, EW_ADAPTER_INT8};
    if (a->full) {
        return ew_train_write_model(&r->base, a->bf16, path, error);
    }
    return ew_train_write_adapter(&r->base, !a->unmasked, storages[a->storage], path, error);
}

/* OUT-step-N beside OUT: of a file, before its extension. */
static ew_status keep(void *context, uint64_t step, ew_error *error) {
    const run *r = context;
    const char *output = r->asked->output;
    size_t length = strlen(output), extension = strlen(".gguf");
    bool file = ew_train_is_file(output);
    ew_buffer path = {0};
    ew_buffer_append_format(&path, "%.*s-step-%llu%s", (int)(file ? length - extension : length), output,
                            (unsigned long long)step, file ? ".gguf" : "");
    ew_status status = path.failed ? ew_fail_memory(error, length, "a file name") : EW_OK;
    if (status == EW_OK) {
        status = write_weights(r, path.data, error);
    }
    ew_buffer_free(&path);
    return status;
}

static ew_sft_options sft_options(run *r, const char *settings) {
    const request *a = r->asked;
    ew_sft_options options = EW_SFT_OPTIONS_INIT;
    options.epochs = a->epochs;
    options.most_steps = a->steps;
    options.batch = a->batch;
    options.batch_tokens = a->batch_tokens;
    options.rate = a->rate;
    options.warmup = a->warmup;
    options.decay = a->decay;
    options.min_ratio = a->min_ratio;
    options.schedule = (ew_schedule_kind)a->schedule;
    options.beta1 = a->beta1;
    options.beta2 = a->beta2;
    options.epsilon = a->epsilon;
    options.weight_decay = a->weight_decay;
    options.clip = a->clip;
    options.seed = a->seed;
    options.evaluate_every = a->evaluate_every;
    options.save_every = a->save_every;
    options.keep_every = a->keep_every;
    options.keep = keep;
    options.checkpoint = r->checkpoint;
    options.resume = a->resume;
    options.lines = r->examples.lines;
    options.settings = settings;
    options.report = show;
    options.context = r;
    options.cancel = &ew_interrupted;
    return options;
}

static ew_status train(run *r, ew_error *error) {
    ew_buffer settings = {0};
    ew_status status = describe_settings(r, &settings, error);
    ew_sft_options options = sft_options(r, settings.data);
    const ew_train_sequence *sequences = r->examples.sequences;
    if (status == EW_OK) {
        status = ew_sft_run(r->base.network, r->trainer, sequences, r->n, sequences + r->n, r->n_validation, &options,
                            error);
    }
    if (r->bar.total > 0) {
        ew_progress_end(&r->bar);
    }
    ew_buffer_free(&settings);
    return status;
}

static ew_status open_log(run *r, ew_error *error) {
    if (!r->asked->log) {
        return EW_OK;
    }
    r->log = fopen(r->asked->log, r->asked->resume ? "a" : "w");
    return r->log ? EW_OK : ew_fail(error, EW_ERROR_IO, "cannot write %s: %s", r->asked->log, strerror(errno));
}

/* What stands in the way of writing is told before the work, not after it. */
static ew_status check_outputs(const run *r, ew_error *error) {
    const request *a = r->asked;
    const char *const inputs[] = {a->base, a->data, a->validation_path};
    ew_status status = ew_cli_check_output(a->output, inputs, 3, error);
    if (status == EW_OK && a->log) {
        status = ew_cli_check_output(a->log, inputs, 3, error);
    }
    if (status == EW_OK && !a->resume && access(r->checkpoint, F_OK) == 0) {
        status =
            ew_fail(error, EW_ERROR_ARGUMENT,
                    "%s is there, of a run that did not end: add --resume to go on with it, or remove it to begin anew",
                    r->checkpoint);
    }
    return status;
}

static ew_status prepare(run *r, const ew_train_base_options *options, ew_error *error) {
    const request *a = r->asked;
    ew_buffer path = {0};
    ew_buffer_append_format(&path, "%s.checkpoint", a->output);
    r->checkpoint = path.data;
    if (path.failed) {
        return ew_fail_memory(error, strlen(a->output), "a file name");
    }
    ew_status status = check_outputs(r, error);
    if (status == EW_OK) {
        status = ew_train_base_open(a->base, options, &r->base, error);
    }
    if (status == EW_OK) {
        status = ew_train_check_output(&r->base, a->output, error);
    }
    if (status == EW_OK) {
        status = open_data(r, error);
    }
    const ew_trainer_options trainer_options = {.n_threads = a->n_threads,
                                                .pack_rows = a->pack_rows,
                                                .checkpointing = a->checkpointing,
                                                .products = (ew_products_kind)a->products,
                                                .dropout = a->full ? 0 : a->dropout,
                                                .seed = a->seed,
                                                .cancel = &ew_interrupted};
    if (status == EW_OK) {
        status = ew_trainer_open(r->base.network, &trainer_options, &r->trainer, error);
    }
    return status == EW_OK ? open_log(r, error) : status;
}

static void finish(const run *r) {
    double seconds = ew_clock_seconds() - r->started;
    printf("%s: %.0f tokens in %.0f s", r->asked->output, r->rows, seconds);
    if (!isnan(r->last_validation)) {
        printf("; validation loss %.4f", r->last_validation);
    }
    if (!isnan(r->first_validation)) { /* a run that was resumed did not measure it: its log has it */
        printf(", %.4f before", r->first_validation);
    }
    printf("\n");
    remove(r->checkpoint); /* what it was for is written */
}

static int run_all(const request *asked, const ew_train_base_options *options) {
    run r = {.asked = asked, .started = ew_clock_seconds(), .first_validation = NAN, .last_validation = NAN};
    ew_error error;
    ew_interrupt_install();
    ew_status status = prepare(&r, options, &error);
    if (status == EW_OK) {
        describe(&r);
        status = train(&r, &error);
    }
    if (status == EW_OK) {
        status = write_weights(&r, asked->output, &error);
    }
    if (status == EW_OK) {
        finish(&r);
    } else if (status == EW_ERROR_CANCELLED) {
        fprintf(stderr, "edgewise: %s, and saved in %s; --resume goes on\n", error.message, r.checkpoint);
    }
    int exit_code = status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
    bool log_failed = r.log && ferror(r.log);
    if (((r.log && fclose(r.log) != 0) || log_failed) && exit_code == EW_EXIT_OK) {
        fprintf(stderr, "edgewise: %s is not whole: it could not be written\n", asked->log);
        exit_code = EW_EXIT_ERROR;
    }
    ew_trainer_close(r.trainer);
    ew_train_base_close(&r.base);
    ew_examples_free(&r.examples);
    free(r.checkpoint);
    return ew_cli_finish(exit_code);
}

/* ---- The command line ---- */

/* Comma-separated names of linear layers; false for an unknown one. */
static bool parse_targets(const request *asked, ew_lora_plan *plan) {
    static const char *const names[EW_LINEARS] = {"q", "k", "v", "o", "gate", "up", "down"};
    const ew_lora_module module = {asked->rank, asked->alpha};
    for (size_t kind = 0; !asked->targets && kind < EW_LINEARS; kind++) {
        plan->modules[kind] = module;
    }
    for (const char *at = asked->targets; at && *at;) {
        size_t length = strcspn(at, ","), kind = 0;
        while (kind < EW_LINEARS && (strlen(names[kind]) != length || strncmp(names[kind], at, length) != 0)) {
            kind++;
        }
        if (kind == EW_LINEARS) {
            return false;
        }
        plan->modules[kind] = module;
        at += length + (at[length] == ',');
    }
    return true;
}

/* What is not given is the paper's choice, which differs between adapters and whole models. */
static void fill_defaults(request *a) {
    a->full |= a->from_nothing;
    a->alpha = a->alpha_given ? a->alpha : 2 * (double)a->rank;
    a->rate = a->rate_given ? a->rate : a->full ? 1e-5 : 2e-4;
    a->batch = a->batch_given ? a->batch : a->full ? 128 : 64;
    a->beta2 = a->beta2_given ? a->beta2 : a->full ? 0.95 : 0.999;
    a->dropout = a->dropout_given ? a->dropout : a->full ? 0 : 0.1;
}

/* `folder/` as `folder`, since OUT.checkpoint stands beside OUT. A name too long for a path is left to fail as it is. */
static void strip_slashes(char *stripped, size_t size, const char **path) {
    size_t length = strlen(*path);
    if (length < size && length > 1 && (*path)[length - 1] == '/') {
        memcpy(stripped, *path, length + 1);
        while (length > 1 && stripped[length - 1] == '/') {
            stripped[--length] = '\0';
        }
        *path = stripped;
    }
}

static const char examples[] =
    "  edgewise train sft smollm2.gguf gsm8k.jsonl -o gsm8k.gguf --epochs 1 --batch 16 --validation-last 500\n"
    "  edgewise train sft smollm2.gguf data.jsonl -o adapter/ --unmasked --rank 128\n"
    "  edgewise train sft folder/ data.jsonl -o model/ --from-nothing --lr 1.8e-3 --batch-tokens 4096 --schedule "
    "constant\n";

static const char *const storages[] = {"f32", "f16", "int8", NULL};
static int weight;
static request given = {
    .rank = 16, .epochs = 5, .warmup = 0.1, .decay = 0.2, .beta1 = 0.9, .epsilon = 1e-8, .clip = 1, .save_every = 50};

static const ew_option option_table[] = {
    {"output", 'o', EW_OPTION_TEXT, &given.output, .argument = "OUT",
     .help = "an adapter: OUT.gguf, or a PEFT folder; --full: a Hugging Face folder"},
    {"unmasked", 0, EW_OPTION_FLAG, &given.unmasked, .help = "the adapter is on in the prompt too (plain LoRA)"},
    {"full", 0, EW_OPTION_FLAG, &given.full, .help = "train all weights of an unquantized model"},
    {"from-nothing", 0, EW_OPTION_FLAG, &given.from_nothing,
     .help = "all weights, random at first; BASE has config.json and a tokenizer"},
    {"weights", 0, EW_OPTION_CHOICE, &weight, .choices = ew_train_weights,
     .help = "f32: train the adapter on float weights"},
    {"adapter", 0, EW_OPTION_TEXT, &given.adapter, .argument = "PATH", .help = "go on from this adapter"},
    {"rank", 0, EW_OPTION_COUNT, &given.rank, .argument = "N", .least = 1, .most = 4096, .help = "of the adapter (16)"},
    {"alpha", 0, EW_OPTION_NUMBER, &given.alpha, .argument = "X", .help = "scale = alpha / rank (2 rank)",
     .given = &given.alpha_given, .least = 1e-6, .most = 1e6},
    {"rslora", 0, EW_OPTION_FLAG, &given.rslora, .help = "scale = alpha / sqrt(rank)"},
    {"targets", 0, EW_OPTION_TEXT, &given.targets, .argument = "LIST", .help = "of q,k,v,o,gate,up,down (all)"},
    {"dropout", 0, EW_OPTION_NUMBER, &given.dropout, .argument = "P", .help = "of the adapter's inputs (0.1)",
     .given = &given.dropout_given, .least = 0, .most = 0.9},
    {"epochs", 0, EW_OPTION_COUNT, &given.epochs, .argument = "N", .least = 1, .most = 10000,
     .help = "times through the data (5)"},
    {"steps", 0, EW_OPTION_COUNT, &given.steps, .argument = "N", .help = "most steps"},
    {"batch", 0, EW_OPTION_COUNT, &given.batch, .argument = "N", .help = "examples of a step (64; --full: 128)",
     .given = &given.batch_given, .least = 1, .most = 1 << 20},
    {"batch-tokens", 0, EW_OPTION_COUNT, &given.batch_tokens, .argument = "N",
     .help = "instead: examples until there are N tokens"},
    {"lr", 0, EW_OPTION_NUMBER, &given.rate, .argument = "X", .help = "peak learning rate (2e-4; --full: 1e-5)",
     .given = &given.rate_given, .least = 0, .most = 10},
    {"schedule", 0, EW_OPTION_CHOICE, &given.schedule, .choices = schedules,
     .help = "after the warm-up; constant: then linear over the last part"},
    {"warmup", 0, EW_OPTION_NUMBER, &given.warmup, .argument = "R", .help = "part of all steps (0.1)", .least = 0,
     .most = 1},
    {"decay", 0, EW_OPTION_NUMBER, &given.decay, .argument = "R", .help = "the last part of --schedule constant (0.2)",
     .least = 0, .most = 1},
    {"min-lr-ratio", 0, EW_OPTION_NUMBER, &given.min_ratio, .argument = "R",
     .help = "the last learning rate over the peak (0)", .least = 0, .most = 1},
    {"weight-decay", 0, EW_OPTION_NUMBER, &given.weight_decay, .argument = "X", .help = "on matrices (0)", .least = 0,
     .most = 10},
    {"beta1", 0, EW_OPTION_NUMBER, &given.beta1, .argument = "X", .help = "AdamW's (0.9)", .least = 0, .most = 0.9999},
    {"beta2", 0, EW_OPTION_NUMBER, &given.beta2, .argument = "X", .help = "AdamW's (0.999; --full: 0.95)",
     .given = &given.beta2_given, .least = 0, .most = 0.99999},
    {"clip", 0, EW_OPTION_NUMBER, &given.clip, .argument = "X", .help = "largest norm of the gradient (1; 0: off)",
     .least = 0, .most = 1e6},
    {"max-tokens", 0, EW_OPTION_COUNT, &given.max_tokens, .argument = "N",
     .help = "longer examples are dropped (the context)"},
    {"no-think", 0, EW_OPTION_FLAG, &given.no_think, .help = "solutions stand in the answer"},
    {"all-turns", 0, EW_OPTION_FLAG, &given.all_turns, .help = "an example of every reply of a conversation"},
    {"plain-text", 0, EW_OPTION_FLAG, &given.plain_text, .help = "take lines of `text` too"},
    {"prompt-weight", 0, EW_OPTION_NUMBER, &given.prompt_weight, .argument = "W",
     .help = "of prompt tokens in the loss (0)", .least = 0, .most = 1},
    {"validation", 0, EW_OPTION_TEXT, &given.validation_path, .argument = "FILE", .help = "examples to measure on"},
    {"validation-last", 0, EW_OPTION_COUNT, &given.validation_last, .argument = "N",
     .help = "the last N examples of DATA, not trained on"},
    {"evaluate-every", 0, EW_OPTION_COUNT, &given.evaluate_every, .argument = "N",
     .help = "steps between measurements"},
    {"save-every", 0, EW_OPTION_COUNT, &given.save_every, .argument = "N",
     .help = "steps between checkpoints, OUT.checkpoint (50; 0: on Ctrl-C only)"},
    {"keep-every", 0, EW_OPTION_COUNT, &given.keep_every, .argument = "N",
     .help = "steps between results that stay, OUT-step-N (none)"},
    {"resume", 0, EW_OPTION_FLAG, &given.resume, .help = "go on from OUT.checkpoint"},
    {"log", 0, EW_OPTION_TEXT, &given.log, .argument = "FILE", .help = "a JSON line a step"},
    {"storage", 0, EW_OPTION_CHOICE, &given.storage, .choices = storages, .help = "of the adapter (int8: GGUF only)"},
    {"bf16", 0, EW_OPTION_FLAG, &given.bf16, .help = "--full: write BF16 weights"},
    {"checkpointing", 0, EW_OPTION_FLAG, &given.checkpointing, .help = "less memory: activations are computed twice"},
    {"products", 0, EW_OPTION_CHOICE, &given.products, .choices = ew_products_options,
     .help = "of float matrices: bf16x3 is faster where there are AMX tiles, with an error of 1e-5 or so"},
    {"pack", 0, EW_OPTION_COUNT, &given.pack_rows, .argument = "N", .help = "tokens that a thread runs together (512)"},
    {"template", 0, EW_OPTION_TEXT, &given.chat_template, .argument = "NAME", .help = "the chat template"},
    {"threads", 't', EW_OPTION_COUNT, &given.n_threads, .argument = "N", .most = 256, .help = "threads to use"},
    {"seed", 0, EW_OPTION_SEED, &given.seed, .argument = "N", .help = "of order, first weights and dropout"},
};

static const ew_command command = {
    .name = "train sft",
    .positionals = "BASE DATA.jsonl -o OUT",
    .summary =
        "Train an adapter (or all weights) on replies. On a quantized model the forward pass is the engine's own.",
    .examples = examples,
    .options = option_table,
    .n_options = sizeof option_table / sizeof *option_table,
    .least_positionals = 2,
    .most_positionals = 2,
};

int ew_cli_train_sft(int argc, char **argv) {
    const char *positionals[2];
    int exit_code;
    char output[PATH_MAX];
    request *a = &given;
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    a->base = positionals[0];
    a->data = positionals[1];
    a->float_weights = weight == 1;
    if (!a->output) {
        return ew_usage_error(&command, "say where to write the result: -o OUT");
    }
    fill_defaults(a);
    strip_slashes(output, sizeof output, &a->output);
    if (!a->full && strcmp(storages[a->storage], "int8") == 0 && !ew_train_is_file(a->output)) {
        return ew_usage_error(&command, "--storage int8 is for GGUF files, and %s will be a PEFT folder", a->output);
    }
    if (a->full && (a->unmasked || a->adapter || a->float_weights)) {
        return ew_usage_error(&command, "--full trains all weights: it goes with no adapter and no option of one");
    }
    ew_train_base_options base = {.full = a->full,
                                  .from_nothing = a->from_nothing,
                                  .float_weights = a->float_weights,
                                  .chat_template = a->chat_template,
                                  .adapter = a->adapter,
                                  .seed = a->seed};
    base.plan.rslora = a->rslora;
    base.plan.seed = a->seed;
    if (!parse_targets(a, &base.plan)) {
        return ew_usage_error(&command, "--targets takes a list of q, k, v, o, gate, up, down; not \"%s\"", a->targets);
    }
    return run_all(a, &base);
}
