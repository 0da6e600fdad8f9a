/* Streams: forks, limits, undoing, cancelling, counting; the memory of the cache. */
#include "running.h"

#include "model/synthetic.h"

static ew_model *model;

static int open_model(void **state) {
    (void)state;
    char path[1024];
    if (!ew_test_shared("goldens/models/qwen2-tiny", path, sizeof path)) {
        return -1;
    }
    model = open_test_model(path, EW_WEIGHTS_F32, EW_KV_INT8);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    ew_model_close(model);
    return 0;
}

static ew_session_info describe(const ew_session *session) {
    ew_session_info info = {.size = sizeof info};
    ew_session_describe(session, &info);
    return info;
}

static void forks_share_pages_until_they_diverge(void **state) {
    (void)state;
    int32_t ids[100];
    for (int i = 0; i < 100; i++) {
        ids[i] = i;
    }
    ew_session *session = open_test_session(model, 1, 0);
    ew_stream *stream = NULL, *fork = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    run_ids(session, stream, ids, 100, NULL, NULL);
    size_t page = session->pages.page_bytes;
    assert_int_equal(describe(session).kv_bytes, 4 * page);
    EW_ASSERT_OK(ew_stream_fork(stream, &fork, error));
    assert_int_equal(ew_stream_length(fork), 100);
    assert_memory_equal(ew_stream_tokens(fork), ids, sizeof ids);
    assert_int_equal(describe(session).kv_bytes, 4 * page);
    assert_int_equal(describe(session).n_streams, 2);
    run_ids(session, fork, ids, 1, NULL, NULL); /* the last page is copied */
    assert_int_equal(describe(session).kv_bytes, 5 * page);
    ew_stream_close(stream);
    assert_int_equal(describe(session).kv_bytes, 4 * page);
    ew_stream_truncate(fork, 64);
    assert_int_equal(describe(session).kv_bytes, 2 * page);
    ew_stream_close(fork);
    assert_int_equal(describe(session).kv_bytes, 0);
    assert_int_equal(describe(session).n_evaluated, 101);
    ew_session_close(session);
}

/* Pages go back in another order than they came, are used again, and hold nothing of their past. */
static void pages_are_used_again(void **state) {
    (void)state;
    enum { STREAMS = 5, VOCABULARY = 320 };
    float fresh[VOCABULARY], again[VOCABULARY];
    ew_session *session = open_test_session(model, 1, 0);
    size_t page = session->pages.page_bytes;
    for (size_t round = 0; round < 3; round++) {
        ew_stream *streams[STREAMS];
        for (size_t k = 0; k < STREAMS; k++) {
            EW_ASSERT_OK(ew_stream_open(session, &streams[k], error));
            EW_ASSERT_OK(ew_synthetic_cells(streams[k], 100 * (k + 1), round + k, error));
        }
        assert_int_equal(describe(session).kv_bytes, (4 + 7 + 10 + 13 + 16) * page);
        ew_stream_close(streams[1]);
        ew_stream_truncate(streams[4], 0);
        EW_ASSERT_OK(ew_synthetic_cells(streams[4], 45, 9, error));
        EW_ASSERT_OK(
            ew_evaluate(session, &(ew_input){streams[4], 7, true}, 1, round == 0 ? fresh : again, NULL, error));
        assert_int_equal(describe(session).kv_bytes, (4 + 10 + 13 + 2) * page);
        for (size_t k = 0; k < STREAMS; k++) {
            ew_stream_close(k == 1 ? NULL : streams[k]);
        }
        assert_int_equal(describe(session).kv_bytes, 0);
        assert_null(session->pages.slabs);
    }
    assert_memory_equal(fresh, again, sizeof fresh);
    ew_session_close(session);
}

