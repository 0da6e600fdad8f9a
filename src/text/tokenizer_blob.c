#include "text/tokenizer_blob.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static const size_t element_sizes[EW_N_SECTIONS] = {[EW_SECTION_TOKEN_STARTS] = sizeof(uint32_t),
                                                    [EW_SECTION_TOKEN_BYTES] = 1,
                                                    [EW_SECTION_TOKEN_FLAGS] = 1,
                                                    [EW_SECTION_BYTE_TOKENS] = sizeof(int32_t),
                                                    [EW_SECTION_VOCABULARY] = sizeof(int32_t),
                                                    [EW_SECTION_MERGES] = sizeof(ew_blob_merge),
                                                    [EW_SECTION_ADDED] = sizeof(ew_blob_added),
                                                    [EW_SECTION_STEPS] = sizeof(ew_blob_step),
                                                    [EW_SECTION_STRINGS] = 1};

static ew_status fail_blob(ew_error *error, const char *name, const char *what) {
    return ew_fail(error, EW_ERROR_FORMAT, "%s: the tokenizer's tables are damaged: %s", name, what);
}

static bool id_or_none(const ew_blob_header *header, int32_t id) {
    return id == EW_NO_TOKEN || (id >= 0 && (uint32_t)id < header->n_tokens);
}

static bool inside_strings(const ew_blob_header *header, ew_blob_range range) {
    uint32_t size = header->sections[EW_SECTION_STRINGS].count;
    return range.start <= size && range.count <= size - range.start;
}

static ew_status check_header(const void *data, size_t size, const char *name, ew_error *error) {
    const ew_blob_header *header = data;
    if (size < sizeof *header || (uintptr_t)data % 8 != 0) {
        return fail_blob(error, name, "they are too short, or not aligned to 8 bytes");
    }
    if (memcmp(header->magic, EW_BLOB_MAGIC, sizeof header->magic) != 0) {
        return fail_blob(error, name, "they do not begin with " EW_BLOB_MAGIC);
    }
    if (header->size > size || header->n_tokens > EW_BLOB_MAX_TOKENS ||
        header->flags & ~(uint32_t)EW_BLOB_ALL_FLAGS) {
        return fail_blob(error, name, "a size or a flag in the header is out of range");
    }
    if (!id_or_none(header, header->bos) || !id_or_none(header, header->eos) ||
        !id_or_none(header, header->pad) || !id_or_none(header, header->unknown)) {
        return fail_blob(error, name, "a special token's id is out of range");
    }
    if (header->vocabulary_probes > EW_BLOB_MAX_PROBES || header->merge_probes > EW_BLOB_MAX_PROBES) {
        return fail_blob(error, name, "a hash table claims endless look-ups");
    }
    return EW_OK;
}

static ew_status check_sections(const ew_blob_header *header, const char *name, ew_error *error) {
    for (size_t i = 0; i < EW_N_SECTIONS; i++) {
        ew_blob_range range = header->sections[i];
        if (range.start % 8 != 0 || range.start > header->size ||
            range.count > (header->size - range.start) / element_sizes[i]) {
            return fail_blob(error, name, "a section lies outside");
        }
    }
    const ew_blob_range *sections = header->sections;
    if (sections[EW_SECTION_TOKEN_STARTS].count != header->n_tokens + 1 ||
        sections[EW_SECTION_TOKEN_FLAGS].count != header->n_tokens ||
        sections[EW_SECTION_BYTE_TOKENS].count != 256 ||
        sections[EW_SECTION_STEPS].count > EW_BLOB_MAX_STEPS ||
        header->n_raw_added > sections[EW_SECTION_ADDED].count ||
        !inside_strings(header, header->chat_template)) {
        return fail_blob(error, name, "a section has the wrong length");
    }
    return EW_OK;
}

static const void *section(const ew_tokenizer *tokenizer, ew_section which) {
    return tokenizer->data + tokenizer->header->sections[which].start;
}

static void point_at_sections(ew_tokenizer *tokenizer) {
    tokenizer->token_starts = section(tokenizer, EW_SECTION_TOKEN_STARTS);
    tokenizer->token_bytes = section(tokenizer, EW_SECTION_TOKEN_BYTES);
    tokenizer->token_flags = section(tokenizer, EW_SECTION_TOKEN_FLAGS);
    tokenizer->byte_tokens = section(tokenizer, EW_SECTION_BYTE_TOKENS);
    tokenizer->vocabulary = section(tokenizer, EW_SECTION_VOCABULARY);
    tokenizer->merges = section(tokenizer, EW_SECTION_MERGES);
    tokenizer->added = section(tokenizer, EW_SECTION_ADDED);
    tokenizer->steps = section(tokenizer, EW_SECTION_STEPS);
    tokenizer->strings = section(tokenizer, EW_SECTION_STRINGS);
}

