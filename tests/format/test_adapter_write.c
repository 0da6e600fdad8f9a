/* Adapters written as either kind of file: what PEFT and llama.cpp's converter write, and the same values again. */
#include "adapter_support.h"
#include "files.h"

#include "base/float16.h"
#include "format/gguf.h"

#include <math.h>

static char folder[64], peft_path[128], gguf_path[128];

static int set_up(void **state) {
    (void)state;
    make_test_folder(folder);
    snprintf(peft_path, sizeof peft_path, "%s/adapter", folder);
    snprintf(gguf_path, sizeof gguf_path, "%s/adapter.gguf", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (access(peft_path, F_OK) == 0) {
        remove_adapter_folder(peft_path);
    }
    unlink(gguf_path);
    return rmdir(folder);
}

/* Model and adapter of a golden, by the adapter's path below goldens/. */
static ew_adapter_file *open_case(const char *relative, ew_config *base) {
    char model[16], name[128];
    snprintf(model, sizeof model, "%.10s", strrchr(relative, '/') + 1);
    snprintf(name, sizeof name, "goldens/%s", relative);
    return golden_base(model, base) ? open_golden(name, base) : NULL;
}

static ew_adapter_file *open_written(const char *path, const ew_config *base) {
    ew_adapter_file *file = NULL;
    EW_ASSERT_OK(ew_adapter_open(path, base, &file, error));
    return file;
}

static void peft_to_peft(void **state) {
    ew_config base;
    char original[256], copy[256];
    ew_adapter_file *golden = open_case(*state, &base);
    if (!golden) {
        skip();
    }
    EW_ASSERT_OK(ew_adapter_write_peft(ew_adapter_file_content(golden), &base, EW_ADAPTER_KEEP, peft_path, error));
    ew_adapter_file *written = open_written(peft_path, &base);
    assert_equal_adapters(ew_adapter_file_content(golden), ew_adapter_file_content(written));
    snprintf(original, sizeof original, "%s/adapter_model.safetensors", ew_adapter_file_path(golden));
    snprintf(copy, sizeof copy, "%s/adapter_model.safetensors", peft_path);
    assert_same_files(original, copy);
    ew_adapter_close(written);
    /* And over what is there. */
    EW_ASSERT_OK(ew_adapter_write_peft(ew_adapter_file_content(golden), &base, EW_ADAPTER_KEEP, peft_path, error));
    assert_same_files(original, copy);
    ew_adapter_close(golden);
}

static void assert_golden_gguf(const char *golden_path) {
    ew_gguf *golden, *written;
    EW_ASSERT_OK(ew_gguf_open(golden_path, &golden, error));
    EW_ASSERT_OK(ew_gguf_open(gguf_path, &written, error));
    for (size_t i = 0; i < ew_gguf_value_count(golden); i++) {
        const ew_gguf_value *value = ew_gguf_value_at(golden, i);
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)value->key.length, value->key.data);
        const ew_gguf_value *own = ew_gguf_find(written, key);
        assert_non_null(own);
        assert_int_equal(own->type, value->type);
        assert_int_equal(own->bytes, value->bytes);
        assert_memory_equal(own->data, value->data, value->bytes);
    }
    assert_int_equal(ew_gguf_tensor_count(golden), ew_gguf_tensor_count(written));
    for (size_t i = 0; i < ew_gguf_tensor_count(golden); i++) {
        const ew_gguf_tensor *theirs = ew_gguf_tensor_at(golden, i), *own = ew_gguf_tensor_at(written, i);
        assert_string_equal(own->name, theirs->name);
        assert_int_equal(own->type, theirs->type);
        assert_int_equal(own->n_dims, theirs->n_dims);
        assert_memory_equal(own->shape, theirs->shape, sizeof own->shape);
        assert_int_equal(own->bytes, theirs->bytes);
        assert_memory_equal(own->data, theirs->data, own->bytes);
    }
    ew_gguf_close(golden);
    ew_gguf_close(written);
}

/* The converter's file: the same keys, tensors and order; then back to PEFT's bytes. */
static void peft_to_gguf_and_back(void **state) {
    ew_config base;
    char path[300], copy[256];
    ew_adapter_file *golden = open_case(*state, &base);
    if (!golden) {
        skip();
    }
    EW_ASSERT_OK(ew_adapter_write_gguf(ew_adapter_file_content(golden), &base, EW_ADAPTER_KEEP, gguf_path, error));
    snprintf(path, sizeof path, "%s.gguf", ew_adapter_file_path(golden));
    assert_golden_gguf(path);
    ew_adapter_file *written = open_written(gguf_path, &base);
    assert_equal_adapters(ew_adapter_file_content(golden), ew_adapter_file_content(written));
    EW_ASSERT_OK(ew_adapter_write_peft(ew_adapter_file_content(written), &base, EW_ADAPTER_KEEP, peft_path, error));
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", ew_adapter_file_path(golden));
    snprintf(copy, sizeof copy, "%s/adapter_model.safetensors", peft_path);
    assert_same_files(path, copy);
    ew_adapter_close(written);
    ew_adapter_close(golden);
}

