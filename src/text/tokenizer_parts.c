#include "text/tokenizer_parts.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "text/characters.h"

#include <stdlib.h>
#include <string.h>

void ew_parts_begin(ew_tokenizer_parts *parts, const char *name) {
    *parts = (ew_tokenizer_parts){
        .name = name, .bos = EW_NO_TOKEN, .eos = EW_NO_TOKEN, .pad = EW_NO_TOKEN, .unknown = EW_NO_TOKEN};
}

void ew_parts_free(ew_tokenizer_parts *parts) {
    ew_buffer_free(&parts->token_bytes);
    ew_buffer_free(&parts->strings);
    free(parts->tokens);
    free(parts->index);
    free(parts->merges);
    free(parts->added);
    *parts = (ew_tokenizer_parts){0};
}

/* The bytes that a written form stands for, into `out`, which has room for as many as the form has; false if
 * it is not in the alphabet. */
static bool read_letters(const char *text, size_t length, uint8_t *out, size_t *n_bytes) {
    size_t count = 0;
    for (size_t at = 0; at < length;) {
        uint32_t codepoint = 0;
        size_t n = ew_utf8_decode(text + at, length - at, &codepoint);
        int byte = n > 0 ? ew_letter_byte(codepoint) : -1;
        if (byte < 0) {
            return false;
        }
        out[count++] = (uint8_t)byte;
        at += n;
    }
    *n_bytes = count;
    return true;
}

/* Appends them, or the text as it is when it is not in the alphabet (false). */
static bool append_letters(ew_buffer *out, const char *text, size_t length) {
    size_t before = out->length, count = 0;
    ew_buffer_append(out, text, length);
    if (out->failed || !read_letters(text, length, (uint8_t *)out->data + before, &count)) {
        return false;
    }
    out->length = before + count;
    return true;
}

static ew_status reserve_id(ew_tokenizer_parts *parts, int64_t id, ew_error *error) {
    if (id < 0 || id >= EW_BLOB_MAX_TOKENS) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: token id %lld is out of range: 0 to %d are right",
                       parts->name, (long long)id, EW_BLOB_MAX_TOKENS - 1);
    }
    size_t wanted = (size_t)id + 1;
    if (!ew_grow((void **)&parts->tokens, &parts->token_capacity, wanted, sizeof *parts->tokens)) {
        return ew_fail_memory(error, wanted * sizeof *parts->tokens, "a vocabulary");
    }
    while (parts->n_tokens < wanted) {
        parts->tokens[parts->n_tokens++] = (ew_part_token){0};
    }
    return EW_OK;
}

static ew_status store_token(ew_tokenizer_parts *parts, int64_t id, size_t start, uint32_t flags,
                             ew_error *error) {
    if (parts->token_bytes.failed || parts->token_bytes.length > INT32_MAX) {
        return ew_fail_memory(error, parts->token_bytes.length, "a vocabulary");
    }
    size_t length = parts->token_bytes.length - start;
    parts->tokens[id] = (ew_part_token){(uint32_t)start, (uint32_t)length, flags};
    return EW_OK;
}

ew_status ew_parts_token(ew_tokenizer_parts *parts, int64_t id, const char *text, size_t length,
                         ew_error *error) {
    ew_status status = reserve_id(parts, id, error);
    if (status != EW_OK) {
        return status;
    }
    if (parts->tokens[id].flags != 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: two tokens have the id %lld, the second is '%.*s'",
                       parts->name, (long long)id, ew_utf8_shown(text, length), text);
    }
    size_t start = parts->token_bytes.length;
    uint32_t flags = EW_TOKEN_PRESENT;
    if (length > 0 && append_letters(&parts->token_bytes, text, length)) {
        flags |= EW_TOKEN_MODEL;
    }
    return store_token(parts, id, start, flags, error);
}

static bool same_text(const ew_tokenizer_parts *parts, const ew_blob_added *added, const char *text,
                      size_t length) {
    return added->text.count == length && memcmp(parts->strings.data + added->text.start, text, length) == 0;
}

/* An added token may stand in the vocabulary, too, with the same text. */
static bool agrees(const ew_tokenizer_parts *parts, int64_t id, const char *text, size_t length) {
    ew_part_token token = parts->tokens[id];
    uint8_t bytes[EW_BLOB_MAX_ADDED_LENGTH];
    size_t count = 0;
    const void *expected = text;
    if (token.flags & EW_TOKEN_MODEL && read_letters(text, length, bytes, &count)) {
        expected = bytes;
        length = count;
    }
    return token.length == length && memcmp(parts->token_bytes.data + token.start, expected, length) == 0;
}

