/* A tiny adapter written as PEFT folder and as LoRA GGUF, each time with one thing different: accepted or refused. */
#include "adapter_support.h"

#include "format/gguf_write.h"
#include "format/safetensors.h"

enum { LAYERS = 2, D_MODEL = 8, HEADS = 2, HEAD_DIM = 4, D_FF = 12, RANK = 2, VOCAB = 10 };

static const ew_config base = {.architecture = EW_ARCHITECTURE_LLAMA,
                               .n_layers = LAYERS,
                               .d_model = D_MODEL,
                               .n_heads = HEADS,
                               .n_kv_heads = HEADS,
                               .head_dim = HEAD_DIM,
                               .d_ff = D_FF,
                               .vocab_size = VOCAB,
                               .context_length = 64};

static char folder[64], path[128];

static int set_up(void **state) {
    (void)state;
    make_test_folder(folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_adapter_folder(folder);
    return 0;
}

static void write_config(const char *text) {
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* `sentence` NULL: it opens. */
static void assert_opens(const char *where, const char *sentence, const char *what) {
    ew_adapter_file *file = NULL;
    ew_error error = {0};
    ew_status status = ew_adapter_open(where, &base, &file, &error);
    if (sentence ? status == EW_OK || !strstr(error.message, sentence) : status != EW_OK) {
        fail_msg("%s: expected \"%s\", got \"%s\"", what, sentence ? sentence : "success", error.message);
    }
    assert_true((status == EW_OK) == (file != NULL));
    ew_adapter_close(file);
}

/* One tensor of a file; rows 0 ends a list. */
typedef struct piece {
    const char *name;
    uint64_t rows, cols;
    ew_dtype type;
} piece;

static const uint8_t zeros[4096];

static size_t bytes_of(const piece *p) {
    return (size_t)(p->rows * p->cols) * ew_dtype_block_bytes(p->type);
}

static void write_model(const piece *pieces) {
    ew_safetensors_writer writer;
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    EW_ASSERT_OK(ew_safetensors_writer_open(path, &writer, error));
    for (const piece *p = pieces; p->rows > 0; p++) {
        ew_safetensors_write_tensor(&writer, p->name, p->type, 2, (uint64_t[]){p->rows, p->cols});
    }
    EW_ASSERT_OK(ew_safetensors_writer_begin(&writer, error));
    for (const piece *p = pieces; p->rows > 0; p++) {
        EW_ASSERT_OK(ew_safetensors_writer_data(&writer, zeros, bytes_of(p), error));
    }
    EW_ASSERT_OK(ew_safetensors_writer_commit(&writer, error));
}

#define Q0 "base_model.model.model.layers.0.self_attn.q_proj"
#define Q1 "base_model.model.model.layers.1.self_attn.q_proj"

/* q of both layers. */
static const piece right_model[] = {{Q0 ".lora_A.weight", RANK, D_MODEL, EW_DTYPE_F32},
                                    {Q0 ".lora_B.weight", HEADS *HEAD_DIM, RANK, EW_DTYPE_F32},
                                    {Q1 ".lora_A.weight", RANK, D_MODEL, EW_DTYPE_F32},
                                    {Q1 ".lora_B.weight", HEADS *HEAD_DIM, RANK, EW_DTYPE_F32},
                                    {0}};

/* Configurations over the right model. */
static void peft_configurations(void **state) {
    (void)state;
    static const struct {
        const char *members, *sentence;
    } cases[] = {
        {"\"target_modules\":[\"q_proj\"]", NULL},
        {"\"target_modules\":[\"self_attn.q_proj\"]", NULL},
        {"\"target_modules\":[\"model.layers.0.self_attn.q_proj\",\"model.layers.1.self_attn.q_proj\"]", NULL},
        {"\"target_modules\":\".*\\\\.(q_proj|gate)\"", NULL},
        {"\"target_modules\":\"model\\\\.layers\\\\.\\\\d+\\\\.self_attn\\\\.[qz]_proj$\"", NULL},
        {"\"target_modules\":null", NULL},
        {"\"task_type\":\"CAUSAL_LM\"", NULL},
        {"\"target_modules\":[\"q_proj\",\"v_proj\"]", "adapters of 2 of the 4 matrices"},
        {"\"target_modules\":\"all-linear\"", "adapters of 2 of the 14 matrices"},
        {"\"target_modules\":\"all-linear\",\"exclude_modules\":[\"k_proj\",\"v_proj\",\"o_proj\",\"gate_proj\","
         "\"up_proj\",\"down_proj\"]",
         NULL},
        {"\"target_modules\":\"all-linear\",\"exclude_modules\":\".*([kvo]|gate|up|down)_proj\"", NULL},
        {"\"target_modules\":[\"v_proj\"]", "q_proj, which \"target_modules\""},
        {"\"target_modules\":[\"roj\"]", "which \"target_modules\""},
        {"\"target_modules\":[\"q_proj\"],\"layers_to_transform\":[0,1]", NULL},
        {"\"target_modules\":[\"q_proj\"],\"layers_to_transform\":1", "layers.0.self_attn.q_proj, which"},
        {"\"target_modules\":[\"q_proj\"],\"layers_to_transform\":[0],\"layers_pattern\":[\"h\"]", "layers_pattern"},
        {"\"target_modules\":[\"q_proj\"],\"layers_pattern\":\"layers\"", NULL},
        {"\"layers_to_transform\":\"x\"", "\"layers_to_transform\" must be"},
        {"\"target_modules\":{}", "\"target_modules\" must be"},
        {"\"target_modules\":[1]", "\"target_modules\" must be"},
        {"\"target_modules\":\"(\"", "no regular expression"},
        {"\"target_modules\":\"(([a-z_.0-9]*)*)*[XY]\"", "takes too long"},
        {"\"rank_pattern\":{\"(\":3}", "no regular expression"},
        {"\"rank_pattern\":{\"q_proj\":2}", NULL},
        {"\"rank_pattern\":{\"q_proj\":3}", "rank 3, its tensors have 2"},
        {"\"rank_pattern\":{\"_proj\":3}", NULL},
        {"\"rank_pattern\":{\"q.proj\":3}", "rank 3"},
        {"\"rank_pattern\":{\"proj\":3,\"q_proj|v_proj\":2}", NULL},
        {"\"rank_pattern\":{\"layers.1.self_attn.q_proj\":2,\".*\":2,\"q_proj\":9}", NULL},
        {"\"rank_pattern\":[]", "must be an object"},
        {"\"rank_pattern\":{\"q_proj\":null}", "must be a number"},
        {"\"alpha_pattern\":{\"q_proj\":\"4\"}", "must be a number"},
        {"\"alpha_pattern\":{\"q_proj\":0}", "above 0"},
        {"\"alpha_pattern\":{\"k_proj\":0}", NULL},
        {"\"bias\":\"lora_only\"", "lora_only"},
        {"\"use_dora\":true", "DoRA"},
        {"\"lora_bias\":true", "lora_bias"},
        {"\"use_qalora\":true", "QALoRA"},
        {"\"layer_replication\":[[0,1]]", "layer_replication"},
        {"\"trainable_token_indices\":[3]", "trainable_token_indices"},
        {"\"target_parameters\":[\"mlp.experts\"]", "target_parameters"},
        {"\"modules_to_save\":[]", NULL},
        {"\"init_lora_weights\":\"gaussian\"", NULL},
        {"\"init_lora_weights\":\"pissa_niter_16\"", "pissa_niter_16"},
        {"\"use_novel_trick\":true", "use_novel_trick"},
        {"\"use_novel_trick\":false,\"novel_config\":{}", NULL},
        {"\"use_rslora\":1", "true or false"},
        {"\"alora_invocation_tokens\":[1,2]", NULL},
        {"\"alora_invocation_tokens\":[]", NULL},
        {"\"alora_invocation_tokens\":[10]", "invocation token 10"},
        {"\"alora_invocation_tokens\":[-1]", "in no vocabulary"},
        {"\"alora_invocation_tokens\":[\"a\"]", "in no vocabulary"},
        {"\"alora_invocation_tokens\":\"assistant\"", "list of ids"},
    };
    write_model(right_model);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4,%s}", cases[i].members);
        write_config(text);
        assert_opens(folder, cases[i].sentence, cases[i].members);
    }
}

