/* The tokenizer of a GGUF file: the prebuilt tables, or tokenizer.ggml.* metadata. */
#include "text/known_steps.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4, TYPE_UNUSED = 5 };

static ew_status check_model(const ew_gguf *gguf, ew_error *error) {
    ew_string model = {0};
    ew_status status = ew_gguf_get_string(gguf, "tokenizer.ggml.model", NULL, &model, error);
    if (status != EW_OK || ew_string_is(model, "gpt2")) {
        return status;
    }
    bool pieces = ew_string_is(model, "llama") || ew_string_is(model, "t5") || ew_string_is(model, "gemma4");
    return ew_fail(error, EW_ERROR_UNSUPPORTED,
                   "%s: tokenizer.ggml.model is \"%.*s\"%s; byte-level BPE (\"gpt2\") is read",
                   ew_gguf_path(gguf), ew_utf8_shown(model.data, model.length), model.data,
                   pieces ? ", which is SentencePiece" : "");
}

/* Old conversions name no pre-tokenizer, or "default". The Qwen architectures have only ever had one. */
static ew_string pre_tokenizer_name(const ew_gguf *gguf, ew_string name) {
    static const char qwen2[] = "qwen2";
    ew_string architecture = {"", 0};
    bool found = false;
    if (name.length > 0 && !ew_string_is(name, "default")) {
        return name;
    }
    if (ew_gguf_get_string(gguf, "general.architecture", &found, &architecture, NULL) == EW_OK && found &&
        (ew_string_is(architecture, "qwen2") || ew_string_is(architecture, "qwen3"))) {
        return (ew_string){qwen2, sizeof qwen2 - 1};
    }
    return name;
}

static ew_status read_steps(const ew_gguf *gguf, ew_tokenizer_parts *parts, bool *llama3, ew_error *error) {
    ew_string name = {"", 0};
    bool found = false;
    ew_status status = ew_gguf_get_string(gguf, "tokenizer.ggml.pre", &found, &name, error), appended = EW_OK;
    if (status != EW_OK) {
        return status;
    }
    name = pre_tokenizer_name(gguf, name);
    if (!ew_known_steps(parts, name.data, name.length, llama3, &appended, error)) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: the pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not known", ew_gguf_path(gguf),
                       ew_utf8_shown(name.data, name.length), name.data);
    }
    return appended;
}

/* Converters fill ids that the vocabulary does not use with "[PAD151646]", some of them as user-defined
 * tokens. */
static bool is_padding(ew_string text, uint64_t id) {
    char padding[32];
    snprintf(padding, sizeof padding, "[PAD%llu]", (unsigned long long)id);
    return ew_string_is(text, padding);
}

static ew_status read_token(ew_tokenizer_parts *parts, uint64_t id, int64_t type, ew_string text,
                            ew_error *error) {
    if (ew_utf8_valid_prefix(text.data, text.length) != text.length) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: token %llu is not UTF-8", parts->name,
                       (unsigned long long)id);
    }
    switch (type) {
    case TYPE_CONTROL:
        return ew_parts_added(parts, (int64_t)id, text.data, text.length, true, 0, error);
    case TYPE_USER_DEFINED:
        if (!is_padding(text, id)) {
            return ew_parts_added(parts, (int64_t)id, text.data, text.length, false, 0, error);
        }
        return EW_OK;
    case TYPE_UNUSED:
        return EW_OK;
    case TYPE_NORMAL:
    case TYPE_UNKNOWN:
        return ew_parts_token(parts, (int64_t)id, text.data, text.length, error);
    default:
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: token %llu has the type %lld; 1 to 5 are read",
                       parts->name, (unsigned long long)id, (long long)type);
    }
}

static ew_status read_tokens(const ew_gguf *gguf, ew_tokenizer_parts *parts, ew_error *error) {
    const ew_gguf_value *tokens = NULL, *types = NULL;
    bool typed = false;
    ew_status status = ew_gguf_get_array(gguf, "tokenizer.ggml.tokens", EW_GGUF_STRING, NULL, &tokens, error);
    if (status == EW_OK) {
        status = ew_gguf_get_array(gguf, "tokenizer.ggml.token_type", EW_GGUF_INT64, &typed, &types, error);
    }
    if (status != EW_OK) {
        return status;
    }
    if (typed && types->count != tokens->count) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %llu tokens but %llu token types", parts->name,
                       (unsigned long long)tokens->count, (unsigned long long)types->count);
    }
    ew_gguf_strings walk = ew_gguf_strings_begin(tokens);
    ew_string text = {0};
    for (uint64_t id = 0; status == EW_OK && ew_gguf_strings_next(&walk, &text); id++) {
        status = read_token(parts, id, typed ? ew_gguf_integer_at(types, id) : TYPE_NORMAL, text, error);
    }
    return status == EW_OK ? ew_parts_index(parts, error) : status;
}

