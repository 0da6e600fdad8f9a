/* edgewise train loss: how likely the replies of a file are, example by example, and against another model's figures. */
#include "base/file.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output_check.h"
#include "cli/progress.h"
#include "cli/train/examples.h"
#include "cli/train/train.h"
#include "format/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct request {
    const char *base, *data, *output, *against, *adapter, *chat_template;
    ew_example_form form;
    bool float_weights, json;
    size_t last, n_threads;
} request;

/* An example's loss, in nats over its targets. */
typedef struct example_loss {
    size_t line, n_targets;
    double loss;
} example_loss;

typedef struct run {
    const request *asked;
    ew_train_base base;
    ew_examples examples;
    ew_trainer *trainer;
    const ew_train_sequence *sequences; /* [n]: the last ones, where only those are asked for */
    const size_t *lines;
    size_t n;
    example_loss *losses; /* [n] */
    example_loss *others; /* [n_others], of --against */
    size_t n_others, others_capacity;
} run;

/* ---- Measuring ---- */

/* -log p of one example's targets. */
static example_loss sum_targets(const ew_train_sequence *sequence, size_t line, const float *log_probabilities) {
    example_loss sum = {.line = line};
    for (size_t t = sequence->prompt_length + 1; t < sequence->n; t++) {
        if (sequence->weights[t] == 1) {
            sum.loss -= (double)log_probabilities[t];
            sum.n_targets++;
        }
    }
    return sum;
}

/* Examples begin .. begin + n - 1; rows[n] are for their log-probabilities. */
static ew_status measure_batch(run *r, size_t begin, size_t n, float **rows, ew_error *error) {
    const ew_train_loss loss = {.log_probabilities = rows};
    ew_train_result result;
    ew_status status = ew_trainer_evaluate(r->trainer, r->sequences + begin, n, &loss, &result, error);
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        r->losses[begin + i] = sum_targets(&r->sequences[begin + i], r->lines[begin + i], rows[i]);
    }
    return status;
}

static ew_status measure(run *r, ew_error *error) {
    enum { BATCH = 32 };
    size_t longest = 0;
    for (size_t i = 0; i < r->n; i++) {
        longest = r->sequences[i].n > longest ? r->sequences[i].n : longest;
    }
    float *room = ew_allocate(longest, BATCH * sizeof *room), *rows[BATCH];
    if (!room) {
        return ew_fail_memory(error, longest * BATCH * sizeof *room, "log-probabilities");
    }
    for (size_t i = 0; i < BATCH; i++) {
        rows[i] = room + i * longest;
    }
    ew_progress bar;
    ew_progress_begin(&bar, "measuring", "examples", r->n);
    ew_status status = EW_OK;
    for (size_t begin = 0; status == EW_OK && begin < r->n; begin += BATCH) {
        size_t n = r->n - begin < BATCH ? r->n - begin : BATCH;
        status = measure_batch(r, begin, n, rows, error);
        ew_progress_update(&bar, begin + n, NULL);
    }
    ew_progress_end(&bar);
    free(room);
    return status;
}

/* ---- Files of losses ---- */

static ew_status write_losses(const run *r, ew_error *error) {
    if (!r->asked->output) {
        return EW_OK;
    }
    ew_output file = {0};
    ew_status status = ew_output_open(r->asked->output, &file, error);
    for (size_t i = 0; status == EW_OK && i < r->n; i++) {
        char line[128];
        int length = snprintf(line, sizeof line, "{\"line\": %zu, \"targets\": %zu, \"loss\": %.9g}\n",
                              r->losses[i].line, r->losses[i].n_targets, r->losses[i].loss);
        status = ew_output_write(&file, line, (size_t)length, error);
    }
    if (status == EW_OK) {
        return ew_output_commit(&file, error);
    }
    ew_output_abandon(&file);
    return status;
}

