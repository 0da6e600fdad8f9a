#include "model/attention.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* Items that each thread should find, so that all end at about the same time. */
enum { ITEMS_PER_THREAD = 4 };

/* Whether the two read some of the same cells. */
static bool share_cells(const ew_row *a, const ew_row *b) {
    return a->stream->cells.pages[0] == b->stream->cells.pages[0];
}

static size_t heads_in_group(const ew_session *session) {
    const ew_config *config = &session->model->config;
    return config->n_heads / config->n_kv_heads;
}

static size_t over(size_t a, size_t b) {
    return (a + b - 1) / b;
}

/* ---- The plan ---- */

/* Rows of a span at most: as many as one call takes, but where positions cannot be cut far enough (n_runs whole ones), no
 * more than leave all threads something to do. */
static size_t rows_at_most(const ew_session *session, size_t n_rows, size_t n_runs) {
    size_t group = heads_in_group(session), n_kv_heads = session->model->config.n_kv_heads;
    size_t most = group < EW_ATTENTION_ROWS ? EW_ATTENTION_ROWS / group : 1;
    size_t wanted = ITEMS_PER_THREAD * ew_pool_size(session->pool);
    size_t parts = n_runs > 0 && session->model->weights.quantized ? n_runs : 1;
    size_t fair = 2 * n_rows * n_kv_heads * parts / wanted;
    return fair < most ? (fair > 0 ? fair : 1) : most;
}

/* Rows that read the same cells are attended together: the rows of a span are consecutive rows of one stream or of
 * streams with a common prefix, each times the query heads of a KV head. */
static void find_spans(ew_session *session, const ew_row *rows, size_t n_rows) {
    ew_attention_workspace *work = &session->workspace.attention;
    size_t n_positions = 0;
    for (size_t row = 0; row < n_rows; row++) {
        n_positions = rows[row].position + 1 > n_positions ? rows[row].position + 1 : n_positions;
    }
    size_t most = rows_at_most(session, n_rows, n_positions / EW_ATTENTION_PARTIAL);
    ew_attention_span *span = NULL;
    work->n_spans = 0;
    for (size_t row = 0; row < n_rows; row++) {
        if (!span || row - span->first == most || !share_cells(&rows[row], &rows[span->first])) {
            span = &work->spans[work->n_spans++];
            *span = (ew_attention_span){.first = row};
        }
        size_t n_runs = rows[row].position / EW_ATTENTION_PARTIAL + 1;
        span->end = row + 1;
        span->n_runs = n_runs > span->n_runs ? n_runs : span->n_runs;
    }
}

/* A span that is much of the work is cut into parts of its positions, whole runs each; returns the floats that the
 * partials of all heads take. */
static size_t cut_spans(ew_session *session) {
    ew_attention_workspace *work = &session->workspace.attention;
    const ew_config *config = &session->model->config;
    size_t group = heads_in_group(session), total = 0, floats = 0;
    for (size_t i = 0; i < work->n_spans; i++) {
        total += (work->spans[i].end - work->spans[i].first) * work->spans[i].n_runs;
    }
    size_t share = over(total * config->n_kv_heads, ITEMS_PER_THREAD * ew_pool_size(session->pool));
    bool can_cut = ew_pool_size(session->pool) > 1 && session->model->weights.quantized && group <= EW_ATTENTION_ROWS;
    work->n_items = 0;
    for (size_t i = 0; i < work->n_spans; i++) {
        ew_attention_span *span = &work->spans[i];
        size_t n_rows = span->end - span->first, n_parts = can_cut ? over(n_rows * span->n_runs, share) : 1;
        span->runs_of_part = over(span->n_runs, n_parts);
        span->first_item = work->n_items;
        span->n_parts = over(span->n_runs, span->runs_of_part);
        span->partials_at = floats;
        work->n_items += span->n_parts;
        if (span->n_parts > 1) {
            floats += config->n_kv_heads * n_rows * group * span->n_runs *
                      ew_attention_partial_floats(&session->pages.layout);
        }
    }
    return floats;
}

ew_status ew_attention_plan(ew_session *session, const ew_row *rows, size_t n_rows, ew_error *error) {
    ew_attention_workspace *work = &session->workspace.attention;
    find_spans(session, rows, n_rows);
    size_t floats = cut_spans(session);
    if (floats > work->n_partials) {
        size_t wanted = floats + floats / 4; /* contexts grow token by token */
        free(work->partials);
        work->partials = ew_allocate_aligned(wanted, sizeof *work->partials);
        work->n_partials = work->partials ? wanted : 0;
        if (!work->partials) {
            return ew_fail_memory(error, wanted * sizeof *work->partials, "the parts of attention");
        }
    }
    return EW_OK;
}

