/* What the fuzz targets do with a tokenizer that opened: it may be nonsense, but it must hold. */
#ifndef EW_FUZZ_ENCODE_H
#define EW_FUZZ_ENCODE_H

#include "text/chat_template.h"

#include <stdlib.h>
#include <string.h>

static inline void encode_anything(const ew_tokenizer *tokenizer) {
    static const char text[] =
        "Hello, w\xc3\xb6rld! 1234  don't\n\n<|im_start|>user\xff\xfe e\xcc\x81\xcc\xa3 \xe4\xb8\xad"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa                  x";
    ew_tokens tokens = {0};
    ew_buffer bytes = {0};
    ew_chat_template chat = {0};
    for (unsigned flags = 0; flags < 4; flags++) {
        tokens.count = 0;
        bytes.length = 0;
        if (ew_tokenizer_encode(tokenizer, text, sizeof text - 1, flags, &tokens, NULL) != EW_OK) {
            continue;
        }
        for (size_t i = 0; i < tokens.count; i++) {
            if (tokens.ids[i] < 0 || (size_t)tokens.ids[i] >= ew_tokenizer_vocab_size(tokenizer)) {
                abort(); /* an id that does not exist */
            }
        }
        ew_detokenizer stream = {0};
        for (size_t i = 0; i < tokens.count; i++) {
            ew_detokenizer_feed(&stream, tokenizer, tokens.ids[i], &bytes, NULL);
        }
        ew_detokenizer_finish(&stream, &bytes, NULL);
    }
    if (ew_chat_template_open(tokenizer, NULL, &chat, NULL) == EW_OK) {
        ew_chat_prompt prompt = {0};
        const ew_message message = {"user", text, sizeof text - 1};
        ew_chat_render(&chat, tokenizer, &message, 1, EW_CHAT_GENERATE, &prompt, NULL);
        ew_chat_prompt_free(&prompt);
    }
    ew_chat_template_free(&chat);
    ew_tokens_free(&tokens);
    ew_buffer_free(&bytes);
}

#endif