static void a_failed_call_leaves_streams_as_they_were(void **state) {
    (void)state;
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    options.n_threads = 1;
    options.context_length = 50;
    ew_session *session = NULL;
    EW_ASSERT_OK(ew_session_open(model, &options, &session, error));
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    int32_t ids[60] = {0};
    run_ids(session, stream, ids, 40, NULL, NULL);
    ew_input inputs[11];
    ew_error error;
    for (int i = 0; i < 11; i++) {
        inputs[i] = (ew_input){stream, 7, false};
    }
    assert_int_equal(ew_evaluate(session, inputs, 11, NULL, NULL, &error), EW_ERROR_CONTEXT);
    assert_int_equal(ew_stream_length(stream), 40);
    inputs[3].token = 320;
    assert_int_equal(ew_evaluate(session, inputs, 5, NULL, NULL, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "320"));
    assert_int_equal(ew_stream_length(stream), 40);
    inputs[3] = (ew_input){stream, 7, true};
    assert_int_equal(ew_evaluate(session, inputs, 5, NULL, NULL, &error), EW_ERROR_ARGUMENT);
    inputs[3].wants_logits = false;
    assert_int_equal(ew_evaluate(session, inputs, 10, NULL, NULL, &error), EW_OK);
    assert_int_equal(ew_stream_length(stream), 50);
    ew_session_close(session);
}

static void kv_memory_has_a_limit(void **state) {
    (void)state;
    ew_session *probe = open_test_session(model, 1, 0);
    size_t page = probe->pages.page_bytes;
    ew_session_close(probe);
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    options.kv_bytes = 2 * page;
    ew_session *session = NULL;
    ew_error error;
    EW_ASSERT_OK(ew_session_open(model, &options, &session, error));
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    int32_t ids[64] = {0};
    run_ids(session, stream, ids, 64, NULL, NULL);
    const ew_input input = {stream, 1, false};
    assert_int_equal(ew_evaluate(session, &input, 1, NULL, NULL, &error), EW_ERROR_CONTEXT);
    assert_int_equal(ew_stream_length(stream), 64);
    assert_int_equal(describe(session).kv_bytes, 2 * page);
    ew_session_close(session);
    options.kv_bytes = page - 1;
    assert_int_equal(ew_session_open(model, &options, &session, &error), EW_ERROR_ARGUMENT);
}

static void a_cancel_stops_the_next_call(void **state) {
    (void)state;
    ew_session *session = open_test_session(model, 1, 0);
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    const ew_input input = {stream, 1, false};
    ew_session_cancel(session);
    assert_int_equal(ew_evaluate(session, &input, 1, NULL, NULL, NULL), EW_ERROR_CANCELLED);
    assert_int_equal(ew_stream_length(stream), 0);
    assert_int_equal(describe(session).kv_bytes, 0);
    assert_int_equal(ew_evaluate(session, &input, 1, NULL, NULL, NULL), EW_OK);
    ew_session_close(session);
}

static void interleaved_outputs_come_in_the_order_of_the_inputs(void **state) {
    (void)state;
    size_t vocab = vocab_size_of(model), d_model = model->config.d_model;
    ew_session *session = open_test_session(model, 2, 3);
    ew_stream *a = NULL, *b = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &a, error));
    EW_ASSERT_OK(ew_stream_open(session, &b, error));
    const int32_t ids_a[] = {5, 6, 7, 8}, ids_b[] = {50, 60, 70, 80};
    float *alone = calloc(8 * vocab, sizeof *alone), *alone_hidden = calloc(8 * d_model, sizeof *alone_hidden);
    float *mixed = calloc(8 * vocab, sizeof *mixed), *mixed_hidden = calloc(8 * d_model, sizeof *mixed_hidden);
    run_ids(session, a, ids_a, 4, alone, alone_hidden);
    run_ids(session, b, ids_b, 4, alone + 4 * vocab, alone_hidden + 4 * d_model);
    ew_stream_truncate(a, 0);
    ew_stream_truncate(b, 0);
    ew_input inputs[8];
    for (int i = 0; i < 4; i++) {
        inputs[2 * i] = (ew_input){a, ids_a[i], i != 1};
        inputs[2 * i + 1] = (ew_input){b, ids_b[i], true};
    }
    EW_ASSERT_OK(ew_evaluate(session, inputs, 8, mixed, mixed_hidden, error));
    size_t n = 0;
    for (int i = 0; i < 8; i++) {
        size_t reference = (size_t)(i % 2 == 0 ? i / 2 : 4 + i / 2);
        assert_memory_equal(mixed_hidden + (size_t)i * d_model, alone_hidden + reference * d_model,
                            d_model * sizeof(float));
        if (inputs[i].wants_logits) {
            assert_memory_equal(mixed + n++ * vocab, alone + reference * vocab, vocab * sizeof(float));
        }
    }
    assert_int_equal(n, 7);
    free(alone);
    free(alone_hidden);
    free(mixed);
    free(mixed_hidden);
    ew_session_close(session);
}

