/* The tiny recipe's problems: what the recipe promises of them. */
#include "support.h"

#include "problem.h"

#include <ctype.h>

static size_t n_problems(void) {
    return getenv("EDGEWISE_TEST_QUICK") ? 3000 : 30000;
}

static int compare_hashes(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void test_kinds(void **state) {
    (void)state;
    assert_true(tiny_n_kinds >= 40);
    for (size_t i = 0; i < tiny_n_kinds; i++) {
        const tiny_kind *kind = &tiny_kinds[i];
        for (size_t w = 0; w < 3; w++) {
            assert_non_null(kind->wordings[w]);
            for (size_t v = 0; v < w; v++) {
                assert_string_not_equal(kind->wordings[w], kind->wordings[v]);
            }
            for (const char *at = strchr(kind->wordings[w], '{'); at; at = strchr(at + 1, '{')) {
                assert_true(strchr("NFoabc", at[1]) != NULL && at[2] == '}');
            }
            bool asks = strchr(kind->wordings[w], '?') || strstr(kind->wordings[w], "in grams");
            assert_int_equal(asks, kind->place == TINY_CLOSE);
        }
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(kind->name, tiny_kinds[j].name);
        }
    }
}

/* Every equation is right, its numbers are known by then, and the last one gives the answer. */
static void check_solution(const tiny_problem *problem) {
    int known[16], n_known = 0, n_lines = 0, result = 0;
    char copy[TINY_TEXT];
    memcpy(copy, problem->solution, sizeof copy);
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n"), n_lines++) {
        int left, right, end = 0;
        char operator;
        assert_int_equal(sscanf(line, "%d%c%d=%d%n", &left, &operator, & right, &result, &end), 4);
        assert_int_equal(line[end], '\0');
        int expected = operator== '+' ? left + right :
                       operator== '-' ? left - right
                       :
                       operator== '*' ? left * right
                                      : left / right;
        assert_true(result == expected && (operator!= '/' || left % right == 0));
        assert_in_range(result, 1, TINY_LARGEST);
        const int operands[] = {left, right};
        for (size_t i = 0; i < 2; i++) {
            bool computed = false;
            for (int k = 0; k < n_known; k++) {
                computed = computed || known[k] == operands[i];
            }
            assert_true(computed || operands[i] <= TINY_LARGEST_OPERAND);
        }
        known[n_known++] = result;
    }
    assert_int_equal(n_lines, problem->n_steps);
    assert_int_equal(result, problem->answer);
}

static void check_text(const tiny_problem *problem) {
    size_t n = strlen(problem->text);
    assert_true(problem->text[n - 1] == '?' || problem->text[n - 1] == '.');
    for (const char *at = problem->text; *at; at++) {
        assert_true(isalnum((unsigned char)*at) || strchr(" .,?", *at));
    }
    assert_null(strstr(problem->text, "  "));
}

static void test_problems(void **state) {
    (void)state;
    const tiny_request train = {.seed = 5, .least_steps = 1, .most_steps = 5, .bare_percent = 10};
    size_t n = n_problems(), answers[TINY_LARGEST + 1] = {0}, n_bare = 0, steps[TINY_MOST_STEPS + 1] = {0};
    for (size_t i = 0; i < n; i++) {
        tiny_problem problem, again;
        tiny_make(&train, i, &problem);
        check_solution(&problem);
        check_text(&problem);
        assert_false(tiny_held_out(&problem));
        answers[problem.answer]++;
        steps[problem.n_steps]++;
        n_bare += problem.bare;
        if (i % 100 == 0) {
            tiny_make(&train, i, &again);
            assert_string_equal(problem.text, again.text);
            assert_string_equal(problem.solution, again.solution);
        }
    }
    for (int answer = 0; answer <= TINY_LARGEST; answer++) {
        assert_true(answers[answer] * 20 < n); /* the best constant answer is right in less than a twentieth */
    }
    for (int k = 1; k <= TINY_MOST_STEPS; k++) {
        assert_in_range(steps[k], n / 7, n / 4);
    }
    assert_in_range(n_bare, n * 8 / 100, n * 12 / 100);
}

/* Distinct by structure and numbers, and none of them in the test's tenth. */
static void test_three_steps(void **state) {
    (void)state;
    const tiny_request train = {.seed = 1, .least_steps = 3, .most_steps = 3};
    const tiny_request test = {.seed = 1, .least_steps = 3, .most_steps = 3, .test = true};
    bool quick = getenv("EDGEWISE_TEST_QUICK") != NULL;
    size_t n = quick ? 3000 : 130000, n_distinct = 0;
    uint64_t *hashes = calloc(n, sizeof *hashes);
    assert_non_null(hashes);
    tiny_problem problem;
    for (size_t i = 0; i < n; i++) {
        tiny_make(&train, i, &problem);
        hashes[i] = tiny_hash(&problem);
    }
    qsort(hashes, n, sizeof *hashes, compare_hashes);
    for (size_t i = 0; i < n; i++) {
        n_distinct += i == 0 || hashes[i] != hashes[i - 1];
    }
    assert_true(n_distinct >= (quick ? n * 9 / 10 : 100000));
    for (size_t i = 0; i < 300; i++) {
        tiny_make(&test, i, &problem);
        uint64_t hash = tiny_hash(&problem);
        assert_true(tiny_held_out(&problem));
        assert_null(bsearch(&hash, hashes, n, sizeof *hashes, compare_hashes));
    }
    free(hashes);
}

static bool has_word(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        if ((at == text || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[n])) {
            return true;
        }
    }
    return false;
}

static bool has_any(const char *text, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (has_word(text, words[i])) {
            return true;
        }
    }
    return false;
}

/* What is asked for as unseen is there, and nowhere in training. */
static void test_unseen(void **state) {
    (void)state;
    size_t n_names, n_things, n_foods, n_openings, n = n_problems() / 10;
    const char *const *names = tiny_names(true, &n_names), *const *things = tiny_objects(TINY_THINGS, true, &n_things);
    const char *const *foods = tiny_objects(TINY_FOOD, true, &n_foods), *const *openings =
                                                                            tiny_openings(true, &n_openings);
    tiny_request request = {.seed = 9, .least_steps = 1, .most_steps = 5};
    for (unsigned unseen = 0; unseen < 8; unseen++) {
        request.unseen = unseen;
        request.test = unseen != 0;
        for (size_t i = 0; i < n; i++) {
            tiny_problem problem;
            tiny_make(&request, i, &problem);
            bool objects = has_any(problem.text, things, n_things) || has_any(problem.text, foods, n_foods);
            assert_int_equal(objects, (unseen & TINY_UNSEEN_OBJECTS) != 0);
            assert_int_equal(has_any(problem.text, openings, n_openings), (unseen & TINY_UNSEEN_OPENINGS) != 0);
            if (!(unseen & TINY_UNSEEN_NAMES)) {
                assert_false(has_any(problem.text, names, n_names));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds), cmocka_unit_test(test_problems),
                                       cmocka_unit_test(test_three_steps), cmocka_unit_test(test_unseen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
