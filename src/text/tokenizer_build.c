/* From the collected parts to the blob: hash tables laid out, added tokens sorted, sections placed. */
#include "text/tokenizer_parts.h"

#include "base/memory.h"
#include "text/normalize.h"

#include <stdlib.h>
#include <string.h>

typedef struct build {
    const ew_tokenizer_parts *parts;
    ew_blob_header header;
    uint32_t *token_starts;
    uint8_t *token_bytes;
    uint8_t *token_flags;
    int32_t byte_tokens[256];
    int32_t *vocabulary;
    ew_blob_merge *merges;
    ew_blob_added *added;
    ew_buffer strings;
    ew_error *error;
} build;

static void set_count(build *b, ew_section section, size_t count) {
    b->header.sections[section].count = (uint32_t)count;
}

/* Tokens in the order of their ids, each as its text or bytes. */
static ew_status lay_tokens(build *b) {
    const ew_tokenizer_parts *parts = b->parts;
    size_t n = parts->n_tokens, total = 0;
    for (size_t id = 0; id < n; id++) {
        total += parts->tokens[id].length;
    }
    b->token_starts = ew_allocate(n + 1, sizeof *b->token_starts);
    b->token_bytes = ew_allocate(total, 1);
    b->token_flags = ew_allocate(n, 1);
    if (!b->token_starts || !b->token_bytes || !b->token_flags || total > INT32_MAX) {
        return ew_fail_memory(b->error, total + n * 5, "a vocabulary");
    }
    for (int i = 0; i < 256; i++) {
        b->byte_tokens[i] = EW_NO_TOKEN;
    }
    size_t at = 0;
    for (size_t id = 0; id < n; id++) {
        ew_part_token token = parts->tokens[id];
        b->token_starts[id] = (uint32_t)at;
        b->token_flags[id] = (uint8_t)token.flags;
        if (token.length > 0) {
            memcpy(b->token_bytes + at, parts->token_bytes.data + token.start, token.length);
            at += token.length;
        }
        if (token.flags & EW_TOKEN_MODEL && token.length == 1) {
            b->byte_tokens[b->token_bytes[at - 1]] = (int32_t)id;
        }
    }
    b->token_starts[n] = (uint32_t)at;
    b->header.n_tokens = (uint32_t)n;
    set_count(b, EW_SECTION_TOKEN_STARTS, n + 1);
    set_count(b, EW_SECTION_TOKEN_BYTES, total);
    set_count(b, EW_SECTION_TOKEN_FLAGS, n);
    set_count(b, EW_SECTION_BYTE_TOKENS, 256);
    return EW_OK;
}

/* One attempt at a table of `capacity` slots; false when a look-up would be too long. */
static bool fill_vocabulary(build *b, uint32_t capacity) {
    uint32_t longest = 0;
    for (uint32_t i = 0; i < capacity; i++) {
        b->vocabulary[i] = EW_NO_TOKEN;
    }
    for (uint32_t id = 0; id < b->header.n_tokens; id++) {
        if (!(b->token_flags[id] & EW_TOKEN_MODEL)) {
            continue;
        }
        uint32_t start = b->token_starts[id], probes = 1;
        uint32_t slot =
            ew_hash_slot(ew_hash_bytes(b->token_bytes + start, b->token_starts[id + 1] - start), capacity);
        for (; b->vocabulary[slot] != EW_NO_TOKEN; probes++) {
            slot = slot + 1 == capacity ? 0 : slot + 1;
            if (probes == EW_BLOB_MAX_PROBES) {
                return false;
            }
        }
        b->vocabulary[slot] = (int32_t)id;
        longest = probes > longest ? probes : longest;
    }
    b->header.vocabulary_probes = longest;
    set_count(b, EW_SECTION_VOCABULARY, capacity);
    return true;
}