/* scale * B of all targets of two files; A must be the same. */
static void assert_same_product(const ew_lora *a, const ew_lora *b, double tolerance) {
    float left[64], right[64];
    assert_int_equal(a->n_targets, b->n_targets);
    for (size_t i = 0; i < a->n_targets; i++) {
        const ew_lora_target *x = &a->targets[i], *y = &b->targets[i];
        assert_string_equal(x->name, y->name);
        assert_equal_factors(&x->a, &y->a, x->name);
        for (size_t row = 0; row < x->b.values.rows; row++) {
            EW_ASSERT_OK(ew_lora_read_row(&x->b, row, left, error));
            EW_ASSERT_OK(ew_lora_read_row(&y->b, row, right, error));
            for (size_t j = 0; j < x->rank; j++) {
                double wanted = left[j] * ew_lora_scale(a, x), have = right[j] * ew_lora_scale(b, y);
                assert_true(fabs(wanted - have) <= tolerance * fabs(wanted));
            }
        }
    }
}

/* One alpha for all: rsLoRA with one rank needs nothing else, patterns are multiplied into B. */
static void scales_are_folded(void **state) {
    (void)state;
    static const struct {
        const char *adapter;
        double tolerance;
    } cases[] = {{"lora/adapters/llama-tiny.rslora", 0},
                 {"lora/adapters/qwen2-tiny.rslora", 0},
                 {"lora/adapters/llama-tiny.pattern", 1e-6},
                 {"lora/adapters/qwen2-tiny.pattern", 1e-6}};
    ew_config base;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ew_adapter_file *golden = open_case(cases[i].adapter, &base);
        if (!golden) {
            skip();
        }
        EW_ASSERT_OK(ew_adapter_write_gguf(ew_adapter_file_content(golden), &base, EW_ADAPTER_KEEP, gguf_path, error));
        ew_adapter_file *written = open_written(gguf_path, &base);
        assert_false(ew_adapter_file_content(written)->rslora);
        assert_same_product(ew_adapter_file_content(golden), ew_adapter_file_content(written), cases[i].tolerance);
        ew_adapter_close(written);
        ew_adapter_close(golden);
    }
}

static void assert_near(const ew_lora_factor *exact, const ew_lora_factor *stored, ew_adapter_storage storage) {
    float left[256], right[256];
    for (size_t i = 0; i < exact->values.rows; i++) {
        float largest = 0;
        EW_ASSERT_OK(ew_lora_read_row(exact, i, left, error));
        EW_ASSERT_OK(ew_lora_read_row(stored, i, right, error));
        for (size_t j = 0; j < exact->values.cols; j++) {
            largest = fmaxf(largest, fabsf(left[j]));
        }
        for (size_t j = 0; j < exact->values.cols; j++) {
            if (storage == EW_ADAPTER_F16) {
                assert_true(right[j] == ew_f16_to_f32(ew_f32_to_f16(left[j])));
            } else {
                assert_true(fabsf(right[j] - left[j]) <= largest / 127 * 0.5001f);
            }
        }
    }
}

/* llama-tiny interleaves, so that scales of I8 rows must follow their rows. */
static void other_storages(void **state) {
    (void)state;
    ew_config base;
    ew_adapter_file *golden = open_case("lora/adapters/llama-tiny.plain", &base);
    if (!golden) {
        skip();
    }
    const ew_lora *exact = ew_adapter_file_content(golden);
    static const struct {
        ew_adapter_storage storage;
        ew_dtype type;
    } cases[] = {{EW_ADAPTER_F16, EW_DTYPE_F16}, {EW_ADAPTER_INT8, EW_DTYPE_I8}};
    for (size_t i = 0; i < 2; i++) {
        EW_ASSERT_OK(ew_adapter_write_gguf(exact, &base, cases[i].storage, gguf_path, error));
        ew_adapter_file *written = open_written(gguf_path, &base);
        const ew_lora *stored = ew_adapter_file_content(written);
        for (size_t t = 0; t < exact->n_targets; t++) {
            assert_int_equal(stored->targets[t].a.values.type, cases[i].type);
            assert_int_equal(stored->targets[t].b.values.type, cases[i].type);
            assert_near(&exact->targets[t].a, &stored->targets[t].a, cases[i].storage);
            assert_near(&exact->targets[t].b, &stored->targets[t].b, cases[i].storage);
        }
        EW_ASSERT_OK(ew_adapter_write_peft(stored, &base, EW_ADAPTER_KEEP, peft_path, error));
        ew_adapter_file *peft = open_written(peft_path, &base);
        assert_equal_adapters(stored, ew_adapter_file_content(peft));
        ew_adapter_close(peft);
        char again[160];
        snprintf(again, sizeof again, "%s.again", gguf_path);
        EW_ASSERT_OK(ew_adapter_write_gguf(stored, &base, EW_ADAPTER_KEEP, again, error));
        assert_same_files(gguf_path, again);
        unlink(again);
        ew_adapter_close(written);
    }
    ew_error error;
    assert_int_equal(ew_adapter_write_peft(exact, &base, EW_ADAPTER_INT8, peft_path, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "no INT8"));
    ew_adapter_close(golden);
}

