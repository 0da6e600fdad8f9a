/* Adapters at work: the unquantized reference against the goldens, on everywhere and from a position on; what is
 * refused; that a prompt's cells know nothing of adapters, and that every cell knows what made it. */
#include "golden.h"
#include "model_support.h"

#include "model/adapter.h"

#include <pthread.h>
#include <sched.h>

static ew_model *open_reference(const char *name) {
    char relative[128], path[1024];
    snprintf(relative, sizeof relative, "goldens/models/%s", name);
    if (!ew_test_shared(relative, path, sizeof path)) {
        skip();
    }
    return open_test_model(path, EW_WEIGHTS_F32, EW_KV_F32);
}

static ew_adapter *load(const ew_model *model, const char *relative, ew_adapter_storage storage) {
    char path[1024];
    ew_adapter *adapter = NULL;
    ew_adapter_options options = EW_ADAPTER_OPTIONS_INIT;
    options.storage = storage;
    if (!ew_test_shared(relative, path, sizeof path)) {
        skip();
    }
    EW_ASSERT_OK(ew_adapter_load(model, path, &options, &adapter, error));
    return adapter;
}

static ew_stream *open_stream(ew_session *session, const ew_adapter *adapter) {
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    EW_ASSERT_OK(ew_stream_set_adapter(stream, adapter, error));
    return stream;
}

/* ---- Goldens ---- */

/* The adapter on at every position. False when the golden is not there. */
static bool check_everywhere(const char *name, const char *file, ew_adapter_storage storage, double tolerance) {
    char path[128];
    snprintf(path, sizeof path, "goldens/lora/%s.json", name);
    json_t *root = golden_json(path);
    snprintf(path, sizeof path, "goldens/lora/%s.safetensors", name);
    ew_safetensors *goldens = golden_tensors(path);
    if (!root || !goldens) {
        json_decref(root);
        ew_safetensors_close(goldens);
        return false;
    }
    ew_model *model = open_reference(json_string_value(json_object_get(root, "model")));
    snprintf(path, sizeof path, "goldens/lora/adapters/%s", file);
    ew_adapter *adapter = load(model, path, storage);
    ew_session *session = open_test_session(model, 2, 7);
    ew_stream *stream = open_stream(session, adapter);
    ew_adapter_unload(adapter); /* the stream still has it */

    size_t n, vocab = vocab_size_of(model);
    int32_t *ids = golden_ids(json_object_get(root, "ids"), &n);
    float *logits = calloc(n * vocab, sizeof *logits);
    assert_non_null(logits);
    run_ids(session, stream, ids, n, logits, NULL);
    const ew_safetensors_tensor *at = golden_tensor(goldens, "positions");
    const int32_t *positions = (const int32_t *)(const void *)at->data;
    const float *wanted = golden_floats(goldens, "logits", 0, 0);
    for (size_t i = 0; i < at->shape[0]; i++) {
        check_near(logits + (size_t)positions[i] * vocab, wanted + i * vocab, vocab, tolerance, 0, file);
    }
    free(logits);
    free(ids);
    ew_session_close(session);
    ew_model_close(model);
    ew_safetensors_close(goldens);
    json_decref(root);
    return true;
}

static void everywhere(void **state) {
    static const char *const names[] = {"qwen2-tiny.pattern", "llama-tiny.pattern", "qwen2-tiny.plain",
                                        "llama-tiny.plain",   "qwen2-tiny.rslora",  "llama-tiny.rslora"};
    size_t n = 0;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        n += check_everywhere(names[i], names[i], EW_ADAPTER_KEEP, 2e-4);
    }
    n += check_everywhere("qwen2-tiny.plain", "qwen2-tiny.plain.gguf", EW_ADAPTER_KEEP, 2e-4);
    n += check_everywhere("llama-tiny.plain", "llama-tiny.plain.gguf", EW_ADAPTER_KEEP, 2e-4);
    /* Rounded matrices: no further from the golden than rounding explains. */
    n += check_everywhere("qwen2-tiny.plain", "qwen2-tiny.plain", EW_ADAPTER_F16, 0.05);
    n += check_everywhere("qwen2-tiny.plain", "qwen2-tiny.plain", EW_ADAPTER_INT8, 0.7);
    if (n == 0) {
        skip();
    }
}

