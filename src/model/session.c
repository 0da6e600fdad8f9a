#include "base/memory.h"
#include "model/linear.h"
#include "model/options.h"

#include <stdlib.h>

enum { DEFAULT_CHUNK = 128, CHUNK_MOST = 4096 };

static void prepare_thread(void) {
    ew_float_enter();
}

static ew_status check_options(const ew_model *model, ew_session_options *options, ew_error *error) {
    if (options->context_length == 0) {
        options->context_length = model->config.context_length;
    }
    if (options->context_length > EW_CONFIG_MAX_CONTEXT) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a context of %zu tokens is asked for; at most %d are possible",
                       options->context_length, EW_CONFIG_MAX_CONTEXT);
    }
    if (options->chunk == 0) {
        options->chunk = DEFAULT_CHUNK;
    }
    if (options->chunk > CHUNK_MOST) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "chunks of %zu tokens are asked for; at most %d are possible",
                       options->chunk, CHUNK_MOST);
    }
    return EW_OK;
}

static ew_status plan_pages(const ew_model *model, size_t kv_bytes, ew_page_pool *pages, ew_error *error) {
    const ew_config *config = &model->config;
    pages->layout = ew_kv_layout_make(model->kv_quantized, config->head_dim, model->weights.kv_grain);
    pages->n_kv_heads = config->n_kv_heads;
    size_t parts;
    if (!ew_multiply_size(config->n_layers, config->n_kv_heads, &parts) ||
        !ew_multiply_size(parts, pages->layout.page_bytes, &pages->page_bytes)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a page of the KV cache does not fit memory");
    }
    pages->n_pages_most = kv_bytes / pages->page_bytes;
    if (kv_bytes > 0 && pages->n_pages_most == 0) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%zu bytes of KV memory hold not one page, which takes %zu", kv_bytes,
                       pages->page_bytes);
    }
    return EW_OK;
}

static ew_status open_parts(ew_session *session, const ew_session_options *options, ew_error *error) {
    const ew_model *model = session->model;
    ew_status status = plan_pages(model, options->kv_bytes, &session->pages, error);
    if (status == EW_OK) {
        status = ew_kernels_select(&session->kernels, error);
    }
    if (status == EW_OK) {
        status = ew_pool_create(options->n_threads, prepare_thread, &session->pool, error);
    }
    if (status == EW_OK) {
        status = ew_workspace_allocate(model, options->chunk, &session->workspace, error);
    }
    return status;
}

ew_status ew_session_open(const ew_model *model, const ew_session_options *given, ew_session **out, ew_error *error) {
    *out = NULL;
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    ew_status status = ew_read_options(given, &options, sizeof options, "ew_session_options", error);
    if (status == EW_OK) {
        status = check_options(model, &options, error);
    }
    if (status != EW_OK) {
        return status;
    }
    ew_session *session = ew_allocate(1, sizeof *session);
    if (!session) {
        return ew_fail_memory(error, sizeof *session, "a session");
    }
    session->model = model;
    session->context_length = options.context_length;
    session->chunk = options.chunk;
    status = open_parts(session, &options, error);
    if (status != EW_OK) {
        ew_session_close(session);
        return status;
    }
    *out = session;
    return EW_OK;
}

void ew_session_close(ew_session *session) {
    if (!session) {
        return;
    }
    if (session->free_kept) {
        session->free_kept(session->kept);
    }
    while (session->streams) {
        ew_stream_close(session->streams);
    }
    ew_adapter_workspace_free(&session->adapter_workspace);
    ew_workspace_free(&session->workspace);
    ew_pool_destroy(session->pool);
    free(session);
}

void ew_session_cancel(ew_session *session) {
    atomic_store(&session->cancelled, true);
}

bool ew_session_take_cancel(ew_session *session) {
    return atomic_exchange(&session->cancelled, false);
}

void ew_session_describe(const ew_session *session, ew_session_info *info) {
    size_t n_streams = 0;
    for (const ew_stream *stream = session->streams; stream; stream = stream->next) {
        n_streams++;
    }
    const ew_session_info known = {
        .n_threads = ew_pool_size(session->pool),
        .context_length = session->context_length,
        .instruction_set = session->kernels->name,
        .kv_bytes = session->pages.n_pages * session->pages.page_bytes,
        .n_streams = n_streams,
        .n_evaluated = session->n_evaluated,
    };
    ew_write_info(&known, sizeof known, info);
}
