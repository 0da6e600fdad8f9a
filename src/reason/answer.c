/* One answer by a policy: the prompt by the model alone, the routing decision, the reply's header in the mode that was
 * decided, the strands, the vote. */
#include "reason/answer.h"
#include "base/memory.h"
#include "model/options.h"
#include "reason/conversation.h"
#include "reason/ensemble.h"
#include "reason/policy.h"
#include "reason/prefix.h"
#include "text/reply_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct answering {
    const ew_source *source;
    ew_session *session;
    const ew_model *model;
    ew_policy policy;
    ew_answer_callbacks callbacks;
    ew_prefix *prefix;
    ew_tokens prompt;  /* without the reply's header */
    ew_tokens opening; /* the header, and what opens a thinking */
    ew_writing writing;
    ew_ensemble ensemble;
    ew_stream *trunk; /* where the strands begin; the prefix's stream, or a fork with the adapter on */
    float *logits;    /* [vocab_size]: after the trunk's last token */
    size_t n_streams; /* to begin with */
    ew_answer_result *result;
} answering;

static double elapsed(const answering *a) {
    return a->source->now(a->source->self) - a->writing.start;
}

/* ---- The prompt ---- */

/* Room for the reply that old turns make way for. */
static size_t reply_room(const answering *a) {
    const ew_policy *policy = &a->policy;
    bool may_think = policy->mode != EW_MODE_OFF && (policy->adapter || ew_source_thinks(a->source));
    const ew_limits limits = {.thinking = policy->thinking_budget,
                              .answer = policy->answer_tokens,
                              .total = policy->total_budget,
                              .closing = a->writing.closing.count};
    size_t most = ew_limits_most(&limits, may_think);
    return ew_reply_room(a->session->context_length, most == EW_NO_LIMIT ? 0 : most);
}

static ew_status make_prompt(answering *a, const ew_message *messages, size_t n_messages, ew_error *error) {
    size_t header = 0, bytes = 0;
    ew_message *earlier = ew_allocate(n_messages, sizeof *earlier);
    if (!earlier) {
        return ew_fail_memory(error, ew_multiply_size(n_messages, sizeof *earlier, &bytes) ? bytes : SIZE_MAX,
                              "the messages");
    }
    ew_messages_without_thinking(messages, n_messages, earlier);
    ew_status status = ew_conversation_fit(a->model, earlier, n_messages, true, a->session->context_length,
                                           reply_room(a), &a->prompt, &header, &a->result->n_dropped_messages, error);
    free(earlier);
    a->prompt.count = header;
    return status;
}

/* What stands between the prompt and the reply's first token, whatever the prompt. */
static ew_status make_opening(answering *a, bool thinks, ew_error *error) {
    const ew_chat_template *chat = &a->model->chat_template;
    const ew_message probe = {"user", "", 0};
    ew_tokens whole = {0};
    size_t header = 0;
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%zu", a->policy.thinking_budget);
    a->opening.count = 0;
    ew_status status = ew_prompt_encode(chat, a->model->tokenizer, &probe, 1, thinks, &whole, &header, error);
    if (status == EW_OK) {
        status = ew_tokens_append(&a->opening, whole.ids + header, whole.count - header, error);
    }
    ew_tokens_free(&whole);
    if (status == EW_OK && thinks && a->policy.tell_budget && a->policy.thinking_budget != EW_NO_LIMIT) {
        const ew_string budget = {digits, (size_t)n};
        status = ew_reply_encode_part(chat, a->model->tokenizer, EW_PART_BUDGET, budget, &a->opening, error);
    }
    if (status == EW_OK && thinks) {
        const ew_string nothing = {"", 0};
        status = ew_reply_encode_part(chat, a->model->tokenizer, EW_PART_THINK_OPEN, nothing, &a->opening, error);
    }
    return status;
}

/* ---- Routing ---- */

static bool needs_routing(const answering *a) {
    return a->policy.mode == EW_MODE_AUTO && a->policy.switcher && (a->policy.adapter || ew_source_thinks(a->source)) &&
           a->policy.thinking_budget > 0;
}

