#include "cli/bundle_arguments.h"
#include "base/memory.h"
#include "format/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WORDS_MOST = 128 };

/* Words for options, owned for as long as the program runs: options point to them. */
typedef struct words {
    char *list[WORDS_MOST];
    size_t n;
    bool failed;
} words;
static words bundled;

static void add_word(words *w, const char *text, size_t length) {
    char *copy = w->n < WORDS_MOST ? ew_copy_text(text, length) : NULL;
    w->failed = w->failed || !copy;
    if (copy) {
        w->list[w->n++] = copy;
    }
}

static void add_policy(words *w, ew_string policy) {
    for (size_t at = 0; at < policy.length;) {
        size_t end = at;
        while (end < policy.length && policy.data[end] != ' ') {
            end++;
        }
        if (end > at) {
            add_word(w, policy.data + at, end - at);
        }
        at = end + 1;
    }
}

static void add_part(words *w, const char *option, const char *part) {
    char path[sizeof EW_BUNDLE_PATH + EW_BUNDLE_MAX_NAME];
    snprintf(path, sizeof path, "%s%.*s", EW_BUNDLE_PATH, (int)EW_BUNDLE_MAX_NAME, part);
    add_word(w, option, strlen(option));
    add_word(w, path, strlen(path));
}

static void read_bundle(words *w, const ew_gguf *gguf, bool heads) {
    ew_string policy = {"", 0};
    bool found = false, adapted = false;
    if (ew_gguf_get_string(gguf, EW_BUNDLE_POLICY, &found, &policy, NULL) == EW_OK && found && heads) {
        add_policy(w, policy);
    }
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
static void look_into(words *w, const char *path, bool heads) {
    struct stat information;
    ew_gguf *gguf = NULL;
    if (path && stat(path, &information) == 0 && S_ISREG(information.st_mode) &&
        ew_gguf_open(path, &gguf, NULL) == EW_OK) {
        read_bundle(w, gguf, heads);
        ew_gguf_close(gguf);
    }
}

static bool parse_with(const ew_command *command, const words *w, int argc, char **argv, const char **positionals,
                       int *exit_code) {
    char **all = ew_allocate(w->n + (size_t)argc + 1, sizeof *all);
    if (!all || w->failed) {
        free(all);
        fprintf(stderr, "edgewise: the bundle's policy has too many words, or memory is out\n");
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
        look_into(&bundled, positionals[0], heads);
    }
    if (parsed && (bundled.n > 0 || bundled.failed)) {
        memcpy(values, before, size);
        parsed = parse_with(command, &bundled, argc, argv, positionals, exit_code);
    }
    free(before);
    return parsed;
}
