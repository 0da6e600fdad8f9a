/* Text in and out of a model: the public face of its tokenizer and chat template. */
#include "model/model.h"

#include <stdlib.h>

void ew_free(void *memory) {
    free(memory);
}

ew_status ew_tokenize(const ew_model *model, const char *text, size_t length, bool specials, int32_t **tokens,
                      size_t *n_tokens, ew_error *error) {
    ew_tokens list = {0};
    unsigned flags = (specials ? EW_ENCODE_SPECIALS : EW_ENCODE_TEXT) | EW_ENCODE_BOS;
    ew_status status = ew_tokenizer_encode(model->tokenizer, text, length, flags, &list, error);
    if (status != EW_OK) {
        ew_tokens_free(&list);
        return status;
    }
    *tokens = list.ids;
    *n_tokens = list.count;
    return EW_OK;
}

ew_status ew_detokenize(const ew_model *model, const int32_t *tokens, size_t n_tokens, char **text, size_t *length,
                        ew_error *error) {
    ew_buffer buffer = {0};
    ew_buffer_append(&buffer, "", 0);
    ew_status status = ew_tokenizer_decode(model->tokenizer, tokens, n_tokens, false, &buffer, error);
    if (status == EW_OK && buffer.failed) {
        status = ew_fail_memory(error, n_tokens, "a text");
    }
    if (status != EW_OK) {
        ew_buffer_free(&buffer);
        return status;
    }
    *text = buffer.data;
    if (length) {
        *length = buffer.length;
    }
    return EW_OK;
}

ew_status ew_model_render(const ew_model *model, const ew_message *messages, size_t n_messages, bool thinking,
                          ew_buffer *text, ew_tokens *tokens, size_t *header, ew_error *error) {
    if (!model->has_template) {
        return ew_fail(error, model->template_error.status, "%s", model->template_error.message);
    }
    ew_chat_prompt prompt = {0};
    unsigned flags = EW_CHAT_GENERATE | (thinking ? 0 : EW_CHAT_NO_THINKING);
    ew_status status =
        ew_chat_render(&model->chat_template, model->tokenizer, messages, n_messages, flags, &prompt, error);
    if (status == EW_OK && tokens) {
        status = ew_chat_encode(&prompt, model->tokenizer, tokens, header, error);
    }
    if (status == EW_OK && text) {
        ew_buffer_append(text, prompt.text.data, prompt.text.length);
        if (text->failed) {
            status = ew_fail_memory(error, prompt.text.length, "a prompt");
        }
    }
    ew_chat_prompt_free(&prompt);
    return status;
}

ew_status ew_render(const ew_model *model, const ew_message *messages, size_t n_messages, bool thinking, char **text,
                    int32_t **tokens, size_t *n_tokens, ew_error *error) {
    ew_buffer buffer = {0};
    ew_tokens list = {0};
    ew_status status = ew_model_render(model, messages, n_messages, thinking, text ? &buffer : NULL,
                                       tokens ? &list : NULL, NULL, error);
    if (status != EW_OK) {
        ew_buffer_free(&buffer);
        ew_tokens_free(&list);
        return status;
    }
    if (text) {
        *text = buffer.data;
    }
    if (tokens) {
        *tokens = list.ids;
        *n_tokens = list.count;
    }
    return EW_OK;
}
