/* Losses, gradients and steps of heads, and measures, against goldens/heads; heads fitted to made-up states. */
#include "golden.h"
#include "status.h"

#include "base/random.h"
#include "base/statistics.h"
#include "model/head_score.h"
#include "train/head_fit.h"
#include "train/optimizer.h"

#include <math.h>

enum { D = 16, HIDDEN = 8, N = 12 };

typedef struct golden_files {
    json_t *root;
    ew_safetensors *file;
} golden_files;

/* ---- Losses, gradients, steps ---- */

static const char *golden_name(const char *parameter, bool linear) {
    if (linear) {
        return strcmp(parameter, "output.weight") == 0 ? "weight" : "bias";
    }
    static const char *const names[][2] = {{"hidden.weight", "fc1.weight"},
                                           {"hidden.bias", "fc1.bias"},
                                           {"output.weight", "fc2.weight"},
                                           {"output.bias", "fc2.bias"}};
    for (size_t i = 0; i < 4; i++) {
        if (strcmp(names[i][0], parameter) == 0) {
            return names[i][1];
        }
    }
    return "";
}

/* Compares all parameters' values in a vector with PREFIX.NAME. */
static void assert_values(const golden_files *g, const ew_parameters *p, const real *values, const char *prefix,
                          bool linear, double tolerance) {
    for (size_t i = 0; i < p->n_items; i++) {
        const ew_parameter *item = &p->items[i];
        const ew_safetensors_tensor *tensor = golden_tensor(g->file, "%s.%s", prefix, golden_name(item->name, linear));
        const float *expected = (const float *)(const void *)tensor->data;
        for (size_t k = 0; k < item->rows * item->cols; k++) {
            double off = fabs((double)values[item->at + k] - (double)expected[k]);
            if (!(off <= tolerance)) {
                fail_msg("%s.%s[%zu] is off by %g", prefix, item->name, k, off);
            }
        }
    }
}

static void begin_at_golden(const golden_files *g, ew_parameters *p, bool linear) {
    for (size_t i = 0; i < p->n_items; i++) {
        const ew_parameter *item = &p->items[i];
        const ew_safetensors_tensor *tensor =
            golden_tensor(g->file, "%s.%s", linear ? "linear" : "mlp", golden_name(item->name, linear));
        const float *values = (const float *)(const void *)tensor->data;
        for (size_t k = 0; k < item->rows * item->cols; k++) {
            p->values[item->at + k] = values[k];
        }
    }
}

static void run_case(const golden_files *g, const json_t *one) {
    const char *name = json_string_value(json_object_get(one, "name"));
    bool linear = strncmp(name, "linear", 6) == 0, pos3 = strstr(name, "pos3") != NULL;
    const json_t *losses = json_object_get(one, "losses_before_step_1_to_5_and_after");
    const uint8_t *y = golden_tensor(g->file, "head.y")->data;
    double weight[N], sum = 0.0, loss, norm, logits[N];
    ew_parameters p;
    ew_adamw optimizer = EW_ADAMW_INIT;
    char prefix[80];
    EW_ASSERT_OK(ew_head_parameters(linear ? EW_HEAD_VERIFIER : EW_HEAD_SWITCHER, D, HIDDEN, &p, error));
    begin_at_golden(g, &p, linear);
    for (size_t i = 0; i < N; i++) { /* six of twelve are 1: balanced weights are 1 */
        weight[i] = pos3 && y[i] ? 3.0 : 1.0;
        sum += weight[i];
    }
    const ew_head_batch batch = {.n = N,
                                 .d_model = D,
                                 .z = golden_floats(g->file, "head.x", 0, 0),
                                 .y = y,
                                 .weight = weight,
                                 .divisor = strstr(name, "weight_sum") ? sum : N};
    optimizer.weight_decay = 0.01;
    optimizer.clip = 0.0;
    EW_ASSERT_OK(ew_adamw_open(&optimizer, &p, error));
    real *gradient = calloc(p.total, sizeof *gradient);
    for (size_t step = 0; step <= 5; step++) {
        EW_ASSERT_OK(ew_head_loss(&p, &batch, &loss, gradient, logits, error));
        assert_true(fabs(loss - json_real_value(json_array_get(losses, step))) <= 1e-6);
        if (step == 0) {
            snprintf(prefix, sizeof prefix, "%s.grad", name);
            assert_values(g, &p, gradient, prefix, linear, 1e-6);
            for (size_t i = 0; i < N; i++) {
                assert_true(fabs(logits[i] - json_real_value(json_array_get(json_object_get(one, "logits"), i))) <=
                            1e-6);
            }
        } else if (step == 1 || step == 5) {
            snprintf(prefix, sizeof prefix, "%s.step%zu", name, step);
            assert_values(g, &p, p.values, prefix, linear, 1e-5);
        }
        if (step < 5) {
            EW_ASSERT_OK(ew_adamw_step(&optimizer, &p, gradient, 0.01, NULL, &norm, error));
        }
    }
    free(gradient);
    ew_adamw_close(&optimizer);
    ew_parameters_free(&p);
}

