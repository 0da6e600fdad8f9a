#include "cli/train/examples.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

static ew_status read_data(const char *path, const ew_dataset_options *options, ew_dataset *data, ew_error *error) {
    ew_status status = ew_dataset_read(path, options, data, error);
    ew_buffer dropped = {0};
    if (status == EW_OK) {
        ew_dataset_describe_drops(data, &dropped);
        if (dropped.length > 0 && dropped.data) {
            fprintf(stderr, "edgewise: %s: %s\n", path, dropped.data);
        }
        ew_buffer_free(&dropped);
    }
    return status;
}

static void add(ew_examples *examples, const ew_dataset *data, bool masked) {
    for (size_t i = 0; i < data->n_examples; i++) {
        const ew_example *example = &data->examples[i];
        examples->lines[examples->n] = example->line;
        examples->sequences[examples->n++] = (ew_train_sequence){
            .ids = example->ids,
            .n = example->length,
            .prompt_length = masked && example->prompt_length < example->length ? example->prompt_length : 0,
            .weights = example->weights,
        };
    }
}

ew_status ew_examples_read(const ew_train_base *base, const ew_example_form *form, const char *path, const char *more,
                           ew_examples *examples, ew_error *error) {
    size_t context = base->network->config.context_length;
    const ew_dataset_options options = {
        .tokenizer = base->tokenizer,
        .chat = base->chat,
        .vocab_size = base->network->config.vocab_size,
        .max_tokens = form->max_tokens > 0 && form->max_tokens < context ? form->max_tokens : context,
        .no_think = form->no_think,
        .all_turns = form->all_turns,
        .plain_text = form->plain_text,
        .prompt_weight = (float)form->prompt_weight,
    };
    ew_status status = read_data(path, &options, &examples->data, error);
    if (status == EW_OK && more) {
        status = read_data(more, &options, &examples->more, error);
    }
    if (status != EW_OK) {
        return status;
    }
    size_t n = examples->data.n_examples + examples->more.n_examples;
    examples->sequences = ew_allocate(n, sizeof *examples->sequences);
    examples->lines = ew_allocate(n, sizeof *examples->lines);
    if (!examples->sequences || !examples->lines) {
        return ew_fail_memory(error, n * sizeof *examples->sequences, "the list of examples");
    }
    bool masked = !base->network->dense && !form->unmasked;
    add(examples, &examples->data, masked);
    add(examples, &examples->more, masked);
    examples->n_more = examples->more.n_examples;
    return EW_OK;
}

void ew_examples_free(ew_examples *examples) {
    ew_dataset_free(&examples->data);
    ew_dataset_free(&examples->more);
    free(examples->sequences);
    free(examples->lines);
    *examples = (ew_examples){0};
}
