#include "cli/arguments.h"
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_WORD = 32 }; /* words that are compared for likeness */

/* Edits (insert, delete, replace, swap neighbours) from a to b; both shorter than LONGEST_WORD. */
static size_t edit_distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    size_t cost[LONGEST_WORD + 1][LONGEST_WORD + 1];
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            size_t best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = cost[i - 1][j] + 1 < best ? cost[i - 1][j] + 1 : best;
            best = cost[i][j - 1] + 1 < best ? cost[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < best) {
                best = cost[i - 2][j - 2] + 1;
            }
            cost[i][j] = best;
        }
    }
    return cost[n][m];
}

size_t ew_nearest_word(const char *word, const char *const *candidates, size_t n_candidates) {
    size_t length = strlen(word), nearest = SIZE_MAX, least = SIZE_MAX;
    if (length < 2 || length > LONGEST_WORD) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i < n_candidates; i++) {
        if (strlen(candidates[i]) > LONGEST_WORD) {
            continue;
        }
        size_t distance = edit_distance(word, candidates[i]);
        if (strncmp(candidates[i], word, length) == 0) {
            distance = 0; /* a beginning is as good as the word */
        }
        if (distance < least) {
            least = distance;
            nearest = i;
        }
    }
    return least <= (length < 5 ? 1 : 2) ? nearest : SIZE_MAX;
}

static int say_usage(const ew_command *command, const char *format, va_list arguments) {
    fprintf(stderr, "edgewise %s: ", command->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nTry: edgewise %s --help\n", command->name);
    return EW_EXIT_USAGE;
}

int ew_usage_error(const ew_command *command, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int code = say_usage(command, format, arguments);
    va_end(arguments);
    return code;
}

static void print_choices(FILE *out, const char *const *choices) {
    for (size_t i = 0; choices[i]; i++) {
        fprintf(out, "%s%s", i > 0 ? "|" : "", choices[i]);
    }
}

static void print_option(const ew_option *option) {
    char head[128];
    int length = option->letter ? snprintf(head, sizeof head, "-%c, --%s", option->letter, option->name)
                                : snprintf(head, sizeof head, "--%s", option->name);
    size_t used = (size_t)length;
    if (option->type == EW_OPTION_CHOICE) {
        for (size_t i = 0; option->choices[i] && used < sizeof head; i++) {
            used += (size_t)snprintf(head + used, sizeof head - used, "%c%s", i > 0 ? '|' : ' ',
                                     option->choices[i]);
        }
    } else if (option->argument) {
        used += (size_t)snprintf(head + used, sizeof head - used, " %s", option->argument);
    }
    if (used > 26) {
        printf("  %s\n  %26s  %s\n", head, "", option->help);
    } else {
        printf("  %-26s  %s\n", head, option->help);
    }
}

static void print_help(const ew_command *command) {
    printf("Usage: edgewise %s%s%s [options]\n\n%s\n\nOptions:\n", command->name,
           command->positionals[0] ? " " : "", command->positionals, command->summary);
    for (size_t i = 0; i < command->n_options; i++) {
        print_option(&command->options[i]);
    }
    printf("  %-26s  %s\n", "-h, --help", "show this");
    if (command->examples) {
        printf("\nExamples:\n%s", command->examples);
    }
}

static const ew_option *find_long(const ew_command *command, const char *name, size_t length) {
    for (size_t i = 0; i < command->n_options; i++) {
        const char *candidate = command->options[i].name;
        if (strncmp(candidate, name, length) == 0 && candidate[length] == '\0') {
            return &command->options[i];
        }
    }
    return NULL;
}

static const ew_option *find_letter(const ew_command *command, char letter) {
    for (size_t i = 0; i < command->n_options; i++) {
        if (command->options[i].letter && command->options[i].letter == letter) {
            return &command->options[i];
        }
    }
    return NULL;
}

static bool unknown_option(const ew_command *command, const char *given, size_t length) {
    enum { MOST = 64 };
    const char *names[MOST];
    size_t n = 0;
    for (; n < command->n_options && n < MOST; n++) {
        names[n] = command->options[n].name;
    }
    char word[LONGEST_WORD + 1] = "";
    size_t dashes = strspn(given, "-");
    if (length > dashes && length - dashes <= LONGEST_WORD) {
        memcpy(word, given + dashes, length - dashes);
        word[length - dashes] = '\0';
    }
    size_t nearest = ew_nearest_word(word, names, n);
    if (nearest < n) {
        ew_usage_error(command, "unknown option %.*s; did you mean --%s?", (int)length, given,
                       names[nearest]);
    } else {
        ew_usage_error(command, "unknown option %.*s", (int)length, given);
    }
    return false;
}

static bool out_of_range(const ew_command *command, const ew_option *option, const char *text) {
    if (option->most > 0) {
        ew_usage_error(command, "--%s is %s; it must be from %.10g to %.10g", option->name, text,
                       option->least, option->most);
    } else {
        ew_usage_error(command, "--%s is %s; it must be at least %.10g", option->name, text, option->least);
    }
    return false;
}

static bool store_integer(const ew_command *command, const ew_option *option, const char *text) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    /* strtoull takes "-1" and " 1": digits only here. */
    if (text[0] < '0' || text[0] > '9' || *end != '\0') {
        ew_usage_error(command, "--%s wants a whole number, not \"%s\"", option->name, text);
        return false;
    }
    if (errno == ERANGE) {
        ew_usage_error(command, "--%s is %s; that is too large for any machine", option->name, text);
        return false;
    }
    if (option->type == EW_OPTION_SEED) {
        *(uint64_t *)option->value = value;
        return true;
    }
    if ((double)value < option->least || (option->most > 0 && (double)value > option->most) ||
        value > SIZE_MAX) {
        return out_of_range(command, option, text);
    }
    *(size_t *)option->value = (size_t)value;
    return true;
}

