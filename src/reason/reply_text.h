/* A reply's thinking and answer, told apart by the tokens that are fed.
 *
 * Where <think> and </think> are tokens of the model only these tokens are tags, and the same characters written with
 * others are text; else the tags are looked for in the bytes of the tokens, however those are cut. What is forced is
 * told and not looked for. Both texts are complete characters (U+FFFD for what cannot become one) and the same whatever
 * the cutting. Thinking, and an answer behind it, have no white space at their ends; a reply that never thought is left
 * as it is. */
#ifndef EW_REASON_REPLY_TEXT_H
#define EW_REASON_REPLY_TEXT_H

#include "text/chat_template.h"

typedef enum ew_text_part {
    EW_TEXT_START, /* nothing but white space so far: a <think> may come */
    EW_TEXT_THINKING,
    EW_TEXT_ANSWER
} ew_text_part;

typedef struct ew_reply_text {
    const ew_tokenizer *tokenizer;
    int32_t open_token, close_token; /* EW_NO_TOKEN: the tags are text */
    ew_text_part part;
    bool guarded; /* no tag may come in the answer: ew_reply_text_refuses */
    bool strips;  /* the answer loses its white space */
    char held[8]; /* the beginning of a tag, perhaps */
    size_t n_held;
    size_t n_held_tokens; /* the last tokens that lie in it entirely, */
    size_t n_held_whole;  /* and their bytes */
    ew_detokenizer characters;
    ew_buffer thinking, answer;
} ew_reply_text;

/* {0} is what it is made from. `part` is where the reply begins; an answer is guarded when it begins behind a thinking,
 * an empty one too. */
void ew_reply_text_begin(ew_reply_text *text, const ew_tokenizer *tokenizer, const ew_chat_template *chat,
                         ew_text_part part, bool guarded);
void ew_reply_text_free(ew_reply_text *text); /* safe on {0} */

/* A token that was drawn. */
ew_status ew_reply_text_feed(ew_reply_text *text, int32_t token, ew_error *error);

/* Drawing this token would complete a tag in an answer behind a thinking: another one must be drawn. */
bool ew_reply_text_refuses(const ew_reply_text *text, int32_t token);

/* Forgets the beginning of a tag at the end of the thinking: how many whole tokens that were. */
size_t ew_reply_text_forget_held(ew_reply_text *text);

/* The thinking is closed by force; the answer begins with `after` (without the white space before it). */
ew_status ew_reply_text_close(ew_reply_text *text, const char *after, ew_error *error);

/* The end: what was held is text. */
ew_status ew_reply_text_finish(ew_reply_text *text, ew_error *error);

/* How much of each may be shown before it is known what comes: bytes. */
size_t ew_reply_text_thinking_shown(const ew_reply_text *text);
size_t ew_reply_text_answer_shown(const ew_reply_text *text);

#endif
