/* Where an answer's logits come from: the engine, or in tests a script that says what the test wants. */
#ifndef EW_REASON_SOURCE_H
#define EW_REASON_SOURCE_H

#include "model/model.h"

struct ew_prefix;

typedef struct ew_source {
    void *self;
    ew_session *session;      /* of the streams */
    struct ew_prefix *prefix; /* the prompt that its answers keep; NULL: the session's own */
    bool thinks;              /* the model thinks by itself: no adapter is needed for it */
    /* As ew_evaluate. */
    ew_status (*evaluate)(void *self, const ew_input *inputs, size_t n_inputs, float *logits, float *hidden,
                          ew_error *error);
    double (*now)(void *self); /* seconds from any moment on */
    /* May be NULL. Candidate `index` begins: its tokens will be fed to `stream`. */
    void (*begin)(void *self, const ew_stream *stream, size_t index);
} ew_source;

double ew_seconds(void); /* of a clock that never goes back */

/* The engine itself. */
ew_source ew_engine_source(ew_session *session);

/* The model behind the source can think without an adapter: by its template, or because <think> and </think> are
 * tokens of it. */
bool ew_source_thinks(const ew_source *source);

#endif