/* ---- An adapter as a trainer has it, in memory: q of layer 0 (rank 2), down of layer 1 (rank 3) ---- */

enum { D_MODEL = 8, D_FF = 12, Q_ROWS = 8 };

typedef struct trained {
    float qa[2 * D_MODEL], qb[Q_ROWS * 2], da[3 * D_FF], db[D_MODEL * 3];
    ew_lora_target targets[2];
    int32_t tokens[2];
    ew_lora adapter;
} trained;

static const ew_config small_base = {.architecture = EW_ARCHITECTURE_LLAMA,
                                     .n_layers = 2,
                                     .d_model = D_MODEL,
                                     .n_heads = 2,
                                     .n_kv_heads = 1,
                                     .head_dim = 4,
                                     .d_ff = D_FF,
                                     .vocab_size = 10,
                                     .context_length = 64};

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

static ew_tensor floats(float *values, size_t rows, size_t cols) {
    for (size_t i = 0; i < rows * cols; i++) {
        values[i] = 0.25f + (float)i / 3;
    }
    return (ew_tensor){.type = EW_DTYPE_F32,
                       .rows = rows,
                       .cols = cols,
                       .data = (const uint8_t *)values,
                       .bytes = rows * cols * sizeof *values,
                       .row_bytes = cols * sizeof *values};
}

static void train(trained *t) {
    *t = (trained){.tokens = {7, 3}};
    t->targets[0] = (ew_lora_target){.name = "blk.0.attn_q.weight", .rank = 2, .alpha = 4.5};
    t->targets[0].a.values = floats(t->qa, 2, D_MODEL);
    t->targets[0].b.values = floats(t->qb, Q_ROWS, 2);
    t->targets[1] = (ew_lora_target){.name = "blk.1.ffn_down.weight", .rank = 3, .alpha = 6};
    t->targets[1].a.values = floats(t->da, 3, D_FF);
    t->targets[1].b.values = floats(t->db, D_MODEL, 3);
    t->adapter = (ew_lora){.rslora = true,
                           .targets = t->targets,
                           .n_targets = 2,
                           .invocation_tokens = t->tokens,
                           .n_invocation_tokens = 2,
                           .base_name = "small",
                           .source_fingerprint = DIGITS "0",
                           .weights_fingerprint = DIGITS "1"};
}

static void trained_adapters_are_written(void **state) {
    (void)state;
    trained t;
    bool other;
    ew_error error;
    train(&t);
    EW_ASSERT_OK(ew_adapter_write_peft(&t.adapter, &small_base, EW_ADAPTER_KEEP, peft_path, error));
    ew_adapter_file *file = open_written(peft_path, &small_base);
    assert_true(ew_adapter_file_content(file)->rslora);
    assert_equal_adapters(&t.adapter, ew_adapter_file_content(file));
    assert_null(ew_adapter_file_content(file)->source_fingerprint);
    EW_ASSERT_OK(ew_adapter_match_base(file, DIGITS "7", DIGITS "7", &other, error));
    assert_false(other);
    ew_adapter_close(file);

    EW_ASSERT_OK(ew_adapter_write_gguf(&t.adapter, &small_base, EW_ADAPTER_KEEP, gguf_path, error));
    file = open_written(gguf_path, &small_base);
    const ew_lora *content = ew_adapter_file_content(file);
    assert_same_product(&t.adapter, content, 1e-6);
    assert_int_equal(content->n_invocation_tokens, 2);
    assert_string_equal(content->base_name, "small");
    assert_string_equal(content->source_fingerprint, DIGITS "0");
    assert_string_equal(content->weights_fingerprint, DIGITS "1");
    EW_ASSERT_OK(ew_adapter_match_base(file, DIGITS "0", DIGITS "1", &other, error));
    assert_false(other);
    EW_ASSERT_OK(ew_adapter_match_base(file, DIGITS "0", DIGITS "2", &other, error));
    assert_true(other);
    assert_int_equal(ew_adapter_match_base(file, DIGITS "3", DIGITS "1", &other, &error), EW_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "another model"));
    ew_adapter_close(file);
}

