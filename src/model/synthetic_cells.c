#include "base/memory.h"
#include "base/random.h"
#include "model/synthetic.h"

#include <stdlib.h>

/* Keys and values are cut from one stretch of random values, each from another place. */
enum { PLACES = 4093 };

/* No adapter's load has this number, so these cells are never taken for those of a text. */
static const uint64_t ORIGIN_NONE = UINT64_MAX;

typedef struct filling {
    ew_stream *stream;
    size_t begin, end; /* positions */
    uint64_t seed;
    const float *values; /* [PLACES + head_dim] */
} filling;

static void fill_position(const filling *f, uint8_t *page, size_t position) {
    const ew_session *session = f->stream->session;
    const ew_config *config = &session->model->config;
    for (size_t layer = 0; layer < config->n_layers; layer++) {
        for (size_t head = 0; head < config->n_kv_heads; head++) {
            uint64_t bits = ew_random_bits(f->seed, position, layer * config->n_kv_heads + head);
            session->kernels->store_kv(&session->pages.layout, page + ew_page_offset(&session->pages, layer, head),
                                       position % EW_PAGE_POSITIONS, f->values + (bits >> 32) % PLACES,
                                       f->values + (bits & UINT32_MAX) % PLACES);
        }
    }
}

static void fill_task(void *context, size_t begin, size_t end) {
    const filling *f = context;
    for (size_t i = begin; i < end; i++) {
        size_t first = i * EW_PAGE_POSITIONS, last = first + EW_PAGE_POSITIONS;
        for (size_t position = first > f->begin ? first : f->begin; position < last && position < f->end; position++) {
            fill_position(f, f->stream->cells.pages[i], position);
        }
    }
}

static ew_status append(ew_stream *stream, size_t length, ew_error *error) {
    size_t begin = stream->length;
    ew_status status = EW_OK;
    while (status == EW_OK && stream->length < length) {
        status = ew_stream_append(stream, 0, error);
        if (status == EW_OK) {
            stream->origins[stream->length - 1] = ORIGIN_NONE;
        }
    }
    if (status == EW_OK) {
        status = ew_page_table_reserve(&stream->session->pages, &stream->cells, begin, length, error);
    }
    if (status != EW_OK) {
        ew_stream_truncate(stream, begin);
    }
    return status;
}

ew_status ew_synthetic_cells(ew_stream *stream, size_t length, uint64_t seed, ew_error *error) {
    size_t begin = stream->length, n = PLACES + stream->session->model->config.head_dim;
    float *values = ew_allocate(n, sizeof *values);
    if (!values) {
        return ew_fail_memory(error, n * sizeof *values, "synthetic cells");
    }
    for (size_t i = 0; i < n; i++) { /* uniform in -2 .. 2 */
        values[i] = (float)(ew_random_unit(0, 0, i) * 4 - 2);
    }
    ew_status status = append(stream, length, error);
    if (status == EW_OK && begin < length) {
        filling f = {stream, begin, length, seed, values};
        ew_float_state state = ew_float_enter();
        ew_pool_run(stream->session->pool, stream->cells.n_pages, 1, fill_task, &f);
        ew_float_leave(state);
    }
    free(values);
    return status;
}
