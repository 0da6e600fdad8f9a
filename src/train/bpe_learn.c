#include "train/bpe_learn.h"

#include "base/memory.h"
#include "text/characters.h"
#include "text/tokenizer_blob.h"

#include <stdlib.h>
#include <string.h>

enum { N_BYTES = 256 };

/* ---- Counting pieces ---- */

static bool grow_slots(ew_bpe_learner *l) {
    size_t n_slots = l->n_slots > 0 ? l->n_slots * 2 : 1024;
    size_t *slots = ew_allocate(n_slots, sizeof *slots);
    if (!slots) {
        return false;
    }
    for (size_t i = 0; i < l->n_pieces; i++) {
        size_t slot = l->pieces[i].hash & (n_slots - 1);
        while (slots[slot] != 0) {
            slot = (slot + 1) & (n_slots - 1);
        }
        slots[slot] = i + 1;
    }
    free(l->slots);
    l->slots = slots;
    l->n_slots = n_slots;
    return true;
}

/* The token of every byte: its place in the alphabet's order. */
static void number_bytes(ew_bpe_learner *l) {
    uint32_t letters[N_BYTES];
    for (int byte = 0; byte < N_BYTES; byte++) {
        letters[byte] = ew_byte_letter((uint8_t)byte);
    }
    for (int byte = 0; byte < N_BYTES; byte++) {
        l->byte_ids[byte] = 0;
        for (int other = 0; other < N_BYTES; other++) {
            l->byte_ids[byte] += letters[other] < letters[byte];
        }
    }
}

ew_status ew_bpe_learner_open(ew_bpe_learner *l, ew_error *error) {
    *l = (ew_bpe_learner){0};
    number_bytes(l);
    if (!ew_grow((void **)&l->tokens, &l->token_capacity, N_BYTES, sizeof *l->tokens)) {
        return ew_fail_memory(error, N_BYTES * sizeof *l->tokens, "tokens");
    }
    for (int32_t id = 0; id < N_BYTES; id++) {
        int byte = 0;
        while (l->byte_ids[byte] != id) {
            byte++;
        }
        uint8_t value = (uint8_t)byte;
        ew_buffer_append(&l->bytes, &value, 1);
        l->tokens[l->n_tokens++] = (ew_learned_token){(size_t)id, 1};
    }
    return l->bytes.failed ? ew_fail_memory(error, N_BYTES, "tokens") : EW_OK;
}

static bool same_piece(const ew_bpe_learner *l, const ew_bpe_piece *piece, const int32_t *symbols, size_t length) {
    return piece->length == length && memcmp(l->symbols + piece->start, symbols, length * sizeof *symbols) == 0;
}

ew_status ew_bpe_count(ew_bpe_learner *l, const uint8_t *bytes, size_t length, ew_error *error) {
    size_t wanted = 0;
    if (length > UINT32_MAX || !ew_add_size(l->n_symbols, length, &wanted) ||
        !ew_grow((void **)&l->symbols, &l->symbol_capacity, wanted, sizeof *l->symbols) ||
        !ew_grow((void **)&l->pieces, &l->piece_capacity, l->n_pieces + 1, sizeof *l->pieces) ||
        (2 * (l->n_pieces + 1) > l->n_slots && !grow_slots(l))) {
        return ew_fail_memory(error, length * sizeof *l->symbols, "a piece of text");
    }
    uint32_t hash = ew_hash_bytes(bytes, length);
    size_t slot = hash & (l->n_slots - 1);
    int32_t *symbols = l->symbols + l->n_symbols; /* they stay there if the piece is new */
    for (size_t i = 0; i < length; i++) {
        symbols[i] = l->byte_ids[bytes[i]];
    }
    while (l->slots[slot] != 0 && !same_piece(l, &l->pieces[l->slots[slot] - 1], symbols, length)) {
        slot = (slot + 1) & (l->n_slots - 1);
    }
    if (l->slots[slot] == 0) {
        l->pieces[l->n_pieces] = (ew_bpe_piece){l->n_symbols, (uint32_t)length, hash, 0};
        l->n_symbols = wanted;
        l->slots[slot] = ++l->n_pieces;
    }
    l->pieces[l->slots[slot] - 1].count++;
    l->n_counted++;
    return EW_OK;
}

/* ---- Pairs ---- */

