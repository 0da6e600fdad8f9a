/* The lines of a chat, from a terminal (with a prompt sign) or a pipe. */
#ifndef EW_CLI_CHAT_INPUT_H
#define EW_CLI_CHAT_INPUT_H

#include "base/buffer.h"

/* {0} is closed. */
typedef struct ew_chat_input {
    bool terminal;
    char *line; /* getline's */
    size_t capacity;
    ew_buffer text; /* lines joined by a "\" at their ends */
} ew_chat_input;

void ew_chat_input_open(ew_chat_input *input);
void ew_chat_input_close(ew_chat_input *input);

/* The next message without its last line end, NUL-terminated, valid until the next call. NULL at the end of
 * input, when memory is out, and when Ctrl-C was pressed twice at the prompt; one Ctrl-C there only says how
 * to leave. From a pipe the first one ends it. */
const char *ew_chat_input_next(ew_chat_input *input, size_t *length);

#endif
