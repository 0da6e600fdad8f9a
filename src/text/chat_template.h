/* Chat templates: messages -> the prompt, as runs of text and special tokens (docs/text.md).
 *
 * No Jinja is run. A model's template text is recognised as one of a few families by what it writes, its
 * default system prompt is read out of it, and the family is rendered here. A template that is not recognised
 * is refused with the names among which `--template NAME` chooses.
 *
 * Special-token text inside a message stays text: it lies in a text run, and text runs are encoded with
 * EW_ENCODE_TEXT. Each run is tokenized by itself. */
#ifndef EW_TEXT_CHAT_TEMPLATE_H
#define EW_TEXT_CHAT_TEMPLATE_H

#include "text/tokenizer.h"

typedef enum ew_chat_family {
    EW_CHAT_CHATML, /* <|im_start|>role\ncontent<|im_end|>\n: Qwen2.5, SmolLM2 and many others */
    EW_CHAT_QWEN3,  /* ChatML whose history loses its thinking; an empty think block when thinking is off */
    EW_CHAT_LLAMA3  /* <|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|> */
} ew_chat_family;

/* A template chosen for one tokenizer. A plain value but for `default_system`; free with
 * ew_chat_template_free. */
typedef struct ew_chat_template {
    const char *name; /* "qwen2.5", "qwen3", "smollm2", "chatml", "llama3", "llama3.1"; static */
    ew_chat_family family;
    char *default_system; /* owned; what is said when the first message is no system message; NULL: nothing */
    bool begins_with_bos; /* the prompt begins with the BOS token */
    bool strips;          /* contents lose their white space (Unicode's) at both ends */
    bool dated;           /* Llama 3.1 and later: the system block always stands and begins with two dates */
    int32_t bos;          /* ids of the tokens that the family writes; EW_NO_TOKEN where it has none */
    int32_t turn_start;   /* <|im_start|> or <|start_header_id|> */
    int32_t header_end;   /* <|end_header_id|> */
    int32_t turn_end;     /* <|im_end|> or <|eot_id|> */
    int32_t
        think_start; /* <think>, </think> where they are tokens (Qwen3), else EW_NO_TOKEN: ordinary text */
    int32_t think_end;
} ew_chat_template;

/* `name` NULL: recognised from the tokenizer's chat template. Errors: EW_ERROR_UNSUPPORTED when there is none
 * or it is not recognised (the sentence names the option and the names), EW_ERROR_ARGUMENT for an unknown
 * name, EW_ERROR_FORMAT when the tokenizer lacks a token that the family needs. */
ew_status ew_chat_template_open(const ew_tokenizer *tokenizer, const char *name, ew_chat_template *out,
                                ew_error *error);
void ew_chat_template_free(ew_chat_template *chat); /* safe on {0} */

/* The names, for help texts: NULL after the last. */
const char *ew_chat_template_name(size_t index);

enum {
    EW_CHAT_GENERATE = 1,   /* end with the header of the reply to come */
    EW_CHAT_NO_THINKING = 2 /* Qwen3: after that header an empty think block (enable_thinking = false) */
};

/* One run: a special token, or text to be tokenized by itself as plain text. */
typedef struct ew_chat_segment {
    int32_t token; /* EW_NO_TOKEN: text */
    size_t start;  /* bytes of ew_chat_prompt.text (a token's written form stands there too) */
    size_t length;
} ew_chat_segment;

typedef struct ew_chat_prompt {
    ew_buffer text; /* the whole as one string, what --show-prompt prints */
    ew_chat_segment *segments;
    size_t n_segments;
    size_t capacity;
    size_t reply_header; /* index of the segment that begins the reply header; n_segments without
                            EW_CHAT_GENERATE */
} ew_chat_prompt;

/* Renders into *out (start from {0}; what it held is replaced). Errors: EW_ERROR_ARGUMENT for a role that is
 * not known, by its name, and for no messages. */
ew_status ew_chat_render(const ew_chat_template *chat, const ew_tokenizer *tokenizer,
                         const ew_message *messages, size_t n_messages, unsigned flags, ew_chat_prompt *out,
                         ew_error *error);
void ew_chat_prompt_free(ew_chat_prompt *prompt); /* safe on {0} */

/* Appends the ids of all segments. *header (may be NULL) is the index in `out` of the reply header's first
 * id, or out->count. */
ew_status ew_chat_encode(const ew_chat_prompt *prompt, const ew_tokenizer *tokenizer, ew_tokens *out,
                         size_t *header, ew_error *error);

/* The tokens that end a reply: the family's end of turn, its end of text, the tokenizer's EOS; no id twice.
 * Returns how many (at most EW_CHAT_MAX_END). The session adds those of generation_config. */
enum { EW_CHAT_MAX_END = 4 };
size_t ew_chat_end_tokens(const ew_chat_template *chat, const ew_tokenizer *tokenizer,
                          int32_t ids[EW_CHAT_MAX_END]);

#endif
