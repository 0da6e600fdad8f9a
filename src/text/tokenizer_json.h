/* Reading tokenizer.json and tokenizer_config.json into ew_tokenizer_parts. Every key is either understood or
 * refused by its name. */
#ifndef EW_TEXT_TOKENIZER_JSON_H
#define EW_TEXT_TOKENIZER_JSON_H

#include "format/json.h"
#include "text/tokenizer_parts.h"

/* Fails with the name of the first key of `object` that is not among `known` (ended by NULL). */
ew_status ew_json_only(const json_t *object, const char *const known[], const char *where, const char *name,
                       ew_error *error);

/* A member that is a string: its bytes, or NULL if it is absent or anything else. */
const char *ew_json_text(const json_t *object, const char *key, size_t *length);

/* tokenizer.json as a whole. */
ew_status ew_json_tokenizer(const json_t *root, ew_tokenizer_parts *parts, ew_error *error);

/* Its pipeline: normalizer, pre_tokenizer, decoder (tokenizer_steps_json.c); post_processor, once tokens are
 * known. */
ew_status ew_json_steps(const json_t *root, ew_tokenizer_parts *parts, ew_error *error);
ew_status ew_json_post_processor(const json_t *root, ew_tokenizer_parts *parts, ew_error *error);

/* tokenizer_config.json: added tokens, before the vocabulary is indexed; special tokens and chat template,
 * after. */
ew_status ew_json_config_added(const json_t *config, ew_tokenizer_parts *parts, ew_error *error);
ew_status ew_json_config_specials(const json_t *config, ew_tokenizer_parts *parts, ew_error *error);

/* One entry of added_tokens or added_tokens_decoder. */
ew_status ew_json_added_token(const json_t *token, int64_t id, ew_tokenizer_parts *parts, ew_error *error);

#endif
