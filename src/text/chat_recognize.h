/* Which family a chat template belongs to. */
#ifndef EW_TEXT_CHAT_RECOGNIZE_H
#define EW_TEXT_CHAT_RECOGNIZE_H

#include "text/chat_template.h"

/* What a template text says of itself; sets name, family, default_system (owned), begins_with_bos, strips,
 * dated. *recognized false: not a text that Edgewise can render. Errors: EW_ERROR_MEMORY. */
ew_status ew_chat_recognize(ew_string template, ew_chat_template *out, bool *recognized, ew_error *error);

/* The default system prompt that a template of the ChatML family holds, NULL if none; owned by the caller. */
ew_status ew_chat_find_default_system(ew_string template, char **system, ew_error *error);

/* Their prompts, where a name is given and not a template. */
extern const char ew_chat_qwen2_5_system[];
extern const char ew_chat_smollm2_system[];

#endif
