/* Byte-pair encoding of one piece: its bytes' tokens, neighbours merged by ascending rank, the leftmost first
 * among equals. n log n in the piece's length, whatever stands in it. */
#ifndef EW_TEXT_BPE_H
#define EW_TEXT_BPE_H

#include "text/tokenizer_blob.h"

typedef struct ew_symbol {
    int32_t token;     /* EW_NO_TOKEN: merged into its left neighbour */
    uint32_t previous; /* indices; UINT32_MAX at the ends */
    uint32_t next;
} ew_symbol;

/* One thread's working memory; {0} to begin with, free with ew_bpe_free. */
typedef struct ew_bpe {
    ew_symbol *symbols;
    size_t symbol_capacity;
    uint64_t *heap; /* rank << 32 | index of the left symbol: the smallest is merged next */
    size_t heap_count;
    size_t heap_capacity;
} ew_bpe;

/* Appends the piece's tokens. A byte without a token becomes the unknown token, or nothing where the
 * vocabulary has none: dropped before merging, so that its neighbours meet (as the `tokenizers` library does
 * it). */
ew_status ew_bpe_encode(const ew_tokenizer *tokenizer, const uint8_t *bytes, size_t length, ew_bpe *scratch,
                        ew_tokens *out, ew_error *error);
void ew_bpe_free(ew_bpe *scratch);

#endif
