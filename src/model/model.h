/* The inside of the public handles: model, session, stream. */
#ifndef EW_MODEL_MODEL_H
#define EW_MODEL_MODEL_H

#include "model/kv_cache.h"
#include "model/rope.h"
#include "model/weights.h"
#include "kernel/kernel.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

#include <stdatomic.h>

enum { EW_END_TOKENS_MAX = EW_CONFIG_MAX_EOS + EW_CHAT_MAX_END };

struct ew_model {
    ew_checkpoint *checkpoint;
    ew_edgewise_file file; /* {0} unless the checkpoint is an Edgewise file */
    ew_config config;
    ew_model_weights weights;
    ew_rope_table rope;
    bool kv_quantized;
    ew_tokenizer *tokenizer;
    bool has_template;
    ew_chat_template chat_template;
    ew_error template_error;               /* why there is none */
    int32_t end_tokens[EW_END_TOKENS_MAX]; /* any of them ends a reply */
    size_t n_end_tokens;
};

/* Rows of a batch that are attended together, and their positions, cut into parts that threads share. */
typedef struct ew_attention_span {
    size_t first, end;            /* rows */
    size_t n_runs;                /* EW_ATTENTION_PARTIAL positions each, of the row that sees most */
    size_t n_parts, runs_of_part; /* one part: computed at once, without partials */
    size_t first_item;            /* of a KV head's items, one a part */
    size_t partials_at;           /* floats */
} ew_attention_span;

typedef struct ew_attention_workspace {
    ew_attention_span *spans; /* [n_rows] */
    size_t n_spans;
    size_t n_items;        /* of one KV head */
    atomic_size_t *n_done; /* [n_rows][n_kv_heads]: parts computed of a span and head; 0 between layers */
    float *partials;       /* of spans with several parts: [n_kv_heads][rows][n_runs], see kernels */
    size_t n_partials;     /* floats there is room for */
} ew_attention_workspace;

/* What one forward pass works in: rows are the tokens of a batch. */
typedef struct ew_workspace {
    size_t n_rows;            /* most tokens of a batch */
    float *residual, *normed; /* [n_rows][d_model] */
    float *q, *attended;      /* [n_rows][n_heads * head_dim] */
    float *k, *v;             /* [n_rows][n_kv_heads * head_dim] */
    float *gate, *up;         /* [n_rows][d_ff] */
    float *projected;         /* [n_rows][d_model] */
    float *cosine, *sine;     /* [n_rows][head_dim / 2] */
    ew_activations inputs;    /* of width d_model; {0} in the unquantized reference, like the next two */
    ew_activations attended_inputs, hidden_inputs; /* n_heads * head_dim, d_ff */
    ew_attention_workspace attention;
} ew_workspace;

/* Rows first .. first + n_rows - 1 of a batch have the same adapter. */
typedef struct ew_adapter_group {
    const ew_adapter *adapter;
    size_t first, n_rows;
} ew_adapter_group;

enum { EW_LINEARS_TOGETHER = 3 }; /* most linear layers with the same inputs: q, k and v */

/* What adapters need beside; empty until a stream of the session has one. */
typedef struct ew_adapter_workspace {
    size_t rank;                                        /* most */
    float *reduced[EW_LINEARS_TOGETHER];                /* [n_rows][rank]: A x */
    ew_activations reduced_inputs[EW_LINEARS_TOGETHER]; /* the same, quantized: what an INT8 B reads */
    float *plain;             /* [n_rows][widest input]: the quantized inputs as floats, for A in floats; may be NULL */
    ew_adapter_group *groups; /* [n_rows] */
    struct ew_product *products; /* [EW_LINEARS_TOGETHER * (n_rows + 1)], linear.h */
} ew_adapter_workspace;

struct ew_session {
    const ew_model *model;
    const ew_kernels *kernels;
    ew_pool *pool;
    size_t context_length;
    size_t chunk;
    ew_page_pool pages;
    ew_workspace workspace;
    ew_adapter_workspace adapter_workspace;
    ew_stream *streams; /* all of them, linked */
    uint64_t n_evaluated;
    atomic_bool cancelled; /* lock-free: set from signal handlers */
    void *kept;            /* what a room above keeps between its calls, freed with the session before its streams */
    void (*free_kept)(void *kept);
};

struct ew_stream {
    ew_session *session;
    ew_stream *previous, *next;
    ew_page_table cells;
    int32_t *tokens;   /* [length] */
    uint64_t *origins; /* [length]: the load of the adapter that made the cell, 0 for the model alone */
    size_t length;
    size_t capacity, origin_capacity;
    const ew_adapter *adapter; /* of the tokens to come, from position adapter_from on; may be NULL */
    size_t adapter_from;
    bool is_placed; /* while a batch is sorted */
};

ew_status ew_workspace_allocate(const ew_model *model, size_t n_rows, ew_workspace *workspace, ew_error *error);
void ew_workspace_free(ew_workspace *workspace); /* safe on {0} */

/* From which position on the stream's adapter works; tokens before are evaluated by the model alone. 0 until this is
 * called, and again after ew_stream_set_adapter. */
void ew_stream_adapt_from(ew_stream *stream, size_t position);

/* Appends a token whose cells are still to be reserved and written. EW_ERROR_CONTEXT, EW_ERROR_MEMORY. */
ew_status ew_stream_append(ew_stream *stream, int32_t token, ew_error *error);

/* The load that makes the cell of a position, were it evaluated now: 0 for the model alone. */
uint64_t ew_stream_origin_at(const ew_stream *stream, size_t position);

/* How many of the stream's first cells are those that evaluating `tokens` on it from the start would make: same tokens,
 * and made by the same load of the same adapter as the stream has there now. */
size_t ew_stream_common_prefix(const ew_stream *stream, const int32_t *tokens, size_t n_tokens);

/* True if it was set; resets it. */
bool ew_session_take_cancel(ew_session *session);

bool ew_model_ends_reply(const ew_model *model, int32_t token);

/* The conversation as tokens; *header is the index of the reply header's first one. `tokens` and `text` (may be NULL)
 * are appended to. */
ew_status ew_model_render(const ew_model *model, const ew_message *messages, size_t n_messages, bool thinking,
                          ew_buffer *text, ew_tokens *tokens, size_t *header, ew_error *error);

#endif
