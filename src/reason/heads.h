/* The two heads at run time: does this prompt need thinking, and is this answer right? */
#ifndef EW_REASON_HEADS_H
#define EW_REASON_HEADS_H

#include "model/head_score.h"
#include "reason/strand.h"

struct ew_switcher {
    const ew_model *model;
    ew_head head;
};

struct ew_verifier {
    const ew_model *model;
    ew_head head;
    ew_tokens prompt; /* the verification prompt behind a candidate's end of turn */
};

/* The verifier was trained on replies written with this adapter (NULL: by the model alone). */
bool ew_verifier_is_for(const ew_verifier *verifier, const ew_adapter *adapter);

/* p(thinking pays) of the pooled prompt. */
ew_status ew_switcher_ask(const ew_switcher *switcher, const ew_pooling *pooling, double *probability, ew_error *error);

/* Asks the verifier about an ended strand, on its own stream, which is as before afterwards; out->score stays NaN when
 * the context has no room for the question. */
ew_status ew_verifier_ask(const ew_verifier *verifier, const ew_source *source, ew_strand *strand, ew_error *error);

#endif
