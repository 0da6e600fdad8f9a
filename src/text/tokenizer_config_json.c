/* tokenizer_config.json: added tokens, the names of the special ones, the chat template. */
#include "text/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

ew_status ew_json_config_added(const json_t *config, ew_tokenizer_parts *parts, ew_error *error) {
    const char *key = NULL;
    json_t *token = NULL;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), key, token) {
        char *end = NULL;
        long long id = strtoll(key, &end, 10);
        if (end == key || *end != '\0') {
            return ew_fail(error, EW_ERROR_FORMAT,
                           "tokenizer_config.json: '%.80s' among the added tokens is no id", key);
        }
        ew_status status = ew_json_added_token(token, id, parts, error);
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

/* A special token is named by its text, or by an object with its text as "content". One that the vocabulary
 * lacks counts as not named: configurations mention tokens that their model never had. */
static void find_special(const json_t *config, const char *key, const ew_tokenizer_parts *parts,
                         int32_t *id) {
    size_t length = 0;
    const char *text = ew_json_text(config, key, &length);
    if (!text) {
        text = ew_json_text(json_object_get(config, key), "content", &length);
    }
    int32_t found = text ? ew_parts_find_special(parts, text, length) : EW_NO_TOKEN;
    if (found != EW_NO_TOKEN) {
        *id = found;
    }
}

/* Several named templates: the one called "default" is meant for chat. */
static const char *template_text(const json_t *config, size_t *length) {
    const json_t *list = json_object_get(config, "chat_template");
    const char *text = ew_json_text(config, "chat_template", length);
    for (size_t i = 0; !text && i < json_array_size(list); i++) {
        size_t ignored = 0;
        const char *name = ew_json_text(json_array_get(list, i), "name", &ignored);
        if (name && strcmp(name, "default") == 0) {
            text = ew_json_text(json_array_get(list, i), "template", length);
        }
    }
    return text;
}

ew_status ew_json_config_specials(const json_t *config, ew_tokenizer_parts *parts, ew_error *error) {
    size_t length = 0;
    const json_t *add_bos = json_object_get(config, "add_bos_token");
    if (!(parts->flags & EW_BLOB_ADD_BOS)) { /* else the post-processor has said which it is */
        find_special(config, "bos_token", parts, &parts->bos);
    }
    if (json_is_true(add_bos)) { /* what is said here goes before what the post-processor does */
        parts->flags |= EW_BLOB_ADD_BOS;
    } else if (json_is_false(add_bos)) {
        parts->flags &= ~(uint32_t)EW_BLOB_ADD_BOS;
    }
    find_special(config, "eos_token", parts, &parts->eos);
    find_special(config, "pad_token", parts, &parts->pad);
    const char *text = template_text(config, &length);
    if (text && parts->chat_template.count == 0) {
        return ew_parts_chat_template(parts, text, length, error);
    }
    return EW_OK;
}
