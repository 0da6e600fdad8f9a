#include "cli/answer_output.h"
#include "cli/cli.h"
#include "cli/json_output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Text ---- */

static void end_thinking(ew_answer_output *output) {
    if (output->thinking_begun) {
        fputs(output->dims ? "\033[0m\n\n" : "\n\n", stderr);
        output->thinking_begun = false;
    }
}

static void print_thinking(ew_answer_output *output, const char *text, size_t length) {
    if (!output->thinking_begun && output->dims) {
        fputs("\033[2m", stderr);
    }
    output->thinking_begun = true;
    fwrite(text, 1, length, stderr);
}

static bool print_answer(ew_answer_output *output, const char *text, size_t length) {
    end_thinking(output);
    if (length > 0) {
        output->last = text[length - 1];
    }
    return ew_cli_print(text, length);
}

static bool print_piece(void *context, const ew_answer_text *piece) {
    ew_answer_output *output = context;
    if (!output->live) {
        return true;
    }
    if (!piece->thinking) {
        return print_answer(output, piece->text, piece->length);
    }
    if (output->shows_thinking) {
        print_thinking(output, piece->text, piece->length);
    }
    return true;
}

void ew_answer_output_begin(ew_answer_output *output, const ew_policy_arguments *arguments, const ew_policy *policy,
                            bool json) {
    const char *terminal = getenv("TERM");
    bool screen = isatty(STDERR_FILENO) == 1;
    *output = (ew_answer_output){.quiet = json, .last = '\n', .callbacks = EW_ANSWER_CALLBACKS_INIT};
    output->live = !json && policy->streams == 1;
    output->shows_thinking = !json && !arguments->hide_thinking && (screen || arguments->show_thinking);
    output->dims = screen && !getenv("NO_COLOR") && !(terminal && strcmp(terminal, "dumb") == 0);
    output->callbacks.on_text = print_piece;
    output->callbacks.context = output;
    ew_energy_start("", &output->energy);
}

void ew_answer_output_end(ew_answer_output *output, const ew_answer_result *result) {
    if (!output->live && !output->quiet && result->n_candidates > 0) {
        const ew_candidate *chosen = &result->candidates[result->chosen];
        if (output->shows_thinking && chosen->thinking_length > 0) {
            print_thinking(output, chosen->thinking, chosen->thinking_length);
        }
        print_answer(output, chosen->answer, chosen->answer_length);
    }
    end_thinking(output);
    if (output->last != '\n') {
        ew_cli_print("\n", 1);
        output->last = '\n';
    }
}

/* ---- About it ---- */

static void notice_thinking(const ew_candidate *chosen) {
    static const char *const reasons[] = {[EW_THINKING_LOOP] = "it repeated itself",
                                          [EW_THINKING_CONTEXT] = "the context is nearly full (--context)",
                                          [EW_THINKING_TIME] = "time is running out (--time)"};
    size_t end = (size_t)chosen->thinking_end;
    if (chosen->thinking_truncated && end < sizeof reasons / sizeof *reasons && reasons[end]) {
        fprintf(stderr, "edgewise: the thinking was cut: %s\n", reasons[end]);
    }
}

void ew_mode_notice(bool wanted, const ew_answer_result *result) {
    if (result->no_switcher && wanted) {
        fprintf(stderr, "edgewise: there is no switcher to ask (--switcher), so --think auto is off\n");
    }
}

void ew_answer_notices(const ew_answer_result *result) {
    const ew_candidate *chosen = &result->candidates[result->chosen];
    if (result->n_dropped_messages > 0) {
        fprintf(stderr, "edgewise: the context is full: the %zu oldest messages were left out\n",
                result->n_dropped_messages);
    }
    notice_thinking(chosen);
    switch (chosen->stop_reason) {
    case EW_STOP_LENGTH:
        fprintf(stderr, "edgewise: the reply was cut after %zu tokens (--max-tokens, --total-budget)\n",
                chosen->n_answer_tokens);
        break;
    case EW_STOP_CONTEXT:
        fprintf(stderr, "edgewise: the reply was cut: the context is full (--context)\n");
        break;
    case EW_STOP_TIME:
        fprintf(stderr, "edgewise: the reply was cut: the time is over (--time)\n");
        break;
    case EW_STOP_CANCELLED:
        fprintf(stderr, "edgewise: the reply was cut: interrupted\n");
        break;
    case EW_STOP_DECIDED:
    case EW_STOP_END:
    case EW_STOP_STRING:
        break;
    }
}

static size_t drawn_tokens(const ew_answer_result *result) {
    size_t n = 0;
    for (size_t i = 0; i < result->n_candidates; i++) {
        n += result->candidates[i].n_thinking_tokens + result->candidates[i].n_answer_tokens;
    }
    return n;
}

