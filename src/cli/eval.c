/* edgewise eval: how many problems of a file a policy gets right, and at what cost; and what earlier results say. */
#include "base/file.h"
#include "base/memory.h"
#include "cli/answer_output.h"
#include "cli/bundle_arguments.h"
#include "cli/cli.h"
#include "cli/eval_compare.h"
#include "cli/eval_summary.h"
#include "cli/json_output.h"
#include "cli/problems.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct request {
    ew_engine engine;
    ew_reply_arguments reply;
    ew_policy_arguments arguments;
    const char *problems, *output;
    size_t parallel, limit, skip;
    int revote;
    bool compare, revotes, json;
} request;

typedef struct evaluation {
    const request *asked;
    ew_policy policy;
    json_t *policy_json;
    ew_eval_summary summary;
    size_t n_left_out;
    bool said_mode;
} evaluation;

/* ---- One problem ---- */

static ew_status grade_all(const ew_problem *problem, const ew_answer_result *result, ew_verdict *verdicts,
                           ew_error *error) {
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < result->n_candidates; i++) {
        ew_grade_result grade = {.verdict = EW_VERDICT_NONE};
        if (problem->answer) {
            status = ew_grade(result->candidates[i].answer, problem->answer, EW_TASK_AUTO, &grade, error);
        }
        verdicts[i] = grade.verdict;
        ew_grade_result_free(&grade);
    }
    return status;
}

/* A line that is there already, or is just being written: it was made by this policy, and counts. */
static ew_status count_line(void *context, const json_t *object, const char *where, ew_error *error) {
    evaluation *e = context;
    ew_eval_line line;
    ew_status status = ew_eval_line_read(object, where, &line, error);
    if (status == EW_OK && !json_equal(line.policy, e->policy_json)) {
        const char *key;
        json_t *value;
        json_object_foreach(e->policy_json, key, value) {
            if (!json_equal(value, json_object_get(line.policy, key))) {
                break;
            }
        }
        status = ew_fail(error, EW_ERROR_ARGUMENT,
                         "%s was made by another policy: its \"%s\" is another. Write to "
                         "another file, or ask as it was asked",
                         where, key ? key : "size");
    }
    if (status == EW_OK) {
        ew_eval_summary_add(&e->summary, &line);
    }
    ew_eval_line_free(&line);
    return status;
}

static ew_status add_result(evaluation *e, const ew_problem *problem, const ew_answer_result *result, ew_buffer *lines,
                            ew_error *error) {
    ew_verdict *verdicts = ew_allocate(result->n_candidates, sizeof *verdicts);
    if (!verdicts) {
        return ew_fail_memory(error, result->n_candidates * sizeof *verdicts, "verdicts");
    }
    ew_status status = grade_all(problem, result, verdicts, error);
    json_t *object = status == EW_OK ? ew_eval_line_json(problem, result, verdicts, e->policy_json) : NULL;
    free(verdicts);
    if (status == EW_OK && !object) {
        status = ew_fail(error, EW_ERROR_MEMORY, "out of memory while writing JSON");
    }
    if (status == EW_OK) {
        status = count_line(e, object, problem->id, error);
    }
    if (status != EW_OK) {
        json_decref(object);
        return status;
    }
    return ew_json_append_line(object, lines, error);
}

static ew_status take_problem(void *context, const ew_source *source, const ew_problem *problem, ew_buffer *lines,
                              ew_error *error) {
    evaluation *e = context;
    ew_answer_result result = {0};
    bool answered;
    ew_status status =
        ew_problem_ask(source, e->asked->reply.system, problem, &e->policy, &result, &answered, error);
    if (answered && !e->said_mode) {
        ew_mode_notice(e->asked->arguments.think_given || e->asked->engine.adapter, &result);
        e->said_mode = true;
    }
    if (status == EW_OK && answered) {
        status = add_result(e, problem, &result, lines, error);
    }
    e->n_left_out += status == EW_OK && !answered;
    ew_answer_result_free(&result);
    return status;
}

