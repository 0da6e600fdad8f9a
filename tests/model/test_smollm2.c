/* The real model: SmolLM2-135M-Instruct from its Q4_1 file against float64 goldens, unquantized and imported; one hash
 * at four corners. */
#include "golden.h"
#include "running.h"

#include "kernel/kernel.h"
#include "quant/quantize.h"

#include <unistd.h>

enum { WINDOW = 512, FIRST_SCORED = 256, N_SCORED = WINDOW - FIRST_SCORED - 1 };

static char source_path[1024];
static ew_model *reference, *imported;
static size_t vocab;

static int open_models(void **state) {
    (void)state;
    char file[] = "/tmp/ew-smollm2-XXXXXX";
    close(mkstemp(file));
    ew_quantize_options options = ew_quantize_default_options();
    EW_ASSERT_OK(ew_quantize(source_path, file, &options, NULL, error));
    imported = open_test_model(file, EW_WEIGHTS_AUTO, EW_KV_AUTO);
    unlink(file);
    reference = open_test_model(source_path, EW_WEIGHTS_F32, EW_KV_AUTO);
    vocab = vocab_size_of(reference);
    return 0;
}

static int close_models(void **state) {
    (void)state;
    ew_model_close(imported);
    ew_model_close(reference);
    return 0;
}

static double log_sum_exp(const float *logits) {
    double largest = -INFINITY, sum = 0;
    for (size_t i = 0; i < vocab; i++) { /* fmax here makes gcc 12 for aarch64 fail with an internal error */
        largest = (double)logits[i] > largest ? (double)logits[i] : largest;
    }
    for (size_t i = 0; i < vocab; i++) {
        sum += exp((double)logits[i] - largest);
    }
    return largest + log(sum);
}

static void check_case(ew_session *session, const json_t *one) {
    size_t n, n_greedy;
    int32_t *ids = golden_ids(json_object_get(one, "ids"), &n);
    int32_t *greedy = golden_ids(json_object_get(one, "greedy_ids"), &n_greedy);
    float *logits = calloc(n * vocab, sizeof *logits), *hidden = calloc(n * 576, sizeof *hidden);
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    run_ids(session, stream, ids, n, logits, hidden);
    for (size_t i = 0; i + 1 < n; i++) {
        double got = (double)logits[i * vocab + (size_t)ids[i + 1]] - log_sum_exp(logits + i * vocab);
        double wanted = json_number_value(json_array_get(json_object_get(one, "logprob_next"), i));
        assert_true(fabs(got - wanted) <= 2e-4);
    }
    const float *last = logits + (n - 1) * vocab;
    for (size_t i = 0; i < 20; i++) {
        size_t id = (size_t)json_integer_value(json_array_get(json_object_get(one, "last_top20_ids"), i));
        double wanted = json_number_value(json_array_get(json_object_get(one, "last_top20_logits"), i));
        assert_true(fabs((double)last[id] - wanted) <= 2e-4);
    }
    for (size_t i = 0; i < 8; i++) {
        double wanted = json_number_value(json_array_get(json_object_get(one, "last_hidden_after_norm_first8"), i));
        assert_true(fabs((double)hidden[(n - 1) * 576 + i] - wanted) <= 2e-4);
    }
    int32_t token = argmax(last, vocab);
    for (size_t i = 0; i < n_greedy; i++) {
        assert_int_equal(token, greedy[i]);
        run_ids(session, stream, &token, 1, logits, NULL);
        token = argmax(logits, vocab);
    }
    ew_stream_close(stream);
    free(logits);
    free(hidden);
    free(greedy);
    free(ids);
}

static void forward_equals_the_goldens(void **state) {
    (void)state;
    json_t *root = golden_json("goldens/smollm2/forward.json");
    if (!root) {
        skip();
    }
    ew_session *session = open_test_session(reference, 0, 0);
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        check_case(session, one);
    }
    assert_true(i >= 3);
    ew_session_close(session);
    json_decref(root);
}

/* Sum of -log p of the second half of one window, from an empty cache. */
static double window_nll(ew_session *session, const int32_t *ids, float *logits) {
    ew_input inputs[WINDOW];
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    for (size_t i = 0; i < WINDOW; i++) {
        inputs[i] = (ew_input){stream, ids[i], i >= FIRST_SCORED && i + 1 < WINDOW};
    }
    EW_ASSERT_OK(ew_evaluate(session, inputs, WINDOW, logits, NULL, error));
    double nll = 0;
    for (size_t i = 0; i < N_SCORED; i++) {
        const float *row = logits + i * vocab;
        nll += log_sum_exp(row) - (double)row[ids[FIRST_SCORED + i + 1]];
    }
    ew_stream_close(stream);
    return nll;
}

