#include "base/memory.h"
#include "model/adapter.h"
#include "model/forward.h"
#include "model/linear.h"

#include <stdlib.h>
#include <string.h>

ew_status ew_stream_open(ew_session *session, ew_stream **out, ew_error *error) {
    *out = NULL;
    ew_stream *stream = ew_allocate(1, sizeof *stream);
    if (!stream) {
        return ew_fail_memory(error, sizeof *stream, "a stream");
    }
    stream->session = session;
    stream->next = session->streams;
    if (stream->next) {
        stream->next->previous = stream;
    }
    session->streams = stream;
    *out = stream;
    return EW_OK;
}

/* Room for `length` tokens and what made their cells. */
static bool grow(ew_stream *stream, size_t length) {
    return ew_grow((void **)&stream->tokens, &stream->capacity, length, sizeof *stream->tokens) &&
           ew_grow((void **)&stream->origins, &stream->origin_capacity, length, sizeof *stream->origins);
}

ew_status ew_stream_fork(ew_stream *stream, ew_stream **out, ew_error *error) {
    ew_stream *fork;
    *out = NULL;
    ew_status status = ew_stream_open(stream->session, &fork, error);
    if (status != EW_OK) {
        return status;
    }
    if (!grow(fork, stream->length)) {
        status = ew_fail_memory(error, stream->length * sizeof *fork->tokens, "a stream");
    } else {
        status = ew_page_table_share(&stream->cells, stream->length, &fork->cells, error);
    }
    if (status != EW_OK) {
        ew_stream_close(fork);
        return status;
    }
    if (stream->length > 0) {
        memcpy(fork->tokens, stream->tokens, stream->length * sizeof *fork->tokens);
        memcpy(fork->origins, stream->origins, stream->length * sizeof *fork->origins);
    }
    fork->length = stream->length;
    fork->adapter = stream->adapter;
    fork->adapter_from = stream->adapter_from;
    ew_adapter_retain(fork->adapter);
    *out = fork;
    return EW_OK;
}

void ew_stream_close(ew_stream *stream) {
    if (!stream) {
        return;
    }
    if (stream->next) {
        stream->next->previous = stream->previous;
    }
    if (stream->previous) {
        stream->previous->next = stream->next;
    } else {
        stream->session->streams = stream->next;
    }
    ew_page_table_free(&stream->session->pages, &stream->cells);
    ew_adapter_release(stream->adapter);
    free(stream->tokens);
    free(stream->origins);
    free(stream);
}

size_t ew_stream_length(const ew_stream *stream) {
    return stream->length;
}

const int32_t *ew_stream_tokens(const ew_stream *stream) {
    return stream->tokens;
}

void ew_stream_truncate(ew_stream *stream, size_t length) {
    if (length < stream->length) {
        stream->length = length;
    }
    ew_page_table_truncate(&stream->session->pages, &stream->cells, stream->length);
}

/* ---- Adapters ---- */

ew_status ew_stream_set_adapter(ew_stream *stream, const ew_adapter *adapter, ew_error *error) {
    if (adapter && adapter->model != stream->session->model) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "the adapter %s was loaded for another model", adapter->name);
    }
    ew_status status = adapter ? ew_adapter_workspace_reserve(stream->session, adapter, error) : EW_OK;
    if (status == EW_OK) {
        ew_adapter_retain(adapter);
        ew_adapter_release(stream->adapter);
        stream->adapter = adapter;
        stream->adapter_from = 0;
    }
    return status;
}

const ew_adapter *ew_stream_adapter(const ew_stream *stream) {
    return stream->adapter;
}

void ew_stream_adapt_from(ew_stream *stream, size_t position) {
    stream->adapter_from = position;
}

static const ew_adapter *adapter_at(const ew_stream *stream, size_t position) {
    return position >= stream->adapter_from ? stream->adapter : NULL;
}

uint64_t ew_stream_origin_at(const ew_stream *stream, size_t position) {
    const ew_adapter *adapter = adapter_at(stream, position);
    return adapter ? adapter->info.load : 0;
}

size_t ew_stream_base_length(const ew_stream *stream) {
    size_t n = 0;
    while (n < stream->length && stream->origins[n] == 0) {
        n++;
    }
    return n;
}

size_t ew_stream_common_prefix(const ew_stream *stream, const int32_t *tokens, size_t n_tokens) {
    size_t n = 0;
    while (n < stream->length && n < n_tokens && stream->tokens[n] == tokens[n] &&
           stream->origins[n] == ew_stream_origin_at(stream, n)) {
        n++;
    }
    return n;
}

/* ---- Evaluation ---- */

/* A call of ew_evaluate. rows are sorted so that rows of one stream stand together, which the forward pass wants, and
 * streams of one adapter, whose weights are then read once; order[i] is the index of row i's input. */