/* Of two merges of the same pair the later one counts, as in the `tokenizers` library. */
static bool fill_merges(build *b, uint32_t capacity) {
    uint32_t longest = 0;
    for (uint32_t i = 0; i < capacity; i++) {
        b->merges[i] = (ew_blob_merge){EW_NO_TOKEN, EW_NO_TOKEN, EW_NO_TOKEN, 0};
    }
    for (size_t rank = 0; rank < b->parts->n_merges; rank++) {
        ew_part_merge merge = b->parts->merges[rank];
        uint32_t slot = ew_hash_slot(ew_hash_pair(merge.left, merge.right), capacity), probes = 1;
        for (; b->merges[slot].left != EW_NO_TOKEN; probes++) {
            if (b->merges[slot].left == merge.left && b->merges[slot].right == merge.right) {
                break;
            }
            slot = slot + 1 == capacity ? 0 : slot + 1;
            if (probes == EW_BLOB_MAX_PROBES) {
                return false;
            }
        }
        b->merges[slot] = (ew_blob_merge){merge.left, merge.right, merge.result, (uint32_t)rank};
        longest = probes > longest ? probes : longest;
    }
    b->header.merge_probes = longest;
    set_count(b, EW_SECTION_MERGES, capacity);
    return true;
}

/* Tables four fifths full; sparser ones for a vocabulary whose entries crowd, up to a sixteenth. */
static ew_status lay_table(build *b, size_t count, size_t slot_size, void **table,
                           bool (*fill)(build *, uint32_t)) {
    uint64_t capacity = count + count / 4 + 1, limit = 16 * (uint64_t)count + 64;
    for (; capacity <= limit && capacity <= INT32_MAX / slot_size; capacity *= 2) {
        free(*table);
        *table = ew_allocate(capacity, slot_size);
        if (!*table) {
            return ew_fail_memory(b->error, capacity * slot_size, "a tokenizer's tables");
        }
        if (fill(b, (uint32_t)capacity)) {
            return EW_OK;
        }
    }
    return ew_fail(b->error, EW_ERROR_FORMAT, "%s: the vocabulary was made to collide in hash tables",
                   b->parts->name);
}

typedef struct sortable {
    ew_blob_added added;
    const char *text;
} sortable;

static int compare_added(const void *left, const void *right) {
    const sortable *a = left, *b = right;
    bool a_late = a->added.flags & EW_ADDED_NORMALIZED, b_late = b->added.flags & EW_ADDED_NORMALIZED;
    if (a_late != b_late) {
        return a_late ? 1 : -1;
    }
    uint32_t shorter = a->added.text.count < b->added.text.count ? a->added.text.count : b->added.text.count;
    int order = memcmp(a->text, b->text, shorter);
    if (order != 0) {
        return order;
    }
    if (a->added.text.count != b->added.text.count) {
        return a->added.text.count < b->added.text.count ? -1 : 1;
    }
    return a->added.id < b->added.id ? -1 : 1; /* equal after normalization: the smaller id is found */
}

/* Texts sought in normalized text are normalized themselves. */
static ew_status normalize_added(build *b) {
    for (size_t i = 0; i < b->parts->n_added; i++) {
        ew_blob_added *added = &b->added[i];
        if (!(added->flags & EW_ADDED_NORMALIZED && b->parts->flags & EW_BLOB_NFC)) {
            continue;
        }
        size_t start = b->strings.length;
        ew_status status = ew_normalize_nfc(b->parts->strings.data + added->text.start, added->text.count,
                                            &b->strings, b->error);
        if (status != EW_OK) {
            return status;
        }
        added->text = (ew_blob_range){(uint32_t)start, (uint32_t)(b->strings.length - start)};
    }
    return b->strings.length > INT32_MAX ? ew_fail_memory(b->error, b->strings.length, "added tokens")
                                         : EW_OK;
}

static ew_status lay_added(build *b) {
    size_t n = b->parts->n_added, kept = 0;
    b->added = ew_allocate(n, sizeof *b->added);
    sortable *sorted = ew_allocate(n, sizeof *sorted);
    ew_status status = EW_OK;
    if (!b->added || !sorted) {
        free(sorted);
        return ew_fail_memory(b->error, n * sizeof *sorted, "added tokens");
    }
    if (n > 0) {
        memcpy(b->added, b->parts->added, n * sizeof *b->added);
    }
    status = normalize_added(b);
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        sorted[i] = (sortable){b->added[i], b->strings.data + b->added[i].text.start};
    }
    if (status == EW_OK && n > 0) {
        qsort(sorted, n, sizeof *sorted, compare_added);
    }
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        ew_blob_added added = sorted[i].added;
        bool raw = !(added.flags & EW_ADDED_NORMALIZED);
        bool same =
            kept > 0 &&
            (b->added[kept - 1].flags & EW_ADDED_NORMALIZED) == (added.flags & EW_ADDED_NORMALIZED) &&
            b->added[kept - 1].text.count == added.text.count &&
            memcmp(sorted[i].text, b->strings.data + b->added[kept - 1].text.start, added.text.count) == 0;
        if (same) {
            continue;
        }
        b->added[kept++] = added;
        b->header.n_raw_added += raw;
    }
    free(sorted);
    set_count(b, EW_SECTION_ADDED, kept);
    return status;
}

