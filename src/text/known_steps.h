/* Pre-tokenizers by name: those of GGUF's tokenizer.ggml.pre, and of model types that come as vocab.json +
 * merges.txt. */
#ifndef EW_TEXT_KNOWN_STEPS_H
#define EW_TEXT_KNOWN_STEPS_H

#include "text/tokenizer_parts.h"

extern const char ew_pattern_qwen2[]; /* words, single digits, the rest: of Qwen2 and what came after it */

/* Appends the steps of a GGUF pre-tokenizer name; *llama3 tells whether it is of the family whose tokenizers
 * ignore merges for whole words and add BOS unless the file says otherwise. False, with nothing appended, for
 * an unknown name; *status is that of appending. */
bool ew_known_steps(ew_tokenizer_parts *parts, const char *name, size_t length, bool *llama3,
                    ew_status *status, ew_error *error);

#endif
