/* The command line: one table of options a subcommand, parsed, checked and explained by one function.
 *
 *   static const ew_option options[] = {
 *       {"max-tokens", 0, EW_OPTION_COUNT, &max_tokens, .argument = "N", .help = "most tokens of the reply"},
 *       {"json", 0, EW_OPTION_FLAG, &json, .help = "print one JSON object"},
 *   };
 *   static const char *model, *prompt;
 *   const ew_command command = {"run", "MODEL PROMPT", "Answer one prompt.", examples, options, 2, 2, 2};
 *   int exit_code;
 *   if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
 *       return exit_code;
 *   }
 *
 * Options may stand before, between and after the positional arguments; "--" ends them; a lone "-" is a
 * positional. Long options take their value after "=" or as the next argument. `--help` is understood by
 * itself. */
#ifndef EW_CLI_ARGUMENTS_H
#define EW_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ew_option_type {
    EW_OPTION_FLAG,   /* bool: true when it is given */
    EW_OPTION_TEXT,   /* const char *: points into argv */
    EW_OPTION_COUNT,  /* size_t within least .. most */
    EW_OPTION_SEED,   /* uint64_t, any */
    EW_OPTION_NUMBER, /* double within least .. most, finite */
    EW_OPTION_CHOICE, /* int: index into `choices` */
    EW_OPTION_LIST    /* ew_text_list: may be given several times */
} ew_option_type;

enum { EW_TEXT_LIST_MAX = 16 };
typedef struct ew_text_list {
    const char *items[EW_TEXT_LIST_MAX];
    size_t count;
} ew_text_list;

typedef struct ew_option {
    const char *name; /* without the dashes */
    char letter;      /* of the short form, or 0 */
    ew_option_type type;
    void *value; /* as the type says; holds the default and is changed only when the option is given */
    const char *argument;       /* what the help calls the value; NULL for flags and choices */
    const char *help;           /* a few words */
    bool *given;                /* may be NULL */
    double least, most;         /* for counts and numbers; most == 0 means no upper limit */
    const char *const *choices; /* NULL after the last */
} ew_option;

typedef struct ew_command {
    const char *name;        /* "run" */
    const char *positionals; /* "MODEL PROMPT", for the usage line */
    const char *summary;     /* one or more sentences for the help */
    const char *examples;    /* lines, each beginning with two spaces; NULL: none */
    const ew_option *options;
    size_t n_options;
    size_t least_positionals, most_positionals;
} ew_command;

/* argv[0] is the subcommand's own name. Fills positionals[0 .. most_positionals - 1], NULL where absent.
 * Returns false when there is nothing left to do: *exit_code is EW_EXIT_OK after --help (printed to stdout)
 * and EW_EXIT_USAGE after a sentence on stderr about what was wrong. */
bool ew_arguments_parse(const ew_command *command, int argc, char **argv, const char **positionals,
                        int *exit_code);

/* A usage error that only the subcommand can see: prints "edgewise NAME: sentence" and where help is; returns
 * EW_EXIT_USAGE. */
int ew_usage_error(const ew_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Index of the candidate that `word` most likely meant, or SIZE_MAX when none is near. */
size_t ew_nearest_word(const char *word, const char *const *candidates, size_t n_candidates);

#endif
