/* Messages to runs of text and special tokens. */
#include "text/chat_template.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "text/characters.h"

#include <stdlib.h>
#include <string.h>

typedef struct rendering {
    const ew_chat_template *chat;
    const ew_tokenizer *tokenizer;
    ew_chat_prompt *out;
    bool failed; /* out of memory */
} rendering;

static ew_chat_segment *new_segment(rendering *r, int32_t token) {
    ew_chat_prompt *out = r->out;
    if (!ew_grow((void **)&out->segments, &out->capacity, out->n_segments + 1, sizeof *out->segments)) {
        r->failed = true;
        return NULL;
    }
    ew_chat_segment *segment = &out->segments[out->n_segments++];
    *segment = (ew_chat_segment){token, out->text.length, 0};
    return segment;
}

static void put_token(rendering *r, int32_t token) {
    const char *bytes = NULL;
    size_t length = 0;
    ew_chat_segment *segment = new_segment(r, token);
    if (segment && ew_tokenizer_piece(r->tokenizer, token, &bytes, &length)) {
        ew_buffer_append(&r->out->text, bytes, length);
        segment->length = length;
    }
}

/* Text goes on with the run before it, if that is text. */
static void put_bytes(rendering *r, const char *bytes, size_t length) {
    ew_chat_prompt *out = r->out;
    ew_chat_segment *segment = out->n_segments ? &out->segments[out->n_segments - 1] : NULL;
    if (length == 0) {
        return;
    }
    if (!segment || segment->token != EW_NO_TOKEN) {
        segment = new_segment(r, EW_NO_TOKEN);
    }
    if (segment) {
        ew_buffer_append(&out->text, bytes, length);
        segment->length += length;
    }
}

static void put(rendering *r, const char *text) {
    put_bytes(r, text, strlen(text));
}

/* A think tag: its token, or a run of its own beginning with its text. */
static void put_tag(rendering *r, int32_t token, const char *text) {
    if (token != EW_NO_TOKEN) {
        put_token(r, token);
    } else if (new_segment(r, EW_NO_TOKEN)) {
        put(r, text);
    }
}

static void open_turn(rendering *r, const char *role) {
    put_token(r, r->chat->turn_start);
    put(r, role);
    if (r->chat->family == EW_CHAT_LLAMA3) {
        put_token(r, r->chat->header_end);
        put(r, "\n\n");
    } else {
        put(r, "\n");
    }
}

static void close_turn(rendering *r) {
    put_token(r, r->chat->turn_end);
    if (r->chat->family != EW_CHAT_LLAMA3) {
        put(r, "\n");
    }
}

static ew_string strip(ew_string text) {
    uint32_t codepoint = 0;
    size_t n;
    while ((n = ew_utf8_decode(text.data, text.length, &codepoint)) > 0 && ew_is_python_space(codepoint)) {
        text.data += n;
        text.length -= n;
    }
    while ((n = ew_character_before(text.data, text.length, &codepoint)) > 0 &&
           ew_is_python_space(codepoint)) {
        text.length -= n;
    }
    return text;
}

static ew_string strip_newlines(ew_string text, bool front, bool back) {
    while (front && text.length > 0 && text.data[0] == '\n') {
        text.data++;
        text.length--;
    }
    while (back && text.length > 0 && text.data[text.length - 1] == '\n') {
        text.length--;
    }
    return text;
}

/* Python's text.split(tag)[0] and [-1]: what stands before the first and behind the last; false without a
 * tag. */
static bool split_at(ew_string text, const char *tag, ew_string *first, ew_string *last) {
    size_t n = strlen(tag);
    const char *end = text.data + text.length, *at = text.data, *found = NULL;
    *first = *last = text;
    while (text.length > 0 && (found = memmem(at, (size_t)(end - at), tag, n)) != NULL) {
        if (first->length == text.length) {
            first->length = (size_t)(found - text.data);
        }
        at = found + n;
    }
    *last = (ew_string){at, (size_t)(end - at)};
    return at != text.data;
}

/* Qwen3: a reply loses its thinking, unless it stands behind the last question: then the template writes the
 * thinking itself, an empty one too if the reply is the last message. */
static void put_qwen3_reply(rendering *r, ew_string content, bool after_last_user, bool last_message) {
    ew_string thinking = {"", 0}, before, ignored, answer = content;
    if (split_at(content, "</think>", &before, &answer)) {
        split_at(strip_newlines(before, false, true), "<think>", &ignored, &thinking);
        thinking = strip_newlines(thinking, true, true);
        answer = strip_newlines(answer, true, false);
    }
    if (after_last_user && (last_message || thinking.length > 0)) {
        put_tag(r, r->chat->think_start, "<think>");
        put(r, "\n");
        put_bytes(r, thinking.data, thinking.length);
        put(r, "\n");
        put_tag(r, r->chat->think_end, "</think>");
        put(r, "\n\n");
        answer = strip_newlines(answer, true, false);
    }
    put_bytes(r, answer.data, answer.length);
}

