/* Learning byte-pair merges from counted pieces of text (Sennrich, Haddow, Birch 2016; on bytes as in GPT-2).
 *
 * Tokens 0 .. 255 are the bytes, in the order of GPT-2's byte alphabet. Again and again the neighbouring pair that
 * occurs most often in all pieces, each counted as often as it occurred, becomes one token. Of pairs that occur
 * equally often the one with the smaller left id is taken, then the one with the smaller right id; so the result is a
 * function of the counts alone. A pair whose bytes are a token already becomes that token. */
#ifndef EW_TRAIN_BPE_LEARN_H
#define EW_TRAIN_BPE_LEARN_H

#include "base/buffer.h"
#include "base/error.h"

typedef struct ew_bpe_piece {
    size_t start; /* in `symbols` */
    uint32_t length;
    uint32_t hash;
    uint64_t count;
} ew_bpe_piece;

typedef struct ew_learned_token {
    size_t start, length; /* bytes in `bytes` */
} ew_learned_token;

typedef struct ew_learned_merge {
    int32_t left, right, result;
} ew_learned_merge;

typedef struct ew_bpe_learner {
    ew_bpe_piece *pieces; /* in the order of their first occurrence */
    size_t n_pieces, piece_capacity;
    int32_t *symbols; /* of all pieces: bytes' tokens until merges are learned */
    size_t n_symbols, symbol_capacity;
    size_t *slots; /* open addressing by hash; index + 1, 0: free */
    size_t n_slots;
    uint64_t n_counted;    /* pieces counted, equal ones each time */
    int32_t byte_ids[256]; /* the token of every byte */
    ew_buffer bytes;       /* of tokens */
    ew_learned_token *tokens;
    size_t n_tokens, token_capacity;
    ew_learned_merge *merges;
    size_t n_merges, merge_capacity;
} ew_bpe_learner;

ew_status ew_bpe_learner_open(ew_bpe_learner *learner, ew_error *error);

/* Counts a piece once more. */
ew_status ew_bpe_count(ew_bpe_learner *learner, const uint8_t *bytes, size_t length, ew_error *error);

/* Learns until there are n_tokens tokens (256 or more) or no pair occurs least_count times (2 or more). Once. */
ew_status ew_bpe_learn(ew_bpe_learner *learner, size_t n_tokens, uint64_t least_count, ew_error *error);
void ew_bpe_learner_free(ew_bpe_learner *learner); /* safe on {0} */

#endif