typedef struct pair {
    int32_t left, right;
    int64_t count;
    int64_t listed;   /* the count of its last entry in the heap, 0 once that was taken out */
    uint32_t *pieces; /* those that held it when it was added; some may not any more */
    size_t n_pieces, capacity;
} pair;

/* What is known of a pair when it is put into the heap; its count may have fallen since. */
typedef struct candidate {
    int64_t count;
    size_t pair;
} candidate;

typedef struct learning {
    ew_bpe_learner *learner;
    pair *pairs;
    size_t n_pairs, pair_capacity;
    size_t *slots; /* pairs by (left, right); index + 1 */
    size_t n_slots;
    candidate *heap;
    size_t n_heap, heap_capacity;
    size_t *token_slots; /* tokens by bytes; id + 1 */
    size_t n_token_slots;
} learning;

static bool grow_pair_slots(learning *s) {
    size_t n_slots = s->n_slots > 0 ? s->n_slots * 2 : 4096;
    size_t *slots = ew_allocate(n_slots, sizeof *slots);
    if (!slots) {
        return false;
    }
    for (size_t i = 0; i < s->n_pairs; i++) {
        size_t slot = ew_hash_pair(s->pairs[i].left, s->pairs[i].right) & (n_slots - 1);
        while (slots[slot] != 0) {
            slot = (slot + 1) & (n_slots - 1);
        }
        slots[slot] = i + 1;
    }
    free(s->slots);
    s->slots = slots;
    s->n_slots = n_slots;
    return true;
}

/* The pair's index; made if there is none. SIZE_MAX: memory is out. */
static size_t find_pair(learning *s, int32_t left, int32_t right) {
    if (2 * (s->n_pairs + 1) > s->n_slots && !grow_pair_slots(s)) {
        return SIZE_MAX;
    }
    size_t slot = ew_hash_pair(left, right) & (s->n_slots - 1);
    for (; s->slots[slot] != 0; slot = (slot + 1) & (s->n_slots - 1)) {
        const pair *found = &s->pairs[s->slots[slot] - 1];
        if (found->left == left && found->right == right) {
            return s->slots[slot] - 1;
        }
    }
    if (!ew_grow((void **)&s->pairs, &s->pair_capacity, s->n_pairs + 1, sizeof *s->pairs)) {
        return SIZE_MAX;
    }
    s->pairs[s->n_pairs] = (pair){.left = left, .right = right};
    s->slots[slot] = s->n_pairs + 1;
    return s->n_pairs++;
}

/* ---- The heap: the pair to merge next on top ---- */

static bool goes_before(const learning *s, candidate a, candidate b) {
    const pair *x = &s->pairs[a.pair], *y = &s->pairs[b.pair];
    if (a.count != b.count) {
        return a.count > b.count;
    }
    return x->left != y->left ? x->left < y->left : x->right < y->right;
}

