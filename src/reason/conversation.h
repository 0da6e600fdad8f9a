/* A conversation as a prompt that fits the context: old turns are left out whole when it does not. */
#ifndef EW_REASON_CONVERSATION_H
#define EW_REASON_CONVERSATION_H

#include "model/model.h"

/* Appends the tokens of the conversation to `tokens` so that `room` more fit into `context_length`. A turn is a user's
 * message with what follows it up to the next user's message; the oldest are left out first. A system message at the
 * beginning and the last turn always stay; *n_dropped counts the messages left out. When even the last turn leaves
 * less than `room`, it is taken if at least one token can follow it. EW_ERROR_CONTEXT if not. *header (may be NULL) is
 * the index of the reply header's first token. */
ew_status ew_conversation_fit(const ew_model *model, const ew_message *messages, size_t n_messages, bool thinking,
                              size_t context_length, size_t room, ew_tokens *tokens, size_t *header,
                              size_t *n_dropped, ew_error *error);

/* Room for a reply of at most max_tokens (0: no limit) that old turns make way for: no more than half of the context.
 * */
size_t ew_reply_room(size_t context_length, size_t max_tokens);

#endif