/* Perplexity over the golden's windows; every window's sum within `tolerance` of float64's if that is > 0. */
static double measure(const ew_model *model, const json_t *windows, const int32_t *ids, double tolerance) {
    ew_session *session = open_test_session(model, 0, 0);
    float *logits = calloc(N_SCORED * vocab, sizeof *logits);
    double total = 0;
    size_t i;
    json_t *window;
    assert_non_null(logits);
    json_array_foreach(windows, i, window) {
        double nll = window_nll(session, ids + i * WINDOW, logits);
        double wanted = json_number_value(json_object_get(window, "nll_sum"));
        if (tolerance > 0 && !(fabs(nll - wanted) <= tolerance)) {
            fail_msg("window %zu: %.6f, the golden %.6f", i, nll, wanted);
        }
        total += nll;
    }
    free(logits);
    ew_session_close(session);
    return exp(total / (double)(json_array_size(windows) * N_SCORED));
}

static int32_t *read_text_ids(void) {
    char path[1024];
    if (!ew_test_shared("data/wikitext2-test.txt", path, sizeof path)) {
        return NULL;
    }
    FILE *file = fopen(path, "rb");
    size_t n = 400000, n_ids; /* more than 40 windows */
    char *text = malloc(n);
    n = fread(text, 1, n, file);
    fclose(file);
    int32_t *ids = NULL;
    EW_ASSERT_OK(ew_tokenize(reference, text, n, false, &ids, &n_ids, error));
    assert_true(n_ids > (size_t)40 * WINDOW);
    free(text);
    return ids;
}

static void perplexity_of_the_first_windows(void **state) {
    (void)state;
    json_t *root = golden_json("goldens/smollm2/wikitext2.json");
    int32_t *ids = root ? read_text_ids() : NULL;
    if (!ids) {
        json_decref(root);
        skip();
    }
    const json_t *windows = json_object_get(json_object_get(root, "as_is"), "windows");
    double golden = json_number_value(json_object_get(json_object_get(root, "as_is"), "perplexity"));
    double float32 = measure(reference, windows, ids, 5e-3), int4 = measure(imported, windows, ids, 0);
    printf("  perplexity: float64 %.4f, unquantized %.4f, imported with INT16 activations and INT8 KV %.4f\n", golden,
           float32, int4);
    assert_true(fabs(float32 / golden - 1) < 1e-3);
    assert_true(fabs(int4 / golden - 1) < 1e-2);
    ew_free(ids);
    json_decref(root);
}

/* ---- One hash ---- */

enum { PROMPT = 40 };

static uint64_t hash_prompt(const char *isa, size_t n_threads, size_t chunk, bool among, size_t kept) {
    ew_stream *stream = NULL, *other = NULL;
    ew_input inputs[2 * PROMPT];
    float *logits = calloc(PROMPT * vocab, sizeof *logits);
    size_t n = 0;
    setenv("EDGEWISE_ISA", isa, 1);
    ew_session *session = open_test_session(imported, n_threads, chunk);
    unsetenv("EDGEWISE_ISA");
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    EW_ASSERT_OK(ew_stream_open(session, &other, error));
    if (kept > 0) {
        for (size_t i = 0; i < PROMPT; i++) {
            inputs[i] = (ew_input){stream, (int32_t)((i < kept ? i : i + 1) * 977 % vocab), i < kept};
        }
        EW_ASSERT_OK(ew_evaluate(session, inputs, PROMPT, logits, NULL, error));
        ew_stream_truncate(stream, kept);
    }
    for (size_t i = kept; i < PROMPT; i++) {
        if (among) {
            inputs[n++] = (ew_input){other, (int32_t)(i * 31 % vocab), false};
        }
        inputs[n++] = (ew_input){stream, (int32_t)(i * 977 % vocab), true};
    }
    EW_ASSERT_OK(ew_evaluate(session, inputs, n, logits + kept * vocab, NULL, error));
    uint64_t hash = hash_bytes(0, logits, PROMPT * vocab * sizeof *logits);
    ew_session_close(session);
    free(logits);
    return hash;
}

static void one_hash_at_four_corners(void **state) {
    (void)state;
    size_t n_kernels;
    const ew_kernels *const *kernels = ew_kernels_available(&n_kernels);
    const char *best = kernels[n_kernels - 1]->name, *middle = kernels[n_kernels / 2]->name;
    uint64_t hash = hash_prompt(best, 2, 128, false, 0);
    printf("  %s: 0x%016llx\n", best, (unsigned long long)hash);
    assert_true(hash == UINT64_C(0x6cc4e4c012186e3c));
    assert_true(hash_prompt("scalar", 2, 7, false, 0) == hash);
    assert_true(hash_prompt(middle, 1, 128, true, 0) == hash);
    assert_true(hash_prompt(best, 3, 1, true, 19) == hash);
}

int main(void) {
    if (!ew_test_smollm2(source_path, sizeof source_path)) {
        return EW_TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hash_at_four_corners),
        cmocka_unit_test(forward_equals_the_goldens),
        cmocka_unit_test(perplexity_of_the_first_windows),
    };
    const struct CMUnitTest first[] = {tests[0]}; /* the same bits as a build that runs them all */
    return getenv("EDGEWISE_TEST_QUICK") ? cmocka_run_group_tests(first, open_models, close_models)
                                         : cmocka_run_group_tests(tests, open_models, close_models);
}
