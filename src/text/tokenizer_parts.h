/* What the readers of tokenizer files collect, and how it becomes a blob. All lists are checked as they are
 * filled: ids in range, no id and no text twice, merges between known tokens. */
#ifndef EW_TEXT_TOKENIZER_PARTS_H
#define EW_TEXT_TOKENIZER_PARTS_H

#include "text/tokenizer_blob.h"

typedef struct ew_part_token {
    uint32_t start; /* in `token_bytes` */
    uint32_t length;
    uint32_t flags; /* EW_TOKEN_... */
} ew_part_token;

typedef struct ew_part_merge {
    int32_t left, right, result; /* the index in the list is the rank */
} ew_part_merge;

typedef struct ew_tokenizer_parts {
    const char *name; /* of the file, for messages; not owned */
    ew_buffer token_bytes;
    ew_part_token *tokens; /* by id; flags 0: no token */
    size_t n_tokens;
    size_t token_capacity;
    int32_t *index; /* tokens that merges may produce, by hash of their bytes */
    uint32_t index_capacity;
    ew_part_merge *merges;
    size_t n_merges;
    size_t merge_capacity;
    ew_blob_added *added; /* texts in `strings`, not normalized yet */
    size_t n_added;
    size_t added_capacity;
    ew_blob_step steps[EW_BLOB_MAX_STEPS];
    uint32_t n_steps;
    ew_buffer strings;
    ew_blob_range chat_template;
    uint32_t flags; /* EW_BLOB_... */
    int32_t bos, eos, pad, unknown;
} ew_tokenizer_parts;

void ew_parts_begin(ew_tokenizer_parts *parts, const char *name);
void ew_parts_free(ew_tokenizer_parts *parts);

/* A token of the model's vocabulary, as the file writes it: in the byte alphabet. One that is not is kept
 * with its bytes as they are; no merge can produce it. */
ew_status ew_parts_token(ew_tokenizer_parts *parts, int64_t id, const char *text, size_t length,
                         ew_error *error);

/* An added token: its text as it is. The same one twice is fine; of two with one text the smaller id is
 * found. */
ew_status ew_parts_added(ew_tokenizer_parts *parts, int64_t id, const char *text, size_t length, bool special,
                         uint32_t flags, ew_error *error);

/* After the last token: makes them findable. */
ew_status ew_parts_index(ew_tokenizer_parts *parts, ew_error *error);

/* The id of a vocabulary token by its written form, else EW_NO_TOKEN; needs ew_parts_index. */
int32_t ew_parts_find(const ew_tokenizer_parts *parts, const char *text, size_t length);

/* The next merge by rank, as written: two forms in the byte alphabet, or one line "left right". */
ew_status ew_parts_merge(ew_tokenizer_parts *parts, const char *left, size_t left_length, const char *right,
                         size_t right_length, ew_error *error);
ew_status ew_parts_merge_line(ew_tokenizer_parts *parts, const char *line, size_t length, ew_error *error);

/* The next step of the pre-tokenizer. */
ew_status ew_parts_split(ew_tokenizer_parts *parts, ew_step_kind kind, const char *pattern, size_t length,
                         ew_split_behavior behavior, bool invert, ew_error *error);

ew_status ew_parts_chat_template(ew_tokenizer_parts *parts, const char *text, size_t length, ew_error *error);

/* The id of the added or vocabulary token with this text, else EW_NO_TOKEN: for bos_token and the like. */
int32_t ew_parts_find_special(const ew_tokenizer_parts *parts, const char *text, size_t length);

/* Builds the blob and opens it. */
ew_status ew_parts_finish(ew_tokenizer_parts *parts, ew_tokenizer **out, ew_error *error);

#endif
