/* Whole replies: where the final answer is found, when there is none, tasks, options, classes, and the gold
 * answers of the evaluation sets against themselves. */
#include "edgewise.h"
#include "support.h"

#include <jansson.h>
#include <pthread.h>

typedef struct reply_case {
    const char *reply, *gold;
    ew_grade_task task;
    ew_verdict verdict;
    const char *answer; /* NULL: not looked at */
} reply_case;

#define AUTO EW_TASK_AUTO
#define RIGHT EW_VERDICT_RIGHT
#define WRONG EW_VERDICT_WRONG
#define NONE EW_VERDICT_NONE

static const reply_case cases[] = {
    /* boxes */
    {"So it is $\\boxed{5}$.", "5", AUTO, RIGHT, "5"},
    {"First \\boxed{4}, no: \\boxed{5}", "5", AUTO, RIGHT, "5"},
    {"First \\boxed{5}, no: \\boxed{4}", "5", AUTO, WRONG, "4"},
    {"\\boxed{\\frac{1}{2}}", "0.5", AUTO, RIGHT, "\\frac{1}{2}"},
    {"\\boxed{\\boxed{7}}", "7", AUTO, RIGHT, NULL},
    {"\\boxed{\\{1,2\\}}", "\\{2,1\\}", AUTO, RIGHT, "\\{1,2\\}"},
    {"\\boxed 7", "7", AUTO, RIGHT, "7"},
    {"$\\boxed 7$ is it", "7", AUTO, RIGHT, "7"},
    {"\\fbox{7}", "7", AUTO, RIGHT, "7"},
    {"\\boxed {7}", "7", AUTO, RIGHT, "7"},
    {"\\boxed{5} and then \\boxed{", "5", AUTO, RIGHT, "5"},
    {"\\boxed{5} and then \\boxed{}", "5", AUTO, RIGHT, "5"},
    {"\\boxed{x = 5}", "5", AUTO, RIGHT, NULL},
    {"\\boxed{5 \\text{ cm}}", "5", AUTO, RIGHT, NULL},
    {"\\boxed{1}, \\boxed{2}", "1,2", AUTO, RIGHT, NULL},
    {"\\boxed{2} and \\boxed{1}", "1,2", AUTO, RIGHT, NULL},
    {"$x = \\boxed{2}$ or $x = \\boxed{1}$", "1,2", AUTO, RIGHT, NULL},
    {"\\boxed{1}, \\boxed{2}, \\boxed{3}", "1,2", AUTO, WRONG, NULL},
    {"\\boxed{1}, \\boxed{2}", "2", AUTO, RIGHT, "2"},
    {"\\boxed{1,2}", "2,1", AUTO, RIGHT, NULL},
    {"\\boxed{5}. The answer is 6.", "5", AUTO, RIGHT, "5"},
    {"Answer: $\\boxed{}$", "5", AUTO, NONE, NULL},
    {"\\boxed{unclosed", "unclosed", AUTO, NONE, NULL},
    /* thinking */
    {"<think>maybe \\boxed{4}</think>It is \\boxed{5}.", "5", AUTO, RIGHT, "5"},
    {"<think>so \\boxed{5}", "5", AUTO, NONE, NULL},
    {"<think>so \\boxed{5}</think>", "5", AUTO, NONE, NULL},
    {"so \\boxed{5}</think>done", "5", AUTO, NONE, NULL},
    {"so \\boxed{4}</think>\\boxed{5}", "5", AUTO, RIGHT, "5"},
    {"<think>a</think>\\boxed{5}<think>but \\boxed{6}", "5", AUTO, RIGHT, "5"},
    {"<think>a</think>\\boxed{5}<think>but</think>\\boxed{6}", "6", AUTO, RIGHT, "6"},
    {"<think>The answer is 5", "5", AUTO, NONE, NULL},
    {"<think>\n\n</think>\n\nThe answer is 5.", "5", AUTO, RIGHT, "5"},
    /* phrases */
    {"The answer is 42.", "42", AUTO, RIGHT, "42"},
    {"the final answer is $\\frac{1}{2}$. I hope it is correct.", "1/2", AUTO, RIGHT, NULL},
    {"Final Answer: The final answer is $12$. I hope it is correct.", "12", AUTO, RIGHT, "12"},
    {"2 + 3 = 5\n#### 5", "5", AUTO, RIGHT, "5"},
    {"#### 1,234", "1234", AUTO, RIGHT, "1,234"},
    {"Answer: 17", "17", AUTO, RIGHT, "17"},
    {"**Answer:** 17", "17", AUTO, RIGHT, "17"},
    {"**Final Answer**\n\n$$\\frac34$$", "0.75", AUTO, RIGHT, NULL},
    {"**Final Answer:**\n\n$$\\frac34$$", "0.75", AUTO, RIGHT, NULL},
    {"ANSWER: 17", "17", AUTO, RIGHT, "17"},
    {"The answer is: 3.5", "3.5", AUTO, RIGHT, "3.5"},
    {"The answer is $18 per day.", "18", AUTO, RIGHT, NULL},
    {"The answer is 18 dollars.", "18", AUTO, RIGHT, NULL},
    {"The answer is 3.5 hours. That is long.", "3.5", AUTO, RIGHT, NULL},
    {"The answer is x = 7", "7", AUTO, RIGHT, NULL},
    {"The answer is \\(x^2\\).", "x^2", AUTO, RIGHT, NULL},
    {"The answer is 4. No, the answer is 5.", "5", AUTO, RIGHT, "5"},
    {"The answers are 3 and 5.", "3, 5", AUTO, RIGHT, NULL},
    {"The answer is $3$ and $5$.", "5, 3", AUTO, RIGHT, NULL},
    {"So the answer would be \\$12.", "12", AUTO, RIGHT, NULL},
    {"<answer>17</answer>", "17", AUTO, RIGHT, "17"},
    {"The answer is therefore 9.", "9", AUTO, RIGHT, "9"},
    {"The answer is Evelyn.", "\\text{Evelyn}", AUTO, RIGHT, "Evelyn"},
    {"The answer is 42<|im_end|>", "42", AUTO, RIGHT, "42"},
    /* a bare reply, and none */
    {"42", "42", AUTO, RIGHT, "42"},
    {"$\\frac12$", "0.5", AUTO, RIGHT, NULL},
    {"", "5", AUTO, NONE, NULL},
    {"   \n", "5", AUTO, NONE, NULL},
    {"I do not know.", "5", AUTO, NONE, NULL},
    {"We find 12 and then 13 by induction.", "13", AUTO, NONE, NULL},
    {"There is no answer here", "", AUTO, NONE, NULL},
    {"Answer the question first.", "5", AUTO, NONE, NULL},
    /* multiple choice */
    {"The answer is (B).", "B", AUTO, RIGHT, NULL},
    {"The answer is B", "B", AUTO, RIGHT, NULL},
    {"The answer is **B**.", "B", AUTO, RIGHT, NULL},
    {"The answer is B: the second law", "B", AUTO, RIGHT, NULL},
    {"The answer is option C.", "C", AUTO, RIGHT, NULL},
    {"Answer: D", "D", AUTO, RIGHT, NULL},
    {"Answer: D) 12 joules", "D", AUTO, RIGHT, NULL},
    {"\\boxed{A}", "A", AUTO, RIGHT, NULL},
    {"\\boxed{\\text{(A)}}", "A", AUTO, RIGHT, NULL},
    {"\\boxed{\\textbf{(C)}\\ 12}", "\\text{(C)}", AUTO, RIGHT, NULL},
    {"\\boxed{A}", "B", AUTO, WRONG, NULL},
    {"\\boxed{12}", "B", AUTO, WRONG, "12"},
    {"A", "A", AUTO, RIGHT, NULL},
    {"(C)", "C", AUTO, RIGHT, NULL},
    {"**B**", "B", AUTO, RIGHT, NULL},
    {"B. Because it is so.", "B", AUTO, RIGHT, NULL},
    {"We look at each.\n\n**D**", "D", AUTO, RIGHT, NULL},
    {"It is Bob's turn.", "B", AUTO, NONE, NULL},
    {"Clearly option B is correct.", "B", AUTO, RIGHT, NULL},
    {"The correct option: C", "C", AUTO, RIGHT, NULL},
    {"The correct choice is (E)", "E", AUTO, RIGHT, NULL},
    {"A man walks home.", "A", AUTO, NONE, NULL},
    {"The answer is A or B", "A", AUTO, WRONG, NULL},
    {"The answer is K", "B", AUTO, WRONG, NULL},
    {"I am sure.", "I", EW_TASK_CHOICE, NONE, NULL},
    /* tasks said outright */
    {"\\boxed{3,456}", "3,456", EW_TASK_MATH, RIGHT, NULL},
    {"\\boxed{456, 3}", "3,456", EW_TASK_LIST, RIGHT, NULL},
    {"\\boxed{3456}", "3,456", EW_TASK_LIST, WRONG, NULL},
    {"\\boxed{(2,1)}", "1,2", EW_TASK_LIST, RIGHT, NULL},
    {"\\boxed{[2,1]}", "1,2", EW_TASK_LIST, RIGHT, NULL},
    {"\\boxed{A}", "A", EW_TASK_MATH, RIGHT, NULL},
};

