/* A command that answers the problems of a JSONL file and writes lines about each, in the file's order, to a file that a later
 * run goes on with: `sample` and `eval`. */
#ifndef EW_CLI_PROBLEMS_H
#define EW_CLI_PROBLEMS_H

#include "base/file.h"
#include "cli/engine.h"
#include "cli/sample_file.h"
#include "reason/source.h"
#include "text/problem.h"

/* "wrong", "right", "none", in the order of ew_verdict, NULL behind them. */
extern const char *const ew_verdict_names[];

typedef struct ew_problem_work {
    const char *path; /* of the problems, for messages */
    const ew_mapping *problems;
    size_t skip, limit;   /* limit 0: all */
    ew_session *session;  /* that answers them */
    size_t parallel;      /* problems that are answered at once */
    const char *label;    /* of the progress bar */
    ew_sample_file *file; /* problems that it has are passed over; gets the lines */
    /* Appends the lines of one problem, which is asked of the source; none where there is nothing to keep. */
    ew_status (*take)(void *context, const ew_source *source, const ew_problem *problem, ew_buffer *lines,
                      ew_error *error);
    void (*note)(void *context, char *text, size_t size); /* a few words for the bar */
    void *context;
} ew_problem_work;

ew_status ew_problems_work(const ew_problem_work *work, ew_error *error);

/* Asks the problem, behind a system message where there is one. One that fits no context is told on stderr, and
 * *answered is false. EW_ERROR_CANCELLED after a signal: an answer that was cut is none. */
ew_status ew_problem_ask(const ew_source *source, const char *system, const ew_problem *problem, const ew_policy *policy,
                         ew_answer_result *result, bool *answered, ew_error *error);

#endif
