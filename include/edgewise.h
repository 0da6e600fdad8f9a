/* Edgewise: on-device LLM reasoning. Being written: the errors below are settled. */
#ifndef EDGEWISE_H
#define EDGEWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define EW_API __attribute__((visibility("default")))
#else
#define EW_API
#endif

/* Errors. A function that can fail returns an ew_status; EW_OK is 0. If it is given an ew_error (it may be
 * NULL) it also fills it with one sentence: what was wrong, where, and what would be right. */
typedef enum ew_status {
    EW_OK = 0,
    EW_ERROR_ARGUMENT,    /* the caller asked for something that makes no sense */
    EW_ERROR_MEMORY,      /* an allocation failed */
    EW_ERROR_IO,          /* the operating system refused a read or a write */
    EW_ERROR_FORMAT,      /* a file or a line is malformed */
    EW_ERROR_UNSUPPORTED, /* well-formed, but something that Edgewise does not do; the message names it */
    EW_ERROR_CONTEXT,     /* the context (or the KV memory) is full */
    EW_ERROR_NUMERIC,     /* NaN or infinity where a number is needed */
    EW_ERROR_CANCELLED    /* ew_cancel was called */
} ew_status;

typedef struct ew_error {
    ew_status status;
    char message[512]; /* UTF-8, NUL-terminated, no newline */
} ew_error;

/* ---- Grading ------------------------------------------------------------------------------------------------
 * Do a reply and a gold answer say the same thing? docs/grading.md has the rules. Any input is safe, hostile ones
 * included: a verdict comes within milliseconds and bounded memory. */

typedef enum ew_grade_task {
    EW_TASK_AUTO = 0, /* choice if the gold is one letter A-J, list if it has commas outside brackets, else math */
    EW_TASK_MATH,     /* one value, expression, point, set, interval, matrix, equation or text */
    EW_TASK_LIST,     /* several answers, in any order */
    EW_TASK_CHOICE    /* the letter of a multiple choice */
} ew_grade_task;

typedef enum ew_verdict {
    EW_VERDICT_WRONG = 0,
    EW_VERDICT_RIGHT,
    EW_VERDICT_NONE /* the reply has no final answer; never right */
} ew_verdict;

typedef struct ew_grade_options {
    size_t size;        /* sizeof(ew_grade_options): fields added later read as 0 for older callers */
    ew_grade_task task; /* EW_TASK_AUTO is 0 */
    double tolerance;   /* 0: exact. Else numbers a, b count as equal when |a - b| <= tolerance * |b|, b the gold */
    bool bare;          /* the text is the answer itself, not a reply to search for one */
} ew_grade_options;

typedef struct ew_grade_result {
    ew_verdict verdict;
    char *answer; /* as extracted; NULL for EW_VERDICT_NONE */
    char *normal; /* its normal form, plain text; NULL for EW_VERDICT_NONE */
} ew_grade_result;

/* Grades `reply` against `gold` (UTF-8, NUL-terminated; broken UTF-8 is tolerated). Fills *result, to be freed by
 * ew_grade_result_free. Errors: EW_ERROR_ARGUMENT (a NULL, an unknown task), EW_ERROR_MEMORY. */
EW_API ew_status ew_grade(const char *reply, const char *gold, ew_grade_task task, ew_grade_result *result,
                          ew_error *error);
/* The same with options (NULL: the defaults). */
EW_API ew_status ew_grade_with(const char *reply, const char *gold, const ew_grade_options *options,
                               ew_grade_result *result, ew_error *error);
EW_API void ew_grade_result_free(ew_grade_result *result); /* safe on {0} and NULL */

/* The final answer of a reply, for a vote: *answer is owned by the caller, NULL if there is none. EW_TASK_AUTO is
 * EW_TASK_MATH here, as no gold is known. */
EW_API ew_status ew_final_answer(const char *reply, ew_grade_task task, char **answer, ew_error *error);

/* Equivalence classes of n answers: classes[i] counts from 0 in order of first appearance; a NULL answer gets SIZE_MAX.
 * Which answers share a class does not depend on their order. At most 4096 answers (EW_ERROR_ARGUMENT). */
EW_API ew_status ew_answer_classes(const char *const *answers, size_t n, ew_grade_task task, size_t *classes,
                                   ew_error *error);

#ifdef __cplusplus
}
#endif

#endif
