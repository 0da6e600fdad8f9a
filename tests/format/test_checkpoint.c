#include "support.h"

#include "format/checkpoint.h"

#include <math.h>

static ew_checkpoint *open_golden(const char *name) {
    char path[512];
    ew_error error = {0};
    ew_checkpoint *cp = NULL;
    if (!ew_test_shared(name, path, sizeof path)) {
        skip();
    }
    if (ew_checkpoint_open(path, &cp, &error) != EW_OK) {
        fail_msg("%s", error.message);
    }
    return cp;
}

/* Every value of every tensor, read through each face, is the same. */
static void assert_same_values(const ew_checkpoint *a, const ew_checkpoint *b) {
    assert_int_equal(ew_checkpoint_tensor_count(a), ew_checkpoint_tensor_count(b));
    float *x = malloc(4096 * sizeof *x), *y = malloc(4096 * sizeof *y);
    for (size_t i = 0; i < ew_checkpoint_tensor_count(a); i++) {
        const ew_tensor *s = ew_checkpoint_tensor_at(a, i), *t = ew_checkpoint_find(b, s->name);
        assert_non_null(t);
        assert_int_equal(s->rows, t->rows);
        assert_int_equal(s->cols, t->cols);
        assert_true(s->cols <= 4096);
        for (size_t row = 0; row < s->rows; row++) {
            ew_error error;
            assert_int_equal(ew_tensor_read_row(s, row, x, &error), EW_OK);
            assert_int_equal(ew_tensor_read_row(t, row, y, &error), EW_OK);
            assert_memory_equal(x, y, s->cols * sizeof *x);
            if (s->rows > 1 && s->type == t->type) {
                assert_memory_equal(ew_tensor_row(s, row), ew_tensor_row(t, row), s->row_bytes);
            }
        }
    }
    free(x);
    free(y);
}

static void assert_same_config(const ew_config *a, const ew_config *b) {
    assert_int_equal(a->architecture, b->architecture);
    assert_int_equal(a->n_layers, b->n_layers);
    assert_int_equal(a->d_model, b->d_model);
    assert_int_equal(a->n_heads, b->n_heads);
    assert_int_equal(a->n_kv_heads, b->n_kv_heads);
    assert_int_equal(a->head_dim, b->head_dim);
    assert_int_equal(a->d_ff, b->d_ff);
    assert_int_equal(a->vocab_size, b->vocab_size);
    assert_int_equal(a->context_length, b->context_length);
    assert_true(a->rms_norm_eps == b->rms_norm_eps);
    assert_true(a->rope.theta == b->rope.theta);
    assert_int_equal(a->qkv_bias, b->qkv_bias);
    assert_int_equal(a->o_bias, b->o_bias);
    assert_int_equal(a->qk_norm, b->qk_norm);
    assert_int_equal(a->tied_embeddings, b->tied_embeddings);
    assert_int_equal(a->bos_id, b->bos_id);
    assert_int_equal(a->add_bos, b->add_bos);
    assert_int_equal(a->n_eos, b->n_eos);
    assert_memory_equal(a->eos_ids, b->eos_ids, a->n_eos * sizeof a->eos_ids[0]);
    assert_int_equal(a->sampling.do_sample, b->sampling.do_sample);
    assert_float_equal(a->sampling.temperature, b->sampling.temperature, 1e-6);
    assert_float_equal(a->sampling.top_p, b->sampling.top_p, 1e-6);
    assert_float_equal(a->sampling.repetition_penalty, b->sampling.repetition_penalty, 1e-6);
    assert_int_equal(a->sampling.top_k, b->sampling.top_k);
}

static void folder_and_gguf_agree(void **state) {
    const char *name = *state;
    char folder[64], file[64];
    snprintf(folder, sizeof folder, "goldens/models/%s", name);
    snprintf(file, sizeof file, "goldens/models/%s.gguf", name);
    ew_checkpoint *a = open_golden(folder), *b = open_golden(file);
    assert_int_equal(ew_checkpoint_kind(a), EW_CHECKPOINT_HUGGING_FACE);
    assert_int_equal(ew_checkpoint_kind(b), EW_CHECKPOINT_GGUF);
    assert_null(ew_checkpoint_gguf(a));
    assert_non_null(ew_checkpoint_gguf(b));
    assert_same_config(ew_checkpoint_config(a), ew_checkpoint_config(b));
    assert_same_values(a, b);
    char x[65], y[65], again[65];
    assert_int_equal(ew_checkpoint_source_fingerprint(a, x, NULL), EW_OK);
    assert_int_equal(ew_checkpoint_source_fingerprint(b, y, NULL), EW_OK);
    assert_int_equal(ew_checkpoint_source_fingerprint(a, again, NULL), EW_OK);
    assert_string_equal(x, again);
    assert_string_not_equal(x, y);
    assert_int_equal(strlen(x), 64);
    ew_checkpoint_close(a);
    ew_checkpoint_close(b);
}

static void qwen2_tiny_is_read(void **state) {
    (void)state;
    ew_checkpoint *cp = open_golden("goldens/models/qwen2-tiny");
    const ew_config *c = ew_checkpoint_config(cp);
    assert_int_equal(c->architecture, EW_ARCHITECTURE_QWEN2);
    assert_int_equal(c->head_dim, 16);
    assert_true(c->qkv_bias && !c->o_bias && !c->qk_norm && c->tied_embeddings);
    assert_int_equal(c->rope.scaling, EW_ROPE_NONE);
    assert_int_equal(c->bos_id, 317);
    assert_false(c->add_bos);
    assert_int_equal(c->n_eos, 2);
    assert_int_equal(c->eos_ids[0], 317);
    assert_int_equal(c->eos_ids[1], 319);
    assert_true(c->sampling.given && c->sampling.do_sample && c->sampling.top_k == 20);
    assert_true(c->sampling.temperature == 0.7 && c->sampling.top_p == 0.8 && c->sampling.min_p == 0);
    assert_null(ew_checkpoint_find(cp, "output.weight"));
    assert_int_equal(ew_checkpoint_tensor_count(cp), 2 + 2 * 12);
    ew_checkpoint_close(cp);
}