/* A refused adapter leaves neither a file nor a folder. */
static void assert_not_written(const trained *t, ew_adapter_storage storage, const char *sentence) {
    ew_error error = {0};
    assert_int_not_equal(ew_adapter_write_gguf(&t->adapter, &small_base, storage, gguf_path, &error), EW_OK);
    if (!strstr(error.message, sentence)) {
        fail_msg("expected \"%s\" in \"%s\"", sentence, error.message);
    }
    assert_int_not_equal(access(gguf_path, F_OK), 0);
    assert_int_not_equal(ew_adapter_write_peft(&t->adapter, &small_base, storage, peft_path, &error), EW_OK);
    assert_int_not_equal(access(peft_path, F_OK), 0);
}

static void wrong_adapters_are_not_written(void **state) {
    (void)state;
    trained t;
    train(&t);
    t.db[5] = NAN;
    assert_not_written(&t, EW_ADAPTER_KEEP, "NaN in row 1, column 2");
    train(&t);
    t.qb[3] = 1e9f;
    assert_not_written(&t, EW_ADAPTER_F16, "too large for F16");
    train(&t);
    t.targets[1].name = "blk.0.attn_q.weight";
    assert_not_written(&t, EW_ADAPTER_KEEP, "out of order or given twice");
    train(&t);
    t.targets[0].name = "blk.0.attn_norm.weight";
    assert_not_written(&t, EW_ADAPTER_KEEP, "no complete pair");
    train(&t);
    t.targets[0].rank = 3;
    assert_not_written(&t, EW_ADAPTER_KEEP, "no complete pair");
    train(&t);
    t.targets[0].alpha = 0;
    assert_not_written(&t, EW_ADAPTER_KEEP, "no complete pair");
    train(&t);
    t.targets[1].name = "blk.2.ffn_down.weight";
    assert_not_written(&t, EW_ADAPTER_KEEP, "1 of its 2");
    train(&t);
    t.tokens[0] = 10;
    assert_not_written(&t, EW_ADAPTER_KEEP, "invocation token 10");
    train(&t);
    t.adapter.base_name = "\xff";
    assert_not_written(&t, EW_ADAPTER_KEEP, "UTF-8");
    train(&t);
    t.adapter.n_targets = 0;
    assert_not_written(&t, EW_ADAPTER_KEEP, "needs a matrix");
}

static void places_that_cannot_be_written(void **state) {
    (void)state;
    trained t;
    ew_error error;
    train(&t);
    assert_int_equal(ew_adapter_write_gguf(&t.adapter, &small_base, EW_ADAPTER_KEEP, "/nowhere/a.gguf", &error),
                     EW_ERROR_IO);
    assert_int_equal(ew_adapter_write_peft(&t.adapter, &small_base, EW_ADAPTER_KEEP, "/nowhere/a", &error),
                     EW_ERROR_IO);
    EW_ASSERT_OK(ew_adapter_write_gguf(&t.adapter, &small_base, EW_ADAPTER_KEEP, gguf_path, error));
    assert_int_equal(ew_adapter_write_peft(&t.adapter, &small_base, EW_ADAPTER_KEEP, gguf_path, &error), EW_ERROR_IO);
}

#define CASE(test, ...) cmocka_unit_test_prestate_setup_teardown(test, set_up, tear_down, (char[]){__VA_ARGS__})

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(peft_to_peft, "lora/adapters/qwen2-tiny.plain"),
        CASE(peft_to_peft, "lora/adapters/llama-tiny.plain"),
        CASE(peft_to_peft, "lora/adapters/llama-tiny.rslora"),
        CASE(peft_to_peft, "lora/adapters/qwen2-tiny.pattern"),
        CASE(peft_to_peft, "lora/adapters/llama-tiny.pattern"),
        CASE(peft_to_peft, "alora/adapters/qwen2-tiny.masked"),
        CASE(peft_to_gguf_and_back, "lora/adapters/qwen2-tiny.plain"),
        CASE(peft_to_gguf_and_back, "lora/adapters/llama-tiny.plain"),
        CASE(peft_to_gguf_and_back, "alora/adapters/qwen2-tiny.masked"),
        cmocka_unit_test_setup_teardown(scales_are_folded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_storages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(trained_adapters_are_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_adapters_are_not_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(places_that_cannot_be_written, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
