/* Whole documents into rows of bounded length: what one forward and backward pass takes together. Rows have no padding,
 * and a document never continues in another row; where one ends and the next begins the caller sees from the lengths, so
 * that neighbours need not see each other. */
#ifndef EW_TRAIN_PACKING_H
#define EW_TRAIN_PACKING_H

#include "base/error.h"

typedef struct ew_packing {
    size_t *documents; /* [n_documents]: indices of documents, row after row */
    size_t *rows;      /* [n_rows + 1]: row r is documents[rows[r]] .. documents[rows[r + 1] - 1] */
    size_t n_documents, n_rows;
} ew_packing;

/* A permutation of 0 .. n - 1 by (seed, epoch), the same on every machine; the caller frees it. NULL: memory is out. */
size_t *ew_shuffled(size_t n, uint64_t seed, uint64_t epoch);

/* Packs documents order[0 .. n - 1] (NULL: 0 .. n - 1) of lengths[document] tokens into rows of at most row_length tokens
 * and at most most_documents documents (0: any number). First fit among the last 16 rows begun, in the given order.
 * EW_ERROR_ARGUMENT when a document is longer than a row. */
ew_status ew_pack(const size_t *lengths, const size_t *order, size_t n, size_t row_length, size_t most_documents,
                  ew_packing *out, ew_error *error);
void ew_packing_free(ew_packing *packing); /* safe on {0} */

#endif
