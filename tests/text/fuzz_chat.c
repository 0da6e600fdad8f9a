/* Hostile chats. The first byte says what the rest is: a chat template to be recognised, or messages,
 * separated by bytes 0xff, for one of the families. Whatever stands in a message, no special token may come
 * of it, and the tokens' bytes must be the prompt's. */
#include "fuzz_encode.h"

#include "base/utf8.h"
#include "text/characters.h"
#include "text/chat_recognize.h"
#include "text/known_steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every byte, two merges, the special tokens of all families. */
static ew_tokenizer *make_tokenizer(void) {
    static const char *const specials[] = {
        "<|im_start|>",      "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|start_header_id|>",
        "<|end_header_id|>", "<|eot_id|>", "<think>",       "</think>"};
    ew_tokenizer_parts parts;
    ew_tokenizer *tokenizer = NULL;
    ew_status status = EW_OK;
    bool llama3 = false;
    ew_parts_begin(&parts, "fuzz");
    for (int byte = 0; byte < 256; byte++) {
        char letter[4];
        size_t n = ew_utf8_encode(ew_byte_letter((uint8_t)byte), letter);
        status |= ew_parts_token(&parts, byte, letter, n, NULL);
    }
    status |= ew_parts_token(&parts, 256, "im", 2, NULL);
    status |= ew_parts_token(&parts, 257, "<|", 2, NULL);
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        status |= ew_parts_added(&parts, 260 + (int64_t)i, specials[i], strlen(specials[i]), true, 0, NULL);
    }
    status |= ew_parts_index(&parts, NULL);
    status |= ew_parts_merge_line(&parts, "i m", 3, NULL);
    status |= ew_parts_merge_line(&parts, "< |", 3, NULL);
    if (status != EW_OK || !ew_known_steps(&parts, "qwen2", 5, &llama3, &status, NULL) || status != EW_OK ||
        ew_parts_finish(&parts, &tokenizer, NULL) != EW_OK) {
        abort();
    }
    ew_parts_free(&parts);
    return tokenizer;
}

static void check_prompt(const ew_chat_prompt *prompt, const ew_tokenizer *tokenizer) {
    ew_tokens tokens = {0};
    ew_buffer bytes = {0};
    size_t header = 0, written = 0, special = 0;
    if (ew_chat_encode(prompt, tokenizer, &tokens, &header, NULL) != EW_OK ||
        ew_tokenizer_decode(tokenizer, tokens.ids, tokens.count, false, &bytes, NULL) != EW_OK) {
        abort();
    }
    if (bytes.length != prompt->text.length || memcmp(bytes.data, prompt->text.data, bytes.length) != 0) {
        abort(); /* bytes were lost or invented */
    }
    for (size_t i = 0; i < prompt->n_segments; i++) {
        written += prompt->segments[i].token != EW_NO_TOKEN;
    }
    for (size_t i = 0; i < tokens.count; i++) {
        special += ew_tokenizer_is_special(tokenizer, tokens.ids[i]);
    }
    if (special != written || header > tokens.count) {
        abort(); /* a message made a special token */
    }
    ew_tokens_free(&tokens);
    ew_buffer_free(&bytes);
}

static void render(const ew_tokenizer *tokenizer, unsigned choice, const char *text, size_t size) {
    static const char *const roles[] = {"user", "assistant", "system"};
    ew_message messages[8];
    ew_chat_template chat = {0};
    ew_chat_prompt prompt = {0};
    size_t n = 0;
    while (n < 8) {
        const char *end = size ? memchr(text, 0xff, size) : NULL;
        size_t length = end ? (size_t)(end - text) : size;
        messages[n] = (ew_message){roles[(n + choice / 64) % 3], text, length};
        n++;
        if (!end) {
            break;
        }
        text = end + 1;
        size -= length + 1;
    }
    if (ew_chat_template_open(tokenizer, ew_chat_template_name(choice / 2 % 6), &chat, NULL) == EW_OK) {
        if (ew_chat_render(&chat, tokenizer, messages, n, choice / 16 % 4, &prompt, NULL) != EW_OK) {
            abort();
        }
        check_prompt(&prompt, tokenizer);
    }
    ew_chat_prompt_free(&prompt);
    ew_chat_template_free(&chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ew_tokenizer *tokenizer; /* reachable to the end: no leak */
    if (!tokenizer) {
        tokenizer = make_tokenizer();
    }
    if (size == 0) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        render(tokenizer, data[0], (const char *)data + 1, size - 1);
        return 0;
    }
    ew_chat_template chat = {0};
    bool recognized = false;
    ew_chat_recognize((ew_string){(const char *)data + 1, size - 1}, &chat, &recognized, NULL);
    ew_chat_template_free(&chat);
    return 0;
}
