/* One forward pass over a batch of tokens: the model's equations from top to bottom. */
#ifndef EW_MODEL_FORWARD_H
#define EW_MODEL_FORWARD_H

#include "model/model.h"

/* A row of the batch: a token at its position in its stream. Rows of one stream stand together, positions ascending;
 * their pages are reserved. Rows of one adapter that stand together are computed together. */
typedef struct ew_row {
    const ew_stream *stream;
    const ew_adapter *adapter; /* NULL: the model alone */
    int32_t token;
    uint32_t position;
    bool wants_logits;
} ew_row;

/* Runs n_rows <= workspace.n_rows rows: writes their K and V cells, logits [rows that want them][vocab_size] in row
 * order (may be NULL if none does), hidden [n_rows][d_model] after the final norm (may be NULL).
 * EW_ERROR_NUMERIC when a logit or a wanted hidden state is not finite. */
ew_status ew_forward(ew_session *session, const ew_row *rows, size_t n_rows, float *logits, float *hidden,
                     ew_error *error);

#endif
