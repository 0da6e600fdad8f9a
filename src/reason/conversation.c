#include "reason/conversation.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static bool is_role(const ew_message *message, const char *role) {
    return message->role && strcmp(message->role, role) == 0;
}

/* The index after the oldest turn that begins at `first`, or `first` itself if that is the last turn. */
static size_t end_of_turn(const ew_message *messages, size_t n_messages, size_t first) {
    for (size_t i = first + 1; i < n_messages; i++) {
        if (is_role(&messages[i], "user")) {
            return i;
        }
    }
    return first;
}

size_t ew_reply_room(size_t context_length, size_t max_tokens) {
    size_t room = max_tokens > 0 ? max_tokens : context_length / 4;
    return room < context_length / 2 ? room : context_length / 2;
}

ew_status ew_conversation_fit(const ew_model *model, const ew_message *messages, size_t n_messages, bool thinking,
                              size_t context_length, size_t room, ew_tokens *tokens, size_t *header,
                              size_t *n_dropped, ew_error *error) {
    size_t bytes;
    *n_dropped = 0;
    ew_message *kept = ew_allocate(n_messages, sizeof *kept);
    if (!kept) {
        return ew_fail_memory(error, ew_multiply_size(n_messages, sizeof *kept, &bytes) ? bytes : SIZE_MAX,
                              "the messages");
    }
    if (n_messages > 0) {
        memcpy(kept, messages, n_messages * sizeof *kept);
    }
    size_t n = n_messages, n_system = n > 0 && is_role(&kept[0], "system") ? 1 : 0;
    ew_status status;
    for (;;) {
        tokens->count = 0;
        status = ew_model_render(model, kept, n, thinking, NULL, tokens, header, error);
        if (status != EW_OK || (tokens->count <= context_length && context_length - tokens->count >= room)) {
            break;
        }
        size_t end = end_of_turn(kept, n, n_system);
        if (end == n_system) { /* the last turn */
            if (tokens->count >= context_length) {
                status = ew_fail(error, EW_ERROR_CONTEXT,
                                 "the last message makes a prompt of %zu tokens; the context holds %zu with the reply",
                                 tokens->count, context_length);
            }
            break;
        }
        memmove(kept + n_system, kept + end, (n - end) * sizeof *kept);
        n -= end - n_system;
        *n_dropped += end - n_system;
    }
    free(kept);
    return status;
}
