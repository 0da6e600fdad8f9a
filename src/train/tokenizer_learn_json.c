#include "train/tokenizer_learn_json.h"

#include "base/utf8.h"
#include "text/characters.h"
#include "text/known_steps.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char chatml[] = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
                             "message['content'] + '<|im_end|>' + '\n' "
                             "}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static bool is_special(const char *text) {
    size_t length = strlen(text);
    return length > 4 && strncmp(text, "<|", 2) == 0 && strcmp(text + length - 2, "|>") == 0;
}

static bool is_added(const ew_learn_options *options, const char *text) {
    for (size_t i = 0; i < options->n_added; i++) {
        if (strcmp(options->added[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* A token in the byte alphabet, as vocabularies are written. */
static void spell(const ew_bpe_learner *learner, int32_t id, ew_buffer *out) {
    ew_learned_token token = learner->tokens[id];
    ew_buffer_clear(out);
    for (size_t i = 0; i < token.length; i++) {
        char letter[EW_UTF8_MAX];
        uint8_t byte = (uint8_t)learner->bytes.data[token.start + i];
        ew_buffer_append(out, letter, ew_utf8_encode(ew_byte_letter(byte), letter));
    }
}

static json_t *vocabulary_of(const ew_bpe_learner *learner) {
    json_t *vocabulary = json_object();
    ew_buffer text = {0};
    for (size_t id = 0; vocabulary && id < learner->n_tokens; id++) {
        spell(learner, (int32_t)id, &text);
        if (text.failed || json_object_set_new(vocabulary, text.data, json_integer((json_int_t)id)) != 0) {
            json_decref(vocabulary);
            vocabulary = NULL;
        }
    }
    ew_buffer_free(&text);
    return vocabulary;
}

static json_t *merges_of(const ew_bpe_learner *learner) {
    json_t *merges = json_array();
    ew_buffer left = {0}, right = {0};
    for (size_t i = 0; merges && i < learner->n_merges; i++) {
        spell(learner, learner->merges[i].left, &left);
        spell(learner, learner->merges[i].right, &right);
        if (left.failed || right.failed ||
            json_array_append_new(merges, json_pack("[s, s]", left.data, right.data)) != 0) {
            json_decref(merges);
            merges = NULL;
        }
    }
    ew_buffer_free(&left);
    ew_buffer_free(&right);
    return merges;
}

static json_t *added_of(const ew_bpe_learner *learner, const ew_learn_options *options) {
    json_t *added = json_array();
    for (size_t i = 0; added && i < options->n_added; i++) {
        json_t *token = json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)(learner->n_tokens + i),
                                  "content", options->added[i], "single_word", 0, "lstrip", 0, "rstrip", 0,
                                  "normalized", 0, "special", is_special(options->added[i]));
        if (json_array_append_new(added, token) != 0) {
            json_decref(added);
            added = NULL;
        }
    }
    return added;
}

/* Takes the value over, as json_object_set_new does, and an object that failed before stays NULL. */
static void put(json_t **object, const char *key, json_t *value) {
    if (!*object || !value || json_object_set(*object, key, value) != 0) {
        json_decref(*object);
        *object = NULL;
    }
    json_decref(value);
}

static json_t *pre_tokenizer(void) {
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b, s:b}]}", "type", "Sequence", "pretokenizers",
                     "type", "Split", "pattern", "Regex", ew_pattern_qwen2, "behavior", "Isolated", "invert", 0, "type",
                     "ByteLevel", "add_prefix_space", 0, "trim_offsets", 0, "use_regex", 0);
}

static json_t *model_of(const ew_bpe_learner *learner) {
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b}", "type", "BPE", "dropout", "unk_token",
                              "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                              "ignore_merges", 0);
    put(&model, "vocab", vocabulary_of(learner));
    put(&model, "merges", merges_of(learner));
    return model;
}

static ew_status write_json(json_t *root, ew_buffer *out, ew_error *error) {
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (text) {
        ew_buffer_append_text(out, text);
        ew_buffer_append_text(out, "\n");
    }
    bool failed = !text || out->failed;
    free(text);
    return failed ? ew_fail_memory(error, out->length, "a tokenizer's JSON") : EW_OK;
}

ew_status ew_learned_tokenizer_json(const ew_bpe_learner *learner, const ew_learn_options *options, ew_buffer *out,
                                    ew_error *error) {
    json_t *root = json_pack("{s:s, s:n, s:n}", "version", "1.0", "truncation", "padding");
    put(&root, "added_tokens", added_of(learner, options));
    put(&root, "normalizer", json_null());
    put(&root, "pre_tokenizer", pre_tokenizer());
    put(&root, "post_processor", json_null());
    put(&root, "decoder",
        json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 0, "use_regex",
                  0));
    put(&root, "model", model_of(learner));
    return write_json(root, out, error);
}

ew_status ew_learned_config_json(const ew_learn_options *options, ew_buffer *out, ew_error *error) {
    json_t *root = json_pack("{s:s, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "add_bos_token", 0,
                             "clean_up_tokenization_spaces", 0);
    bool chats = is_added(options, "<|im_start|>") && is_added(options, "<|im_end|>");
    bool ends = is_added(options, "<|endoftext|>");
    if (chats || ends) {
        put(&root, "eos_token", json_string(chats ? "<|im_end|>" : "<|endoftext|>"));
    }
    if (ends) {
        put(&root, "pad_token", json_string("<|endoftext|>"));
    }
    if (chats) {
        put(&root, "chat_template", json_string(chatml));
    }
    return write_json(root, out, error);
}
