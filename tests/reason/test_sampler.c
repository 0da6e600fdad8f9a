/* Truncation sets and log-probabilities against the goldens (when they are there), ties, penalties, draws. */
#include "support.h"

#include "base/random.h"
#include "kernel/math64.h"
#include "reason/sampler.h"

#include <jansson.h>
#include <math.h>

static ew_sampling rule_of(float temperature, uint32_t top_k, float top_p, float min_p) {
    ew_sampling rule = EW_SAMPLING_INIT;
    rule.temperature = temperature;
    rule.top_k = top_k;
    rule.top_p = top_p;
    rule.min_p = min_p;
    return rule;
}

static float read_logit(const json_t *value) {
    return json_is_string(value) ? -INFINITY : (float)json_number_value(value);
}

static void check_set(const float *logits, size_t n, double temperature, const json_t *set) {
    ew_sampling rule = rule_of((float)temperature, (uint32_t)json_integer_value(json_object_get(set, "top_k")),
                               (float)json_number_value(json_object_get(set, "top_p")),
                               (float)json_number_value(json_object_get(set, "min_p")));
    ew_sampler sampler;
    ew_error error;
    assert_int_equal(ew_sampler_open(&rule, n, &sampler, &error), EW_OK);
    assert_int_equal(ew_sampler_candidates(&sampler, logits, &error), EW_OK);
    const json_t *keep = json_object_get(set, "keep"), *p = json_object_get(set, "p");
    if (!json_is_true(json_object_get(set, "on_a_border"))) {
        assert_int_equal(sampler.n_kept, json_array_size(keep));
        for (size_t i = 0; i < sampler.n_kept; i++) {
            assert_int_equal(sampler.order[i], json_integer_value(json_array_get(keep, i)));
            assert_true(fabs(sampler.probability[i] - json_number_value(json_array_get(p, i))) < 1e-6);
        }
    }
    ew_sampler_free(&sampler);
}

static void check_log_softmax(const float *logits, size_t n, double temperature, const json_t *wanted) {
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(wanted, i);
        double got = ew_log_probability(logits, n, (float)temperature, (int32_t)i);
        if (json_is_string(value)) {
            assert_true(isinf(got));
        } else if (fabs(json_number_value(value)) < 3e38) {
            assert_true(fabs(got - json_number_value(value)) <= 1e-6 * fmax(1, fabs(got)));
        }
    }
}

static void sets_equal_the_goldens(void **state) {
    (void)state;
    char path[1024];
    if (!ew_test_shared("goldens/grpo/sampling.json", path, sizeof path)) {
        skip();
    }
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    size_t index, t, s, n_sets = 0;
    json_t *vector, *at, *set;
    json_array_foreach(json_object_get(root, "vectors"), index, vector) {
        float logits[512];
        const json_t *values = json_object_get(vector, "logits");
        size_t n = json_array_size(values);
        assert_true(n <= 512);
        for (size_t i = 0; i < n; i++) {
            logits[i] = read_logit(json_array_get(values, i));
        }
        json_array_foreach(json_object_get(vector, "temperatures"), t, at) {
            double temperature = json_number_value(json_object_get(at, "T"));
            check_log_softmax(logits, n, temperature, json_object_get(at, "log_softmax"));
            json_array_foreach(json_object_get(at, "sets"), s, set) {
                check_set(logits, n, temperature, set);
                n_sets++;
            }
        }
    }
    assert_true(n_sets > 500);
    json_decref(root);
}

static void greedy_takes_the_smaller_id_of_equals(void **state) {
    (void)state;
    const float logits[] = {1, 3, 2, 3};
    ew_sampling rule = EW_SAMPLING_INIT;
    ew_sampler sampler;
    int32_t token;
    assert_int_equal(ew_sampler_open(&rule, 4, &sampler, NULL), EW_OK);
    assert_int_equal(ew_sampler_draw(&sampler, logits, 0, 0, &token, NULL), EW_OK);
    assert_int_equal(token, 1);
    ew_sampler_free(&sampler);
}