void ew_answer_line(const ew_answer_output *output, const ew_answer_result *result) {
    const ew_candidate *chosen = &result->candidates[result->chosen];
    double seconds = result->seconds - result->first_token_seconds, joules = ew_energy_joules(&output->energy);
    size_t n = drawn_tokens(result);
    fprintf(stderr, "[%s", result->thinks ? "thinking" : "chat");
    if (!isnan(result->probability)) {
        fprintf(stderr, ", p %.2f", result->probability);
    }
    if (chosen->n_thinking_tokens > 0) {
        fprintf(stderr, ", %zu tokens of thinking", chosen->n_thinking_tokens);
    }
    fprintf(stderr, ", %zu %sof answer", chosen->n_answer_tokens, chosen->n_thinking_tokens > 0 ? "" : "tokens ");
    if (result->n_candidates > 1) {
        fprintf(stderr, ", %zu of %zu streams agree", result->n_agreed, result->n_candidates);
    }
    if (result->n_tokens_saved > 0) {
        fprintf(stderr, ", about %zu tokens saved", result->n_tokens_saved);
    }
    fprintf(stderr, ", first token %.2f s", result->first_token_seconds);
    if (n > 1 && seconds > 0) {
        fprintf(stderr, ", %.1f tokens/s", (double)(n - 1) / seconds);
    }
    if (joules > 0) {
        fprintf(stderr, ", %.1f J", joules);
    }
    fputs("]\n", stderr);
}

/* ---- JSON ---- */

static json_t *numbers(const float *values, size_t n) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < n; i++) {
        if (json_array_append_new(array, json_real((double)values[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* What an answer and each of its candidates have. */
static void put_candidate(json_t **object, const ew_candidate *c) {
    size_t n_forced = 0;
    for (size_t i = 0; i < c->n_tokens; i++) {
        n_forced += c->forced[i];
    }
    ew_json_put(object, "text", ew_json_plain(c->answer, c->answer_length));
    ew_json_put(object, "thinking", ew_json_plain(c->thinking, c->thinking_length));
    ew_json_put(object, "tokens", ew_json_ids(c->tokens, c->n_tokens));
    if (c->log_probabilities) {
        ew_json_put(object, "logprobs", numbers(c->log_probabilities, c->n_tokens));
    } else {
        ew_json_put(object, "logprobs", json_array());
    }
    ew_json_put(object, "stop_reason", json_string(ew_stop_reason_name(c->stop_reason)));
    ew_json_put(object, "thinking_end", json_string(ew_thinking_end_name(c->thinking_end)));
    ew_json_put(object, "thinking_truncated", json_boolean(c->thinking_truncated));
    ew_json_put_count(object, "reply_tokens", c->n_tokens);
    ew_json_put_count(object, "thinking_tokens", c->n_thinking_tokens);
    ew_json_put_count(object, "answer_tokens", c->n_answer_tokens);
    ew_json_put_count(object, "forced_tokens", n_forced);
    ew_json_put(object, "score", ew_json_known(c->score));
    ew_json_put(object, "final_answer",
                c->final_answer ? ew_json_repaired(c->final_answer, strlen(c->final_answer)) : json_null());
    ew_json_put(object, "class", c->answer_class == SIZE_MAX ? json_null() : json_integer((json_int_t)c->answer_class));
}

json_t *ew_candidates_json(const ew_answer_result *result) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < result->n_candidates; i++) {
        json_t *object = json_object();
        ew_json_put_count(&object, "stream", i);
        put_candidate(&object, &result->candidates[i]);
        if (!object || json_array_append_new(array, object) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

json_t *ew_timings_json(const ew_answer_result *result) {
    double reply_seconds = result->seconds - result->prompt_seconds;
    json_t *object = json_object();
    ew_json_put(&object, "prompt_seconds", json_real(result->prompt_seconds));
    ew_json_put(&object, "first_token_seconds", json_real(result->first_token_seconds));
    ew_json_put(&object, "first_answer_seconds", json_real(result->first_answer_seconds));
    ew_json_put(&object, "reply_seconds", json_real(reply_seconds));
    if (result->prompt_seconds > 0.0) {
        size_t evaluated = result->n_prompt_tokens - result->n_cached_tokens;
        ew_json_put(&object, "prompt_tokens_per_second", json_real((double)evaluated / result->prompt_seconds));
    }
    if (reply_seconds > 0.0) {
        ew_json_put(&object, "reply_tokens_per_second", json_real((double)drawn_tokens(result) / reply_seconds));
    }
    return object;
}

json_t *ew_answer_json(const ew_answer_output *output, const char *prompt, const ew_answer_result *result) {
    json_t *object = json_object();
    if (prompt) {
        ew_json_put(&object, "prompt", ew_json_repaired(prompt, strlen(prompt)));
    }
    put_candidate(&object, &result->candidates[result->chosen]);
    ew_json_put(&object, "mode", json_string(result->thinks ? "thinking" : "chat"));
    ew_json_put(&object, "probability", ew_json_known(result->probability));
    ew_json_put(&object, "threshold", ew_json_known(result->threshold));
    ew_json_put_count(&object, "stream", result->chosen);
    ew_json_put_count(&object, "streams", result->n_candidates);
    ew_json_put_count(&object, "agreed", result->n_agreed);
    ew_json_put_count(&object, "streams_stopped", result->n_streams_stopped);
    ew_json_put_count(&object, "tokens_saved", result->n_tokens_saved);
    ew_json_put_count(&object, "prompt_tokens", result->n_prompt_tokens);
    ew_json_put_count(&object, "cached_tokens", result->n_cached_tokens);
    ew_json_put_count(&object, "dropped_messages", result->n_dropped_messages);
    ew_json_put(&object, "joules", ew_json_known(ew_energy_joules(&output->energy)));
    ew_json_put(&object, "timings", ew_timings_json(result));
    ew_json_put(&object, "candidates", ew_candidates_json(result));
    return object;
}
