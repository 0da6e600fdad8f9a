/* One hash: the logits of a sequence are the same bits whatever the instruction set, the number of threads, the other
 * streams of the batch, the chunks of the prompt and the state of the cache - and, because the hashes stand here, the
 * same whatever compiler and machine built this test. */
#include "model_support.h"

#include "kernel/kernel.h"

enum { LENGTH = 300, OTHERS = 2 }; /* 300 crosses a border of 256 positions and many of 32 */

typedef struct variant {
    const char *model;
    ew_quantize_scheme scheme;
    size_t group;
    ew_head_format head;
    ew_activation_type activations;
    size_t kv_grain;
    uint64_t hash; /* of the logits of all positions */
} variant;

static const variant variants[] = {
    {"qwen2-tiny", EW_SCHEME_SYMMETRIC, 32, EW_HEAD_INT4, EW_ACTIVATION_INT16, 32, UINT64_C(0x906bca080b8cd0cc)},
    {"qwen2-tiny", EW_SCHEME_OFFSET, 0, EW_HEAD_INT8, EW_ACTIVATION_INT8, 0, UINT64_C(0x1d53c7c265fcd8ae)},
    {"qwen3-tiny", EW_SCHEME_OFFSET, 64, EW_HEAD_INT4, EW_ACTIVATION_INT16, 32, UINT64_C(0xf83db6b720fa69e6)},
    {"llama-tiny", EW_SCHEME_SYMMETRIC, 0, EW_HEAD_INT8, EW_ACTIVATION_INT16, 32, UINT64_C(0x8b9d320a6ef72d20)},
    {"llama-tiny", EW_SCHEME_SYMMETRIC, 128, EW_HEAD_INT4, EW_ACTIVATION_INT8, 8, UINT64_C(0x00678b00e3c11bf5)},
    {"qwen2-outlier", EW_SCHEME_SYMMETRIC, 32, EW_HEAD_INT8, EW_ACTIVATION_INT16, 32, UINT64_C(0x0fd2da8f2db844af)},
};

static ew_model *quantize_and_open(const variant *v) {
    ew_quantize_options options = ew_quantize_default_options();
    options.scheme = v->scheme;
    options.group = v->group;
    options.head = v->head;
    options.activations = v->activations;
    options.kv_grain = v->kv_grain;
    return open_quantized(v->model, &options);
}

/* How the target sequence is run. */
typedef enum manner {
    ALONE,  /* from an empty stream */
    AMONG,  /* interleaved token by token with other streams */
    CACHED, /* after a longer text of which only a prefix is kept */
    FORKED  /* on a fork, while the parent has gone another way */
} manner;

static void run_among_others(ew_session *session, ew_stream *target, const int32_t *ids, size_t vocab, float *logits) {
    ew_stream *streams[OTHERS + 1] = {target};
    ew_input *inputs = calloc(LENGTH * (OTHERS + 1), sizeof *inputs);
    assert_non_null(inputs);
    for (size_t k = 1; k <= OTHERS; k++) {
        EW_ASSERT_OK(ew_stream_open(session, &streams[k], error));
    }
    for (size_t i = 0; i < LENGTH; i++) {
        for (size_t k = 0; k <= OTHERS; k++) {
            /* the target is neither first nor last of a step */
            size_t which = k == 0 ? 1 : k == 1 ? 0 : k;
            int32_t token = which == 0 ? ids[i] : token_at(which, i, vocab);
            inputs[i * (OTHERS + 1) + k] = (ew_input){streams[which], token, which == 0};
        }
    }
    EW_ASSERT_OK(ew_evaluate(session, inputs, LENGTH * (OTHERS + 1), logits, NULL, error));
    for (size_t k = 1; k <= OTHERS; k++) {
        ew_stream_close(streams[k]);
    }
    free(inputs);
}

