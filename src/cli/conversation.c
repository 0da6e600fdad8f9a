#include "cli/conversation.h"
#include "base/file.h"
#include "base/memory.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 64 << 20 }; /* bytes of a messages file */

ew_status ew_conversation_add(ew_conversation *conversation, const char *role, const char *content,
                              size_t length, ew_error *error) {
    char *role_copy = ew_copy_text(role, strlen(role));
    char *content_copy = ew_copy_text(content, length);
    if (!role_copy || !content_copy ||
        !ew_grow((void **)&conversation->messages, &conversation->capacity, conversation->count + 1,
                 sizeof *conversation->messages)) {
        free(role_copy);
        free(content_copy);
        return ew_fail_memory(error, length, "a message");
    }
    conversation->messages[conversation->count++] = (ew_message){role_copy, content_copy, length};
    return EW_OK;
}

void ew_conversation_drop_last(ew_conversation *conversation) {
    const ew_message *last = &conversation->messages[--conversation->count];
    free((void *)(uintptr_t)last->role);
    free((void *)(uintptr_t)last->content);
}

void ew_conversation_free(ew_conversation *conversation) {
    while (conversation->count > 0) {
        ew_conversation_drop_last(conversation);
    }
    free(conversation->messages);
    *conversation = (ew_conversation){0};
}

static ew_status add_from_json(ew_conversation *conversation, const json_t *messages, const char *path,
                               ew_error *error) {
    if (!json_is_array(messages)) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: an array of messages is needed, or an object with one as \"messages\"", path);
    }
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        const json_t *role = json_object_get(message, "role"), *content = json_object_get(message, "content");
        if (!json_is_string(role) || !json_is_string(content)) {
            return ew_fail(error, EW_ERROR_FORMAT,
                           "%s: message %zu needs \"role\" and \"content\", both strings", path, i + 1);
        }
        ew_status status =
            ew_conversation_add(conversation, json_string_value(role), json_string_value(content),
                                json_string_length(content), error);
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

ew_status ew_conversation_read(ew_conversation *conversation, const char *path, ew_error *error) {
    char *text = NULL;
    size_t length = 0;
    ew_status status = ew_read_file(path, LARGEST_FILE, &text, &length, error);
    if (status != EW_OK) {
        return status;
    }
    json_error_t problem;
    json_t *root = json_loadb(text, length, JSON_ALLOW_NUL, &problem);
    free(text);
    if (!root) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: line %d: %s", path, problem.line, problem.text);
    }
    const json_t *inside = json_is_object(root) ? json_object_get(root, "messages") : root;
    status = add_from_json(conversation, inside, path, error);
    json_decref(root);
    return status;
}
