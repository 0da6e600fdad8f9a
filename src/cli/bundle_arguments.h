/* Arguments of commands whose model may be a bundle: what it holds is used unless others are named. */
#ifndef EW_CLI_BUNDLE_ARGUMENTS_H
#define EW_CLI_BUNDLE_ARGUMENTS_H

#include "cli/arguments.h"
#include "cli/words.h"

/* The words of a bundle's policy: options that say how an answer is come by, and nothing else. False after a sentence on
 * stderr, as of a command line of this name. */
bool ew_policy_words_check(const char *name, const ew_words *words, int *exit_code);

/* As ew_arguments_parse; if the first positional argument is a bundle, its policy, its (first) adapter and, with
 * `heads`, its switcher and verifier come before the given arguments as if they had been written there. `values` is
 * what the options point into, `size` bytes, as it was before: parsing begins anew from it. */
bool ew_bundle_arguments_parse(const ew_command *command, void *values, size_t size, bool heads, int argc, char **argv,
                               const char **positionals, int *exit_code);

#endif
