#include "cli/eval_line.h"
#include "base/memory.h"
#include "cli/answer_output.h"
#include "cli/json_output.h"
#include "cli/problems.h"
#include "format/json.h"
#include "model/adapter.h"
#include "reason/vote.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writing ---- */

static json_t *text_or_null(const char *text) {
    return text && text[0] ? ew_json_plain(text, strlen(text)) : json_null();
}

static json_t *count_or_null(size_t count) {
    return count == EW_NO_LIMIT ? json_null() : json_integer((json_int_t)count);
}

static json_t *texts(const char *const *items, size_t n) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < n; i++) {
        if (json_array_append_new(array, ew_json_plain(items[i], strlen(items[i]))) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static void put_sampling(json_t **object, const ew_sampling *sampling) {
    ew_json_put(object, "temperature", json_real((double)sampling->temperature));
    ew_json_put_count(object, "top_k", sampling->top_k);
    ew_json_put(object, "top_p", json_real((double)sampling->top_p));
    ew_json_put(object, "min_p", json_real((double)sampling->min_p));
    ew_json_put(object, "repetition_penalty", json_real((double)sampling->repetition_penalty));
    ew_json_put(object, "seed", json_integer((json_int_t)sampling->seed));
}

json_t *ew_eval_policy_json(const ew_engine *engine, const ew_policy_arguments *arguments, const ew_policy *policy,
                            const char *system) {
    json_t *object = json_object();
    ew_json_put(&object, "weights", text_or_null(engine->info.weights_fingerprint));
    ew_json_put(&object, "adapter", text_or_null(engine->adapter ? engine->adapter->fingerprint : NULL));
    ew_json_put(&object, "switcher", text_or_null(arguments->switcher_path));
    ew_json_put(&object, "verifier", text_or_null(arguments->verifier_path));
    ew_json_put(&object, "system", text_or_null(system));
    ew_json_put(&object, "think", json_string(ew_mode_names[policy->mode]));
    ew_json_put(&object, "threshold", ew_json_known(policy->threshold));
    ew_json_put(&object, "budget", count_or_null(policy->thinking_budget));
    ew_json_put(&object, "total_budget", count_or_null(policy->total_budget));
    ew_json_put(&object, "answer_tokens", count_or_null(policy->answer_tokens));
    ew_json_put(&object, "tell_budget", json_boolean(policy->tell_budget));
    ew_json_put(&object, "time", json_real(policy->time_limit));
    ew_json_put(&object, "closing", text_or_null(policy->closing));
    ew_json_put_count(&object, "loop_length", policy->loop_length);
    ew_json_put_count(&object, "streams", policy->streams);
    ew_json_put(&object, "vote", json_string(ew_vote_names[policy->vote]));
    ew_json_put(&object, "all_streams", json_boolean(policy->run_all));
    put_sampling(&object, &policy->sampling);
    ew_json_put(&object, "stop", texts(policy->stop, policy->n_stop));
    return object;
}

/* The classes in order: what they answer, how many they are, the sum of their scores. */
static json_t *votes(const ew_answer_result *result) {
    json_t *array = json_array();
    for (size_t class = 0; array && class < result->n_candidates; class ++) {
        size_t n = 0;
        double score = 0.0;
        const char *answer = NULL;
        for (size_t i = 0; i < result->n_candidates; i++) {
            const ew_candidate *c = &result->candidates[i];
            bool member = c->answer_class == class;
            answer = member && !answer ? c->final_answer : answer;
            n += member;
            score += member && !isnan(c->score) ? c->score : 0.0;
        }
        if (n == 0) {
            break;
        }
        json_t *object = json_object();
        ew_json_put(&object, "answer", text_or_null(answer));
        ew_json_put_count(&object, "n", n);
        ew_json_put(&object, "score", json_real(score));
        if (!object || json_array_append_new(array, object) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *verdict_json(const ew_problem *problem, ew_verdict verdict) {
    return problem->answer ? json_string(ew_verdict_names[verdict]) : json_null();
}

static json_t *judged_candidates(const ew_problem *problem, const ew_answer_result *result,
                                 const ew_verdict *verdicts) {
    json_t *array = ew_candidates_json(result);
    for (size_t i = 0; array && i < result->n_candidates; i++) {
        json_t *candidate = json_array_get(array, i);
        json_object_del(candidate, "logprobs");
        if (json_object_set_new(candidate, "verdict", verdict_json(problem, verdicts[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

json_t *ew_eval_line_json(const ew_problem *problem, const ew_answer_result *result, const ew_verdict *verdicts,
                          json_t *policy) {
    const ew_candidate *chosen = &result->candidates[result->chosen];
    json_t *object = json_object();
    ew_json_put(&object, "id", json_string(problem->id));
    ew_json_put(&object, "problem", json_stringn(problem->text.data, problem->text.length));
    ew_json_put(&object, "gold", problem->answer ? json_string(problem->answer) : json_null());
    ew_json_put(&object, "answer", ew_json_plain(chosen->answer, chosen->answer_length));
    ew_json_put(&object, "final_answer", text_or_null(chosen->final_answer));
    ew_json_put(&object, "verdict", verdict_json(problem, verdicts[result->chosen]));
    ew_json_put(&object, "mode", json_string(result->thinks ? "thinking" : "chat"));
    ew_json_put(&object, "p_reasoning", ew_json_known(result->probability));
    ew_json_put_count(&object, "chosen", result->chosen);
    ew_json_put_count(&object, "agreed", result->n_agreed);
    ew_json_put(&object, "votes", votes(result));
    ew_json_put_count(&object, "streams_stopped", result->n_streams_stopped);
    ew_json_put_count(&object, "tokens_saved", result->n_tokens_saved);
    ew_json_put_count(&object, "prompt_tokens", result->n_prompt_tokens);
    ew_json_put(&object, "seconds", json_real(result->seconds));
    ew_json_put(&object, "timings", ew_timings_json(result));
    ew_json_put(&object, "candidates", judged_candidates(problem, result, verdicts));
    ew_json_put(&object, "policy", json_incref(policy));
    return object;
}

/* ---- Reading ---- */

#define REFUSE(...) ew_fail(error, EW_ERROR_FORMAT, __VA_ARGS__)

/* Index of the text among names; false for none of them. */
static bool name_index(const char *text, const char *(*name)(size_t), size_t n, size_t *index) {
    for (size_t i = 0; text && i < n; i++) {
        if (strcmp(text, name(i)) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

const char *ew_stop_name(size_t i) {
    return ew_stop_reason_name((ew_stop_reason)i);
}

const char *ew_end_name(size_t i) {
    return ew_thinking_end_name((ew_thinking_end)i);
}

static const char *verdict_name(size_t i) {
    return ew_verdict_names[i];
}

static ew_status read_candidate(const json_t *object, const char *where, ew_eval_line *line, size_t i,
                                ew_error *error) {
    ew_candidate *c = &line->candidates[i];
    bool voted = false, scored = false;
    size_t stop = 0, end = 0, verdict = EW_VERDICT_NONE, class = SIZE_MAX;
    const char *judged = json_string_value(json_object_get(object, "verdict"));
    c->score = NAN;
    ew_status status = ew_json_get_size(object, "thinking_tokens", where, NULL, &c->n_thinking_tokens, error);
    if (status == EW_OK) {
        status = ew_json_get_size(object, "answer_tokens", where, NULL, &c->n_answer_tokens, error);
    }
    if (status == EW_OK) {
        status = ew_json_get_size(object, "class", where, &voted, &class, error);
    }
    if (status == EW_OK) {
        status = ew_json_get_number(object, "score", where, &scored, &c->score, error);
    }
    if (status != EW_OK) {
        return status;
    }
    if (!name_index(json_string_value(json_object_get(object, "stop_reason")), ew_stop_name, EW_STOP_REASONS, &stop) ||
        !name_index(json_string_value(json_object_get(object, "thinking_end")), ew_end_name, EW_THINKING_ENDS, &end) ||
        (line->graded && !name_index(judged, verdict_name, 3, &verdict)) || (voted && class >= line->n) ||
        (scored && !(c->score >= 0.0 && c->score <= 1.0))) {
        return REFUSE("%s: candidate %zu has an end, a verdict, a class or a score that is none", where, i);
    }
    c->answer_class = voted ? class : SIZE_MAX;
    c->stop_reason = (ew_stop_reason)stop;
    c->thinking_end = (ew_thinking_end)end;
    line->verdicts[i] = (ew_verdict)verdict;
    return EW_OK;
}

static ew_status read_candidates(const json_t *array, const char *where, ew_eval_line *line, ew_error *error) {
    line->n = json_array_size(array);
    if (line->n == 0) {
        return REFUSE("%s is no line of `edgewise eval`: it has no candidates", where);
    }
    line->candidates = ew_allocate(line->n, sizeof *line->candidates);
    line->verdicts = ew_allocate(line->n, sizeof *line->verdicts);
    ew_status status = line->candidates && line->verdicts
                           ? EW_OK
                           : ew_fail_memory(error, line->n * sizeof *line->candidates, "candidates");
    for (size_t i = 0; status == EW_OK && i < line->n; i++) {
        status = read_candidate(json_array_get(array, i), where, line, i, error);
    }
    return status;
}

ew_status ew_eval_line_read(const json_t *object, const char *where, ew_eval_line *line, ew_error *error) {
    const char *mode = json_string_value(json_object_get(object, "mode"));
    *line = (ew_eval_line){.id = json_string_value(json_object_get(object, "id")),
                           .problem = json_string_value(json_object_get(object, "problem")),
                           .graded = json_is_string(json_object_get(object, "gold")),
                           .thinks = mode && strcmp(mode, "thinking") == 0,
                           .policy = json_object_get(object, "policy")};
    if (!line->id || !line->problem || !mode || !json_is_object(line->policy)) {
        return REFUSE("%s is no line of `edgewise eval`: it needs id, problem, mode and policy", where);
    }
    ew_status status = read_candidates(json_object_get(object, "candidates"), where, line, error);
    const struct {
        const char *key;
        size_t *value;
    } counts[] = {{"chosen", &line->chosen},
                  {"agreed", &line->n_agreed},
                  {"streams_stopped", &line->n_stopped},
                  {"tokens_saved", &line->n_saved}};
    for (size_t i = 0; status == EW_OK && i < sizeof counts / sizeof *counts; i++) {
        status = ew_json_get_size(object, counts[i].key, where, NULL, counts[i].value, error);
    }
    if (status == EW_OK) {
        status = ew_json_get_number(object, "seconds", where, NULL, &line->seconds, error);
    }
    const json_t *timings = json_object_get(object, "timings");
    if (status == EW_OK && json_is_object(timings)) {
        status = ew_json_get_number(timings, "reply_seconds", where, NULL, &line->reply_seconds, error);
    }
    if (status == EW_OK && line->chosen >= line->n) {
        status = REFUSE("%s: candidate %zu of %zu was chosen", where, line->chosen, line->n);
    }
    return status;
}

void ew_eval_line_free(ew_eval_line *line) {
    free(line->candidates);
    free(line->verdicts);
    *line = (ew_eval_line){.id = NULL};
}

/* ---- The vote again ---- */

ew_status ew_eval_line_vote(ew_eval_line *line, ew_vote rule, size_t n_streams, const char *where, ew_error *error) {
    bool scored = false;
    if (json_integer_value(json_object_get(line->policy, "streams")) == 0 || line->n_stopped > 0) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "%s: not all streams were written, so that no other vote can be taken: --all-streams and a "
                       "number of --streams are needed",
                       where);
    }
    if (n_streams > line->n) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%s has %zu streams, not %zu", where, line->n, n_streams);
    }
    if (n_streams > 0 && n_streams < line->n) {
        line->n = n_streams;
        line->seconds = line->reply_seconds = NAN; /* nobody knows */
    }
    for (size_t i = 0; i < line->n; i++) {
        scored = scored || !isnan(line->candidates[i].score);
    }
    if (!scored && rule == EW_VOTE_BEST) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%s has no scores: the best can only be told by a verifier", where);
    }
    return ew_vote_candidates(scored ? rule : EW_VOTE_MAJORITY, line->candidates, line->n, &line->chosen,
                              &line->n_agreed, error);
}

/* ---- Files ---- */

typedef struct reading {
    ew_eval_taker take;
    void *context;
} reading;

static ew_status take_object(void *context, const json_t *object, const char *where, ew_error *error) {
    const reading *r = context;
    ew_eval_line line;
    ew_status status = ew_eval_line_read(object, where, &line, error);
    if (status == EW_OK) {
        status = r->take(r->context, &line, where, error);
    }
    ew_eval_line_free(&line);
    return status;
}

ew_status ew_eval_file_read(const char *path, ew_eval_taker take, void *context, ew_error *error) {
    reading r = {take, context};
    return ew_json_read_lines(path, take_object, &r, error);
}