ew_status ew_parts_added(ew_tokenizer_parts *parts, int64_t id, const char *text, size_t length, bool special,
                         uint32_t flags, ew_error *error) {
    int shown = ew_utf8_shown(text, length);
    if (length == 0 || length > EW_BLOB_MAX_ADDED_LENGTH) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: the text of the added token %lld has %zu bytes; 1 to %d are right", parts->name,
                       (long long)id, length, EW_BLOB_MAX_ADDED_LENGTH);
    }
    ew_status status = reserve_id(parts, id, error);
    if (status != EW_OK) {
        return status;
    }
    if (parts->tokens[id].flags & EW_TOKEN_ADDED) {
        ew_part_token old = parts->tokens[id];
        bool equal = old.length == length && memcmp(parts->token_bytes.data + old.start, text, length) == 0;
        return equal ? EW_OK
                     : ew_fail(error, EW_ERROR_FORMAT,
                               "%s: two added tokens have the id %lld, the second is '%.*s'", parts->name,
                               (long long)id, shown, text);
    }
    if (parts->tokens[id].flags != 0 && !agrees(parts, id, text, length)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the added token '%.*s' has the id %lld of another token",
                       parts->name, shown, text, (long long)id);
    }
    if (!ew_grow((void **)&parts->added, &parts->added_capacity, parts->n_added + 1, sizeof *parts->added)) {
        return ew_fail_memory(error, (parts->n_added + 1) * sizeof *parts->added, "added tokens");
    }
    ew_blob_range range = {(uint32_t)parts->strings.length, (uint32_t)length};
    parts->added[parts->n_added++] = (ew_blob_added){(int32_t)id, flags, range};
    ew_buffer_append(&parts->strings, text, length);
    size_t start = parts->token_bytes.length;
    ew_buffer_append(&parts->token_bytes, text, length);
    if (parts->strings.failed) {
        parts->n_added--;
        return ew_fail_memory(error, length, "added tokens");
    }
    uint32_t kept =
        parts->tokens[id].flags | EW_TOKEN_PRESENT | EW_TOKEN_ADDED | (special ? EW_TOKEN_SPECIAL : 0);
    return store_token(parts, id, start, kept, error);
}

static const uint8_t *token_at(const ew_tokenizer_parts *parts, size_t id) {
    return (const uint8_t *)parts->token_bytes.data + parts->tokens[id].start;
}

/* Of two tokens with the same bytes merges produce the first. False when the look-up would be endless. */
static bool index_token(ew_tokenizer_parts *parts, size_t id) {
    size_t length = parts->tokens[id].length;
    uint32_t slot = ew_hash_slot(ew_hash_bytes(token_at(parts, id), length), parts->index_capacity);
    for (uint32_t probes = 0; probes < EW_BLOB_MAX_PROBES; probes++) {
        int32_t other = parts->index[slot];
        if (other == EW_NO_TOKEN) {
            parts->index[slot] = (int32_t)id;
            return true;
        }
        if (parts->tokens[other].length == length &&
            memcmp(token_at(parts, (size_t)other), token_at(parts, id), length) == 0) {
            parts->tokens[id].flags &= ~(uint32_t)EW_TOKEN_MODEL;
            return true;
        }
        slot = slot + 1 == parts->index_capacity ? 0 : slot + 1;
    }
    return false;
}

ew_status ew_parts_index(ew_tokenizer_parts *parts, ew_error *error) {
    uint32_t capacity = (uint32_t)parts->n_tokens * 2 + 1;
    parts->index = malloc(capacity * sizeof *parts->index);
    if (!parts->index) {
        return ew_fail_memory(error, capacity * sizeof *parts->index, "a vocabulary");
    }
    parts->index_capacity = capacity;
    for (uint32_t i = 0; i < capacity; i++) {
        parts->index[i] = EW_NO_TOKEN;
    }
    for (size_t id = 0; id < parts->n_tokens; id++) {
        if (parts->tokens[id].flags & EW_TOKEN_MODEL && !index_token(parts, id)) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: the vocabulary was made to collide in hash tables",
                           parts->name);
        }
    }
    return EW_OK;
}

static int32_t find_bytes(const ew_tokenizer_parts *parts, const uint8_t *bytes, size_t length) {
    uint32_t slot = ew_hash_slot(ew_hash_bytes(bytes, length), parts->index_capacity);
    while (parts->index[slot] != EW_NO_TOKEN) {
        size_t id = (size_t)parts->index[slot];
        if (parts->tokens[id].length == length && memcmp(token_at(parts, id), bytes, length) == 0) {
            return (int32_t)id;
        }
        slot = slot + 1 == parts->index_capacity ? 0 : slot + 1;
    }
    return EW_NO_TOKEN;
}

