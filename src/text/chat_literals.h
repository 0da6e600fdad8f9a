/* What a Jinja template may write: its string literals and its text outside of blocks, without running it. */
#ifndef EW_TEXT_CHAT_LITERALS_H
#define EW_TEXT_CHAT_LITERALS_H

#include "base/buffer.h"
#include "format/gguf.h"

/* Appends all literals with their escapes resolved. Those joined by + or ~ stand together; a NUL stands
 * wherever something else than a literal comes between. Text outside of blocks counts as a literal unless it
 * is all space. */
void ew_chat_literals(ew_string template, ew_buffer *out);

/* The first string literal that is assigned to a variable with "system" in its name and is not empty, with
 * escapes resolved; false if there is none. */
bool ew_chat_assigned_system(ew_string template, ew_buffer *out);

#endif
