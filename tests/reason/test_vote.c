/* Votes against the goldens, when they are decided, and loops. */
#include "golden.h"
#include "status.h"

#include "reason/loop.h"
#include "reason/vote.h"

enum { MOST = 16 };

typedef struct vote_case {
    size_t classes[MOST];
    double scores[MOST];
    size_t n;
} vote_case;

/* Classes by name: counted from 0 in order of first appearance. */
static vote_case read_case(const json_t *candidates) {
    vote_case c = {.n = json_array_size(candidates)};
    const char *names[MOST];
    size_t n_names = 0;
    assert_true(c.n <= MOST);
    for (size_t i = 0; i < c.n; i++) {
        const json_t *pair = json_array_get(candidates, i);
        const char *name = json_string_value(json_array_get(pair, 0));
        c.scores[i] = json_number_value(json_array_get(pair, 1));
        c.classes[i] = SIZE_MAX;
        for (size_t k = 0; name && k < n_names; k++) {
            c.classes[i] = strcmp(names[k], name) == 0 ? k : c.classes[i];
        }
        if (name && c.classes[i] == SIZE_MAX) {
            c.classes[i] = n_names;
            names[n_names++] = name;
        }
    }
    return c;
}

static void check_winner(const vote_case *c, ew_vote rule, const json_t *expected) {
    const ew_ballots ballots = {rule, c->classes, c->scores, c->n};
    size_t winner;
    EW_ASSERT_OK(ew_vote_count(&ballots, &winner, error));
    assert_int_equal(winner, json_is_null(expected) ? SIZE_MAX : (size_t)json_integer_value(expected));
}

static void votes_equal_the_goldens(void **state) {
    (void)state;
    char path[1024];
    if (!ew_test_shared("goldens/heads/measures.json", path, sizeof path)) {
        skip();
    }
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *cases = json_object_get(json_object_get(root, "votes"), "cases");
    assert_true(json_array_size(cases) >= 12);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *golden = json_array_get(cases, i);
        vote_case c = read_case(json_object_get(golden, "candidates"));
        check_winner(&c, EW_VOTE_WEIGHTED, json_object_get(golden, "weighted_representative"));
        check_winner(&c, EW_VOTE_MAJORITY, json_object_get(golden, "majority_representative"));
    }
    json_decref(root);
}

static size_t winner_of(ew_vote rule, const size_t *classes, const double *scores, size_t n) {
    const ew_ballots ballots = {rule, classes, scores, n};
    size_t winner;
    EW_ASSERT_OK(ew_vote_count(&ballots, &winner, error));
    return winner;
}

static void the_best_score_and_its_ties(void **state) {
    (void)state;
    const size_t classes[] = {0, 1, 1, SIZE_MAX, 2};
    const double scores[] = {0.5, 0.75, 0.25, 1.0, 0.75};
    assert_int_equal(winner_of(EW_VOTE_BEST, classes, scores, 5), 1);
    assert_int_equal(winner_of(EW_VOTE_MAJORITY, classes, scores, 5), 1);
    const double equal[5] = {0};
    assert_int_equal(winner_of(EW_VOTE_BEST, classes, equal, 5), 0);
    assert_int_equal(winner_of(EW_VOTE_BEST, classes, equal, 0), SIZE_MAX);
}

static double certainty(ew_vote rule, const size_t *classes, const double *scores, size_t n, size_t n_left) {
    const ew_ballots ballots = {rule, classes, scores, n};
    double probability;
    EW_ASSERT_OK(ew_vote_certainty(&ballots, n_left, &probability, error));
    return probability;
}

