/* The hidden states that heads are trained on, as the run time makes them: the same engine, the same tokens.
 *
 * Lines that make no state are counted and passed over; *drops is appended one sentence a reason. */
#ifndef EW_TRAIN_HEAD_FEATURES_H
#define EW_TRAIN_HEAD_FEATURES_H

#include "model/adapter.h"
#include "model/model.h"
#include "train/head_fit.h"

typedef struct ew_head_source {
    ew_session *session;
    const char *path;          /* JSONL */
    const ew_adapter *adapter; /* verifier: on in replies that thought; NULL: none */
    const char *text;          /* verifier: the verification prompt */
    size_t chunk;              /* switcher: of the pooling */
    double mix;
    void (*progress)(void *context, size_t done, size_t total); /* lines; may be NULL */
    void *context;
} ew_head_source;

typedef struct ew_head_drops {
    size_t n_lines, n_dropped;
    size_t first_line; /* the first that was dropped, */
    ew_error first;    /* and why */
} ew_head_drops;

/* Lines with `messages` or `problem`, and `label` 0 or 1: the pooled states of the prompt, without the reply's header.
 * Messages behind the last one of a user are left out. */
ew_status ew_switcher_features(const ew_head_source *source, ew_head_samples *samples, ew_head_drops *drops,
                               ew_error *error);

/* Lines of `edgewise sample`: the state of the verification prompt's last token, behind the reply as it was drawn. 1:
 * the verdict is right, 0: wrong; replies without an answer, which have no vote, are left out. */
ew_status ew_verifier_features(const ew_head_source *source, ew_head_samples *samples, ew_head_drops *drops,
                               ew_error *error);

#endif
