#include "text/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

ew_status ew_json_only(const json_t *object, const char *const known[], const char *where, const char *name,
                       ew_error *error) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0) {
            i++;
        }
        if (!known[i]) {
            return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: %s has the key \"%.80s\", which is not known",
                           name, where, key);
        }
    }
    return EW_OK;
}

const char *ew_json_text(const json_t *object, const char *key, size_t *length) {
    const json_t *value = json_object_get(object, key);
    *length = json_string_length(value);
    return json_string_value(value);
}

ew_status ew_json_added_token(const json_t *token, int64_t id, ew_tokenizer_parts *parts, ew_error *error) {
    static const char *const known[] = {"id",     "content", "single_word", "lstrip",
                                        "rstrip", "special", "normalized",  NULL};
    static const struct {
        const char *key;
        uint32_t flag;
    } flags[] = {{"single_word", EW_ADDED_SINGLE_WORD},
                 {"lstrip", EW_ADDED_LSTRIP},
                 {"rstrip", EW_ADDED_RSTRIP},
                 {"normalized", EW_ADDED_NORMALIZED}};
    size_t length = 0;
    const char *text = ew_json_text(token, "content", &length);
    if (!text) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: an added token has no text \"content\"", parts->name);
    }
    ew_status status = ew_json_only(token, known, "an added token", parts->name, error);
    uint32_t found = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        found |= json_is_true(json_object_get(token, flags[i].key)) ? flags[i].flag : 0;
    }
    bool special = json_is_true(json_object_get(token, "special"));
    return status == EW_OK ? ew_parts_added(parts, id, text, length, special, found, error) : status;
}

static ew_status read_added(const json_t *root, ew_tokenizer_parts *parts, ew_error *error) {
    const json_t *list = json_object_get(root, "added_tokens");
    if (list && !json_is_array(list) && !json_is_null(list)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: \"added_tokens\" is not a list", parts->name);
    }
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i), *id = json_object_get(token, "id");
        if (!json_is_integer(id)) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: added token %zu has no integer \"id\"", parts->name,
                           i);
        }
        status = ew_json_added_token(token, json_integer_value(id), parts, error);
    }
    return status;
}

static ew_status read_vocabulary(const json_t *vocabulary, ew_tokenizer_parts *parts, ew_error *error) {
    if (!json_is_object(vocabulary)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the model has no object \"vocab\"", parts->name);
    }
    const char *text = NULL;
    json_t *id = NULL;
    json_object_foreach((json_t *)(uintptr_t)vocabulary, text, id) {
        if (!json_is_integer(id)) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: the id of the token '%.80s' is not an integer",
                           parts->name, text);
        }
        ew_status status = ew_parts_token(parts, json_integer_value(id), text, strlen(text), error);
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

/* Both spellings: "left right" and ["left", "right"]. */
static ew_status read_merges(const json_t *merges, ew_tokenizer_parts *parts, ew_error *error) {
    if (!json_is_array(merges)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the model has no list \"merges\"", parts->name);
    }
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        if (json_is_string(merge)) {
            status = ew_parts_merge_line(parts, json_string_value(merge), json_string_length(merge), error);
        } else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right)) {
            status = ew_parts_merge(parts, json_string_value(left), json_string_length(left),
                                    json_string_value(right), json_string_length(right), error);
        } else {
            status =
                ew_fail(error, EW_ERROR_FORMAT,
                        "%s: merge %zu is neither \"left right\" nor [\"left\", \"right\"]", parts->name, i);
        }
    }
    return status;
}

static ew_status refuse_model(const ew_tokenizer_parts *parts, const char *what, ew_error *error) {
    return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: the model asks for %s, which is not done here",
                   parts->name, what);
}

