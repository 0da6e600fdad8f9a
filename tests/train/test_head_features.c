/* The states that heads are trained on are those that the run time asks them about: the same scores, to the bit. */
#include "running.h"

#include "model/adapter.h"
#include "model/head_score.h"
#include "train/head_features.h"

#include "base/random.h"

#include <unistd.h>

typedef struct fixture {
    char folder[64], data[96], head_path[96];
    ew_model *model;
    ew_session *session;
    ew_adapter *adapter;
    ew_head head;
} fixture;

static void make_head(fixture *f, ew_head_kind kind) {
    size_t d = f->model->config.d_model;
    EW_ASSERT_OK(ew_head_allocate(kind, d, kind == EW_HEAD_SWITCHER ? 8 : 0, &f->head, error));
    for (size_t i = 0; i < d; i++) {
        f->head.mean[i] = (float)(ew_random_unit(1, 0, i) - 0.5);
        f->head.inverse_std[i] = (float)ew_random_unit(2, 0, i);
        if (kind == EW_HEAD_VERIFIER) {
            f->head.codes[i] = (int8_t)(ew_random_bits(3, 0, i) % 255) - 127;
        }
    }
    for (size_t i = 0; kind == EW_HEAD_SWITCHER && i < 8 * d; i++) {
        f->head.hidden_weight[i] = (float)(ew_random_unit(4, 0, i) - 0.5);
        f->head.output_weight[i % 8] = 0.5f;
    }
    f->head.code_scale = 0.003;
    f->head.output_bias = 0.1;
    if (kind == EW_HEAD_VERIFIER) {
        f->head.text = strdup("Is it right?");
        snprintf(f->head.adapter_fingerprint, 65, "%s", f->adapter->fingerprint);
    }
    EW_ASSERT_OK(ew_head_write(f->head_path, &f->head, error));
}

static bool open_fixture(fixture *f, ew_head_kind kind) {
    char path[512], adapter[512];
    *f = (fixture){.folder = "/tmp/edgewise-features-XXXXXX"};
    if (!ew_test_shared("goldens/models/qwen2-tiny", path, sizeof path) ||
        !ew_test_shared("goldens/alora/adapters/qwen2-tiny.masked", adapter, sizeof adapter)) {
        return false;
    }
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->data, sizeof f->data, "%s/data.jsonl", f->folder);
    snprintf(f->head_path, sizeof f->head_path, "%s/head.gguf", f->folder);
    f->model = open_test_model(path, EW_WEIGHTS_AUTO, EW_KV_AUTO);
    f->session = open_test_session(f->model, 1, 16);
    EW_ASSERT_OK(ew_adapter_load(f->model, adapter, NULL, &f->adapter, error));
    make_head(f, kind);
    return true;
}

static void close_fixture(fixture *f) {
    ew_head_free(&f->head);
    ew_adapter_unload(f->adapter);
    ew_session_close(f->session);
    ew_model_close(f->model);
    remove(f->data);
    remove(f->head_path);
    rmdir(f->folder);
}

static ew_head_source source_of(const fixture *f) {
    return (ew_head_source){.session = f->session,
                            .path = f->data,
                            .adapter = f->adapter,
                            .text = "Is it right?",
                            .chunk = 128,
                            .mix = 0.5};
}

static double score_of(const fixture *f, const ew_head_samples *samples, size_t i) {
    double p;
    EW_ASSERT_OK(ew_head_score(&f->head, samples->x + i * samples->d_model, &p, NULL, error));
    return p;
}

/* `system` is NULL where there is none. */
static void write_samples(const fixture *f, const char *system, const char *problem, const ew_answer_result *result,
                          size_t budget) {
    FILE *out = fopen(f->data, "a");
    for (size_t k = 0; k < result->n_candidates; k++) {
        const ew_candidate *candidate = &result->candidates[k];
        fprintf(out, system ? "{\"system\": \"%s\", " : "{", system);
        fprintf(out, "\"problem\": \"%s\", \"verdict\": \"%s\", \"thinks\": %s, \"budget\": ", problem,
                k % 2 ? "right" : "wrong", result->thinks ? "true" : "false");
        fprintf(out, budget > 0 ? "%zu" : "null", budget);
        for (size_t t = 0; t < candidate->n_tokens; t++) {
            fprintf(out, "%s%d", t > 0 ? ", " : ", \"tokens\": [", candidate->tokens[t]);
        }
        fprintf(out, "]}\n");
    }
    fclose(out);
}

