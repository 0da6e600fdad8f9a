/* Training data: JSONL lines become examples, sequences of tokens in which some are targets.
 *
 * A line is one of (docs/formats.md, "Training data"; the first form that a line has counts)
 *   input_ids [, labels] [, prompt_length]     ready-made; a label is -100 (no target) or the token itself
 *   messages [, budget]                        role and content [, reasoning_content or thinking]
 *   conversations [, budget]                   from and value
 *   problem [, solution] , answer [, budget]   thinking = solution, answer = \boxed{answer}
 *   text                                       with `plain_text` only: every token but the first is a target
 * Replies are built by text/reply_parts.h and by nothing else.
 *
 * A line that makes no example is dropped, counted by reason and told by number; only what is nobody's mistake in a
 * line (memory, a file that cannot be read, a set without any example) is an error. */
#ifndef EW_TRAIN_DATASET_H
#define EW_TRAIN_DATASET_H

#include "text/reply_parts.h"

/* ids[t] is predicted from ids[0 .. t - 1]; weights[t] is what -log p(ids[t]) counts in the loss: 1 a target, 0 none,
 * prompt_weight for tokens before the targets' part. weights[0] is 0. A label of -100 is a weight of 0. */
typedef struct ew_example {
    const int32_t *ids;   /* [length]; in the dataset's memory, as weights is */
    const float *weights; /* [length] */
    size_t length;        /* 2 or more */
    size_t prompt_length; /* masked LoRA: the adapter is off at inputs before this one, on from it on */
    size_t n_targets;     /* weights of exactly 1 */
    double total_weight;  /* sum of weights */
    size_t line;          /* of the file, from 1; examples of one line stand together */
} ew_example;

typedef enum ew_drop_reason {
    EW_DROP_JSON = 0, /* no JSON object */
    EW_DROP_FORM,     /* no form above, or a field of the wrong kind */
    EW_DROP_ROLE,     /* a role that is not system, user, assistant (or human, gpt) */
    EW_DROP_REPLY,    /* no reply to learn, an empty one, one whose thinking never ends */
    EW_DROP_IDS,      /* ids outside of the vocabulary, labels that are not the ids, no target among them */
    EW_DROP_TEXT,     /* the tokenizer or the template refuses it */
    EW_DROP_LONG,     /* more tokens than max_tokens */
    EW_DROP_REASONS
} ew_drop_reason;
const char *ew_drop_reason_name(ew_drop_reason reason); /* "no JSON object", ... */

enum { EW_DROPS_SHOWN = 8 };
typedef struct ew_drops {
    size_t count;
    size_t lines[EW_DROPS_SHOWN]; /* the first of them */
    ew_error first;               /* what was wrong with the first one */
} ew_drops;

typedef struct ew_dataset_options {
    const ew_tokenizer *tokenizer;
    const ew_chat_template *chat; /* NULL: lines that need one are dropped */
    size_t vocab_size;            /* ready-made ids are below it */
    size_t max_tokens;            /* of an example; longer ones are dropped */
    bool no_think;                /* solutions stand in the answer */
    bool all_turns;               /* an example of every reply of a conversation, not of the last one only */
    bool plain_text;              /* lines of `text` are taken */
    float prompt_weight;          /* of prompt tokens and forced ones, 0 .. 1 */
} ew_dataset_options;

typedef struct ew_dataset {
    ew_example *examples;
    size_t n_examples;
    size_t n_lines; /* of the file, blank ones included */
    size_t n_dropped;
    ew_drops drops[EW_DROP_REASONS];
    size_t n_tokens, n_targets; /* of all examples */
    /* Memory behind the examples. */
    size_t example_capacity, id_capacity, weight_capacity;
    int32_t *ids;
    float *weights;
} ew_dataset;

/* Reads a whole file into *out (start from {0}). EW_ERROR_FORMAT when no line makes an example: the sentence says
 * what was wrong most often, and where first. */
ew_status ew_dataset_read(const char *path, const ew_dataset_options *options, ew_dataset *out, ew_error *error);

/* The same of a text in memory; `name` is for messages. */
ew_status ew_dataset_read_text(ew_string text, const char *name, const ew_dataset_options *options, ew_dataset *out,
                               ew_error *error);
void ew_dataset_free(ew_dataset *dataset); /* safe on {0} */

/* One sentence for people, appended: "3 of 100 lines dropped: 2 too long (lines 7, 9), 1 no JSON object (line 12)";
 * nothing when none was. */
void ew_dataset_describe_drops(const ew_dataset *dataset, ew_buffer *text);

#endif
