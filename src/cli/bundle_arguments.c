#include "cli/bundle_arguments.h"
#include "base/memory.h"
#include "cli/policy_arguments.h"
#include "format/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Owned for as long as the program runs: options point to them. */
static ew_words bundled;

bool ew_policy_words_check(const char *name, const ew_words *words, int *exit_code) {
    ew_policy_arguments values = EW_POLICY_ARGUMENTS_INIT;
    ew_policy made = EW_POLICY_INIT;
    ew_option options[EW_POLICY_OPTIONS];
    ew_error error = {0};
    char *all[EW_WORDS_MOST + 1] = {(char[]){""}};
    const char *none[1];
    const ew_command command = {
        .name = name, .positionals = "OPTIONS", .summary = "", .options = options, .n_options = EW_POLICY_OPTIONS};
    ew_policy_option_table(&values, options);
    if (words->problem) {
        *exit_code = ew_usage_error(&command, "the policy %s", words->problem);
        return false;
    }
    for (size_t i = 0; i < words->n; i++) {
        all[i + 1] = words->list[i];
        if (strcmp(words->list[i], "--") == 0) { /* what follows would be no options any more */
            *exit_code = ew_usage_error(&command, "\"--\" is no option of a policy");
            return false;
        }
    }
    bool sound = ew_arguments_parse(&command, (int)words->n + 1, all, none, exit_code);
    if (sound && ew_policy_arguments_apply(&values, true, &made, &error) != EW_OK) {
        *exit_code = ew_usage_error(&command, "%s", error.message);
        sound = false;
    }
    ew_policy_arguments_close(&values);
    return sound;
}

static void add_part(ew_words *w, const char *option, const char *part) {
    char path[sizeof EW_BUNDLE_PATH + EW_BUNDLE_MAX_NAME];
    snprintf(path, sizeof path, "%s%.*s", EW_BUNDLE_PATH, (int)EW_BUNDLE_MAX_NAME, part);
    ew_words_add(w, option, strlen(option));
    ew_words_add(w, path, strlen(path));
}

/* A file may come from anybody: its policy says how an answer is come by and names no file to be written. */
static bool read_policy(ew_words *w, const ew_gguf *gguf, int *exit_code) {
    ew_string policy = {"", 0};
    bool found = false;
    if (ew_gguf_get_string(gguf, EW_BUNDLE_POLICY, &found, &policy, NULL) != EW_OK || !found) {
        return true;
    }
    ew_words_split(w, policy.data, policy.length);
    return ew_policy_words_check("bundle --policy", w, exit_code);
}

static void read_parts(ew_words *w, const ew_gguf *gguf, bool heads) {
    bool adapted = false;
    for (size_t i = 0; i < ew_gguf_tensor_count(gguf); i++) {
        const char *part = ew_bundle_name_at(gguf, i);
        if (!part) {
            continue;
        }
        if (strncmp(part, "adapter.", 8) == 0 && !adapted) {
            add_part(w, "--adapter", part);
            adapted = true;
        } else if (heads && strcmp(part, "switcher") == 0) {
            add_part(w, "--switcher", part);
        } else if (heads && strcmp(part, "verifier") == 0) {
            add_part(w, "--verifier", part);
        }
    }
}

/* Nothing for what is no GGUF file: opening the model will say so. */
static bool look_into(ew_words *w, const char *path, bool heads, int *exit_code) {
    struct stat information;
    ew_gguf *gguf = NULL;
    bool sound = true;
    if (path && stat(path, &information) == 0 && S_ISREG(information.st_mode) &&
        ew_gguf_open(path, &gguf, NULL) == EW_OK) {
        sound = !heads || read_policy(w, gguf, exit_code);
        read_parts(w, gguf, heads);
        ew_gguf_close(gguf);
    }
    return sound;
}

static bool parse_with(const ew_command *command, const ew_words *w, int argc, char **argv, const char **positionals,
                       int *exit_code) {
    char **all = ew_allocate(w->n + (size_t)argc + 1, sizeof *all);
    if (!all || w->problem) {
        free(all);
        fprintf(stderr, "edgewise: the bundle's policy %s\n", w->problem ? w->problem : "leaves no memory");
        *exit_code = 1;
        return false;
    }
    all[0] = argv[0];
    memcpy(all + 1, w->list, w->n * sizeof *all);
    memcpy(all + 1 + w->n, argv + 1, (size_t)(argc - 1) * sizeof *all);
    bool parsed = ew_arguments_parse(command, argc + (int)w->n, all, positionals, exit_code);
    free(all);
    return parsed;
}

bool ew_bundle_arguments_parse(const ew_command *command, void *values, size_t size, bool heads, int argc, char **argv,
                               const char **positionals, int *exit_code) {
    void *before = ew_allocate(1, size);
    if (!before) {
        fprintf(stderr, "edgewise: out of memory\n");
        *exit_code = 1;
        return false;
    }
    memcpy(before, values, size);
    bool parsed = ew_arguments_parse(command, argc, argv, positionals, exit_code);
    if (parsed) {
        parsed = look_into(&bundled, positionals[0], heads, exit_code);
    }
    if (parsed && (bundled.n > 0 || bundled.problem)) {
        memcpy(values, before, size);
        parsed = parse_with(command, &bundled, argc, argv, positionals, exit_code);
    }
    free(before);
    return parsed;
}
