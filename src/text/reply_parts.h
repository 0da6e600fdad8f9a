/* What a reply is: the one definition, for the trainer, the sampler and the run time.
 *
 *   with thinking      header, [Budget: N tokens\n], <think>\n, thinking, \n</think>\n\n, answer, end of turn
 *   without thinking   header, answer, end of turn
 *
 * Thinking and answer have no white space (Unicode's) at their ends. Every part is tokenized by itself, so that no
 * merge crosses a border; <think> and </think> are the tokens of that text where the tokenizer has them, and text
 * otherwise. A thinking of nothing is no thinking. What a person or a model wrote never becomes a special token.
 *
 * Forced parts (header, budget, <think>\n, and a closing tag that a budget forced) are fed and are no targets;
 * thinking, a closing tag of the model's own, answer and end of turn are. The adapter is on from the header's first
 * token. Without thinking the header is what the template writes then (Qwen3: with its empty think block), all of it
 * forced.
 *
 * Earlier replies of a conversation stand in the prompt without their thinking. */
#ifndef EW_TEXT_REPLY_PARTS_H
#define EW_TEXT_REPLY_PARTS_H

#include "text/chat_template.h"

typedef enum ew_reply_part {
    EW_PART_HEADER = 0,
    EW_PART_BUDGET,
    EW_PART_THINK_OPEN,
    EW_PART_THINKING,
    EW_PART_THINK_CLOSE,
    EW_PART_ANSWER,
    EW_PART_END,
    EW_REPLY_PARTS
} ew_reply_part;

/* Thinking and answer: views of somebody's text, stripped. */
typedef struct ew_reply_content {
    ew_string thinking; /* length 0: the reply does not think */
    ew_string answer;
    size_t budget;     /* tokens told in the reply's second line; 0: none, and without thinking none is told */
    bool close_forced; /* the closing tag was inserted, not drawn */
    bool open;         /* text ended inside the thinking: what follows it is missing (ew_reply_split sets it) */
} ew_reply_content;

/* A text with the tags in it: <think> may only be preceded by white space; a </think> without a <think> closes a
 * thinking that began with the reply (templates that write the opening tag themselves). The first </think> closes. A
 * thinking that nothing closes is all there is, and `open` is set. Text without tags is an answer. */
void ew_reply_split(ew_string text, ew_reply_content *content);

/* White space (Unicode's) taken off at both ends. */
ew_string ew_reply_strip(ew_string text);

/* What an earlier reply is in a prompt: the stripped answer of one that thought, else the text as it is. */
ew_string ew_reply_without_thinking(ew_string text);

/* The same for a whole conversation: copied[n_messages] are views of `messages`, assistants without their thinking. */
void ew_messages_without_thinking(const ew_message *messages, size_t n_messages, ew_message *copied);

/* One part's tokens, appended to `out`. `text` is the thinking or the answer (stripped here), the budget's number in
 * decimal digits for EW_PART_BUDGET, and is not looked at for the tags and the end. EW_PART_HEADER is refused: the
 * template writes it, behind a conversation (ew_prompt_encode). */
ew_status ew_reply_encode_part(const ew_chat_template *chat, const ew_tokenizer *tokenizer, ew_reply_part part,
                               ew_string text, ew_tokens *out, ew_error *error);

/* A text of one's own that closes a thinking, in the place of EW_PART_THINK_CLOSE: its </think> is the tag, what stands
 * before and behind it is text. EW_ERROR_ARGUMENT without one. */
ew_status ew_reply_encode_closing(const ew_chat_template *chat, const ew_tokenizer *tokenizer, ew_string text,
                                  ew_tokens *out, ew_error *error);

/* The prompt and the reply's header: messages (earlier replies lose their thinking here) and the header of the reply to
 * come. *header is the index in `out` of the header's first token: the prompt proper ends there, the adapter begins. */
ew_status ew_prompt_encode(const ew_chat_template *chat, const ew_tokenizer *tokenizer, const ew_message *messages,
                           size_t n_messages, bool thinks, ew_tokens *out, size_t *header, ew_error *error);

/* A conversation with its reply. */
typedef struct ew_reply_tokens {
    ew_tokens tokens;                 /* prompt, then the reply's parts */
    size_t begin[EW_REPLY_PARTS + 1]; /* part p is tokens begin[p] .. begin[p + 1] - 1; an absent one is empty */
    bool target[EW_REPLY_PARTS];      /* the part's tokens are targets of the loss */
} ew_reply_tokens;

/* Fills *out (start from {0}; what it held is replaced): begin[EW_PART_HEADER] is where the adapter begins. An `open`
 * content ends with its thinking: no closing tag, answer or end. */
ew_status ew_reply_encode(const ew_chat_template *chat, const ew_tokenizer *tokenizer, const ew_message *messages,
                          size_t n_messages, const ew_reply_content *content, ew_reply_tokens *out, ew_error *error);
void ew_reply_tokens_free(ew_reply_tokens *reply); /* safe on {0} */

/* The verification prompt, appended: a user's turn with `text` and the header of the reply to come, as they stand
 * behind a reply's end of turn (which is not among them). */
ew_status ew_verification_encode(const ew_chat_template *chat, const ew_tokenizer *tokenizer, ew_string text,
                                 ew_tokens *out, ew_error *error);

#endif