typedef struct evaluation {
    ew_session *session;
    const ew_input *inputs;
    size_t n_inputs;
    ew_row *rows;  /* [n_inputs] */
    size_t *order; /* [n_inputs] */
    float *logits; /* of the inputs that want them, in the order of the inputs */
    float *hidden;
    float *scratch; /* logits of one chunk's rows, where their order is not that of the inputs */
    bool in_order;
} evaluation;

static ew_status check_input(const ew_session *session, const ew_input *input, size_t index, ew_error *error) {
    if (!input->stream || input->stream->session != session) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "input %zu has no stream of this session", index);
    }
    if (input->token < 0 || (size_t)input->token >= session->model->config.vocab_size) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "token %d of input %zu does not exist: ids are 0 to %zu", input->token,
                       index, session->model->config.vocab_size - 1);
    }
    return EW_OK;
}

ew_status ew_stream_append(ew_stream *stream, int32_t token, ew_error *error) {
    size_t most = stream->session->context_length;
    if (stream->length >= most) {
        return ew_fail(error, EW_ERROR_CONTEXT, "the context of %zu tokens is full", most);
    }
    if (!grow(stream, stream->length + 1)) {
        return ew_fail_memory(error, stream->length * sizeof *stream->tokens, "the tokens of a stream");
    }
    stream->origins[stream->length] = ew_stream_origin_at(stream, stream->length);
    stream->tokens[stream->length++] = token;
    return EW_OK;
}

static ew_row make_row(const ew_input *input, size_t position) {
    return (ew_row){.stream = input->stream,
                    .adapter = adapter_at(input->stream, position),
                    .token = input->token,
                    .position = (uint32_t)position,
                    .wants_logits = input->wants_logits};
}

/* Appends all tokens, and lists the rows in the order of the inputs. Stops at the first error; *n_appended tells how
 * many inputs were taken. */
static ew_status append_tokens(evaluation *e, size_t *n_appended, ew_error *error) {
    e->in_order = true;
    for (*n_appended = 0; *n_appended < e->n_inputs; ++*n_appended) {
        const ew_input *input = &e->inputs[*n_appended];
        ew_status status = check_input(e->session, input, *n_appended, error);
        if (status == EW_OK) {
            status = ew_stream_append(input->stream, input->token, error);
        }
        if (status != EW_OK) {
            return status;
        }
        e->rows[*n_appended] = make_row(input, input->stream->length - 1);
        e->order[*n_appended] = *n_appended;
    }
    return EW_OK;
}

/* True when the rows of every stream already stand together, and the streams of every adapter. */
static bool streams_are_together(const evaluation *e) {
    for (size_t i = 1; i < e->n_inputs; i++) {
        const ew_stream *stream = e->rows[i].stream, *before = e->rows[i - 1].stream;
        bool other_adapter = stream->adapter && stream->adapter != before->adapter;
        for (size_t j = 0; stream != before && j < i; j++) {
            if (e->rows[j].stream == stream || (other_adapter && e->rows[j].stream->adapter == stream->adapter)) {
                return false;
            }
        }
    }
    return true;
}

/* The rows of the stream of input `first`, its first one, from row *n on. */
static void place_stream(evaluation *e, size_t first, size_t *n) {
    ew_stream *stream = e->inputs[first].stream;
    size_t position = stream->length;
    for (size_t i = first; i < e->n_inputs; i++) {
        position -= e->inputs[i].stream == stream;
    }
    for (size_t i = first; i < e->n_inputs; i++) {
        if (e->inputs[i].stream == stream) {
            e->order[*n] = i;
            e->rows[(*n)++] = make_row(&e->inputs[i], position++);
        }
    }
    stream->is_placed = true;
}

/* Stable: adapters by the place where they first appear, within one the streams likewise. */
static void sort_by_stream(evaluation *e) {
    size_t n = 0;
    for (size_t i = 0; i < e->n_inputs; i++) {
        e->inputs[i].stream->is_placed = false;
    }
    for (size_t first = 0; first < e->n_inputs; first++) {
        const ew_stream *stream = e->inputs[first].stream;
        for (size_t i = stream->is_placed ? e->n_inputs : first; i < e->n_inputs; i++) {
            if (!e->inputs[i].stream->is_placed && e->inputs[i].stream->adapter == stream->adapter) {
                place_stream(e, i, &n);
            }
        }
    }
    e->in_order = false;
}

static ew_status reserve_cells(const evaluation *e, ew_error *error) {
    for (size_t i = 0; i < e->n_inputs; i++) {
        ew_stream *stream = e->inputs[e->order[i]].stream;
        bool first = i == 0 || e->rows[i - 1].stream != stream;
        if (first) {
            ew_status status =
                ew_page_table_reserve(&e->session->pages, &stream->cells, e->rows[i].position, stream->length, error);
            if (status != EW_OK) {
                return status;
            }
        }
    }
    return EW_OK;
}

