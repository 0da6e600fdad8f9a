/* edgewise grade: are the answers of a JSONL file right? One line a reply, then totals. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_output.h"
#include "cli/problems.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const task_names[] = {"auto", "math", "list", "choice", NULL};

typedef struct grade_request {
    const char *path;
    int task;
    double tolerance;
    bool json;
} grade_request;

typedef struct totals {
    size_t counts[3]; /* by ew_verdict */
    size_t lines;     /* of the file, blank ones included */
} totals;

/* A member's text: a string as it is, a number as it is written; "" with *missing set for null and for no
 * member. NULL when it is something else or memory is out. Owned by the caller. */
static char *member_text(const json_t *object, const char *key, bool *missing) {
    const json_t *value = json_object_get(object, key);
    *missing = !value || json_is_null(value);
    if (*missing) {
        return strdup("");
    }
    if (json_is_string(value)) {
        return strdup(json_string_value(value));
    }
    return json_is_number(value) ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;
}

static int task_named(const char *name) {
    for (int i = 0; task_names[i]; i++) {
        if (strcmp(task_names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

/* One line each, and no orders to the terminal, whatever the file holds. */
static void print_plain(const char *text) {
    for (const char *c = text; *c; c++) {
        putchar((unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c);
    }
}

static void print_line(const char *id, const ew_grade_result *result) {
    printf("%-5s  ", ew_verdict_names[result->verdict]);
    print_plain(id);
    if (result->answer) {
        fputs("  ", stdout);
        print_plain(result->answer);
    }
    putchar('\n');
}

static ew_status print_json(const json_t *id, const ew_grade_result *result, ew_error *error) {
    json_t *object = json_object();
    json_t *answer = result->answer ? ew_json_repaired(result->answer, strlen(result->answer)) : json_null();
    json_t *normal = result->normal ? ew_json_repaired(result->normal, strlen(result->normal)) : json_null();
    ew_json_put(&object, "id", id ? json_deep_copy(id) : json_null());
    ew_json_put(&object, "verdict", json_string(ew_verdict_names[result->verdict]));
    ew_json_put(&object, "answer", answer);
    ew_json_put(&object, "normal", normal);
    return ew_json_print(object, error);
}

static ew_status report(const grade_request *asked, const json_t *object, const ew_grade_result *result, size_t line,
                        ew_error *error) {
    char number[32];
    bool missing;
    const json_t *id = json_object_get(object, "id");
    if (asked->json) {
        return print_json(id, result, error);
    }
    char *name = member_text(object, "id", &missing);
    snprintf(number, sizeof number, "line %zu", line);
    print_line(name && !missing ? name : number, result);
    free(name);
    return EW_OK;
}

/* Grades what a line's object says; errors name the line. */
static ew_status grade_object(const grade_request *asked, const json_t *object, totals *totals, ew_error *error) {
    bool no_reply, no_answer, no_gold, no_task, bare;
    char *reply = member_text(object, "reply", &no_reply), *answer = member_text(object, "answer", &no_answer);
    char *gold = member_text(object, "gold", &no_gold), *task = member_text(object, "task", &no_task);
    ew_grade_options options = {
        .size = sizeof options, .task = (ew_grade_task)asked->task, .tolerance = asked->tolerance};
    ew_grade_result result = {.verdict = EW_VERDICT_NONE};
    ew_status status = EW_OK;
    int named = task && !no_task ? task_named(task) : asked->task;
    bare = no_reply;
    if (!reply || !answer || !gold || !task) {
        status =
            ew_fail(error, EW_ERROR_FORMAT, "%s line %zu: reply, answer, gold and task must be strings (or numbers)",
                    asked->path, totals->lines);
    } else if (no_gold || (!json_object_get(object, "reply") && !json_object_get(object, "answer"))) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s line %zu: an object with gold and with reply or answer is needed",
                         asked->path, totals->lines);
    } else if (named < 0) {
        status =
            ew_fail(error, EW_ERROR_FORMAT, "%s line %zu: unknown task \"%s\"; auto, math, list and choice are known",
                    asked->path, totals->lines, task);
    } else if (!no_reply || !no_answer) {
        options.task = (ew_grade_task)named;
        options.bare = bare;
        status = ew_grade_with(bare ? answer : reply, gold, &options, &result, error);
    }
    if (status == EW_OK) {
        totals->counts[result.verdict]++;
        status = report(asked, object, &result, totals->lines, error);
    }
    ew_grade_result_free(&result);
    free(reply);
    free(answer);
    free(gold);
    free(task);
    return status;
}

static ew_status grade_line(const grade_request *asked, const char *line, size_t length, totals *totals,
                            ew_error *error) {
    json_error_t problem;
    if (strspn(line, " \t\r\n") == length) {
        return EW_OK;
    }
    json_t *object = json_loadb(line, length, 0, &problem);
    ew_status status;
    if (!object || !json_is_object(object)) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s line %zu: not a JSON object%s%s", asked->path, totals->lines,
                         object ? "" : ": ", object ? "" : problem.text);
    } else {
        status = grade_object(asked, object, totals, error);
    }
    json_decref(object);
    return status;
}

static ew_status grade_stream(const grade_request *asked, FILE *file, totals *totals, ew_error *error) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    ew_status status = EW_OK;
    errno = 0;
    while (status == EW_OK && (length = getline(&line, &capacity, file)) >= 0) {
        totals->lines++;
        status = grade_line(asked, line, (size_t)length, totals, error);
    }
    if (status == EW_OK && !feof(file)) {
        status = ew_fail(error, errno == ENOMEM ? EW_ERROR_MEMORY : EW_ERROR_IO, "cannot read %s: %s", asked->path,
                         strerror(errno));
    }
    free(line);
    return status;
}

