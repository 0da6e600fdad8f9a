/* The four JSON texts of a folder, one after another, separated by bytes 0xff (which JSON cannot hold). */
#include "format/config.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ew_string next_text(const uint8_t **data, size_t *size) {
    ew_string text = {NULL, 0};
    if (*size == 0) {
        return text;
    }
    const uint8_t *end = memchr(*data, 0xff, *size);
    text.data = (const char *)*data;
    text.length = end ? (size_t)(end - *data) : *size;
    size_t used = text.length + (end != NULL);
    *data += used;
    *size -= used;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ew_config_texts texts;
    ew_config config;
    ew_error error;
    ew_buffer text = {0};
    texts.config = next_text(&data, &size);
    texts.generation = next_text(&data, &size);
    texts.tokenizer_config = next_text(&data, &size);
    texts.tokenizer = next_text(&data, &size);
    if (texts.config.data && ew_config_from_texts(&texts, "fuzz", &config, &error) == EW_OK) {
        ew_config_describe(&config, &text);
        ew_buffer_free(&text);
    }
    return 0;
}
