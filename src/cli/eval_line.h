/* A line of `edgewise eval`: one problem, all candidates of its answer, and what each was worth. */
#ifndef EW_CLI_EVAL_LINE_H
#define EW_CLI_EVAL_LINE_H

#include "cli/policy_arguments.h"
#include "text/problem.h"

#include <jansson.h>

/* What the results depend on, as an object: model, adapter and heads, and every setting of the policy. */
json_t *ew_eval_policy_json(const ew_engine *engine, const ew_policy_arguments *arguments, const ew_policy *policy,
                            const char *system);

/* The line. `verdicts` [n_candidates] are not looked at where the problem has no answer. `policy` is borrowed. NULL when
 * memory is out. */
json_t *ew_eval_line_json(const ew_problem *problem, const ew_answer_result *result, const ew_verdict *verdicts,
                          json_t *policy);

/* How many there are of each, and names by number, for tables. */
enum { EW_STOP_REASONS = EW_STOP_DECIDED + 1, EW_THINKING_ENDS = EW_THINKING_OPEN + 1 };
const char *ew_stop_name(size_t reason);
const char *ew_end_name(size_t end);

/* What is read back of it. The strings and the policy are the object's. */
typedef struct ew_eval_line {
    const char *id;
    const char *problem;
    bool graded; /* the problem has an answer */
    bool thinks;
    double seconds, reply_seconds;
    ew_candidate *candidates; /* [n] of which numbers of tokens, score, class and ends are set */
    ew_verdict *verdicts;     /* [n] */
    size_t n, chosen, n_agreed, n_stopped, n_saved;
    const json_t *policy;
} ew_eval_line;

/* EW_ERROR_FORMAT names what is missing or wrong, and `where`. Freed by ew_eval_line_free, also after an error. */
ew_status ew_eval_line_read(const json_t *object, const char *where, ew_eval_line *line, ew_error *error);
void ew_eval_line_free(ew_eval_line *line); /* safe on {0} */

/* Decides the vote anew, among the first n_streams candidates (0: all). As ew_answer would have: by number where no
 * verifier was asked; how long fewer of them would have taken is not known (NaN). EW_ERROR_ARGUMENT when streams were
 * stopped early, there are fewer, or "best" has no scores. */
ew_status ew_eval_line_vote(ew_eval_line *line, ew_vote rule, size_t n_streams, const char *where, ew_error *error);

/* Calls `take` for each line of a file. */
typedef ew_status (*ew_eval_taker)(void *context, ew_eval_line *line, const char *where, ew_error *error);
ew_status ew_eval_file_read(const char *path, ew_eval_taker take, void *context, ew_error *error);

#endif