/* The mode that needs no look at the prompt. */
static bool thinks_anyway(const answering *a) {
    if (a->policy.mode == EW_MODE_AUTO) {
        return !a->policy.switcher && !a->policy.adapter && a->policy.thinking_budget > 0 &&
               ew_source_thinks(a->source);
    }
    return a->policy.mode == EW_MODE_ON;
}

static ew_status ask_switcher(answering *a, ew_error *error) {
    ew_answer_result *result = a->result;
    const ew_switcher *switcher = a->policy.switcher;
    result->threshold = a->policy.threshold < 0 ? switcher->head.threshold : a->policy.threshold;
    ew_status status = ew_switcher_ask(switcher, &a->prefix->pooling, &result->probability, error);
    result->thinks = result->probability >= result->threshold;
    return status;
}

/* ---- From the prompt to the strands ---- */

/* Everything up to the first draw: the prefix holds the prompt, the trunk the prompt and the opening. */
static ew_status prefill(answering *a, ew_error *error) {
    ew_answer_result *result = a->result;
    ew_prefix *prefix = a->prefix;
    result->n_prompt_tokens = a->prompt.count;
    ew_status status = ew_prefix_prefill(prefix, a->source, a->prompt.ids, a->prompt.count, &a->callbacks, NULL,
                                         &result->n_cached_tokens, error);
    if (status == EW_OK && needs_routing(a)) {
        status = ask_switcher(a, error);
    }
    if (status != EW_OK) {
        return status;
    }
    result->prompt_seconds = elapsed(a);
    if (a->callbacks.on_mode) {
        a->callbacks.on_mode(a->callbacks.context, result->thinks, result->probability);
    }
    status = make_opening(a, result->thinks, error);
    return status;
}

static bool is_direct(const answering *a) {
    return a->n_streams == 1 && a->policy.streams == 1 && !(a->result->thinks && a->policy.adapter);
}

/* Which cells a strand's reply begins behind: the model's own, or made with the adapter on from the header's first
 * token. */
static ew_status feed_opening(answering *a, ew_error *error) {
    const ew_tokens *opening = &a->opening;
    bool adapted = a->result->thinks && a->policy.adapter;
    if (is_direct(a)) {
        bool pooled = !a->result->thinks; /* what was thought is not part of the next prompt */
        a->trunk = a->prefix->stream;
        a->ensemble.follows = pooled && a->prefix->pooling.d_model > 0 ? &a->prefix->pooling : NULL;
        return ew_prefix_append(a->prefix, a->source, opening->ids, opening->count, pooled, a->logits, error);
    }
    ew_status status = ew_stream_fork(a->prefix->stream, &a->trunk, error);
    if (status == EW_OK && adapted) {
        status = ew_stream_set_adapter(a->trunk, a->policy.adapter, error);
    }
    return status == EW_OK ? ew_feed_tokens(a->source, a->trunk, opening->ids, opening->count, a->logits, NULL, error)
                           : status;
}

/* The verifier, if it was trained for this mode. */
static ew_status choose_verifier(answering *a, ew_error *error) {
    const ew_policy *policy = &a->policy;
    const ew_verifier *verifier = policy->verifier;
    bool adapted = a->result->thinks && policy->adapter;
    bool fits = verifier && ew_verifier_is_for(verifier, adapted ? policy->adapter : NULL);
    a->ensemble.verifier = fits ? verifier : NULL;
    a->ensemble.vote = fits || policy->vote == EW_VOTE_BEST ? policy->vote : EW_VOTE_MAJORITY;
    /* In the other mode than the verifier's, routed or turned off, several answers can still vote by number. */
    bool turned_off = verifier && !adapted && policy->adapter && ew_verifier_is_for(verifier, policy->adapter);
    bool can_do_without =
        (policy->mode == EW_MODE_AUTO || turned_off) && policy->vote != EW_VOTE_BEST && policy->streams > 0;
    if (fits || !verifier || can_do_without) {
        return EW_OK;
    }
    return ew_fail(error, EW_ERROR_ARGUMENT,
                   "the verifier was trained %s an adapter, and this answer is written %s: give the one that goes with "
                   "it, or none",
                   verifier->head.adapter_fingerprint[0] ? "with" : "without",
                   adapted ? "with another one" : "without one");
}

