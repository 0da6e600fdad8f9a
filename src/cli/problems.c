#include "cli/problems.h"
#include "base/memory.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "format/lines.h"
#include "reason/answer.h"
#include "reason/together.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ew_verdict_names[] = {"wrong", "right", "none", NULL};

ew_status ew_problem_ask(const ew_source *source, const char *system, const ew_problem *problem, const ew_policy *policy,
                         ew_answer_result *result, bool *answered, ew_error *error) {
    ew_message messages[2];
    size_t n = 0;
    *answered = false;
    if (system) {
        messages[n++] = (ew_message){"system", system, strlen(system)};
    }
    messages[n++] = (ew_message){"user", problem->text.data, problem->text.length};
    ew_status status = ew_answer_from(source, messages, n, policy, NULL, result, error);
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

/* ---- The lines of a file ---- */

typedef struct problem_run {
    const ew_problem_work *work;
    ew_string text;      /* what is left of the file */
    size_t number;       /* of the last line */
    size_t n_begun, n_done, total;
    ew_buffer *lines;    /* [total]: of the problems that are done, until those before them are */
    bool *done;          /* [total] */
    size_t n_written;    /* problems whose lines are in the file */
    ew_progress bar;
} problem_run;

/* Reads the problem of a line; *object owns what it points to. */
static ew_status read_problem(const problem_run *run, ew_string line, json_t **object, ew_problem *problem,
                              ew_error *error) {
    char where[320];
    snprintf(where, sizeof where, "%.256s line %zu", run->work->path, run->number);
    ew_status status = ew_json_parse(line, where, object, error);
    if (status == EW_OK) {
        status = ew_problem_read(*object, where, problem, error);
    }
    if (status == EW_OK && problem->id[0] == '\0') {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s: a problem needs an \"id\"", where);
    }
    return status;
}

static ew_status write_lines(problem_run *run, size_t index, ew_error *error) {
    ew_buffer *lines = &run->lines[index];
    ew_status status = lines->length > 0 ? ew_sample_file_write(run->work->file, lines, error) : EW_OK;
    ew_buffer_free(lines);
    return status;
}

/* Problem `index` is done: it and those that waited for it go to the file, in their order. */
static ew_status deliver(problem_run *run, size_t index, ew_error *error) {
    char note[64] = "";
    ew_status status = EW_OK;
    run->done[index] = true;
    while (status == EW_OK && run->n_written < run->total && run->done[run->n_written]) {
        status = write_lines(run, run->n_written++, error);
    }
    run->work->note(run->work->context, note, sizeof note);
    ew_progress_update(&run->bar, ++run->n_done, note);
    return status;
}

/* One worker: the next problem, again and again. */
static ew_status take_problems(void *context, const ew_source *source, ew_error *error) {
    problem_run *run = context;
    const ew_problem_work *work = run->work;
    ew_string line;
    ew_status status = EW_OK;
    while (status == EW_OK && run->n_begun < run->total && ew_next_line(&run->text, &line, &run->number)) {
        json_t *object = NULL;
        ew_problem problem = {0};
        size_t index = run->n_begun++;
        status = read_problem(run, line, &object, &problem, error);
        if (status == EW_OK && !ew_sample_file_has(work->file, problem.id)) {
            status = work->take(work->context, source, &problem, &run->lines[index], error);
        }
        if (status == EW_OK) {
            status = deliver(run, index, error);
        }
        ew_problem_free(&problem);
        json_decref(object);
    }
    return status;
}

/* What is done behind one that is not is kept, too: a later run fills the gap. */
static ew_status write_rest(problem_run *run, ew_error *error) {
    ew_status status = EW_OK;
    for (size_t i = 0; i < run->total; i++) {
        if (run->done[i] && status == EW_OK) {
            status = write_lines(run, i, error);
        }
        ew_buffer_free(&run->lines[i]);
    }
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

static ew_status run_all(problem_run *run, ew_error *error) {
    const ew_problem_work *work = run->work;
    const ew_source engine = ew_engine_source(work->session);
    ew_error late = {0};
    run->lines = ew_allocate(run->total, sizeof *run->lines);
    run->done = ew_allocate(run->total, sizeof *run->done);
    if (!run->lines || !run->done) {
        return ew_fail_memory(error, run->total * sizeof *run->lines, "the problems' results");
    }
    size_t n = work->parallel < run->total ? work->parallel : run->total;
    ew_status status = n > 1 ? ew_together(&engine, n, take_problems, run, error) : take_problems(run, &engine, error);
    ew_status written = write_rest(run, &late);
    if (status == EW_OK && written != EW_OK) {
        return ew_fail(error, written, "%s", late.message);
    }
    return status;
}

ew_status ew_problems_work(const ew_problem_work *work, ew_error *error) {
    problem_run run = {.work = work,
                       .text = {work->problems->data ? (const char *)work->problems->data : "", work->problems->size}};
    ew_string line;
    size_t n_lines = count_lines(run.text);
    run.total = n_lines > work->skip ? n_lines - work->skip : 0;
    run.total = work->limit > 0 && work->limit < run.total ? work->limit : run.total;
    for (size_t i = 0; i < work->skip && ew_next_line(&run.text, &line, &run.number); i++) {
    }
    ew_progress_begin(&run.bar, work->label, "problems", run.total);
    ew_status status = run_all(&run, error);
    ew_progress_end(&run.bar);
    free(run.lines);
    free(run.done);
    return status;
}
