#include "reason/policy.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "model/options.h"
#include "reason/heads.h"
#include "reason/stop_strings.h"
#include "text/characters.h"
#include "text/reply_parts.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static ew_status check_numbers(const ew_policy *policy, ew_error *error) {
    const struct {
        const char *name;
        double value, least, most;
    } ranges[] = {
        {"threshold", policy->threshold, -INFINITY, 1},
        {"time limit", policy->time_limit, 0, 1e9},
        {"confidence", policy->confidence, 0, 1},
        {"decision level", policy->decision_level, 0, 1},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (!(ranges[i].value >= ranges[i].least && ranges[i].value <= ranges[i].most)) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "the policy's %s is %g; it must lie between %g and %g",
                           ranges[i].name, ranges[i].value, fmax(ranges[i].least, 0), ranges[i].most);
        }
    }
    if ((unsigned)policy->mode > EW_MODE_OFF || (unsigned)policy->vote > EW_VOTE_BEST ||
        (unsigned)policy->task > EW_TASK_CHOICE) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "the policy's mode %d, vote %d or task %d does not exist",
                       (int)policy->mode, (int)policy->vote, (int)policy->task);
    }
    return EW_OK;
}

static ew_status check_streams(const ew_policy *policy, ew_error *error) {
    size_t n = ew_policy_streams(policy);
    if (n == 0 || n > EW_STREAMS_MOST) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%zu streams are asked for; 1 to %d are possible", n, EW_STREAMS_MOST);
    }
    if (n > 1 && !(policy->sampling.temperature > 0.0f)) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "several streams at temperature 0 would all say the same: ask for one, or for a temperature");
    }
    if (policy->vote == EW_VOTE_BEST && n > 1 && !policy->verifier) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "the best of several answers can only be told by a verifier: none is given");
    }
    if (policy->streams == 0 && !policy->verifier) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "as many streams as are needed (auto) can only be told by a verifier: none is given");
    }
    return EW_OK;
}

static ew_status check_thinking(const ew_policy *policy, const ew_source *source, ew_error *error) {
    bool can = policy->adapter || ew_source_thinks(source);
    if (policy->mode == EW_MODE_ON && policy->thinking_budget == 0) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "a thinking budget of 0 contradicts mode on: ask for mode off, or for a budget above 0");
    }
    if (policy->mode == EW_MODE_ON && !can) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "this model does not think by itself: mode on needs an adapter that was trained to");
    }
    if (policy->answer_tokens == 0) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "an answer of at most 0 tokens is asked for; at least 1 is needed");
    }
    if (policy->loop_length > 0 && policy->loop_repeats < 2) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a loop comes at least 2 times; %zu are given", policy->loop_repeats);
    }
    return EW_OK;
}

/* A head belongs to the model, and to the adapter that was on when it was trained. */
static ew_status check_heads(const ew_policy *policy, const ew_model *model, ew_error *error) {
    const bool foreign = (policy->switcher && policy->switcher->model != model) ||
                         (policy->verifier && policy->verifier->model != model);
    if (foreign) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a switcher or verifier was opened for another model");
    }
    if (policy->switcher && policy->switcher->head.adapter_fingerprint[0] != '\0') {
        return ew_fail(error, EW_ERROR_ARGUMENT, "the switcher was trained with an adapter; it reads the model alone");
    }
    return EW_OK;
}

ew_status ew_policy_read(const ew_policy *given, const ew_source *source, ew_policy *policy, ew_error *error) {
    *policy = (ew_policy)EW_POLICY_INIT;
    ew_status status = ew_read_options(given, policy, sizeof *policy, "ew_policy", error);
    if (status == EW_OK) {
        ew_sampling sampling = EW_SAMPLING_INIT;
        status = ew_read_options(&policy->sampling, &sampling, sizeof sampling, "ew_sampling", error);
        policy->sampling = sampling;
    }
    if (status == EW_OK) {
        status = check_numbers(policy, error);
    }
    if (status == EW_OK) {
        status = check_streams(policy, error);
    }
    if (status == EW_OK) {
        status = check_thinking(policy, source, error);
    }
    if (status == EW_OK) {
        status = check_heads(policy, source->session->model, error);
    }
    return status == EW_OK ? ew_check_stops(policy->stop, policy->n_stop, error) : status;
}

ew_status ew_policy_closing(const ew_model *model, const char *closing, ew_tokens *tokens, const char **after,
                            ew_error *error) {
    closing = closing ? closing : "\n</think>\n\n";
    size_t length = strlen(closing);
    const char *tag = strstr(closing, "</think>");
    if (!tag || strstr(tag + 1, "</think>") || strstr(closing, "<think>") ||
        ew_utf8_valid_prefix(closing, length) != length) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "the text that closes a thinking must be UTF-8 with one </think> and no <think>");
    }
    *after = tag + strlen("</think>");
    *after += ew_leading_space(*after, strlen(*after));
    const ew_string text = {closing, length};
    return ew_reply_encode_closing(&model->chat_template, model->tokenizer, text, tokens, error);
}

size_t ew_policy_streams(const ew_policy *policy) {
    return policy->streams > 0 ? policy->streams : policy->most_streams;
}

/* Pages that all streams can take: those before the end of the prompt once. A stream's first page is its own copy. */
static bool pages_needed(size_t n_streams, size_t n_prompt, size_t n_reply, size_t *n_pages) {
    size_t end, own, shared = n_prompt / EW_PAGE_POSITIONS;
    if (!ew_add_size(n_prompt, n_reply, &end) || !ew_add_size(end, EW_PAGE_POSITIONS - 1, &end)) {
        return false;
    }
    own = end / EW_PAGE_POSITIONS - shared;
    return ew_multiply_size(own, n_streams, n_pages) && ew_add_size(*n_pages, shared + 1, n_pages);
}

ew_status ew_policy_fits(const ew_session *session, size_t n_streams, size_t n_prompt, size_t n_reply,
                         ew_error *error) {
    const ew_page_pool *pool = &session->pages;
    size_t room = n_prompt < session->context_length ? session->context_length - n_prompt : 0, n_pages = 0;
    size_t most = pool->n_pages_most;
    n_reply = n_reply == EW_NO_LIMIT ? 1 : n_reply < room ? n_reply : room;
    if (most == 0) {
        long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
        most = pages > 0 && bytes > 0 ? (size_t)pages * (size_t)bytes / pool->page_bytes : SIZE_MAX;
    }
    if (pages_needed(n_streams, n_prompt, n_reply, &n_pages) && n_pages <= most) {
        return EW_OK;
    }
    size_t fitting = n_streams;
    while (fitting > 0 && !(pages_needed(fitting, n_prompt, n_reply, &n_pages) && n_pages <= most)) {
        fitting--;
    }
    return ew_fail(
        error, fitting > 0 ? EW_ERROR_ARGUMENT : EW_ERROR_CONTEXT,
        "%zu streams of up to %zu tokens behind a prompt of %zu do not fit the KV memory of %.1f MB; %zu would",
        n_streams, n_reply, n_prompt, (double)most * (double)pool->page_bytes * 1e-6, fitting);
}
