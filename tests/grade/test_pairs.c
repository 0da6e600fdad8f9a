/* The table of tests/data/grade/pairs.txt: answers that say the same and answers that do not, in equal parts.
 */
#include "edgewise.h"
#include "support.h"

enum { LEAST_PAIRS = 400 };

typedef enum section { NO_SECTION, RIGHT, RIGHT_ONE_WAY, WRONG } section;

static ew_verdict verdict_of(const char *answer, const char *gold) {
    ew_grade_options options = {.size = sizeof options, .bare = true};
    ew_grade_result result;
    ew_error error = {0};
    if (ew_grade_with(answer, gold, &options, &result, &error) != EW_OK) {
        fail_msg("%s", error.message);
    }
    ew_verdict verdict = result.verdict;
    ew_grade_result_free(&result);
    return verdict;
}

/* 1 and a line when the verdict is not as it should be. */
static int disagrees(const char *answer, const char *gold, bool right) {
    bool is_right = verdict_of(answer, gold) == EW_VERDICT_RIGHT;
    if (is_right != right) {
        print_message("%s ;; %s is graded %s\n", answer, gold, is_right ? "right" : "wrong");
    }
    return is_right != right;
}

static section section_named(const char *line) {
    return strcmp(line, "[right]") == 0           ? RIGHT
           : strcmp(line, "[right one way]") == 0 ? RIGHT_ONE_WAY
           : strcmp(line, "[wrong]") == 0         ? WRONG
                                                  : NO_SECTION;
}

static void test_table(void **state) {
    char path[4096], line[4096];
    (void)state;
    if (!ew_test_find("EDGEWISE_TEST_DATA", "grade/pairs.txt", path, sizeof path)) {
        fail();
    }
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    section now = NO_SECTION;
    int pairs[2] = {0, 0}, bad = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *border = strstr(line, " ;; ");
        if (section_named(line) != NO_SECTION) {
            now = section_named(line);
        } else if (line[0] != '#' && border) {
            *border = 0;
            pairs[now == WRONG]++;
            bad += disagrees(line, border + 4, now != WRONG);
            bad += now != RIGHT_ONE_WAY && disagrees(border + 4, line, now != WRONG);
        }
    }
    fclose(file);
    print_message("%d right and %d wrong pairs\n", pairs[0], pairs[1]);
    assert_int_equal(bad, 0);
    assert_true(pairs[0] + pairs[1] >= LEAST_PAIRS && pairs[0] * 4 < pairs[1] * 5 &&
                pairs[1] * 4 < pairs[0] * 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
