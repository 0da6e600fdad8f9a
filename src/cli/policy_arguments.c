#include "cli/policy_arguments.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

const char *const ew_mode_names[] = {"auto", "on", "off", NULL};
const char *const ew_vote_names[] = {"weighted", "majority", "best", NULL};

/* Temperature of several streams where none is recommended: method.md's. */
static const float SEVERAL_TEMPERATURE = 0.7f;

void ew_policy_option_table(ew_policy_arguments *arguments, ew_option *table) {
    const ew_option options[EW_POLICY_OPTIONS] = {
        {.name = "think",
         .type = EW_OPTION_CHOICE,
         .value = &arguments->think,
         .choices = ew_mode_names,
         .given = &arguments->think_given,
         .help = "think first, answer at once, or as the switcher says"},
        {.name = "no-thinking",
         .type = EW_OPTION_FLAG,
         .value = &arguments->no_thinking,
         .help = "the same as --think off"},
        {.name = "budget",
         .type = EW_OPTION_COUNT,
         .value = &arguments->budget,
         .argument = "N",
         .least = 0,
         .most = 1 << 30,
         .help = "most tokens of thinking; default: as the context allows"},
        {.name = "total-budget",
         .type = EW_OPTION_COUNT,
         .value = &arguments->total_budget,
         .argument = "N",
         .least = 1,
         .most = 1 << 30,
         .help = "most tokens of thinking and answer"},
        {.name = "time",
         .type = EW_OPTION_NUMBER,
         .value = &arguments->time_limit,
         .argument = "S",
         .least = 0,
         .most = 1e9,
         .help = "seconds that an answer may take; thinking is cut at three quarters. 0: no limit"},
        {.name = "tell-budget",
         .type = EW_OPTION_FLAG,
         .value = &arguments->tell_budget,
         .help = "tell the model the budget, for adapters trained with it"},
        {.name = "no-loop-check",
         .type = EW_OPTION_FLAG,
         .value = &arguments->no_loop_check,
         .help = "do not cut a thinking that repeats itself"},
        {.name = "closing",
         .type = EW_OPTION_TEXT,
         .value = &arguments->closing,
         .argument = "TEXT",
         .help = "what closes a cut thinking, with one </think>; \\n is a line end. Default: \\n</think>\\n\\n"},
        {.name = "streams",
         .type = EW_OPTION_TEXT,
         .value = &arguments->streams,
         .argument = "N",
         .given = &arguments->streams_given,
         .help = "answers that are written at once and vote, 1; auto: as many as the verifier wants"},
        {.name = "vote",
         .type = EW_OPTION_CHOICE,
         .value = &arguments->vote,
         .choices = ew_vote_names,
         .help = "by scores, by number, or the best scored; without a verifier by number"},
        {.name = "all-streams",
         .type = EW_OPTION_FLAG,
         .value = &arguments->run_all,
         .help = "let all end, even when the vote is decided"},
        {.name = "switcher",
         .type = EW_OPTION_TEXT,
         .value = &arguments->switcher_path,
         .argument = "FILE",
         .help = "the head that --think auto asks"},
        {.name = "threshold",
         .type = EW_OPTION_NUMBER,
         .value = &arguments->threshold,
         .argument = "P",
         .least = 0,
         .most = 1,
         .given = &arguments->threshold_given,
         .help = "think from this probability on; default: the switcher's own"},
        {.name = "verifier",
         .type = EW_OPTION_TEXT,
         .value = &arguments->verifier_path,
         .argument = "FILE",
         .help = "the head that scores answers"},
        {.name = "show-thinking",
         .type = EW_OPTION_FLAG,
         .value = &arguments->show_thinking,
         .help = "print the thinking to stderr; default: if that is a terminal"},
        {.name = "hide-thinking", .type = EW_OPTION_FLAG, .value = &arguments->hide_thinking, .help = "do not"},
    };
    for (size_t i = 0; i < EW_POLICY_OPTIONS; i++) {
        table[i] = options[i];
    }
}

ew_status ew_policy_arguments_open(ew_policy_arguments *arguments, const ew_model *model, ew_error *error) {
    ew_status status = EW_OK;
    if (arguments->switcher_path) {
        status = ew_switcher_open(model, arguments->switcher_path, &arguments->switcher, error);
    }
    if (status == EW_OK && arguments->verifier_path) {
        status = ew_verifier_open(model, arguments->verifier_path, &arguments->verifier, error);
    }
    return status;
}

