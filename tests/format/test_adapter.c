/* Golden adapters: PEFT's and llama.cpp's files hold the same thing, and what must be refused is. */
#include "adapter_support.h"
#include "golden.h"

#include <math.h>

static void peft_folders_open(void **state) {
    (void)state;
    static const struct {
        const char *model, *folder;
        size_t n_targets, rank;
    } cases[] = {
        {"qwen2-tiny", "goldens/lora/adapters/qwen2-tiny.plain", 14, 4},
        {"qwen2-tiny", "goldens/lora/adapters/qwen2-tiny.rslora", 14, 4},
        {"qwen2-tiny", "goldens/alora/adapters/qwen2-tiny.masked", 14, 4},
        {"llama-tiny", "goldens/lora/adapters/llama-tiny.plain", 21, 4},
        {"llama-tiny", "goldens/lora/adapters/llama-tiny.rslora", 21, 4},
    };
    ew_config base;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ew_adapter_file *file = golden_base(cases[i].model, &base) ? open_golden(cases[i].folder, &base) : NULL;
        if (!file) {
            skip();
        }
        const ew_lora *adapter = ew_adapter_file_content(file);
        assert_int_equal(ew_adapter_file_kind(file), EW_ADAPTER_PEFT);
        assert_int_equal(adapter->n_targets, cases[i].n_targets);
        assert_string_equal(adapter->name, strrchr(cases[i].folder, '/') + 1);
        assert_string_equal(adapter->base_name, cases[i].model);
        assert_string_equal(adapter->targets[0].name, "blk.0.attn_q.weight");
        assert_int_equal(adapter->targets[0].rank, cases[i].rank);
        assert_true(ew_lora_scale(adapter, &adapter->targets[0]) == (adapter->rslora ? 4.0 : 2.0));
        assert_null(ew_lora_find(adapter, "blk.99.attn_q.weight"));
        assert_null(ew_lora_find(adapter, "output.weight"));
        assert_true(ew_adapter_is(ew_adapter_file_path(file)));
        ew_adapter_close(file);
    }
}

/* Ranks and scales as PEFT gives them to every module. */
static void patterns_and_roots_give_scales(void **state) {
    const char *adapter_name = *state;
    char model[16], relative[128];
    ew_config base;
    snprintf(model, sizeof model, "%.10s", adapter_name);
    snprintf(relative, sizeof relative, "goldens/lora/%s.json", adapter_name);
    json_t *golden = golden_json(relative), *scale;
    snprintf(relative, sizeof relative, "goldens/lora/adapters/%s", adapter_name);
    ew_adapter_file *file = golden && golden_base(model, &base) ? open_golden(relative, &base) : NULL;
    if (!file) {
        json_decref(golden);
        skip();
    }
    static const char *const names[][2] = {{"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
                                           {"self_attn.v_proj", "attn_v"},      {"mlp.gate_proj", "ffn_gate"},
                                           {"self_attn.o_proj", "attn_output"}, {"mlp.up_proj", "ffn_up"},
                                           {"mlp.down_proj", "ffn_down"}};
    const ew_lora *adapter = ew_adapter_file_content(file);
    const char *module;
    size_t count = 0;
    json_object_foreach(json_object_get(golden, "scales"), module, scale) {
        unsigned layer;
        char rest[64], name[64] = "";
        assert_int_equal(sscanf(module, "model.layers.%u.%63s", &layer, rest), 2);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (strcmp(names[i][0], rest) == 0) {
                snprintf(name, sizeof name, "blk.%u.%s.weight", layer, names[i][1]);
            }
        }
        const ew_lora_target *target = ew_lora_find(adapter, name);
        assert_non_null(target);
        assert_true(fabs(ew_lora_scale(adapter, target) - json_number_value(scale)) < 1e-15);
        assert_int_equal(target->rank, json_integer_value(json_object_get(json_object_get(golden, "ranks"), module)));
        count++;
    }
    assert_int_equal(count, adapter->n_targets);
    ew_adapter_close(file);
    json_decref(golden);
}

static void both_kinds_agree(void **state) {
    const char *relative = *state;
    char model[16], gguf_name[128];
    ew_config base;
    snprintf(model, sizeof model, "%.10s", strrchr(relative, '/') + 1);
    snprintf(gguf_name, sizeof gguf_name, "%s.gguf", relative);
    if (!golden_base(model, &base)) {
        skip();
    }
    ew_adapter_file *peft = open_golden(relative, &base), *gguf = peft ? open_golden(gguf_name, &base) : NULL;
    if (!gguf) {
        ew_adapter_close(peft);
        skip();
    }
    const ew_lora *content = ew_adapter_file_content(gguf);
    assert_int_equal(ew_adapter_file_kind(gguf), EW_ADAPTER_GGUF);
    assert_true(ew_adapter_is(ew_adapter_file_path(gguf)));
    assert_string_equal(content->name, strrchr(relative, '/') + 1);
    assert_null(content->source_fingerprint);
    assert_equal_adapters(ew_adapter_file_content(peft), content);
    ew_adapter_close(peft);
    ew_adapter_close(gguf);
}

static void invocation_tokens_are_read(void **state) {
    (void)state;
    ew_config base;
    ew_adapter_file *file =
        golden_base("qwen2-tiny", &base) ? open_golden("goldens/alora/adapters/qwen2-tiny.masked.gguf", &base) : NULL;
    if (!file) {
        skip();
    }
    const ew_lora *adapter = ew_adapter_file_content(file);
    const int32_t header[] = {318, 280, 198};
    assert_int_equal(adapter->n_invocation_tokens, 3);
    assert_memory_equal(adapter->invocation_tokens, header, sizeof header);
    ew_adapter_close(file);
}