static bool store_number(const ew_command *command, const ew_option *option, const char *text) {
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) {
        ew_usage_error(command, "--%s wants a number, not \"%s\"", option->name, text);
        return false;
    }
    if (value < option->least || (option->most > 0 && value > option->most)) {
        return out_of_range(command, option, text);
    }
    *(double *)option->value = value;
    return true;
}

static bool store_choice(const ew_command *command, const ew_option *option, const char *text) {
    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *(int *)option->value = i;
            return true;
        }
    }
    fprintf(stderr, "edgewise %s: --%s is one of ", command->name, option->name);
    print_choices(stderr, option->choices);
    fprintf(stderr, ", not \"%s\"\nTry: edgewise %s --help\n", text, command->name);
    return false;
}

static bool store_value(const ew_command *command, const ew_option *option, const char *text) {
    if (option->given) {
        *option->given = true;
    }
    switch (option->type) {
    case EW_OPTION_TEXT:
        *(const char **)option->value = text;
        return true;
    case EW_OPTION_COUNT:
    case EW_OPTION_SEED:
        return store_integer(command, option, text);
    case EW_OPTION_NUMBER:
        return store_number(command, option, text);
    case EW_OPTION_CHOICE:
        return store_choice(command, option, text);
    case EW_OPTION_LIST: {
        ew_text_list *list = option->value;
        if (list->count == EW_TEXT_LIST_MAX) {
            ew_usage_error(command, "--%s is given more than %d times", option->name, EW_TEXT_LIST_MAX);
            return false;
        }
        list->items[list->count++] = text;
        return true;
    }
    case EW_OPTION_FLAG:
        *(bool *)option->value = true;
        return true;
    }
    return false;
}

/* The option at argv[*index] with its value; *index then points at the last argument used. */
static bool take_option(const ew_command *command, int argc, char **argv, int *index) {
    const char *given = argv[*index];
    const char *value = NULL;
    const ew_option *option;
    size_t length = strcspn(given, "=");
    if (given[1] == '-') {
        option = find_long(command, given + 2, length - 2);
        value = given[length] == '=' ? given + length + 1 : NULL;
    } else {
        option = find_letter(command, given[1]);
        value = given[2] == '\0' ? NULL : given + 2;
    }
    if (!option) {
        return unknown_option(command, given, length);
    }
    if (option->type == EW_OPTION_FLAG) {
        if (value) {
            ew_usage_error(command, "--%s takes no value", option->name);
            return false;
        }
        return store_value(command, option, "");
    }
    if (!value) {
        if (*index + 1 >= argc) {
            ew_usage_error(command, "--%s wants a value%s%s", option->name, option->argument ? ": " : "",
                           option->argument ? option->argument : "");
            return false;
        }
        value = argv[++*index];
    }
    return store_value(command, option, value);
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

bool ew_arguments_parse(const ew_command *command, int argc, char **argv, const char **positionals,
                        int *exit_code) {
    size_t n = 0;
    bool options_end = false;
    if (asks_for_help(argc, argv)) {
        print_help(command);
        *exit_code = ew_cli_finish(EW_EXIT_OK);
        return false;
    }
    *exit_code = EW_EXIT_USAGE;
    for (size_t i = 0; i < command->most_positionals; i++) {
        positionals[i] = NULL;
    }
    for (int i = 1; i < argc; i++) {
        if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!take_option(command, argc, argv, &i)) {
                return false;
            }
        } else if (n < command->most_positionals) {
            positionals[n++] = argv[i];
        } else {
            ew_usage_error(command, "\"%s\" is one argument too many; quote a text that has spaces", argv[i]);
            return false;
        }
    }
    if (n < command->least_positionals) {
        ew_usage_error(command, "%s is needed", command->positionals);
        return false;
    }
    return true;
}