static ew_status check_short_lists(ew_tokenizer *tokenizer, const char *name, ew_error *error) {
    const ew_blob_header *header = tokenizer->header;
    for (size_t i = 0; i < 256; i++) {
        if (!id_or_none(header, tokenizer->byte_tokens[i])) {
            return fail_blob(error, name, "a byte's token is out of range");
        }
    }
    for (uint32_t i = 0; i < ew_section_count(tokenizer, EW_SECTION_ADDED); i++) {
        const ew_blob_added *added = &tokenizer->added[i];
        if (added->id < 0 || !id_or_none(header, added->id) || !inside_strings(header, added->text) ||
            added->text.count == 0 || added->text.count > EW_BLOB_MAX_ADDED_LENGTH) {
            return fail_blob(error, name, "an added token is out of range");
        }
        unsigned char first = (unsigned char)tokenizer->strings[added->text.start];
        tokenizer->added_first[i < header->n_raw_added ? 0 : 1][first] = true;
    }
    return EW_OK;
}

static ew_status compile_steps(ew_tokenizer *tokenizer, const char *name, ew_error *error) {
    for (uint32_t i = 0; i < ew_section_count(tokenizer, EW_SECTION_STEPS); i++) {
        const ew_blob_step *step = &tokenizer->steps[i];
        if (step->kind >= EW_N_STEP_KINDS || step->behavior >= EW_N_SPLIT_BEHAVIORS ||
            !inside_strings(tokenizer->header, step->pattern)) {
            return fail_blob(error, name, "a step of the pre-tokenizer is out of range");
        }
        if (step->kind == EW_STEP_PREFIX_SPACE) {
            continue;
        }
        ew_status status = ew_pattern_compile(tokenizer->strings + step->pattern.start, step->pattern.count,
                                              step->kind == EW_STEP_LITERAL, &tokenizer->patterns[i], error);
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

static ew_status open_over(const void *data, size_t size, void *owned, const char *name, ew_tokenizer **out,
                           ew_error *error) {
    ew_status status = check_header(data, size, name, error);
    if (status == EW_OK) {
        status = check_sections(data, name, error);
    }
    ew_tokenizer *tokenizer = status == EW_OK ? calloc(1, sizeof *tokenizer) : NULL;
    if (status == EW_OK && !tokenizer) {
        status = ew_fail_memory(error, sizeof *tokenizer, "a tokenizer");
    }
    if (status != EW_OK) {
        free(owned);
        return status;
    }
    tokenizer->owned = owned;
    tokenizer->data = data;
    tokenizer->header = data;
    point_at_sections(tokenizer);
    status = check_short_lists(tokenizer, name, error);
    if (status == EW_OK) {
        status = compile_steps(tokenizer, name, error);
    }
    if (status != EW_OK) {
        ew_tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return EW_OK;
}

ew_status ew_tokenizer_open_blob(const void *data, size_t size, const char *name, ew_tokenizer **out,
                                 ew_error *error) {
    return open_over(data, size, NULL, name, out, error);
}

ew_status ew_tokenizer_adopt_blob(void *data, size_t size, const char *name, ew_tokenizer **out,
                                  ew_error *error) {
    return open_over(data, size, data, name, out, error);
}

void ew_tokenizer_close(ew_tokenizer *tokenizer) {
    if (!tokenizer) {
        return;
    }
    for (size_t i = 0; i < EW_BLOB_MAX_STEPS; i++) {
        ew_pattern_free(tokenizer->patterns[i]);
    }
    free(tokenizer->owned);
    free(tokenizer);
}

const void *ew_tokenizer_blob(const ew_tokenizer *tokenizer, size_t *size) {
    *size = tokenizer->header->size;
    return tokenizer->data;
}

ew_status ew_tokenizer_serialize(const ew_tokenizer *tokenizer, ew_buffer *out, ew_error *error) {
    ew_buffer_append(out, tokenizer->data, tokenizer->header->size);
    return out->failed ? ew_fail_memory(error, tokenizer->header->size, "the tokenizer's tables") : EW_OK;
}

int32_t ew_blob_find_bytes(const ew_tokenizer *tokenizer, const uint8_t *bytes, size_t length) {
    uint32_t capacity = ew_section_count(tokenizer, EW_SECTION_VOCABULARY);
    uint32_t slot = ew_hash_slot(ew_hash_bytes(bytes, length), capacity);
    for (uint32_t n = 0; capacity > 0 && n < tokenizer->header->vocabulary_probes; n++) {
        int32_t id = tokenizer->vocabulary[slot];
        const char *piece = NULL;
        size_t piece_length = 0;
        if (id == EW_NO_TOKEN) {
            break;
        }
        if (ew_tokenizer_piece(tokenizer, id, &piece, &piece_length) && piece_length == length &&
            memcmp(piece, bytes, length) == 0) {
            return id;
        }
        slot = slot + 1 == capacity ? 0 : slot + 1;
    }
    return EW_NO_TOKEN;
}

const ew_blob_merge *ew_blob_find_merge(const ew_tokenizer *tokenizer, int32_t left, int32_t right) {
    uint32_t capacity = ew_section_count(tokenizer, EW_SECTION_MERGES);
    uint32_t slot = ew_hash_slot(ew_hash_pair(left, right), capacity);
    for (uint32_t n = 0; capacity > 0 && n < tokenizer->header->merge_probes; n++) {
        const ew_blob_merge *merge = &tokenizer->merges[slot];
        if (merge->left == EW_NO_TOKEN) {
            break;
        }
        if (merge->left == left && merge->right == right) {
            bool valid = merge->result >= 0 && (uint32_t)merge->result < tokenizer->header->n_tokens;
            return valid ? merge : NULL;
        }
        slot = slot + 1 == capacity ? 0 : slot + 1;
    }
    return NULL;
}