static void check_masked_cells(const ew_stream *stream, const ew_safetensors *goldens, const char *name, size_t from) {
    const ew_config *config = &stream->session->model->config;
    size_t dim = config->head_dim, n = stream->length - from, layers[] = {0, config->n_layers - 1};
    for (size_t l = 0; l < 2; l++) {
        for (int is_key = 0; is_key < 2; is_key++) {
            const ew_safetensors_tensor *tensor =
                golden_tensor(goldens, "%s.layer%zu.%s", name, layers[l], is_key ? "K" : "V");
            const float *wanted = (const float *)(const void *)tensor->data;
            assert_int_equal(tensor->shape[1], n);
            for (size_t head = 0; head < config->n_kv_heads; head++) {
                for (size_t i = 0; i < n; i++) {
                    check_near(float_cell(stream, layers[l], head, from + i, is_key), wanted + (head * n + i) * dim,
                               dim, 2e-4, 1e-6, name);
                }
            }
        }
    }
}

/* One sequence: the model alone before h, the adapter from there on. */
static void check_masked(ew_session *session, const ew_adapter *adapter, const ew_safetensors *goldens,
                         const json_t *one) {
    const char *name = json_string_value(json_object_get(one, "name"));
    size_t n, vocab = vocab_size_of(session->model);
    int32_t *ids = golden_ids(json_object_get(one, "ids"), &n);
    size_t first = (size_t)json_integer_value(json_object_get(one, "prompt_tokens")) - 1;
    const json_t *header = json_object_get(one, "h");
    size_t h = json_is_integer(header) ? (size_t)json_integer_value(header) : n;
    float *logits = calloc(n * vocab, sizeof *logits);
    assert_non_null(logits);
    ew_stream *stream = open_stream(session, NULL);
    run_ids(session, stream, ids, h, logits, NULL);
    EW_ASSERT_OK(ew_stream_set_adapter(stream, adapter, error));
    if (h < n) {
        run_ids(session, stream, ids + h, n - h, logits + h * vocab, NULL);
    }
    assert_int_equal(ew_stream_base_length(stream), h);
    const ew_safetensors_tensor *wanted = golden_tensor(goldens, "%s.logits", name);
    assert_int_equal(wanted->shape[0], n - first);
    check_near(logits + first * vocab, (const float *)(const void *)wanted->data, (n - first) * vocab, 2e-4, 0, name);
    check_masked_cells(stream, goldens, name, first > 0 ? first - 1 : 0);

    /* The same in one call, the border inside it. */
    float *again = calloc(n * vocab, sizeof *again);
    assert_non_null(again);
    ew_stream *whole = open_stream(session, adapter);
    ew_stream_adapt_from(whole, h);
    run_ids(session, whole, ids, n, again, NULL);
    assert_memory_equal(again, logits, n * vocab * sizeof *logits);
    ew_stream_close(whole);
    ew_stream_close(stream);
    free(again);
    free(logits);
    free(ids);
}

static void masked(void **state) {
    (void)state;
    static const char *const files[] = {"goldens/alora/adapters/qwen2-tiny.masked",
                                        "goldens/alora/adapters/qwen2-tiny.masked.gguf"};
    json_t *root = golden_json("goldens/alora/qwen2-tiny.masked.json");
    ew_safetensors *goldens = golden_tensors("goldens/alora/qwen2-tiny.masked.safetensors");
    if (!root || !goldens) {
        skip();
    }
    ew_model *model = open_reference("qwen2-tiny");
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        ew_adapter *adapter = load(model, files[f], EW_ADAPTER_KEEP);
        ew_adapter_info info = {.size = sizeof info};
        ew_adapter_describe(adapter, &info);
        assert_int_equal(info.rank, 4);
        assert_int_equal(info.n_matrices, 14);
        assert_int_equal(info.n_invocation_tokens, 3);
        assert_int_equal(info.invocation_tokens[0], 318);
        assert_false(info.other_weights);
        ew_session *session = open_test_session(model, 2, 16);
        size_t i;
        json_t *one;
        json_array_foreach(json_object_get(root, "cases"), i, one) {
            check_masked(session, adapter, goldens, one);
        }
        ew_session_close(session);
        ew_adapter_unload(adapter);
    }
    ew_model_close(model);
    ew_safetensors_close(goldens);
    json_decref(root);
}

/* ---- What is refused ---- */

