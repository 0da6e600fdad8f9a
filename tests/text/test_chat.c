/* Chat templates: recognised from template texts, rendered and tokenized as the goldens have it. */
#include "text_support.h"

#include "text/chat_template.h"

/* Templates in the form that vendors give them (shortened to what is written without tools). */
static const char qwen2_5_template[] =
    "{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {%- if messages[0]['role'] == 'system' %}\n    "
    "    "
    "{{- messages[0]['content'] }}\n    {%- else %}\n        {{- 'You are Qwen, created by Alibaba Cloud. "
    "You are a "
    "helpful assistant.' }}\n    {%- endif %}\n    {{- \"\\n\\n# Tools\\n\\nYou may call one or more "
    "functions "
    "\" }}{{- \"\\n</tools>\\n<|im_end|>\\n\" }}\n{%- else %}\n    {%- if messages[0]['role'] == 'system' "
    "%}\n        {{- "
    "'<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n    {%- else %}\n        {{- "
    "'<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
    "assistant.<|im_end|>\\n' }}\n    "
    "{%- endif %}\n{%- endif %}\n{%- for message in messages %}\n    {%- if (message.role == \"user\") or "
    "(message.role == \"system\" and not loop.first) %}\n        {{- '<|im_start|>' + message.role + '\\n' + "
    "message.content + '<|im_end|>' + '\\n' }}\n    {%- elif message.role == \"tool\" %}\n{{- "
    "'<|im_start|>user' }}\n"
    "{{- '\\n<tool_response>\\n' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    "
    "{{- "
    "'<|im_start|>assistant\\n' }}\n{%- endif %}\n";
static const char qwen3_template[] =
    "{%- if messages[0].role == 'system' %}\n        {{- '<|im_start|>system\\n' + messages[0].content + "
    "'<|im_end|>\\n' }}\n    {%- endif %}\n{%- for message in messages %}\n {%- if message.role == \"user\" "
    "%}{{- "
    "'<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}{%- elif message.role == "
    "\"assistant\" "
    "%}{%- if '</think>' in content %}{%- set reasoning_content = "
    "content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{%- endif %}{{- "
    "'<|im_start|>' + "
    "message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + "
    "content.lstrip('\\n') }}"
    "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n    "
    "{%- if "
    "enable_thinking is defined and enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' "
    "}}\n    {%- "
    "endif %}\n{%- endif %}";
static const char smollm2_template[] = "{% for message in messages %}{% if loop.first and "
                                       "messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
                                       "are a helpful AI assistant named SmolLM, trained by Hugging "
                                       "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
                                       "message['role'] + '\n' + message['content'] + '<|im_end|>' + "
                                       "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
                                       "'<|im_start|>assistant\n' }}{% endif %}";
static const char llama3_template[] = "{% set loop_messages = messages %}{% for message in loop_messages "
                                      "%}{% set content = '<|start_header_id|>' + "
                                      "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim "
                                      "+ '<|eot_id|>' %}{% if loop.index0 == 0 %}{% "
                                      "set content = bos_token + content %}{% endif %}{{ content }}{% endfor "
                                      "%}{% if add_generation_prompt %}{{ "
                                      "'<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";
static const char llama3_1_template[] =
    "{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- set date_string = \"26 Jul 2024\" "
    "%}\n{%- endif "
    "%}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content']|trim "
    "%}\n{%- "
    "else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n{{- "
    "\"<|start_header_id|>system<|end_header_id|>"
    "\\n\\n\" }}\n{{- \"Cutting Knowledge Date: December 2023\\n\" }}\n{{- \"Today Date: \" + date_string + "
    "\"\\n\\n\" "
    "}}\n{{- system_message }}\n{{- \"<|eot_id|>\" }}\n{%- for message in messages %}{{- "
    "'<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}{%- endfor "
    "%}{%- if "
    "add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}";

static json_t *added_token(int64_t id, const char *text, bool special) {
    return json_pack("{s:I, s:s, s:b, s:b}", "id", (json_int_t)id, "content", text, "special", special,
                     "normalized", 0);
}

/* The vocabulary of a GGUF as a tokenizer.json with NFC, Qwen3's two tags if asked for, and a chat template.
 */
