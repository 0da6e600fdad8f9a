/* A tokenizer learned from texts: byte-level BPE with Qwen2's pre-tokenizer, in which every digit is a piece of its
 * own.
 *
 * Ids: 0 .. 255 the bytes in the order of GPT-2's byte alphabet, then the learned tokens in the order of their merges,
 * then the added tokens in the order given. The same texts and options give the same bytes (bpe_learn.h has the rule
 * for equal counts). Added tokens of the form <|...|> are special; others (<think>) are ordinary added tokens. */
#ifndef EW_TRAIN_TOKENIZER_LEARN_H
#define EW_TRAIN_TOKENIZER_LEARN_H

#include "train/bpe_learn.h"
#include "text/tokenizer.h"

enum { EW_LEARN_MAX_VOCAB = 1 << 20, EW_LEARN_MAX_ADDED = 256 };

typedef struct ew_learn_options {
    size_t vocab_size;    /* all tokens together; fewer come out when the texts hold no more pairs */
    uint64_t least_count; /* a pair that occurs less often is not merged; 0: 2 */
    const char *const *added;
    size_t n_added; /* no text twice, none empty */
} ew_learn_options;

typedef struct ew_tokenizer_learner {
    ew_learn_options options;
    ew_tokenizer *cutter; /* no merges: it cuts texts into pieces */
    ew_bpe_learner learner;
} ew_tokenizer_learner;

/* The strings of `options` must outlive the learner. Whatever comes of it, ew_tokenizer_learner_close ends it. */
ew_status ew_tokenizer_learner_open(const ew_learn_options *options, ew_tokenizer_learner *learner, ew_error *error);
void ew_tokenizer_learner_close(ew_tokenizer_learner *learner); /* safe on {0} */

/* Counts the pieces of a text; the text of added tokens and what is no UTF-8 are left out. */
ew_status ew_tokenizer_learner_add(ew_tokenizer_learner *learner, ew_string text, ew_error *error);

/* A file: JSONL when its name ends so, of which the strings are taken that stand under problem, solution, answer,
 * choices, text, content, value, thinking and reasoning_content, wherever; else a text. */
ew_status ew_tokenizer_learner_add_file(ew_tokenizer_learner *learner, const char *path, ew_error *error);

/* Learns, and appends what tokenizer.json and tokenizer_config.json hold. The latter has ChatML's template if
 * <|im_start|> and <|im_end|> are among the added tokens. Once. */
ew_status ew_tokenizer_learner_finish(ew_tokenizer_learner *learner, ew_buffer *tokenizer_json, ew_buffer *config_json,
                                      ew_error *error);

#endif