/* A line that an earlier run wrote. */
static ew_status take_other(void *context, const json_t *object, const char *where, ew_error *error) {
    run *r = context;
    example_loss other = {0};
    bool found[3] = {false};
    ew_status status = ew_json_get_size(object, "line", where, &found[0], &other.line, error);
    if (status == EW_OK) {
        status = ew_json_get_size(object, "targets", where, &found[1], &other.n_targets, error);
    }
    if (status == EW_OK) {
        status = ew_json_get_number(object, "loss", where, &found[2], &other.loss, error);
    }
    if (status == EW_OK && !(found[0] && found[1] && found[2])) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s: no line of `edgewise train loss -o`", where);
    }
    if (status == EW_OK && !ew_grow((void **)&r->others, &r->others_capacity, r->n_others + 1, sizeof other)) {
        status = ew_fail_memory(error, sizeof other, "losses");
    }
    if (status == EW_OK) {
        r->others[r->n_others++] = other;
    }
    return status;
}

/* ---- What comes out ---- */

typedef struct figures {
    double mean, half;             /* nats a target */
    double difference, other_half; /* less the others' mean, of --against */
    size_t n_targets;
} figures;

/* The two files' examples must be the same ones. */
static ew_status compare(const run *r, double *values, double *weights, figures *f, ew_error *error) {
    for (size_t i = 0; i < r->n; i++) {
        const example_loss *own = &r->losses[i], *other = &r->others[i];
        if (own->line != other->line || own->n_targets != other->n_targets) {
            return ew_fail(
                error, EW_ERROR_ARGUMENT,
                "%s, example %zu: line %zu with %zu targets, here line %zu with %zu: only the same data can be "
                "compared",
                r->asked->against, i + 1, other->line, other->n_targets, own->line, own->n_targets);
        }
        values[i] = own->loss - other->loss;
    }
    ew_ratio_of_sums(values, weights, r->n, &f->difference, &f->other_half);
    return EW_OK;
}

static ew_status find_figures(const run *r, figures *f, ew_error *error) {
    *f = (figures){0};
    double *values = ew_allocate(r->n, 2 * sizeof *values), *weights = values + r->n;
    if (!values) {
        return ew_fail_memory(error, r->n * 2 * sizeof *values, "losses");
    }
    for (size_t i = 0; i < r->n; i++) {
        values[i] = r->losses[i].loss;
        weights[i] = (double)r->losses[i].n_targets;
        f->n_targets += r->losses[i].n_targets;
    }
    ew_ratio_of_sums(values, weights, r->n, &f->mean, &f->half);
    ew_status status = r->asked->against ? compare(r, values, weights, f, error) : EW_OK;
    free(values);
    return status;
}

static ew_status print_json(const run *r, const figures *f, ew_error *error) {
    json_t *object = json_object();
    ew_json_put_count(&object, "examples", r->n);
    ew_json_put_count(&object, "targets", f->n_targets);
    ew_json_put(&object, "loss", json_real(f->mean));
    ew_json_put(&object, "half", json_real(f->half));
    if (r->asked->against) {
        ew_json_put(&object, "difference", json_real(f->difference));
        ew_json_put(&object, "difference_half", json_real(f->other_half));
    }
    return ew_json_print(object, error);
}

static void print_figures(const run *r, const figures *f) {
    printf("loss %.4f +- %.4f a token (perplexity %.3f), %zu examples, %zu targets\n", f->mean, f->half, exp(f->mean),
           r->n, f->n_targets);
    if (r->asked->against) {
        printf("less that of %s: %+.4f +- %.4f, example by example\n", r->asked->against, f->difference, f->other_half);
    }
}

/* ---- The run ---- */

static ew_status prepare(run *r, ew_error *error) {
    const request *a = r->asked;
    /* Without an adapter, one that adds nothing: a fresh one's B is 0. */
    ew_train_base_options base = {
        .float_weights = a->float_weights, .chat_template = a->chat_template, .adapter = a->adapter};
    base.plan.modules[EW_LINEAR_Q] = (ew_lora_module){1, 1};
    const char *const inputs[] = {a->base, a->data, a->against, a->adapter};
    ew_status status = a->output ? ew_cli_check_output(a->output, inputs, 4, error) : EW_OK;
    if (status == EW_OK && a->against) {
        status = ew_json_read_lines(a->against, take_other, r, error);
    }
    if (status == EW_OK) {
        status = ew_train_base_open(a->base, &base, &r->base, error);
    }
    if (status == EW_OK) {
        status = ew_examples_read(&r->base, &a->form, a->data, NULL, &r->examples, error);
    }
    if (status != EW_OK) {
        return status;
    }
    r->n = a->last > 0 && a->last < r->examples.n ? a->last : r->examples.n;
    r->sequences = r->examples.sequences + r->examples.n - r->n;
    r->lines = r->examples.lines + r->examples.n - r->n;
    if (a->against && r->n_others != r->n) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "%s has %zu examples, this run %zu: only the same ones can be compared", a->against, r->n_others,
                       r->n);
    }
    r->losses = ew_allocate(r->n, sizeof *r->losses);
    if (!r->losses) {
        return ew_fail_memory(error, r->n * sizeof *r->losses, "losses");
    }
    const ew_trainer_options options = {.n_threads = a->n_threads, .cancel = &ew_interrupted};
    return ew_trainer_open(r->base.network, &options, &r->trainer, error);
}

