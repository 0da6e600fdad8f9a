/* Every allocation of loading an adapter, of giving it to a stream and of a batch with it is made to fail once: each time
 * one sentence says so, the stream stays as it was, and nothing leaks (the sanitizer builds watch). */
#include "model_support.h"
#include "allocations.h"

static char adapter_path[1024];

typedef struct scenario {
    const ew_model *model;
    ew_adapter_storage storage;
} scenario;

static ew_status use_adapter(ew_session *session, const ew_adapter *adapter, ew_error *error) {
    static const int32_t ids[] = {5, 6, 7};
    ew_stream *stream = NULL, *fork = NULL;
    ew_status status = ew_stream_open(session, &stream, error);
    if (status == EW_OK) {
        const ew_input input = {stream, 4, false};
        status = ew_evaluate(session, &input, 1, NULL, NULL, error);
    }
    if (status == EW_OK) {
        status = ew_stream_set_adapter(stream, adapter, error);
        assert_ptr_equal(ew_stream_adapter(stream), status == EW_OK ? adapter : NULL);
    }
    if (status == EW_OK) {
        status = ew_stream_fork(stream, &fork, error);
    }
    for (size_t i = 0; status == EW_OK && i < 3; i++) {
        const ew_input inputs[] = {{stream, ids[i], false}, {fork, ids[2 - i], false}};
        size_t length = ew_stream_length(stream);
        status = ew_evaluate(session, inputs, 2, NULL, NULL, error);
        assert_int_equal(ew_stream_length(stream), length + (status == EW_OK));
        assert_int_equal(ew_stream_base_length(fork), 1);
    }
    ew_stream_close(stream);
    ew_stream_close(fork);
    return status;
}

static ew_status load_and_use(void *context, ew_error *error) {
    const scenario *s = context;
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    ew_adapter_options adapter_options = EW_ADAPTER_OPTIONS_INIT;
    ew_session *session = NULL;
    ew_adapter *adapter = NULL;
    options.n_threads = 1;
    options.chunk = 4;
    adapter_options.storage = s->storage;
    ew_status status = ew_session_open(s->model, &options, &session, error);
    if (status == EW_OK) {
        status = ew_adapter_load(s->model, adapter_path, &adapter_options, &adapter, error);
    }
    if (status == EW_OK) {
        status = use_adapter(session, adapter, error);
    }
    ew_session_close(session);
    ew_adapter_unload(adapter);
    return status;
}

static void every_allocation(void **state) {
    static const ew_adapter_storage storages[] = {EW_ADAPTER_KEEP, EW_ADAPTER_INT8};
    (void)state;
    if (!ew_test_shared("goldens/alora/adapters/qwen2-tiny.masked.gguf", adapter_path, sizeof adapter_path)) {
        skip();
    }
    ew_quantize_options quantize = ew_quantize_default_options();
    ew_model *model = open_quantized("qwen2-tiny", &quantize);
    for (size_t i = 0; i < sizeof storages / sizeof *storages; i++) {
        scenario s = {model, storages[i]};
        assert_true(fail_every_allocation(load_and_use, &s, LONG_MAX, 1) > 100);
    }
    ew_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