static void peft_texts(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "not valid JSON"},
        {"[]", "no object"},
        {"{\"r\":2,\"lora_alpha\":4}", "(not given)"},
        {"{\"peft_type\":\"LOHA\",\"r\":2,\"lora_alpha\":4}", "LOHA"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":4}", "no \"r\""},
        {"{\"peft_type\":\"LORA\",\"r\":2}", "no \"lora_alpha\""},
        {"{\"peft_type\":\"LORA\",\"r\":-2,\"lora_alpha\":4}", "\"r\" must be"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":-4}", "above 0"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"r\":2,\"lora_alpha\":4}", "not valid JSON"},
        {"{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":4}", "rank 4, its tensors have 2"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4.5}", NULL},
    };
    write_model(right_model);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_config(cases[i].text);
        assert_opens(folder, cases[i].sentence, cases[i].text);
    }
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    unlink(path);
    assert_opens(folder, "adapter_config.json", "no configuration");
    assert_false(ew_adapter_is(folder));
    write_config(cases[10].text);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    unlink(path);
    assert_opens(folder, "adapter_model.safetensors", "no weights");
    snprintf(path, sizeof path, "%s/adapter_model.bin", folder);
    fclose(fopen(path, "w"));
    assert_opens(folder, "adapter_model.bin, which is not supported", "pickled weights");
}

