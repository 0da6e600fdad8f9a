#include "cli/problems.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "format/lines.h"

#include <stdio.h>
#include <string.h>

const char *const ew_verdict_names[] = {"wrong", "right", "none", NULL};

ew_status ew_problem_ask(ew_session *session, const char *system, const ew_problem *problem, const ew_policy *policy,
                         ew_answer_result *result, bool *answered, ew_error *error) {
    ew_message messages[2];
    size_t n = 0;
    *answered = false;
    if (system) {
        messages[n++] = (ew_message){"system", system, strlen(system)};
    }
    messages[n++] = (ew_message){"user", problem->text.data, problem->text.length};
    ew_status status = ew_answer(session, messages, n, policy, NULL, result, error);
    if (status == EW_ERROR_CONTEXT) {
        fprintf(stderr, "edgewise: problem %s is left out: %s\n", problem->id, error->message);
        return EW_OK;
    }
    if (status == EW_OK && ew_interrupted) {
        ew_answer_result_free(result);
        *result = (ew_answer_result){0};
        status = ew_fail(error, EW_ERROR_CANCELLED, "interrupted");
    }
    *answered = status == EW_OK;
    return status;
}

static ew_status take_line(const ew_problem_work *work, ew_string line, size_t number, ew_buffer *lines,
                           ew_error *error) {
    char where[320];
    json_t *object = NULL;
    ew_problem problem = {0};
    snprintf(where, sizeof where, "%.256s line %zu", work->path, number);
    ew_status status = ew_json_parse(line, where, &object, error);
    if (status == EW_OK) {
        status = ew_problem_read(object, where, &problem, error);
    }
    if (status == EW_OK && problem.id[0] == '\0') {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s: a problem needs an \"id\"", where);
    }
    ew_buffer_clear(lines);
    if (status == EW_OK && !ew_sample_file_has(work->file, problem.id)) {
        status = work->take(work->context, &problem, lines, error);
    }
    if (status == EW_OK && lines->length > 0) {
        status = ew_sample_file_write(work->file, lines, error);
    }
    ew_problem_free(&problem);
    json_decref(object);
    return status;
}

static size_t count_lines(ew_string text) {
    ew_string line;
    size_t number = 0, n = 0;
    while (ew_next_line(&text, &line, &number)) {
        n++;
    }
    return n;
}

ew_status ew_problems_work(const ew_problem_work *work, ew_error *error) {
    ew_string text = {work->problems->data ? (const char *)work->problems->data : "", work->problems->size}, line;
    size_t number = 0, done = 0, total = count_lines(text);
    ew_progress bar;
    ew_buffer lines = {0};
    ew_status status = EW_OK;
    total = total > work->skip ? total - work->skip : 0;
    total = work->limit > 0 && work->limit < total ? work->limit : total;
    ew_progress_begin(&bar, work->label, "problems", total);
    for (size_t i = 0; i < work->skip && ew_next_line(&text, &line, &number); i++) {
    }
    while (status == EW_OK && done < total && ew_next_line(&text, &line, &number)) {
        char note[64] = "";
        status = take_line(work, line, number, &lines, error);
        work->note(work->context, note, sizeof note);
        ew_progress_update(&bar, ++done, note);
    }
    ew_progress_end(&bar);
    ew_buffer_free(&lines);
    return status;
}