static void misfits(void **state) {
    (void)state;
    char path[1024];
    ew_error error;
    ew_adapter *adapter = NULL;
    if (!ew_test_shared("goldens/lora/adapters/llama-tiny.plain", path, sizeof path)) {
        skip();
    }
    ew_model *qwen2 = open_reference("qwen2-tiny"), *llama = open_reference("llama-tiny");
    assert_int_equal(ew_adapter_load(qwen2, path, NULL, &adapter, &error), EW_ERROR_FORMAT);
    assert_non_null(strstr(error.message, " matrices have no place there"));
    assert_null(adapter);
    assert_int_equal(ew_adapter_load(qwen2, NULL, NULL, &adapter, &error), EW_ERROR_ARGUMENT);
    ew_adapter_options options = EW_ADAPTER_OPTIONS_INIT;
    options.storage = (ew_adapter_storage)9;
    assert_int_equal(ew_adapter_load(llama, path, &options, &adapter, &error), EW_ERROR_ARGUMENT);

    adapter = load(llama, "goldens/lora/adapters/llama-tiny.plain", EW_ADAPTER_KEEP);
    ew_session *session = open_test_session(qwen2, 1, 8);
    ew_stream *stream = open_stream(session, NULL);
    assert_int_equal(ew_stream_set_adapter(stream, adapter, &error), EW_ERROR_ARGUMENT);
    assert_null(ew_stream_adapter(stream));
    ew_adapter_unload(adapter);
    ew_session_close(session);
    ew_model_close(qwen2);
    ew_model_close(llama);
}

/* Matrices in memory, of shapes that the model does and does not have. */
static void live_matrices(void **state) {
    (void)state;
    enum { RANK = 3 };
    ew_quantize_options quantize = ew_quantize_default_options();
    ew_model *model = open_quantized("qwen2-tiny", &quantize);
    size_t d = model->config.d_model, rows = model->config.n_heads * model->config.head_dim;
    float *a = calloc(RANK * d, sizeof *a), *b = calloc(rows * RANK, sizeof *b);
    assert_true(a && b);
    for (size_t i = 0; i < RANK * d; i++) {
        a[i] = (float)((int)(i * 7 % 13) - 6) * 0.05f;
    }
    for (size_t i = 0; i < rows * RANK; i++) {
        b[i] = (float)((int)(i * 5 % 11) - 5) * 0.05f;
    }
    ew_lora_target target = {
        .name = "blk.1.attn_q.weight",
        .rank = RANK,
        .alpha = 6,
        .a.values = {.type = EW_DTYPE_F32, .rows = RANK, .cols = d, .data = (const uint8_t *)a, .row_bytes = 4 * d},
        .b.values =
            {.type = EW_DTYPE_F32, .rows = rows, .cols = RANK, .data = (const uint8_t *)b, .row_bytes = 4 * RANK},
    };
    const ew_lora lora = {.targets = &target, .n_targets = 1};
    ew_adapter *first = NULL, *second = NULL;
    EW_ASSERT_OK(ew_adapter_from_lora(model, &lora, EW_ADAPTER_F32, &first, error));
    b[0] += 1.0f;
    EW_ASSERT_OK(ew_adapter_from_lora(model, &lora, EW_ADAPTER_F32, &second, error));
    assert_true(first->info.load != second->info.load);
    assert_true(ew_adapter_pair_of(first, 1, EW_LINEAR_Q)->scale == 2.0f);
    assert_int_equal(ew_adapter_pair_of(first, 0, EW_LINEAR_Q)->rank, 0);
    float row[RANK];
    ew_matrix_read_row(&ew_adapter_pair_of(second, 1, EW_LINEAR_Q)->b, 0, row);
    assert_true(row[0] == b[0]);
    ew_adapter_unload(first);
    ew_adapter_unload(second);

    ew_error error;
    target.b.values.rows--;
    assert_int_equal(ew_adapter_from_lora(model, &lora, EW_ADAPTER_F32, &first, &error), EW_ERROR_FORMAT);
    assert_null(first);
    target.b.values.rows++;
    target.name = "blk.99.attn_q.weight";
    assert_int_equal(ew_adapter_from_lora(model, &lora, EW_ADAPTER_F32, &first, &error), EW_ERROR_FORMAT);
    target.name = "blk.1.attn_q.weight";
    a[1] = 1e6f;
    assert_int_equal(ew_adapter_from_lora(model, &lora, EW_ADAPTER_F16, &first, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "too large for F16"));
    free(a);
    free(b);
    ew_model_close(model);
}

/* ---- Cells ---- */

enum { PROMPT = 70, REPLY = 9 };