static void test_goldens(void **state) {
    (void)state;
    golden_files g = {golden_json("goldens/heads/heads.json"), golden_tensors("goldens/heads/heads.safetensors")};
    if (!g.root || !g.file) {
        skip();
    }
    const json_t *cases = json_object_get(json_object_get(g.root, "heads"), "cases");
    assert_int_equal(json_array_size(cases), 8);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        run_case(&g, json_array_get(cases, i));
    }
    const json_t *extremes = json_object_get(json_object_get(g.root, "heads"), "bce_extremes");
    for (size_t i = 0; i < json_array_size(extremes); i++) {
        const json_t *one = json_array_get(extremes, i);
        const ew_judged sample = {0, json_real_value(json_object_get(one, "logit")),
                                  json_integer_value(json_object_get(one, "y")) == 1};
        double expected = json_real_value(json_object_get(one, "bce")), got = ew_log_loss(&sample, 1, 1.0, 0.0);
        assert_true(fabs(got - expected) <= 1e-6 * fmax(fabs(expected), 1e-30));
    }
    ew_safetensors_close(g.file);
    json_decref(g.root);
}

/* A gradient with dropout against differences of the loss. */
static void test_dropout_gradient(void **state) {
    (void)state;
    ew_parameters p;
    float z[4 * D], kept[4 * HIDDEN];
    const uint8_t y[4] = {1, 0, 1, 1};
    const double weight[4] = {0.5, 2.0, 0.5, 1.0};
    EW_ASSERT_OK(ew_head_parameters(EW_HEAD_SWITCHER, D, HIDDEN, &p, error));
    for (size_t i = 0; i < p.total; i++) {
        p.values[i] = (real)(ew_random_unit(1, 0, i) - 0.5);
    }
    for (size_t i = 0; i < 4 * D; i++) {
        z[i] = (float)(2.0 * ew_random_unit(2, 0, i) - 1.0);
    }
    for (size_t i = 0; i < 4 * HIDDEN; i++) {
        kept[i] = i % 3 == 0 ? 0.0f : 1.25f;
    }
    const ew_head_batch batch = {.n = 4, .d_model = D, .z = z, .y = y, .weight = weight, .divisor = 4.0, .kept = kept};
    real *gradient = calloc(p.total, sizeof *gradient);
    double loss, more, less;
    EW_ASSERT_OK(ew_head_loss(&p, &batch, &loss, gradient, NULL, error));
    for (size_t i = 0; i < p.n_items; i++) {
        size_t at = p.items[i].at + (p.items[i].rows * p.items[i].cols) / 2;
        real value = p.values[at];
        p.values[at] = value + (real)1e-2;
        EW_ASSERT_OK(ew_head_loss(&p, &batch, &more, NULL, NULL, error));
        p.values[at] = value - (real)1e-2;
        EW_ASSERT_OK(ew_head_loss(&p, &batch, &less, NULL, NULL, error));
        p.values[at] = value;
        assert_true(fabs((more - less) / 2e-2 - (double)gradient[at]) <= 1e-4);
    }
    free(gradient);
    ew_parameters_free(&p);
}

/* ---- Measures ---- */

static size_t read_judged(const json_t *set, const char *scores, ew_judged *out) {
    const json_t *problem = json_object_get(set, "problem"), *label = json_object_get(set, "label");
    size_t n = json_array_size(label);
    for (size_t i = 0; i < n; i++) {
        out[i] = (ew_judged){(size_t)json_integer_value(json_array_get(problem, i)),
                             json_number_value(json_array_get(json_object_get(set, scores), i)),
                             json_integer_value(json_array_get(label, i)) == 1};
    }
    return n;
}

#define ASSERT_GOLDEN(value, object, key)                                                                              \
    assert_true(fabs((value)-json_number_value(json_object_get(object, key))) <= 1e-9)