/* ---- A layer ---- */

typedef struct layer_attention {
    ew_session *session;
    const ew_row *rows;
    size_t layer;
} layer_attention;

/* What a call of the kernels points to. */
typedef struct call_rows {
    const float *queries[EW_ATTENTION_ROWS];
    float *outputs[EW_ATTENTION_ROWS];
    const uint8_t *const *pages[EW_ATTENTION_ROWS];
    uint32_t n_positions[EW_ATTENTION_ROWS];
} call_rows;

/* Query heads first_head .. first_head + n_heads - 1, which have KV head kv_head, of a span's rows. */
static ew_attention make_call(const layer_attention *l, const ew_attention_span *span, size_t kv_head,
                              size_t first_head, size_t n_heads, call_rows *out) {
    const ew_session *session = l->session;
    const ew_workspace *work = &session->workspace;
    size_t head_dim = session->model->config.head_dim, width = session->model->config.n_heads * head_dim, n = 0;
    for (size_t row = span->first; row < span->end; row++) {
        for (size_t head = first_head; head < first_head + n_heads; head++, n++) {
            out->queries[n] = work->q + row * width + head * head_dim;
            out->outputs[n] = work->attended + row * width + head * head_dim;
            out->pages[n] = (const uint8_t *const *)l->rows[row].stream->cells.pages;
            out->n_positions[n] = l->rows[row].position + 1;
        }
    }
    return (ew_attention){.layout = &session->pages.layout,
                          .pages = out->pages,
                          .page_offset = ew_page_offset(&session->pages, l->layer, kv_head),
                          .n_rows = n,
                          .queries = out->queries,
                          .n_positions = out->n_positions,
                          .softmax_scale = 1.0f / sqrtf((float)head_dim),
                          .outputs = out->outputs};
}

static void attend_whole(const layer_attention *l, const ew_attention_span *span, size_t kv_head) {
    const ew_kernels *kernels = l->session->kernels;
    size_t group = heads_in_group(l->session);
    for (size_t done = 0; done < group; done += EW_ATTENTION_ROWS) {
        call_rows rows;
        size_t n_heads = group - done < EW_ATTENTION_ROWS ? group - done : EW_ATTENTION_ROWS;
        const ew_attention call = make_call(l, span, kv_head, kv_head * group + done, n_heads, &rows);
        (l->session->model->weights.quantized ? kernels->attend : kernels->attend_float)(&call);
    }
}

/* One part; who computes the last one of a span and head merges all of them. */
static void attend_part(const layer_attention *l, size_t span_index, size_t kv_head, size_t part) {
    ew_attention_workspace *work = &l->session->workspace.attention;
    const ew_attention_span *span = &work->spans[span_index];
    size_t group = heads_in_group(l->session), begin = part * span->runs_of_part, end = begin + span->runs_of_part;
    call_rows rows;
    const ew_attention call = make_call(l, span, kv_head, kv_head * group, group, &rows);
    size_t floats = call.n_rows * span->n_runs * ew_attention_partial_floats(call.layout);
    float *partials = work->partials + span->partials_at + kv_head * floats;
    l->session->kernels->attend_runs(&call, begin, end < span->n_runs ? end : span->n_runs, span->n_runs, partials);
    atomic_size_t *n_done = &work->n_done[span_index * l->session->model->config.n_kv_heads + kv_head];
    if (atomic_fetch_add(n_done, 1) + 1 == span->n_parts) {
        atomic_store(n_done, 0);
        l->session->kernels->merge_runs(&call, span->n_runs, partials);
    }
}

/* Items of one KV head follow each other, so that pages which streams share come from memory once. */
static void attend_task(void *context, size_t begin, size_t end) {
    const layer_attention *l = context;
    const ew_attention_workspace *work = &l->session->workspace.attention;
    for (size_t item = begin; item < end; item++) {
        size_t kv_head = item / work->n_items, at = item % work->n_items, i = 0;
        while (i + 1 < work->n_spans && work->spans[i + 1].first_item <= at) {
            i++;
        }
        if (work->spans[i].n_parts == 1) {
            attend_whole(l, &work->spans[i], kv_head);
        } else {
            attend_part(l, i, kv_head, at - work->spans[i].first_item);
        }
    }
}

void ew_attention_run(ew_session *session, const ew_row *rows, size_t layer) {
    layer_attention l = {session, rows, layer};
    size_t n_items = session->workspace.attention.n_items * session->model->config.n_kv_heads;
    ew_pool_run(session->pool, n_items, 1, attend_task, &l);
}
