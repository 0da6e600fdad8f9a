#include "reason/reply_text.h"
#include "text/characters.h"

#include <string.h>

static const char open_tag[] = "<think>", close_tag[] = "</think>";

void ew_reply_text_begin(ew_reply_text *text, const ew_tokenizer *tokenizer, const ew_chat_template *chat,
                         ew_text_part part, bool guarded) {
    bool both = chat->think_start != EW_NO_TOKEN && chat->think_end != EW_NO_TOKEN;
    text->tokenizer = tokenizer;
    text->open_token = both ? chat->think_start : EW_NO_TOKEN;
    text->close_token = both ? chat->think_end : EW_NO_TOKEN;
    text->part = part;
    text->guarded = guarded;
}

void ew_reply_text_free(ew_reply_text *text) {
    ew_buffer_free(&text->thinking);
    ew_buffer_free(&text->answer);
    *text = (ew_reply_text){0};
}

static ew_buffer *current(ew_reply_text *text) {
    return text->part == EW_TEXT_THINKING ? &text->thinking : &text->answer;
}

/* White space at the front of a part that has just got its first text. */
static void strip_front(ew_buffer *buffer) {
    size_t n = ew_leading_space(buffer->data, buffer->length);
    memmove(buffer->data, buffer->data + n, buffer->length - n + 1);
    buffer->length -= n;
}

static void emit(ew_reply_text *text, const char *bytes, size_t length) {
    ew_buffer *buffer = current(text);
    bool first = buffer->length == 0;
    ew_detokenizer_bytes(&text->characters, bytes, length, buffer);
    if (buffer->failed || buffer->length == 0) {
        return;
    }
    if (text->part == EW_TEXT_START && ew_leading_space(buffer->data, buffer->length) < buffer->length) {
        text->part = EW_TEXT_ANSWER;
    } else if (first && (text->part == EW_TEXT_THINKING || text->strips)) {
        strip_front(buffer);
    }
}

/* A character that is cut at the end of a part can no longer become one. */
static ew_status end_part(ew_reply_text *text, ew_error *error) {
    ew_buffer *buffer = current(text);
    emit(text, text->held, text->n_held);
    text->n_held = 0;
    ew_status status = ew_detokenizer_finish(&text->characters, buffer, error);
    if (status == EW_OK && buffer->length > 0 && (buffer == &text->thinking || text->strips)) {
        buffer->length = ew_trim_end(buffer->data, buffer->length);
        buffer->data[buffer->length] = '\0';
    }
    return status;
}

static void enter_thinking(ew_reply_text *text) {
    ew_buffer_clear(&text->answer); /* the white space before the tag */
    text->characters.length = 0;
    text->part = EW_TEXT_THINKING;
    text->n_held = 0;
}

static ew_status enter_answer(ew_reply_text *text, ew_error *error) {
    ew_status status = end_part(text, error);
    text->part = EW_TEXT_ANSWER;
    text->guarded = text->strips = true;
    return status;
}

/* ---- Tags that are text ---- */

typedef enum tag_match { NO_TAG, TAG_BEGINS, TAG_OPENS, TAG_CLOSES } tag_match;

static bool begins(const char *tag, const char *bytes, size_t n) {
    return n <= strlen(tag) && memcmp(tag, bytes, n) == 0;
}

/* A <think> counts at the beginning of the reply, and again at the beginning of a thinking that was opened by force. */
static tag_match match(const ew_reply_text *text) {
    bool thinking = text->part == EW_TEXT_THINKING;
    bool may_open = text->part == EW_TEXT_START || (thinking && text->thinking.length == 0);
    if (may_open && begins(open_tag, text->held, text->n_held)) {
        return text->n_held == strlen(open_tag) ? TAG_OPENS : TAG_BEGINS;
    }
    if (thinking && begins(close_tag, text->held, text->n_held)) {
        return text->n_held == strlen(close_tag) ? TAG_CLOSES : TAG_BEGINS;
    }
    return NO_TAG;
}

/* One more byte. '<' stands only at the beginning of a tag: what is no tag up to here may begin one with its last byte.
 * */
static ew_status take_byte(ew_reply_text *text, char byte, ew_error *error) {
    text->held[text->n_held++] = byte;
    tag_match found = match(text);
    if (found == NO_TAG) {
        size_t n = byte == '<' ? text->n_held - 1 : text->n_held;
        text->n_held = 0;
        emit(text, text->held, n);
        if (byte == '<' && text->part == EW_TEXT_ANSWER) {
            emit(text, "<", 1);
        } else if (byte == '<') {
            text->held[text->n_held++] = byte;
        }
    } else if (found == TAG_OPENS) {
        enter_thinking(text);
    } else if (found == TAG_CLOSES) {
        text->n_held = 0;
        return enter_answer(text, error);
    }
    return EW_OK;
}

