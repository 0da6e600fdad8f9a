/* Streaming ids to text: complete characters only, U+FFFD for what cannot become one. */
#include "base/utf8.h"
#include "text/tokenizer.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

/* Takes complete characters and hopeless bytes off the front of `bytes`; what may still become one character
 * stays pending. */
static void drain(ew_detokenizer *stream, const char *bytes, size_t length, ew_buffer *out) {
    size_t at = 0;
    while (at < length) {
        size_t valid = ew_utf8_valid_prefix(bytes + at, length - at);
        bool cut = false;
        ew_buffer_append(out, bytes + at, valid);
        at += valid;
        if (at == length) {
            break;
        }
        size_t broken = ew_utf8_broken(bytes + at, length - at, &cut);
        if (cut) {
            memcpy(stream->pending, bytes + at, broken);
            stream->length = broken;
            break;
        }
        ew_buffer_append_text(out, replacement);
        at += broken;
    }
}

void ew_detokenizer_bytes(ew_detokenizer *stream, const char *bytes, size_t length, ew_buffer *out) {
    /* At most 3 bytes are pending: complete or break that one character first, byte by byte. */
    while (stream->length > 0 && length > 0) {
        char joined[5];
        size_t n = stream->length;
        memcpy(joined, stream->pending, n);
        joined[n++] = *bytes++;
        length--;
        stream->length = 0;
        drain(stream, joined, n, out);
    }
    drain(stream, bytes, length, out);
}

ew_status ew_detokenizer_feed(ew_detokenizer *stream, const ew_tokenizer *tokenizer, int32_t id,
                              ew_buffer *out, ew_error *error) {
    const char *bytes = NULL;
    size_t length = 0;
    if (!ew_tokenizer_piece(tokenizer, id, &bytes, &length)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "token %d does not exist: ids are 0 to %zu", id,
                       ew_tokenizer_vocab_size(tokenizer) - 1);
    }
    ew_detokenizer_bytes(stream, bytes, length, out);
    return out->failed ? ew_fail_memory(error, length, "a text") : EW_OK;
}

ew_status ew_detokenizer_finish(ew_detokenizer *stream, ew_buffer *out, ew_error *error) {
    if (stream->length > 0) {
        ew_buffer_append_text(out, replacement);
    }
    stream->length = 0;
    return out->failed ? ew_fail_memory(error, sizeof replacement, "a text") : EW_OK;
}
