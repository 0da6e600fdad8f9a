/* The unquantized forward pass against the goldens: logits, hidden states, K and V of every layer, greedy
 * continuations; from Hugging Face folders and from GGUF. */
#include "golden.h"
#include "model_support.h"

typedef struct source {
    const char *model; /* name of the golden */
    const char *path;
    double tolerance;
} source;

static const source sources[] = {
    {"qwen2-tiny", "qwen2-tiny", 1e-4},       {"qwen3-tiny", "qwen3-tiny", 1e-4},
    {"llama-tiny", "llama-tiny", 1e-4},       {"qwen2-yarn", "qwen2-yarn", 1e-4},
    {"qwen2-outlier", "qwen2-outlier", 2e-4}, {"qwen2-tiny", "qwen2-tiny.gguf", 1e-4},
    {"llama-tiny", "llama-tiny.gguf", 1e-4},  {"qwen2-yarn", "qwen2-yarn.gguf", 1e-4},
};

static ew_model *open_source(const char *path, ew_kv kv) {
    char relative[256], full[1024];
    snprintf(relative, sizeof relative, "goldens/models/%s", path);
    assert_non_null(ew_test_shared(relative, full, sizeof full));
    return open_test_model(full, EW_WEIGHTS_F32, kv);
}

static void check_cells(const ew_stream *stream, const ew_safetensors *goldens, size_t seq, const int32_t *positions,
                        size_t n_positions, double tolerance) {
    const ew_config *config = &stream->session->model->config;
    size_t dim = config->head_dim;
    char name[64];
    for (size_t layer = 0; layer < config->n_layers; layer++) {
        for (int is_key = 0; is_key < 2; is_key++) {
            snprintf(name, sizeof name, "seq%zu.layer%zu.%s", seq, layer, is_key ? "K" : "V");
            const float *wanted = (const float *)(const void *)golden_tensor(goldens, "%s", name)->data;
            for (size_t head = 0; head < config->n_kv_heads; head++) {
                for (size_t i = 0; i < n_positions; i++) {
                    check_near(float_cell(stream, layer, head, (size_t)positions[i], is_key),
                               wanted + (head * n_positions + i) * dim, dim, tolerance, is_key ? 1e-6 : 0, name);
                }
            }
        }
    }
}

static void check_sequence(ew_session *session, const ew_safetensors *goldens, size_t seq, const json_t *ids_array,
                           double tolerance) {
    const ew_config *config = &session->model->config;
    size_t n, vocab = config->vocab_size, d_model = config->d_model;
    int32_t *ids = golden_ids(ids_array, &n);
    float *logits = calloc(n * vocab, sizeof *logits), *hidden = calloc(n * d_model, sizeof *hidden);
    assert_true(logits && hidden);
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    run_ids(session, stream, ids, n, logits, hidden);

    const ew_safetensors_tensor *at = golden_tensor(goldens, "seq%zu.positions", seq);
    const int32_t *positions = (const int32_t *)(const void *)at->data;
    const float *golden_logits = golden_floats(goldens, "seq%zu.logits", seq, 0);
    const float *golden_hidden = golden_floats(goldens, "seq%zu.hidden_after_final_norm", seq, 0);
    for (size_t i = 0; i < at->shape[0]; i++) {
        size_t position = (size_t)positions[i];
        check_near(logits + position * vocab, golden_logits + i * vocab, vocab, tolerance, 0, "logits");
        check_near(hidden + position * d_model, golden_hidden + i * d_model, d_model, tolerance, 0, "hidden");
    }
    check_cells(stream, goldens, seq, positions, at->shape[0], tolerance);
    ew_stream_close(stream);
    free(logits);
    free(hidden);
    free(ids);
}

static void check_greedy(ew_session *session, const json_t *one) {
    size_t n_prompt, n_wanted, vocab = session->model->config.vocab_size;
    int32_t *prompt = golden_ids(json_object_get(one, "prompt"), &n_prompt);
    int32_t *wanted = golden_ids(json_object_get(one, "continuation"), &n_wanted);
    float *logits = calloc(n_prompt * vocab, sizeof *logits);
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    run_ids(session, stream, prompt, n_prompt, logits, NULL);
    int32_t token = argmax(logits + (n_prompt - 1) * vocab, vocab);
    for (size_t i = 0; i < n_wanted; i++) {
        assert_int_equal(token, wanted[i]);
        run_ids(session, stream, &token, 1, logits, NULL);
        token = argmax(logits, vocab);
    }
    ew_stream_close(stream);
    free(logits);
    free(wanted);
    free(prompt);
}

