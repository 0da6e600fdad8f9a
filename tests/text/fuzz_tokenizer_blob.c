/* Hostile prebuilt tables; the seeds in
 * tests/data/fuzz are whole tokenizers. */
#include "fuzz_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *aligned = malloc(size + 8);
    ew_tokenizer *tokenizer = NULL;
    ew_error error = {0};
    if (!aligned) {
        return 0;
    }
    memcpy(aligned, data, size);
    if (ew_tokenizer_open_blob(aligned, size, "fuzz", &tokenizer, &error) == EW_OK) {
        encode_anything(tokenizer);
    } else if (error.message[0] == '\0') {
        abort(); /* a failure without a sentence */
    }
    ew_tokenizer_close(tokenizer);
    free(aligned);
    return 0;
}