static void test_replies(void **state) {
    int bad = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const reply_case *c = &cases[i];
        ew_grade_result result;
        assert_int_equal(ew_grade(c->reply, c->gold, c->task, &result, NULL), EW_OK);
        if (result.verdict != c->verdict || (c->answer && (!result.answer || strcmp(result.answer, c->answer) != 0))) {
            print_message("\"%s\" ;; %s: verdict %d, answer %s\n", c->reply, c->gold, (int)result.verdict,
                          result.answer ? result.answer : "(none)");
            bad++;
        }
        assert_true((result.verdict == NONE) == (result.answer == NULL));
        ew_grade_result_free(&result);
    }
    assert_int_equal(bad, 0);
}

static void test_normal_forms(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"\\frac{6}{8}", "3/4"},
                                           {"1,234.50", "2469/2"},
                                           {"\\sqrt{16}", "4"},
                                           {"\\{3,1,2\\}", "{1, 2, 3}"},
                                           {"(1,\\frac12)", "(1, 1/2)"},
                                           {"\\text{Evelyn}", "evelyn"},
                                           {"x \\ge 2", "x >= 2"},
                                           {"5\\text{ cm}", "5"},
                                           {"(2,\\infty)", "(2, inf)"},
                                           {"\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "[[1, 2], [3, 4]]"},
                                           {"2, 1", "1, 2"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ew_grade_options options = {.size = sizeof options, .bare = true};
        ew_grade_result result;
        assert_int_equal(ew_grade_with(pairs[i][0], "0", &options, &result, NULL), EW_OK);
        assert_string_equal(result.normal, pairs[i][1]);
        ew_grade_result_free(&result);
    }
}

