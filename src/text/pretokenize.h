/* The pre-tokenizer: a text is cut into pieces, step by step; merges never cross a piece's border.
 *
 * Source of the behaviors and of the order of their effects: the `tokenizers` library,
 * NormalizedString::split. */
#ifndef EW_TEXT_PRETOKENIZE_H
#define EW_TEXT_PRETOKENIZE_H

#include "text/tokenizer_blob.h"

typedef struct ew_piece {
    uint32_t start; /* bytes of the text */
    uint32_t length;
} ew_piece;

typedef struct ew_pieces {
    ew_piece *list;
    size_t count;
    size_t capacity;
} ew_pieces;

/* One thread's working memory; {0} to begin with, free with ew_pretokenizer_free. */
typedef struct ew_pretokenizer {
    ew_pieces pieces; /* the result: never empty ones, ascending */
    const char *text; /* what they lie in: the text given, or `rewritten` */
    ew_pieces next;
    ew_pieces parts; /* of one piece, in the order of its text */
    bool *matched;   /* of `parts` */
    size_t matched_capacity;
    ew_buffer rewritten;
    ew_matcher matcher;
} ew_pretokenizer;

/* Cuts a well-formed UTF-8 text below 2 GiB; results stand in `scratch` until its next use and refer to
 * `text`. */
ew_status ew_pretokenize(const ew_tokenizer *tokenizer, const char *text, size_t length,
                         ew_pretokenizer *scratch, ew_error *error);
void ew_pretokenizer_free(ew_pretokenizer *scratch);

#endif
