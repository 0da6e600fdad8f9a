/* Examples from JSONL files as the trainer wants them. */
#ifndef EW_CLI_TRAIN_EXAMPLES_H
#define EW_CLI_TRAIN_EXAMPLES_H

#include "train/base.h"
#include "train/dataset.h"
#include "train/train.h"

/* How lines become examples: options of the command line. */
typedef struct ew_example_form {
    bool unmasked, no_think, all_turns, plain_text;
    size_t max_tokens; /* 0: the context */
    double prompt_weight;
} ew_example_form;

/* Examples of one file or two, in their order. */
typedef struct ew_examples {
    ew_dataset data, more;
    ew_train_sequence *sequences; /* [n]; into the datasets' memory */
    size_t *lines;                /* [n], of the file that each came from */
    size_t n, n_more;             /* of both; of the second */
} ew_examples;

/* Reads `path`, and `more` (NULL: none) behind it. Tells stderr what was dropped. */
ew_status ew_examples_read(const ew_train_base *base, const ew_example_form *form, const char *path, const char *more,
                           ew_examples *examples, ew_error *error);
void ew_examples_free(ew_examples *examples); /* safe on {0} */

#endif
