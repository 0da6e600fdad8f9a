/* Opening a model and running tokens through it, for tests: any error fails the test with its sentence. */
#ifndef EW_TEST_RUNNING_H
#define EW_TEST_RUNNING_H

#include "status.h"

#include <math.h>

static inline ew_model *open_test_model(const char *path, ew_weights weights, ew_kv kv) {
    ew_model_options options = EW_MODEL_OPTIONS_INIT;
    options.weights = weights;
    options.kv = kv;
    ew_model *model = NULL;
    EW_ASSERT_OK(ew_model_open(path, &options, &model, error));
    return model;
}

static inline ew_session *open_test_session(const ew_model *model, size_t n_threads, size_t chunk) {
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    options.n_threads = n_threads;
    options.chunk = chunk;
    ew_session *session = NULL;
    EW_ASSERT_OK(ew_session_open(model, &options, &session, error));
    return session;
}

static inline size_t vocab_size_of(const ew_model *model) {
    ew_model_info info = {.size = sizeof info};
    ew_model_describe(model, &info);
    return info.vocab_size;
}

/* Appends ids to the stream in one call; logits [n][vocab] and hidden [n][d] may be NULL. */
static inline void run_ids(ew_session *session, ew_stream *stream, const int32_t *ids, size_t n, float *logits,
                           float *hidden) {
    ew_input *inputs = calloc(n, sizeof *inputs);
    assert_non_null(inputs);
    for (size_t i = 0; i < n; i++) {
        inputs[i] = (ew_input){.stream = stream, .token = ids[i], .wants_logits = logits != NULL};
    }
    EW_ASSERT_OK(ew_evaluate(session, inputs, n, logits, hidden, error));
    free(inputs);
}

static inline int32_t argmax(const float *logits, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return (int32_t)best;
}

/* FNV-1a of 64 bits: the bytes of floats as a fingerprint. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *byte = bytes;
    hash = hash ? hash : UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#endif
