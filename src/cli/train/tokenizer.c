/* edgewise train tokenizer: a byte-level BPE from texts. */
#include "base/file.h"
#include "base/memory.h"
#include "cli/output_check.h"
#include "cli/progress.h"
#include "cli/train/train.h"
#include "train/tokenizer_learn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS_MOST = 64 };

typedef struct request {
    const char *texts[TEXTS_MOST];
    size_t n_texts;
    const char *output;
    size_t vocab_size, least_count;
    ew_text_list added;
} request;

static ew_status write_file(const char *path, const ew_buffer *text, ew_error *error) {
    ew_output output = {0};
    ew_status status = ew_output_open(path, &output, error);
    if (status != EW_OK) {
        return status;
    }
    status = ew_output_write(&output, text->data, text->length, error);
    if (status == EW_OK) {
        return ew_output_commit(&output, error);
    }
    ew_output_abandon(&output);
    return status;
}

/* tokenizer_config.json beside the tokenizer. */
static char *config_path(const char *output) {
    const char *slash = strrchr(output, '/');
    char *folder = ew_copy_text(output, slash ? (size_t)(slash - output) : 0);
    char *path = !folder ? NULL
                 : slash ? ew_join_path(folder, "tokenizer_config.json")
                         : strdup("tokenizer_config.json");
    free(folder);
    return path;
}

static ew_status write_files(const request *asked, const ew_buffer *tokenizer, const ew_buffer *config,
                             ew_error *error) {
    char *path = config_path(asked->output);
    ew_status status = path ? write_file(path, config, error) : ew_fail_memory(error, 64, "a file name");
    if (status == EW_OK) {
        status = write_file(asked->output, tokenizer, error);
    }
    free(path);
    return status;
}

static ew_status learn(const request *asked, ew_tokenizer_learner *learner, ew_error *error) {
    const ew_learn_options options = {.vocab_size = asked->vocab_size,
                                      .least_count = asked->least_count,
                                      .added = asked->added.items,
                                      .n_added = asked->added.count};
    ew_buffer tokenizer = {0}, config = {0};
    ew_status status = ew_cli_check_output(asked->output, asked->texts, asked->n_texts, error);
    if (status == EW_OK) {
        status = ew_tokenizer_learner_open(&options, learner, error);
    }
    for (size_t i = 0; status == EW_OK && i < asked->n_texts; i++) {
        status = ew_tokenizer_learner_add_file(learner, asked->texts[i], error);
    }
    if (status == EW_OK) {
        status = ew_tokenizer_learner_finish(learner, &tokenizer, &config, error);
    }
    if (status == EW_OK) {
        status = write_files(asked, &tokenizer, &config, error);
    }
    ew_buffer_free(&tokenizer);
    ew_buffer_free(&config);
    return status;
}

static int run(const request *asked) {
    ew_tokenizer_learner learner = {0};
    ew_error error;
    double started = ew_clock_seconds();
    ew_status status = learn(asked, &learner, &error);
    int exit_code = status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
    if (status == EW_OK) {
        size_t n = learner.learner.n_tokens + asked->added.count;
        printf("%s: %zu tokens (256 bytes, %zu learned, %zu added) from %llu pieces of text, %zu different, %.1f s\n",
               asked->output, n, learner.learner.n_tokens - 256, asked->added.count,
               (unsigned long long)learner.learner.n_counted, learner.learner.n_pieces, ew_clock_seconds() - started);
        if (n < asked->vocab_size) {
            printf("%zu were asked for; no pair of tokens is left that occurs often enough\n", asked->vocab_size);
        }
    }
    ew_tokenizer_learner_close(&learner);
    return ew_cli_finish(exit_code);
}

static const char examples[] =
    "  edgewise train tokenizer corpus.txt -o model/tokenizer.json --vocab 4096\n"
    "  edgewise train tokenizer data.jsonl -o model/tokenizer.json --vocab 1024 --add-token '<|endoftext|>' \\\n"
    "      --add-token '<|im_start|>' --add-token '<|im_end|>' --add-token '<think>' --add-token '</think>'\n";

int ew_cli_train_tokenizer(int argc, char **argv) {
    request asked = {.vocab_size = 4096, .least_count = 2};
    const ew_option options[] = {
        {"output", 'o', EW_OPTION_TEXT, &asked.output, .argument = "FILE",
         .help = "the tokenizer.json to write (required); tokenizer_config.json goes beside it"},
        {"vocab", 0, EW_OPTION_COUNT, &asked.vocab_size, .argument = "N", .least = 256, .most = EW_LEARN_MAX_VOCAB,
         .help = "tokens in all: 256 bytes, learned ones, added ones (4096)"},
        {"add-token", 0, EW_OPTION_LIST, &asked.added, .argument = "TEXT",
         .help = "a token of its own, the last ids; <|...|> are special; up to 16 times"},
        {"min-count", 0, EW_OPTION_COUNT, &asked.least_count, .argument = "N", .least = 2,
         .help = "a pair that occurs less often is not merged (2)"},
    };
    const ew_command command = {
        .name = "train tokenizer",
        .positionals = "TEXT...",
        .summary =
            "Learn a byte-level BPE tokenizer, in which every digit is a token. A TEXT whose name ends in .jsonl is\n"
            "read as lines of training data, else it is plain text. The same texts give the same tokenizer; of\n"
            "pairs that occur equally often the one with the smaller ids is merged first.",
        .examples = examples,
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .least_positionals = 1,
        .most_positionals = TEXTS_MOST,
    };
    int exit_code;
    if (!ew_arguments_parse(&command, argc, argv, asked.texts, &exit_code)) {
        return exit_code;
    }
    while (asked.n_texts < TEXTS_MOST && asked.texts[asked.n_texts]) {
        asked.n_texts++;
    }
    if (!asked.output) {
        return ew_usage_error(&command, "say where to write the result: -o tokenizer.json");
    }
    return run(&asked);
}
