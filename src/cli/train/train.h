/* edgewise train KIND: what can be trained. A kind NAME is the function ew_cli_train_NAME in NAME.c; argv[0] is "train
 * NAME", the return value the exit code. It stands in the table of train.c. */
#ifndef EW_CLI_TRAIN_TRAIN_H
#define EW_CLI_TRAIN_TRAIN_H

#include "cli/arguments.h"
#include "cli/cli.h"

/* "auto", "f32", NULL: of --weights. */
extern const char *const ew_train_weights[];

int ew_cli_train_sft(int argc, char **argv);
int ew_cli_train_loss(int argc, char **argv);
int ew_cli_train_tokenizer(int argc, char **argv);
int ew_cli_train_switcher(int argc, char **argv);
int ew_cli_train_verifier(int argc, char **argv);

#endif
