/* What a policy's budgets come to for one reply, in tokens. */
#ifndef EW_REASON_LIMITS_H
#define EW_REASON_LIMITS_H

#include "base/error.h"

/* EW_NO_LIMIT where there is none. The reply's tokens are those behind the header and what opens a thinking. */
typedef struct ew_limits {
    size_t thinking;     /* most that are drawn in the thinking */
    size_t answer;       /* most that are drawn in the answer */
    size_t total;        /* most tokens of the reply, drawn and forced */
    size_t closing;      /* tokens that close a cut thinking */
    size_t kept;         /* of the total for the answer: the answer's own limit, but at most a quarter */
    size_t context;      /* most positions */
    size_t context_kept; /* of those behind the prompt for the answer, by the same rule */
} ew_limits;

/* For a reply that begins at position n_prompt. Errors: EW_ERROR_ARGUMENT when the total budget is too small for a
 * thinking, its closing and an answer; EW_ERROR_CONTEXT when the context is. */
ew_status ew_limits_make(const ew_policy *policy, bool thinks, size_t n_closing, size_t n_prompt, size_t context_length,
                         ew_limits *limits, ew_error *error);

/* Why the thinking must be closed now; EW_THINKING_NONE: it may go on. n_thinking tokens were drawn in it, the reply
 * has n_tokens, and the last of them will stand at position n_positions - 1. */
ew_thinking_end ew_limits_cut(const ew_limits *limits, size_t n_thinking, size_t n_tokens, size_t n_positions);

/* Most tokens that the reply can have; EW_NO_LIMIT when only the context limits it. */
size_t ew_limits_most(const ew_limits *limits, bool thinks);

#endif
