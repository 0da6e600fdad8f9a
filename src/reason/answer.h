/* ew_answer on any source of logits. */
#ifndef EW_REASON_ANSWER_H
#define EW_REASON_ANSWER_H

#include "reason/source.h"

ew_status ew_answer_from(const ew_source *source, const ew_message *messages, size_t n_messages,
                         const ew_policy *policy, const ew_answer_callbacks *callbacks, ew_answer_result *result,
                         ew_error *error);

#endif
