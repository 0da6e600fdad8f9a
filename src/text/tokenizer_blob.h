/* The tokenizer as one block of bytes: what is in it, and the view over it that everything else reads
 * (docs/text.md).
 *
 * Little-endian, 32-bit offsets from its beginning, sections aligned to 8 bytes, so it can be used where it
 * is mapped. Opening checks the header, the sections' places and the short lists; the long tables are checked
 * entry by entry where they are used. */
#ifndef EW_TEXT_TOKENIZER_BLOB_H
#define EW_TEXT_TOKENIZER_BLOB_H

#include "text/pattern.h"
#include "text/tokenizer.h"

#define EW_BLOB_MAGIC "EWTOKEN1"

enum {
    EW_BLOB_MAX_TOKENS = 1 << 21,   /* ids; ten times the largest vocabulary around */
    EW_BLOB_MAX_STEPS = 64,         /* of a pre-tokenizer */
    EW_BLOB_MAX_PROBES = 1024,      /* of a hash table: what bounds a look-up in a hostile one */
    EW_BLOB_MAX_ADDED_LENGTH = 4096 /* bytes of an added token */
};

enum { /* ew_blob_header.flags */
       EW_BLOB_NFC = 1,
       EW_BLOB_IGNORE_MERGES = 2, /* a piece that is a token is that token, whatever the merges say */
       EW_BLOB_ADD_BOS = 4,
       EW_BLOB_FUSE_UNKNOWN = 8, /* neighbouring bytes without a token become one unknown token */
       EW_BLOB_ALL_FLAGS = 15
};

enum { /* flags of a token */
       EW_TOKEN_PRESENT = 1,
       EW_TOKEN_MODEL =
           2, /* in the model's vocabulary, written in the byte alphabet: merges may produce it */
       EW_TOKEN_ADDED = 4,
       EW_TOKEN_SPECIAL = 8
};

enum { /* flags of an added token */
       EW_ADDED_LSTRIP = 1,
       EW_ADDED_RSTRIP = 2,
       EW_ADDED_SINGLE_WORD = 4,
       EW_ADDED_NORMALIZED = 8 /* sought in the normalized text */
};

typedef enum ew_section {
    EW_SECTION_TOKEN_STARTS, /* uint32_t [n_tokens + 1]: token i is bytes starts[i] .. starts[i + 1] */
    EW_SECTION_TOKEN_BYTES,  /* uint8_t */
    EW_SECTION_TOKEN_FLAGS,  /* uint8_t [n_tokens] */
    EW_SECTION_BYTE_TOKENS,  /* int32_t [256]: the token of a byte alone, EW_NO_TOKEN if the vocabulary lacks
                                it */
    EW_SECTION_VOCABULARY, /* int32_t slots by hash of a token's bytes, EW_NO_TOKEN when free; only if merges
                              are ignored for whole pieces */
    EW_SECTION_MERGES,     /* ew_blob_merge slots by hash of the pair; left EW_NO_TOKEN when free */
    EW_SECTION_ADDED, /* ew_blob_added: those sought in the raw text, then those sought in the normalized one;
                         each part ascending by bytes */
    EW_SECTION_STEPS, /* ew_blob_step, in order */
    EW_SECTION_STRINGS, /* uint8_t: patterns, added tokens' texts, the chat template */
    EW_N_SECTIONS
} ew_section;

typedef struct ew_blob_range {
    uint32_t start; /* bytes from the beginning of the section or blob it refers to */
    uint32_t count; /* elements */
} ew_blob_range;

typedef struct ew_blob_header {
    char magic[8];
    uint32_t size; /* bytes of the whole blob */
    uint32_t flags;
    uint32_t n_tokens;
    int32_t bos, eos, pad, unknown;           /* EW_NO_TOKEN if there is none */
    uint32_t vocabulary_probes, merge_probes; /* the longest look-up in each table */
    uint32_t n_raw_added;                     /* of EW_SECTION_ADDED: where its second part begins */
    ew_blob_range chat_template;              /* in EW_SECTION_STRINGS */
    ew_blob_range sections[EW_N_SECTIONS];
} ew_blob_header;