static ew_tokenizer *as_hugging_face(const ew_gguf *gguf, const char *template, bool tags) {
    const ew_gguf_value *tokens = NULL, *types = NULL, *merges = NULL;
    ew_error error = {0};
    assert_ok(ew_gguf_get_array(gguf, "tokenizer.ggml.tokens", EW_GGUF_STRING, NULL, &tokens, &error),
              &error);
    assert_ok(ew_gguf_get_array(gguf, "tokenizer.ggml.token_type", EW_GGUF_INT64, NULL, &types, &error),
              &error);
    assert_ok(ew_gguf_get_array(gguf, "tokenizer.ggml.merges", EW_GGUF_STRING, NULL, &merges, &error),
              &error);
    json_t *vocab = json_object(), *pairs = json_array(), *added = json_array();
    ew_gguf_strings walk = ew_gguf_strings_begin(tokens);
    ew_string text;
    for (uint64_t id = 0; ew_gguf_strings_next(&walk, &text); id++) {
        char copy[512];
        snprintf(copy, sizeof copy, "%.*s", (int)text.length, text.data);
        if (ew_gguf_integer_at(types, id) == 1) {
            json_object_set_new(vocab, copy, json_integer((json_int_t)id));
        } else if (ew_gguf_integer_at(types, id) == 3) {
            json_array_append_new(added, added_token((int64_t)id, copy, true));
        }
    }
    if (tags) {
        json_array_append_new(added, added_token(151667, "<think>", false));
        json_array_append_new(added, added_token(151668, "</think>", false));
    }
    walk = ew_gguf_strings_begin(merges);
    while (ew_gguf_strings_next(&walk, &text)) {
        json_array_append_new(pairs, json_stringn(text.data, text.length));
    }
    static const char pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                                  "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    json_t *root =
        json_pack("{s:{s:s}, s:{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}, s:o, s:{s:s, s:o, s:o}}",
                  "normalizer", "type", "NFC", "pre_tokenizer", "type", "Sequence", "pretokenizers", "type",
                  "Split", "pattern", "Regex", pattern, "behavior", "Isolated", "invert", 0, "type",
                  "ByteLevel", "add_prefix_space", 0, "use_regex", 0, "added_tokens", added, "model", "type",
                  "BPE", "vocab", vocab, "merges", pairs);
    json_t *config = json_pack("{s:s, s:s}", "chat_template", template, "eos_token", "<|im_end|>");
    char *text_json = json_dumps(root, 0), *config_json = json_dumps(config, 0);
    ew_tokenizer *tokenizer = NULL;
    assert_ok(ew_tokenizer_from_json(text_json, strlen(text_json), config_json, strlen(config_json), "test",
                                     &tokenizer, &error),
              &error);
    free(text_json);
    free(config_json);
    json_decref(root);
    json_decref(config);
    return tokenizer;
}

/* A small tokenizer whose vocabulary is the bytes of ASCII, with a template and the tokens that it needs. */
static ew_status small_tokenizer(const char *template, ew_tokenizer **out, ew_error *error) {
    static const char *const specials[] = {"<|im_start|>",      "<|im_end|>",          "<|endoftext|>",
                                           "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                                           "<|eot_id|>",        "<|end_of_text|>"};
    json_t *vocab = json_object(), *added = json_array();
    for (int c = 0x21; c < 0x7f; c++) {
        char text[2] = {(char)c, '\0'};
        json_object_set_new(vocab, text, json_integer(c));
    }
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        json_array_append_new(added, added_token(200 + (int64_t)i, specials[i], true));
    }
    json_t *root = json_pack("{s:{s:s, s:b}, s:o, s:{s:s, s:o, s:[]}}", "pre_tokenizer", "type", "ByteLevel",
                             "add_prefix_space", 0, "added_tokens", added, "model", "type", "BPE", "vocab",
                             vocab, "merges");
    json_t *config =
        template ? json_pack("{s:s, s:s}", "chat_template", template, "bos_token", "<|begin_of_text|>")
                 : json_pack("{s:s}", "bos_token", "<|begin_of_text|>");
    char *text_json = json_dumps(root, 0), *config_json = json_dumps(config, 0);
    ew_status status = ew_tokenizer_from_json(text_json, strlen(text_json), config_json, strlen(config_json),
                                              "test", out, error);
    free(text_json);
    free(config_json);
    json_decref(root);
    json_decref(config);
    return status;
}

static size_t read_messages(const json_t *list, ew_message *messages, size_t limit) {
    size_t i;
    json_t *item;
    assert_true(json_array_size(list) <= limit);
    json_array_foreach(list, i, item) {
        const json_t *content = json_object_get(item, "content");
        messages[i] = (ew_message){json_string_value(json_object_get(item, "role")),
                                   json_string_value(content), json_string_length(content)};
    }
    return json_array_size(list);
}