static void test_measures(void **state) {
    (void)state;
    json_t *root = golden_json("goldens/heads/measures.json");
    if (!root) {
        skip();
    }
    const json_t *sets = json_object_get(json_object_get(root, "ranking"), "sets");
    for (size_t i = 0; i < json_array_size(sets); i++) {
        const json_t *set = json_array_get(sets, i), *calibration = json_object_get(set, "calibration");
        ew_judged samples[128];
        double auc, a, b;
        ew_auc_within within;
        size_t n = read_judged(set, "score", samples);
        EW_ASSERT_OK(ew_auc(samples, n, &auc, error));
        EW_ASSERT_OK(ew_auc_by_problem(samples, n, &within, error));
        ASSERT_GOLDEN(auc, set, "auc");
        ASSERT_GOLDEN(within.mean, set, "auc_within_mean_over_problems");
        ASSERT_GOLDEN(within.pair_weighted, set, "auc_within_pair_weighted");
        assert_true(within.low <= within.mean && within.mean <= within.high);
        ASSERT_GOLDEN(ew_calibration_error(samples, n), set, "ece10");
        if (calibration && json_object_get(set, "logit")) {
            read_judged(set, "logit", samples);
            ASSERT_GOLDEN(ew_log_loss(samples, n, 1.0, 0.0), calibration, "nll_before");
            ew_calibrate(samples, n, &a, &b);
            ASSERT_GOLDEN(ew_log_loss(samples, n, a, b), calibration, "nll_platt");
            assert_true(fabs(a - json_real_value(json_object_get(calibration, "platt_a"))) <= 1e-6);
            assert_true(fabs(b - json_real_value(json_object_get(calibration, "platt_b"))) <= 1e-6);
        }
    }
    const json_t *table = json_object_get(json_object_get(root, "wilson95"), "table");
    for (size_t i = 0; i < json_array_size(table); i++) {
        const json_t *row = json_array_get(table, i);
        double low, high;
        ew_wilson((size_t)json_integer_value(json_object_get(row, "k")),
                  (size_t)json_integer_value(json_object_get(row, "n")), &low, &high);
        ASSERT_GOLDEN(low, row, "low");
        ASSERT_GOLDEN(high, row, "high");
    }
    json_decref(root);
}

/* One class, separable scores, nothing at all. */
static void test_measures_at_the_ends(void **state) {
    (void)state;
    const ew_judged separable[] = {{0, -1.0, false}, {0, -2.0, false}, {1, 1.0, true}, {1, 2.0, true}};
    double auc, a, b;
    ew_auc_within within;
    EW_ASSERT_OK(ew_auc(separable, 2, &auc, error));
    assert_true(isnan(auc));
    EW_ASSERT_OK(ew_auc(separable, 4, &auc, error));
    assert_true(auc == 1.0);
    EW_ASSERT_OK(ew_auc_by_problem(separable, 4, &within, error));
    assert_true(isnan(within.mean) && within.n_problems == 0);
    ew_calibrate(separable, 4, &a, &b);
    assert_true(a > 1.0 && a <= 1000.0 && fabs(b) <= 1000.0);
    ew_calibrate(separable, 2, &a, &b);
    assert_true(a == 1.0 && b == 0.0);
    EW_ASSERT_OK(ew_auc(separable, 0, &auc, error));
    assert_true(isnan(auc));
}

/* ---- Fitting ---- */

/* Six samples a problem: a state that tells, buried in others, with channels of very different sizes. */
static void make_samples(ew_head_samples *samples, size_t n_problems, double strength) {
    *samples = (ew_head_samples){.d_model = D};
    for (size_t p = 0; p < n_problems; p++) {
        for (size_t k = 0; k < 6; k++) {
            float x[D];
            bool y = ew_random_bits(5, p, k) & 1;
            for (size_t c = 0; c < D; c++) {
                double noise = 2.0 * ew_random_unit(6, p, k * D + c) - 1.0;
                double told = c < 4 ? strength * (y ? 1.0 : -1.0) : 0.0;
                x[c] = (float)((told + noise) * (c % 2 ? 100.0 : 1.0) + 7.0);
            }
            char name[16];
            int length = snprintf(name, sizeof name, "p%zu", p);
            EW_ASSERT_OK(ew_head_samples_add(samples, x, y, ew_hash_problem(name, (size_t)length), 10, error));
        }
    }
}

