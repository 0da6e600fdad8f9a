#include "support.h"

#include "format/config.h"
#include "gguf_builder.h"

#include <unistd.h>

#define SIZES                                                                                                \
    "\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2,"        \
    "\"intermediate_size\":128,\"vocab_size\":320,\"max_position_embeddings\":1024"
#define QWEN2 "{\"model_type\":\"qwen2\"," SIZES
#define QWEN3 "{\"model_type\":\"qwen3\",\"head_dim\":32," SIZES
#define LLAMA "{\"model_type\":\"llama\"," SIZES

static ew_status read_texts(const char *config_text, const char *generation, const char *tokenizer_config,
                            const char *tokenizer, ew_config *config, ew_error *error) {
    ew_config_texts texts = {0};
    texts.config = ew_string_of(config_text);
    if (generation) {
        texts.generation = ew_string_of(generation);
    }
    if (tokenizer_config) {
        texts.tokenizer_config = ew_string_of(tokenizer_config);
    }
    if (tokenizer) {
        texts.tokenizer = ew_string_of(tokenizer);
    }
    return ew_config_from_texts(&texts, "folder", config, error);
}

static void assert_refused(size_t number, ew_status status, const ew_error *error, const char *sentence) {
    if (status == EW_OK || !strstr(error->message, sentence)) {
        fail_msg("case %zu: expected \"%s\", got \"%s\"", number, sentence, error->message);
    }
}

static void what_is_unsupported_or_wrong_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "not valid JSON"},
        {"[]", "no object"},
        {"{}", "model_type"},
        {"{\"model_type\":\"mistral\"," SIZES "}", "architecture mistral"},
        {"{\"model_type\":\"gemma2\"}", "qwen2, qwen3 and llama are"},
        {"{\"model_type\":7}", "\"model_type\" must be a string"},
        {QWEN2 ",\"architectures\":[\"Qwen2ForSequenceClassification\"]}", "Qwen2ForSequenceClassification"},
        {QWEN2 ",\"quantization_config\":{\"quant_method\":\"gptq\"}}", "gptq"},
        {"{\"model_type\":\"llama\"}", "no \"num_hidden_layers\""},
        {QWEN2 ",\"use_sliding_window\":true}", "sliding-window"},
        {LLAMA ",\"sliding_window\":4096}", "sliding-window"},
        {QWEN3 ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}", "sliding_attention"},
        {LLAMA ",\"mlp_bias\":true}", "mlp_bias"},
        {LLAMA ",\"hidden_act\":\"gelu\"}", "activation gelu"},
        {LLAMA ",\"partial_rotary_factor\":0.5}", "partial_rotary_factor"},
        {LLAMA ",\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2}}", "RoPE scaling dynamic"},
        {LLAMA ",\"rope_scaling\":{\"type\":\"longrope\"}}", "RoPE scaling longrope"},
        {LLAMA ",\"rope_scaling\":{\"type\":\"yarn\"}}", "yarn has no \"factor\""},
        {LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}",
         "factor of the RoPE scaling is 0.5"},
        {LLAMA ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"magic\":1}}", "RoPE parameter magic"},
        {LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1}}",
         "high_freq_factor"},
        {LLAMA
         ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4}}",
         "ascending"},
        {LLAMA ",\"rope_scaling\":[]}", "no object"},
        {LLAMA ",\"rope_theta\":0}", "base of the RoPE"},
        {LLAMA ",\"rms_norm_eps\":0}", "epsilon"},
        {LLAMA ",\"rms_norm_eps\":\"small\"}", "\"rms_norm_eps\" must be a number"},
        {LLAMA ",\"head_dim\":15}", "must be even"},
        {LLAMA ",\"head_dim\":512}", "head size is 512; 1 to 256"},
        {LLAMA ",\"head_dim\":0}", "head size is 0"},
        {"{\"model_type\":\"qwen3\"," SIZES "}", "no \"head_dim\""},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,"
         "\"num_key_value_heads\":3,\"intermediate_size\":128,\"vocab_size\":320,\"max_position_embeddings\":"
         "8}",
         "no multiple of 3"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":0,"
         "\"intermediate_size\":128,\"vocab_size\":320,\"max_position_embeddings\":8}",
         "head_dim"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2000000000,\"hidden_size\":64,\"num_attention_"
         "heads\":4,"
         "\"intermediate_size\":128,\"vocab_size\":320,\"max_position_embeddings\":8}",
         "number of layers is 2000000000"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":"
         "4611686018427387904,"
         "\"intermediate_size\":128,\"vocab_size\":320,\"max_position_embeddings\":8,\"head_dim\":4}",
         "attention heads is 4611686018427387904"},
        {LLAMA ",\"eos_token_id\":320}", "token 320"},
        {LLAMA ",\"eos_token_id\":[1,\"2\"]}", "eos_token_id"},
        {LLAMA ",\"eos_token_id\":-1}", "eos_token_id"},
        {LLAMA ",\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}", "more than 16"},
        {LLAMA ",\"bos_token_id\":99999999999}", "begin token"},
        {LLAMA ",\"vocab_size\":320}", "duplicate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ew_config config;
        ew_error error = {0};
        ew_status status = read_texts(cases[i].text, NULL, NULL, NULL, &config, &error);
        assert_refused(i, status, &error, cases[i].sentence);
    }
}

