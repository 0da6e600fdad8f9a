#include "cli/arguments.h"
#include "cli/cli.h"
#ifdef EW_WITH_TRAIN
#include "cli/train/blas.h"
#endif

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct subcommand {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *summary;
} subcommand;

static const subcommand subcommands[] = {
    {"run", ew_cli_run, "answer one prompt"},
    {"chat", ew_cli_chat, "talk with a model"},
    {"quantize", ew_cli_quantize, "make a 4-bit model file"},
    {"bundle", ew_cli_bundle, "put a model, its adapters, heads and policy into one file"},
    {"inspect", ew_cli_inspect, "tell what is in a model and what memory it needs"},
    {"tokenize", ew_cli_tokenize, "show the tokens of a text or a conversation"},
    {"logits", ew_cli_logits, "show what a model says at every position of a sequence"},
    {"perplexity", ew_cli_perplexity, "measure how well a model predicts a text"},
    {"grade", ew_cli_grade, "grade answers against the right ones"},
    {"sample", ew_cli_sample, "answer problems several times and grade the replies"},
    {"eval", ew_cli_eval, "tell how many problems a policy gets right, and at what cost"},
    {"bench", ew_cli_bench, "measure speed beside what the machine allows"},
#ifdef EW_WITH_TRAIN
    {"train", ew_cli_train, "train something"},
#endif
    {NULL, NULL, NULL},
};
enum { MOST_SUBCOMMANDS = 32 };

int ew_cli_fail(const ew_error *error) {
    if (error->status == EW_ERROR_CANCELLED) {
        return EW_EXIT_INTERRUPTED;
    }
    fflush(stdout);
    fprintf(stderr, "edgewise: %s\n", error->message);
    return EW_EXIT_ERROR;
}

static int write_failure; /* errno of the first write by ew_cli_print that failed */

bool ew_cli_print(const char *text, size_t length) {
    if (fwrite(text, 1, length, stdout) == length && fflush(stdout) == 0) {
        return true;
    }
    write_failure = write_failure ? write_failure : errno;
    return false;
}

int ew_cli_finish(int exit_code) {
    ew_cli_print("", 0);
    if (!write_failure && !ferror(stdout)) {
        return exit_code;
    }
    if (write_failure != EPIPE) {
        fprintf(stderr, "edgewise: cannot write to standard output: %s\n",
                write_failure ? strerror(write_failure) : "a write failed");
    }
    return exit_code == EW_EXIT_OK ? EW_EXIT_ERROR : exit_code;
}

static void print_help(void) {
    printf("Usage: edgewise COMMAND [arguments]\n\nOn-device LLM reasoning in C.\n\nCommands:\n");
    for (const subcommand *command = subcommands; command->name; command++) {
        printf("  %-12s  %s\n", command->name, command->summary);
    }
    printf("\n`edgewise COMMAND --help` tells more. EDGEWISE_ISA=scalar|avx2|avx512|neon chooses the\n"
           "kernels; the results are the same.\n");
}

static int unknown_command(const char *given) {
    const char *names[MOST_SUBCOMMANDS];
    size_t n = 0;
    for (; n < MOST_SUBCOMMANDS && subcommands[n].name; n++) {
        names[n] = subcommands[n].name;
    }
    size_t nearest = ew_nearest_word(given, names, n);
    fprintf(stderr, "edgewise: unknown command \"%s\"", given);
    if (nearest < n) {
        fprintf(stderr, "; did you mean %s?", names[nearest]);
    }
    fprintf(stderr, "\nTry: edgewise --help\n");
    return EW_EXIT_USAGE;
}

static int print_usage(void) {
    fprintf(stderr, "edgewise: a command is needed\nTry: edgewise --help\n");
    return EW_EXIT_USAGE;
}

#ifdef EW_WITH_TRAIN
static bool runs_the_trainer(const char *command, int argc, char **argv) {
    return strcmp(command, "train") == 0 || (strcmp(command, "bench") == 0 && ew_cli_bench_trains(argc - 1, argv + 1));
}
#endif

int main(int argc, char **argv) {
    /* A reader that goes away is an ordinary failed write: outputs half made must still be cleaned up. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        return print_usage();
    }
    const char *given = argv[1];
    if (strcmp(given, "--version") == 0 || strcmp(given, "-V") == 0) {
        printf("edgewise %s\n", EW_VERSION);
        return ew_cli_finish(EW_EXIT_OK);
    }
    bool help = strcmp(given, "help") == 0;
    if (strcmp(given, "--help") == 0 || strcmp(given, "-h") == 0 || (help && argc == 2)) {
        print_help();
        return ew_cli_finish(EW_EXIT_OK);
    }
    if (help) { /* `edgewise help run` is `edgewise run --help` */
        given = argv[2];
    }
#ifdef EW_WITH_TRAIN
    if (runs_the_trainer(given, argc, argv)) {
        ew_blas_choose(argv);
    }
#endif
    for (const subcommand *command = subcommands; command->name; command++) {
        if (strcmp(given, command->name) == 0) {
            char *for_help[] = {argv[argc > 2 ? 2 : 1], (char[]){"--help"}, NULL};
            return help ? command->main(2, for_help) : command->main(argc - 1, argv + 1);
        }
    }
    return unknown_command(given);
}