/* How many inputs before `index` want logits. */
static size_t logits_before(const evaluation *e, size_t index) {
    size_t n = 0;
    for (size_t i = 0; i < index; i++) {
        n += e->inputs[i].wants_logits;
    }
    return n;
}

static void scatter(const evaluation *e, size_t begin, size_t n, const float *hidden) {
    size_t vocab_size = e->session->model->config.vocab_size, d_model = e->session->model->config.d_model, taken = 0;
    for (size_t i = begin; i < begin + n; i++) {
        size_t index = e->order[i];
        if (e->rows[i].wants_logits) {
            memcpy(e->logits + logits_before(e, index) * vocab_size, e->scratch + taken++ * vocab_size,
                   vocab_size * sizeof(float));
        }
        if (e->hidden) {
            memcpy(e->hidden + index * d_model, hidden + (i - begin) * d_model, d_model * sizeof(float));
        }
    }
}

/* Rows begin .. begin + n - 1. */
static ew_status run_chunk(const evaluation *e, size_t begin, size_t n, size_t n_logits_before, float *hidden_scratch,
                           ew_error *error) {
    const ew_config *config = &e->session->model->config;
    float *logits = NULL, *hidden = NULL;
    if (e->logits) {
        logits = e->in_order ? e->logits + n_logits_before * config->vocab_size : e->scratch;
    }
    if (e->hidden) {
        hidden = e->in_order ? e->hidden + begin * config->d_model : hidden_scratch;
    }
    ew_status status = ew_forward(e->session, e->rows + begin, n, logits, hidden, error);
    if (status == EW_OK && !e->in_order) {
        scatter(e, begin, n, hidden);
    }
    return status;
}

static ew_status run_chunks(evaluation *e, ew_error *error) {
    const ew_config *config = &e->session->model->config;
    size_t chunk = e->session->chunk, n_logits = 0;
    float *hidden_scratch = NULL;
    ew_status status = EW_OK;
    if (!e->in_order) {
        size_t rows = e->n_inputs < chunk ? e->n_inputs : chunk;
        e->scratch = e->logits ? ew_allocate(rows * config->vocab_size, sizeof(float)) : NULL;
        hidden_scratch = e->hidden ? ew_allocate(rows * config->d_model, sizeof(float)) : NULL;
        if ((e->logits && !e->scratch) || (e->hidden && !hidden_scratch)) {
            status = ew_fail_memory(error, rows * config->vocab_size * sizeof(float), "logits");
        }
    }
    for (size_t begin = 0; status == EW_OK && begin < e->n_inputs; begin += chunk) {
        size_t n = e->n_inputs - begin < chunk ? e->n_inputs - begin : chunk;
        if (ew_session_take_cancel(e->session)) {
            status = ew_fail(error, EW_ERROR_CANCELLED, "cancelled");
            break;
        }
        status = run_chunk(e, begin, n, n_logits, hidden_scratch, error);
        for (size_t i = begin; i < begin + n; i++) {
            n_logits += e->rows[i].wants_logits;
        }
    }
    free(hidden_scratch);
    free(e->scratch);
    return status;
}

/* Takes the first n_appended inputs off their streams again. */
static void undo(const evaluation *e, size_t n_appended) {
    for (size_t i = 0; i < n_appended; i++) {
        ew_stream_truncate(e->inputs[i].stream, e->inputs[i].stream->length - 1);
    }
}

static ew_status evaluate(evaluation *e, ew_error *error) {
    size_t n_appended;
    ew_status status = append_tokens(e, &n_appended, error);
    if (status == EW_OK) {
        if (!streams_are_together(e)) {
            sort_by_stream(e);
        }
        status = reserve_cells(e, error);
    }
    if (status == EW_OK) {
        ew_float_state state = ew_float_enter();
        status = run_chunks(e, error);
        ew_float_leave(state);
    }
    if (status != EW_OK) {
        undo(e, n_appended);
    }
    return status;
}

ew_status ew_evaluate(ew_session *session, const ew_input *inputs, size_t n_inputs, float *logits, float *hidden,
                      ew_error *error) {
    if (n_inputs == 0) {
        return EW_OK;
    }
    for (size_t i = 0; !logits && i < n_inputs; i++) {
        if (inputs[i].wants_logits) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "input %zu wants logits, but there is no room for them", i);
        }
    }
    evaluation e = {.session = session, .inputs = inputs, .n_inputs = n_inputs, .logits = logits, .hidden = hidden};
    e.rows = ew_allocate(n_inputs, sizeof *e.rows);
    e.order = ew_allocate(n_inputs, sizeof *e.order);
    ew_status status =
        e.rows && e.order ? evaluate(&e, error) : ew_fail_memory(error, n_inputs * sizeof *e.rows, "a batch");
    free(e.rows);
    free(e.order);
    return status;
}
