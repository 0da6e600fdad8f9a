#include "cli/reply_arguments.h"

void ew_reply_option_table(ew_reply_arguments *arguments, char max_tokens_letter, ew_option *table) {
    const ew_option options[EW_REPLY_OPTIONS] = {
        {.name = "system",
         .letter = 's',
         .type = EW_OPTION_TEXT,
         .value = &arguments->system,
         .argument = "TEXT",
         .help = "the system message; default: the template's own"},
        {.name = "max-tokens",
         .letter = max_tokens_letter,
         .type = EW_OPTION_COUNT,
         .value = &arguments->max_tokens,
         .argument = "N",
         .help = "most tokens of an answer, 1024; 0: until the context is full"},
        {.name = "temperature",
         .type = EW_OPTION_NUMBER,
         .value = &arguments->temperature,
         .argument = "T",
         .least = 0,
         .most = 100,
         .given = &arguments->has_temperature,
         .help = "0: always the likeliest token. Default of this and the next four: the model's own"},
        {.name = "top-k",
         .type = EW_OPTION_COUNT,
         .value = &arguments->top_k,
         .argument = "K",
         .least = 0,
         .most = 1 << 30,
         .given = &arguments->has_top_k,
         .help = "draw among the K likeliest; 0: off"},
        {.name = "top-p",
         .type = EW_OPTION_NUMBER,
         .value = &arguments->top_p,
         .argument = "P",
         .least = 0,
         .most = 1,
         .given = &arguments->has_top_p,
         .help = "draw among the likeliest that make up P; 1: off"},
        {.name = "min-p",
         .type = EW_OPTION_NUMBER,
         .value = &arguments->min_p,
         .argument = "P",
         .least = 0,
         .most = 1,
         .given = &arguments->has_min_p,
         .help = "drop what is below P times the likeliest; 0: off"},
        {.name = "repetition-penalty",
         .type = EW_OPTION_NUMBER,
         .value = &arguments->repetition_penalty,
         .argument = "X",
         .least = 0.01,
         .most = 100,
         .given = &arguments->has_penalty,
         .help = "make tokens that occurred less likely; 1: off"},
        {.name = "seed",
         .type = EW_OPTION_SEED,
         .value = &arguments->seed,
         .argument = "N",
         .help = "of the draws, 0: the same seed gives the same reply"},
        {.name = "stop",
         .type = EW_OPTION_LIST,
         .value = &arguments->stop,
         .argument = "TEXT",
         .help = "end the answer before this text; may be given several times"},
    };
    for (size_t i = 0; i < EW_REPLY_OPTIONS; i++) {
        table[i] = options[i];
    }
}

void ew_reply_arguments_apply(const ew_reply_arguments *arguments, const ew_model *model, ew_policy *policy) {
    ew_sampling *sampling = &policy->sampling;
    ew_model_sampling(model, sampling);
    if (arguments->has_temperature) {
        sampling->temperature = (float)arguments->temperature;
    }
    if (arguments->has_top_k) {
        sampling->top_k = (uint32_t)arguments->top_k;
    }
    if (arguments->has_top_p) {
        sampling->top_p = (float)arguments->top_p;
    }
    if (arguments->has_min_p) {
        sampling->min_p = (float)arguments->min_p;
    }
    if (arguments->has_penalty) {
        sampling->repetition_penalty = (float)arguments->repetition_penalty;
    }
    sampling->seed = arguments->seed;
    policy->answer_tokens = arguments->max_tokens > 0 ? arguments->max_tokens : EW_NO_LIMIT;
    policy->stop = arguments->stop.items;
    policy->n_stop = arguments->stop.count;
}
