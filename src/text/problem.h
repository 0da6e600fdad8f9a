/* A problem as a line of JSONL has it: id, problem [, choices] [, solution], answer. */
#ifndef EW_TEXT_PROBLEM_H
#define EW_TEXT_PROBLEM_H

#include "base/buffer.h"
#include "format/json.h"

/* Views live as long as the object, or as the problem where it says so. */
typedef struct ew_problem {
    const char *id;     /* "" when there is none; a number as it is written (owned by the problem) */
    ew_string text;     /* what is asked; choices below it, "A. ...", a line each (owned by the problem) */
    ew_string solution; /* length 0: none */
    const char *answer; /* NULL: none; a number as it is written (owned by the problem) */
    char *owned_id, *owned_answer;
    ew_buffer owned_text;
} ew_problem;

/* Reads `problem` and what stands beside it. EW_ERROR_FORMAT names the field that is missing or of the wrong kind, and
 * `where`. Freed by ew_problem_free, also after an error. */
ew_status ew_problem_read(const json_t *object, const char *where, ew_problem *out, ew_error *error);
void ew_problem_free(ew_problem *problem); /* safe on {0} */

#endif