/* What the prompt and the opening say counts as seen by the penalty. */
static const uint8_t *see_prompt(answering *a) {
    ew_sampler *sampler = &a->writing.samplers[0];
    for (size_t i = 0; i < a->prompt.count; i++) {
        ew_sampler_see(sampler, a->prompt.ids[i]);
    }
    for (size_t i = 0; i < a->opening.count; i++) {
        ew_sampler_see(sampler, a->opening.ids[i]);
    }
    return sampler->seen;
}

/* One for each stream, but no more than there are threads. */
static ew_status open_samplers(answering *a, ew_error *error) {
    ew_writing *writing = &a->writing;
    size_t n = ew_policy_streams(&a->policy), n_threads = ew_pool_size(a->session->pool);
    n = n < n_threads ? n : n_threads;
    writing->samplers = ew_allocate(n, sizeof *writing->samplers);
    if (!writing->samplers) {
        return ew_fail_memory(error, n * sizeof *writing->samplers, "the samplers");
    }
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        status = ew_sampler_open(&a->policy.sampling, a->model->config.vocab_size, &writing->samplers[i], error);
        writing->n_samplers += status == EW_OK;
    }
    return status;
}

static void close_samplers(ew_writing *writing) {
    for (size_t i = 0; i < writing->n_samplers; i++) {
        ew_sampler_free(&writing->samplers[i]);
    }
    free(writing->samplers);
}

/* ---- Strands ---- */

static ew_status decode_round(answering *a, const uint8_t *seen, size_t n, ew_error *error) {
    ew_ensemble *e = &a->ensemble;
    bool last = a->policy.streams > 0; /* nothing begins behind the trunk later: one strand may have it */
    ew_status status = EW_OK;
    if (n > last) {
        status = ew_ensemble_add_forks(e, a->trunk, a->logits, seen, n - last, error);
    }
    if (status == EW_OK && last) {
        status = ew_ensemble_add_trunk(e, a->trunk, a->logits, seen, error);
    }
    return status == EW_OK ? ew_ensemble_run(e, error) : status;
}

/* With `streams` 0: how sure is the answer so far? Of one the score, of several the vote's certainty. */
static ew_status is_confident(answering *a, bool *confident, ew_error *error) {
    ew_ensemble *e = &a->ensemble;
    double probability = 0;
    ew_ballots ballots;
    ew_status status = ew_ensemble_ballots(e, &ballots, error);
    if (status == EW_OK && e->n == 1) {
        probability = e->scores[0];
    } else if (status == EW_OK) {
        status = ew_vote_certainty(&ballots, a->policy.most_streams - e->n, &probability, error);
    }
    *confident = probability >= a->policy.confidence;
    return status;
}

static bool is_interrupted(const answering *a) {
    double limit = a->policy.time_limit;
    return a->writing.cancelled || (limit > 0 && elapsed(a) >= limit);
}

/* 1, 4, 8, ... candidates, until the verifier is confident. */
static ew_status decode_all(answering *a, const uint8_t *seen, ew_error *error) {
    size_t n = a->n_streams, most = ew_policy_streams(&a->policy);
    ew_status status = decode_round(a, seen, n, error);
    while (status == EW_OK && a->policy.streams == 0 && n < most && !is_interrupted(a)) {
        bool confident;
        status = is_confident(a, &confident, error);
        if (status != EW_OK || confident) {
            break;
        }
        size_t next = n == 1 ? 4 : 2 * n;
        next = next < most ? next : most;
        status = decode_round(a, seen, next - n, error);
        n = next;
    }
    a->ensemble.n_stopped += most - n;
    return status;
}