static ew_status take_bytes(ew_reply_text *text, const char *bytes, size_t length, ew_error *error) {
    ew_status status = EW_OK;
    while (status == EW_OK && length > 0) {
        size_t plain = length;
        if (text->part != EW_TEXT_ANSWER) {
            const char *bracket = memchr(bytes, '<', length);
            plain = text->n_held > 0 ? 0 : bracket ? (size_t)(bracket - bytes) : length;
        }
        if (plain > 0) {
            emit(text, bytes, plain);
        } else {
            status = take_byte(text, *bytes, error);
            plain = 1;
        }
        bytes += plain;
        length -= plain;
    }
    return status;
}

/* ---- Tokens ---- */

/* Which of the held bytes belong to tokens that are held whole. */
static void count_held(ew_reply_text *text, size_t n_before, size_t length) {
    bool goes_on = n_before > 0 && text->n_held == n_before + length;
    bool whole = goes_on || (length > 0 && text->n_held == length);
    text->n_held_tokens = whole ? (goes_on ? text->n_held_tokens : 0) + 1 : 0;
    text->n_held_whole = whole ? (goes_on ? text->n_held_whole : 0) + length : 0;
}

static ew_status feed_tag(ew_reply_text *text, int32_t token, ew_error *error) {
    if (token == text->close_token) {
        return text->part == EW_TEXT_THINKING ? enter_answer(text, error) : EW_OK;
    }
    if (text->part == EW_TEXT_START) {
        enter_thinking(text);
    }
    return EW_OK;
}

ew_status ew_reply_text_feed(ew_reply_text *text, int32_t token, ew_error *error) {
    const char *bytes = NULL;
    size_t length = 0, n_before = text->n_held;
    bool tags_are_tokens = text->open_token != EW_NO_TOKEN;
    if (tags_are_tokens && (token == text->open_token || token == text->close_token)) {
        return feed_tag(text, token, error);
    }
    if (!ew_tokenizer_piece(text->tokenizer, token, &bytes, &length)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "token %d does not exist: ids are 0 to %zu", token,
                       ew_tokenizer_vocab_size(text->tokenizer) - 1);
    }
    if (ew_tokenizer_is_special(text->tokenizer, token)) {
        return EW_OK; /* a control token is no text */
    }
    ew_status status = EW_OK;
    if (tags_are_tokens) {
        emit(text, bytes, length);
    } else {
        status = take_bytes(text, bytes, length, error);
        count_held(text, n_before, length);
    }
    if (status == EW_OK && (text->thinking.failed || text->answer.failed)) {
        status = ew_fail_memory(error, text->thinking.length + text->answer.length, "the reply's text");
    }
    return status;
}

/* The tag's first k bytes end the answer and the others begin the token, or it lies in the token whole. */
static bool completes(const ew_buffer *answer, const char *bytes, size_t length, const char *tag) {
    size_t n = strlen(tag);
    for (size_t k = 1; k < n; k++) {
        if (k <= answer->length && n - k <= length && memcmp(answer->data + answer->length - k, tag, k) == 0 &&
            memcmp(bytes, tag + k, n - k) == 0) {
            return true;
        }
    }
    return length >= n && memmem(bytes, length, tag, n) != NULL;
}

bool ew_reply_text_refuses(const ew_reply_text *text, int32_t token) {
    const char *bytes = NULL;
    size_t length = 0;
    if (text->part != EW_TEXT_ANSWER || !text->guarded) {
        return false;
    }
    if (text->open_token != EW_NO_TOKEN) {
        return token == text->open_token || token == text->close_token;
    }
    return ew_tokenizer_piece(text->tokenizer, token, &bytes, &length) &&
           (completes(&text->answer, bytes, length, open_tag) || completes(&text->answer, bytes, length, close_tag));
}

size_t ew_reply_text_forget_held(ew_reply_text *text) {
    size_t n_tokens = text->n_held > 0 ? text->n_held_tokens : 0;
    text->n_held -= n_tokens > 0 ? text->n_held_whole : 0;
    text->n_held_tokens = 0;
    return n_tokens;
}

ew_status ew_reply_text_close(ew_reply_text *text, const char *after, ew_error *error) {
    ew_status status = enter_answer(text, error);
    if (status == EW_OK) {
        emit(text, after, strlen(after));
        if (text->answer.failed) {
            status = ew_fail_memory(error, strlen(after), "the reply's text");
        }
    }
    return status;
}

ew_status ew_reply_text_finish(ew_reply_text *text, ew_error *error) {
    ew_status status = end_part(text, error);
    ew_buffer_append(&text->thinking, "", 0);
    ew_buffer_append(&text->answer, "", 0);
    if (status == EW_OK && (text->thinking.failed || text->answer.failed)) {
        status = ew_fail_memory(error, 1, "the reply's text");
    }
    return status;
}

size_t ew_reply_text_thinking_shown(const ew_reply_text *text) {
    return text->thinking.length > 0 ? ew_trim_end(text->thinking.data, text->thinking.length) : 0;
}

size_t ew_reply_text_answer_shown(const ew_reply_text *text) {
    if (text->part != EW_TEXT_ANSWER || text->answer.length == 0) {
        return 0;
    }
    return text->strips ? ew_trim_end(text->answer.data, text->answer.length) : text->answer.length;
}
