/* Any bytes as a training file: whatever is an example has its ids in range, its weights finite and its prompt inside.
 * */
#include "dataset_support.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const ew_dataset *set) {
    for (size_t i = 0; i < set->n_examples; i++) {
        const ew_example *example = &set->examples[i];
        bool sound = example->length >= 2 && example->prompt_length < example->length && example->n_targets > 0;
        for (size_t t = 0; t < example->length; t++) {
            sound = sound && example->ids[t] >= 0 && example->ids[t] < ASCII_VOCAB && example->weights[t] >= 0.0f &&
                    example->weights[t] <= 1.0f;
        }
        if (!sound) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ew_tokenizer *tokenizer;
    static ew_chat_template chat;
    ew_error error;
    if (!tokenizer && open_ascii(&tokenizer, &chat, &error) != EW_OK) {
        abort();
    }
    if (size < 1) {
        return 0;
    }
    const ew_dataset_options options = {.tokenizer = tokenizer,
                                        .chat = &chat,
                                        .vocab_size = ASCII_VOCAB,
                                        .max_tokens = 300,
                                        .no_think = data[0] & 1,
                                        .all_turns = data[0] & 2,
                                        .plain_text = data[0] & 4,
                                        .prompt_weight = data[0] & 8 ? 0.5f : 0.0f};
    ew_dataset set;
    if (ew_dataset_read_text((ew_string){(const char *)data + 1, size - 1}, "fuzz", &options, &set, &error) == EW_OK) {
        ew_buffer text = {0};
        check(&set);
        ew_dataset_describe_drops(&set, &text);
        ew_buffer_free(&text);
        ew_dataset_free(&set);
    }
    return 0;
}