typedef struct ew_blob_merge {
    int32_t left, right, result;
    uint32_t rank; /* the lowest is merged first */
} ew_blob_merge;

typedef struct ew_blob_added {
    int32_t id;
    uint32_t flags;
    ew_blob_range text; /* in EW_SECTION_STRINGS; normalized if it is sought in normalized text */
} ew_blob_added;

typedef enum ew_split_behavior {
    EW_SPLIT_ISOLATED,
    EW_SPLIT_REMOVED,
    EW_SPLIT_MERGED_WITH_PREVIOUS,
    EW_SPLIT_MERGED_WITH_NEXT,
    EW_SPLIT_CONTIGUOUS,
    EW_N_SPLIT_BEHAVIORS
} ew_split_behavior;

typedef enum ew_step_kind {
    EW_STEP_REGEX,        /* split at what the pattern matches */
    EW_STEP_LITERAL,      /* split at the text itself */
    EW_STEP_PREFIX_SPACE, /* a space before every piece that begins with none */
    EW_N_STEP_KINDS
} ew_step_kind;

typedef struct ew_blob_step {
    uint32_t kind;
    uint32_t behavior;
    uint32_t invert;       /* 1: what lies between the matches is the delimiter */
    ew_blob_range pattern; /* in EW_SECTION_STRINGS */
} ew_blob_step;

struct ew_tokenizer {
    void *owned; /* the blob if it was built here, else NULL */
    const uint8_t *data;
    const ew_blob_header *header;
    const uint32_t *token_starts;
    const uint8_t *token_bytes;
    const uint8_t *token_flags;
    const int32_t *byte_tokens;
    const int32_t *vocabulary;
    const ew_blob_merge *merges;
    const ew_blob_added *added;
    const ew_blob_step *steps;
    const char *strings;
    ew_pattern *patterns[EW_BLOB_MAX_STEPS]; /* of the steps, NULL for EW_STEP_PREFIX_SPACE */
    bool added_first[2][256]; /* bytes that begin an added token of the raw and of the normalized part */
};

static inline uint32_t ew_section_count(const ew_tokenizer *tokenizer, ew_section section) {
    return tokenizer->header->sections[section].count;
}

/* The same, taking ownership of a blob from malloc; freed when opening fails, too. */
ew_status ew_tokenizer_adopt_blob(void *data, size_t size, const char *name, ew_tokenizer **out,
                                  ew_error *error);

/* Hashes of the two tables, and the slot of a hash: capacity need not be a power of two. */
static inline uint32_t ew_hash_pair(int32_t left, int32_t right) {
    uint64_t x = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(x >> 32);
}
static inline uint32_t ew_hash_bytes(const uint8_t *bytes, size_t length) {
    uint64_t x = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) {
        x = (x ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    x = (x ^ x >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32);
}
static inline uint32_t ew_hash_slot(uint32_t hash, uint32_t capacity) {
    return (uint32_t)((uint64_t)hash * capacity >> 32);
}

/* The token whose bytes are these among those that merges may produce; only where EW_SECTION_VOCABULARY is
 * there. */
int32_t ew_blob_find_bytes(const ew_tokenizer *tokenizer, const uint8_t *bytes, size_t length);

/* The merge of two neighbours, NULL if there is none or the entry is out of range. */
const ew_blob_merge *ew_blob_find_merge(const ew_tokenizer *tokenizer, int32_t left, int32_t right);

/* The first (leftmost, then longest) added token at or after `from`; false when there is none. `part` 0:
 * those sought in raw text, 1: in normalized text. */
bool ew_added_find(const ew_tokenizer *tokenizer, unsigned part, const char *text, size_t length, size_t from,
                   size_t *start, size_t *end, const ew_blob_added **found);

#endif
