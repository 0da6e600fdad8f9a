/* edgewise train: which kind of training, and the words after it. */
#include "cli/train/train.h"

#include <stdio.h>
#include <string.h>

const char *const ew_train_weights[] = {"auto", "f32", NULL};

typedef struct kind {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *summary;
} kind;

static const kind kinds[] = {
    {"sft", ew_cli_train_sft, "train an adapter, or all weights, on replies"},
    {"loss", ew_cli_train_loss, "measure how likely replies are, without training"},
    {"tokenizer", ew_cli_train_tokenizer, "learn a tokenizer from texts"},
    {"switcher", ew_cli_train_switcher, "learn which prompts are worth thinking about"},
    {"verifier", ew_cli_train_verifier, "learn which answers are right"},
    {NULL, NULL, NULL},
};
enum { MOST_KINDS = 8 };

static void print_help(void) {
    printf("Usage: edgewise train KIND [arguments]\n\nTrain something.\n\nKinds:\n");
    for (const kind *each = kinds; each->name; each++) {
        printf("  %-12s  %s\n", each->name, each->summary);
    }
    printf("\n`edgewise train KIND --help` tells more.\n\nExamples:\n"
           "  edgewise train tokenizer corpus.txt -o model/tokenizer.json --vocab 4096\n");
}

static int unknown_kind(const char *given) {
    const char *names[MOST_KINDS];
    size_t n = 0;
    if (given[0] == '-') {
        fprintf(stderr, "edgewise train: unknown option %s\nTry: edgewise train --help\n", given);
        return EW_EXIT_USAGE;
    }
    for (; n < MOST_KINDS && kinds[n].name; n++) {
        names[n] = kinds[n].name;
    }
    size_t nearest = ew_nearest_word(given, names, n);
    fprintf(stderr, "edgewise: there is no training of \"%s\"", given);
    if (nearest < n) {
        fprintf(stderr, "; did you mean %s?", names[nearest]);
    }
    fprintf(stderr, "\nTry: edgewise train --help\n");
    return EW_EXIT_USAGE;
}

int ew_cli_train(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "edgewise: train what?\nTry: edgewise train --help\n");
        return EW_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return ew_cli_finish(EW_EXIT_OK);
    }
    for (const kind *each = kinds; each->name; each++) {
        if (strcmp(argv[1], each->name) == 0) {
            return each->main(argc - 1, argv + 1);
        }
    }
    return unknown_kind(argv[1]);
}