static bool mentions_specials(const ew_message *messages, size_t n) {
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        found |= strstr(messages[i].content, "<|") != NULL;
    }
    return found;
}

/* Text, ids with contents as text, and the ids of the whole text with special tokens recognised. The tiny
 * models' goldens have only the latter, which differ where a message mentions special tokens. */
static void check_case(const ew_chat_template *chat, const ew_tokenizer *tokenizer, const json_t *item,
                       unsigned flags) {
    ew_message messages[16];
    ew_chat_prompt prompt = {0};
    ew_tokens tokens = {0};
    ew_error error = {0};
    size_t n = read_messages(json_object_get(item, "messages"), messages, 16), header = 0;
    const json_t *generate = json_object_get(item, "add_generation_prompt");
    const json_t *ids = json_object_get(item, "ids"), *as_text = json_object_get(item, "ids_content_as_text");
    flags |= !generate || json_is_true(generate) ? EW_CHAT_GENERATE : 0;
    assert_ok(ew_chat_render(chat, tokenizer, messages, n, flags, &prompt, &error), &error);
    assert_string_equal(prompt.text.data, json_string_value(json_object_get(item, "text")));
    if (ids) {
        assert_ok(ew_chat_encode(&prompt, tokenizer, &tokens, &header, &error), &error);
        if (as_text || !mentions_specials(messages, n)) {
            assert_ids(&tokens, as_text ? as_text : ids, prompt.text.data);
        }
        assert_encodes(tokenizer, json_object_get(item, "text"), EW_ENCODE_SPECIALS, ids);
        assert_true(header <= tokens.count);
        if (flags & EW_CHAT_GENERATE) {
            assert_int_equal(tokens.ids[header], chat->turn_start);
        }
    }
    ew_tokens_free(&tokens);
    ew_chat_prompt_free(&prompt);
}

static void check_family(const ew_tokenizer *tokenizer, const char *name, const char *golden_name,
                         unsigned flags) {
    json_t *root = golden("goldens/chat/templates.json"), *item;
    ew_chat_template chat = {0};
    ew_error error = {0};
    size_t i, n = 0;
    assert_ok(ew_chat_template_open(tokenizer, NULL, &chat, &error), &error);
    assert_string_equal(chat.name, name);
    json_array_foreach(json_object_get(root, golden_name), i, item) {
        check_case(&chat, tokenizer, item, flags);
        n++;
    }
    assert_true(n == 10 || !root);
    ew_chat_template_free(&chat);
    json_decref(root);
}

static void test_qwen_families(void **state) {
    (void)state;
    char path[4096];
    ew_error error = {0};
    ew_gguf *gguf = NULL;
    if (!ew_test_shared("data/tokenizer/qwen2-vocab.gguf", path, sizeof path) ||
        !ew_test_shared("goldens/chat/templates.json", (char[4096]){0}, 4096)) {
        return;
    }
    assert_ok(ew_gguf_open(path, &gguf, &error), &error);
    ew_tokenizer *qwen2_5 = as_hugging_face(gguf, qwen2_5_template, false);
    ew_tokenizer *qwen3 = as_hugging_face(gguf, qwen3_template, true);
    ew_gguf_close(gguf);
    check_family(qwen2_5, "qwen2.5", "qwen2.5", 0);
    check_family(qwen3, "qwen3", "qwen3_thinking", 0);
    check_family(qwen3, "qwen3", "qwen3_no_thinking", EW_CHAT_NO_THINKING);
    json_t *vectors = golden("goldens/tokenizer/qwen2_vectors.json"), *item;
    size_t i;
    json_array_foreach(json_object_get(vectors, "strings"), i, item) {
        const json_t *nfc = json_object_get(item, "ids_nfc");
        assert_encodes(qwen2_5, json_object_get(item, "text"), EW_ENCODE_SPECIALS,
                       nfc ? nfc : json_object_get(item, "ids"));
    }
    json_decref(vectors);
    ew_tokenizer_close(qwen2_5);
    ew_tokenizer_close(qwen3);
}

static void test_smollm2(void **state) {
    (void)state;
    ew_tokenizer *folder = open_folder("goldens/smollm2"), *gguf = open_smollm2_gguf();
    if (folder) {
        check_family(folder, "smollm2", "smollm2", 0);
    }
    if (gguf) {
        check_family(gguf, "smollm2", "smollm2", 0);
    }
    ew_tokenizer_close(folder);
    ew_tokenizer_close(gguf);
}