static ew_status decode(answering *a, ew_error *error) {
    ew_writing *writing = &a->writing;
    size_t n_begin = a->prompt.count + a->opening.count, most = ew_policy_streams(&a->policy);
    a->n_streams = a->policy.streams > 0 ? a->policy.streams : 1;
    writing->thinks = a->result->thinks;
    ew_status status = ew_limits_make(&a->policy, writing->thinks, writing->closing.count, n_begin,
                                      a->session->context_length, &writing->limits, error);
    if (status == EW_OK) {
        status = ew_policy_fits(a->session, most, n_begin, ew_limits_most(&writing->limits, writing->thinks), error);
    }
    if (status == EW_OK) {
        status = choose_verifier(a, error);
    }
    if (status == EW_OK) {
        status = ew_ensemble_open(&a->ensemble, most, error);
    }
    if (status == EW_OK) {
        status = feed_opening(a, error);
    }
    return status == EW_OK ? decode_all(a, see_prompt(a), error) : status;
}

/* ---- The vote and the result ---- */

/* What the stopped ones would have taken at the mean length of those that came to their end. */
static size_t tokens_saved(const ew_ensemble *e) {
    size_t n_complete = 0, sum = 0, written = 0, n_never_begun = e->n_stopped;
    for (size_t i = 0; i < e->n; i++) {
        bool stopped = e->candidates[i].stop_reason == EW_STOP_DECIDED;
        n_complete += !stopped;
        sum += stopped ? 0 : e->candidates[i].n_tokens;
    }
    size_t mean = n_complete > 0 ? sum / n_complete : 0;
    for (size_t i = 0; i < e->n; i++) {
        if (e->candidates[i].stop_reason == EW_STOP_DECIDED) {
            n_never_begun--;
            written += mean > e->candidates[i].n_tokens ? mean - e->candidates[i].n_tokens : 0;
        }
    }
    return written + n_never_begun * mean;
}

static ew_status count_votes(answering *a, ew_error *error) {
    ew_ensemble *e = &a->ensemble;
    ew_answer_result *result = a->result;
    ew_ballots ballots;
    ew_status status = ew_ensemble_ballots(e, &ballots, error); /* finds the candidates' classes */
    if (status == EW_OK) {
        status = ew_vote_candidates(e->vote, e->candidates, e->n, &result->chosen, &result->n_agreed, error);
    }
    if (status != EW_OK) {
        return status;
    }
    result->n_streams_stopped = e->n_stopped;
    result->n_tokens_saved = tokens_saved(e);
    result->candidates = e->candidates;
    result->n_candidates = e->n;
    e->candidates = NULL;
    return EW_OK;
}

/* Cancelled before anything was drawn: one empty candidate. */
static ew_status give_empty(answering *a, ew_error *error) {
    ew_answer_result *result = a->result;
    result->candidates = ew_allocate(1, sizeof *result->candidates);
    char *thinking = ew_copy_text("", 0), *answer = ew_copy_text("", 0);
    if (!result->candidates || !thinking || !answer) {
        free(thinking);
        free(answer);
        return ew_fail_memory(error, sizeof *result->candidates, "an answer");
    }
    result->candidates[0] = (ew_candidate){.thinking = thinking,
                                           .answer = answer,
                                           .stop_reason = EW_STOP_CANCELLED,
                                           .score = NAN,
                                           .answer_class = SIZE_MAX};
    result->n_candidates = result->n_agreed = 1;
    return EW_OK;
}

/* The prefix keeps the prompt, and the reply too where it is what the next prompt goes on with. */
static void keep_prefix(answering *a) {
    ew_prefix *prefix = a->prefix;
    if (a->trunk && a->trunk != prefix->stream) {
        ew_stream_close(a->trunk);
    } else if (a->trunk && a->result->thinks) {
        ew_stream_truncate(prefix->stream, a->prompt.count);
    }
    if (prefix && prefix->pooling.d_model > 0 && prefix->pooling.n_tokens > ew_stream_length(prefix->stream)) {
        ew_pooling_rewind(&prefix->pooling, ew_stream_length(prefix->stream));
    }
}

