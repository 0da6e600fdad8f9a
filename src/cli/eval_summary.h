/* What the lines of an evaluation come to: accuracy with its interval, and what it cost. */
#ifndef EW_CLI_EVAL_SUMMARY_H
#define EW_CLI_EVAL_SUMMARY_H

#include "cli/eval_line.h"

/* Start from {0}. Sums over the problems, or over all candidates where it says so. */
typedef struct ew_eval_summary {
    size_t n;              /* problems */
    size_t n_graded;       /* that have an answer, of which the rest is: */
    size_t n_right;        /* the chosen candidate is */
    size_t n_none;         /* the chosen candidate has no final answer */
    size_t n_some_right;   /* some candidate is right */
    double share, squares; /* of a problem's candidates that are right, and its square */
    size_t n_thought;      /* problems that were thought about */
    size_t n_candidates, n_scored, n_thoughts,
        n_cut; /* of candidates: all, scored, that thought, whose thinking was cut */
    size_t most_streams, n_stopped, n_saved;
    double thinking, answer;                 /* tokens of all candidates */
    double longest_thinking, longest_answer; /* of each problem's longest candidate */
    double seconds, reply_seconds;
    size_t stops[EW_STOP_REASONS], ends[EW_THINKING_ENDS]; /* of candidates */
} ew_eval_summary;

void ew_eval_summary_add(ew_eval_summary *summary, const ew_eval_line *line);

/* `vote` says how the answers were to be chosen; n_left_out problems fitted no context. */
void ew_eval_summary_print(const ew_eval_summary *summary, ew_vote vote, size_t n_left_out);
/* The same numbers. `policy` (may be NULL) is borrowed. NULL when memory is out. */
json_t *ew_eval_summary_json(const ew_eval_summary *summary, ew_vote vote, size_t n_left_out, json_t *policy);

#endif