#define PAIR(module, in, out)                                                                                          \
    {module ".lora_A.weight", RANK, in, EW_DTYPE_F32}, {                                                               \
        module ".lora_B.weight", out, RANK, EW_DTYPE_F32                                                               \
    }

static void peft_tensors(void **state) {
    (void)state;
    static const struct {
        const char *sentence;
        piece pieces[8];
    } cases[] = {
        {NULL, {PAIR("model.layers.0.mlp.down_proj", D_FF, D_MODEL)}},
        {NULL, {PAIR("base_model.model.layers.1.mlp.gate_proj", D_MODEL, D_FF)}},
        {NULL,
         {{Q0 ".lora_A.default.weight", RANK, D_MODEL, EW_DTYPE_F16},
          {Q0 ".lora_B.default.weight", HEADS * HEAD_DIM, RANK, EW_DTYPE_BF16}}},
        {"without a single matrix", {{0}}},
        {"lora_A of model.layers.0.self_attn.q_proj (blk.0.attn_q.weight) is missing",
         {{Q0 ".lora_B.weight", HEADS * HEAD_DIM, RANK, EW_DTYPE_F32}}},
        {"is there twice", {PAIR(Q0, D_MODEL, 8), {Q0 ".lora_A.default.weight", RANK, D_MODEL, EW_DTYPE_F32}}},
        {"no rank in common", {{Q0 ".lora_A.weight", 3, 8, EW_DTYPE_F32}, {Q0 ".lora_B.weight", 8, 2, EW_DTYPE_F32}}},
        {"type F64", {{Q0 ".lora_A.weight", 2, 8, EW_DTYPE_F64}, {Q0 ".lora_B.weight", 8, 2, EW_DTYPE_F32}}},
        {"type I8", {{Q0 ".lora_A.weight", 2, 8, EW_DTYPE_F32}, {Q0 ".lora_B.weight", 8, 2, EW_DTYPE_I8}}},
        {"1 of its 1 matrices have no place there, the first is blk.0.attn_q.weight, which is [9, 8]",
         {PAIR(Q0, D_MODEL, 9)}},
        {"1 of its 1 matrices", {PAIR("base_model.model.model.layers.2.mlp.up_proj", D_MODEL, D_FF)}},
        {"DoRA", {PAIR(Q0, 8, 8), {Q0 ".lora_magnitude_vector", 1, 8, EW_DTYPE_F32}}},
        {"an adapter of the embedding",
         {{"base_model.model.model.embed_tokens.lora_embedding_A", 2, 10, EW_DTYPE_F32}}},
        {"an adapter of the head", {PAIR("base_model.model.lm_head", D_MODEL, VOCAB)}},
        {"a bias of the adapter", {{Q0 ".lora_B.bias", 1, 8, EW_DTYPE_F32}}},
        {"LoHa", {{Q0 ".hada_w1_a", 8, 2, EW_DTYPE_F32}}},
        {"for no linear layer", {PAIR("base_model.model.model.layers.0.mlp.router", D_MODEL, 4)}},
        {"for no linear layer", {PAIR("base_model.model.model.layers.00.mlp.up_proj", D_MODEL, D_FF)}},
        {"for no linear layer", {PAIR("base_model.model.model.layers.1234567.mlp.up_proj", D_MODEL, D_FF)}},
        {"for no linear layer", {PAIR("base_model.model.model.layers.0.input_layernorm", D_MODEL, D_FF)}},
        {"for no linear layer", {PAIR("model.vision_tower.layers.0.mlp.up_proj", D_MODEL, D_FF)}},
        {"no LoRA matrix", {{"base_model.model.model.norm.weight", 1, 8, EW_DTYPE_F32}}},
    };
    write_config("{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_model(cases[i].pieces);
        assert_opens(folder, cases[i].sentence, cases[i].sentence ? cases[i].sentence : cases[i].pieces[0].name);
    }
}

