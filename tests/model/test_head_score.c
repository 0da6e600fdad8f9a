/* Pooling and heads against goldens/heads. */
#include "golden.h"
#include "status.h"

#include "model/head_score.h"

#include <math.h>

enum { D = 16 };

static void assert_near(const float *got, const float *expected, double tolerance, size_t position) {
    for (size_t i = 0; i < D; i++) {
        if (!(fabs((double)got[i] - (double)expected[i]) <= tolerance)) {
            fail_msg("after %zu tokens channel %zu is %.9g, expected %.9g", position, i, (double)got[i],
                     (double)expected[i]);
        }
    }
}

static void test_pooling(void **state) {
    (void)state;
    json_t *root = golden_json("goldens/heads/heads.json");
    ew_safetensors *file = golden_tensors("goldens/heads/heads.safetensors");
    if (!root || !file) {
        skip();
    }
    const float *hidden = golden_floats(file, "pool.hidden", 0, 0), *s_at = golden_floats(file, "pool.s_at", 0, 0);
    const json_t *pieces = json_object_get(json_object_get(root, "pooling"), "pieces");
    float last[D] = {0};
    assert_int_equal(json_array_size(pieces), 8);
    for (size_t way = 0; way < json_array_size(pieces); way++) {
        const json_t *sizes = json_array_get(pieces, way);
        ew_pooling pooling;
        size_t position = 0;
        float s[D];
        EW_ASSERT_OK(ew_pooling_open(D, 128, 0.5, &pooling, error));
        for (size_t i = 0; i < json_array_size(sizes); i++) {
            size_t n = (size_t)json_integer_value(json_array_get(sizes, i));
            EW_ASSERT_OK(ew_pooling_add(&pooling, hidden + position * D, n, error));
            position += n;
            ew_pooling_value(&pooling, s);
            assert_near(s, s_at + (position - 1) * D, 1e-5, position);
        }
        assert_int_equal(position, 300);
        if (way > 0) { /* the same bits, however the tokens came */
            assert_memory_equal(s, last, sizeof s);
        }
        memcpy(last, s, sizeof s);
        ew_pooling_free(&pooling);
    }
    ew_safetensors_close(file);
    json_decref(root);
}

/* Going back to a border and on again gives the same bits. */
static void test_rewind(void **state) {
    (void)state;
    ew_safetensors *file = golden_tensors("goldens/heads/heads.safetensors");
    if (!file) {
        skip();
    }
    const float *hidden = golden_floats(file, "pool.hidden", 0, 0);
    static const size_t backs[] = {0, 1, 127, 128, 129, 255, 256, 299, 300, 1000};
    ew_pooling pooling;
    float whole[D], s[D];
    EW_ASSERT_OK(ew_pooling_open(D, 128, 0.5, &pooling, error));
    EW_ASSERT_OK(ew_pooling_add(&pooling, hidden, 300, error));
    ew_pooling_value(&pooling, whole);
    for (size_t i = 0; i < sizeof backs / sizeof *backs; i++) {
        size_t kept = ew_pooling_rewind(&pooling, backs[i]);
        assert_int_equal(kept, backs[i] >= 300 ? 300 : backs[i] / 128 * 128);
        EW_ASSERT_OK(ew_pooling_add(&pooling, hidden + kept * D, 300 - kept, error));
        ew_pooling_value(&pooling, s);
        assert_memory_equal(s, whole, sizeof s);
    }
    ew_pooling_rewind(&pooling, 0);
    ew_pooling_value(&pooling, s);
    for (size_t i = 0; i < D; i++) {
        assert_true(s[i] == 0.0f);
    }
    ew_pooling_free(&pooling);
    ew_safetensors_close(file);
}

static const json_t *case_named(const json_t *root, const char *name) {
    const json_t *cases = json_object_get(json_object_get(root, "heads"), "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        if (strcmp(json_string_value(json_object_get(json_array_get(cases, i), "name")), name) == 0) {
            return json_array_get(cases, i);
        }
    }
    fail_msg("no case %s", name);
    return NULL;
}

static void assert_logits(const ew_head *head, const float *x, const json_t *expected, double tolerance) {
    for (size_t n = 0; n < json_array_size(expected); n++) {
        double p, logit, golden = json_real_value(json_array_get(expected, n));
        EW_ASSERT_OK(ew_head_score(head, x + n * D, &p, &logit, error));
        assert_true(fabs(logit - golden) <= tolerance);
        assert_true(fabs(p - 1.0 / (1.0 + exp(-logit))) <= 1e-12);
    }
}

static void test_logits(void **state) {
    (void)state;
    json_t *root = golden_json("goldens/heads/heads.json");
    ew_safetensors *file = golden_tensors("goldens/heads/heads.safetensors");
    if (!root || !file) {
        skip();
    }
    const float *x = golden_floats(file, "head.x", 0, 0);
    ew_head head;
    EW_ASSERT_OK(ew_head_allocate(EW_HEAD_SWITCHER, D, 8, &head, error));
    for (size_t i = 0; i < D; i++) {
        head.inverse_std[i] = 1.0f;
    }
    memcpy(head.hidden_weight, golden_floats(file, "mlp.fc1.weight", 0, 0), 8 * D * sizeof(float));
    memcpy(head.hidden_bias, golden_floats(file, "mlp.fc1.bias", 0, 0), 8 * sizeof(float));
    memcpy(head.output_weight, golden_floats(file, "mlp.fc2.weight", 0, 0), 8 * sizeof(float));
    head.output_bias = (double)golden_floats(file, "mlp.fc2.bias", 0, 0)[0];
    assert_logits(&head, x, json_object_get(case_named(root, "mlp.none.count"), "logits"), 1e-6);
    /* The same states moved and stretched, and a head that undoes it. */
    float moved[12 * D];
    for (size_t i = 0; i < 12 * D; i++) {
        moved[i] = x[i] * 4.0f + 2.0f;
    }
    for (size_t i = 0; i < D; i++) {
        head.inverse_std[i] = 0.25f;
        head.mean[i] = 2.0f;
    }
    assert_logits(&head, moved, json_object_get(case_named(root, "mlp.none.count"), "logits"), 1e-5);
    moved[3] = NAN;
    double p;
    ew_error error;
    assert_int_equal(ew_head_score(&head, moved, &p, NULL, &error), EW_ERROR_NUMERIC);
    ew_head_free(&head);

    /* The verifier has eight bits: as near as they allow. */
    const float *weight = golden_floats(file, "linear.weight", 0, 0);
    EW_ASSERT_OK(ew_head_allocate(EW_HEAD_VERIFIER, D, 0, &head, error));
    float most = 0.0f;
    for (size_t i = 0; i < D; i++) {
        head.inverse_std[i] = 1.0f;
        most = fmaxf(most, fabsf(weight[i]));
    }
    head.code_scale = (double)most / 127.0;
    for (size_t i = 0; i < D; i++) {
        head.codes[i] = (int8_t)nearbyint((double)weight[i] / head.code_scale);
    }
    head.output_bias = (double)golden_floats(file, "linear.bias", 0, 0)[0];
    assert_logits(&head, x, json_object_get(case_named(root, "linear.none.count"), "logits"), 0.05);
    const float zeros[D] = {0};
    EW_ASSERT_OK(ew_head_score(&head, zeros, &p, NULL, error));
    assert_true(fabs(p - 1.0 / (1.0 + exp(-head.output_bias))) < 1e-12);
    ew_head_free(&head);
    ew_safetensors_close(file);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pooling), cmocka_unit_test(test_rewind),
                                       cmocka_unit_test(test_logits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
