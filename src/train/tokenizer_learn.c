#include "train/tokenizer_learn_json.h"

#include "base/file.h"
#include "base/utf8.h"
#include "format/json.h"
#include "format/lines.h"
#include "text/pretokenize.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 1 << 20 }; /* bytes of a text that are cut at once, to the next line end */

/* ---- Opening ---- */

static ew_status check_options(const ew_learn_options *options, ew_error *error) {
    size_t least = 256 + options->n_added;
    if (options->n_added > EW_LEARN_MAX_ADDED) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%zu added tokens; at most %d are possible", options->n_added,
                       EW_LEARN_MAX_ADDED);
    }
    if (options->vocab_size < least || options->vocab_size > EW_LEARN_MAX_VOCAB) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "a vocabulary of %zu tokens cannot be learned; %zu (256 bytes and the added tokens) to %d can",
                       options->vocab_size, least, EW_LEARN_MAX_VOCAB);
    }
    for (size_t i = 0; i < options->n_added; i++) {
        size_t length = strlen(options->added[i]);
        if (length == 0 || ew_utf8_valid_prefix(options->added[i], length) != length) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "added token %zu is empty or no UTF-8", i);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(options->added[i], options->added[j]) == 0) {
                return ew_fail(error, EW_ERROR_ARGUMENT, "the token %.80s is added twice", options->added[i]);
            }
        }
    }
    return EW_OK;
}

ew_status ew_tokenizer_learner_open(const ew_learn_options *options, ew_tokenizer_learner *learner, ew_error *error) {
    *learner = (ew_tokenizer_learner){.options = *options};
    ew_buffer json = {0};
    ew_status status = check_options(options, error);
    if (status == EW_OK) {
        status = ew_bpe_learner_open(&learner->learner, error);
    }
    if (status == EW_OK) {
        status = ew_learned_tokenizer_json(&learner->learner, options, &json, error);
    }
    if (status == EW_OK) {
        status = ew_tokenizer_from_json(json.data, json.length, NULL, 0, "the new tokenizer", &learner->cutter, error);
    }
    ew_buffer_free(&json);
    return status;
}

void ew_tokenizer_learner_close(ew_tokenizer_learner *learner) {
    ew_tokenizer_close(learner->cutter);
    ew_bpe_learner_free(&learner->learner);
    *learner = (ew_tokenizer_learner){0};
}

/* ---- Texts ---- */

static ew_status count_pieces(ew_tokenizer_learner *learner, const char *text, size_t length, ew_pretokenizer *scratch,
                              ew_error *error) {
    ew_status status = ew_pretokenize(learner->cutter, text, length, scratch, error);
    for (size_t i = 0; status == EW_OK && i < scratch->pieces.count; i++) {
        ew_piece piece = scratch->pieces.list[i];
        status = ew_bpe_count(&learner->learner, (const uint8_t *)scratch->text + piece.start, piece.length, error);
    }
    return status;
}

/* Well-formed text: what stands between added tokens. */
static ew_status add_valid(ew_tokenizer_learner *learner, const char *text, size_t length, ew_pretokenizer *scratch,
                           ew_error *error) {
    size_t from = 0, start = 0, end = 0;
    const ew_blob_added *found = NULL;
    ew_status status = EW_OK;
    while (status == EW_OK && from < length) {
        bool any = ew_added_find(learner->cutter, 0, text, length, from, &start, &end, &found);
        size_t stop = any ? start : length;
        status = stop > from ? count_pieces(learner, text + from, stop - from, scratch, error) : EW_OK;
        from = any ? end : length;
    }
    return status;
}

/* The next part of a text: to the line end after BLOCK bytes, or to the first byte that is no UTF-8. */
static size_t block_length(ew_string text) {
    size_t length = text.length;
    if (length > BLOCK) {
        const char *end = memchr(text.data + BLOCK, '\n', length - BLOCK);
        length = end ? (size_t)(end - text.data) + 1 : length;
    }
    return length < INT32_MAX ? length : INT32_MAX;
}

ew_status ew_tokenizer_learner_add(ew_tokenizer_learner *learner, ew_string text, ew_error *error) {
    ew_pretokenizer scratch = {0};
    ew_status status = EW_OK;
    while (status == EW_OK && text.length > 0) {
        size_t valid = ew_utf8_valid_prefix(text.data, block_length(text));
        bool cut = false;
        status = add_valid(learner, text.data, valid, &scratch, error);
        valid = valid > 0 ? valid : ew_utf8_broken(text.data, text.length, &cut);
        text.data += valid;
        text.length -= valid;
    }
    ew_pretokenizer_free(&scratch);
    return status;
}

static bool is_text_key(const char *key) {
    static const char *const keys[] = {"problem", "solution", "answer",   "choices",          "text",
                                       "content", "value",    "thinking", "reasoning_content"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

/* All strings under keys that hold text. Jansson bounds the depth. */
static ew_status add_strings(ew_tokenizer_learner *learner, const json_t *value, bool is_text, ew_error *error) {
    ew_status status = EW_OK;
    if (json_is_string(value)) {
        ew_string text = {json_string_value(value), json_string_length(value)};
        return is_text ? ew_tokenizer_learner_add(learner, text, error) : EW_OK;
    }
    for (size_t i = 0; status == EW_OK && i < json_array_size(value); i++) {
        status = add_strings(learner, json_array_get(value, i), is_text, error);
    }
    void *entry = json_object_iter((json_t *)(uintptr_t)value);
    while (status == EW_OK && entry) {
        status = add_strings(learner, json_object_iter_value(entry), is_text_key(json_object_iter_key(entry)), error);
        entry = json_object_iter_next((json_t *)(uintptr_t)value, entry);
    }
    return status;
}

static ew_status add_lines(ew_tokenizer_learner *learner, ew_string text, const char *path, ew_error *error) {
    ew_string line;
    size_t number = 0;
    ew_status status = EW_OK;
    while (status == EW_OK && ew_next_line(&text, &line, &number)) {
        char where[320];
        json_t *object = NULL;
        snprintf(where, sizeof where, "%.256s line %zu", path, number);
        status = ew_json_parse(line, where, &object, error);
        if (status == EW_OK) {
            status = add_strings(learner, object, false, error);
        }
        json_decref(object);
    }
    return status;
}

ew_status ew_tokenizer_learner_add_file(ew_tokenizer_learner *learner, const char *path, ew_error *error) {
    ew_mapping mapping;
    ew_status status = ew_map_file(path, &mapping, error);
    if (status != EW_OK) {
        return status;
    }
    ew_string text = {mapping.data ? (const char *)mapping.data : "", mapping.size};
    size_t length = strlen(path);
    bool lines = length >= 6 && strcmp(path + length - 6, ".jsonl") == 0;
    status = lines ? add_lines(learner, text, path, error) : ew_tokenizer_learner_add(learner, text, error);
    ew_unmap(&mapping);
    return status;
}

/* ---- The result ---- */

ew_status ew_tokenizer_learner_finish(ew_tokenizer_learner *learner, ew_buffer *tokenizer_json, ew_buffer *config_json,
                                      ew_error *error) {
    const ew_learn_options *options = &learner->options;
    if (learner->learner.n_pieces == 0) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "there is no text to learn a tokenizer from");
    }
    ew_status status =
        ew_bpe_learn(&learner->learner, options->vocab_size - options->n_added, options->least_count, error);
    if (status == EW_OK) {
        status = ew_learned_tokenizer_json(&learner->learner, options, tokenizer_json, error);
    }
    return status == EW_OK ? ew_learned_config_json(options, config_json, error) : status;
}
