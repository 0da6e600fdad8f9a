#include "text/reply_parts.h"

#include "base/memory.h"
#include "text/characters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char open_tag[] = "<think>", close_tag[] = "</think>";

ew_string ew_reply_strip(ew_string text) {
    size_t front = ew_leading_space(text.data, text.length);
    text.data += front;
    text.length -= front;
    text.length = ew_trim_end(text.data, text.length);
    return text;
}

/* ---- Text with tags ---- */

void ew_reply_split(ew_string text, ew_reply_content *content) {
    *content = (ew_reply_content){{"", 0}, {"", 0}, 0, false, false};
    size_t tag = strlen(open_tag);
    text = ew_reply_strip(text.data ? text : (ew_string){"", 0});
    bool opened = text.length >= tag && memcmp(text.data, open_tag, tag) == 0;
    if (opened) {
        text.data += tag;
        text.length -= tag;
    }
    const char *close = text.length > 0 ? memmem(text.data, text.length, close_tag, strlen(close_tag)) : NULL;
    if (close) {
        const char *after = close + strlen(close_tag);
        content->thinking = ew_reply_strip((ew_string){text.data, (size_t)(close - text.data)});
        content->answer = ew_reply_strip((ew_string){after, (size_t)(text.data + text.length - after)});
    } else if (opened) {
        content->thinking = ew_reply_strip(text);
        content->open = true;
    } else {
        content->answer = text;
    }
}

ew_string ew_reply_without_thinking(ew_string text) {
    ew_reply_content content;
    ew_reply_split(text, &content);
    ew_string stripped = ew_reply_strip(text.data ? text : (ew_string){"", 0});
    bool tagged = content.open || content.answer.length != stripped.length;
    return tagged ? content.answer : text;
}

void ew_messages_without_thinking(const ew_message *messages, size_t n_messages, ew_message *copied) {
    for (size_t i = 0; i < n_messages; i++) {
        copied[i] = messages[i];
        if (messages[i].role && messages[i].content && strcmp(messages[i].role, "assistant") == 0) {
            ew_string answer = ew_reply_without_thinking((ew_string){messages[i].content, messages[i].length});
            copied[i].content = answer.data;
            copied[i].length = answer.length;
        }
    }
}

/* ---- Parts ---- */

static ew_status encode_text(const ew_tokenizer *tokenizer, const char *text, size_t length, ew_tokens *out,
                             ew_error *error) {
    return ew_tokenizer_encode(tokenizer, text, length, EW_ENCODE_TEXT, out, error);
}

/* before, the tag, after: around a tag that is a token each side is tokenized by itself, else they are one text. */
static ew_status encode_tag(const ew_tokenizer *tokenizer, const char *before, int32_t token, const char *tag,
                            const char *after, ew_tokens *out, ew_error *error) {
    char whole[32];
    if (token == EW_NO_TOKEN) {
        int length = snprintf(whole, sizeof whole, "%s%s%s", before, tag, after);
        return encode_text(tokenizer, whole, (size_t)length, out, error);
    }
    ew_status status = encode_text(tokenizer, before, strlen(before), out, error);
    if (status == EW_OK) {
        status = ew_tokens_append(out, &token, 1, error);
    }
    return status == EW_OK ? encode_text(tokenizer, after, strlen(after), out, error) : status;
}

static ew_status encode_budget(const ew_tokenizer *tokenizer, ew_string digits, ew_tokens *out, ew_error *error) {
    char line[64];
    size_t n = 0;
    while (n < digits.length && digits.data[n] >= '0' && digits.data[n] <= '9') {
        n++;
    }
    if (n == 0 || n != digits.length || n > 20) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a budget must be a number of tokens in decimal digits");
    }
    int length = snprintf(line, sizeof line, "Budget: %.*s tokens\n", (int)n, digits.data);
    return encode_text(tokenizer, line, (size_t)length, out, error);
}

ew_status ew_reply_encode_part(const ew_chat_template *chat, const ew_tokenizer *tokenizer, ew_reply_part part,
                               ew_string text, ew_tokens *out, ew_error *error) {
    size_t before = out->count;
    ew_status status;
    switch (part) {
    case EW_PART_BUDGET:
        status = encode_budget(tokenizer, text, out, error);
        break;
    case EW_PART_THINK_OPEN:
        status = encode_tag(tokenizer, "", chat->think_start, open_tag, "\n", out, error);
        break;
    case EW_PART_THINK_CLOSE:
        status = encode_tag(tokenizer, "\n", chat->think_end, close_tag, "\n\n", out, error);
        break;
    case EW_PART_THINKING:
    case EW_PART_ANSWER:
        text = ew_reply_strip(text.data ? text : (ew_string){"", 0});
        status = encode_text(tokenizer, text.data, text.length, out, error);
        break;
    case EW_PART_END:
        status = ew_tokens_append(out, &chat->turn_end, 1, error);
        break;
    default:
        return ew_fail(error, EW_ERROR_ARGUMENT, "part %d of a reply cannot be made without a conversation", (int)part);
    }
    if (status != EW_OK) {
        out->count = before;
    }
    return status;
}