/* The bytes of the cells of the first 32 n_pages positions. */
static uint64_t hash_pages(const ew_stream *stream, size_t n_pages) {
    uint64_t hash = 0;
    for (size_t i = 0; i < n_pages; i++) {
        hash = hash_bytes(hash, stream->cells.pages[i], stream->session->pages.page_bytes);
    }
    return hash;
}

/* The prompt by the model alone, then the adapter (may be NULL). *cells: of the pages that hold nothing else. */
static void run_prompt_and_reply(const ew_model *model, const ew_adapter *adapter, float *logits, uint64_t *cells) {
    int32_t ids[PROMPT + REPLY];
    size_t vocab = vocab_size_of(model);
    for (size_t i = 0; i < PROMPT + REPLY; i++) {
        ids[i] = token_at(0, i, 300);
    }
    ew_session *session = open_test_session(model, 2, 32);
    ew_stream *stream = open_stream(session, NULL);
    run_ids(session, stream, ids, PROMPT, logits, NULL);
    EW_ASSERT_OK(ew_stream_set_adapter(stream, adapter, error));
    run_ids(session, stream, ids + PROMPT, REPLY, logits + PROMPT * vocab, NULL);
    *cells = hash_pages(stream, PROMPT / EW_PAGE_POSITIONS);
    ew_session_close(session);
}

/* With the adapter's weights changed at will, the prompt's cells and logits are bit-identical; the reply's are not. */
static void prompts_know_no_adapter(void **state) {
    (void)state;
    static const char *const files[] = {NULL, "goldens/alora/adapters/qwen2-tiny.masked",
                                        "goldens/lora/adapters/qwen2-tiny.rslora"};
    ew_quantize_options quantize = ew_quantize_default_options();
    ew_model *model = open_quantized("qwen2-tiny", &quantize);
    size_t vocab = vocab_size_of(model), n = PROMPT + REPLY;
    float *logits[3];
    uint64_t cells[3];
    for (size_t i = 0; i < 3; i++) {
        ew_adapter *adapter = files[i] ? load(model, files[i], EW_ADAPTER_INT8) : NULL;
        logits[i] = calloc(n * vocab, sizeof *logits[i]);
        assert_non_null(logits[i]);
        run_prompt_and_reply(model, adapter, logits[i], &cells[i]);
        ew_adapter_unload(adapter);
        assert_true(cells[i] == cells[0]);
        assert_memory_equal(logits[i], logits[0], PROMPT * vocab * sizeof(float));
        for (size_t other = 0; other < i; other++) {
            assert_memory_not_equal(logits[i] + PROMPT * vocab, logits[other] + PROMPT * vocab, vocab * sizeof(float));
        }
    }
    for (size_t i = 0; i < 3; i++) {
        free(logits[i]);
    }
    ew_model_close(model);
}

/* On a quantized model, factors of all kinds stay close to those in F32. */
static void storages(void **state) {
    (void)state;
    static const char file[] = "goldens/alora/adapters/qwen2-tiny.masked";
    static const ew_activation_type types[] = {EW_ACTIVATION_INT16, EW_ACTIVATION_INT8};
    for (size_t t = 0; t < 2; t++) {
        ew_quantize_options quantize = ew_quantize_default_options();
        quantize.activations = types[t];
        ew_model *model = open_quantized("qwen2-tiny", &quantize);
        size_t vocab = vocab_size_of(model), bytes[EW_ADAPTER_INT8 + 1], n = PROMPT + REPLY;
        float *exact = calloc(n * vocab, sizeof *exact), *found = calloc(n * vocab, sizeof *found);
        uint64_t cells;
        assert_true(exact && found);
        for (int storage = EW_ADAPTER_F32; storage <= EW_ADAPTER_INT8; storage++) {
            ew_adapter *adapter = load(model, file, (ew_adapter_storage)storage);
            bytes[storage] = adapter->info.bytes;
            run_prompt_and_reply(model, adapter, storage == EW_ADAPTER_F32 ? exact : found, &cells);
            ew_adapter_unload(adapter);
            if (storage != EW_ADAPTER_F32) {
                check_near(found, exact, n * vocab, storage == EW_ADAPTER_F16 ? 0.4 : 1.0, 0, "storage");
            }
        }
        assert_true(bytes[EW_ADAPTER_F16] < bytes[EW_ADAPTER_F32]);
        free(exact);
        free(found);
        ew_model_close(model);
    }
}

static void feed(ew_session *session, ew_stream *stream, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t token = token_at(0, stream->length, 300);
        run_ids(session, stream, &token, 1, NULL, NULL);
    }
}

