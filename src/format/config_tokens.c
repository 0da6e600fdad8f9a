/* What a Hugging Face folder's tokenizer files say about begin and end tokens. */
#include "format/config_internal.h"
#include "format/json.h"

#include <stdlib.h>
#include <string.h>

/* A special token is a string, or an object with "content". Its id is looked up in "added_tokens_decoder". */
static bool special_token_id(const json_t *tokenizer_config, const char *key, uint64_t *id) {
    const json_t *token = json_object_get(tokenizer_config, key);
    const char *text = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    json_t *added = json_object_get(tokenizer_config, "added_tokens_decoder"), *entry;
    const char *number;
    if (!text) {
        return false;
    }
    json_object_foreach(added, number, entry) {
        const char *content = json_string_value(json_object_get(entry, "content"));
        if (content && strcmp(content, text) == 0) {
            char *end;
            *id = strtoull(number, &end, 10);
            return *number != '\0' && *end == '\0';
        }
    }
    return false;
}

/* *said: the file decides whether BOS is added. */
static ew_status read_tokenizer_config(const json_t *object, const char *where, ew_config *config, bool *said,
                                       ew_error *error) {
    uint64_t id;
    ew_status status = ew_json_get_bool(object, "add_bos_token", where, said, &config->add_bos, error);
    if (status != EW_OK) {
        return status;
    }
    if (special_token_id(object, "bos_token", &id) && id < EW_CONFIG_MAX_VOCAB) {
        config->bos_id = (int32_t)id;
    }
    return special_token_id(object, "eos_token", &id) ? ew_config_add_eos(config, id, where, error) : EW_OK;
}

/* TemplateProcessing, alone or in a Sequence: what it puts before a single text. */
static void read_template(const json_t *processor, ew_config *config) {
    const char *type = json_string_value(json_object_get(processor, "type"));
    const json_t *processors = json_object_get(processor, "processors");
    if (type && strcmp(type, "Sequence") == 0) {
        for (size_t i = 0; i < json_array_size(processors); i++) {
            const json_t *inner = json_array_get(processors, i);
            const char *name = json_string_value(json_object_get(inner, "type"));
            if (name && strcmp(name, "TemplateProcessing") == 0) {
                read_template(inner, config);
            }
        }
        return;
    }
    const json_t *first = json_array_get(json_object_get(processor, "single"), 0);
    const char *name = json_string_value(json_object_get(json_object_get(first, "SpecialToken"), "id"));
    const json_t *token = name ? json_object_get(json_object_get(processor, "special_tokens"), name) : NULL;
    const json_t *id = json_array_get(json_object_get(token, "ids"), 0);
    if (type && strcmp(type, "TemplateProcessing") == 0 && json_is_integer(id) &&
        json_integer_value(id) >= 0 && json_integer_value(id) < EW_CONFIG_MAX_VOCAB) {
        config->bos_id = (int32_t)json_integer_value(id);
        config->add_bos = true;
    }
}

static ew_status read_tokenizer(ew_string text, const char *where, ew_config *config, ew_error *error) {
    ew_string member;
    json_t *processor;
    if (!ew_json_find_member(text, "post_processor", &member) || ew_string_is(member, "null")) {
        return EW_OK;
    }
    while (member.length > 0 && strchr(" \t\r\n", member.data[member.length - 1])) {
        member.length--;
    }
    if (ew_string_is(member, "null")) {
        return EW_OK;
    }
    ew_status status = ew_json_parse(member, where, &processor, error);
    if (status == EW_OK) {
        read_template(processor, config);
        json_decref(processor);
    }
    return status;
}

ew_status ew_config_read_token_files(const ew_config_texts *texts, const char *where, ew_config *config,
                                     ew_error *error) {
    json_t *object;
    bool said = false;
    ew_status status = EW_OK;
    if (texts->tokenizer_config.data) {
        status = ew_json_parse(texts->tokenizer_config, where, &object, error);
        if (status == EW_OK) {
            status = read_tokenizer_config(object, where, config, &said, error);
            json_decref(object);
        }
    }
    if (status == EW_OK && !said && texts->tokenizer.data) {
        status = read_tokenizer(texts->tokenizer, where, config, error);
    }
    return status;
}