static void the_penalty_lowers_what_was_seen(void **state) {
    (void)state;
    const float logits[] = {2, 3, -1};
    ew_sampling rule = rule_of(1, 0, 1, 0);
    rule.repetition_penalty = 2;
    ew_sampler sampler;
    assert_int_equal(ew_sampler_open(&rule, 3, &sampler, NULL), EW_OK);
    ew_sampler_see(&sampler, 1);
    ew_sampler_see(&sampler, 2);
    ew_sampler_see(&sampler, -7);
    ew_sampler_see(&sampler, 99);
    assert_int_equal(ew_sampler_candidates(&sampler, logits, NULL), EW_OK);
    assert_true(sampler.logits[0] == 2 && sampler.logits[1] == 1.5f && sampler.logits[2] == -2);
    assert_int_equal(sampler.order[0], 0);
    ew_sampler_free(&sampler);
}

/* Both ways of drawing follow the softmax: within five standard deviations over 20,000 draws. */
static void draws_follow_the_probabilities(void **state) {
    (void)state;
    enum { DRAWS = 20000 };
    const float logits[] = {0.0f, 1.0f, -INFINITY, 2.0f, 0.5f};
    double sum = 0;
    for (int i = 0; i < 5; i++) {
        sum += exp((double)logits[i]);
    }
    for (uint32_t top_k = 0; top_k <= 5; top_k += 5) {
        ew_sampling rule = rule_of(1, top_k, 1, 0);
        rule.min_p = top_k ? 1e-6f : 0.0f;
        rule.seed = 42;
        ew_sampler sampler;
        assert_int_equal(ew_sampler_open(&rule, 5, &sampler, NULL), EW_OK);
        int counts[5] = {0};
        for (int i = 0; i < DRAWS; i++) {
            int32_t token, again;
            assert_int_equal(ew_sampler_draw(&sampler, logits, 3, (uint64_t)i, &token, NULL), EW_OK);
            assert_int_equal(ew_sampler_draw(&sampler, logits, 3, (uint64_t)i, &again, NULL), EW_OK);
            assert_int_equal(token, again);
            counts[token]++;
        }
        for (int i = 0; i < 5; i++) {
            double p = exp((double)logits[i]) / sum;
            assert_true(fabs(counts[i] - DRAWS * p) <= 5 * sqrt(DRAWS * p * (1 - p)) + 1e-9);
        }
        ew_sampler_free(&sampler);
    }
}

/* Every machine's loops have the bits of the functions that define them. */
static void loops_are_what_they_stand_for(void **state) {
    (void)state;
    enum { N = 517 };
    float logits[N], penalized[N];
    uint8_t seen[N];
    const ew_weigh_table *tables[3];
    size_t n_tables = ew_weigh_all(tables);
    for (size_t i = 0; i < N; i++) {
        logits[i] = (float)(ew_random_unit(1, 2, i) * (i % 7 == 0 ? 2000.0 : 30.0) - 40.0);
        seen[i] = i % 3 == 0;
    }
    logits[5] = logits[9];
    logits[100] = -INFINITY;
    for (size_t t = 0; t < n_tables; t++) {
        double weights[N];
        uint16_t buckets[N];
        bool sound;
        float largest = tables[t]->largest(logits, N, &sound), most = -INFINITY;
        for (size_t i = 0; i < N; i++) {
            most = fmaxf(most, logits[i]);
        }
        assert_true(sound && largest == most);
        tables[t]->weigh(logits, N, largest, 0.7f, weights, buckets);
        tables[t]->penalize(logits, seen, N, 1.3f, penalized);
        for (size_t i = 0; i < N; i++) {
            double x = ((double)logits[i] - (double)largest) * (1.0 / (double)0.7f);
            float less = logits[i] > 0 ? logits[i] / 1.3f : logits[i] * 1.3f;
            assert_true(weights[i] == ew_exp64(x));
            assert_int_equal(buckets[i], x <= -64 ? EW_WEIGH_BUCKETS - 1 : (int)(-64 * x));
            assert_true(penalized[i] == (seen[i] ? less : logits[i]));
        }
        double tail = 0;
        bool any;
        for (size_t i = 0; i < N; i++) {
            tail += logits[i] < largest - 3 ? exp(((double)logits[i] - (double)largest) / 13.0) : 0;
        }
        assert_true(fabs(tables[t]->tail(logits, N, largest, 13.0f, largest - 3, &any) - tail) <= 5e-5 * tail);
        assert_true(any);
        tables[t]->tail(logits, N, largest, 13.0f, nextafterf(largest, INFINITY), &any);
        assert_false(any);
        assert_true(tables[t]->any_within(logits, N, largest, largest));
        assert_false(tables[t]->any_within(logits, N, nextafterf(largest, INFINITY), INFINITY));
        for (size_t i = 0; i < N; i += 103) { /* in a vector, and in the rest */
            const float bad[] = {NAN, INFINITY, -NAN};
            for (int k = 0; k < 3; k++) {
                float kept = logits[i];
                logits[i] = bad[k];
                tables[t]->largest(logits, N, &sound);
                assert_false(sound);
                logits[i] = kept;
            }
        }
    }
}