static ew_status grade_file(const grade_request *asked, totals *totals, ew_error *error) {
    bool standard_input = strcmp(asked->path, "-") == 0;
    FILE *file = standard_input ? stdin : fopen(asked->path, "r");
    if (!file) {
        return ew_fail(error, EW_ERROR_IO, "cannot open %s: %s", asked->path, strerror(errno));
    }
    ew_status status = grade_stream(asked, file, totals, error);
    if (!standard_input) {
        fclose(file);
    }
    return status;
}

static const char examples[] = "  edgewise grade replies.jsonl\n"
                               "  edgewise grade --json replies.jsonl > verdicts.jsonl\n"
                               "  printf '%s\\n' '{\"id\": 1, \"reply\": \"So it is "
                               "\\\\boxed{\\\\frac12}.\", \"gold\": \"0.5\"}' | edgewise grade -\n";

int ew_cli_grade(int argc, char **argv) {
    grade_request asked = {.path = NULL};
    const char *positionals[1];
    const ew_option options[] = {
        {"json", 0, EW_OPTION_FLAG, &asked.json, .help = "print one JSON object a line: id, verdict, answer, normal"},
        {"task", 0, EW_OPTION_CHOICE, &asked.task, .help = "how to read answers, where a line does not say",
         .choices = task_names},
        {"tolerance", 0, EW_OPTION_NUMBER, &asked.tolerance, .argument = "T",
         .help = "numbers within T times the gold are right; 0 (default): exact", .least = 0, .most = 0.5},
    };
    const ew_command command = {
        "grade",
        "FILE.jsonl",
        "Tell which answers are right. A line of the file is an object with gold and with reply (in which\n"
        "the final answer is searched) or answer (the answer itself), and maybe id and task. The verdict is\n"
        "right, wrong, or none when the reply has no final answer. \"-\" reads standard input.",
        examples,
        options,
        sizeof options / sizeof *options,
        1,
        1};
    int exit_code;
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    totals totals = {{0}, 0};
    ew_error error;
    asked.path = positionals[0];
    ew_status status = grade_file(&asked, &totals, &error);
    size_t graded = totals.counts[0] + totals.counts[1] + totals.counts[2];
    if (status == EW_OK && !asked.json) {
        printf("%zu right, %zu wrong, %zu without an answer, of %zu", totals.counts[EW_VERDICT_RIGHT],
               totals.counts[EW_VERDICT_WRONG], totals.counts[EW_VERDICT_NONE], graded);
        if (graded) {
            printf(" (%.1f %% right)", 100.0 * (double)totals.counts[EW_VERDICT_RIGHT] / (double)graded);
        }
        putchar('\n');
    }
    return ew_cli_finish(status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error));
}