static void test_llama3(void **state) {
    (void)state;
    ew_tokenizer *tokenizer = NULL;
    ew_error error = {0};
    if (ew_test_shared("goldens/chat/templates.json", (char[4096]){0}, 4096)) {
        assert_ok(small_tokenizer(llama3_template, &tokenizer, &error), &error);
        check_family(tokenizer, "llama3", "llama3", 0);
        ew_tokenizer_close(tokenizer);
    }
}

static void test_tiny_models(void **state) {
    (void)state;
    static const char *const models[][3] = {
        {"goldens/models/qwen2-tiny", "goldens/forward/tokenizer-qwen.json", "chatml"},
        {"goldens/models/qwen3-tiny", "goldens/forward/tokenizer-qwen.json", "chatml"},
        {"goldens/models/qwen2-tiny.gguf", "goldens/forward/tokenizer-qwen.json", "chatml"},
        {"goldens/models/llama-tiny", "goldens/forward/tokenizer-llama.json", "llama3"},
        {"goldens/models/llama-tiny.gguf", "goldens/forward/tokenizer-llama.json", "llama3"}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        ew_tokenizer *tokenizer =
            strstr(models[m][0], ".gguf") ? open_gguf(models[m][0]) : open_folder(models[m][0]);
        json_t *root = golden(models[m][1]), *item;
        ew_chat_template chat = {0};
        ew_error error = {0};
        size_t i;
        if (tokenizer && root) {
            assert_ok(ew_chat_template_open(tokenizer, NULL, &chat, &error), &error);
            assert_string_equal(chat.name, models[m][2]);
            json_array_foreach(json_object_get(root, "chat"), i, item) {
                check_case(&chat, tokenizer, item, 0);
            }
            ew_chat_template_free(&chat);
        }
        json_decref(root);
        ew_tokenizer_close(tokenizer);
    }
}

/* Renders one question, and what follows it, with a template by text or by name. */
static void assert_renders(const char *template, const char *name, const ew_message *messages, size_t n,
                           unsigned flags, const char *expected) {
    ew_tokenizer *tokenizer = NULL;
    ew_chat_template chat = {0};
    ew_chat_prompt prompt = {0};
    ew_error error = {0};
    assert_ok(small_tokenizer(template, &tokenizer, &error), &error);
    assert_ok(ew_chat_template_open(tokenizer, name, &chat, &error), &error);
    assert_ok(ew_chat_render(&chat, tokenizer, messages, n, flags, &prompt, &error), &error);
    assert_string_equal(prompt.text.data, expected);
    ew_chat_prompt_free(&prompt);
    ew_chat_template_free(&chat);
    ew_tokenizer_close(tokenizer);
}

