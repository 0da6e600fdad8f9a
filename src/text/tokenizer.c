#include "text/tokenizer.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/characters.h"
#include "text/normalize.h"
#include "text/pretokenize.h"

#include <stdlib.h>
#include <string.h>

ew_status ew_tokens_append(ew_tokens *tokens, const int32_t *ids, size_t count, ew_error *error) {
    size_t wanted = 0;
    if (!ew_add_size(tokens->count, count, &wanted) ||
        !ew_grow((void **)&tokens->ids, &tokens->capacity, wanted, sizeof *tokens->ids)) {
        return ew_fail_memory(error, count * sizeof *ids, "a list of tokens");
    }
    if (count > 0) {
        memcpy(tokens->ids + tokens->count, ids, count * sizeof *ids);
        tokens->count = wanted;
    }
    return EW_OK;
}

void ew_tokens_free(ew_tokens *tokens) {
    free(tokens->ids);
    *tokens = (ew_tokens){0};
}

typedef struct encoding {
    const ew_tokenizer *tokenizer;
    bool specials;
    ew_pretokenizer pretokenizer;
    ew_bpe bpe;
    ew_buffer normalized;
    ew_tokens *out;
    ew_error *error;
} encoding;

static ew_status encode_plain(encoding *e, const char *text, size_t length) {
    ew_status status = ew_pretokenize(e->tokenizer, text, length, &e->pretokenizer, e->error);
    const ew_pieces *pieces = &e->pretokenizer.pieces;
    for (size_t i = 0; status == EW_OK && i < pieces->count; i++) {
        const char *piece = e->pretokenizer.text + pieces->list[i].start;
        status = ew_bpe_encode(e->tokenizer, (const uint8_t *)piece, pieces->list[i].length, &e->bpe, e->out,
                               e->error);
    }
    return status;
}

/* Whether an added token that wants to be a word of its own has a word character beside it. */
static bool touches_word(const char *text, size_t length, size_t start, size_t end) {
    uint32_t before = 0, after = 0;
    size_t n = ew_character_before(text, start, &before);
    return (n > 0 && ew_is_word(before)) ||
           (ew_utf8_decode(text + end, length - end, &after) > 0 && ew_is_word(after));
}

typedef ew_status (*encode_gap)(encoding *e, const char *text, size_t length);

/* Cuts the added tokens of one part out of a text and gives what lies between to `gap`. The order of the
 * conditions is that of the `tokenizers` library, AddedVocabulary::find_matches. */
static ew_status encode_around_added(encoding *e, unsigned part, const char *text, size_t length,
                                     encode_gap gap) {
    size_t done = 0, from = 0, start = 0, end = 0;
    const ew_blob_added *added = NULL;
    ew_status status = EW_OK;
    while (status == EW_OK && e->specials &&
           ew_added_find(e->tokenizer, part, text, length, from, &start, &end, &added)) {
        from = end;
        if (added->flags & EW_ADDED_SINGLE_WORD && touches_word(text, length, start, end)) {
            continue;
        }
        if (end <= done) { /* white space that an earlier token has taken */
            continue;
        }
        start = start > done ? start : done;
        if (added->flags & EW_ADDED_LSTRIP) {
            start = done + ew_trim_end(text + done, start - done);
        }
        if (added->flags & EW_ADDED_RSTRIP) {
            end += ew_leading_space(text + end, length - end);
        }
        if (start > done) {
            status = gap(e, text + done, start - done);
        }
        if (status == EW_OK) {
            status = ew_tokens_append(e->out, &added->id, 1, e->error);
        }
        done = end;
    }
    if (status == EW_OK && done < length) {
        status = gap(e, text + done, length - done);
    }
    return status;
}

static ew_status encode_normalized(encoding *e, const char *text, size_t length) {
    if (e->tokenizer->header->flags & EW_BLOB_NFC) {
        ew_buffer_clear(&e->normalized);
        ew_status status = ew_normalize_nfc(text, length, &e->normalized, e->error);
        if (status != EW_OK) {
            return status;
        }
        text = e->normalized.data;
        length = e->normalized.length;
    }
    return encode_around_added(e, 1, text, length, encode_plain);
}

