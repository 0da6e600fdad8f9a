/* One hash with adapters: on, off and mixed in a batch, the logits of a sequence are the same bits whatever the instruction
 * set, the number of threads, the other streams, their adapters and the chunks. */
#include "model_support.h"

#include "kernel/kernel.h"
#include "model/synthetic.h"

enum { PROMPT = 41, ADAPTED = 80, LENGTH = 97, MIXED = 5 };

typedef struct adapter_variant {
    ew_adapter_storage storage;
    size_t rank;
    ew_activation_type activations;
    uint64_t hash;
} adapter_variant;

static const adapter_variant adapter_variants[] = {
    {EW_ADAPTER_INT8, 37, EW_ACTIVATION_INT16, UINT64_C(0x95f2106045cd93a4)},
    {EW_ADAPTER_INT8, 5, EW_ACTIVATION_INT8, UINT64_C(0xd4b9b93242ac9ad7)},
    {EW_ADAPTER_F16, 37, EW_ACTIVATION_INT16, UINT64_C(0x6ec93f9f4486b1ea)},
    {EW_ADAPTER_F32, 18, EW_ACTIVATION_INT8, UINT64_C(0x764a53550f22a41b)},
};

/* The stream's adapter at a position: off in the prompt, on, and off again. */
static void choose_adapter(ew_stream *stream, const ew_adapter *adapter, size_t position) {
    const ew_adapter *now = position >= PROMPT && position < ADAPTED ? adapter : NULL;
    if (ew_stream_adapter(stream) != now) {
        EW_ASSERT_OK(ew_stream_set_adapter(stream, now, error));
    }
}

/* The target is stream 2 of five: of the others one has no adapter, two have the same one and one another. */
static void run_mixed(ew_session *session, const ew_adapter *adapter, const ew_adapter *other, const int32_t *ids,
                      size_t vocab, float *logits) {
    const ew_adapter *adapters[MIXED] = {other, adapter, adapter, NULL, adapter};
    ew_stream *streams[MIXED];
    for (size_t k = 0; k < MIXED; k++) {
        EW_ASSERT_OK(ew_stream_open(session, &streams[k], error));
    }
    for (size_t i = 0; i < LENGTH; i++) {
        ew_input inputs[MIXED];
        for (size_t k = 0; k < MIXED; k++) {
            choose_adapter(streams[k], adapters[k], i);
            inputs[k] = (ew_input){streams[k], k == 2 ? ids[i] : token_at(k, i, vocab), k == 2};
        }
        EW_ASSERT_OK(ew_evaluate(session, inputs, MIXED, logits + i * vocab, NULL, error));
    }
}

/* In as few calls as possible; after the prompt on a fork. */
static void run_in_parts(ew_session *session, const ew_adapter *adapter, const int32_t *ids, size_t vocab,
                         float *logits) {
    ew_stream *stream = NULL, *fork = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    run_ids(session, stream, ids, PROMPT, logits, NULL);
    EW_ASSERT_OK(ew_stream_fork(stream, &fork, error));
    choose_adapter(fork, adapter, PROMPT);
    run_ids(session, fork, ids + PROMPT, ADAPTED - PROMPT, logits + PROMPT * vocab, NULL);
    choose_adapter(fork, adapter, ADAPTED);
    run_ids(session, fork, ids + ADAPTED, LENGTH - ADAPTED, logits + ADAPTED * vocab, NULL);
}

static uint64_t hash_adapted(const ew_model *model, const ew_adapter *adapter, const ew_adapter *other,
                             size_t n_threads, size_t chunk, bool mixed) {
    size_t vocab = vocab_size_of(model);
    float *logits = calloc(LENGTH * vocab, sizeof *logits);
    int32_t ids[LENGTH];
    assert_non_null(logits);
    for (size_t i = 0; i < LENGTH; i++) {
        ids[i] = token_at(0, i, vocab);
    }
    ew_session *session = open_test_session(model, n_threads, chunk);
    if (mixed) {
        run_mixed(session, adapter, other, ids, vocab, logits);
    } else {
        run_in_parts(session, adapter, ids, vocab, logits);
    }
    uint64_t hash = hash_bytes(0, logits, LENGTH * vocab * sizeof *logits);
    ew_session_close(session);
    free(logits);
    return hash;
}

static void check_adapted(const ew_model *model, const adapter_variant *v, const char *isa) {
    static const struct {
        size_t n_threads, chunk;
        bool mixed;
    } points[] = {{1, 128, false}, {2, 3, true}, {3, 40, false}, {1, 1, false}, {2, 128, true}};
    ew_adapter *adapter = NULL, *other = NULL;
    EW_ASSERT_OK(ew_synthetic_adapter(model, v->rank, 1, v->storage, &adapter, error));
    EW_ASSERT_OK(ew_synthetic_adapter(model, v->rank + 3, 2, EW_ADAPTER_F16, &other, error));
    setenv("EDGEWISE_ISA", isa, 1);
    bool few = strcmp(isa, "scalar") == 0 || getenv("EDGEWISE_TEST_QUICK"); /* slow ones */
    for (size_t i = 0; i < (few ? 2 : sizeof points / sizeof *points); i++) {
        uint64_t hash = hash_adapted(model, adapter, other, points[i].n_threads, points[i].chunk, points[i].mixed);
        if (hash != v->hash) {
            fail_msg("rank %zu, storage %d, %s, point %zu: hash 0x%016llx, not 0x%016llx", v->rank, (int)v->storage,
                     isa, i, (unsigned long long)hash, (unsigned long long)v->hash);
        }
    }
    unsetenv("EDGEWISE_ISA");
    ew_adapter_unload(adapter);
    ew_adapter_unload(other);
}

static void one_hash_with_adapters(void **state) {
    (void)state;
    size_t n_kernels;
    const ew_kernels *const *kernels = ew_kernels_available(&n_kernels);
    for (size_t i = 0; i < sizeof adapter_variants / sizeof *adapter_variants; i++) {
        ew_quantize_options options = ew_quantize_default_options();
        options.activations = adapter_variants[i].activations;
        ew_model *model = open_quantized("qwen2-tiny", &options);
        for (size_t k = getenv("EDGEWISE_TEST_ONE_SET") ? n_kernels - 1 : 0; k < n_kernels; k++) {
            check_adapted(model, &adapter_variants[i], kernels[k]->name);
        }
        ew_model_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hash_with_adapters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
