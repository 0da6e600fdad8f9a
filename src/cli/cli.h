/* What all subcommands share: their names, exit codes, and the one way to fail. A subcommand NAME is the
 * function ew_cli_NAME in NAME.c; argv[0] is its own name, the return value the exit code. It stands in the
 * table of main.c. */
#ifndef EW_CLI_CLI_H
#define EW_CLI_CLI_H

#include "edgewise.h"

enum {
    EW_EXIT_OK = 0,
    EW_EXIT_ERROR = 1,        /* something went wrong: one sentence on stderr says what */
    EW_EXIT_USAGE = 2,        /* the command line makes no sense */
    EW_EXIT_INTERRUPTED = 130 /* Ctrl-C, as shells report it */
};

int ew_cli_run(int argc, char **argv);
int ew_cli_chat(int argc, char **argv);
int ew_cli_quantize(int argc, char **argv);
int ew_cli_bundle(int argc, char **argv);
int ew_cli_inspect(int argc, char **argv);
int ew_cli_tokenize(int argc, char **argv);
int ew_cli_logits(int argc, char **argv);
int ew_cli_perplexity(int argc, char **argv);
int ew_cli_grade(int argc, char **argv);
int ew_cli_sample(int argc, char **argv);
int ew_cli_eval(int argc, char **argv);
int ew_cli_bench(int argc, char **argv);
bool ew_cli_bench_trains(int argc, char **argv); /* whether --train is among its arguments */
int ew_cli_train(int argc, char **argv); /* train/train.c; where the trainer is built (EW_WITH_TRAIN) */

/* Prints "edgewise: " and the error's sentence to stderr and returns EW_EXIT_ERROR (EW_EXIT_INTERRUPTED,
 * silently, for EW_ERROR_CANCELLED). */
int ew_cli_fail(const ew_error *error);

/* Writes text to stdout at once, for replies that are read as they come. False when that failed. */
bool ew_cli_print(const char *text, size_t length);

/* Last thing of a subcommand: writes out what stdout holds back. A full disk or any other failure is told on
 * stderr and makes EW_EXIT_ERROR of EW_EXIT_OK; a reader that went away (a closed pipe) is no news and is not
 * told. */
int ew_cli_finish(int exit_code);

#endif
