/* A tiny llama model written as folder and as GGUF, each time with one thing wrong. */
#include "support.h"

#include "format/checkpoint.h"
#include "format/safetensors.h"

#include <unistd.h>

enum { LAYERS = 1, D_MODEL = 8, HEADS = 2, KV_HEADS = 1, HEAD_DIM = 4, D_FF = 12, VOCAB = 10 };

typedef struct weight {
    const char *name, *folder_name;
    uint64_t rows, cols; /* rows 0: a vector */
} weight;

static const weight weights[] = {
    {"token_embd.weight", "model.embed_tokens.weight", VOCAB, D_MODEL},
    {"output_norm.weight", "model.norm.weight", 0, D_MODEL},
    {"output.weight", "lm_head.weight", VOCAB, D_MODEL},
    {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight", 0, D_MODEL},
    {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight", HEADS *HEAD_DIM, D_MODEL},
    {"blk.0.attn_q.bias", "model.layers.0.self_attn.q_proj.bias", 0, HEADS *HEAD_DIM},
    {"blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight", KV_HEADS *HEAD_DIM, D_MODEL},
    {"blk.0.attn_k.bias", "model.layers.0.self_attn.k_proj.bias", 0, KV_HEADS *HEAD_DIM},
    {"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight", KV_HEADS *HEAD_DIM, D_MODEL},
    {"blk.0.attn_v.bias", "model.layers.0.self_attn.v_proj.bias", 0, KV_HEADS *HEAD_DIM},
    {"blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight", D_MODEL, HEADS *HEAD_DIM},
    {"blk.0.attn_output.bias", "model.layers.0.self_attn.o_proj.bias", 0, D_MODEL},
    {"blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight", 0, D_MODEL},
    {"blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight", D_FF, D_MODEL},
    {"blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight", D_FF, D_MODEL},
    {"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight", D_MODEL, D_FF},
};

enum { N_WEIGHTS = sizeof weights / sizeof *weights };

/* What is wrong this time. Zeroed: nothing. */
typedef struct fault {
    const char *sentence;
    const char *omit;        /* canonical name */
    const char *extra;       /* a further vector of 3 */
    const char *reshape;     /* canonical name of a tensor that gets one more column */
    const char *retype;      /* canonical name of a tensor stored as I16 */
    const char *version_key; /* GGUF: a further uint32 ... */
    uint32_t version;        /* ... of this value */
    bool tied;               /* config says tied (folder) */
} fault;

static bool is(const char *name, const char *wanted) {
    return wanted && strcmp(name, wanted) == 0;
}

/* 2-byte floats: every element counts up from 0, so that any row can be told from any other. */
static void fill(uint16_t *values, size_t count, size_t start) {
    for (size_t i = 0; i < count; i++) {
        values[i] = (uint16_t)(0x3c00 + start + i);
    }
}

static size_t shape_of(const weight *w, const fault *f, uint64_t *rows, uint64_t *cols) {
    *rows = w->rows > 0 ? w->rows : 1;
    *cols = w->cols + is(w->name, f->reshape);
    return (size_t)(*rows * *cols);
}

static void write_text(const char *folder, const char *name, const char *text) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void write_folder_weights(const char *path, const fault *f, size_t from, size_t to) {
    ew_safetensors_writer writer;
    ew_error error;
    uint16_t values[256];
    uint64_t rows, cols;
    assert_int_equal(ew_safetensors_writer_open(path, &writer, &error), EW_OK);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = from; i < to; i++) {
            const weight *w = &weights[i];
            size_t count = shape_of(w, f, &rows, &cols);
            if (is(w->name, f->omit)) {
                continue;
            }
            fill(values, count, 0);
            if (pass == 0) {
                ew_dtype type = is(w->name, f->retype) ? EW_DTYPE_I16 : EW_DTYPE_F16;
                const uint64_t shape[2] = {w->rows > 0 ? rows : cols, cols};
                ew_safetensors_write_tensor(&writer, w->folder_name, type, w->rows > 0 ? 2 : 1, shape);
            } else {
                assert_int_equal(ew_safetensors_writer_data(&writer, values, count * 2, &error), EW_OK);
            }
        }
        if (f->extra && pass == 0) {
            ew_safetensors_write_tensor(&writer, f->extra, EW_DTYPE_F16, 1, (uint64_t[]){3});
        } else if (f->extra) {
            assert_int_equal(ew_safetensors_writer_data(&writer, values, 6, &error), EW_OK);
        }
        if (pass == 0) {
            assert_int_equal(ew_safetensors_writer_begin(&writer, &error), EW_OK);
        }
    }
    assert_int_equal(ew_safetensors_writer_commit(&writer, &error), EW_OK);
}

