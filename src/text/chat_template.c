/* Choosing a template for a tokenizer. */
#include "text/chat_template.h"

#include "base/memory.h"
#include "text/chat_recognize.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    ew_chat_family family;
    const char *system; /* NULL: what the file's template holds, or none */
    bool dated;
} families[] = {{"qwen2.5", EW_CHAT_CHATML, ew_chat_qwen2_5_system, false},
                {"qwen3", EW_CHAT_QWEN3, NULL, false},
                {"smollm2", EW_CHAT_CHATML, ew_chat_smollm2_system, false},
                {"chatml", EW_CHAT_CHATML, NULL, false},
                {"llama3", EW_CHAT_LLAMA3, NULL, false},
                {"llama3.1", EW_CHAT_LLAMA3, NULL, true}};
enum { N_FAMILIES = sizeof families / sizeof *families };

static const char known_names[] = "qwen2.5, qwen3, smollm2, chatml, llama3, llama3.1";

const char *ew_chat_template_name(size_t index) {
    return index < N_FAMILIES ? families[index].name : NULL;
}

static ew_status choose_named(const ew_tokenizer *tokenizer, const char *name, ew_chat_template *out,
                              ew_error *error) {
    size_t i = 0;
    while (i < N_FAMILIES && strcmp(families[i].name, name) != 0) {
        i++;
    }
    if (i == N_FAMILIES) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "the chat template \"%.60s\" is not known; known are %s",
                       name, known_names);
    }
    bool llama3 = families[i].family == EW_CHAT_LLAMA3;
    *out = (ew_chat_template){.name = families[i].name,
                              .family = families[i].family,
                              .begins_with_bos = llama3,
                              .strips = llama3,
                              .dated = families[i].dated};
    if (families[i].system) {
        out->default_system = ew_copy_text(families[i].system, strlen(families[i].system));
        return out->default_system ? EW_OK
                                   : ew_fail_memory(error, strlen(families[i].system), "a system prompt");
    }
    ew_string text = ew_tokenizer_chat_template(tokenizer);
    bool searched = families[i].family == EW_CHAT_CHATML && text.length > 0;
    return searched ? ew_chat_find_default_system(text, &out->default_system, error) : EW_OK;
}

static ew_status choose_recognized(const ew_tokenizer *tokenizer, ew_chat_template *out, ew_error *error) {
    ew_string text = ew_tokenizer_chat_template(tokenizer);
    bool recognized = false;
    *out = (ew_chat_template){0};
    if (text.length == 0) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "the model has no chat template; choose one with --template NAME: %s", known_names);
    }
    ew_status status = ew_chat_recognize(text, out, &recognized, error);
    if (status == EW_OK && !recognized) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "the model's chat template is not recognised; choose one with --template NAME: %s",
                       known_names);
    }
    return status;
}

static ew_status need_token(const ew_chat_template *chat, const ew_tokenizer *tokenizer, const char *text,
                            int32_t *id, ew_error *error) {
    *id = ew_tokenizer_find(tokenizer, text);
    return *id != EW_NO_TOKEN ? EW_OK
                              : ew_fail(error, EW_ERROR_FORMAT,
                                        "the chat template %s needs the token %s, which the "
                                        "tokenizer does not have",
                                        chat->name, text);
}

static ew_status find_tokens(const ew_tokenizer *tokenizer, ew_chat_template *chat, ew_error *error) {
    bool llama3 = chat->family == EW_CHAT_LLAMA3;
    int32_t begin_of_text = ew_tokenizer_find(tokenizer, "<|begin_of_text|>");
    chat->bos = llama3 && begin_of_text != EW_NO_TOKEN ? begin_of_text : ew_tokenizer_bos(tokenizer);
    chat->header_end = EW_NO_TOKEN;
    chat->think_start = ew_tokenizer_find(tokenizer, "<think>");
    chat->think_end = ew_tokenizer_find(tokenizer, "</think>");
    ew_status status = need_token(chat, tokenizer, llama3 ? "<|start_header_id|>" : "<|im_start|>",
                                  &chat->turn_start, error);
    if (status == EW_OK) {
        status = need_token(chat, tokenizer, llama3 ? "<|eot_id|>" : "<|im_end|>", &chat->turn_end, error);
    }
    if (status == EW_OK && llama3) {
        status = need_token(chat, tokenizer, "<|end_header_id|>", &chat->header_end, error);
    }
    if (status == EW_OK && chat->begins_with_bos && chat->bos == EW_NO_TOKEN) {
        status =
            ew_fail(error, EW_ERROR_FORMAT,
                    "the chat template %s begins with a BOS token, but the tokenizer names none", chat->name);
    }
    return status;
}

ew_status ew_chat_template_open(const ew_tokenizer *tokenizer, const char *name, ew_chat_template *out,
                                ew_error *error) {
    *out = (ew_chat_template){0};
    ew_status status =
        name ? choose_named(tokenizer, name, out, error) : choose_recognized(tokenizer, out, error);
    if (status == EW_OK) {
        status = find_tokens(tokenizer, out, error);
    }
    if (status != EW_OK) {
        ew_chat_template_free(out);
    }
    return status;
}

void ew_chat_template_free(ew_chat_template *chat) {
    free(chat->default_system);
    *chat = (ew_chat_template){0};
}

size_t ew_chat_end_tokens(const ew_chat_template *chat, const ew_tokenizer *tokenizer,
                          int32_t ids[EW_CHAT_MAX_END]) {
    const char *end_of_text = chat->family == EW_CHAT_LLAMA3 ? "<|end_of_text|>" : "<|endoftext|>";
    int32_t candidates[] = {chat->turn_end, ew_tokenizer_find(tokenizer, end_of_text),
                            ew_tokenizer_eos(tokenizer)};
    size_t count = 0;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        bool known = candidates[i] == EW_NO_TOKEN;
        for (size_t j = 0; j < count; j++) {
            known |= ids[j] == candidates[i];
        }
        if (!known) {
            ids[count++] = candidates[i];
        }
    }
    return count;
}
