/* edgewise quantize: any model that Edgewise reads into a file of 4-bit weights. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "quant/quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show_progress(void *context, const ew_quantize_progress *progress) {
    ew_progress *bar = context;
    if (bar->total == 0) {
        ew_progress_begin(bar, "quantizing", "weights", progress->weights_total);
    }
    ew_progress_update(bar, progress->weights_done, progress->tensor);
}

static const char *scheme_name(ew_quantize_scheme scheme) {
    return scheme == EW_SCHEME_KEEP ? "keep" : scheme == EW_SCHEME_OFFSET ? "offset" : "symmetric";
}

static void print_layer(ew_layer_kind kind, const ew_layer_loss *loss) {
    char format[40], worst[80] = "-";
    if (loss->group == 0) {
        snprintf(format, sizeof format, "%s, per row", ew_matrix_format_name(loss->format));
    } else {
        snprintf(format, sizeof format, "%s, group %zu", ew_matrix_format_name(loss->format), loss->group);
    }
    double relative = loss->squared_weights > 0 ? sqrt(loss->squared_error / loss->squared_weights) : 0;
    if (loss->worst_row_error > 0) {
        snprintf(worst, sizeof worst, "%.4f  %s row %zu", loss->worst_row_error, loss->worst_tensor,
                 loss->worst_row);
    }
    printf("%-10s %8zu %7.3f  %-26s %10.5f  %s\n", ew_layer_kind_name(kind), loss->n_matrices,
           8.0 * (double)loss->stored_bytes / (double)loss->n_weights, format, relative, worst);
}

static void print_report(const char *output, const ew_quantize_report *report, double seconds) {
    printf("%-10s %8s %7s  %-26s %10s  %s\n", "layers", "matrices", "bits", "format", "error", "worst row");
    for (int kind = 0; kind < EW_LAYER_KINDS; kind++) {
        if (report->layers[kind].n_matrices > 0) {
            print_layer((ew_layer_kind)kind, &report->layers[kind]);
        }
    }
    if (report->head_is_embedding) {
        printf("%-10s is the embedding, stored once\n", "head");
    }
    printf("\nThe error is |w - w'| / |w| over all weights of a kind; bits a weight count scales and "
           "padding.\n");
    printf("%s: scheme %s, %.3f bits a weight, %.1f MB, %.1f s\n", output, scheme_name(report->scheme),
           report->bits_per_weight, (double)report->file_bytes / 1e6, seconds);
}

static ew_quantize_options options;
static const char *output;
static int scheme, range = EW_RANGE_MSE, head, activations;

static const char *const schemes[] = {"auto", "symmetric", "offset", "keep", NULL};
static const char *const ranges[] = {"minmax", "mse", NULL};
static const char *const heads[] = {"int4", "int8", NULL};
static const char *const activation_types[] = {"int16", "int8", NULL};

static const ew_option option_table[] = {
    {"output", 'o', EW_OPTION_TEXT, &output, .argument = "OUT.gguf", .help = "the file to write (required)"},
    {"scheme", 0, EW_OPTION_CHOICE, &scheme, .choices = schemes,
     .help = "w = s q, w = s q + m, or the source's own Q4_0, Q4_1, Q8_0 kept; auto: keep where layers have "
             "these"},
    {"group", 0, EW_OPTION_COUNT, &options.group, .argument = "N", .most = 128,
     .help = "inputs under one scale: 32 (default), 64, 128, or 0 for a whole row"},
    {"range", 0, EW_OPTION_CHOICE, &range, .choices = ranges,
     .help = "how a scale is found; mse (default) searches the smallest squared error"},
    {"head", 0, EW_OPTION_CHOICE, &head, .choices = heads,
     .help = "the matrix that makes the logits; int8 shares a tied embedding"},
    {"activations", 0, EW_OPTION_CHOICE, &activations, .choices = activation_types,
     .help = "int16 is more exact, int8 faster; a property of the file"},
    {"kv-grain", 0, EW_OPTION_COUNT, &options.kv_grain, .argument = "N", .most = 256,
     .help = "channels under one scale of the KV cache: 32 by default, 0 for a whole head"},
    {"threads", 't', EW_OPTION_COUNT, &options.n_threads, .argument = "N", .most = 256,
     .help = "threads to use; the result is the same for any number"},
};

static const char examples[] =
    "  edgewise quantize Qwen2.5-1.5B-Instruct -o qwen.gguf\n"
    "  edgewise quantize SmolLM2-135M-Instruct.Q4_1.gguf -o smollm2.gguf     (imported without loss)\n"
    "  edgewise quantize Qwen3-0.6B -o qwen3.gguf --scheme offset --group 64 --head int8\n";

static const ew_command command = {"quantize",
                                   "MODEL -o OUT.gguf",
                                   "Quantize a Hugging Face folder or a GGUF file to 4 bits a weight, and "
                                   "tell what each kind of layer lost.",
                                   examples,
                                   option_table,
                                   sizeof option_table / sizeof *option_table,
                                   1,
                                   1};

int ew_cli_quantize(int argc, char **argv) {
    const char *positionals[1];
    int exit_code;
    options = ew_quantize_default_options();
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    if (!output) {
        return ew_usage_error(&command, "say where to write the result: -o OUT.gguf");
    }
    ew_progress bar = {0};
    options.scheme = (ew_quantize_scheme)scheme;
    options.range = (ew_quantize_range)range;
    options.head = (ew_head_format)head;
    options.activations = (ew_activation_type)activations;
    options.progress = show_progress;
    options.progress_context = &bar;
    options.cancel = &ew_interrupted;
    ew_interrupt_install();
    double started = ew_clock_seconds();
    ew_quantize_report report;
    ew_error error;
    ew_status status = ew_quantize(positionals[0], output, &options, &report, &error);
    if (bar.total > 0) {
        ew_progress_end(&bar);
    }
    if (status != EW_OK) {
        return ew_cli_fail(&error);
    }
    print_report(output, &report, ew_clock_seconds() - started);
    return ew_cli_finish(EW_EXIT_OK);
}