static void assert_refused(const char *path, const ew_config *base, const char *const needles[3]) {
    ew_adapter_file *file = NULL;
    ew_error error = {0};
    ew_status status = ew_adapter_open(path, base, &file, &error);
    assert_null(file);
    assert_true(status == EW_ERROR_FORMAT || status == EW_ERROR_UNSUPPORTED);
    assert_int_equal(status, error.status);
    for (size_t i = 0; i < 3 && needles[i]; i++) {
        if (!strstr(error.message, needles[i])) {
            fail_msg("expected \"%s\" in \"%s\"", needles[i], error.message);
        }
    }
}

static void what_must_be_refused_is(void **state) {
    (void)state;
    static const struct {
        const char *folder, *needles[3];
    } sentences[] = {
        {"refuse/dora", {"DoRA"}},
        {"refuse/modules-to-save", {"modules_to_save"}},
        {"refuse/bias-all", {"bias", "all"}},
        {"refuse/missing-layer", {"2 of the 4", "layer 1", "blk.1.attn_q.weight"}},
        {"refuse/extra-layer", {"2 of its 6", "2 layers", "blk.99.attn_q.weight"}},
        {"refuse/wrong-width", {"1 of its 4", "[64, 60]", "[64, 64]"}},
        {"refuse/wrong-height", {"blk.1.attn_v.weight", "[33, 64]", "[32, 64]"}},
        {"refuse/half-pair", {"lora_B", "model.layers.1.self_attn.q_proj", "missing"}},
        {"refuse/rank-mismatch", {"rank 8", "have 2"}},
        {"refuse/not-a-number", {"NaN", "lora_A", "blk.0.attn_v.weight"}},
        {"refuse/other-method", {"LOHA"}},
        {"refuse/fan-in-fan-out", {"fan_in_fan_out"}},
        {"refuse/wrong-model", {"6 of its 6", "[48, 48]", "[64, 64]"}},
    };
    json_t *golden = golden_json("goldens/lora/refuse.json"), *entry;
    ew_config base;
    size_t index, count = sizeof sentences / sizeof *sentences;
    if (!golden) {
        skip();
    }
    assert_int_equal(json_array_size(json_object_get(golden, "cases")), count);
    json_array_foreach(json_object_get(golden, "cases"), index, entry) {
        const char *folder = json_string_value(json_object_get(entry, "folder"));
        char relative[128], path[512];
        size_t i = 0;
        while (i < count && strcmp(sentences[i].folder, folder) != 0) {
            i++;
        }
        assert_true(i < count);
        snprintf(relative, sizeof relative, "goldens/lora/%s", folder);
        if (!ew_test_shared(relative, path, sizeof path) ||
            !golden_base(json_string_value(json_object_get(entry, "model")), &base)) {
            json_decref(golden);
            skip();
        }
        assert_refused(path, &base, sentences[i].needles);
    }
    json_decref(golden);
}

static void other_bases_are_refused(void **state) {
    (void)state;
    ew_config qwen2, llama;
    char path[512];
    if (!golden_base("qwen2-tiny", &qwen2) || !golden_base("llama-tiny", &llama) ||
        !ew_test_shared("goldens/lora/adapters/llama-tiny.plain.gguf", path, sizeof path)) {
        skip();
    }
    assert_refused(path, &qwen2, (const char *const[3]){"for a llama model", "base is qwen2"});
    llama.n_layers = 2;
    assert_refused(path, &llama, (const char *const[3]){"7 of its 21", "2 layers", "blk.2.attn_q.weight"});
    assert_true(ew_test_shared("goldens/lora/adapters/qwen2-tiny.pattern", path, sizeof path) != NULL);
    qwen2.n_layers = 3; /* an adapter that leaves a layer out by accident and one for a smaller model look alike */
    assert_refused(path, &qwen2, (const char *const[3]){"4 of the 6", "3 layers", "layer 2"});
    assert_true(ew_test_shared("goldens/models/qwen2-tiny", path, sizeof path) != NULL);
    assert_false(ew_adapter_is(path));
    assert_false(ew_adapter_is("/nowhere"));
}

static void adapters_are_no_models(void **state) {
    char path[512];
    ew_checkpoint *cp = NULL;
    ew_error error = {0};
    if (!ew_test_shared(*state, path, sizeof path)) {
        skip();
    }
    assert_int_equal(ew_checkpoint_open(path, &cp, &error), EW_ERROR_FORMAT);
    assert_null(cp);
    assert_non_null(strstr(error.message, "is an adapter, not a model"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peft_folders_open),
        cmocka_unit_test_prestate(patterns_and_roots_give_scales, "qwen2-tiny.pattern"),
        cmocka_unit_test_prestate(patterns_and_roots_give_scales, "llama-tiny.pattern"),
        cmocka_unit_test_prestate(patterns_and_roots_give_scales, "qwen2-tiny.rslora"),
        cmocka_unit_test_prestate(patterns_and_roots_give_scales, "llama-tiny.rslora"),
        cmocka_unit_test_prestate(both_kinds_agree, "goldens/lora/adapters/qwen2-tiny.plain"),
        cmocka_unit_test_prestate(both_kinds_agree, "goldens/lora/adapters/llama-tiny.plain"),
        cmocka_unit_test_prestate(both_kinds_agree, "goldens/alora/adapters/qwen2-tiny.masked"),
        cmocka_unit_test(invocation_tokens_are_read),
        cmocka_unit_test(what_must_be_refused_is),
        cmocka_unit_test(other_bases_are_refused),
        cmocka_unit_test_prestate(adapters_are_no_models, "goldens/lora/adapters/llama-tiny.plain"),
        cmocka_unit_test_prestate(adapters_are_no_models, "goldens/lora/adapters/llama-tiny.plain.gguf"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