ew_status ew_reply_encode_closing(const ew_chat_template *chat, const ew_tokenizer *tokenizer, ew_string text,
                                  ew_tokens *out, ew_error *error) {
    size_t before = out->count, tag = strlen(close_tag);
    const char *found = text.length > 0 ? memmem(text.data, text.length, close_tag, tag) : NULL;
    if (!found) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "a text that closes a thinking must have a </think>");
    }
    const char *after = found + tag;
    ew_status status;
    if (chat->think_end == EW_NO_TOKEN) {
        status = encode_text(tokenizer, text.data, text.length, out, error);
    } else {
        status = encode_text(tokenizer, text.data, (size_t)(found - text.data), out, error);
        status = status == EW_OK ? ew_tokens_append(out, &chat->think_end, 1, error) : status;
        status = status == EW_OK ? encode_text(tokenizer, after, text.length - (size_t)(after - text.data), out, error)
                                 : status;
    }
    if (status != EW_OK) {
        out->count = before;
    }
    return status;
}

/* ---- A conversation and its reply ---- */

ew_status ew_prompt_encode(const ew_chat_template *chat, const ew_tokenizer *tokenizer, const ew_message *messages,
                           size_t n_messages, bool thinks, ew_tokens *out, size_t *header, ew_error *error) {
    size_t bytes = 0;
    ew_message *earlier = ew_allocate(n_messages, sizeof *earlier);
    if (!earlier) {
        return ew_fail_memory(error, ew_multiply_size(n_messages, sizeof *earlier, &bytes) ? bytes : SIZE_MAX,
                              "the messages");
    }
    ew_messages_without_thinking(messages, n_messages, earlier);
    ew_chat_prompt prompt = {0};
    unsigned flags = EW_CHAT_GENERATE | (thinks ? 0 : EW_CHAT_NO_THINKING);
    ew_status status = ew_chat_render(chat, tokenizer, earlier, n_messages, flags, &prompt, error);
    if (status == EW_OK) {
        status = ew_chat_encode(&prompt, tokenizer, out, header, error);
    }
    ew_chat_prompt_free(&prompt);
    free(earlier);
    return status;
}

/* Which parts a reply has, in this order. */
static bool has_part(const ew_reply_content *content, ew_reply_part part) {
    bool thinks = content->thinking.length > 0 || content->open;
    switch (part) {
    case EW_PART_BUDGET:
        return thinks && content->budget > 0;
    case EW_PART_THINK_OPEN:
    case EW_PART_THINKING:
        return thinks;
    case EW_PART_THINK_CLOSE:
        return thinks && !content->open;
    default:
        return !content->open;
    }
}

static bool is_target(const ew_reply_content *content, ew_reply_part part) {
    return part >= EW_PART_THINKING && has_part(content, part) &&
           !(part == EW_PART_THINK_CLOSE && content->close_forced);
}

static ew_status encode_parts(const ew_chat_template *chat, const ew_tokenizer *tokenizer,
                              const ew_reply_content *content, ew_reply_tokens *out, ew_error *error) {
    char digits[24];
    int n_digits = snprintf(digits, sizeof digits, "%zu", content->budget);
    const ew_string texts[EW_REPLY_PARTS] = {[EW_PART_BUDGET] = {digits, (size_t)n_digits},
                                             [EW_PART_THINKING] = content->thinking,
                                             [EW_PART_ANSWER] = content->answer};
    for (ew_reply_part part = EW_PART_BUDGET; part < EW_REPLY_PARTS; part++) {
        out->begin[part] = out->tokens.count;
        out->target[part] = is_target(content, part);
        if (has_part(content, part)) {
            ew_status status = ew_reply_encode_part(chat, tokenizer, part, texts[part], &out->tokens, error);
            if (status != EW_OK) {
                return status;
            }
        }
    }
    out->begin[EW_REPLY_PARTS] = out->tokens.count;
    return EW_OK;
}

ew_status ew_reply_encode(const ew_chat_template *chat, const ew_tokenizer *tokenizer, const ew_message *messages,
                          size_t n_messages, const ew_reply_content *given, ew_reply_tokens *out, ew_error *error) {
    ew_reply_content content = *given;
    content.thinking = ew_reply_strip(given->thinking.data ? given->thinking : (ew_string){"", 0});
    bool thinks = content.thinking.length > 0 || content.open;
    out->tokens.count = 0;
    out->target[EW_PART_HEADER] = false;
    ew_status status = ew_prompt_encode(chat, tokenizer, messages, n_messages, thinks, &out->tokens,
                                        &out->begin[EW_PART_HEADER], error);
    return status == EW_OK ? encode_parts(chat, tokenizer, &content, out, error) : status;
}

void ew_reply_tokens_free(ew_reply_tokens *reply) {
    ew_tokens_free(&reply->tokens);
    *reply = (ew_reply_tokens){0};
}

/* ---- The verification prompt ---- */

ew_status ew_verification_encode(const ew_chat_template *chat, const ew_tokenizer *tokenizer, ew_string text,
                                 ew_tokens *out, ew_error *error) {
    const ew_message messages[] = {{"user", "", 0}, {"assistant", "", 0}, {"user", text.data, text.length}};
    ew_chat_prompt prompt = {0};
    ew_status status =
        ew_chat_render(chat, tokenizer, messages, sizeof messages / sizeof *messages, EW_CHAT_GENERATE, &prompt, error);
    /* From the end: the header of the reply to come, the user's turn with its end, then the end of the reply before. */
    size_t first = status == EW_OK ? prompt.n_segments : 0;
    for (size_t ends = 0; first > 0 && ends < 2; first--) {
        ends += prompt.segments[first - 1].token == chat->turn_end;
    }
    if (status == EW_OK) {
        first++; /* behind that end of turn, which the candidate itself has */
        const ew_chat_prompt rest = {
            .text = prompt.text, .segments = prompt.segments + first, .n_segments = prompt.n_segments - first};
        status = ew_chat_encode(&rest, tokenizer, out, NULL, error);
    }
    ew_chat_prompt_free(&prompt);
    return status;
}
