/* The options that say how an answer is drawn, shared by `run`, `chat` and `sample`. */
#ifndef EW_CLI_REPLY_ARGUMENTS_H
#define EW_CLI_REPLY_ARGUMENTS_H

#include "cli/arguments.h"
#include "edgewise.h"

/* Start from EW_REPLY_ARGUMENTS_INIT. */
typedef struct ew_reply_arguments {
    const char *system;
    size_t max_tokens; /* 0: until the context is full */
    double temperature, top_p, min_p, repetition_penalty;
    size_t top_k;
    uint64_t seed;
    ew_text_list stop;
    bool has_temperature, has_top_p, has_min_p, has_penalty, has_top_k; /* given; else the model's own */
} ew_reply_arguments;
#define EW_REPLY_ARGUMENTS_INIT                                                                              \
    { .max_tokens = 1024 }

enum { EW_REPLY_OPTIONS = 9 };

/* --max-tokens has the letter `max_tokens_letter`; 0: none, where -n means something else. */
void ew_reply_option_table(ew_reply_arguments *arguments, char max_tokens_letter, ew_option *table);

/* The model's recommendations with what was given on top. The stop strings stay the arguments'. */
void ew_reply_arguments_apply(const ew_reply_arguments *arguments, const ew_model *model, ew_policy *policy);

#endif
