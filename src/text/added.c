/* Finding added tokens in a text: the leftmost, among those that begin there the longest. */
#include "text/tokenizer_blob.h"

#include <string.h>

/* The byte of entry `index` at `depth`; -1 behind its end, so that shorter texts sort before longer ones. */
static int byte_at(const ew_tokenizer *tokenizer, uint32_t index, size_t depth) {
    ew_blob_range text = tokenizer->added[index].text;
    return depth < text.count ? (unsigned char)tokenizer->strings[text.start + depth] : -1;
}

/* The first entry of [low, high), whose entries ascend, with a byte of at least `wanted` at `depth`. */
static uint32_t lower_bound(const ew_tokenizer *tokenizer, uint32_t low, uint32_t high, size_t depth,
                            int wanted) {
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (byte_at(tokenizer, middle, depth) < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest entry of [low, high) that the text begins with: the range is narrowed byte by byte. */
static const ew_blob_added *longest_prefix(const ew_tokenizer *tokenizer, uint32_t low, uint32_t high,
                                           const char *text, size_t length) {
    const ew_blob_added *best = NULL;
    for (size_t depth = 0; low < high; depth++) {
        if (byte_at(tokenizer, low, depth) < 0) {
            best = &tokenizer->added[low];
        }
        if (depth == length) {
            break;
        }
        int wanted = (unsigned char)text[depth];
        low = lower_bound(tokenizer, low, high, depth, wanted);
        high = lower_bound(tokenizer, low, high, depth, wanted + 1);
    }
    return best;
}

bool ew_added_find(const ew_tokenizer *tokenizer, unsigned part, const char *text, size_t length, size_t from,
                   size_t *start, size_t *end, const ew_blob_added **found) {
    uint32_t low = part == 0 ? 0 : tokenizer->header->n_raw_added;
    uint32_t high =
        part == 0 ? tokenizer->header->n_raw_added : ew_section_count(tokenizer, EW_SECTION_ADDED);
    for (size_t at = from; low < high && at < length; at++) {
        if (!tokenizer->added_first[part][(unsigned char)text[at]]) {
            continue;
        }
        *found = longest_prefix(tokenizer, low, high, text + at, length - at);
        if (*found) {
            *start = at;
            *end = at + (*found)->text.count;
            return true;
        }
    }
    return false;
}

int32_t ew_tokenizer_find(const ew_tokenizer *tokenizer, const char *text) {
    size_t length = strlen(text);
    uint32_t bounds[3] = {0, tokenizer->header->n_raw_added, ew_section_count(tokenizer, EW_SECTION_ADDED)};
    for (unsigned part = 0; part < 2; part++) {
        const ew_blob_added *added = longest_prefix(tokenizer, bounds[part], bounds[part + 1], text, length);
        if (added && added->text.count == length) {
            return added->id;
        }
    }
    return EW_NO_TOKEN;
}