static void test_options(void **state) {
    (void)state;
    ew_grade_options options = {.size = sizeof options, .bare = true, .tolerance = 0.01};
    ew_grade_result result;
    ew_error error;
    assert_int_equal(ew_grade_with("0.333", "1/3", &options, &result, &error), EW_OK);
    assert_int_equal(result.verdict, RIGHT);
    ew_grade_result_free(&result);
    assert_int_equal(ew_grade_with("0.3", "1/3", &options, &result, &error), EW_OK);
    assert_int_equal(result.verdict, WRONG);
    ew_grade_result_free(&result);
    assert_int_equal(ew_grade_with("(3.14, 1)", "(\\pi, 1)", &options, &result, &error), EW_OK);
    assert_int_equal(result.verdict, RIGHT);
    ew_grade_result_free(&result);
    options.tolerance = -1;
    assert_int_equal(ew_grade_with("1", "1", &options, &result, &error), EW_ERROR_ARGUMENT);
    options.tolerance = 0;
    options.size = 1;
    assert_int_equal(ew_grade_with("1", "1", &options, &result, &error), EW_ERROR_ARGUMENT);
    options.size = offsetof(ew_grade_options, tolerance); /* an older caller: the rest reads as 0 */
    assert_int_equal(ew_grade_with("\\boxed{1}", "1", &options, &result, &error), EW_OK);
    assert_int_equal(result.verdict, RIGHT);
    ew_grade_result_free(&result);
    assert_int_equal(ew_grade(NULL, "1", AUTO, &result, &error), EW_ERROR_ARGUMENT);
    assert_int_equal(ew_grade("1", NULL, AUTO, &result, NULL), EW_ERROR_ARGUMENT);
    assert_int_equal(ew_grade("1", "1", (ew_grade_task)9, &result, NULL), EW_ERROR_ARGUMENT);
    ew_grade_result_free(NULL);
}

