/* What one worker runs: packs of whole sequences, forward and backward, in memory of its own. */
#ifndef EW_TRAIN_WORKER_H
#define EW_TRAIN_WORKER_H

#include "train/packed.h"
#include "train/train.h"

/* Rows of one sequence: positions `position` .. position + n_rows - 1. Its cells of all positions stand together. */
typedef struct ew_span {
    size_t sequence; /* in the batch */
    size_t row;      /* of the first of them in the pass */
    size_t n_rows;
    size_t position;
    size_t cell; /* of the sequence's position 0 */
    size_t page; /* of a quantized base: the sequence's first entry in the page tables */
} ew_span;

/* The tokens of a pass: those of the prompts (by the base, to make cells), or the rest. */
typedef struct ew_rows {
    ew_span *spans;
    size_t n_spans;
    size_t n_rows;
    int32_t *tokens;     /* [n_rows] */
    size_t *positions;   /* [n_rows] */
    real *cosine, *sine; /* [n_rows][head_dim / 2] */
} ew_rows;

/* What the backward pass needs of a layer, [n_rows][...] each. */
typedef struct ew_record {
    real *input;         /* d_model: the residual stream before it */
    real *q;             /* n_heads * head_dim, after norm and rotation */
    real *q_raw, *k_raw; /* before the norm, where there is one */
    real *attended;      /* n_heads * head_dim */
    real *middle;        /* d_model: the residual stream before the MLP */
    real *gate, *up;     /* d_ff */
    real *u[EW_LINEARS]; /* rank: A x of every adapter */
} ew_record;

/* Room for results between two products; what each holds is said where it is used. */
typedef struct ew_scratch {
    real *normed, *stream, *projected; /* [n_rows][d_model] */
    real *hidden, *d_gate, *d_up;      /* [n_rows][d_ff] */
    real *heads, *d_heads;             /* [n_rows][n_heads * head_dim] */
    real *keys, *values;               /* [n_rows][n_kv_heads * head_dim] */
    real *seen_keys, *seen_values;     /* [n_cells][n_kv_heads * head_dim]: a layer's cells as attention read them */
    real *du;                          /* [n_rows][rank] */
    real *dropped;                     /* [n_rows][widest input]: an adapter's input with dropout */
    real *scores, *d_scores;           /* [EW_QUERY_BLOCK][longest sequence] */
    real *tile;                        /* [EW_TILE_BLOCK][widest input]: dequantized rows of a matrix */
    real *logits;                      /* [head_rows][vocab_size] */
    size_t head_rows;                  /* rows of logits at a time */
    void *products;                    /* what ew_gemm works in; NULL: CBLAS */
} ew_scratch;

enum { EW_QUERY_BLOCK = 64, EW_TILE_BLOCK = 256 };

/* A target: the row whose logits predict it. */
typedef struct ew_target {
    size_t row, sequence, position; /* position of the token that is predicted */
    double weight;
} ew_target;

typedef struct ew_worker {
    ew_network *network;
    const ew_trainer_options *options;

    /* The batch. */
    const ew_train_sequence *sequences;
    const ew_train_loss *loss;
    double divisor;
    uint64_t step;
    bool wants_gradient;
    real *logits_out; /* not NULL: logits of all rows are wanted here, and nothing else */

    real *gradient;   /* [parameters.total] */
    size_t *assigned; /* sequences of the batch that are this worker's */
    size_t n_assigned, assigned_capacity;

    /* The pack. */
    ew_rows prompt, rows;
    size_t n_cells, longest; /* cells of all sequences; of the longest one */
    ew_target *targets;
    size_t n_targets;
    ew_record *records; /* [n_layers + 1]; of the last only `input`: what the final norm reads */
    ew_record spare;    /* a record that nothing outlives */
    real *k, *v;        /* [n_layers][n_cells][n_kv_heads * head_dim]: cells of float weights */
    ew_packed packed;   /* what a quantized base works in */
    ew_scratch scratch;
    uint8_t *memory; /* all of the above */
    size_t memory_size;

    ew_train_result result;
    double loss_sum;
    ew_status status;
    ew_error error;
} ew_worker;

