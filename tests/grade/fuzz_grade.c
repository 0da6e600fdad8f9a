/* Any two texts are graded: reply and gold, separated by the first 0xFF byte, under every task. An answer
 * equals itself, and classes do not depend on the order of the answers. */
#include "edgewise.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void must(bool holds) {
    if (!holds) {
        abort();
    }
}

static void grade(const char *reply, const char *gold, const ew_grade_options *options, bool itself) {
    ew_grade_result result;
    must(ew_grade_with(reply, gold, options, &result, NULL) == EW_OK);
    must((result.verdict == EW_VERDICT_NONE) == (result.answer == NULL) &&
         (result.answer == NULL) == (result.normal == NULL));
    must(!itself || result.verdict == EW_VERDICT_RIGHT || !result.answer || strcmp(result.answer, gold) != 0 ||
         options->task == EW_TASK_CHOICE);
    ew_grade_result_free(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *border = size ? memchr(data, 0xFF, size) : NULL;
    size_t first = border ? (size_t)(border - data) : size, second = border ? size - first - 1 : 0;
    char *reply = calloc(1, first + 1), *gold = calloc(1, second + 1);
    if (!reply || !gold) {
        abort();
    }
    if (first) {
        memcpy(reply, data, first);
    }
    if (second) {
        memcpy(gold, data + first + 1, second);
    }
    for (int task = EW_TASK_AUTO; task <= EW_TASK_CHOICE; task++) {
        ew_grade_options options = {.size = sizeof options, .task = (ew_grade_task)task, .bare = true};
        grade(reply, gold, &options, false);
        options.bare = false;
        options.tolerance = task == EW_TASK_MATH ? 1e-3 : 0;
        grade(reply, gold, &options, false);
    }
    ew_grade_options exact = {.size = sizeof exact, .task = EW_TASK_MATH, .bare = true};
    grade(reply, reply, &exact, true);
    const char *answers[3] = {reply, gold, reply}, *turned[2] = {gold, reply};
    size_t classes[3], others[2];
    must(ew_answer_classes(answers, 3, EW_TASK_AUTO, classes, NULL) == EW_OK && classes[0] == 0 && classes[2] == 0);
    must(ew_answer_classes(turned, 2, EW_TASK_AUTO, others, NULL) == EW_OK);
    must((classes[0] == classes[1]) == (others[0] == others[1]));
    free(reply);
    free(gold);
    return 0;
}