static void qwen3_tiny_is_read(void **state) {
    (void)state;
    ew_checkpoint *cp = open_golden("goldens/models/qwen3-tiny");
    const ew_config *c = ew_checkpoint_config(cp);
    assert_int_equal(c->architecture, EW_ARCHITECTURE_QWEN3);
    assert_int_equal(c->head_dim, 32);
    assert_true(c->rope.theta == 1e6);
    assert_true(!c->qkv_bias && c->qk_norm && !c->tied_embeddings);
    const ew_tensor *head = ew_checkpoint_find(cp, "output.weight");
    assert_non_null(head);
    assert_int_equal(head->type, EW_DTYPE_BF16);
    assert_int_equal(ew_checkpoint_find(cp, "blk.1.attn_q.weight")->rows, 128);
    assert_int_equal(ew_checkpoint_find(cp, "blk.1.attn_k_norm.weight")->cols, 32);
    ew_checkpoint_close(cp);
}

static void llama_tiny_is_read(void **state) {
    (void)state;
    ew_checkpoint *cp = open_golden("goldens/models/llama-tiny");
    const ew_config *c = ew_checkpoint_config(cp);
    assert_int_equal(c->rope.scaling, EW_ROPE_LLAMA3);
    assert_true(c->rope.factor == 8 && c->rope.low_freq_factor == 1 && c->rope.high_freq_factor == 4);
    assert_int_equal(c->rope.original_context, 64);
    assert_int_equal(c->bos_id, 267);
    assert_true(c->add_bos);
    assert_int_equal(c->n_eos, 2);
    assert_true(!c->sampling.do_sample);
    ew_checkpoint_close(cp);

    cp = open_golden("goldens/models/llama-tiny.gguf");
    c = ew_checkpoint_config(cp);
    assert_int_equal(c->rope.scaling, EW_ROPE_DIVISORS);
    assert_true(c->rope.divisors[0] == 1 && c->rope.divisors[7] == 8);
    assert_true(c->add_bos);
    assert_int_equal(ew_checkpoint_find(cp, "blk.0.attn_q.weight")->interleaved, 16);
    assert_int_equal(ew_checkpoint_find(cp, "blk.0.attn_v.weight")->interleaved, 0);
    ew_checkpoint_close(cp);
}

static void yarn_and_shards_are_read(void **state) {
    (void)state;
    ew_checkpoint *cp = open_golden("goldens/models/qwen2-yarn");
    const ew_config *c = ew_checkpoint_config(cp);
    assert_int_equal(c->rope.scaling, EW_ROPE_YARN);
    assert_true(c->rope.factor == 4 && c->rope.beta_fast == 32 && c->rope.beta_slow == 1);
    assert_true(c->rope.truncate && c->rope.attention_factor == 0);
    assert_int_equal(c->rope.original_context, 64);
    ew_checkpoint_close(cp);

    cp = open_golden("goldens/models/qwen2-outlier");
    assert_int_equal(ew_checkpoint_config(cp)->head_dim, 64);
    float bias[64], largest = 0;
    assert_int_equal(ew_tensor_read_row(ew_checkpoint_find(cp, "blk.0.attn_k.bias"), 0, bias, NULL), EW_OK);
    for (int i = 0; i < 64; i++) {
        largest = fmaxf(largest, fabsf(bias[i]));
    }
    assert_true(largest > 400);
    ew_checkpoint_close(cp);

    ew_checkpoint_close(open_golden("goldens/fpt/qwen2"));
    ew_checkpoint_close(open_golden("goldens/fpt/qwen3"));
}

/* The model that quickstart.sh fetches, where it is there. */
static void smollm2_is_read(void **state) {
    (void)state;
    char path[512];
    const char *file = ew_test_smollm2(path, sizeof path);
    if (!file) {
        skip();
    }
    ew_checkpoint *cp = NULL;
    ew_error error = {0};
    if (ew_checkpoint_open(file, &cp, &error) != EW_OK) {
        fail_msg("%s", error.message);
    }
    const ew_config *c = ew_checkpoint_config(cp);
    assert_int_equal(c->n_layers, 30);
    assert_int_equal(c->vocab_size, 49152);
    assert_int_equal(c->head_dim, 64);
    assert_int_equal(c->bos_id, 1);
    assert_false(c->add_bos);
    assert_int_equal(c->eos_ids[c->n_eos - 1], 2);
    assert_int_equal(ew_checkpoint_find(cp, "token_embd.weight")->type, EW_DTYPE_Q8_0);
    assert_int_equal(ew_checkpoint_find(cp, "blk.29.ffn_down.weight")->type, EW_DTYPE_Q4_1);
    ew_checkpoint_close(cp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(folder_and_gguf_agree, "qwen2-tiny"),
        cmocka_unit_test_prestate(folder_and_gguf_agree, "llama-tiny"),
        cmocka_unit_test_prestate(folder_and_gguf_agree, "qwen2-yarn"),
        cmocka_unit_test(qwen2_tiny_is_read),
        cmocka_unit_test(qwen3_tiny_is_read),
        cmocka_unit_test(llama_tiny_is_read),
        cmocka_unit_test(yarn_and_shards_are_read),
        cmocka_unit_test(smollm2_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