static void fit(ew_head_kind kind, double strength, double least_auc, double most_auc) {
    ew_head_samples samples;
    ew_head_fit_options options = EW_HEAD_FIT_INIT;
    ew_head head, again;
    ew_head_report report, same;
    options.n_epochs = getenv("EDGEWISE_TEST_QUICK") ? 10 : 20;
    options.rate = 1e-2;
    make_samples(&samples, 150, strength);
    EW_ASSERT_OK(ew_head_fit(kind, &samples, &options, &head, &report, error));
    if (!(report.auc >= least_auc && report.auc <= most_auc && report.within.mean >= least_auc - 0.05)) {
        fail_msg("AUC %g, within problems %g", report.auc, report.within.mean);
    }
    assert_int_equal(report.n_train + report.n_validation + report.n_test, samples.n);
    assert_true(report.n_test % 6 == 0 && report.n_validation % 6 == 0); /* problems stay whole */
    assert_true(fabs(report.length_auc - 0.5) < 1e-12);
    assert_true(report.calibration_error < 0.2);
    EW_ASSERT_OK(ew_head_fit(kind, &samples, &options, &again, &same, error)); /* the same again, to the bit */
    assert_memory_equal(head.mean, again.mean, D * sizeof *head.mean);
    assert_true(head.output_bias == again.output_bias && head.calibration_scale == again.calibration_scale);
    ew_head_report_free(&report);
    ew_head_report_free(&same);
    ew_head_free(&head);
    ew_head_free(&again);
    ew_head_samples_free(&samples);
}

/* Test samples that stand apart are the test part, and must have problems of their own. */
static void test_apart(void **state) {
    (void)state;
    ew_head_samples samples, more;
    ew_head_fit_options options = EW_HEAD_FIT_INIT;
    ew_head head;
    ew_head_report report;
    ew_error reason;
    options.n_epochs = 3;
    make_samples(&samples, 60, 0.6);
    make_samples(&more, 20, 0.6);
    for (size_t i = 0; i < more.n; i++) {
        more.problem[i] += 1;
    }
    EW_ASSERT_OK(ew_head_samples_add_test(&samples, &more, error));
    assert_int_equal(more.n, 0);
    EW_ASSERT_OK(ew_head_fit(EW_HEAD_VERIFIER, &samples, &options, &head, &report, error));
    assert_int_equal(report.n_test, 20 * 6);
    assert_int_equal(report.n_train + report.n_validation, 60 * 6);
    assert_true(report.n_validation > 0 && report.n_validation < 60 * 2);
    ew_head_report_free(&report);
    ew_head_free(&head);
    samples.problem[samples.n - 1] = samples.problem[0];
    assert_int_equal(ew_head_fit(EW_HEAD_VERIFIER, &samples, &options, &head, &report, &reason), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(reason.message, "6 of the samples"));
    ew_head_report_free(&report);
    ew_head_free(&head);
    ew_head_samples_free(&samples);
}

static void test_fit(void **state) {
    (void)state;
    fit(EW_HEAD_SWITCHER, 0.6, 0.95, 1.0);
    fit(EW_HEAD_VERIFIER, 0.6, 0.95, 1.0);
    fit(EW_HEAD_VERIFIER, 0.0, 0.3, 0.7); /* nothing to be learned */
}

static void test_refusals(void **state) {
    (void)state;
    ew_head_samples samples = {.d_model = D};
    ew_head_fit_options options = EW_HEAD_FIT_INIT;
    ew_head head;
    ew_head_report report;
    ew_error error;
    const float x[D] = {0};
    for (size_t i = 0; i < 100; i++) {
        EW_ASSERT_OK(ew_head_samples_add(&samples, x, true, ew_random_mix(i), 1, error));
    }
    assert_int_equal(ew_head_fit(EW_HEAD_SWITCHER, &samples, &options, &head, &report, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "both labels"));
    ew_head_free(&head);
    options.dropout = 1.0;
    assert_int_equal(ew_head_fit(EW_HEAD_SWITCHER, &samples, &options, &head, &report, &error), EW_ERROR_ARGUMENT);
    ew_head_free(&head);
    ew_head_samples_free(&samples);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goldens),  cmocka_unit_test(test_dropout_gradient),
                                       cmocka_unit_test(test_measures), cmocka_unit_test(test_measures_at_the_ends),
                                       cmocka_unit_test(test_fit),      cmocka_unit_test(test_apart),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