/* What is different in a LoRA GGUF file. Zeroed: nothing. */
typedef struct fault {
    const char *sentence;
    const char *architecture, *type, *method; /* NULL: the right ones; "": left out */
    const char *text_key, *text;              /* a further string */
    uint32_t version;                         /* > 0: edgewise.adapter.version */
    float alpha;                              /* 0: the right one; < 0: as it is, or left out if -1 */
    int32_t token;                            /* 0: none */
    piece pieces[8];                          /* none: the right ones */
} fault;

static const piece right_gguf[] = {{"blk.0.attn_q.weight.lora_a", RANK, D_MODEL, EW_DTYPE_F32},
                                   {"blk.0.attn_q.weight.lora_b", HEADS *HEAD_DIM, RANK, EW_DTYPE_F32},
                                   {0}};

static void write_text(ew_gguf_writer *writer, const char *key, const char *text, const char *usual) {
    text = text ? text : usual;
    if (text[0] != '\0') {
        ew_gguf_write_text(writer, key, text);
    }
}

static void write_gguf(const char *name, const fault *f) {
    ew_gguf_writer writer;
    const piece *pieces = f->pieces[0].name ? f->pieces : right_gguf;
    EW_ASSERT_OK(ew_gguf_writer_open(name, &writer, error));
    write_text(&writer, "general.architecture", f->architecture, "llama");
    write_text(&writer, "general.type", f->type, "adapter");
    write_text(&writer, "adapter.type", f->method, "lora");
    if (f->alpha > -1 || f->alpha < -1) {
        ew_gguf_write_f32(&writer, "adapter.lora.alpha", f->alpha > 0 || f->alpha < 0 ? f->alpha : 4);
    }
    if (f->version > 0) {
        ew_gguf_write_u32(&writer, "edgewise.adapter.version", f->version);
    }
    if (f->token != 0) {
        ew_gguf_write_array(&writer, "adapter.alora.invocation_tokens", EW_GGUF_INT32, &f->token, 1);
    }
    if (f->text_key) {
        ew_gguf_write_text(&writer, f->text_key, f->text);
    }
    for (const piece *p = pieces; p->rows > 0; p++) {
        ew_gguf_write_tensor(&writer, p->name, p->type, 2, (uint64_t[]){p->cols, p->rows});
    }
    EW_ASSERT_OK(ew_gguf_writer_begin(&writer, error));
    for (const piece *p = pieces; p->rows > 0; p++) {
        EW_ASSERT_OK(ew_gguf_writer_data(&writer, zeros, bytes_of(p), error));
    }
    EW_ASSERT_OK(ew_gguf_writer_commit(&writer, error));
}

#define A0 "blk.0.attn_q.weight.lora_a"
#define B0 "blk.0.attn_q.weight.lora_b"