static bool push(learning *s, candidate added) {
    if (!ew_grow((void **)&s->heap, &s->heap_capacity, s->n_heap + 1, sizeof *s->heap)) {
        return false;
    }
    size_t at = s->n_heap++;
    for (; at > 0 && goes_before(s, added, s->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        s->heap[at] = s->heap[(at - 1) / 2];
    }
    s->heap[at] = added;
    s->pairs[added.pair].listed = added.count;
    return true;
}

static candidate pop(learning *s) {
    candidate top = s->heap[0], moved = s->heap[--s->n_heap];
    size_t at = 0;
    for (size_t child = 1; child < s->n_heap; child = 2 * at + 1) {
        if (child + 1 < s->n_heap && goes_before(s, s->heap[child + 1], s->heap[child])) {
            child++;
        }
        if (!goes_before(s, s->heap[child], moved)) {
            break;
        }
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = moved;
    s->pairs[top.pair].listed = 0;
    return top;
}

/* ---- Pieces' pairs ---- */

/* Adds `sign` times the piece's count to the counts of its pairs. With `fresh` >= 0 the pairs with that token are new
 * in this piece: they note it, and are candidates anew; EVERY_PAIR: all are. */
enum { NO_PAIR = -1, EVERY_PAIR = -2 };
static bool count_pairs(learning *s, size_t index, int sign, int32_t fresh) {
    const ew_bpe_piece *piece = &s->learner->pieces[index];
    const int32_t *symbols = s->learner->symbols + piece->start;
    for (uint32_t i = 1; i < piece->length; i++) {
        size_t at = find_pair(s, symbols[i - 1], symbols[i]);
        if (at == SIZE_MAX) {
            return false;
        }
        pair *found = &s->pairs[at];
        found->count += sign * (int64_t)piece->count;
        bool is_new = fresh == EVERY_PAIR || (fresh >= 0 && (symbols[i - 1] == fresh || symbols[i] == fresh));
        bool noted = found->n_pieces > 0 && found->pieces[found->n_pieces - 1] == index;
        if (is_new && !noted) {
            if (!ew_grow((void **)&found->pieces, &found->capacity, found->n_pieces + 1, sizeof *found->pieces)) {
                return false;
            }
            found->pieces[found->n_pieces++] = (uint32_t)index;
        }
    }
    return true;
}

/* When the counts of a merge are settled: the pairs with the new token in this piece become candidates. */
static bool push_pairs(learning *s, size_t index, int32_t fresh) {
    const ew_bpe_piece *piece = &s->learner->pieces[index];
    const int32_t *symbols = s->learner->symbols + piece->start;
    for (uint32_t i = 1; i < piece->length; i++) {
        if (symbols[i - 1] != fresh && symbols[i] != fresh) {
            continue;
        }
        size_t at = find_pair(s, symbols[i - 1], symbols[i]);
        if (at == SIZE_MAX ||
            (s->pairs[at].count > s->pairs[at].listed && !push(s, (candidate){s->pairs[at].count, at}))) {
            return false;
        }
    }
    return true;
}

/* Replaces the pair in the piece, from the left. */
static void replace(learning *s, size_t index, int32_t left, int32_t right, int32_t result) {
    ew_bpe_piece *piece = &s->learner->pieces[index];
    int32_t *symbols = s->learner->symbols + piece->start;
    uint32_t n = 0;
    for (uint32_t i = 0; i < piece->length; i++) {
        bool merges = i + 1 < piece->length && symbols[i] == left && symbols[i + 1] == right;
        symbols[n++] = merges ? result : symbols[i];
        i += merges;
    }
    piece->length = n;
}

static bool holds(const learning *s, size_t index, int32_t left, int32_t right) {
    const ew_bpe_piece *piece = &s->learner->pieces[index];
    const int32_t *symbols = s->learner->symbols + piece->start;
    for (uint32_t i = 1; i < piece->length; i++) {
        if (symbols[i - 1] == left && symbols[i] == right) {
            return true;
        }
    }
    return false;
}

/* ---- Tokens ---- */

static bool grow_token_slots(learning *s) {
    const ew_bpe_learner *l = s->learner;
    size_t n_slots = s->n_token_slots > 0 ? s->n_token_slots * 2 : 1024;
    size_t *slots = ew_allocate(n_slots, sizeof *slots);
    if (!slots) {
        return false;
    }
    for (size_t id = 0; id < l->n_tokens; id++) {
        const uint8_t *bytes = (const uint8_t *)l->bytes.data + l->tokens[id].start;
        size_t slot = ew_hash_bytes(bytes, l->tokens[id].length) & (n_slots - 1);
        while (slots[slot] != 0) {
            slot = (slot + 1) & (n_slots - 1);
        }
        slots[slot] = id + 1;
    }
    free(s->token_slots);
    s->token_slots = slots;
    s->n_token_slots = n_slots;
    return true;
}

/* The token of bytes that stand at the end of learner->bytes; new if there was none, else they are taken off again. -1:
 * memory is out. */
static int32_t settle_token(learning *s, size_t start) {
    ew_bpe_learner *l = s->learner;
    size_t length = l->bytes.length - start;
    if (l->bytes.failed || (2 * (l->n_tokens + 1) > s->n_token_slots && !grow_token_slots(s)) ||
        !ew_grow((void **)&l->tokens, &l->token_capacity, l->n_tokens + 1, sizeof *l->tokens)) {
        return -1;
    }
    const uint8_t *bytes = (const uint8_t *)l->bytes.data;
    size_t slot = ew_hash_bytes(bytes + start, length) & (s->n_token_slots - 1);
    for (; s->token_slots[slot] != 0; slot = (slot + 1) & (s->n_token_slots - 1)) {
        const ew_learned_token *known = &l->tokens[s->token_slots[slot] - 1];
        if (known->length == length && memcmp(bytes + known->start, bytes + start, length) == 0) {
            l->bytes.length = start;
            return (int32_t)(s->token_slots[slot] - 1);
        }
    }
    l->tokens[l->n_tokens] = (ew_learned_token){start, length};
    s->token_slots[slot] = l->n_tokens + 1;
    return (int32_t)l->n_tokens++;
}

static int32_t joined_token(learning *s, int32_t left, int32_t right) {
    ew_bpe_learner *l = s->learner;
    size_t start = l->bytes.length;
    const int32_t parts[] = {left, right};
    for (size_t i = 0; i < 2; i++) {
        ew_learned_token part = l->tokens[parts[i]];
        char *copy = ew_copy_text(l->bytes.data + part.start, part.length); /* appending may move the bytes */
        if (!copy) {
            return -1;
        }
        ew_buffer_append(&l->bytes, copy, part.length);
        free(copy);
    }
    return settle_token(s, start);
}

/* ---- Merging ---- */

static bool merge(learning *s, size_t at) {
    ew_bpe_learner *l = s->learner;
    int32_t left = s->pairs[at].left, right = s->pairs[at].right, result = joined_token(s, left, right);
    if (result < 0 || !ew_grow((void **)&l->merges, &l->merge_capacity, l->n_merges + 1, sizeof *l->merges)) {
        return false;
    }
    l->merges[l->n_merges++] = (ew_learned_merge){left, right, result};
    uint32_t *pieces = s->pairs[at].pieces;
    size_t n = s->pairs[at].n_pieces, changed = 0;
    s->pairs[at].pieces = NULL; /* the list is walked while pairs are added */
    s->pairs[at].n_pieces = s->pairs[at].capacity = 0;
    bool sound = true;
    for (size_t i = 0; sound && i < n; i++) {
        if (holds(s, pieces[i], left, right)) {
            sound = count_pairs(s, pieces[i], -1, NO_PAIR);
            replace(s, pieces[i], left, right, result);
            sound = sound && count_pairs(s, pieces[i], 1, result);
            pieces[changed++] = pieces[i];
        }
    }
    for (size_t i = 0; sound && i < changed; i++) {
        sound = push_pairs(s, pieces[i], result);
    }
    free(pieces);
    return sound;
}

static bool begin(learning *s) {
    bool sound = true;
    for (size_t i = 0; sound && i < s->learner->n_pieces; i++) {
        sound = count_pairs(s, i, 1, EVERY_PAIR);
    }
    for (size_t i = 0; sound && i < s->n_pairs; i++) {
        sound = push(s, (candidate){s->pairs[i].count, i});
    }
    return sound;
}

static bool learn(learning *s, size_t n_tokens, uint64_t least_count) {
    bool sound = begin(s);
    while (sound && s->n_heap > 0 && s->learner->n_tokens < n_tokens) {
        candidate best = pop(s);
        int64_t count = s->pairs[best.pair].count;
        if (count < (int64_t)least_count) {
            continue;
        }
        sound = count == best.count ? merge(s, best.pair) : push(s, (candidate){count, best.pair});
    }
    return sound;
}

ew_status ew_bpe_learn(ew_bpe_learner *learner, size_t n_tokens, uint64_t least_count, ew_error *error) {
    learning s = {.learner = learner};
    if (learner->n_pieces > UINT32_MAX || n_tokens < N_BYTES || n_tokens > INT32_MAX) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "a vocabulary of %zu tokens cannot be learned; 256 bytes are the least", n_tokens);
    }
    bool sound = learn(&s, n_tokens, least_count > 2 ? least_count : 2);
    for (size_t i = 0; i < s.n_pairs; i++) {
        free(s.pairs[i].pieces);
    }
    free(s.pairs);
    free(s.slots);
    free(s.heap);
    free(s.token_slots);
    return sound ? EW_OK : ew_fail_memory(error, learner->n_symbols * sizeof *learner->symbols, "learning a tokenizer");
}

void ew_bpe_learner_free(ew_bpe_learner *learner) {
    free(learner->pieces);
    free(learner->symbols);
    free(learner->slots);
    free(learner->tokens);
    free(learner->merges);
    ew_buffer_free(&learner->bytes);
    *learner = (ew_bpe_learner){0};
}
