#include "train/packing.h"

#include "base/memory.h"
#include "base/random.h"

#include <stdlib.h>

enum { OPEN_ROWS = 16 }; /* rows that a document may still join */

size_t *ew_shuffled(size_t n, uint64_t seed, uint64_t epoch) {
    size_t *order = ew_allocate(n, sizeof *order);
    for (size_t i = 0; order && i < n; i++) {
        order[i] = i;
    }
    /* Fisher and Yates; the remainder's bias is below n / 2^64. */
    for (size_t i = n; order && i > 1; i--) {
        size_t j = (size_t)(ew_random_bits(seed, epoch, i) % i);
        size_t moved = order[i - 1];
        order[i - 1] = order[j];
        order[j] = moved;
    }
    return order;
}

typedef struct packer {
    size_t *row_of;           /* [n]: by place in the order */
    size_t *tokens, *members; /* of every row; n rows at most */
    size_t n_rows;
    size_t row_length, most_documents;
} packer;

static size_t place(packer *p, size_t length) {
    size_t first = p->n_rows > OPEN_ROWS ? p->n_rows - OPEN_ROWS : 0, row = first;
    while (row < p->n_rows && (p->row_length - p->tokens[row] < length || p->members[row] >= p->most_documents)) {
        row++;
    }
    p->n_rows += row == p->n_rows;
    p->tokens[row] += length;
    p->members[row]++;
    return row;
}

static ew_status place_all(packer *p, const size_t *lengths, const size_t *order, size_t n, ew_error *error) {
    for (size_t i = 0; i < n; i++) {
        size_t document = order ? order[i] : i;
        if (lengths[document] > p->row_length) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "document %zu has %zu tokens; a row holds %zu", document,
                           lengths[document], p->row_length);
        }
        p->row_of[i] = place(p, lengths[document]);
    }
    return EW_OK;
}

/* Documents by row, within a row in the given order. */
static ew_status list_rows(const packer *p, const size_t *order, size_t n, ew_packing *out, ew_error *error) {
    out->documents = ew_allocate(n, sizeof *out->documents);
    out->rows = ew_allocate(p->n_rows + 1, sizeof *out->rows);
    if (!out->documents || !out->rows) {
        ew_packing_free(out);
        return ew_fail_memory(error, n * sizeof *out->documents, "the rows");
    }
    for (size_t row = 0; row < p->n_rows; row++) {
        out->rows[row + 1] = out->rows[row] + p->members[row];
        p->tokens[row] = out->rows[row]; /* from here on: where its next document goes */
    }
    for (size_t i = 0; i < n; i++) {
        out->documents[p->tokens[p->row_of[i]]++] = order ? order[i] : i;
    }
    out->n_documents = n;
    out->n_rows = p->n_rows;
    return EW_OK;
}

ew_status ew_pack(const size_t *lengths, const size_t *order, size_t n, size_t row_length, size_t most_documents,
                  ew_packing *out, ew_error *error) {
    packer p = {.row_of = ew_allocate(n, sizeof *p.row_of),
                .tokens = ew_allocate(n, sizeof *p.tokens),
                .members = ew_allocate(n, sizeof *p.members),
                .row_length = row_length,
                .most_documents = most_documents > 0 ? most_documents : SIZE_MAX};
    *out = (ew_packing){0};
    ew_status status = p.row_of && p.tokens && p.members ? place_all(&p, lengths, order, n, error)
                                                         : ew_fail_memory(error, n * sizeof *p.row_of, "the rows");
    if (status == EW_OK) {
        status = list_rows(&p, order, n, out, error);
    }
    free(p.row_of);
    free(p.tokens);
    free(p.members);
    return status;
}

void ew_packing_free(ew_packing *packing) {
    free(packing->documents);
    free(packing->rows);
    *packing = (ew_packing){0};
}
