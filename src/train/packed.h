/* A quantized base in the trainer: the engine's kernels in the forward pass, and what they saw for the backward pass.
 * There are no kernels in double: a network of the double build never has a model. */
#ifndef EW_TRAIN_PACKED_H
#define EW_TRAIN_PACKED_H

#include "model/model.h"
#include "train/bump.h"

struct ew_worker;

typedef struct ew_packed {
    const ew_kernels *kernels;
    ew_kv_layout layout;
    size_t page_bytes; /* one page of all layers and heads */
    size_t n_pages;
    uint8_t *pages;   /* [n_pages][page_bytes] */
    uint8_t **tables; /* [n_pages]: the start of each page, sequence after sequence */
    ew_activations inputs, attended_inputs, hidden_inputs; /* of width d_model, n_heads * head_dim, d_ff */
    real *plain; /* [n_rows][widest]: the inputs of a product as the floats they stand for */
    real *added; /* [n_rows][widest]: what an adapter adds */
} ew_packed;

#ifdef EW_TRAIN_DOUBLE
static inline void ew_packed_read_rows(const ew_matrix *matrix, size_t begin, size_t n, real *out) {
    (void)matrix, (void)begin, (void)n, (void)out;
}
static inline void ew_packed_round_rows(struct ew_worker *worker, real *x, size_t n, size_t width) {
    (void)worker, (void)x, (void)n, (void)width;
}
static inline void ew_packed_round_queries(struct ew_worker *worker, real *q) {
    (void)worker, (void)q;
}
static inline void ew_packed_read_cells(struct ew_worker *worker, size_t layer, real *keys, real *values) {
    (void)worker, (void)layer, (void)keys, (void)values;
}
static inline void ew_packed_take(struct ew_worker *worker, ew_bump *bump, size_t n_sequences, size_t n_rows) {
    (void)worker, (void)bump, (void)n_sequences, (void)n_rows;
}
static inline void ew_packed_begin(struct ew_worker *worker) {
    (void)worker;
}
static inline void ew_packed_norm(struct ew_worker *worker, const real *x, const real *weight, size_t n, real *y) {
    (void)worker, (void)x, (void)weight, (void)n, (void)y;
}
static inline void ew_packed_head(struct ew_worker *worker, size_t n, real *logits) {
    (void)worker, (void)n, (void)logits;
}
#else
/* Rows begin .. begin + n - 1 dequantized, cols values each. */
void ew_packed_read_rows(const ew_matrix *matrix, size_t begin, size_t n, real *out);
/* Each row becomes what its quantized codes stand for; nothing on float weights. */
void ew_packed_round_rows(struct ew_worker *worker, real *x, size_t n, size_t width);
/* The same for the queries of the pack's rows, head by head, as attention quantizes them. */
void ew_packed_round_queries(struct ew_worker *worker, real *q);
/* A layer's cells dequantized: [n_cells][n_kv_heads * head_dim]. */
void ew_packed_read_cells(struct ew_worker *worker, size_t layer, real *keys, real *values);
/* Takes the memory of a pack: pages of its sequences, quantized inputs of n_rows rows. */
void ew_packed_take(struct ew_worker *worker, ew_bump *bump, size_t n_sequences, size_t n_rows);
/* After the pack's rows are filled in: its page tables; pages zeroed. */
void ew_packed_begin(struct ew_worker *worker);
/* The engine's norm. */
void ew_packed_norm(struct ew_worker *worker, const real *x, const real *weight, size_t n, real *y);
/* Logits of the first n rows of scratch.normed. */
void ew_packed_head(struct ew_worker *worker, size_t n, real *logits);
#endif

#endif