int32_t ew_parts_find(const ew_tokenizer_parts *parts, const char *text, size_t length) {
    uint8_t bytes[EW_BLOB_MAX_ADDED_LENGTH];
    size_t count = 0;
    bool letters = length > 0 && length <= sizeof bytes && read_letters(text, length, bytes, &count);
    return letters ? find_bytes(parts, bytes, count) : EW_NO_TOKEN;
}

ew_status ew_parts_merge(ew_tokenizer_parts *parts, const char *left, size_t left_length, const char *right,
                         size_t right_length, ew_error *error) {
    uint8_t bytes[2 * EW_BLOB_MAX_ADDED_LENGTH];
    ew_part_merge merge = {EW_NO_TOKEN, EW_NO_TOKEN, EW_NO_TOKEN};
    size_t middle = 0, count = 0;
    if (!ew_grow((void **)&parts->merges, &parts->merge_capacity, parts->n_merges + 1,
                 sizeof *parts->merges)) {
        return ew_fail_memory(error, (parts->n_merges + 1) * sizeof *parts->merges, "merges");
    }
    if (left_length <= sizeof bytes / 2 && right_length <= sizeof bytes / 2 &&
        read_letters(left, left_length, bytes, &middle) &&
        read_letters(right, right_length, bytes + middle, &count) && middle > 0 && count > 0) {
        merge.left = find_bytes(parts, bytes, middle);
        merge.right = find_bytes(parts, bytes + middle, count);
        merge.result = find_bytes(parts, bytes, middle + count);
    }
    if (merge.left == EW_NO_TOKEN || merge.right == EW_NO_TOKEN || merge.result == EW_NO_TOKEN) {
        return ew_fail(
            error, EW_ERROR_FORMAT,
            "%s: merge %zu joins '%.*s' and '%.*s', but one of them or the whole is not in the vocabulary",
            parts->name, parts->n_merges, ew_utf8_shown(left, left_length), left,
            ew_utf8_shown(right, right_length), right);
    }
    parts->merges[parts->n_merges++] = merge;
    return EW_OK;
}

ew_status ew_parts_merge_line(ew_tokenizer_parts *parts, const char *line, size_t length, ew_error *error) {
    const char *space = memchr(line, ' ', length);
    if (!space || memchr(space + 1, ' ', length - (size_t)(space + 1 - line))) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: merge %zu is '%.*s'; two tokens with one space between are right", parts->name,
                       parts->n_merges, ew_utf8_shown(line, length), line);
    }
    size_t left = (size_t)(space - line);
    return ew_parts_merge(parts, line, left, space + 1, length - left - 1, error);
}

ew_status ew_parts_split(ew_tokenizer_parts *parts, ew_step_kind kind, const char *pattern, size_t length,
                         ew_split_behavior behavior, bool invert, ew_error *error) {
    if (parts->n_steps == EW_BLOB_MAX_STEPS) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: the pre-tokenizer has more than %d steps",
                       parts->name, EW_BLOB_MAX_STEPS);
    }
    if (length > EW_PATTERN_MAX_LENGTH) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: a pattern of the pre-tokenizer has %zu bytes; at most %d are read", parts->name,
                       length, EW_PATTERN_MAX_LENGTH);
    }
    ew_blob_range range = {(uint32_t)parts->strings.length, (uint32_t)length};
    parts->steps[parts->n_steps++] = (ew_blob_step){kind, behavior, invert, range};
    ew_buffer_append(&parts->strings, pattern, length);
    return parts->strings.failed ? ew_fail_memory(error, length, "a pattern") : EW_OK;
}

ew_status ew_parts_chat_template(ew_tokenizer_parts *parts, const char *text, size_t length,
                                 ew_error *error) {
    if (length > INT32_MAX / 2) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the chat template is too long", parts->name);
    }
    parts->chat_template = (ew_blob_range){(uint32_t)parts->strings.length, (uint32_t)length};
    ew_buffer_append(&parts->strings, text, length);
    return parts->strings.failed ? ew_fail_memory(error, length, "a chat template") : EW_OK;
}

int32_t ew_parts_find_special(const ew_tokenizer_parts *parts, const char *text, size_t length) {
    for (size_t i = 0; i < parts->n_added; i++) {
        if (same_text(parts, &parts->added[i], text, length)) {
            return parts->added[i].id;
        }
    }
    return ew_parts_find(parts, text, length);
}