ew_status ew_worker_open(ew_worker *worker, ew_network *network, const ew_trainer_options *options, ew_error *error);
void ew_worker_close(ew_worker *worker); /* safe on {0} */

/* Runs the worker's sequences of the batch: fills result, loss_sum, status and error, adds to `gradient`. */
void ew_worker_run(ew_worker *worker);

/* ---- The parts, for each other ---- */

/* Rows of a sequence's own: all but the prompt's and the last token, which predicts nothing. */
size_t ew_own_rows(const ew_train_sequence *sequence);

/* Lays out memory for the sequences listed: rows, records, cells, scratch. */
ew_status ew_pack_begin(ew_worker *worker, const size_t *listed, size_t n_listed);

/* Layer `index` over `rows`: record->input to output (which may be record->input), filling the record and the cells.
 * `adapted`: with the adapters. */
void ew_forward_layer(ew_worker *worker, const ew_rows *rows, size_t index, bool adapted, ew_record *record,
                      real *output);
void ew_embed_rows(const ew_worker *worker, const ew_rows *rows, real *output);
/* The same by the engine's kernels. */
void ew_forward_packed(ew_worker *worker, const ew_rows *rows, size_t index, bool adapted, ew_record *record,
                       real *output);

/* In scratch.stream: the gradient by the layer's output on entry, by its input on return. */
void ew_backward_layer(ew_worker *worker, size_t index, const ew_record *record);

/* y[n][rows] = W x + bias [+ adapter, whose A x goes to u]. `layer` and `kind` key the dropout. */
void ew_linear_forward(ew_worker *worker, const ew_rows *rows, size_t layer, size_t kind, bool adapted, const real *x,
                       real *u, real *y);
/* What the adapter's A reads: x, or x with dropout in scratch.dropped. */
const real *ew_adapter_input(ew_worker *worker, const ew_rows *rows, size_t layer, size_t kind, const real *x);
/* Adds to dx (NULL: not wanted) and to the gradient; x is the input as the product saw it. */
void ew_linear_backward(ew_worker *worker, size_t layer, size_t kind, const real *x, const real *u, const real *dy,
                        real *dx);
/* dx[n][cols] += dy[n][rows] W */
void ew_linear_transposed(ew_worker *worker, const ew_train_linear *linear, size_t n, const real *dy, size_t dy_stride,
                          real *dx);

/* Attention of float weights: q of the record over the cells of layer `index`, into record->attended. */
void ew_attention_forward(ew_worker *worker, const ew_rows *rows, const real *k, const real *v, const real *q,
                          real *attended);
/* dq, dk, dv (zeroed here) of the pack's own rows from d_attended; k and v are the cells as attention read them. */
void ew_attention_backward(ew_worker *worker, const real *q, const real *k, const real *v, const real *attended,
                           const real *d_attended, real *dq, real *dk, real *dv);

/* The final norm, the head and the loss of all targets, a few rows of logits at a time; with a gradient scratch.stream
 * becomes that by the last layer's output. */
void ew_head_run(ew_worker *worker);
void ew_head_logits(ew_worker *worker, real *logits);

/* C[m, n] = alpha A B + beta C as of ew_product, by the worker's products. */
static inline void ew_gemm(const ew_worker *worker, bool a_transposed, bool b_transposed, size_t m, size_t n, size_t k,
                           real alpha, ew_view a, ew_view b, real beta, real *c, size_t c_stride) {
    const ew_product product = {a_transposed, b_transposed, m, n, k, alpha, beta, a, b, c, c_stride};
    ew_multiply_matrices(worker->scratch.products, &product);
}

static inline real *ew_gradient_of(const ew_worker *worker, const ew_train_tensor *tensor) {
    return tensor->gradient == EW_FROZEN ? NULL : worker->gradient + tensor->gradient;
}

#endif