static void run_after_fork(ew_session *session, ew_stream *target, const int32_t *ids, size_t vocab, float *logits) {
    enum { SHARED = 45 }; /* in the middle of a page */
    ew_stream *fork = NULL;
    run_ids(session, target, ids, SHARED, logits, NULL);
    EW_ASSERT_OK(ew_stream_fork(target, &fork, error));
    for (size_t i = 0; i < 40; i++) {
        int32_t token = token_at(9, i, vocab);
        run_ids(session, target, &token, 1, logits + SHARED * vocab, NULL);
    }
    run_ids(session, fork, ids + SHARED, LENGTH - SHARED, logits + SHARED * vocab, NULL);
    ew_stream_close(fork);
}

static void run_in_manner(ew_session *session, manner how, const int32_t *ids, size_t vocab, float *logits) {
    enum { KEPT = 77 };
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    switch (how) {
    case ALONE:
        run_ids(session, stream, ids, LENGTH, logits, NULL);
        break;
    case AMONG:
        run_among_others(session, stream, ids, vocab, logits);
        break;
    case CACHED:
        run_ids(session, stream, ids, KEPT, logits, NULL);
        for (size_t i = 0; i < 90; i++) {
            int32_t token = token_at(8, i, vocab);
            run_ids(session, stream, &token, 1, logits + KEPT * vocab, NULL);
        }
        ew_stream_truncate(stream, KEPT);
        run_ids(session, stream, ids + KEPT, LENGTH - KEPT, logits + KEPT * vocab, NULL);
        break;
    case FORKED:
        run_after_fork(session, stream, ids, vocab, logits);
        break;
    }
    ew_stream_close(stream);
}

static uint64_t hash_run(const ew_model *model, size_t n_threads, size_t chunk, manner how) {
    size_t vocab = vocab_size_of(model);
    float *logits = calloc(LENGTH * vocab, sizeof *logits);
    int32_t ids[LENGTH];
    assert_non_null(logits);
    for (size_t i = 0; i < LENGTH; i++) {
        ids[i] = token_at(0, i, vocab);
    }
    ew_session *session = open_test_session(model, n_threads, chunk);
    run_in_manner(session, how, ids, vocab, logits);
    uint64_t hash = hash_bytes(0, logits, LENGTH * vocab * sizeof *logits);
    ew_session_close(session);
    free(logits);
    return hash;
}

/* The whole grid; in all builds but one (EDGEWISE_TEST_QUICK set) one point of threads and chunk. */
static void check_kernels(const ew_model *model, const variant *v, const char *isa) {
    static const size_t chunks[] = {7, 128, 1};
    bool quick = getenv("EDGEWISE_TEST_QUICK") != NULL;
    setenv("EDGEWISE_ISA", isa, 1);
    for (size_t n_threads = quick ? 2 : 1; n_threads <= (quick ? 2 : 3); n_threads++) {
        for (size_t c = 0; c < (quick ? 1 : 3); c++) {
            for (manner how = ALONE; how <= FORKED; how++) {
                uint64_t hash = hash_run(model, n_threads, chunks[c], how);
                if (hash != v->hash) {
                    fail_msg("%s, %s, %zu threads, chunk %zu, manner %d: hash 0x%016llx, not 0x%016llx", v->model, isa,
                             n_threads, chunks[c], (int)how, (unsigned long long)hash, (unsigned long long)v->hash);
                }
            }
        }
    }
    unsetenv("EDGEWISE_ISA");
}

static void one_hash(void **state) {
    (void)state;
    size_t n_kernels;
    const ew_kernels *const *kernels = ew_kernels_available(&n_kernels);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        ew_model *model = quantize_and_open(&variants[i]);
        for (size_t k = getenv("EDGEWISE_TEST_ONE_SET") ? n_kernels - 1 : 0; k < n_kernels; k++) {
            check_kernels(model, &variants[i], kernels[k]->name);
        }
        ew_model_close(model);
    }
}

static void an_unknown_instruction_set_is_an_error(void **state) {
    (void)state;
    ew_model *model = quantize_and_open(&variants[0]);
    ew_session *session;
    ew_error error;
    setenv("EDGEWISE_ISA", "avx1024", 1);
    assert_int_equal(ew_session_open(model, NULL, &session, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "avx1024"));
    assert_non_null(strstr(error.message, "scalar"));
    unsetenv("EDGEWISE_ISA");
    ew_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hash),
        cmocka_unit_test(an_unknown_instruction_set_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
