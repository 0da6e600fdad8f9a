/* edgewise sample: several replies to each problem of a file, graded, one JSON line each. */
#include "base/file.h"
#include "cli/answer_output.h"
#include "cli/bundle_arguments.h"
#include "cli/cli.h"
#include "cli/engine.h"
#include "cli/json_output.h"
#include "cli/policy_arguments.h"
#include "cli/problems.h"
#include "cli/reply_arguments.h"

#include <stdio.h>
#include <string.h>

typedef struct request {
    ew_engine engine;
    ew_reply_arguments reply;
    const char *problems, *output;
    size_t n_samples, parallel, limit, skip;
    int mode;
    size_t thinking_budget;
    bool has_thinking_budget, tell_budget;
} request;

typedef struct totals {
    size_t problems, samples, right, none, skipped, tokens;
} totals;

typedef struct run_state {
    request *asked;
    ew_policy policy;
    totals totals;
    bool said_mode;
} run_state;

/* ---- One sample ---- */

static json_t *reply_text(const ew_candidate *candidate) {
    ew_buffer text = {0};
    ew_buffer_append(&text, "", 0);
    if (candidate->thinking_end != EW_THINKING_NONE) {
        ew_buffer_append_text(&text, "<think>\n");
        ew_buffer_append(&text, candidate->thinking, candidate->thinking_length);
        ew_buffer_append_text(&text, candidate->thinking_end == EW_THINKING_OPEN ? "" : "\n</think>\n\n");
    }
    ew_buffer_append(&text, candidate->answer, candidate->answer_length);
    json_t *json = text.failed ? NULL : ew_json_plain(text.data, text.length);
    ew_buffer_free(&text);
    return json;
}

static double log_probability(const ew_candidate *candidate) {
    double sum = 0.0;
    for (size_t i = 0; i < candidate->n_tokens; i++) {
        sum += (double)candidate->log_probabilities[i];
    }
    return sum;
}

static ew_status add_line(run_state *state, const ew_problem *problem, const ew_candidate *candidate, size_t stream,
                          bool thinks, ew_buffer *lines, ew_error *error) {
    ew_grade_result grade = {.verdict = EW_VERDICT_NONE};
    ew_status status = EW_OK;
    if (problem->answer) {
        status = ew_grade(candidate->answer, problem->answer, EW_TASK_AUTO, &grade, error);
    }
    if (status != EW_OK) {
        return status;
    }
    state->totals.samples++;
    state->totals.right += problem->answer && grade.verdict == EW_VERDICT_RIGHT;
    state->totals.none += problem->answer && grade.verdict == EW_VERDICT_NONE;
    state->totals.tokens += candidate->n_tokens;
    bool told = thinks && state->asked->tell_budget && state->asked->has_thinking_budget;
    json_t *object = json_object();
    ew_json_put(&object, "id", json_string(problem->id));
    if (state->asked->reply.system) {
        ew_json_put(&object, "system", json_string(state->asked->reply.system));
    }
    ew_json_put(&object, "problem", json_stringn(problem->text.data, problem->text.length));
    ew_json_put(&object, "gold", problem->answer ? json_string(problem->answer) : json_null());
    ew_json_put(&object, "reply", reply_text(candidate));
    ew_json_put(&object, "thinking", ew_json_plain(candidate->thinking, candidate->thinking_length));
    ew_json_put(&object, "answer", ew_json_plain(candidate->answer, candidate->answer_length));
    ew_json_put(&object, "verdict", problem->answer ? json_string(ew_verdict_names[grade.verdict]) : json_null());
    ew_json_put(&object, "thinks", json_boolean(thinks));
    ew_json_put(&object, "budget", told ? json_integer((json_int_t)state->asked->thinking_budget) : json_null());
    ew_json_put(&object, "stop_reason", json_string(ew_stop_reason_name(candidate->stop_reason)));
    ew_json_put(&object, "thinking_end", json_string(ew_thinking_end_name(candidate->thinking_end)));
    ew_json_put(&object, "tokens", ew_json_ids(candidate->tokens, candidate->n_tokens));
    ew_json_put(&object, "logprob", json_real(log_probability(candidate)));
    ew_json_put(&object, "seed", json_integer((json_int_t)state->asked->reply.seed));
    ew_json_put(&object, "stream", json_integer((json_int_t)stream));
    ew_grade_result_free(&grade);
    return ew_json_append_line(object, lines, error);
}

/* ---- One problem ---- */

static ew_policy policy_of(const request *asked) {
    ew_policy policy = EW_POLICY_INIT;
    policy.mode = (ew_mode)asked->mode;
    policy.streams = asked->n_samples;
    policy.run_all = true;
    policy.log_probabilities = true;
    policy.thinking_budget = asked->has_thinking_budget ? asked->thinking_budget : EW_NO_LIMIT;
    policy.tell_budget = asked->tell_budget;
    policy.adapter = asked->engine.adapter;
    ew_reply_arguments_apply(&asked->reply, asked->engine.model, &policy);
    ew_warm_up_streams(asked->reply.has_temperature, &policy);
    return policy;
}

static ew_status sample(void *context, const ew_source *source, const ew_problem *problem, ew_buffer *lines,
                        ew_error *error) {
    run_state *state = context;
    const request *asked = state->asked;
    ew_answer_result result = {0};
    bool answered;
    ew_status status =
        ew_problem_ask(source, asked->reply.system, problem, &state->policy, &result, &answered, error);
    if (answered && !state->said_mode) {
        ew_mode_notice(asked->engine.adapter, &result);
        state->said_mode = true;
    }
    for (size_t i = 0; status == EW_OK && i < result.n_candidates; i++) {
        status = add_line(state, problem, &result.candidates[i], i, result.thinks, lines, error);
    }
    state->totals.problems += status == EW_OK && answered;
    state->totals.skipped += status == EW_OK && !answered;
    ew_answer_result_free(&result);
    return status;
}

