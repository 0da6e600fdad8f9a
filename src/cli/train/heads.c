/* edgewise train switcher, edgewise train verifier: a head from labelled prompts, or from graded samples. */
#include "base/buffer.h"
#include "base/memory.h"
#include "cli/engine.h"
#include "cli/interrupt.h"
#include "cli/output_check.h"
#include "cli/progress.h"
#include "cli/train/train.h"
#include "train/head_features.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char default_text[] = "Is this solution correct? Answer yes or no.";

typedef struct request {
    ew_engine engine;
    ew_head_kind kind;
    const char *output, *text, *test;
    ew_head_fit_options fit;
    double threshold;
    ew_progress bar;
} request;

static void show_progress(void *context, size_t done, size_t total) {
    request *asked = context;
    if (done == 1) {
        ew_progress_begin(&asked->bar, "reading states", "lines", total);
    }
    ew_progress_update(&asked->bar, done, NULL);
}

static ew_status read_samples(request *asked, const char *data, ew_head_samples *samples, ew_error *error) {
    ew_head_drops drops = {0};
    const ew_head_source source = {.session = asked->engine.session,
                                   .path = data,
                                   .adapter = asked->engine.adapter,
                                   .text = asked->text,
                                   .chunk = 128,
                                   .mix = 0.5,
                                   .progress = show_progress,
                                   .context = asked};
    ew_status status = asked->kind == EW_HEAD_SWITCHER ? ew_switcher_features(&source, samples, &drops, error)
                                                       : ew_verifier_features(&source, samples, &drops, error);
    if (asked->bar.total > 0) {
        ew_progress_end(&asked->bar);
    }
    if (drops.n_dropped > 0) {
        fprintf(stderr, "edgewise: %s: %zu of %zu lines dropped, the first: %s\n", data, drops.n_dropped, drops.n_lines,
                drops.first.message);
    }
    return status;
}

/* The samples, and those of a test file behind them. */
static ew_status read_all(request *asked, const char *data, ew_head_samples *samples, ew_error *error) {
    ew_head_samples test = {0};
    ew_status status = read_samples(asked, data, samples, error);
    if (status == EW_OK && asked->test) {
        status = read_samples(asked, asked->test, &test, error);
        if (status == EW_OK) {
            status = ew_head_samples_add_test(samples, &test, error);
        }
    }
    ew_head_samples_free(&test);
    return status;
}

/* ---- What comes out ---- */

/* Of the test part: how many go where at each threshold. */
static void print_curve(const ew_head_report *report) {
    printf("\n%9s %10s %12s %12s\n", "threshold", "p above it", "of label 1", "of label 0");
    for (int step = 1; step <= 9; step++) {
        double threshold = step / 10.0;
        size_t above[2] = {0}, n[2] = {0};
        for (size_t i = 0; i < report->n_test; i++) {
            n[report->test[i].right]++;
            above[report->test[i].right] += report->test[i].score >= threshold;
        }
        printf("%9.1f %9.1f%% %11.1f%% %11.1f%%\n", threshold,
               100.0 * (double)(above[0] + above[1]) / (double)report->n_test, 100.0 * (double)above[1] / (double)n[1],
               100.0 * (double)above[0] / (double)n[0]);
    }
}

static void print_report(const request *asked, const ew_head_samples *samples, const ew_head_report *report) {
    printf("%s: %zu samples; %zu to learn from, %zu to stop and calibrate by, %zu to test (%zu of label 1)\n",
           asked->output, samples->n, report->n_train, report->n_validation, report->n_test, report->n_right_test);
    printf("best after %zu epochs of %zu, validation loss %.4f (class-weighted)\n", report->best_epoch,
           asked->fit.n_epochs, report->validation_loss);
    printf("test: AUC %.4f; the length alone %.4f; calibration error %.4f (before calibration %.4f)\n", report->auc,
           report->length_auc, report->calibration_error, report->uncalibrated_error);
    if (report->within.n_problems > 0 && asked->kind == EW_HEAD_VERIFIER) {
        printf(
            "test, within problems: AUC %.4f (95 %%: %.4f to %.4f), by pairs %.4f, %zu problems with both verdicts\n",
            report->within.mean, report->within.low, report->within.high, report->within.pair_weighted,
            report->within.n_problems);
    }
    print_curve(report);
}

static ew_status finish_head(const request *asked, ew_head *head, ew_error *error) {
    const char *weights = asked->engine.info.weights_fingerprint;
    snprintf(head->weights_fingerprint, sizeof head->weights_fingerprint, "%s", weights ? weights : "");
    head->threshold = asked->threshold;
    if (asked->kind == EW_HEAD_VERIFIER) {
        const char *adapter = asked->engine.adapter ? asked->engine.adapter->fingerprint : "";
        snprintf(head->adapter_fingerprint, sizeof head->adapter_fingerprint, "%s", adapter);
        head->text = ew_copy_text(asked->text, strlen(asked->text));
        if (!head->text) {
            return ew_fail_memory(error, strlen(asked->text), "a verification prompt");
        }
    }
    return ew_head_write(asked->output, head, error);
}

static ew_status train(request *asked, const char *model, const char *data, ew_error *error) {
    ew_head_samples samples = {0};
    ew_head head = {0};
    ew_head_report report = {0};
    const char *const inputs[] = {model, data, asked->test};
    ew_status status = ew_cli_check_output(asked->output, inputs, 3, error);
    if (status == EW_OK) {
        status = ew_engine_open(&asked->engine, model, true, error);
    }
    if (status == EW_OK) {
        status = read_all(asked, data, &samples, error);
    }
    asked->fit.cancel = &ew_interrupted;
    if (status == EW_OK) {
        status = ew_head_fit(asked->kind, &samples, &asked->fit, &head, &report, error);
    }
    if (status == EW_OK) {
        status = finish_head(asked, &head, error);
    }
    if (status == EW_OK) {
        print_report(asked, &samples, &report);
    }
    ew_head_report_free(&report);
    ew_head_free(&head);
    ew_head_samples_free(&samples);
    return status;
}