static size_t last_user_index(const ew_message *messages, size_t n) {
    for (size_t i = n; i > 0; i--) {
        if (strcmp(messages[i - 1].role, "user") == 0) {
            return i - 1;
        }
    }
    return n - 1;
}

static void put_messages(rendering *r, const ew_message *messages, size_t n, size_t first) {
    size_t last_user = last_user_index(messages, n);
    for (size_t i = first; i < n; i++) {
        ew_string content = {messages[i].content ? messages[i].content : "", messages[i].length};
        bool reply = strcmp(messages[i].role, "assistant") == 0;
        if (r->chat->strips) {
            content = strip(content);
        }
        open_turn(r, messages[i].role);
        if (r->chat->family == EW_CHAT_QWEN3 && reply) {
            put_qwen3_reply(r, content, i > last_user, i + 1 == n);
        } else {
            put_bytes(r, content.data, content.length);
        }
        close_turn(r);
    }
}

/* Llama 3.1: the system block always stands, begins with two dates and goes on with the first message if that
 * is a system message. The second date is the template's own default, so that a prompt is the same on every
 * day. */
static size_t put_dated_system(rendering *r, const ew_message *messages) {
    bool given = strcmp(messages[0].role, "system") == 0;
    open_turn(r, "system");
    put(r, "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
    if (given) {
        ew_string content = {messages[0].content ? messages[0].content : "", messages[0].length};
        content = r->chat->strips ? strip(content) : content;
        put_bytes(r, content.data, content.length);
    } else if (r->chat->default_system) {
        put(r, r->chat->default_system);
    }
    close_turn(r);
    return given ? 1 : 0;
}

static ew_status check_messages(const ew_message *messages, size_t n, ew_error *error) {
    static const char *const roles[] = {"system", "user", "assistant"};
    if (n == 0) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a conversation needs at least one message");
    }
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof roles / sizeof *roles; k++) {
            known |= messages[i].role && strcmp(messages[i].role, roles[k]) == 0;
        }
        if (!known) {
            return ew_fail(error, EW_ERROR_ARGUMENT,
                           "message %zu has the role \"%.40s\"; system, user and assistant are known", i,
                           messages[i].role ? messages[i].role : "");
        }
        if (messages[i].length > 0 && !messages[i].content) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "message %zu has a length but no content", i);
        }
    }
    return EW_OK;
}

static void put_all(rendering *r, const ew_message *messages, size_t n, unsigned flags) {
    size_t first = 0;
    if (r->chat->begins_with_bos) {
        put_token(r, r->chat->bos);
    }
    if (r->chat->dated) {
        first = put_dated_system(r, messages);
    } else if (r->chat->default_system && strcmp(messages[0].role, "system") != 0) {
        open_turn(r, "system");
        put(r, r->chat->default_system);
        close_turn(r);
    }
    put_messages(r, messages, n, first);
    r->out->reply_header = r->out->n_segments;
    if (!(flags & EW_CHAT_GENERATE)) {
        return;
    }
    open_turn(r, "assistant");
    if (flags & EW_CHAT_NO_THINKING && r->chat->family == EW_CHAT_QWEN3) {
        put_tag(r, r->chat->think_start, "<think>");
        put(r, "\n\n");
        put_tag(r, r->chat->think_end, "</think>");
        put(r, "\n\n");
    }
}

ew_status ew_chat_render(const ew_chat_template *chat, const ew_tokenizer *tokenizer,
                         const ew_message *messages, size_t n_messages, unsigned flags, ew_chat_prompt *out,
                         ew_error *error) {
    rendering r = {chat, tokenizer, out, false};
    ew_status status = check_messages(messages, n_messages, error);
    if (status != EW_OK) {
        return status;
    }
    ew_buffer_clear(&out->text);
    out->n_segments = 0;
    put_all(&r, messages, n_messages, flags);
    if (r.failed || out->text.failed) {
        return ew_fail_memory(error, out->text.length, "a prompt");
    }
    return EW_OK;
}

void ew_chat_prompt_free(ew_chat_prompt *prompt) {
    ew_buffer_free(&prompt->text);
    free(prompt->segments);
    *prompt = (ew_chat_prompt){0};
}

ew_status ew_chat_encode(const ew_chat_prompt *prompt, const ew_tokenizer *tokenizer, ew_tokens *out,
                         size_t *header, ew_error *error) {
    size_t before = out->count;
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < prompt->n_segments; i++) {
        const ew_chat_segment *segment = &prompt->segments[i];
        if (header && i == prompt->reply_header) {
            *header = out->count;
        }
        if (segment->token != EW_NO_TOKEN) {
            status = ew_tokens_append(out, &segment->token, 1, error);
        } else {
            status = ew_tokenizer_encode(tokenizer, prompt->text.data + segment->start, segment->length,
                                         EW_ENCODE_TEXT, out, error);
        }
    }
    if (status != EW_OK) {
        out->count = before;
    } else if (header && prompt->reply_header == prompt->n_segments) {
        *header = out->count;
    }
    return status;
}
