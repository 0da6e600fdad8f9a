/* Attention over a batch: which rows are attended together, and how threads share the work. */
#ifndef EW_MODEL_ATTENTION_H
#define EW_MODEL_ATTENTION_H

#include "model/forward.h"

/* Cuts the rows of a batch into session->workspace.attention.spans and their positions into parts. EW_ERROR_MEMORY. */
ew_status ew_attention_plan(ew_session *session, const ew_row *rows, size_t n_rows, ew_error *error);

/* Attends the rows that were planned for: workspace.q against the cells of one layer, into workspace.attended. */
void ew_attention_run(ew_session *session, const ew_row *rows, size_t layer);

#endif