/* Cells without a text: the same at once or in parts, with other threads; of no text's prefix; past the end an error. */
static void synthetic_cells_stand_for_a_long_context(void **state) {
    (void)state;
    enum { LENGTH = 75, VOCABULARY = 320 };
    float logits[2][VOCABULARY];
    for (size_t i = 0; i < 2; i++) {
        ew_session_options options = EW_SESSION_OPTIONS_INIT;
        options.n_threads = 1 + i;
        options.context_length = LENGTH + 1;
        ew_session *session = NULL;
        ew_stream *stream = NULL;
        ew_error error;
        EW_ASSERT_OK(ew_session_open(model, &options, &session, error));
        EW_ASSERT_OK(ew_stream_open(session, &stream, error));
        int32_t ids[LENGTH] = {3, 4};
        run_ids(session, stream, ids, 2, NULL, NULL);
        EW_ASSERT_OK(ew_synthetic_cells(stream, i == 0 ? LENGTH : 40, 5, error));
        EW_ASSERT_OK(ew_synthetic_cells(stream, LENGTH, 5, error));
        assert_int_equal(ew_stream_length(stream), LENGTH);
        assert_int_equal(ew_stream_common_prefix(stream, ids, LENGTH), 2);
        assert_int_equal(ew_synthetic_cells(stream, LENGTH + 2, 5, &error), EW_ERROR_CONTEXT);
        assert_int_equal(ew_stream_length(stream), LENGTH);
        EW_ASSERT_OK(ew_evaluate(session, &(ew_input){stream, 7, true}, 1, logits[i], NULL, error));
        ew_session_close(session);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

static void options_of_another_size_are_checked(void **state) {
    (void)state;
    struct {
        ew_session_options known;
        size_t unknown;
    } newer = {EW_SESSION_OPTIONS_INIT, 0};
    ew_session *session = NULL;
    ew_error error;
    newer.known.size = sizeof newer;
    assert_int_equal(ew_session_open(model, &newer.known, &session, &error), EW_OK);
    ew_session_close(session);
    newer.unknown = 1;
    assert_int_equal(ew_session_open(model, &newer.known, &session, &error), EW_ERROR_ARGUMENT);
    newer.known.size = 0;
    assert_int_equal(ew_session_open(model, &newer.known, &session, &error), EW_ERROR_ARGUMENT);
    newer.known = (ew_session_options)EW_SESSION_OPTIONS_INIT;
    newer.known.n_threads = 1 << 20;
    assert_int_equal(ew_session_open(model, &newer.known, &session, &error), EW_ERROR_ARGUMENT);
    assert_null(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_share_pages_until_they_diverge),
        cmocka_unit_test(pages_are_used_again),
        cmocka_unit_test(a_failed_call_leaves_streams_as_they_were),
        cmocka_unit_test(kv_memory_has_a_limit),
        cmocka_unit_test(a_cancel_stops_the_next_call),
        cmocka_unit_test(interleaved_outputs_come_in_the_order_of_the_inputs),
        cmocka_unit_test(synthetic_cells_stand_for_a_long_context),
        cmocka_unit_test(options_of_another_size_are_checked),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