static void test_verifier(void **state) {
    (void)state;
    fixture f;
    ew_verifier *verifier = NULL;
    ew_policy policy = EW_POLICY_INIT;
    ew_head_samples samples;
    ew_head_drops drops;
    ew_answer_result results[2];
    static const char *const problems[] = {"What is 2 and 3?", "And 4?"};
    if (!open_fixture(&f, EW_HEAD_VERIFIER)) {
        skip();
    }
    EW_ASSERT_OK(ew_verifier_open(f.model, f.head_path, &verifier, error));
    policy.mode = EW_MODE_ON;
    policy.streams = 3;
    policy.run_all = true;
    policy.sampling.temperature = 1.0f;
    policy.thinking_budget = 7;
    policy.answer_tokens = 9;
    policy.adapter = f.adapter;
    policy.verifier = verifier;
    for (size_t i = 0; i < 2; i++) {
        const ew_message messages[] = {{"system", "Be brief.", 9}, {"user", problems[i], strlen(problems[i])}};
        policy.tell_budget = i == 1;
        EW_ASSERT_OK(ew_answer(f.session, messages + 1 - i, 1 + i, &policy, NULL, &results[i], error));
        assert_true(results[i].thinks);
        write_samples(&f, i == 1 ? "Be brief." : NULL, problems[i], &results[i], i == 1 ? 7 : 0);
    }
    const ew_head_source source = source_of(&f);
    EW_ASSERT_OK(ew_verifier_features(&source, &samples, &drops, error));
    assert_int_equal(samples.n, 6);
    assert_int_equal(drops.n_dropped, 0);
    for (size_t i = 0; i < 6; i++) {
        assert_true(score_of(&f, &samples, i) == results[i / 3].candidates[i % 3].score);
        assert_int_equal(samples.y[i], i % 3 % 2);
        assert_int_equal(samples.problem[i], samples.problem[i / 3 * 3]);
    }
    assert_int_not_equal(samples.problem[0], samples.problem[3]);
    ew_answer_result_free(&results[0]);
    ew_answer_result_free(&results[1]);
    ew_head_samples_free(&samples);
    ew_verifier_close(verifier);
    close_fixture(&f);
}

static void test_switcher(void **state) {
    (void)state;
    fixture f;
    ew_switcher *switcher = NULL;
    ew_policy policy = EW_POLICY_INIT;
    ew_head_samples samples;
    ew_head_drops drops;
    char text[400];
    if (!open_fixture(&f, EW_HEAD_SWITCHER)) {
        skip();
    }
    for (size_t i = 0; i < sizeof text - 1; i++) {
        text[i] = (char)('a' + (int)(ew_random_bits(9, 0, i) % 26));
    }
    text[sizeof text - 1] = '\0';
    EW_ASSERT_OK(ew_switcher_open(f.model, f.head_path, &switcher, error));
    policy.answer_tokens = 1;
    policy.thinking_budget = 1;
    policy.adapter = f.adapter;
    policy.switcher = switcher;
    FILE *out = fopen(f.data, "w");
    fprintf(out, "{\"problem\": \"%s\", \"label\": 1}\n", text);
    fprintf(out, "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": "
                 "\"Hi\"}, {\"role\": "
                 "\"assistant\", \"content\": \"no\"}], \"label\": 0}\n{\"label\": 0}\n");
    fclose(out);
    const ew_head_source source = source_of(&f);
    EW_ASSERT_OK(ew_switcher_features(&source, &samples, &drops, error));
    assert_int_equal(samples.n, 2);
    assert_int_equal(drops.n_dropped, 1);
    assert_int_equal(drops.first_line, 3);
    assert_true(samples.length[0] > 128); /* more than one chunk */
    const ew_message conversations[2][2] = {{{"user", text, strlen(text)}}, {{"system", "s", 1}, {"user", "Hi", 2}}};
    for (size_t i = 0; i < 2; i++) {
        ew_answer_result result;
        EW_ASSERT_OK(ew_answer(f.session, conversations[i], i + 1, &policy, NULL, &result, error));
        assert_true(score_of(&f, &samples, i) == result.probability);
        ew_answer_result_free(&result);
    }
    ew_head_samples_free(&samples);
    ew_switcher_close(switcher);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_verifier), cmocka_unit_test(test_switcher)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