/* ---- All of them ---- */

static void note_share(void *context, char *text, size_t size) {
    const totals *totals = &((const run_state *)context)->totals;
    snprintf(text, size, "%.1f %% right",
             totals->samples > 0 ? 100.0 * (double)totals->right / (double)totals->samples : 0.0);
}

static void print_totals(const totals *totals) {
    if (totals->samples == 0) {
        return;
    }
    double n = (double)totals->samples;
    fprintf(stderr, "%zu samples of %zu problems: %.1f %% right, %.1f %% without an answer, %.1f tokens on the mean",
            totals->samples, totals->problems, 100.0 * (double)totals->right / n, 100.0 * (double)totals->none / n,
            (double)totals->tokens / n);
    fprintf(stderr, totals->skipped > 0 ? ", %zu problems left out\n" : "\n", totals->skipped);
}

static int run(request *asked, const char *model) {
    run_state state = {.asked = asked};
    ew_mapping problems = {0};
    ew_sample_file file = {0};
    const ew_sample_form form = {.command = "sample", .n_samples = asked->n_samples, .key = "reply"};
    ew_problem_work work = {.path = asked->problems,
                                  .problems = &problems,
                                  .skip = asked->skip,
                                  .limit = asked->limit,
                                  .parallel = asked->parallel,
                                  .label = "sampling",
                                  .file = &file,
                                  .take = sample,
                                  .note = note_share,
                                  .context = &state};
    ew_error error = {0}, late = {0};
    ew_status status = ew_map_file(asked->problems, &problems, &error); /* before the model, which takes its time */
    if (status == EW_OK) {
        status = ew_engine_open(&asked->engine, model, true, &error);
    }
    if (status == EW_OK) {
        status = ew_sample_file_open(asked->output, &form, &file, &error);
    }
    if (status == EW_OK) {
        state.policy = policy_of(asked);
        work.session = asked->engine.session;
        status = ew_problems_work(&work, &error);
        print_totals(&state.totals);
    }
    ew_status closed = ew_sample_file_close(&file, &late);
    int exit_code = status != EW_OK ? ew_cli_fail(&error) : closed != EW_OK ? ew_cli_fail(&late) : EW_EXIT_OK;
    ew_engine_close(&asked->engine);
    ew_unmap(&problems);
    return ew_cli_finish(exit_code);
}

static const char examples[] =
    "  edgewise sample model.gguf problems.jsonl > replies.jsonl\n"
    "  edgewise sample model.gguf problems.jsonl -n 8 --temperature 0.7 -o replies.jsonl     (goes on where it was)\n"
    "  edgewise sample model.gguf problems.jsonl --adapter think.gguf --think on --budget 2000 -o "
    "replies.jsonl\n";

int ew_cli_sample(int argc, char **argv) {
    request asked = {.reply = EW_REPLY_ARGUMENTS_INIT, .n_samples = 1, .parallel = 1};
    enum { OWN = 8, ADAPTER_AT = OWN + EW_REPLY_OPTIONS };
    ew_option options[ADAPTER_AT + EW_ADAPTER_OPTIONS + EW_ENGINE_OPTIONS] = {
        {"samples", 'n', EW_OPTION_COUNT, &asked.n_samples, .argument = "N", .least = 1, .most = 1024,
         .help = "replies to each problem, decoded together; 1"},
        {"parallel", 0, EW_OPTION_COUNT, &asked.parallel, .argument = "N", .least = 1, .most = 1024,
         .help = "problems that are answered at once, 1: more tokens a second, the same replies"},
        {"output", 'o', EW_OPTION_TEXT, &asked.output, .argument = "FILE",
         .help = "add to this file what it does not have yet; else to standard output"},
        {"limit", 0, EW_OPTION_COUNT, &asked.limit, .argument = "N", .help = "only so many problems; 0: all"},
        {"skip", 0, EW_OPTION_COUNT, &asked.skip, .argument = "N", .help = "leave out the first N problems"},
        {"think", 0, EW_OPTION_CHOICE, &asked.mode, .choices = ew_mode_names, .help = "think first, or answer at once"},
        {"budget", 0, EW_OPTION_COUNT, &asked.thinking_budget, .argument = "N", .given = &asked.has_thinking_budget,
         .help = "most tokens of thinking, which is closed then; no limit"},
        {"tell-budget", 0, EW_OPTION_FLAG, &asked.tell_budget, .help = "write the thinking budget into the reply"},
    };
    ew_reply_option_table(&asked.reply, 0, options + OWN);
    ew_adapter_option_table(&asked.engine, options + ADAPTER_AT);
    ew_engine_option_table(&asked.engine, options + ADAPTER_AT + EW_ADAPTER_OPTIONS);
    const ew_command command = {
        .name = "sample",
        .positionals = "MODEL PROBLEMS.jsonl",
        .summary =
            "Answer each problem several times and grade the replies. A line of PROBLEMS has id, problem and, for\n"
            "grading, answer. A line of the output has id, problem, gold, reply, thinking, answer, verdict, tokens,\n"
            "logprob, seed and stream.",
        .examples = examples,
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .least_positionals = 2,
        .most_positionals = 2,
    };
    const char *positionals[2];
    int exit_code;
    if (!ew_bundle_arguments_parse(&command, &asked, sizeof asked, false, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    asked.problems = positionals[1];
    return run(&asked, positionals[0]);
}
