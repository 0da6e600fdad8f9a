/* A policy read and checked. */
#ifndef EW_REASON_POLICY_H
#define EW_REASON_POLICY_H

#include "reason/source.h"

enum { EW_STREAMS_MOST = 1024 };

/* The caller's policy (NULL: the defaults), complete, and checked by itself and against what the model can. Errors:
 * EW_ERROR_ARGUMENT. */
ew_status ew_policy_read(const ew_policy *given, const ew_source *source, ew_policy *policy, ew_error *error);

/* The text's tokens as they close a thinking (NULL: "\n</think>\n\n") and *after, the part of it behind the tag without
 * its white space. */
ew_status ew_policy_closing(const ew_model *model, const char *closing, ew_tokens *tokens, const char **after,
                            ew_error *error);

/* Streams that a policy may start. */
size_t ew_policy_streams(const ew_policy *policy);

/* Whether that many replies of n_reply tokens (EW_NO_LIMIT: as many as the memory allows) behind n_prompt tokens fit
 * the session's KV memory (without a limit: the machine's). EW_ERROR_ARGUMENT says how many would. */
ew_status ew_policy_fits(const ew_session *session, size_t n_streams, size_t n_prompt, size_t n_reply, ew_error *error);

#endif
