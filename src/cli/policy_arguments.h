/* The options that say how an answer is come by: thinking, budgets, streams, vote. Shared by `run`, `chat` and `eval`. */
#ifndef EW_CLI_POLICY_ARGUMENTS_H
#define EW_CLI_POLICY_ARGUMENTS_H

#include "cli/engine.h"
#include "cli/reply_arguments.h"

/* Start from EW_POLICY_ARGUMENTS_INIT. */
typedef struct ew_policy_arguments {
    int think; /* index into "auto", "on", "off" */
    bool think_given, no_thinking;
    size_t budget, total_budget; /* EW_NO_LIMIT: none */
    const char *streams;         /* "auto" or a number */
    bool streams_given;
    double time_limit, threshold;
    bool threshold_given, tell_budget, run_all, no_loop_check;
    int vote;
    const char *closing; /* as given: \n and \\ are written out in it; NULL: the usual one */
    const char *switcher_path, *verifier_path;
    bool show_thinking, hide_thinking;
    ew_switcher *switcher;
    ew_verifier *verifier;
    char *closing_text; /* owned */
} ew_policy_arguments;
#define EW_POLICY_ARGUMENTS_INIT                                                                                       \
    { .budget = EW_NO_LIMIT, .total_budget = EW_NO_LIMIT, .streams = "1" }

enum { EW_POLICY_OPTIONS = 16 };

void ew_policy_option_table(ew_policy_arguments *arguments, ew_option *table);

/* Opens the heads that the options name. Whatever comes of it and of ew_policy_arguments_apply,
 * ew_policy_arguments_close ends it. */
ew_status ew_policy_arguments_open(ew_policy_arguments *arguments, const ew_model *model, ew_error *error);
void ew_policy_arguments_close(ew_policy_arguments *arguments);

/* "auto", "on", "off", NULL, in the order of ew_mode. */
extern const char *const ew_mode_names[];
/* "weighted", "majority", "best", NULL, in the order of ew_vote. */
extern const char *const ew_vote_names[];
/* One of them (of /think and --think). */
bool ew_parse_mode(const char *text, ew_mode *mode);
/* A number of streams, 0 for "auto". */
bool ew_parse_streams(const char *text, size_t *streams);

/* Sets the policy but for sampling and adapter; what it points to stays the arguments'. Several streams of a model whose
 * authors recommend the likeliest token are drawn at temperature 0.7 if `temperature_given` is false.
 * EW_ERROR_ARGUMENT: a number of streams that is none, a closing that is none, options that contradict each other. */
ew_status ew_policy_arguments_apply(ew_policy_arguments *arguments, bool temperature_given, ew_policy *policy,
                                    ew_error *error);
/* All of it: the model's sampling with what was given, the adapter, the heads (opened here), the rest. */
ew_status ew_policy_make(ew_policy_arguments *arguments, const ew_reply_arguments *reply, const ew_engine *engine,
                         ew_policy *policy, ew_error *error);
/* The last of it, for streams that are set later. */
void ew_warm_up_streams(bool temperature_given, ew_policy *policy);

#endif
