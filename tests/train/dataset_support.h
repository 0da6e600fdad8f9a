/* A tokenizer and options for datasets in tests. */
#ifndef EW_TEST_DATASET_SUPPORT_H
#define EW_TEST_DATASET_SUPPORT_H

#include "train/dataset.h"

#include <string.h>

/* Bytes of ASCII as tokens, ids their codes, space and line end too; ChatML's tokens behind them. Qwen3's template, so
 * that everything is known. */
enum { ASCII_START = 130, ASCII_END = 131, ASCII_EOT = 132, ASCII_THINK = 133, ASCII_THOUGHT = 134, ASCII_VOCAB = 135 };

static inline ew_status open_ascii(ew_tokenizer **tokenizer, ew_chat_template *chat, ew_error *error) {
    static const char *const added[] = {"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>"};
    ew_buffer json = {0};
    ew_buffer_append_text(&json, "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
                                 "\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {\"\\u0120\": 32, "
                                 "\"\\u010a\": 10");
    for (int c = 0x21; c < 0x7f; c++) {
        ew_buffer_append_format(&json, ", \"%s%c\": %d", c == '"' || c == '\\' ? "\\" : "", c, c);
    }
    ew_buffer_append_text(&json, "}}, \"added_tokens\": [");
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        ew_buffer_append_format(&json, "%s{\"id\": %zu, \"content\": \"%s\", \"special\": true}", i ? ", " : "",
                                i + ASCII_START, added[i]);
    }
    ew_buffer_append_text(&json, "]}");
    ew_status status = json.failed ? ew_fail_memory(error, json.length, "a tokenizer")
                                   : ew_tokenizer_from_json(json.data, json.length, NULL, 0, "test", tokenizer, error);
    ew_buffer_free(&json);
    if (status == EW_OK) {
        status = ew_chat_template_open(*tokenizer, "chatml", chat, error);
        if (status != EW_OK) {
            ew_tokenizer_close(*tokenizer);
        }
    }
    return status;
}

#endif