static void note_share(void *context, char *text, size_t size) {
    const ew_eval_summary *s = &((const evaluation *)context)->summary;
    snprintf(text, size, "%.1f %% of %zu right",
             s->n_graded > 0 ? 100.0 * (double)s->n_right / (double)s->n_graded : 0.0, s->n_graded);
}

/* ---- The summary ---- */

static ew_status tell(const evaluation *e, ew_vote vote, json_t *policy, ew_error *error) {
    if (e->asked->json) {
        return ew_json_print(ew_eval_summary_json(&e->summary, vote, e->n_left_out, policy), error);
    }
    ew_eval_summary_print(&e->summary, vote, e->n_left_out);
    return EW_OK;
}

/* ---- Running the model ---- */

static ew_status evaluate(evaluation *e, const ew_mapping *problems, ew_error *error) {
    const request *asked = e->asked;
    ew_sample_file file = {0};
    const ew_sample_form form = {
        .command = "eval", .n_samples = 1, .key = "candidates", .visit = count_line, .context = e};
    const ew_problem_work work = {.path = asked->problems,
                                  .problems = problems,
                                  .skip = asked->skip,
                                  .limit = asked->limit,
                                  .session = asked->engine.session,
                                  .parallel = asked->parallel,
                                  .label = "evaluating",
                                  .file = &file,
                                  .take = take_problem,
                                  .note = note_share,
                                  .context = e};
    ew_error late = {0};
    ew_status status = asked->output ? ew_sample_file_open(asked->output, &form, &file, error) : EW_OK;
    if (status == EW_OK) {
        status = ew_problems_work(&work, error);
    }
    ew_status closed = ew_sample_file_close(&file, &late);
    if (status == EW_OK && closed != EW_OK) {
        return ew_fail(error, closed, "%s", late.message);
    }
    return status;
}

static int run(request *asked, const char *model) {
    evaluation e = {.asked = asked};
    ew_error error = {0}, late = {0};
    ew_mapping problems = {0};
    ew_status status = ew_map_file(asked->problems, &problems, &error); /* before the model, which takes its time */
    if (status == EW_OK) {
        status = ew_engine_open(&asked->engine, model, true, &error);
    }
    if (status == EW_OK) {
        status = ew_policy_make(&asked->arguments, &asked->reply, &asked->engine, &e.policy, &error);
    }
    if (status == EW_OK) {
        e.policy_json = ew_eval_policy_json(&asked->engine, &asked->arguments, &e.policy, asked->reply.system);
        status = e.policy_json ? evaluate(&e, &problems, &error)
                               : ew_fail(&error, EW_ERROR_MEMORY, "out of memory for a policy");
    }
    /* Ctrl-C ends the work, and what was done is told. */
    bool told = status == EW_OK || (status == EW_ERROR_CANCELLED && e.summary.n > 0);
    if (told && tell(&e, e.policy.vote, e.policy_json, &late) != EW_OK) {
        status = ew_fail(&error, late.status, "%s", late.message);
    }
    json_decref(e.policy_json);
    ew_policy_arguments_close(&asked->arguments);
    ew_engine_close(&asked->engine);
    ew_unmap(&problems);
    return status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
}

/* ---- Earlier results ---- */

typedef struct recount {
    evaluation e;
    size_t n_streams; /* 0: all */
} recount;

static ew_status vote_again(void *context, ew_eval_line *line, const char *where, ew_error *error) {
    recount *r = context;
    ew_status status = ew_eval_line_vote(line, (ew_vote)r->e.asked->revote, r->n_streams, where, error);
    if (status == EW_OK) {
        ew_eval_summary_add(&r->e.summary, line);
    }
    return status;
}

static int revote(const request *asked, const char *path) {
    recount r = {.e = {.asked = asked}};
    ew_error error = {0};
    ew_status status = EW_OK;
    if (asked->arguments.streams_given &&
        (!ew_parse_streams(asked->arguments.streams, &r.n_streams) || r.n_streams == 0)) {
        status = ew_fail(&error, EW_ERROR_ARGUMENT, "--streams %.40s: a number is meant", asked->arguments.streams);
    }
    if (status == EW_OK) {
        status = ew_eval_file_read(path, vote_again, &r, &error);
    }
    if (status == EW_OK) {
        status = tell(&r.e, (ew_vote)asked->revote, NULL, &error);
    }
    return status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
}

