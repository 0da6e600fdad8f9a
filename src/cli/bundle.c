/* edgewise bundle: a model with its adapters, heads and policy in one file. */
#include "base/memory.h"
#include "cli/bundle_arguments.h"
#include "cli/cli.h"
#include "cli/output_check.h"
#include "format/bundle.h"
#include "model/adapter.h"
#include "reason/heads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct request {
    const char *base, *output, *switcher, *verifier, *policy;
    ew_text_list adapters; /* PATH or NAME=PATH */
} request;

typedef struct packing {
    const request *asked;
    ew_model *model;
    ew_bundle_part parts[EW_BUNDLE_MAX_PARTS];
    size_t n_parts;
    char *owned[2 * EW_TEXT_LIST_MAX]; /* names and temporary paths */
    size_t n_owned;
    const char *temporary[EW_TEXT_LIST_MAX]; /* files to be removed */
    size_t n_temporary;
    char fingerprints[EW_TEXT_LIST_MAX][65]; /* of the adapters */
} packing;

static ew_status keep_text(packing *p, const char *format, const char *a, const char *b, const char **kept,
                           ew_error *error) {
    size_t length = strlen(a) + strlen(b) + strlen(format) + 1;
    char *text = ew_allocate(length, 1);
    if (!text) {
        return ew_fail_memory(error, length, "a name");
    }
    snprintf(text, length, format, a, b);
    p->owned[p->n_owned++] = text;
    *kept = text;
    return EW_OK;
}

/* A PEFT folder becomes a GGUF file for as long as the bundle is written. */
static ew_status as_file(packing *p, const char *path, const char *name, const char **file, ew_error *error) {
    struct stat information;
    ew_adapter_file *folder = NULL;
    *file = path;
    if (stat(path, &information) != 0 || !S_ISDIR(information.st_mode)) {
        return EW_OK;
    }
    ew_status status = keep_text(p, "%s.%s.part", p->asked->output, name, file, error);
    if (status == EW_OK) {
        status = ew_adapter_open(path, &p->model->config, &folder, error);
    }
    if (status == EW_OK) {
        status =
            ew_adapter_write_gguf(ew_adapter_file_content(folder), &p->model->config, EW_ADAPTER_KEEP, *file, error);
        p->temporary[p->n_temporary] = *file;
        p->n_temporary += status == EW_OK;
    }
    ew_adapter_close(folder);
    return status;
}

/* Opens it as the run time will, which checks that it fits the model. */
static ew_status add_adapter(packing *p, size_t index, ew_error *error) {
    const char *given = p->asked->adapters.items[index], *equals = strchr(given, '='), *name = NULL, *file = NULL;
    const char *path = equals ? equals + 1 : given;
    char label[EW_BUNDLE_MAX_NAME + 1];
    ew_adapter *adapter = NULL;
    if (equals) {
        snprintf(label, sizeof label, "%.*s", (int)(equals - given), given);
    } else {
        snprintf(label, sizeof label, index == 0 ? "think" : "think%zu", index + 1);
    }
    ew_status status = keep_text(p, "%s%s", "adapter.", label, &name, error);
    if (status == EW_OK) {
        status = ew_cli_check_output(p->asked->output, &path, 1, error);
    }
    if (status == EW_OK) {
        status = ew_adapter_load(p->model, path, NULL, &adapter, error);
    }
    if (status == EW_OK) {
        snprintf(p->fingerprints[index], sizeof p->fingerprints[index], "%s", adapter->fingerprint);
        status = as_file(p, path, name, &file, error);
    }
    ew_adapter_unload(adapter);
    if (status == EW_OK) {
        p->parts[p->n_parts++] = (ew_bundle_part){name, file};
    }
    return status;
}

static ew_status add_switcher(packing *p, ew_error *error) {
    ew_switcher *switcher = NULL;
    ew_status status = ew_switcher_open(p->model, p->asked->switcher, &switcher, error);
    ew_switcher_close(switcher);
    p->parts[p->n_parts++] = (ew_bundle_part){"switcher", p->asked->switcher};
    return status;
}

