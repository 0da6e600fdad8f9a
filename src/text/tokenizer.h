/* The tokenizer: byte-level BPE exactly as a tokenizer.json says it (docs/text.md).
 *
 * Text -> added tokens cut out -> normalizer (none or NFC) -> pre-tokenizer (a sequence of splits) -> bytes
 * -> merges. Anything that a file asks for beyond that is refused by name.
 *
 * An ew_tokenizer is a view of one position-independent blob (tokenizer_blob.h): what the openers of a
 * folder, a GGUF or a JSON text build is the very same thing that `ew_tokenizer_serialize` writes into a
 * model file and `ew_tokenizer_open_blob` uses in place. It is constant after opening: any number of threads
 * may use one at once.
 *
 * Ids are 0 .. vocab_size - 1. Text is bytes: it need not be well-formed UTF-8 (runs of broken bytes are
 * encoded byte by byte, apart from their neighbours) and may hold NUL. */
#ifndef EW_TEXT_TOKENIZER_H
#define EW_TEXT_TOKENIZER_H

#include "base/buffer.h"
#include "base/error.h"
#include "format/gguf.h"

enum { EW_NO_TOKEN = -1 };

typedef struct ew_tokenizer ew_tokenizer;

/* A growing list of ids. {0} is empty; free with ew_tokens_free. */
typedef struct ew_tokens {
    int32_t *ids;
    size_t count;
    size_t capacity;
} ew_tokens;

ew_status ew_tokens_append(ew_tokens *tokens, const int32_t *ids, size_t count, ew_error *error);
void ew_tokens_free(ew_tokens *tokens);

/* ---- opening; *out is closed with ew_tokenizer_close ---- */

/* A Hugging Face folder: tokenizer.json, or vocab.json + merges.txt (then the pre-tokenizer is that of
 * config.json's model_type: qwen2 or qwen3), with tokenizer_config.json (special tokens, chat template),
 * chat_template.jinja and added tokens if there. */
ew_status ew_tokenizer_open_folder(const char *folder, ew_tokenizer **out, ew_error *error);

/* A GGUF file: the blob in the tensor `edgewise.tokenizer` if there (used in place: `gguf` must outlive it),
 * else built from the tokenizer.ggml.* metadata (nothing of `gguf` is kept then). tokenizer.ggml.model must
 * be gpt2; tokenizer.ggml.pre is mapped to its patterns. GGUF metadata has no normalizer, so none is applied.
 */
ew_status ew_tokenizer_open_gguf(const ew_gguf *gguf, ew_tokenizer **out, ew_error *error);

/* From JSON texts in memory; `config` is that of tokenizer_config.json and may be NULL. `name` is used in
 * messages. */
ew_status ew_tokenizer_from_json(const char *text, size_t length, const char *config, size_t config_length,
                                 const char *name, ew_tokenizer **out, ew_error *error);

/* A blob in memory, used in place: it must outlive the tokenizer. `data` is aligned to 8 bytes at least.
 * Structure is checked here, entries where they are used, so that no blob, however hostile, leads out of
 * bounds or into a loop. */
ew_status ew_tokenizer_open_blob(const void *data, size_t size, const char *name, ew_tokenizer **out,
                                 ew_error *error);

void ew_tokenizer_close(ew_tokenizer *tokenizer); /* NULL is fine */

/* The blob itself: `ew_tokenizer_blob` shows it (owned by the tokenizer), serialize appends it to a buffer.
 * The same tokenizer gives the same bytes, on every machine. */
const void *ew_tokenizer_blob(const ew_tokenizer *tokenizer, size_t *size);
ew_status ew_tokenizer_serialize(const ew_tokenizer *tokenizer, ew_buffer *out, ew_error *error);

/* ---- text to ids ---- */

enum {
    EW_ENCODE_TEXT = 0, /* text of added tokens ("<|im_end|>") is ordinary text: for what strangers write */
    EW_ENCODE_SPECIALS = 1, /* text of added tokens, special or not, becomes these tokens */
    EW_ENCODE_BOS = 2       /* begin with BOS if this model wants one (ew_tokenizer_add_bos) */
};

/* Appends the ids of `length` bytes to *out. Errors: EW_ERROR_ARGUMENT for texts of 2 GiB or more,
 * EW_ERROR_UNSUPPORTED when a pattern exceeds its match limit on this text, EW_ERROR_FORMAT when a hostile
 * blob's entry is out of range; *out then holds what it held before. */
ew_status ew_tokenizer_encode(const ew_tokenizer *tokenizer, const char *text, size_t length, unsigned flags,
                              ew_tokens *out, ew_error *error);

/* ---- ids to text ---- */

/* The bytes of one token (an added token's are its text), not NUL-terminated, owned by the tokenizer. They
 * may be part of a character. false for an id that does not exist; an id without a token has 0 bytes. */
bool ew_tokenizer_piece(const ew_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *length);

/* Appends the bytes of all the tokens, exactly; special ones are left out if `skip_special`. */
ew_status ew_tokenizer_decode(const ew_tokenizer *tokenizer, const int32_t *ids, size_t count,
                              bool skip_special, ew_buffer *out, ew_error *error);

/* Streaming: what is appended to `out` is always well-formed UTF-8 made of complete characters; bytes that
 * cannot become a character any more are shown as U+FFFD. Start from {0}. */
typedef struct ew_detokenizer {
    unsigned char pending[4]; /* the beginning of a character that is not complete yet */
    size_t length;
} ew_detokenizer;

ew_status ew_detokenizer_feed(ew_detokenizer *stream, const ew_tokenizer *tokenizer, int32_t id,
                              ew_buffer *out, ew_error *error);
/* The same for bytes that are not a whole token's; out->failed tells when memory ran out. */
void ew_detokenizer_bytes(ew_detokenizer *stream, const char *bytes, size_t length, ew_buffer *out);
/* The end of the stream: a cut character becomes one U+FFFD. The stream may be used again afterwards. */
ew_status ew_detokenizer_finish(ew_detokenizer *stream, ew_buffer *out, ew_error *error);

/* ---- facts ---- */

size_t
ew_tokenizer_vocab_size(const ew_tokenizer *tokenizer); /* largest id + 1; a model may have more rows */
bool ew_tokenizer_is_special(const ew_tokenizer *tokenizer, int32_t id);
bool ew_tokenizer_is_added(const ew_tokenizer *tokenizer, int32_t id);
/* The id of the added token with exactly this text, else EW_NO_TOKEN. */
int32_t ew_tokenizer_find(const ew_tokenizer *tokenizer, const char *text);
int32_t ew_tokenizer_bos(const ew_tokenizer *tokenizer); /* EW_NO_TOKEN if the file names none */
int32_t ew_tokenizer_eos(const ew_tokenizer *tokenizer);
int32_t ew_tokenizer_pad(const ew_tokenizer *tokenizer);
bool ew_tokenizer_add_bos(const ew_tokenizer *tokenizer); /* plain text begins with BOS */
/* The model's chat template (Jinja text), not NUL-terminated; {NULL, 0} when the file has none. */
ew_string ew_tokenizer_chat_template(const ew_tokenizer *tokenizer);

#endif