/* Certain means: whatever the missing candidates say, and whatever their scores, the winner's class is the same. */
static void a_decided_vote_cannot_change(void **state) {
    (void)state;
    uint64_t random = 1;
    size_t n_certain = 0;
    for (size_t round = 0; round < 3000; round++) {
        size_t classes[8], n = 1 + round % 6, n_left = 1 + round / 6 % 2, n_classes = 0;
        double scores[8];
        for (size_t i = 0; i < n; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t drawn = (size_t)(random >> 33) % 4;
            classes[i] = drawn < n_classes ? drawn : n_classes;
            n_classes += classes[i] == n_classes;
            scores[i] = (double)((random >> 40) % 65) / 64;
        }
        for (ew_vote rule = EW_VOTE_WEIGHTED; rule <= EW_VOTE_MAJORITY; rule++) {
            if (certainty(rule, classes, scores, n, n_left) < 1) {
                continue;
            }
            n_certain++;
            size_t before = classes[winner_of(rule, classes, scores, n)];
            for (size_t other = 0; other <= n_classes; other++) {
                for (size_t i = 0; i < n_left; i++) {
                    classes[n + i] = other;
                    scores[n + i] = 1;
                }
                assert_int_equal(classes[winner_of(rule, classes, scores, n + n_left)], before);
            }
        }
    }
    assert_true(n_certain > 500);
}

static void certainty_is_a_probability_before(void **state) {
    (void)state;
    const size_t classes[] = {0, 0, 0, 1, SIZE_MAX};
    const double scores[] = {1, 1, 1, 1, 0};
    /* P(x > 1/2) of Beta(4, 2) is 26/32, of Beta(4, 1) 15/16, of Beta(2, 1) 3/4. */
    assert_float_equal(certainty(EW_VOTE_MAJORITY, classes, scores, 4, 4), 26.0 / 32, 1e-9);
    assert_float_equal(certainty(EW_VOTE_WEIGHTED, classes, scores, 5, 4), 26.0 / 32, 1e-9);
    assert_float_equal(certainty(EW_VOTE_MAJORITY, classes, scores, 3, 4), 15.0 / 16, 1e-9);
    assert_float_equal(certainty(EW_VOTE_MAJORITY, classes, scores, 1, 4), 0.75, 1e-9);
    assert_true(certainty(EW_VOTE_MAJORITY, classes, scores, 3, 2) == 1);
    assert_true(certainty(EW_VOTE_MAJORITY, classes, scores, 4, 2) < 1); /* 3 to 1, and a tie could come */
    assert_true(certainty(EW_VOTE_MAJORITY, classes, scores, 4, 0) == 1);
    assert_true(certainty(EW_VOTE_BEST, classes, scores, 4, 1) < 1);
    assert_true(certainty(EW_VOTE_MAJORITY, classes + 4, scores + 4, 1, 2) == 0); /* nobody voted */
}

/* ---- Loops ---- */

/* Index of the token that completes the loop; SIZE_MAX: none does. */
static size_t find_loop(size_t length, size_t repeats, const int32_t *tokens, size_t n) {
    ew_loop loop = {.length = length, .repeats = repeats};
    size_t at = SIZE_MAX;
    for (size_t i = 0; i < n && at == SIZE_MAX; i++) {
        bool found;
        EW_ASSERT_OK(ew_loop_add(&loop, tokens[i], &found, error));
        at = found ? i : at;
    }
    ew_loop_free(&loop);
    return at;
}

static void loops_are_found_and_only_loops(void **state) {
    (void)state;
    enum { N = 4000 };
    static int32_t tokens[N];
    for (size_t period = 1; period <= 60; period += 7) {
        size_t stride = (24 + period - 1) / period * period; /* the next occurrence without overlap */
        for (size_t i = 0; i < N; i++) {
            tokens[i] = (int32_t)(i % period * 7);
        }
        assert_int_equal(find_loop(24, 4, tokens, N), 3 * stride + 24 - 1);
        assert_int_equal(find_loop(0, 4, tokens, N), SIZE_MAX);
    }
    for (size_t i = 0; i < N; i++) { /* a thinking that always goes on a little differently */
        tokens[i] = i % 20 == 19 ? (int32_t)(1000 + i) : (int32_t)(i % 20);
    }
    assert_int_equal(find_loop(24, 4, tokens, N), SIZE_MAX);
    assert_int_equal(find_loop(19, 4, tokens, N), 3 * 20 + 18);
    for (size_t i = 0; i < N; i++) { /* counting */
        tokens[i] = (int32_t)i;
    }
    assert_int_equal(find_loop(2, 2, tokens, N), SIZE_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_equal_the_goldens),        cmocka_unit_test(the_best_score_and_its_ties),
        cmocka_unit_test(a_decided_vote_cannot_change),   cmocka_unit_test(certainty_is_a_probability_before),
        cmocka_unit_test(loops_are_found_and_only_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