/* ---- Command lines ---- */

enum { FIT_OPTIONS = 8 };
static void fit_option_table(request *asked, ew_option *table) {
    const ew_option options[FIT_OPTIONS] = {
        {"output", 'o', EW_OPTION_TEXT, &asked->output, .argument = "OUT.gguf", .help = "the file to write (required)"},
        {"test", 0, EW_OPTION_TEXT, &asked->test, .argument = "FILE",
         .help = "test on the lines of this file, not on a fifth of the others"},
        {"epochs", 0, EW_OPTION_COUNT, &asked->fit.n_epochs, .argument = "N", .least = 1, .most = 100000,
         .help = "passes over the training part, 60; the best by the validation part is kept"},
        {"batch", 0, EW_OPTION_COUNT, &asked->fit.batch, .argument = "N", .least = 1, .most = 65536,
         .help = "samples a step, 64"},
        {"lr", 0, EW_OPTION_NUMBER, &asked->fit.rate, .argument = "R", .least = 1e-9, .most = 10,
         .help = "learning rate, 1e-3"},
        {"weight-decay", 0, EW_OPTION_NUMBER, &asked->fit.weight_decay, .argument = "D", .most = 100,
         .help = "of matrices, 0.01"},
        {"noise", 0, EW_OPTION_NUMBER, &asked->fit.noise, .argument = "S", .most = 100,
         .help = "added to states, in standard deviations of each channel, 0.5"},
        {"seed", 0, EW_OPTION_SEED, &asked->fit.seed, .argument = "N",
         .help = "of split, order, noise and beginning, 0"},
    };
    for (size_t i = 0; i < FIT_OPTIONS; i++) {
        table[i] = options[i];
    }
}

static int run(request *asked, const ew_command *command, int argc, char **argv) {
    const char *positionals[2];
    int exit_code;
    ew_error error = {0};
    if (!ew_arguments_parse(command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    if (!asked->output) {
        return ew_usage_error(command, "say where to write the result: -o OUT.gguf");
    }
    if (asked->text && asked->text[0] == '\0') {
        return ew_usage_error(command, "the verification prompt is empty");
    }
    ew_status status = train(asked, positionals[0], positionals[1], &error);
    ew_engine_close(&asked->engine);
    return ew_cli_finish(status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error));
}

int ew_cli_train_switcher(int argc, char **argv) {
    request asked = {.kind = EW_HEAD_SWITCHER, .fit = EW_HEAD_FIT_INIT, .threshold = 0.5};
    enum { OWN = 3 };
    ew_option options[OWN + FIT_OPTIONS + EW_ENGINE_OPTIONS] = {
        {"hidden", 0, EW_OPTION_COUNT, &asked.fit.n_hidden, .argument = "N", .least = 1, .most = EW_HEAD_MAX_HIDDEN,
         .help = "hidden units, 8"},
        {"dropout", 0, EW_OPTION_NUMBER, &asked.fit.dropout, .argument = "P", .most = 0.99,
         .help = "of hidden units, 0.2"},
        {"threshold", 0, EW_OPTION_NUMBER, &asked.threshold, .argument = "P", .most = 1,
         .help = "the head's own: p from which on a prompt is thought about, 0.5"},
    };
    fit_option_table(&asked, options + OWN);
    ew_engine_option_table(&asked.engine, options + OWN + FIT_OPTIONS);
    const ew_command command = {
        .name = "train switcher",
        .positionals = "MODEL DATA.jsonl",
        .summary = "Train the head that tells from a prompt whether thinking pays. A line of DATA has messages or "
                   "problem, and\n"
                   "label: 1, think; 0, answer at once. A fifth of the prompts is kept for the test.",
        .examples = "  edgewise train switcher model.gguf routes.jsonl -o switcher.gguf\n",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .least_positionals = 2,
        .most_positionals = 2,
    };
    return run(&asked, &command, argc, argv);
}

int ew_cli_train_verifier(int argc, char **argv) {
    request asked = {.kind = EW_HEAD_VERIFIER, .fit = EW_HEAD_FIT_INIT, .text = default_text, .threshold = 0.5};
    enum { OWN = 1 };
    ew_option options[OWN + FIT_OPTIONS + EW_ADAPTER_OPTIONS + EW_ENGINE_OPTIONS] = {
        {"text", 0, EW_OPTION_TEXT, &asked.text, .argument = "TEXT",
         .help = "the verification prompt, stored in the head; \"Is this solution correct? Answer yes or no.\""},
    };
    fit_option_table(&asked, options + OWN);
    ew_adapter_option_table(&asked.engine, options + OWN + FIT_OPTIONS);
    ew_engine_option_table(&asked.engine, options + OWN + FIT_OPTIONS + EW_ADAPTER_OPTIONS);
    const ew_command command = {
        .name = "train verifier",
        .positionals = "MODEL SAMPLES.jsonl",
        .summary =
            "Train the head that tells how likely an answer is right, on lines of `edgewise sample` by the same model\n"
            "and adapter. A fifth of the problems is kept for the test.",
        .examples = "  edgewise sample model.gguf problems.jsonl -n 8 --temperature 0.7 -o samples.jsonl\n"
                    "  edgewise train verifier model.gguf samples.jsonl -o verifier.gguf\n",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .least_positionals = 2,
        .most_positionals = 2,
    };
    return run(&asked, &command, argc, argv);
}