static ew_status read_merges(const ew_gguf *gguf, ew_tokenizer_parts *parts, ew_error *error) {
    const ew_gguf_value *merges = NULL;
    ew_status status = ew_gguf_get_array(gguf, "tokenizer.ggml.merges", EW_GGUF_STRING, NULL, &merges, error);
    if (status != EW_OK) {
        return status;
    }
    ew_gguf_strings walk = ew_gguf_strings_begin(merges);
    ew_string line = {0};
    while (status == EW_OK && ew_gguf_strings_next(&walk, &line)) {
        status = ew_parts_merge_line(parts, line.data, line.length, error);
    }
    return status;
}

static ew_status read_id(const ew_gguf *gguf, const ew_tokenizer_parts *parts, const char *key, int32_t *id,
                         ew_error *error) {
    uint32_t value = 0;
    bool found = false;
    ew_status status = ew_gguf_get_u32(gguf, key, &found, &value, error);
    if (status != EW_OK || !found) {
        return status;
    }
    if (value >= parts->n_tokens) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: %s is %u, but there are %zu tokens", parts->name, key,
                       value, parts->n_tokens);
    }
    *id = (int32_t)value;
    return EW_OK;
}

static ew_status read_specials(const ew_gguf *gguf, ew_tokenizer_parts *parts, bool llama3, ew_error *error) {
    bool add_bos = llama3, found = false;
    ew_string text = {0};
    ew_status status = read_id(gguf, parts, "tokenizer.ggml.bos_token_id", &parts->bos, error);
    if (status == EW_OK) {
        status = read_id(gguf, parts, "tokenizer.ggml.eos_token_id", &parts->eos, error);
    }
    if (status == EW_OK) {
        status = read_id(gguf, parts, "tokenizer.ggml.padding_token_id", &parts->pad, error);
    }
    if (status == EW_OK) {
        status = ew_gguf_get_bool(gguf, "tokenizer.ggml.add_bos_token", &found, &add_bos, error);
    }
    if (status == EW_OK) {
        found = false;
        status = ew_gguf_get_string(gguf, "tokenizer.chat_template", &found, &text, error);
    }
    parts->flags |= add_bos ? EW_BLOB_ADD_BOS : 0;
    parts->flags |= llama3 ? EW_BLOB_IGNORE_MERGES : 0;
    return status == EW_OK && found ? ew_parts_chat_template(parts, text.data, text.length, error) : status;
}

static ew_status build_from_metadata(const ew_gguf *gguf, ew_tokenizer **out, ew_error *error) {
    ew_tokenizer_parts parts;
    bool llama3 = false;
    ew_parts_begin(&parts, ew_gguf_path(gguf));
    ew_status status = check_model(gguf, error);
    if (status == EW_OK) {
        status = read_steps(gguf, &parts, &llama3, error);
    }
    if (status == EW_OK) {
        status = read_tokens(gguf, &parts, error);
    }
    if (status == EW_OK) {
        status = read_merges(gguf, &parts, error);
    }
    if (status == EW_OK) {
        status = read_specials(gguf, &parts, llama3, error);
    }
    if (status == EW_OK) {
        status = ew_parts_finish(&parts, out, error);
    }
    ew_parts_free(&parts);
    return status;
}

ew_status ew_tokenizer_open_gguf(const ew_gguf *gguf, ew_tokenizer **out, ew_error *error) {
    const ew_gguf_tensor *prebuilt = ew_gguf_find_tensor(gguf, "edgewise.tokenizer");
    if (!prebuilt) {
        return build_from_metadata(gguf, out, error);
    }
    return ew_tokenizer_open_blob(prebuilt->data, prebuilt->bytes, ew_gguf_path(gguf), out, error);
}