static void write_config(const char *folder, bool tied) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":8,\"num_attention_heads\":2,"
             "\"num_key_value_heads\":1,\"head_dim\":4,\"intermediate_size\":12,\"vocab_size\":10,"
             "\"max_position_embeddings\":64,\"attention_bias\":true,\"tie_word_embeddings\":%s}",
             tied ? "true" : "false");
    write_text(folder, "config.json", text);
}

static void empty_folder(const char *folder) {
    static const char *const names[] = {
        "config.json",      "model.safetensors", "model.safetensors.index.json",
        "a.safetensors",    "b.safetensors",     "tokenizer.model",
        "pytorch_model.bin"};
    char path[160];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
}

static void make_folder(char folder[64]) {
    snprintf(folder, 64, "/tmp/ew-test-checkpoint-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static void write_gguf(const char *path, const fault *f) {
    ew_gguf_writer writer;
    ew_error error;
    uint16_t values[256];
    uint64_t rows, cols;
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"llama.block_count", 1},
                 {"llama.context_length", 64},
                 {"llama.embedding_length", D_MODEL},
                 {"llama.feed_forward_length", D_FF},
                 {"llama.attention.head_count", HEADS},
                 {"llama.attention.head_count_kv", KV_HEADS},
                 {"llama.vocab_size", VOCAB}};
    assert_int_equal(ew_gguf_writer_open(path, &writer, &error), EW_OK);
    ew_gguf_write_text(&writer, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ew_gguf_write_u32(&writer, sizes[i].key, sizes[i].value);
    }
    ew_gguf_write_f32(&writer, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
    if (f->version_key) {
        ew_gguf_write_u32(&writer, f->version_key, f->version);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < N_WEIGHTS; i++) {
            const weight *w = &weights[i];
            size_t count = shape_of(w, f, &rows, &cols);
            if (is(w->name, f->omit)) {
                continue;
            }
            fill(values, count, 0);
            if (pass == 0) {
                ew_dtype type = is(w->name, f->retype) ? EW_DTYPE_I16 : EW_DTYPE_F16;
                ew_gguf_write_tensor(&writer, w->name, type, w->rows > 0 ? 2 : 1, (uint64_t[]){cols, rows});
            } else {
                assert_int_equal(ew_gguf_writer_data(&writer, values, count * 2, &error), EW_OK);
            }
        }
        if (f->extra && pass == 0) {
            ew_gguf_write_tensor(&writer, f->extra, EW_DTYPE_F16, 1, (uint64_t[]){3});
        } else if (f->extra) {
            assert_int_equal(ew_gguf_writer_data(&writer, values, 6, &error), EW_OK);
        }
        if (pass == 0) {
            assert_int_equal(ew_gguf_writer_begin(&writer, &error), EW_OK);
        }
    }
    assert_int_equal(ew_gguf_writer_commit(&writer, &error), EW_OK);
}

static void assert_sentence(const char *path, const char *sentence) {
    ew_checkpoint *cp = NULL;
    ew_error error = {0};
    ew_status status = ew_checkpoint_open(path, &cp, &error);
    if (sentence ? status == EW_OK || !strstr(error.message, sentence) : status != EW_OK) {
        fail_msg("expected \"%s\", got \"%s\"", sentence ? sentence : "success", error.message);
    }
    ew_checkpoint_close(cp);
}

static void folders_with_one_fault(void **state) {
    (void)state;
    static const fault faults[] = {
        {.sentence = NULL},
        {.sentence = "model.layers.0.self_attn.k_proj.weight (blk.0.attn_k.weight) is missing",
         .omit = "blk.0.attn_k.weight"},
        {.sentence = "lm_head.weight (output.weight) is missing", .omit = "output.weight"},
        {.sentence = "k_proj.weight has shape [4, 9], expected [4, 8]", .reshape = "blk.0.attn_k.weight"},
        {.sentence = "norm.weight has shape [9], expected [8]", .reshape = "output_norm.weight"},
        {.sentence = "up_proj.weight has type I16", .retype = "blk.0.ffn_up.weight"},
        {.sentence = "holds a tensor model.layers.1.input_layernorm.weight",
         .extra = "model.layers.1.input_layernorm.weight"},
        {.sentence = NULL, .extra = "model.layers.0.self_attn.rotary_emb.inv_freq"},
        {.sentence = NULL, .tied = true},
        {.sentence = NULL, .tied = true, .omit = "output.weight"},
        {.sentence = "lm_head.weight differs", .tied = true, .retype = "output.weight"},
    };
    char folder[64], path[160];
    make_folder(folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        write_config(folder, faults[i].tied);
        write_folder_weights(path, &faults[i], 0, N_WEIGHTS);
        assert_sentence(folder, faults[i].sentence);
    }
    write_text(folder, "tokenizer.model", "x");
    assert_sentence(folder, "SentencePiece");
    empty_folder(folder);
    rmdir(folder);
}