static int compare(const request *asked, const char *const paths[2]) {
    ew_error error = {0};
    return ew_eval_compare(paths, asked->json, &error) == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
}

/* ---- The command line ---- */

static const char examples[] =
    "  edgewise eval model.gguf problems.jsonl --limit 200\n"
    "  edgewise eval model.gguf problems.jsonl --adapter think.gguf --think on --budget 1000 -o on.jsonl\n"
    "  edgewise eval assistant.gguf problems.jsonl --streams 8 --all-streams -o eight.jsonl     "
    "(goes on where it was)\n"
    "  edgewise eval --revote majority eight.jsonl --streams 4\n"
    "  edgewise eval --compare on.jsonl eight.jsonl\n";

enum { OWN = 7, POLICY_AT = OWN + EW_REPLY_OPTIONS, ENGINE_AT = POLICY_AT + EW_POLICY_OPTIONS };
enum { ALL = ENGINE_AT + EW_ENGINE_OPTIONS + EW_ADAPTER_OPTIONS };

static void option_table(request *asked, ew_option *options) {
    const ew_option own[OWN] = {
        {"output", 'o', EW_OPTION_TEXT, &asked->output, .argument = "FILE",
         .help = "a line a problem; what the file has is not asked again, and counts"},
        {"parallel", 0, EW_OPTION_COUNT, &asked->parallel, .argument = "N", .least = 1, .most = 1024,
         .help = "problems that are answered at once, 1: more tokens a second, the same answers, each later"},
        {"limit", 0, EW_OPTION_COUNT, &asked->limit, .argument = "N", .help = "only so many problems; 0: all"},
        {"skip", 0, EW_OPTION_COUNT, &asked->skip, .argument = "N", .help = "leave out the first N problems"},
        {"json", 0, EW_OPTION_FLAG, &asked->json, .help = "print the summary as one JSON object"},
        {"revote", 0, EW_OPTION_CHOICE, &asked->revote, .choices = ew_vote_names, .given = &asked->revotes,
         .help = "take another vote on earlier results, by the first --streams N of their streams"},
        {"compare", 0, EW_OPTION_FLAG, &asked->compare, .help = "two earlier results on the problems of both"},
    };
    memcpy(options, own, sizeof own);
    ew_reply_option_table(&asked->reply, 'n', options + OWN);
    ew_policy_option_table(&asked->arguments, options + POLICY_AT);
    ew_engine_option_table(&asked->engine, options + ENGINE_AT);
    ew_adapter_option_table(&asked->engine, options + ENGINE_AT + EW_ENGINE_OPTIONS);
}

int ew_cli_eval(int argc, char **argv) {
    request asked = {.reply = EW_REPLY_ARGUMENTS_INIT, .arguments = EW_POLICY_ARGUMENTS_INIT, .parallel = 1};
    ew_option options[ALL];
    option_table(&asked, options);
    const ew_command command = {
        .name = "eval",
        .positionals = "MODEL PROBLEMS.jsonl | --revote RULE RESULTS.jsonl | --compare A.jsonl B.jsonl",
        .summary =
            "Answer each problem of a file by one policy, as `run` would, and tell how many answers are right and "
            "what they\ncost. A line of PROBLEMS has id, problem and, for grading, answer.",
        .examples = examples,
        .options = options,
        .n_options = ALL,
        .least_positionals = 1,
        .most_positionals = 2,
    };
    const char *positionals[2];
    int exit_code;
    if (!ew_bundle_arguments_parse(&command, &asked, sizeof asked, true, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    if (asked.compare && asked.revotes) {
        return ew_usage_error(&command, "--compare and --revote exclude each other");
    }
    if ((positionals[1] == NULL) != asked.revotes) {
        return ew_usage_error(&command,
                              asked.revotes ? "--revote takes one file of results" : "two arguments are needed");
    }
    asked.problems = positionals[1];
    exit_code = asked.compare   ? compare(&asked, positionals)
                : asked.revotes ? revote(&asked, positionals[0])
                                : run(&asked, positionals[0]);
    return ew_cli_finish(exit_code);
}