/* What changes how BPE works and has no place in a byte-level vocabulary. */
static ew_status check_model(const json_t *model, ew_tokenizer_parts *parts, ew_error *error) {
    static const char *const known[] = {"type",
                                        "dropout",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        "fuse_unk",
                                        "byte_fallback",
                                        "ignore_merges",
                                        "vocab",
                                        "merges",
                                        NULL};
    size_t length = 0;
    const char *type = ew_json_text(model, "type", &length);
    if (!type || strcmp(type, "BPE") != 0) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: the model's type is %.40s; BPE is read", parts->name,
                       type ? type : "not given");
    }
    ew_status status = ew_json_only(model, known, "the model", parts->name, error);
    if (status != EW_OK) {
        return status;
    }
    if (json_number_value(json_object_get(model, "dropout")) != 0) {
        return refuse_model(parts, "dropout", error);
    }
    if (json_is_true(json_object_get(model, "byte_fallback"))) {
        return refuse_model(parts, "byte_fallback", error);
    }
    if (ew_json_text(model, "continuing_subword_prefix", &length) && length > 0) {
        return refuse_model(parts, "continuing_subword_prefix", error);
    }
    if (ew_json_text(model, "end_of_word_suffix", &length) && length > 0) {
        return refuse_model(parts, "end_of_word_suffix", error);
    }
    parts->flags |= json_is_true(json_object_get(model, "ignore_merges")) ? EW_BLOB_IGNORE_MERGES : 0;
    parts->flags |= json_is_true(json_object_get(model, "fuse_unk")) ? EW_BLOB_FUSE_UNKNOWN : 0;
    return EW_OK;
}

static ew_status find_unknown(const json_t *model, ew_tokenizer_parts *parts, ew_error *error) {
    size_t length = 0;
    const char *text = ew_json_text(model, "unk_token", &length);
    if (!text) {
        return EW_OK;
    }
    parts->unknown = ew_parts_find_special(parts, text, length);
    if (parts->unknown == EW_NO_TOKEN) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the unknown token '%.80s' is not in the vocabulary",
                       parts->name, text);
    }
    return EW_OK;
}

ew_status ew_json_tokenizer(const json_t *root, ew_tokenizer_parts *parts, ew_error *error) {
    static const char *const known[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    const json_t *model = json_object_get(root, "model");
    if (!json_is_object(model)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s has no object \"model\": it is no tokenizer.json",
                       parts->name);
    }
    ew_status status = ew_json_only(root, known, "the file", parts->name, error);
    if (status == EW_OK) {
        status = check_model(model, parts, error);
    }
    if (status == EW_OK) {
        status = ew_json_steps(root, parts, error);
    }
    if (status == EW_OK) {
        status = read_vocabulary(json_object_get(model, "vocab"), parts, error);
    }
    if (status == EW_OK) {
        status = read_added(root, parts, error);
    }
    if (status == EW_OK) {
        status = ew_parts_index(parts, error);
    }
    if (status == EW_OK) {
        status = read_merges(json_object_get(model, "merges"), parts, error);
    }
    if (status == EW_OK) {
        status = find_unknown(model, parts, error);
    }
    return status == EW_OK ? ew_json_post_processor(root, parts, error) : status;
}

ew_status ew_tokenizer_from_json(const char *text, size_t length, const char *config, size_t config_length,
                                 const char *name, ew_tokenizer **out, ew_error *error) {
    json_t *root = NULL, *settings = NULL;
    ew_tokenizer_parts parts;
    ew_parts_begin(&parts, name);
    ew_status status = ew_json_parse((ew_string){text, length}, name, &root, error);
    if (status == EW_OK && config) {
        status = ew_json_parse((ew_string){config, config_length}, "tokenizer_config.json", &settings, error);
    }
    if (status == EW_OK) {
        status = ew_json_tokenizer(root, &parts, error);
    }
    if (status == EW_OK && settings) {
        status = ew_json_config_added(settings, &parts, error);
    }
    if (status == EW_OK && settings) {
        status = ew_json_config_specials(settings, &parts, error);
    }
    if (status == EW_OK) {
        status = ew_parts_finish(&parts, out, error);
    }
    json_decref(root);
    json_decref(settings);
    ew_parts_free(&parts);
    return status;
}