static ew_status run(answering *a, ew_error *error) {
    const ew_model *model = a->model;
    size_t vocab_size = model->config.vocab_size;
    ew_status status = open_samplers(a, error);
    if (status == EW_OK) {
        a->logits = ew_allocate_aligned(vocab_size, sizeof *a->logits);
        status = a->logits ? ew_prefix_of(a->source, &a->prefix, error)
                           : ew_fail_memory(error, vocab_size * sizeof *a->logits, "the logits");
    }
    if (status == EW_OK) {
        status = ew_prefix_pool(a->prefix, a->policy.switcher ? &a->policy.switcher->head : NULL, error);
    }
    if (status == EW_OK) {
        status = prefill(a, error);
    }
    if (status == EW_OK) {
        status = decode(a, error);
    }
    if (status == EW_OK) {
        status = count_votes(a, error);
    } else if (status == EW_ERROR_CANCELLED) {
        status = give_empty(a, error);
    }
    return status;
}

static ew_status begin(answering *a, const ew_message *messages, size_t n_messages, const ew_policy *policy,
                       const ew_answer_callbacks *callbacks, ew_error *error) {
    ew_writing *writing = &a->writing;
    ew_status status = ew_read_options(callbacks, &a->callbacks, sizeof a->callbacks, "ew_answer_callbacks", error);
    if (status == EW_OK && !a->model->has_template) {
        status = ew_fail(error, a->model->template_error.status, "%s", a->model->template_error.message);
    }
    if (status == EW_OK) {
        status = ew_policy_read(policy, a->source, &a->policy, error);
    }
    if (status == EW_OK) {
        status = ew_policy_closing(a->model, a->policy.closing, &writing->closing, &writing->after, error);
    }
    if (status == EW_OK) {
        status = make_prompt(a, messages, n_messages, error);
    }
    a->result->thinks = thinks_anyway(a);
    a->result->no_switcher = a->policy.mode == EW_MODE_AUTO && !a->policy.switcher && !a->result->thinks;
    return status;
}

ew_status ew_answer_from(const ew_source *source, const ew_message *messages, size_t n_messages,
                         const ew_policy *policy, const ew_answer_callbacks *callbacks, ew_answer_result *result,
                         ew_error *error) {
    *result = (ew_answer_result){.probability = NAN, .threshold = NAN};
    answering a = {.source = source,
                   .session = source->session,
                   .model = source->session->model,
                   .callbacks = EW_ANSWER_CALLBACKS_INIT,
                   .result = result};
    a.writing = (ew_writing){.source = source,
                             .model = a.model,
                             .policy = &a.policy,
                             .callbacks = &a.callbacks,
                             .start = source->now(source->self),
                             .first_token = -1,
                             .first_answer = -1};
    a.ensemble.writing = &a.writing;
    ew_status status = begin(&a, messages, n_messages, policy, callbacks, error);
    if (status == EW_OK) {
        status = run(&a, error);
    }
    ew_ensemble_free(&a.ensemble);
    keep_prefix(&a);
    close_samplers(&a.writing);
    free(a.logits);
    ew_tokens_free(&a.prompt);
    ew_tokens_free(&a.opening);
    ew_tokens_free(&a.writing.closing);
    result->first_token_seconds = a.writing.first_token < 0 ? 0 : a.writing.first_token;
    result->first_answer_seconds = a.writing.first_answer < 0 ? 0 : a.writing.first_answer;
    result->seconds = elapsed(&a);
    if (status != EW_OK) {
        ew_answer_result_free(result);
    }
    return status;
}

ew_status ew_answer(ew_session *session, const ew_message *messages, size_t n_messages, const ew_policy *policy,
                    const ew_answer_callbacks *callbacks, ew_answer_result *result, ew_error *error) {
    const ew_source source = ew_engine_source(session);
    return ew_answer_from(&source, messages, n_messages, policy, callbacks, result, error);
}