static void test_named_and_dated(void **state) {
    (void)state;
    static const ew_message question[] = {{"user", " hi ", 4}};
    static const ew_message led[] = {{"system", "Be kind.\n", 9}, {"user", "hi", 2}};
    static const char dates[] =
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: "
        "December 2023\nToday Date: 26 Jul 2024\n\n";
    char expected[1024];
    snprintf(expected, sizeof expected,
             "%s<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>", dates);
    assert_renders(llama3_1_template, NULL, question, 1, 0, expected);
    assert_renders(NULL, "llama3.1", question, 1, 0, expected);
    snprintf(expected, sizeof expected,
             "%sBe kind.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>", dates);
    assert_renders(llama3_1_template, NULL, led, 2, 0, expected);
    assert_renders(NULL, "chatml", question, 1, EW_CHAT_GENERATE,
                   "<|im_start|>user\n hi <|im_end|>\n<|im_start|>assistant\n");
    assert_renders(
        smollm2_template, "chatml", question, 1, 0,
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n hi <|im_end|>\n");
    assert_renders(
        "{% set default_system_message = 'Be {{brief}}.' %}<|im_start|>{{ role }}\n{{ content }}<|im_end|>\n",
        NULL, question, 1, 0,
        "<|im_start|>system\nBe {{brief}}.<|im_end|>\n<|im_start|>user\n hi <|im_end|>\n");
}

/* Behind the last question Qwen3's template writes the thinking of a reply, the tags as text where no tokens
 * are. */
static void test_qwen3_reply_last(void **state) {
    (void)state;
    static const ew_message done[] = {{"user", "a", 1}, {"assistant", "<think>\n\nx\n</think>\n\nb", 22}};
    static const ew_message bare[] = {{"user", "a", 1}, {"assistant", "b", 1}};
    static const ew_message pair[] = {{"user", "a", 1}, {"assistant", "b", 1}, {"assistant", "c", 1}};
    assert_renders(
        qwen3_template, NULL, done, 2, 0,
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\nx\n</think>\n\nb<|im_end|>\n");
    assert_renders(
        qwen3_template, NULL, bare, 2, 0,
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nb<|im_end|>\n");
    assert_renders(qwen3_template, NULL, pair, 3, 0,
                   "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
                   "<|im_start|>assistant\n<think>\n\n</think>\n\nc<|im_end|>\n");
}

static void assert_not_recognized(const char *template) {
    ew_tokenizer *tokenizer = NULL;
    ew_chat_template chat = {0};
    ew_error error = {0};
    assert_ok(small_tokenizer(template, &tokenizer, &error), &error);
    assert_int_equal(ew_chat_template_open(tokenizer, NULL, &chat, &error), EW_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "--template NAME"));
    assert_non_null(strstr(error.message, "smollm2"));
    ew_tokenizer_close(tokenizer);
}

static void test_refusals(void **state) {
    (void)state;
    assert_not_recognized(NULL);
    assert_not_recognized("{{ messages }}");
    assert_not_recognized("{{ '<|user|>\\n' + content + '<|end|>\\n<|im_start|>' }}{{ '<|im_end|>\\n' }}");
    /* thinking that cannot be switched off; dates of another model's header */
    assert_not_recognized("{{ '<|im_start|>' + role + '\\n' + content + '<|im_end|>\\n' }}{{ "
                          "'<|im_start|>assistant\\n<think>\\n' }}");
    assert_not_recognized("{{ '<|im_start|>system\\n## Metadata\\n' }}{{ '<|im_start|>' + role + '\\n' + "
                          "content + '<|im_end|>\\n' }}");
    ew_tokenizer *tokenizer = NULL;
    ew_chat_template chat = {0};
    ew_chat_prompt prompt = {0};
    ew_error error = {0};
    const ew_message tool = {"tool", "x", 1};
    assert_ok(small_tokenizer(smollm2_template, &tokenizer, &error), &error);
    assert_int_equal(ew_chat_template_open(tokenizer, "vicuna", &chat, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "qwen2.5"));
    assert_ok(ew_chat_template_open(tokenizer, NULL, &chat, &error), &error);
    assert_int_equal(ew_chat_render(&chat, tokenizer, &tool, 1, 0, &prompt, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "\"tool\""));
    assert_int_equal(ew_chat_render(&chat, tokenizer, &tool, 0, 0, &prompt, &error), EW_ERROR_ARGUMENT);
    int32_t ends[EW_CHAT_MAX_END];
    assert_int_equal(ew_chat_end_tokens(&chat, tokenizer, ends), 2);
    assert_int_equal(ends[0], ew_tokenizer_find(tokenizer, "<|im_end|>"));
    ew_chat_prompt_free(&prompt);
    ew_chat_template_free(&chat);
    ew_tokenizer_close(tokenizer);
}

/* A hostile template of a megabyte is read once, not once for each of its headers. Where every access is watched or
 * emulated, a tenth of it has to do. */
static void test_long_templates(void **state) {
    (void)state;
    size_t size = getenv("EDGEWISE_TEST_QUICK") ? 100000 : 1000000;
    static const char *const units[] = {
        "<|im_start|>system\n", "{{ '<|im_start|>system\n' }}", "content '", "system = '", "{{ '", "<|"};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        ew_buffer text = {0};
        ew_tokenizer *tokenizer = NULL;
        ew_chat_template chat = {0};
        ew_error error = {0};
        while (text.length < size) {
            ew_buffer_append_text(&text, units[u]);
        }
        clock_t start = clock();
        assert_ok(small_tokenizer(text.data, &tokenizer, &error), &error);
        assert_int_equal(ew_chat_template_open(tokenizer, NULL, &chat, &error), EW_ERROR_UNSUPPORTED);
        assert_int_equal(ew_chat_template_open(tokenizer, "chatml", &chat, &error), EW_OK);
        assert_true(clock() - start < 10 * CLOCKS_PER_SEC);
        ew_chat_template_free(&chat);
        ew_tokenizer_close(tokenizer);
        ew_buffer_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen_families),   cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_llama3),          cmocka_unit_test(test_tiny_models),
        cmocka_unit_test(test_named_and_dated), cmocka_unit_test(test_qwen3_reply_last),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_long_templates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