static int run_all(const request *asked) {
    run r = {.asked = asked};
    figures f;
    ew_error error;
    ew_interrupt_install();
    ew_status status = prepare(&r, &error);
    if (status == EW_OK) {
        status = measure(&r, &error);
    }
    if (status == EW_OK) {
        status = write_losses(&r, &error);
    }
    if (status == EW_OK) {
        status = find_figures(&r, &f, &error);
    }
    if (status == EW_OK && asked->json) {
        status = print_json(&r, &f, &error);
    } else if (status == EW_OK) {
        print_figures(&r, &f);
    }
    ew_trainer_close(r.trainer);
    ew_examples_free(&r.examples);
    ew_train_base_close(&r.base);
    free(r.losses);
    free(r.others);
    return ew_cli_finish(status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error));
}

/* ---- The command line ---- */

static int weight;
static request given;

static const ew_option option_table[] = {
    {"adapter", 0, EW_OPTION_TEXT, &given.adapter, .argument = "PATH", .help = "with this adapter on in the replies"},
    {"weights", 0, EW_OPTION_CHOICE, &weight, .choices = ew_train_weights, .help = "f32: float weights"},
    {"unmasked", 0, EW_OPTION_FLAG, &given.form.unmasked, .help = "the adapter is on in the prompt too"},
    {"last", 0, EW_OPTION_COUNT, &given.last, .argument = "N", .help = "the last N examples (all)"},
    {"output", 'o', EW_OPTION_TEXT, &given.output, .argument = "FILE", .help = "a JSON line for each example"},
    {"against", 0, EW_OPTION_TEXT, &given.against, .argument = "FILE",
     .help = "such a file of another model on the same data: the difference, example by example"},
    {"json", 0, EW_OPTION_FLAG, &given.json, .help = "the figures as one JSON object"},
    {"max-tokens", 0, EW_OPTION_COUNT, &given.form.max_tokens, .argument = "N",
     .help = "longer examples are dropped (the context)"},
    {"no-think", 0, EW_OPTION_FLAG, &given.form.no_think, .help = "solutions stand in the answer"},
    {"all-turns", 0, EW_OPTION_FLAG, &given.form.all_turns, .help = "an example of every reply of a conversation"},
    {"template", 0, EW_OPTION_TEXT, &given.chat_template, .argument = "NAME", .help = "the chat template"},
    {"threads", 't', EW_OPTION_COUNT, &given.n_threads, .argument = "N", .most = 256, .help = "threads to use"},
};

static const ew_command command = {
    .name = "train loss",
    .positionals = "BASE DATA.jsonl",
    .summary = "Measure how likely the replies of DATA are, in the form in which `train sft` trains on them.",
    .examples =
        "  edgewise train loss model.gguf gsm8k.jsonl --last 500 -o without.jsonl\n"
        "  edgewise train loss model.gguf gsm8k.jsonl --last 500 --adapter think.gguf --against without.jsonl\n",
    .options = option_table,
    .n_options = sizeof option_table / sizeof *option_table,
    .least_positionals = 2,
    .most_positionals = 2,
};

int ew_cli_train_loss(int argc, char **argv) {
    const char *positionals[2];
    int exit_code;
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    given.base = positionals[0];
    given.data = positionals[1];
    given.float_weights = weight == 1;
    return run_all(&given);
}