static ew_status add_verifier(packing *p, ew_error *error) {
    ew_verifier *verifier = NULL;
    ew_status status = ew_verifier_open(p->model, p->asked->verifier, &verifier, error);
    if (status != EW_OK) {
        return status;
    }
    const char *trained = verifier->head.adapter_fingerprint;
    bool known = trained[0] == '\0';
    for (size_t i = 0; i < p->asked->adapters.count; i++) {
        known = known || strcmp(p->fingerprints[i], trained) == 0;
    }
    if (!known) {
        status = ew_fail(error, EW_ERROR_ARGUMENT, "%s was trained with another adapter than those of the bundle",
                         p->asked->verifier);
    }
    ew_verifier_close(verifier);
    p->parts[p->n_parts++] = (ew_bundle_part){"verifier", p->asked->verifier};
    return status;
}

static ew_status pack(packing *p, ew_error *error) {
    const request *asked = p->asked;
    const char *const inputs[] = {asked->base, asked->switcher, asked->verifier};
    ew_status status = ew_cli_check_output(asked->output, inputs, 3, error);
    if (status == EW_OK) {
        status = ew_model_open(asked->base, NULL, &p->model, error);
    }
    for (size_t i = 0; status == EW_OK && i < asked->adapters.count; i++) {
        status = add_adapter(p, i, error);
    }
    if (status == EW_OK && asked->switcher) {
        status = add_switcher(p, error);
    }
    if (status == EW_OK && asked->verifier) {
        status = add_verifier(p, error);
    }
    return status == EW_OK ? ew_bundle_write(asked->output, asked->base, p->parts, p->n_parts, asked->policy, error)
                           : status;
}

static int run(const request *asked) {
    packing p = {.asked = asked};
    ew_error error = {0};
    struct stat information;
    ew_status status = pack(&p, &error);
    for (size_t i = 0; i < p.n_temporary; i++) {
        unlink(p.temporary[i]);
    }
    for (size_t i = 0; i < p.n_owned; i++) {
        free(p.owned[i]);
    }
    ew_model_close(p.model);
    if (status != EW_OK) {
        return ew_cli_finish(ew_cli_fail(&error));
    }
    double megabytes = stat(asked->output, &information) == 0 ? (double)information.st_size / 1e6 : 0.0;
    printf("%s: the model and %zu parts, %.1f MB\n", asked->output, p.n_parts, megabytes);
    return ew_cli_finish(EW_EXIT_OK);
}

/* The policy's words must be options that `run` will take; what is wrong is said as of a command line. */
static bool check_policy(const char *policy, int *exit_code) {
    ew_words words = {0};
    ew_words_split(&words, policy, strlen(policy));
    bool sound = ew_policy_words_check("bundle --policy", &words, exit_code);
    ew_words_free(&words);
    return sound;
}

int ew_cli_bundle(int argc, char **argv) {
    request asked = {0};
    const ew_option options[] = {
        {"output", 'o', EW_OPTION_TEXT, &asked.output, .argument = "OUT.gguf", .help = "the file to write (required)"},
        {"adapter", 0, EW_OPTION_LIST, &asked.adapters, .argument = "[NAME=]PATH",
         .help = "a PEFT folder or LoRA GGUF file; the first is the one that is used. Up to 16 times"},
        {"switcher", 0, EW_OPTION_TEXT, &asked.switcher, .argument = "FILE", .help = "the head that routes"},
        {"verifier", 0, EW_OPTION_TEXT, &asked.verifier, .argument = "FILE", .help = "the head that scores answers"},
        {"policy", 0, EW_OPTION_TEXT, &asked.policy, .argument = "OPTIONS",
         .help = "options of `run` that hold where no others are given"},
    };
    const ew_command command = {
        .name = "bundle",
        .positionals = "MODEL.gguf",
        .summary =
            "Put a model that `edgewise quantize` made, its adapters, heads and a policy into one file, which `run`,\n"
            "`chat`, `eval` and `sample` use as it is. Every part is checked against the model first.",
        .examples =
            "  edgewise bundle model.gguf --adapter think.gguf --switcher switcher.gguf --verifier verifier.gguf \\\n"
            "      --policy \"--think auto --budget 2000 --streams 4\" -o assistant.gguf\n",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .least_positionals = 1,
        .most_positionals = 1,
    };
    int exit_code;
    if (!ew_arguments_parse(&command, argc, argv, &asked.base, &exit_code) ||
        (asked.policy && !check_policy(asked.policy, &exit_code))) {
        return exit_code;
    }
    if (!asked.output) {
        return ew_usage_error(&command, "say where to write the result: -o OUT.gguf");
    }
    return run(&asked);
}
