/* What config_json.c and config_gguf.c share: a neutral beginning, the checks at the end. */
#ifndef EW_FORMAT_CONFIG_INTERNAL_H
#define EW_FORMAT_CONFIG_INTERNAL_H

#include "format/config.h"

/* Everything zero or neutral; bos_id -1. */
void ew_config_begin(ew_config *config);

/* By its name in files; EW_ERROR_UNSUPPORTED for another one. */
ew_status ew_config_set_architecture(ew_config *config, ew_string name, const char *where, ew_error *error);

/* Adds an end token once, keeping them ascending. More than EW_CONFIG_MAX_EOS, or an id that no vocabulary
 * has, is EW_ERROR_FORMAT. */
ew_status ew_config_add_eos(ew_config *config, uint64_t id, const char *where, ew_error *error);

/* Begin and end tokens out of tokenizer_config.json and tokenizer.json. Whether BOS is added: "add_bos_token"
 * of the first if it is there, else the post-processor of the second. */
ew_status ew_config_read_token_files(const ew_config_texts *texts, const char *where, ew_config *config,
                                     ew_error *error);

/* The keys edgewise.config.* that ew_config_write_gguf wrote; all of them are required. */
ew_status ew_config_read_own_keys(const ew_gguf *gguf, ew_config *config, ew_error *error);

/* Ranges and relations of everything that was read. */
ew_status ew_config_check(const ew_config *config, const char *where, ew_error *error);

#endif
