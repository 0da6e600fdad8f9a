/* A conversation that grows: messages whose texts it owns, in the form that the library takes. */
#ifndef EW_CLI_CONVERSATION_H
#define EW_CLI_CONVERSATION_H

#include "base/error.h"

/* {0} is empty; free with ew_conversation_free. */
typedef struct ew_conversation {
    ew_message *messages; /* [count]; roles and contents owned */
    size_t count;
    size_t capacity;
} ew_conversation;

ew_status ew_conversation_add(ew_conversation *conversation, const char *role, const char *content,
                              size_t length, ew_error *error);
void ew_conversation_drop_last(ew_conversation *conversation);
void ew_conversation_free(ew_conversation *conversation); /* leaves {0} */

/* Appends the messages of a JSON file: an array of {"role": ..., "content": ...}, or an object with such an
 * array as "messages". Errors: EW_ERROR_IO, EW_ERROR_FORMAT. */
ew_status ew_conversation_read(ew_conversation *conversation, const char *path, ew_error *error);

#endif
