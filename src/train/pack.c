/* A worker's memory for one pack: counted first, then one allocation, then handed out. */
#include "train/bump.h"
#include "train/worker.h"

#include <stdlib.h>
#include <string.h>

size_t ew_own_rows(const ew_train_sequence *sequence) {
    return sequence->n > sequence->prompt_length + 1 ? sequence->n - 1 - sequence->prompt_length : 0;
}

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

/* What decides a pack's memory. */
typedef struct sizes {
    size_t rows, prompt_rows, widest; /* of both passes */
    bool keeps;                       /* a record of every layer */
    bool keeps_input;                 /* the input of every layer */
} sizes;

static void take_record(const ew_worker *worker, ew_bump *b, size_t rows, bool input, ew_record *record) {
    const ew_config *config = &worker->network->config;
    size_t q_width = config->n_heads * config->head_dim, kv_width = config->n_kv_heads * config->head_dim;
    if (input) {
        record->input = ew_take_rows(b, rows, config->d_model);
    }
    record->q = ew_take_rows(b, rows, q_width);
    record->q_raw = config->qk_norm ? ew_take_rows(b, rows, q_width) : NULL;
    record->k_raw = config->qk_norm ? ew_take_rows(b, rows, kv_width) : NULL;
    record->attended = ew_take_rows(b, rows, q_width);
    record->middle = ew_take_rows(b, rows, config->d_model);
    record->gate = ew_take_rows(b, rows, config->d_ff);
    record->up = ew_take_rows(b, rows, config->d_ff);
    size_t ranks[EW_LINEARS] = {0};
    for (size_t kind = 0; kind < EW_LINEARS; kind++) {
        for (size_t i = 0; i < config->n_layers; i++) {
            ranks[kind] = most(ranks[kind], worker->network->layers[i].linears[kind].rank);
        }
        record->u[kind] = ranks[kind] > 0 ? ew_take_rows(b, rows, ranks[kind]) : NULL;
    }
}

static size_t widest_rank(const ew_network *network) {
    size_t rank = 0;
    for (size_t i = 0; i < network->config.n_layers * EW_LINEARS; i++) {
        rank = most(rank, network->layers[i / EW_LINEARS].linears[i % EW_LINEARS].rank);
    }
    return rank;
}

/* Rows of logits at a time: a block of some megabytes, but enough rows for a product. */
static size_t head_rows(const ew_worker *worker, size_t rows) {
    enum { FEWEST = 64, BLOCK_VALUES = 8 << 20, PACKED_BLOCK_VALUES = 16 << 20 };
    size_t values = worker->network->model ? PACKED_BLOCK_VALUES : BLOCK_VALUES;
    size_t n = values / worker->network->config.vocab_size;
    n = n < FEWEST ? FEWEST : n;
    return n < rows ? n : rows;
}

static void take_scratch(ew_worker *worker, ew_bump *b, const sizes *s) {
    const ew_config *config = &worker->network->config;
    ew_scratch *x = &worker->scratch;
    size_t q_width = config->n_heads * config->head_dim, kv_width = config->n_kv_heads * config->head_dim;
    size_t widest = most(most(q_width, config->d_ff), config->d_model);
    size_t back = worker->wants_gradient ? s->rows : 0;
    x->normed = ew_take_rows(b, s->widest, config->d_model);
    x->projected = ew_take_rows(b, s->widest, config->d_model);
    x->hidden = ew_take_rows(b, s->widest, config->d_ff);
    x->keys = ew_take_rows(b, s->widest, kv_width);
    x->values = ew_take_rows(b, s->widest, kv_width);
    x->stream = ew_take_rows(b, back, config->d_model);
    x->d_gate = ew_take_rows(b, back, config->d_ff);
    x->d_up = ew_take_rows(b, back, config->d_ff);
    x->heads = ew_take_rows(b, back, q_width);
    x->d_heads = ew_take_rows(b, back, q_width);
    x->du = ew_take_rows(b, s->rows, widest_rank(worker->network));
    x->dropped = ew_take_rows(b, worker->options->dropout > 0 ? back : 0, widest);
    x->scores = ew_take_rows(b, EW_QUERY_BLOCK, worker->longest);
    x->d_scores = ew_take_rows(b, back ? EW_QUERY_BLOCK : 0, worker->longest);
    bool packed = worker->network->model != NULL;
    x->seen_keys = ew_take_rows(b, packed && back ? worker->n_cells : 0, kv_width);
    x->seen_values = ew_take_rows(b, packed && back ? worker->n_cells : 0, kv_width);
    x->tile = ew_take_rows(b, packed && back ? EW_TILE_BLOCK : 0, widest);
    x->head_rows = head_rows(worker, s->rows);
    x->logits = ew_take_rows(b, x->head_rows, config->vocab_size);
    size_t space = ew_products_space(worker->options->products);
    void *products = ew_take(b, space, 1);
    x->products = space > 0 ? products : NULL;
}

static void take_pass(const ew_worker *worker, ew_bump *b, size_t n_rows, size_t n_spans, ew_rows *rows) {
    size_t half = worker->network->config.head_dim / 2;
    rows->spans = ew_take(b, n_spans, sizeof *rows->spans);
    rows->tokens = ew_take(b, n_rows, sizeof *rows->tokens);
    rows->positions = ew_take(b, n_rows, sizeof *rows->positions);
    rows->cosine = ew_take_rows(b, n_rows, half);
    rows->sine = ew_take_rows(b, n_rows, half);
}

