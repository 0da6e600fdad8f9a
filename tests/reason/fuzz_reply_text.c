/* Thinking and answer of any sequence of tokens. The first byte says where the reply begins; each other one is a token:
 * itself, or one of a few pieces of tags. However the tokens are cut, both texts are the same; both are UTF-8; what was
 * shown stays; and where tags are refused none comes into the answer. */
#include "base/utf8.h"
#include "reason/reply_text.h"
#include "text/characters.h"
#include "text/known_steps.h"
#include "text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const pieces[] = {"<think", "</", "think", "think>", ">\n", "</think>\n", "\n<think>\n", "k>The"};
enum { N_PIECES = sizeof pieces / sizeof *pieces, FIRST_PIECE = 256 };

static ew_tokenizer *make_tokenizer(void) {
    ew_tokenizer_parts parts;
    ew_tokenizer *tokenizer = NULL;
    ew_status status = EW_OK;
    bool llama3 = false;
    ew_parts_begin(&parts, "fuzz");
    for (int id = 0; id < FIRST_PIECE + N_PIECES; id++) {
        char letters[128];
        const char byte = (char)id, *bytes = id < FIRST_PIECE ? &byte : pieces[id - FIRST_PIECE];
        size_t n = 0, length = id < FIRST_PIECE ? 1 : strlen(bytes);
        for (size_t i = 0; i < length; i++) {
            n += ew_utf8_encode(ew_byte_letter((uint8_t)bytes[i]), letters + n);
        }
        status |= ew_parts_token(&parts, id, letters, n, NULL);
    }
    status |= ew_parts_index(&parts, NULL);
    if (status != EW_OK || !ew_known_steps(&parts, "qwen2", 5, &llama3, &status, NULL) || status != EW_OK ||
        ew_parts_finish(&parts, &tokenizer, NULL) != EW_OK) {
        abort();
    }
    ew_parts_free(&parts);
    return tokenizer;
}

static int32_t token_of(uint8_t byte) {
    return byte >= 0xe0 && byte < 0xe0 + N_PIECES ? FIRST_PIECE + byte - 0xe0 : byte;
}

static void check_shown(const ew_reply_text *text, size_t *thinking, size_t *answer) {
    size_t now = ew_reply_text_thinking_shown(text), then = ew_reply_text_answer_shown(text);
    if (now < *thinking || now > text->thinking.length || then < *answer || then > text->answer.length) {
        abort(); /* what was shown cannot be taken back */
    }
    *thinking = now;
    *answer = then;
}

static void feed(ew_reply_text *text, int32_t token, bool refuses, size_t *thinking, size_t *answer) {
    if (refuses && ew_reply_text_refuses(text, token)) {
        return;
    }
    if (ew_reply_text_feed(text, token, NULL) != EW_OK) {
        abort();
    }
    check_shown(text, thinking, answer);
}

static ew_reply_text read_reply(const ew_tokenizer *tokenizer, uint8_t mode, const uint8_t *data, size_t size, bool cut,
                                bool refuses) {
    const ew_chat_template chat = {.think_start = mode & 4 ? 'O' : EW_NO_TOKEN,
                                   .think_end = mode & 4 ? 'C' : EW_NO_TOKEN};
    ew_reply_text text = {0};
    size_t thinking = 0, answer = 0;
    ew_text_part part = (ew_text_part)(mode % 3);
    ew_reply_text_begin(&text, tokenizer, &chat, part, part == EW_TEXT_ANSWER && mode & 8);
    for (size_t i = 0; i < size; i++) {
        int32_t token = token_of(data[i]);
        if (cut && token >= FIRST_PIECE) {
            for (const char *byte = pieces[token - FIRST_PIECE]; *byte; byte++) {
                feed(&text, (uint8_t)*byte, refuses, &thinking, &answer);
            }
        } else {
            feed(&text, token, refuses, &thinking, &answer);
        }
    }
    if (ew_reply_text_finish(&text, NULL) != EW_OK) {
        abort();
    }
    return text;
}

static bool same(const ew_buffer *a, const ew_buffer *b) {
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ew_tokenizer *tokenizer;
    if (!tokenizer) {
        tokenizer = make_tokenizer();
    }
    if (size == 0) {
        return 0;
    }
    ew_reply_text whole = read_reply(tokenizer, data[0], data + 1, size - 1, false, false);
    ew_reply_text cut = read_reply(tokenizer, data[0], data + 1, size - 1, true, false);
    ew_reply_text strict = read_reply(tokenizer, data[0], data + 1, size - 1, false, true);
    if (!same(&whole.thinking, &cut.thinking) || !same(&whole.answer, &cut.answer) ||
        ew_utf8_valid_prefix(whole.thinking.data, whole.thinking.length) != whole.thinking.length ||
        ew_utf8_valid_prefix(whole.answer.data, whole.answer.length) != whole.answer.length) {
        abort();
    }
    bool tags_are_text = !(data[0] & 4);
    if (tags_are_text && strict.guarded &&
        (strstr(strict.answer.data, "<think>") || strstr(strict.answer.data, "</think>"))) {
        abort();
    }
    ew_reply_text_free(&whole);
    ew_reply_text_free(&cut);
    ew_reply_text_free(&strict);
    return 0;
}