static ew_status place(build *b, ew_buffer *blob) {
    const void *data[EW_N_SECTIONS] = {b->token_starts, b->token_bytes,  b->token_flags,
                                       b->byte_tokens,  b->vocabulary,   b->merges,
                                       b->added,        b->parts->steps, b->strings.data};
    static const size_t sizes[EW_N_SECTIONS] = {
        4, 1, 1, 4, 4, sizeof(ew_blob_merge), sizeof(ew_blob_added), sizeof(ew_blob_step), 1};
    static const char zeros[8];
    uint64_t at = (sizeof b->header + 7) / 8 * 8;
    for (size_t i = 0; i < EW_N_SECTIONS; i++) {
        b->header.sections[i].start = (uint32_t)at;
        at = (at + b->header.sections[i].count * sizes[i] + 7) / 8 * 8;
        if (at > INT32_MAX) {
            return ew_fail(b->error, EW_ERROR_UNSUPPORTED, "%s: the tokenizer's tables exceed 2 GiB",
                           b->parts->name);
        }
    }
    b->header.size = (uint32_t)at;
    ew_buffer_append(blob, &b->header, sizeof b->header);
    for (size_t i = 0; i < EW_N_SECTIONS; i++) {
        ew_buffer_append(blob, zeros, b->header.sections[i].start - blob->length);
        size_t bytes = b->header.sections[i].count * sizes[i];
        if (bytes > 0) {
            ew_buffer_append(blob, data[i], bytes);
        }
        if (blob->failed) {
            return ew_fail_memory(b->error, at, "a tokenizer's tables");
        }
    }
    ew_buffer_append(blob, zeros, at - blob->length);
    return blob->failed ? ew_fail_memory(b->error, at, "a tokenizer's tables") : EW_OK;
}

static ew_status lay_all(build *b, ew_buffer *blob) {
    const ew_tokenizer_parts *parts = b->parts;
    memcpy(b->header.magic, EW_BLOB_MAGIC, sizeof b->header.magic);
    b->header.flags = parts->flags;
    b->header.bos = parts->bos;
    b->header.eos = parts->eos;
    b->header.pad = parts->pad;
    b->header.unknown = parts->unknown;
    b->header.chat_template = parts->chat_template;
    ew_buffer_append(&b->strings, parts->strings.data, parts->strings.length);
    if (b->strings.failed || parts->strings.failed) {
        return ew_fail_memory(b->error, parts->strings.length, "a tokenizer's tables");
    }
    ew_status status = lay_tokens(b);
    if (status == EW_OK && parts->flags & EW_BLOB_IGNORE_MERGES) {
        status =
            lay_table(b, parts->n_tokens, sizeof *b->vocabulary, (void **)&b->vocabulary, fill_vocabulary);
    }
    if (status == EW_OK) {
        status = lay_table(b, parts->n_merges, sizeof *b->merges, (void **)&b->merges, fill_merges);
    }
    if (status == EW_OK) {
        status = lay_added(b);
    }
    set_count(b, EW_SECTION_STEPS, parts->n_steps);
    set_count(b, EW_SECTION_STRINGS, b->strings.length);
    return status == EW_OK ? place(b, blob) : status;
}

ew_status ew_parts_finish(ew_tokenizer_parts *parts, ew_tokenizer **out, ew_error *error) {
    build b = {.parts = parts, .error = error};
    ew_buffer blob = {0};
    if (parts->n_tokens == 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the vocabulary is empty", parts->name);
    }
    ew_status status = lay_all(&b, &blob);
    free(b.token_starts);
    free(b.token_bytes);
    free(b.token_flags);
    free(b.vocabulary);
    free(b.merges);
    free(b.added);
    ew_buffer_free(&b.strings);
    if (status != EW_OK) {
        ew_buffer_free(&blob);
        return status;
    }
    return ew_tokenizer_adopt_blob(blob.data, blob.length, parts->name, out, error);
}