static void test_classes(void **state) {
    (void)state;
    const char *const answers[] = {"\\frac12",   "2",  NULL,  "0.5",   "x=2",       "50\\%", "two",
                                   "\\text{no}", "NO", "1/2", "(1,2)", "\\{1,2\\}", "2, 1",  "50"};
    const size_t expected[] = {0, 1, SIZE_MAX, 0, 1, 2, 1, 3, 3, 0, 4, 5, 5, 2};
    enum { N = sizeof answers / sizeof *answers };
    size_t classes[N], turned[N];
    assert_int_equal(ew_answer_classes(answers, N, AUTO, classes, NULL), EW_OK);
    for (size_t i = 0; i < N; i++) {
        if (classes[i] != expected[i]) {
            fail_msg("%s is in class %zd, not %zd", answers[i], (ssize_t)classes[i], (ssize_t)expected[i]);
        }
    }
    const char *reversed[N]; /* the order of the answers does not matter */
    for (size_t i = 0; i < N; i++) {
        reversed[i] = answers[N - 1 - i];
    }
    assert_int_equal(ew_answer_classes(reversed, N, AUTO, turned, NULL), EW_OK);
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++) {
            assert_int_equal(classes[i] == classes[j], turned[N - 1 - i] == turned[N - 1 - j]);
        }
    }
    const char *const letters[] = {"A", "(A)", "\\text{A}", "B", "A. because"};
    assert_int_equal(ew_answer_classes(letters, 5, EW_TASK_CHOICE, classes, NULL), EW_OK);
    assert_true(classes[0] == 0 && classes[1] == 0 && classes[2] == 0 && classes[3] == 1 && classes[4] == 0);
    assert_int_equal(ew_answer_classes(NULL, 0, AUTO, NULL, NULL), EW_OK);
    assert_int_equal(ew_answer_classes(letters, 5000, AUTO, classes, NULL), EW_ERROR_ARGUMENT);
}

static void test_final_answer(void **state) {
    (void)state;
    char *answer;
    assert_int_equal(ew_final_answer("<think>4</think>It is \\boxed{\\frac12}.", AUTO, &answer, NULL), EW_OK);
    assert_string_equal(answer, "\\frac12");
    free(answer);
    assert_int_equal(ew_final_answer("Nobody can tell that.", AUTO, &answer, NULL), EW_OK);
    assert_null(answer);
    assert_int_equal(ew_final_answer(NULL, AUTO, &answer, NULL), EW_ERROR_ARGUMENT);
}

/* ---- The evaluation sets ---- */

static int not_right(const char *id, const char *what, const char *text, const char *gold, bool bare) {
    ew_grade_options options = {.size = sizeof options, .bare = bare};
    ew_grade_result result;
    assert_int_equal(ew_grade_with(text, gold, &options, &result, NULL), EW_OK);
    int bad = result.verdict != RIGHT;
    if (bad) {
        print_message("%s %s: gold %s, answer %s\n", id, what, gold, result.answer ? result.answer : "(none)");
    }
    ew_grade_result_free(&result);
    return bad;
}

static int golds_of(const char *path) {
    FILE *file = fopen(path, "r");
    json_t *line;
    int bad = 0, n = 0;
    assert_non_null(file);
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        const char *gold = json_string_value(json_object_get(line, "answer")),
                   *id = json_string_value(json_object_get(line, "id"));
        const char *solution = json_string_value(json_object_get(line, "solution"));
        char boxed[4096];
        assert_true(gold && id);
        bad += not_right(id, "itself", gold, gold, true);
        snprintf(boxed, sizeof boxed, "Therefore it is $\\boxed{%s}$.", gold);
        bad += not_right(id, "in a box", boxed, gold, false);
        if (solution && strstr(solution, "\\boxed")) {
            bad += not_right(id, "worked solution", solution, gold, false);
        }
        json_decref(line);
        n++;
    }
    fclose(file);
    assert_true(n > 0);
    return bad;
}

static void test_golds(void **state) {
    static const char *const files[] = {"math500", "aime24", "aime25", "amc23", "gsm8k-test", "svamp"};
    int bad = 0;
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[64], path[4096];
        snprintf(name, sizeof name, "data/%s.jsonl", files[i]);
        if (ew_test_shared(name, path, sizeof path)) {
            bad += golds_of(path);
        }
    }
    assert_int_equal(bad, 0);
}

/* Gradings in several threads at once give what one gives (and ThreadSanitizer watches). */
static void *grade_many(void *sum) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ew_grade_result result;
        if (ew_grade(cases[i].reply, cases[i].gold, cases[i].task, &result, NULL) == EW_OK) {
            *(size_t *)sum += (size_t)result.verdict * (i + 1);
            ew_grade_result_free(&result);
        }
    }
    return NULL;
}

static void test_threads(void **state) {
    pthread_t threads[4];
    size_t sums[5] = {0};
    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, grade_many, &sums[i]), 0);
    }
    grade_many(&sums[4]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(sums[i], sums[4]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies), cmocka_unit_test(test_normal_forms), cmocka_unit_test(test_options),
        cmocka_unit_test(test_classes), cmocka_unit_test(test_final_answer), cmocka_unit_test(test_golds),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
