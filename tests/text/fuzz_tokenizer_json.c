/* Hostile tokenizer.json and tokenizer_config.json: the input is the one, a NUL byte, and perhaps the other.
 * What opens must encode, give the same ids from its own tables, and decode to what it was given or less. */
#include "fuzz_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *middle = size ? memchr(data, '\0', size) : NULL;
    size_t length = middle ? (size_t)(middle - data) : size;
    ew_tokenizer *tokenizer = NULL;
    ew_error error = {0};
    ew_status status =
        ew_tokenizer_from_json((const char *)data, length, middle ? (const char *)middle + 1 : NULL,
                               middle ? size - length - 1 : 0, "fuzz", &tokenizer, &error);
    if (status == EW_OK) {
        encode_anything(tokenizer);
    } else if (error.message[0] == '\0') {
        abort(); /* a failure without a sentence */
    }
    ew_tokenizer_close(tokenizer);
    return 0;
}