static void ggufs_with_one_fault(void **state) {
    (void)state;
    static const fault faults[] = {
        {.sentence = NULL},
        {.sentence = "blk.0.attn_k.weight is missing", .omit = "blk.0.attn_k.weight"},
        {.sentence = "blk.0.attn_k.weight has shape [4, 9], expected [4, 8]",
         .reshape = "blk.0.attn_k.weight"},
        {.sentence = "blk.0.ffn_up.weight has type I16", .retype = "blk.0.ffn_up.weight"},
        {.sentence = "holds a tensor blk.1.attn_norm.weight", .extra = "blk.1.attn_norm.weight"},
        {.sentence = "holds a tensor blk.7.attn_q.bias", .extra = "blk.7.attn_q.bias"},
        {.sentence = NULL, .omit = "output.weight"},
        {.sentence = "rope_freqs.weight must be 2 values", .extra = "rope_freqs.weight"},
        {.sentence = "version 2; this build reads version 1",
         .version_key = "edgewise.version",
         .version = 2},
        {.sentence = "one of 3 parts", .version_key = "split.count", .version = 3},
        {.sentence = "edgewise.config.rope_theta is missing",
         .version_key = "edgewise.version",
         .version = 1},
    };
    char folder[64], path[160];
    make_folder(folder);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        write_gguf(path, &faults[i]);
        assert_sentence(path, faults[i].sentence);
    }
    empty_folder(folder);
    rmdir(folder);
}

static void shards_are_checked(void **state) {
    (void)state;
    static const struct {
        const char *index, *sentence;
    } cases[] = {
        {"{\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\",\"model.norm.weight\":\"a."
         "safetensors\","
         "\"model.layers.0.mlp.up_proj.weight\":\"b.safetensors\"}}",
         NULL},
        {"{\"weight_map\":{\"model.norm.weight\":\"../a.safetensors\"}}", "no file name inside the folder"},
        {"{\"weight_map\":{\"model.norm.weight\":\"/etc/passwd\"}}", "no file name inside the folder"},
        {"{\"weight_map\":{\"model.norm.weight\":3}}", "no file name inside the folder"},
        {"{\"weight_map\":{\"model.norm.weight\":\"b.safetensors\"}}",
         "lies in b.safetensors, but it does not"},
        {"{\"weight_map\":{\"model.norm.weight\":\"c.safetensors\"}}", "cannot open"},
        {"{\"weight_map\":{\"model.norm.weight\":\"a.safetensors\"}}", "is missing"},
        {"{\"weight_map\":[]}", "no \"weight_map\""},
        {"{", "not valid JSON"},
    };
    char folder[64], path[160];
    const fault none = {0};
    make_folder(folder);
    write_config(folder, false);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    write_folder_weights(path, &none, 0, 8);
    snprintf(path, sizeof path, "%s/b.safetensors", folder);
    write_folder_weights(path, &none, 8, N_WEIGHTS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(folder, "model.safetensors.index.json", cases[i].index);
        assert_sentence(folder, cases[i].sentence);
    }
    write_folder_weights(path, &none, 7, N_WEIGHTS);
    write_text(folder, "model.safetensors.index.json", cases[0].index);
    assert_sentence(folder, "k_proj.bias lies in two shards");
    empty_folder(folder);
    assert_sentence(folder, "no config.json");
    write_config(folder, false);
    assert_sentence(folder, "no model.safetensors");
    write_text(folder, "pytorch_model.bin", "x");
    assert_sentence(folder, "pytorch_model.bin");
    empty_folder(folder);
    rmdir(folder);
    assert_sentence(folder, "cannot open");
}

/* Biases of q and k are interleaved in llama files as the rows are: 0 1 2 3 of a head is stored for 0 2 1 3.
 */
static void interleaved_biases_are_put_in_order(void **state) {
    (void)state;
    char folder[64], path[160];
    const fault none = {0};
    ew_checkpoint *cp;
    float row[D_MODEL];
    make_folder(folder);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    write_gguf(path, &none);
    assert_int_equal(ew_checkpoint_open(path, &cp, NULL), EW_OK);
    assert_int_equal(ew_tensor_read_row(ew_checkpoint_find(cp, "blk.0.attn_q.bias"), 0, row, NULL), EW_OK);
    static const int order[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    for (int i = 0; i < 8; i++) {
        assert_true(row[i] == 1 + (float)order[i] / 1024);
    }
    const ew_tensor *q = ew_checkpoint_find(cp, "blk.0.attn_q.weight");
    for (int i = 0; i < 8; i++) {
        assert_int_equal(ew_tensor_row(q, i) - q->data, order[i] * D_MODEL * 2);
    }
    ew_checkpoint_close(cp);
    empty_folder(folder);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_with_one_fault),
        cmocka_unit_test(ggufs_with_one_fault),
        cmocka_unit_test(shards_are_checked),
        cmocka_unit_test(interleaved_biases_are_put_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