static void check_source(const source *s) {
    char name[128];
    snprintf(name, sizeof name, "goldens/forward/%s.json", s->model);
    json_t *root = golden_json(name);
    snprintf(name, sizeof name, "goldens/forward/%s.safetensors", s->model);
    ew_safetensors *goldens = golden_tensors(name);
    if (!root || !goldens) {
        skip();
    }
    ew_model *model = open_source(s->path, EW_KV_AUTO);
    ew_session *session = open_test_session(model, 2, 0);
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(root, "seqs"), i, item) {
        check_sequence(session, goldens, i, json_object_get(item, "ids"), s->tolerance);
    }
    json_array_foreach(json_object_get(json_object_get(root, "greedy"), "cases"), i, item) {
        check_greedy(session, item);
    }
    assert_true(i >= 5);
    ew_session_close(session);
    ew_model_close(model);
    ew_safetensors_close(goldens);
    json_decref(root);
}

static void forward_equals_the_goldens(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        printf("  %s\n", sources[i].path);
        check_source(&sources[i]);
    }
}

static void rope_frequencies_equal_the_goldens(void **state) {
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        char name[128];
        snprintf(name, sizeof name, "goldens/forward/%s.json", sources[i].model);
        json_t *root = golden_json(name);
        if (!root) {
            skip();
        }
        ew_model *model = open_source(sources[i].path, EW_KV_AUTO);
        json_t *rope = json_object_get(root, "rope");
        size_t k;
        json_t *frequency;
        json_array_foreach(json_object_get(rope, "inv_freq"), k, frequency) {
            double wanted = json_number_value(frequency);
            assert_true(fabs(model->rope.frequency[k] - wanted) <= 1e-12 * wanted);
        }
        assert_int_equal(k, model->rope.half);
        double factor = json_number_value(json_object_get(rope, "factor_on_cos_and_sin"));
        assert_true(fabs(model->rope.attention_factor - factor) <= 1e-12);
        ew_model_close(model);
        json_decref(root);
    }
}

/* Mean over positions of KL(golden || ours). */
static double mean_kl(const float *golden, const float *ours, size_t n, size_t vocab) {
    double sum = 0;
    for (size_t i = 0; i < n; i++, golden += vocab, ours += vocab) {
        double z_golden = 0, z_ours = 0, kl = 0;
        for (size_t v = 0; v < vocab; v++) {
            z_golden += exp((double)golden[v]);
            z_ours += exp((double)ours[v]);
        }
        for (size_t v = 0; v < vocab; v++) {
            double p = (double)golden[v] - log(z_golden), q = (double)ours[v] - log(z_ours);
            kl += exp(p) * (p - q);
        }
        sum += kl;
    }
    return sum / (double)n;
}

static void int8_cache_survives_giant_key_biases(void **state) {
    (void)state;
    json_t *root = golden_json("goldens/forward/qwen2-outlier.json");
    ew_safetensors *goldens = golden_tensors("goldens/forward/qwen2-outlier.safetensors");
    if (!root || !goldens) {
        skip();
    }
    ew_model *model = open_source("qwen2-outlier", EW_KV_INT8);
    ew_session *session = open_test_session(model, 1, 0);
    size_t n, vocab = vocab_size_of(model);
    int32_t *ids = golden_ids(json_object_get(json_array_get(json_object_get(root, "seqs"), 0), "ids"), &n);
    float *logits = calloc(n * vocab, sizeof *logits);
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    run_ids(session, stream, ids, n, logits, NULL);
    double kl = mean_kl(golden_floats(goldens, "seq%zu.logits", 0, 0), logits, n, vocab);
    printf("  mean KL with 32 channels a scale: %.4f (float64: 0.1226)\n", kl);
    assert_true(kl <= 1.1 * 0.1226);
    ew_session_close(session);
    ew_model_close(model);
    free(logits);
    free(ids);
    ew_safetensors_close(goldens);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_equals_the_goldens),
        cmocka_unit_test(rope_frequencies_equal_the_goldens),
        cmocka_unit_test(int8_cache_survives_giant_key_biases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