static void generation_and_tokenizer_files_count(void **state) {
    (void)state;
    ew_config config;
    ew_error error = {0};
    assert_int_equal(
        read_texts(QWEN2 ",\"eos_token_id\":7,\"tie_word_embeddings\":true}",
                   "{\"eos_token_id\":[9,7,3],\"temperature\":0.6,\"do_sample\":true,\"min_p\":null}",
                   "{\"bos_token\":null,\"eos_token\":{\"content\":\"<end>\"},"
                   "\"added_tokens_decoder\":{\"11\":{\"content\":\"<end>\"}}}",
                   NULL, &config, &error),
        EW_OK);
    assert_int_equal(config.n_eos, 4);
    assert_memory_equal(config.eos_ids, ((int32_t[]){3, 7, 9, 11}), 16);
    assert_true(config.sampling.temperature == 0.6 && config.sampling.do_sample &&
                config.sampling.top_p == 1);
    assert_true(config.tied_embeddings && config.qkv_bias && !config.add_bos);
    assert_int_equal(config.bos_id, -1);
    assert_true(config.rope.theta == 10000 && config.rms_norm_eps == 1e-6f);

    static const char post[] =
        "{\"model\":{\"vocab\":{\"post_processor\":1,\"}\\\"\":[2]}}, \"post_processor\" : "
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}],"
        "\"special_tokens\":{\"<s>\":{\"ids\":[5]}}} }";
    assert_int_equal(read_texts(LLAMA "}", NULL, NULL, post, &config, &error), EW_OK);
    assert_true(config.add_bos && config.bos_id == 5);
    assert_int_equal(read_texts(LLAMA "}", NULL, "{\"add_bos_token\":false}", post, &config, &error), EW_OK);
    assert_false(config.add_bos);
    assert_int_equal(read_texts(LLAMA ",\"attention_bias\":true}", NULL, NULL, "{\"post_processor\": null }",
                                &config, &error),
                     EW_OK);
    assert_true(config.qkv_bias && config.o_bias && !config.add_bos);
    assert_refused(0, read_texts(LLAMA "}", NULL, "{\"add_bos_token\":true}", NULL, &config, &error), &error,
                   "begin token");
    assert_refused(1, read_texts(LLAMA "}", "{\"top_p\":0}", NULL, NULL, &config, &error), &error, "top_p");
    assert_refused(2, read_texts(LLAMA "}", "{\"temperature\":-1}", NULL, NULL, &config, &error), &error,
                   "temperature");
    assert_refused(3, read_texts(LLAMA "}", "{\"repetition_penalty\":0}", NULL, NULL, &config, &error),
                   &error, "repetition penalty");
}

/* What an Edgewise file stores comes back to the bit; config is compared as memory, so it was zeroed first.
 */
static void own_keys_come_back(void **state) {
    (void)state;
    static const char *const texts[] = {
        QWEN2 ",\"tie_word_embeddings\":true,\"eos_token_id\":[7,9],\"bos_token_id\":3}",
        QWEN3
        ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":123456.7,\"factor\":4.1,"
        "\"original_max_position_embeddings\":77,\"beta_fast\":31,\"mscale\":0.7,\"mscale_all_dim\":0.3,"
        "\"truncate\":false}}",
        LLAMA ",\"rms_norm_eps\":1e-5,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
              "\"low_freq_factor\":1.1,\"high_freq_factor\":4,\"original_max_position_embeddings\":64}}",
        LLAMA ",\"attention_bias\":true,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":3}}",
        LLAMA "}",
    };
    char path[] = "/tmp/ew-test-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ew_config before, after;
        ew_error error = {0};
        memset(&before, 0, sizeof before);
        memset(&after, 0, sizeof after);
        if (read_texts(texts[i], "{\"temperature\":0.7,\"top_k\":20,\"min_p\":0.1}", NULL, NULL, &before,
                       &error) != EW_OK) {
            fail_msg("%s", error.message);
        }
        if (i == 4) {
            before.rope.scaling = EW_ROPE_DIVISORS;
            for (size_t j = 0; j < before.head_dim / 2; j++) {
                before.rope.divisors[j] = 1 + (float)j / 3;
            }
        }
        ew_gguf_writer writer;
        ew_gguf *gguf;
        assert_int_equal(ew_gguf_writer_open(path, &writer, &error), EW_OK);
        ew_gguf_write_u32(&writer, "edgewise.version", 1);
        ew_config_write_gguf(&before, &writer);
        assert_int_equal(ew_gguf_writer_begin(&writer, &error), EW_OK);
        assert_int_equal(ew_gguf_writer_commit(&writer, &error), EW_OK);
        assert_int_equal(ew_gguf_open(path, &gguf, &error), EW_OK);
        if (ew_config_from_gguf(gguf, &after, &error) != EW_OK) {
            fail_msg("case %zu: %s", i, error.message);
        }
        ew_buffer a = {0}, b = {0};
        ew_config_describe(&before, &a);
        ew_config_describe(&after, &b);
        assert_string_equal(a.data, b.data);
        ew_buffer_free(&a);
        ew_buffer_free(&b);
        assert_memory_equal(&before.rope, &after.rope, sizeof before.rope);
        assert_memory_equal(&before.sampling, &after.sampling, sizeof before.sampling);
        assert_memory_equal(before.eos_ids, after.eos_ids, sizeof before.eos_ids);
        assert_int_equal(before.n_eos, after.n_eos);
        assert_int_equal(before.bos_id, after.bos_id);
        assert_int_equal(before.context_length, after.context_length);
        ew_gguf_close(gguf);
    }
    unlink(path);
}