/* The token that the sorted candidates give; SIZE_MAX where u stands on a border of two, up to rounding. */
static size_t token_by_candidates(const ew_sampler *sampler, double u) {
    double sum = 0;
    for (size_t i = 0; i < sampler->n_kept; i++) {
        sum += sampler->probability[i];
        if (fabs(u - sum) < 1e-11) {
            return SIZE_MAX;
        }
        if (u < sum) {
            return (size_t)sampler->order[i];
        }
    }
    return SIZE_MAX;
}

/* Flat, peaked, mostly alike, nearly all impossible, far apart. */
static float made_up_logit(int kind, size_t i, size_t n) {
    double x = ew_random_unit(7, (uint64_t)kind, i);
    switch (kind) {
    case 0:
        return (float)x;
    case 1:
        return (float)(5 * x + (i % 97 == 0 ? 12 + 3 * x : 0));
    case 2:
        return i % 50 == 0 ? 1.5f : 1.0f;
    case 3:
        return i + 3 < n ? -INFINITY : (float)x;
    default:
        return (float)(3000 * x);
    }
}

/* Drawing by buckets gives the token that drawing among the sorted candidates would. */
static void draws_by_buckets_are_those_of_the_order(void **state) {
    (void)state;
    enum { N = 2111, DRAWS = 40 };
    static float logits[N];
    static const struct {
        float temperature, top_p, min_p;
    } rules[] = {{1, 1, 0},       {0.7f, 0.95f, 0}, {0.7f, 0.5f, 0}, {1.5f, 1, 0.02f},
                 {1, 0.9f, 0.3f}, {100, 0.99f, 0},  {1, 0, 0}};
    size_t n_compared = 0;
    for (int kind = 0; kind < 5; kind++) {
        for (size_t i = 0; i < N; i++) {
            logits[i] = made_up_logit(kind, i, N);
        }
        for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
            ew_sampling rule = rule_of(rules[r].temperature, 0, rules[r].top_p, rules[r].min_p);
            ew_sampler sampler, sorted;
            assert_int_equal(ew_sampler_open(&rule, N, &sampler, NULL), EW_OK);
            assert_int_equal(ew_sampler_open(&rule, N, &sorted, NULL), EW_OK);
            assert_int_equal(ew_sampler_candidates(&sorted, logits, NULL), EW_OK);
            for (uint64_t i = 0; i < DRAWS; i++) {
                int32_t token;
                assert_int_equal(ew_sampler_draw(&sampler, logits, 1, i, &token, NULL), EW_OK);
                size_t wanted = token_by_candidates(&sorted, ew_random_unit(0, 1, i));
                assert_true(wanted == SIZE_MAX || wanted == (size_t)token);
                n_compared += wanted != SIZE_MAX;
            }
            ew_sampler_free(&sampler);
            ew_sampler_free(&sorted);
        }
    }
    assert_true(n_compared > 5 * 7 * DRAWS * 9 / 10);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    ew_error error;
    ew_sampler sampler;
    ew_sampling rule = rule_of(NAN, 0, 1, 0);
    assert_int_equal(ew_sampler_open(&rule, 4, &sampler, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "temperature"));
    rule = rule_of(1, 0, 1.5f, 0);
    assert_int_equal(ew_sampler_open(&rule, 4, &sampler, &error), EW_ERROR_ARGUMENT);
    rule = rule_of(1, 0, 1, 0);
    assert_int_equal(ew_sampler_open(&rule, 2, &sampler, &error), EW_OK);
    const float bad[][2] = {{NAN, 1}, {INFINITY, 1}, {-INFINITY, -INFINITY}};
    for (int i = 0; i < 3; i++) {
        int32_t token;
        assert_int_equal(ew_sampler_draw(&sampler, bad[i], 0, 0, &token, &error), EW_ERROR_NUMERIC);
    }
    ew_sampler_free(&sampler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_equal_the_goldens),           cmocka_unit_test(greedy_takes_the_smaller_id_of_equals),
        cmocka_unit_test(the_penalty_lowers_what_was_seen), cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(loops_are_what_they_stand_for),    cmocka_unit_test(draws_by_buckets_are_those_of_the_order),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