static void gguf_files(void **state) {
    (void)state;
    static const fault faults[] = {
        {.sentence = NULL},
        {.sentence = "for a qwen2 model, the base is llama", .architecture = "qwen2"},
        {.sentence = "general.architecture", .architecture = ""},
        {.sentence = "no adapter", .type = "model"},
        {.sentence = "no adapter", .type = ""},
        {.sentence = "adapter.type", .method = ""},
        {.sentence = "control_vector", .method = "control_vector"},
        {.sentence = NULL, .version = 1},
        {.sentence = "version 2; this build reads version 1", .version = 2},
        {.sentence = "adapter.lora.alpha", .alpha = -1},
        {.sentence = "above 0", .alpha = -4},
        {.sentence = NULL, .token = 3},
        {.sentence = "in no vocabulary", .token = -3},
        {.sentence = "base's vocabulary of 10", .token = 10},
        {.sentence = "64 hexadecimal digits", .text_key = "edgewise.base.source", .text = "abc"},
        {.sentence = "64 hexadecimal digits",
         .text_key = "edgewise.base.weights",
         .text = "ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef0123456789"},
        {.sentence = "lora_B of model.layers.0.self_attn.q_proj", .pieces = {{A0, 2, 8, EW_DTYPE_F32}}},
        {.sentence = NULL,
         .pieces = {{A0, 2, 8, EW_DTYPE_I8},
                    {A0 ".scale", 1, 2, EW_DTYPE_F32},
                    {B0, 8, 2, EW_DTYPE_I8},
                    {B0 ".scale", 1, 8, EW_DTYPE_F32}}},
        {.sentence = "type I8 and no scales", .pieces = {{A0, 2, 8, EW_DTYPE_I8}, {B0, 8, 2, EW_DTYPE_F32}}},
        {.sentence = "which only I8 has",
         .pieces = {{A0, 2, 8, EW_DTYPE_F32}, {B0, 8, 2, EW_DTYPE_F32}, {B0 ".scale", 1, 8, EW_DTYPE_F32}}},
        {.sentence = "must be 8 values of type F32",
         .pieces = {{A0, 2, 8, EW_DTYPE_F32}, {B0, 8, 2, EW_DTYPE_I8}, {B0 ".scale", 1, 7, EW_DTYPE_F32}}},
        {.sentence = "must be 8 values of type F32",
         .pieces = {{A0, 2, 8, EW_DTYPE_F32}, {B0, 8, 2, EW_DTYPE_I8}, {B0 ".scale", 1, 8, EW_DTYPE_F16}}},
        {.sentence = "type I32", .pieces = {{A0, 2, 8, EW_DTYPE_I32}, {B0, 8, 2, EW_DTYPE_F32}}},
        {.sentence = "[10, 8] in the adapter and [8, 8]",
         .pieces = {{A0, 2, 8, EW_DTYPE_F32}, {B0, 10, 2, EW_DTYPE_F32}}},
        {.sentence = "an adapter of the embedding", .pieces = {{"token_embd.weight.lora_a", 2, 8, EW_DTYPE_F32}}},
        {.sentence = "an adapter of the head", .pieces = {{"output.weight.lora_a", 2, 8, EW_DTYPE_F32}}},
        {.sentence = "no LoRA matrix", .pieces = {{"blk.0.attn_norm.weight.lora_a", 2, 8, EW_DTYPE_F32}}},
        {.sentence = "no LoRA matrix", .pieces = {{"blk.0.attn_q.weight", 8, 8, EW_DTYPE_F32}}},
        {.sentence = "no LoRA matrix", .pieces = {{".lora_a", 8, 8, EW_DTYPE_F32}}},
    };
    snprintf(path, sizeof path, "%s/adapter_model.bin", folder); /* a name that tear_down removes */
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        write_gguf(path, &faults[i]);
        assert_opens(path, faults[i].sentence, faults[i].sentence ? faults[i].sentence : "a right file");
    }
    assert_opens("/nowhere/adapter.gguf", "cannot open", "no file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(peft_configurations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peft_texts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peft_tensors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gguf_files, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