/* A GGUF header of metadata only; `extra` adds one entry. */
static ew_status read_gguf(const char *architecture, void (*extra)(ew_buffer *), ew_config *config,
                           ew_error *error) {
    static const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"block_count", 2},           {"context_length", 128},     {"embedding_length", 64},
                 {"feed_forward_length", 128}, {"attention.head_count", 4}, {"attention.head_count_kv", 2},
                 {"vocab_size", 100}};
    ew_buffer b = {0};
    char key[64];
    ew_gguf *gguf;
    size_t n_sizes = sizeof sizes / sizeof *sizes;
    put_header(&b, 3, 0, n_sizes + 2 + (extra != NULL));
    put_key_text(&b, "general.architecture", architecture);
    for (size_t i = 0; i < n_sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, sizes[i].name);
        put_key_u32(&b, key, sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    put_key_f32(&b, key, 1e-5f);
    if (extra) {
        extra(&b);
    }
    ew_status status = ew_gguf_open_memory((const uint8_t *)b.data, b.length, "file", &gguf, error);
    if (status == EW_OK) {
        status = ew_config_from_gguf(gguf, config, error);
        ew_gguf_close(gguf);
    }
    ew_buffer_free(&b);
    return status;
}

static void sentence_piece(ew_buffer *b) {
    put_key_text(b, "tokenizer.ggml.model", "llama");
}
static void adapter(ew_buffer *b) {
    put_key_text(b, "general.type", "adapter");
}
static void window(ew_buffer *b) {
    put_key_u32(b, "llama.attention.sliding_window", 4096);
}
static void experts(ew_buffer *b) {
    put_key_u32(b, "llama.expert_count", 8);
}
static void no_experts(ew_buffer *b) {
    put_key_u32(b, "llama.expert_count", 0);
}
static void partial_rope(ew_buffer *b) {
    put_key_u32(b, "llama.rope.dimension_count", 8);
}
static void longrope(ew_buffer *b) {
    put_key_text(b, "llama.rope.scaling.type", "longrope");
}
static void heads_as_text(ew_buffer *b) {
    put_key_text(b, "llama.attention.key_length", "16");
}
static void negative_eps(ew_buffer *b) {
    put_key_f32(b, "llama.rope.freq_base", -1);
}
static void end_token_outside(ew_buffer *b) {
    put_key_u32(b, "tokenizer.ggml.eos_token_id", 100);
}

static void gguf_metadata_is_checked(void **state) {
    (void)state;
    static const struct {
        const char *architecture;
        void (*extra)(ew_buffer *);
        const char *sentence;
    } cases[] = {
        {"gemma", NULL, "architecture gemma"},
        {"llama", sentence_piece, "SentencePiece"},
        {"llama", adapter, "type adapter"},
        {"llama", window, "attention.sliding_window = 4096"},
        {"llama", experts, "expert_count = 8"},
        {"llama", partial_rope, "8 RoPE dimensions"},
        {"llama", longrope, "longrope"},
        {"llama", heads_as_text, "one integer is right"},
        {"llama", negative_eps, "base of the RoPE"},
        {"llama", end_token_outside, "token 100"},
    };
    ew_config config;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ew_error error = {0};
        ew_status status = read_gguf(cases[i].architecture, cases[i].extra, &config, &error);
        assert_refused(i, status, &error, cases[i].sentence);
    }
    assert_int_equal(read_gguf("llama", NULL, &config, NULL), EW_OK);
    assert_int_equal(read_gguf("llama", no_experts, &config, NULL), EW_OK);
    assert_int_equal(config.head_dim, 16);
    assert_int_equal(config.vocab_size, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_unsupported_or_wrong_is_named),
        cmocka_unit_test(generation_and_tokenizer_files_count),
        cmocka_unit_test(own_keys_come_back),
        cmocka_unit_test(gguf_metadata_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