/* Every cell knows what made it, and none is taken for another's. */
static void origins(void **state) {
    (void)state;
    static const char file[] = "goldens/alora/adapters/qwen2-tiny.masked";
    ew_quantize_options quantize = ew_quantize_default_options();
    ew_model *model = open_quantized("qwen2-tiny", &quantize);
    ew_adapter *one = load(model, file, EW_ADAPTER_KEEP), *two = load(model, file, EW_ADAPTER_KEEP);
    ew_session *session = open_test_session(model, 1, 8);
    ew_stream *stream = open_stream(session, NULL), *fork = NULL;
    int32_t ids[64];
    for (size_t i = 0; i < 64; i++) {
        ids[i] = token_at(0, i, 300);
    }
    feed(session, stream, 10);
    EW_ASSERT_OK(ew_stream_set_adapter(stream, one, error));
    feed(session, stream, 5);
    EW_ASSERT_OK(ew_stream_set_adapter(stream, NULL, error));
    feed(session, stream, 5);
    assert_int_equal(ew_stream_base_length(stream), 10);
    assert_int_equal(ew_stream_common_prefix(stream, ids, 64), 10); /* the model alone from the start */
    EW_ASSERT_OK(ew_stream_fork(stream, &fork, error));
    assert_int_equal(ew_stream_base_length(fork), 10);

    EW_ASSERT_OK(ew_stream_set_adapter(fork, one, error));
    assert_int_equal(ew_stream_common_prefix(fork, ids, 64), 0); /* on everywhere */
    ew_stream_adapt_from(fork, 10);
    assert_int_equal(ew_stream_common_prefix(fork, ids, 64), 15);
    assert_int_equal(ew_stream_common_prefix(fork, ids, 12), 12);
    EW_ASSERT_OK(ew_stream_set_adapter(fork, two, error)); /* the same file, another load */
    ew_stream_adapt_from(fork, 10);
    assert_int_equal(ew_stream_common_prefix(fork, ids, 64), 10);

    ew_stream_truncate(stream, 10);
    feed(session, stream, 3);
    assert_int_equal(ew_stream_base_length(stream), 13);
    assert_int_equal(ew_stream_common_prefix(stream, ids, 64), 13);
    ew_session_close(session);
    ew_adapter_unload(one);
    ew_adapter_unload(two);
    ew_model_close(model);
}

/* ---- Threads ---- */

typedef struct worker {
    const ew_model *model;
    const ew_adapter *adapter;
    atomic_int *n_holding; /* workers whose stream has the adapter */
    pthread_t thread;
    uint64_t hash;
} worker;

static void *work(void *context) {
    worker *w = context;
    size_t vocab = vocab_size_of(w->model);
    float *logits = calloc(REPLY * vocab, sizeof *logits);
    int32_t ids[REPLY];
    for (size_t i = 0; i < REPLY; i++) {
        ids[i] = token_at(0, i, vocab);
    }
    ew_session *session = open_test_session(w->model, 1, 4);
    ew_stream *stream = open_stream(session, w->adapter);
    atomic_fetch_add(w->n_holding, 1);
    run_ids(session, stream, ids, REPLY, logits, NULL);
    w->hash = hash_bytes(0, logits, REPLY * vocab * sizeof *logits);
    ew_session_close(session);
    free(logits);
    return NULL;
}

/* Sessions in several threads share an adapter, whose handle goes away while they run. */
static void threads_share_an_adapter(void **state) {
    (void)state;
    enum { WORKERS = 3 };
    ew_quantize_options quantize = ew_quantize_default_options();
    ew_model *model = open_quantized("qwen2-tiny", &quantize);
    ew_adapter *adapter = load(model, "goldens/alora/adapters/qwen2-tiny.masked", EW_ADAPTER_INT8);
    atomic_int n_holding = 0;
    worker workers[WORKERS];
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.model = model, .adapter = adapter, .n_holding = &n_holding};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    while (atomic_load(&n_holding) < WORKERS) {
        sched_yield();
    }
    ew_adapter_unload(adapter);
    for (size_t i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_true(workers[i].hash == workers[0].hash);
    }
    ew_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everywhere), cmocka_unit_test(masked),
        cmocka_unit_test(misfits),    cmocka_unit_test(live_matrices),
        cmocka_unit_test(storages),   cmocka_unit_test(prompts_know_no_adapter),
        cmocka_unit_test(origins),    cmocka_unit_test(threads_share_an_adapter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