static void lay_out(ew_worker *worker, ew_bump *b, size_t n_sequences, const sizes *s) {
    const ew_config *config = &worker->network->config;
    size_t kv_width = config->n_kv_heads * config->head_dim;
    take_pass(worker, b, s->prompt_rows, n_sequences, &worker->prompt);
    take_pass(worker, b, s->rows, n_sequences, &worker->rows);
    worker->targets = ew_take(b, s->rows, sizeof *worker->targets);
    for (size_t i = 0; i < config->n_layers; i++) {
        if (s->keeps) {
            take_record(worker, b, s->rows, true, &worker->records[i]);
        } else if (s->keeps_input) {
            worker->records[i].input = ew_take_rows(b, s->rows, config->d_model);
        }
    }
    worker->records[config->n_layers].input = ew_take_rows(b, s->rows, config->d_model);
    take_record(worker, b, s->keeps ? s->prompt_rows : s->widest, true, &worker->spare);
    if (worker->network->model) {
        ew_packed_take(worker, b, n_sequences, s->widest);
    } else {
        worker->k = ew_take_rows(b, config->n_layers * worker->n_cells, kv_width);
        worker->v = ew_take_rows(b, config->n_layers * worker->n_cells, kv_width);
    }
    take_scratch(worker, b, s);
}

static void fill_span(const ew_worker *worker, ew_rows *rows, ew_span span) {
    const ew_train_sequence *sequence = &worker->sequences[span.sequence];
    size_t half = worker->network->config.head_dim / 2;
    float cosine[EW_CONFIG_MAX_HEAD_DIM / 2], sine[EW_CONFIG_MAX_HEAD_DIM / 2];
    span.row = rows->n_rows;
    rows->spans[rows->n_spans++] = span;
    for (size_t i = 0; i < span.n_rows; i++) {
        size_t row = rows->n_rows++, position = span.position + i;
        rows->tokens[row] = sequence->ids[position];
        rows->positions[row] = position;
        ew_rope_at(&worker->network->rope, position, cosine, sine);
        for (size_t j = 0; j < half; j++) {
            rows->cosine[row * half + j] = (real)cosine[j];
            rows->sine[row * half + j] = (real)sine[j];
        }
    }
}

static void list_targets(ew_worker *worker, const ew_span *span) {
    const ew_train_sequence *sequence = &worker->sequences[span->sequence];
    for (size_t i = 0; i < span->n_rows; i++) {
        size_t position = span->position + i + 1;
        if (sequence->weights[position] != 0) {
            worker->targets[worker->n_targets++] = (ew_target){
                .row = span->row + i,
                .sequence = span->sequence,
                .position = position,
                .weight = (double)sequence->weights[position],
            };
        }
    }
}

static void fill(ew_worker *worker, const size_t *listed, size_t n_listed) {
    size_t cell = 0;
    worker->n_targets = worker->prompt.n_rows = worker->rows.n_rows = 0;
    worker->prompt.n_spans = worker->rows.n_spans = 0;
    for (size_t i = 0; i < n_listed; i++) {
        const ew_train_sequence *sequence = &worker->sequences[listed[i]];
        size_t first = sequence->prompt_length;
        if (first > 0) {
            fill_span(worker, &worker->prompt, (ew_span){.sequence = listed[i], .n_rows = first, .cell = cell});
        }
        fill_span(worker, &worker->rows,
                  (ew_span){.sequence = listed[i], .n_rows = ew_own_rows(sequence), .position = first, .cell = cell});
        list_targets(worker, &worker->rows.spans[worker->rows.n_spans - 1]);
        cell += sequence->n - 1;
    }
}

ew_status ew_pack_begin(ew_worker *worker, const size_t *listed, size_t n_listed) {
    bool checkpointing = worker->options->checkpointing;
    sizes s = {.keeps = worker->wants_gradient && !checkpointing,
               .keeps_input = worker->wants_gradient && checkpointing};
    worker->n_cells = worker->longest = 0;
    for (size_t i = 0; i < n_listed; i++) {
        const ew_train_sequence *sequence = &worker->sequences[listed[i]];
        s.rows += ew_own_rows(sequence);
        s.prompt_rows += sequence->prompt_length;
        worker->n_cells += sequence->n - 1;
        worker->longest = most(worker->longest, sequence->n - 1);
    }
    s.widest = most(s.rows, s.prompt_rows);
    ew_bump counting = {0};
    lay_out(worker, &counting, n_listed, &s);
    if (counting.overflow) {
        return ew_fail(&worker->error, EW_ERROR_MEMORY, "a pack of %zu tokens does not fit memory", s.rows);
    }
    if (counting.used > worker->memory_size) {
        free(worker->memory);
        worker->memory_size = 0;
        worker->memory = ew_allocate_aligned(counting.used, 1);
        if (!worker->memory) {
            return ew_fail_memory(&worker->error, counting.used, "a pack of sequences");
        }
        worker->memory_size = counting.used;
    }
    ew_bump handing = {.base = worker->memory};
    lay_out(worker, &handing, n_listed, &s);
    fill(worker, listed, n_listed);
    return EW_OK;
}