/* Well-formed stretches go through everything; a stretch of broken bytes between them is one piece. */
static ew_status encode_all(encoding *e, const char *text, size_t length) {
    size_t at = 0;
    ew_status status = EW_OK;
    while (status == EW_OK && at < length) {
        size_t valid = ew_utf8_valid_prefix(text + at, length - at), broken = 0;
        if (valid > 0) {
            status = encode_around_added(e, 0, text + at, valid, encode_normalized);
        }
        at += valid;
        while (at + broken < length && ew_utf8_decode(text + at + broken, length - at - broken, NULL) == 0) {
            broken++;
        }
        if (status == EW_OK && broken > 0) {
            status =
                ew_bpe_encode(e->tokenizer, (const uint8_t *)text + at, broken, &e->bpe, e->out, e->error);
        }
        at += broken;
    }
    return status;
}

ew_status ew_tokenizer_encode(const ew_tokenizer *tokenizer, const char *text, size_t length, unsigned flags,
                              ew_tokens *out, ew_error *error) {
    if (length > INT32_MAX) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a text of 2 GiB or more cannot be tokenized at once");
    }
    encoding e = {.tokenizer = tokenizer, .specials = flags & EW_ENCODE_SPECIALS, .out = out, .error = error};
    size_t before = out->count;
    ew_status status = EW_OK;
    int32_t bos = tokenizer->header->bos;
    if (flags & EW_ENCODE_BOS && ew_tokenizer_add_bos(tokenizer)) {
        status = ew_tokens_append(out, &bos, 1, error);
    }
    if (status == EW_OK) {
        status = encode_all(&e, text, length);
    }
    ew_pretokenizer_free(&e.pretokenizer);
    ew_bpe_free(&e.bpe);
    ew_buffer_free(&e.normalized);
    if (status != EW_OK) {
        out->count = before;
    }
    return status;
}

bool ew_tokenizer_piece(const ew_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *length) {
    *bytes = "";
    *length = 0;
    if (id < 0 || (uint32_t)id >= tokenizer->header->n_tokens) {
        return false;
    }
    uint32_t start = tokenizer->token_starts[id], end = tokenizer->token_starts[id + 1];
    if (start < end && end <= ew_section_count(tokenizer, EW_SECTION_TOKEN_BYTES)) {
        *bytes = (const char *)tokenizer->token_bytes + start;
        *length = end - start;
    }
    return true;
}

ew_status ew_tokenizer_decode(const ew_tokenizer *tokenizer, const int32_t *ids, size_t count,
                              bool skip_special, ew_buffer *out, ew_error *error) {
    for (size_t i = 0; i < count; i++) {
        const char *bytes = NULL;
        size_t length = 0;
        if (!ew_tokenizer_piece(tokenizer, ids[i], &bytes, &length)) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "token %d does not exist: ids are 0 to %zu", ids[i],
                           ew_tokenizer_vocab_size(tokenizer) - 1);
        }
        if (!skip_special || !ew_tokenizer_is_special(tokenizer, ids[i])) {
            ew_buffer_append(out, bytes, length);
        }
    }
    return out->failed ? ew_fail_memory(error, count, "a text") : EW_OK;
}

static bool has_flag(const ew_tokenizer *tokenizer, int32_t id, unsigned flag) {
    return id >= 0 && (uint32_t)id < tokenizer->header->n_tokens && tokenizer->token_flags[id] & flag;
}

size_t ew_tokenizer_vocab_size(const ew_tokenizer *tokenizer) {
    return tokenizer->header->n_tokens;
}

bool ew_tokenizer_is_special(const ew_tokenizer *tokenizer, int32_t id) {
    return has_flag(tokenizer, id, EW_TOKEN_SPECIAL);
}

bool ew_tokenizer_is_added(const ew_tokenizer *tokenizer, int32_t id) {
    return has_flag(tokenizer, id, EW_TOKEN_ADDED);
}

int32_t ew_tokenizer_bos(const ew_tokenizer *tokenizer) {
    return tokenizer->header->bos;
}

int32_t ew_tokenizer_eos(const ew_tokenizer *tokenizer) {
    return tokenizer->header->eos;
}

int32_t ew_tokenizer_pad(const ew_tokenizer *tokenizer) {
    return tokenizer->header->pad;
}

bool ew_tokenizer_add_bos(const ew_tokenizer *tokenizer) {
    return tokenizer->header->bos != EW_NO_TOKEN && tokenizer->header->flags & EW_BLOB_ADD_BOS;
}

ew_string ew_tokenizer_chat_template(const ew_tokenizer *tokenizer) {
    ew_blob_range range = tokenizer->header->chat_template;
    return (ew_string){range.count ? tokenizer->strings + range.start : NULL, range.count};
}
