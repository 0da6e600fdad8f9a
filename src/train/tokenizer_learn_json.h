/* Learned tokens and merges as the JSON that tokenizer.json and tokenizer_config.json hold. */
#ifndef EW_TRAIN_TOKENIZER_LEARN_JSON_H
#define EW_TRAIN_TOKENIZER_LEARN_JSON_H

#include "train/tokenizer_learn.h"

ew_status ew_learned_tokenizer_json(const ew_bpe_learner *learner, const ew_learn_options *options, ew_buffer *out,
                                    ew_error *error);
ew_status ew_learned_config_json(const ew_learn_options *options, ew_buffer *out, ew_error *error);

#endif
