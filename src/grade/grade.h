/* Is this answer right? The rules, with examples, are docs/grading.md; the public functions stand in the
 * section "Grading" of edgewise.h. Everything here is thread-safe: no globals, no locale, no state. */
#ifndef EW_GRADE_GRADE_H
#define EW_GRADE_GRADE_H

#include "edgewise.h"

/* What an extraction finds: a range of the reply (not terminated), or found == false. */
typedef struct ew_extract {
    const char *text;
    size_t length;
    bool found;
} ew_extract;

/* The final answer in `reply` (`length` bytes) for a task that is not EW_TASK_AUTO. A range of the reply
 * always: several boxes of a list are the range from the first box to the last. Linear in the reply's length.
 */
ew_extract ew_extract_answer(const char *reply, size_t length, ew_grade_task task);

/* The same in a text that is said to be the answer: without a box or a phrase it is the whole text. */
ew_extract ew_extract_bare(const char *answer, size_t length, ew_grade_task task);

/* The letter A-J of a multiple choice that an extracted answer starts with; 0 if none. */
char ew_choice_letter(const char *answer, size_t length);

/* What EW_TASK_AUTO means for this gold answer: choice, list or math. */
ew_grade_task ew_task_of_gold(const char *gold, size_t length);

#endif
