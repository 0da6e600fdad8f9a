/* The linear layers of one forward pass: matrices with the same inputs run as one loop over the tiles of all of them,
 * with what adapters add to some rows (docs/arithmetic.md, "Linear layers" and "Adapters").
 *
 * The A of all adapters of the batch stand at the head of that loop; what they give is quantized, and the B run as a
 * second loop. Without adapters there is none. */
#ifndef EW_MODEL_LINEAR_H
#define EW_MODEL_LINEAR_H

#include "model/adapter.h"
#include "model/forward.h"

/* A matrix times some rows of the batch. */
typedef struct ew_product {
    const ew_matrix *matrix;
    ew_activations inputs;     /* of an integer matrix */
    const float *float_inputs; /* of a float one: [n_rows][float_stride]; of B always: A x before it is quantized */
    size_t float_stride;
    size_t first, n_rows; /* of the batch */
    float *output;        /* [n_rows][stride] */
    size_t stride;
    float scale; /* B only */
} ew_product;

/* Up to EW_LINEARS_TOGETHER matrices of one layer with the same inputs. */
typedef struct ew_linear_run {
    ew_session *session;
    size_t n_rows;
    size_t n_groups;           /* of the session's work space; 0 where no adapter works, as in the head */
    ew_activations *inputs;    /* of a quantized model: [n_rows], by ew_linear_inputs */
    const float *float_inputs; /* of the unquantized reference: [n_rows][width] */
    size_t width;
    size_t layer;
    size_t n_matrices;
    const ew_matrix *matrices[EW_LINEARS_TOGETHER];
    ew_linear_kind kinds[EW_LINEARS_TOGETHER]; /* whose adapters they have */
    float *outputs[EW_LINEARS_TOGETHER];       /* [n_rows][stride] */
    size_t strides[EW_LINEARS_TOGETHER];
} ew_linear_run;

void ew_linear_add(ew_linear_run *run, const ew_matrix *matrix, ew_linear_kind kind, float *output, size_t stride);

/* Fills the outputs. */
void ew_linear_compute(const ew_linear_run *run);

/* x becomes row `row` of the inputs of linear layers, for the model and for the row's adapter (may be NULL). The
 * reference reads x itself. */
void ew_linear_inputs(const ew_session *session, const float *x, size_t row, const ew_adapter *adapter,
                      ew_activations *inputs);

/* A loop over the rows of a batch; a few rows are not worth waking threads for. */
void ew_for_batch_rows(ew_pool *pool, size_t n_rows, ew_task task, void *context);

/* Lists the groups of a batch in the session's work space; how many. */
size_t ew_find_adapter_groups(ew_session *session, const ew_row *rows, size_t n_rows);

/* Room for passes with this adapter. On error what was there stays. */
ew_status ew_adapter_workspace_reserve(ew_session *session, const ew_adapter *adapter, ew_error *error);
void ew_adapter_workspace_free(ew_adapter_workspace *workspace); /* safe on {0} */

#endif