void ew_policy_arguments_close(ew_policy_arguments *arguments) {
    free(arguments->closing_text);
    arguments->closing_text = NULL;
    ew_switcher_close(arguments->switcher);
    ew_verifier_close(arguments->verifier);
    arguments->switcher = NULL;
    arguments->verifier = NULL;
}

bool ew_parse_mode(const char *text, ew_mode *mode) {
    for (int i = 0; ew_mode_names[i]; i++) {
        if (strcmp(text, ew_mode_names[i]) == 0) {
            *mode = (ew_mode)i;
            return true;
        }
    }
    return false;
}

bool ew_parse_streams(const char *text, size_t *streams) {
    char *end;
    if (strcmp(text, "auto") == 0) {
        *streams = 0;
        return true;
    }
    unsigned long n = strtoul(text, &end, 10);
    if (text[0] < '1' || text[0] > '9' || *end != '\0' || n > 1024) {
        return false;
    }
    *streams = n;
    return true;
}

void ew_warm_up_streams(bool temperature_given, ew_policy *policy) {
    if (policy->streams != 1 && !temperature_given && policy->sampling.temperature == 0.0f) {
        policy->sampling.temperature = SEVERAL_TEMPERATURE;
    }
}

/* A shell hands on "\n" as it is written; a line end in the closing is written so. */
static ew_status read_closing(ew_policy_arguments *arguments, ew_error *error) {
    const char *given = arguments->closing, *from = given;
    free(arguments->closing_text);
    char *text = arguments->closing_text = ew_copy_text(given, strlen(given)), *to = text;
    if (!text) {
        return ew_fail_memory(error, strlen(given), "a text");
    }
    while (*from) {
        if (from[0] == '\\' && from[1] != 'n' && from[1] != '\\') {
            return ew_fail(error, EW_ERROR_ARGUMENT,
                           "--closing %.80s: behind a \\ only n (a line end) and \\ can stand", given);
        }
        bool escaped = from[0] == '\\';
        *to++ = escaped && from[1] == 'n' ? '\n' : *from;
        from += escaped ? 2 : 1;
    }
    *to = '\0';
    if (!strstr(text, "</think>")) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "--closing %.80s: there is no </think> in it", given);
    }
    return EW_OK;
}

ew_status ew_policy_arguments_apply(ew_policy_arguments *arguments, bool temperature_given, ew_policy *policy,
                                    ew_error *error) {
    if (!ew_parse_streams(arguments->streams, &policy->streams)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "--streams %.40s: 1 to 1024 or auto is meant", arguments->streams);
    }
    if (arguments->no_thinking && arguments->think_given && arguments->think != EW_MODE_OFF) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "--no-thinking contradicts --think %s", ew_mode_names[arguments->think]);
    }
    ew_status status = arguments->closing ? read_closing(arguments, error) : EW_OK;
    policy->closing = arguments->closing_text;
    policy->mode = arguments->no_thinking ? EW_MODE_OFF : (ew_mode)arguments->think;
    policy->thinking_budget = arguments->budget;
    policy->total_budget = arguments->total_budget;
    policy->time_limit = arguments->time_limit;
    policy->tell_budget = arguments->tell_budget;
    policy->loop_length = arguments->no_loop_check ? 0 : policy->loop_length;
    policy->vote = (ew_vote)arguments->vote;
    policy->run_all = arguments->run_all;
    policy->threshold = arguments->threshold_given ? arguments->threshold : -1.0;
    policy->switcher = arguments->switcher;
    policy->verifier = arguments->verifier;
    ew_warm_up_streams(temperature_given, policy);
    return status;
}

ew_status ew_policy_make(ew_policy_arguments *arguments, const ew_reply_arguments *reply, const ew_engine *engine,
                         ew_policy *policy, ew_error *error) {
    *policy = (ew_policy)EW_POLICY_INIT;
    policy->adapter = engine->adapter;
    ew_reply_arguments_apply(reply, engine->model, policy);
    ew_status status = ew_policy_arguments_open(arguments, engine->model, error);
    return status == EW_OK ? ew_policy_arguments_apply(arguments, reply->has_temperature, policy, error) : status;
}
