#include "text/bpe.h"

#include "base/memory.h"

#include <stdlib.h>

#define NOWHERE UINT32_MAX /* no neighbour */

static void sift_up(uint64_t *heap, size_t at) {
    uint64_t entry = heap[at];
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

static uint64_t pop_smallest(ew_bpe *scratch) {
    uint64_t *heap = scratch->heap, smallest = heap[0], entry = heap[--scratch->heap_count];
    size_t count = scratch->heap_count, at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) {
            break;
        }
        if (child + 1 < count && heap[child + 1] < heap[child]) {
            child++;
        }
        if (heap[child] >= entry) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
    return smallest;
}

/* Puts the pair that begins at `left` on the heap if the two can be merged. The heap's room was made before.
 */
static void consider(const ew_tokenizer *tokenizer, ew_bpe *scratch, uint32_t left) {
    const ew_symbol *symbol = &scratch->symbols[left];
    const ew_blob_merge *merge =
        ew_blob_find_merge(tokenizer, symbol->token, scratch->symbols[symbol->next].token);
    if (merge) {
        scratch->heap[scratch->heap_count++] = (uint64_t)merge->rank << 32 | left;
        sift_up(scratch->heap, scratch->heap_count - 1);
    }
}

/* The bytes' own tokens, linked. */
static size_t first_symbols(const ew_tokenizer *tokenizer, const uint8_t *bytes, size_t length,
                            ew_symbol *symbols) {
    bool fuse = tokenizer->header->flags & EW_BLOB_FUSE_UNKNOWN, after_unknown = false;
    int32_t unknown = tokenizer->header->unknown;
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        int32_t token = tokenizer->byte_tokens[bytes[i]];
        bool is_unknown = token == EW_NO_TOKEN;
        if (is_unknown && (unknown == EW_NO_TOKEN || (fuse && after_unknown))) {
            continue;
        }
        after_unknown = is_unknown;
        symbols[count] = (ew_symbol){is_unknown ? unknown : token, (uint32_t)count - 1, (uint32_t)count + 1};
        count++;
    }
    if (count > 0) {
        symbols[0].previous = NOWHERE;
        symbols[count - 1].next = NOWHERE;
    }
    return count;
}

static void merge_all(const ew_tokenizer *tokenizer, ew_bpe *scratch, size_t count) {
    ew_symbol *symbols = scratch->symbols;
    scratch->heap_count = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        consider(tokenizer, scratch, (uint32_t)i);
    }
    while (scratch->heap_count > 0) {
        uint64_t entry = pop_smallest(scratch);
        uint32_t left = (uint32_t)entry, right = symbols[left].next;
        if (symbols[left].token == EW_NO_TOKEN || right == NOWHERE) {
            continue;
        }
        /* An entry may be older than its pair: it counts only if the pair still has this rank. */
        const ew_blob_merge *merge = ew_blob_find_merge(tokenizer, symbols[left].token, symbols[right].token);
        if (!merge || merge->rank != (uint32_t)(entry >> 32)) {
            continue;
        }
        symbols[left].token = merge->result;
        symbols[left].next = symbols[right].next;
        symbols[right].token = EW_NO_TOKEN;
        if (symbols[left].next != NOWHERE) {
            symbols[symbols[left].next].previous = left;
            consider(tokenizer, scratch, left);
        }
        if (symbols[left].previous != NOWHERE) {
            consider(tokenizer, scratch, symbols[left].previous);
        }
    }
}

ew_status ew_bpe_encode(const ew_tokenizer *tokenizer, const uint8_t *bytes, size_t length, ew_bpe *scratch,
                        ew_tokens *out, ew_error *error) {
    if (tokenizer->header->flags & EW_BLOB_IGNORE_MERGES) {
        int32_t whole = ew_blob_find_bytes(tokenizer, bytes, length);
        if (whole != EW_NO_TOKEN) {
            return ew_tokens_append(out, &whole, 1, error);
        }
    }
    /* At most one entry for each pair at first, and two more for each of at most length - 1 merges. */
    if (!ew_grow((void **)&scratch->symbols, &scratch->symbol_capacity, length, sizeof *scratch->symbols) ||
        !ew_grow((void **)&scratch->heap, &scratch->heap_capacity, 3 * length, sizeof *scratch->heap)) {
        return ew_fail_memory(error, 3 * length * sizeof *scratch->heap, "merging a piece of text");
    }
    size_t count = first_symbols(tokenizer, bytes, length, scratch->symbols);
    merge_all(tokenizer, scratch, count);
    for (uint32_t i = 0; count > 0 && i != NOWHERE; i = scratch->symbols[i].next) {
        ew_status status = ew_tokens_append(out, &scratch->symbols[i].token, 1, error);
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

void ew_bpe_free(ew_bpe *scratch) {
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (ew_bpe){0};
}
