/* One candidate while it is written: draw a token, feed it, close a thinking that must end, stop.
 *
 * All strands of an answer share an ew_writing; a strand's tokens depend on its index and the seed and on no other
 * strand. */
#ifndef EW_REASON_STRAND_H
#define EW_REASON_STRAND_H

#include "reason/limits.h"
#include "reason/loop.h"
#include "reason/reply_text.h"
#include "reason/sampler.h"
#include "reason/source.h"

typedef struct ew_writing {
    const ew_source *source;
    const ew_model *model;
    const ew_policy *policy;
    const ew_answer_callbacks *callbacks;
    ew_limits limits;
    ew_tokens closing; /* what closes a cut thinking */
    const char *after; /* the part of it that begins the answer */
    bool thinks;
    ew_sampler *samplers; /* [n_samplers]: strands draw side by side, each by one of them */
    size_t n_samplers;
    double start;                     /* of the call, in the source's seconds */
    double first_token, first_answer; /* seconds from there; negative: none yet */
    bool cancelled;
} ew_writing;

/* What a strand drew and has not taken yet. */
typedef struct ew_draw {
    int32_t token;
    float log_probability; /* if asked for */
    ew_status status;
    ew_error error;
} ew_draw;

typedef struct ew_strand {
    size_t index;
    ew_stream *stream; /* NULL when it was given back */
    bool owns_stream;
    ew_candidate *out;
    ew_reply_text text;
    ew_loop loop;
    uint8_t *seen;   /* [vocab_size]; NULL without a penalty */
    ew_tokens queue; /* to be fed next */
    ew_draw draw;
    size_t token_capacity, log_capacity, forced_capacity;
    size_t thinking_shown, answer_shown;
    bool ended;
    bool settled; /* ended, and its answer read and scored */
} ew_strand;

/* A strand on `stream`, whose last token's logits are where the reply begins. `seen` (NULL without a penalty) is what
 * the prompt saw: copied. Whatever comes of it, ew_strand_free. */
ew_status ew_strand_open(ew_writing *writing, size_t index, ew_stream *stream, bool owns_stream, const uint8_t *seen,
                         ew_candidate *out, ew_strand *strand, ew_error *error);
void ew_strand_free(ew_strand *strand); /* safe on {0} */

/* Draws from the logits after the last token fed (which it may change). Reads what strands share: several may draw at
 * once, with a sampler each. */
void ew_strand_draw(const ew_writing *writing, ew_strand *strand, ew_sampler *sampler, float *logits);

/* Does what the drawn token asks for. Then either the queue holds what to feed next or the strand has ended. */
ew_status ew_strand_take(ew_writing *writing, ew_strand *strand, ew_error *error);

/* Ends it as it stands. */
void ew_strand_end(ew_strand *strand, ew_stop_reason reason);

/* Moves the texts of an ended strand into its candidate. */
ew_status ew_strand_finish(ew_writing *writing, ew_strand *strand, ew_error *error);

#endif
