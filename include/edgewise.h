/* Edgewise: on-device LLM reasoning. One library: models, sessions, streams, replies, grading. */
#ifndef EDGEWISE_H
#define EDGEWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define EW_API __attribute__((visibility("default")))
#else
#define EW_API
#endif

/* Errors. A function that can fail returns an ew_status; EW_OK is 0. If it is given an ew_error (it may be
 * NULL) it also fills it with one sentence: what was wrong, where, and what would be right. */
typedef enum ew_status {
    EW_OK = 0,
    EW_ERROR_ARGUMENT,    /* the caller asked for something that makes no sense */
    EW_ERROR_MEMORY,      /* an allocation failed */
    EW_ERROR_IO,          /* the operating system refused a read or a write */
    EW_ERROR_FORMAT,      /* a file or a line is malformed */
    EW_ERROR_UNSUPPORTED, /* well-formed, but something that Edgewise does not do; the message names it */
    EW_ERROR_CONTEXT,     /* the context (or the KV memory) is full */
    EW_ERROR_NUMERIC,     /* NaN or infinity where a number is needed */
    EW_ERROR_CANCELLED    /* ew_session_cancel was called */
} ew_status;

typedef struct ew_error {
    ew_status status;
    char message[512]; /* UTF-8, NUL-terminated, no newline */
} ew_error;

/* ------------------------------------------------------------------------------------------------------------------
 * Structs that callers fill begin with `size`: set it to sizeof the struct (the EW_..._INIT macros do, and give
 * the defaults). A library newer than the program reads only what the program knows; fields that it does not know
 * are refused by an older library unless they are zero.
 *
 * Text is UTF-8. Tokens are int32_t ids.
 *
 * What is what
 *
 *   A MODEL is weights, tokenizer and chat template of one file or folder: mapped, constant, and safe to share
 *   between threads and sessions. Opening one that `edgewise quantize` made costs milliseconds.
 *
 *   A SESSION runs a model: it owns the threads and the memory of the KV cache. One thread at a time may use a session
 *   and its streams; only ew_session_cancel may be called from anywhere. Several sessions of one model run side by
 *   side.
 *
 *   A STREAM is one sequence of tokens in a session, with the KV cells that were computed for it. Streams are forked
 *   (the copy shares the cells until it diverges), truncated and evaluated together in batches.
 *
 *   An ADAPTER is a LoRA adapter loaded for a model: constant, and safe to share between threads and sessions. Each
 *   stream has one or none, and changes it between any two tokens; a batch may mix streams with different ones.
 *
 * A stream's results do not depend on what else runs: see docs/arithmetic.md.
 *
 *   ew_model *model;
 *   ew_session *session;
 *   ew_stream *stream;
 *   ew_error error;
 *   if (ew_model_open("smollm2.gguf", NULL, &model, &error) || ew_session_open(model, NULL, &session, &error) ||
 *       ew_stream_open(session, &stream, &error)) ...
 *   ew_message question = {"user", "What is the capital of France?", 30};
 *   ew_reply_options options = EW_REPLY_OPTIONS_INIT;
 *   ew_reply reply;
 *   if (ew_reply_to(stream, &question, 1, &options, &reply, &error)) ...
 *   printf("%s\n", reply.text);
 * ------------------------------------------------------------------------------------------------------------------ */

typedef struct ew_model ew_model;
typedef struct ew_session ew_session;
typedef struct ew_stream ew_stream;

/* ---- Model ---- */

typedef enum ew_weights {
    EW_WEIGHTS_AUTO = 0, /* as the file has them; a file that `quantize` did not make runs as BF16 if all of its
                            weights are BF16, else as F32 */
    EW_WEIGHTS_F32,      /* the unquantized reference: float weights and activations, and a float KV cache */
    EW_WEIGHTS_BF16      /* the same with weights rounded to bfloat16 */
} ew_weights;

typedef enum ew_kv {
    EW_KV_AUTO = 0, /* INT8 for a quantized model, F32 for the unquantized reference */
    EW_KV_INT8,
    EW_KV_F32 /* the unquantized reference only */
} ew_kv;

typedef struct ew_model_options {
    size_t size;
    ew_weights weights;
    ew_kv kv;
    const char *chat_template; /* NULL: recognised from the file; else a name that `edgewise run --help` lists */
    size_t n_threads;          /* for converting weights while opening (the reference only); 0: as many as are useful */
} ew_model_options;
#define EW_MODEL_OPTIONS_INIT {sizeof(ew_model_options), EW_WEIGHTS_AUTO, EW_KV_AUTO, NULL, 0}

/* Opens a file that `edgewise quantize` made, another GGUF file, or a Hugging Face folder. `options` may be NULL.
 * The file must not change while the model is open. A chat template that is not recognised is no error here: it is one
 * when a conversation is rendered. */
EW_API ew_status ew_model_open(const char *path, const ew_model_options *options, ew_model **model, ew_error *error);
/* After its sessions are closed. NULL is fine. */
EW_API void ew_model_close(ew_model *model);

typedef struct ew_model_info {
    size_t size;
    const char *architecture;   /* "qwen2", "qwen3", "llama" */
    const char *chat_template;  /* the template's name; NULL when none is recognised */
    size_t n_layers, d_model, n_heads, n_kv_heads, head_dim, vocab_size;
    size_t context_length;      /* positions that the model was made for */
    bool quantized;             /* integer arithmetic; false: the unquantized reference */
    bool own_file;              /* made by `edgewise quantize` */
    bool thinks;                /* the template can turn thinking on and off (Qwen3) */
    size_t weight_bytes;        /* mapped or allocated */
    size_t kv_bytes_per_token;
    const char *source_fingerprint;  /* hexadecimal; NULL for a file that `quantize` did not make */
    const char *weights_fingerprint;
} ew_model_info;
/* Fills *info (info->size set by the caller); the strings live as long as the model. */
EW_API void ew_model_describe(const ew_model *model, ew_model_info *info);

/* Tokens of a text, to be freed with ew_free. `specials`: text such as "<|im_end|>" becomes that token; leave it false
 * for anything that a stranger wrote. */
EW_API ew_status ew_tokenize(const ew_model *model, const char *text, size_t length, bool specials, int32_t **tokens,
                             size_t *n_tokens, ew_error *error);
/* The exact bytes of tokens, NUL-terminated, to be freed with ew_free; cut characters are not repaired. */
EW_API ew_status ew_detokenize(const ew_model *model, const int32_t *tokens, size_t n_tokens, char **text,
                               size_t *length, ew_error *error);

/* One message of a conversation. */
typedef struct ew_message {
    const char *role;    /* "system", "user" or "assistant" */
    const char *content; /* need not be NUL-terminated */
    size_t length;       /* bytes of content */
} ew_message;

/* The prompt that a conversation becomes, ending in the header of the reply to come: as text (may be NULL) and as
 * tokens (may be NULL), both to be freed with ew_free. Special-token text in a message stays text. `thinking` matters
 * to templates that can turn it off. */
EW_API ew_status ew_render(const ew_model *model, const ew_message *messages, size_t n_messages, bool thinking,
                           char **text, int32_t **tokens, size_t *n_tokens, ew_error *error);

EW_API void ew_free(void *memory); /* what this library allocated and says so */

/* ---- Adapters ---- */

typedef struct ew_adapter ew_adapter;

/* How the matrices of an adapter are held. INT8: symmetric, one scale a row. In the unquantized reference INT8 values
 * are computed with as floats. */
typedef enum ew_adapter_storage {
    EW_ADAPTER_KEEP = 0, /* as the file has them; what is not F32, F16 or INT8 there is held as F32 */
    EW_ADAPTER_F32,
    EW_ADAPTER_F16,
    EW_ADAPTER_INT8
} ew_adapter_storage;

typedef struct ew_adapter_options {
    size_t size;
    ew_adapter_storage storage;
} ew_adapter_options;
#define EW_ADAPTER_OPTIONS_INIT {sizeof(ew_adapter_options), EW_ADAPTER_KEEP}

/* Loads a PEFT folder or a LoRA GGUF file; the file may go away afterwards. Any number may be loaded at once, the same
 * file twice, too. `options` may be NULL. One that does not fit the model is refused whole: EW_ERROR_FORMAT says how
 * many of its matrices have no place there and which is the first, or that it was trained for another model;
 * EW_ERROR_UNSUPPORTED names what Edgewise does not do. */
EW_API ew_status ew_adapter_load(const ew_model *model, const char *path, const ew_adapter_options *options,
                                 ew_adapter **adapter, ew_error *error);
/* Gives the handle back, from any thread and at any time: streams that still have the adapter keep it in memory. NULL is
 * fine. */
EW_API void ew_adapter_unload(ew_adapter *adapter);

typedef struct ew_adapter_info {
    size_t size;
    const char *name;
    size_t rank;       /* the largest of its matrices' */
    size_t n_matrices; /* of the model that it adapts */
    size_t n_values;   /* of all A and B */
    size_t bytes;      /* held in memory */
    const int32_t *invocation_tokens; /* where aLoRA adapters begin; NULL: the file names none */
    size_t n_invocation_tokens;
    bool other_weights; /* trained on other weights of this model (another quantization): worth telling, no error */
    uint64_t load;      /* this load among all of the program's, from 1; never the same twice */
} ew_adapter_info;
/* Fills *info (info->size set by the caller); the strings live as long as the adapter. */
EW_API void ew_adapter_describe(const ew_adapter *adapter, ew_adapter_info *info);

/* ---- Session ---- */

typedef struct ew_session_options {
    size_t size;
    size_t n_threads;      /* 0: the fast cores that the cgroup allows */
    size_t context_length; /* most positions of one stream; 0: the model's own */
    size_t chunk;          /* tokens of a prompt evaluated together; 0: 128. Results do not depend on it */
    size_t kv_bytes;       /* most memory for KV cells, all streams together; 0: no limit but the machine's */
} ew_session_options;
#define EW_SESSION_OPTIONS_INIT {sizeof(ew_session_options), 0, 0, 0, 0}

EW_API ew_status ew_session_open(const ew_model *model, const ew_session_options *options, ew_session **session,
                                 ew_error *error);
/* Closes its streams too. NULL is fine. */
EW_API void ew_session_close(ew_session *session);

/* Makes the running call on this session stop soon: ew_reply_to returns what it has, ew_evaluate fails with
 * EW_ERROR_CANCELLED. If none is running, the next one stops at once. May be called from any thread and from a signal
 * handler. */
EW_API void ew_session_cancel(ew_session *session);

typedef struct ew_session_info {
    size_t size;
    size_t n_threads, context_length;
    const char *instruction_set; /* the kernels in use: "avx512", "neon", ... */
    size_t kv_bytes;             /* held now, all streams together; shared cells once */
    size_t n_streams;
    uint64_t n_evaluated;        /* tokens evaluated since the session was opened; a cached prefix is not in it */
} ew_session_info;
EW_API void ew_session_describe(const ew_session *session, ew_session_info *info);

/* ---- Streams ---- */

EW_API ew_status ew_stream_open(ew_session *session, ew_stream **stream, ew_error *error);
/* A new stream with the same tokens; cells are shared and copied only where the two diverge. */
EW_API ew_status ew_stream_fork(ew_stream *stream, ew_stream **fork, ew_error *error);
EW_API void ew_stream_close(ew_stream *stream); /* NULL is fine */

EW_API size_t ew_stream_length(const ew_stream *stream);
/* The tokens evaluated so far, ew_stream_length of them; valid until the stream changes. */
EW_API const int32_t *ew_stream_tokens(const ew_stream *stream);
/* Forgets all but the first `length` tokens. */
EW_API void ew_stream_truncate(ew_stream *stream, size_t length);

/* The adapter of all tokens that are appended from now on; NULL: the model alone. What the stream holds stays as it
 * is, so that one prompt, evaluated by the model alone, serves any adapter. Forks inherit it. EW_ERROR_ARGUMENT when
 * it was loaded for another model, EW_ERROR_MEMORY; the stream then keeps the one it had. */
EW_API ew_status ew_stream_set_adapter(ew_stream *stream, const ew_adapter *adapter, ew_error *error);
EW_API const ew_adapter *ew_stream_adapter(const ew_stream *stream); /* NULL: none */
/* How many of the stream's first tokens were evaluated by the model alone, up to the first one that was not. */
EW_API size_t ew_stream_base_length(const ew_stream *stream);

/* One token to append to one stream. */
typedef struct ew_input {
    ew_stream *stream;
    int32_t token;
    bool wants_logits;
} ew_input;

/* Appends the tokens to their streams, in order, and computes: logits [inputs that want them][vocab_size] in the order
 * of the inputs (NULL if none wants them), hidden [n_inputs][d_model] after the final norm (NULL: not wanted). All
 * streams belong to `session`. On error the streams are as they were before the call.
 * Errors: EW_ERROR_CONTEXT (a stream or the KV memory is full), EW_ERROR_NUMERIC (a logit is not finite),
 * EW_ERROR_CANCELLED, EW_ERROR_MEMORY, EW_ERROR_ARGUMENT. */
EW_API ew_status ew_evaluate(ew_session *session, const ew_input *inputs, size_t n_inputs, float *logits,
                             float *hidden, ew_error *error);

/* ---- Sampling ---- */

/* The order is: repetition penalty, temperature, top_k, top_p, min_p; candidates are sorted by logit, equal logits by
 * the smaller id. */
typedef struct ew_sampling {
    size_t size;
    float temperature;        /* 0: greedy, and the next three do not matter */
    uint32_t top_k;           /* keep the k best; 0: off */
    float top_p;              /* keep the best whose predecessors' probabilities sum to less than p; 1: off */
    float min_p;              /* keep those of at least min_p times the best's probability; 0: off */
    float repetition_penalty; /* logits of tokens seen in prompt or reply: divided if > 0, else multiplied; 1: off */
    uint64_t seed;            /* a draw depends on (seed, stream, position) only */
} ew_sampling;
#define EW_SAMPLING_INIT {sizeof(ew_sampling), 0.0f, 0, 1.0f, 0.0f, 1.0f, 0}

/* What the model's authors recommend (generation_config.json); greedy if they say nothing. */
EW_API void ew_model_sampling(const ew_model *model, ew_sampling *sampling);

/* ---- Replies ---- */

typedef struct ew_reply_options {
    size_t size;
    ew_sampling sampling;
    size_t max_tokens;       /* 0: until the context is full */
    const char *const *stop; /* strings that end the reply; not part of it */
    size_t n_stop;
    bool thinking;           /* for templates that can turn it off */
    bool log_probabilities;  /* fill reply.log_probabilities */
    /* May be NULL. Text as it comes, complete characters only; a part of a stop string is held back until it is known
     * not to be one. Returning false ends the reply as ew_session_cancel does. */
    bool (*on_text)(void *context, const char *text, size_t length);
    /* May be NULL. Tokens of the prompt evaluated so far. */
    void (*on_prompt)(void *context, size_t done, size_t total);
    void *context;
    bool adapter_everywhere; /* ew_reply_to: the stream's adapter works in the prompt, too, not only in the reply */
} ew_reply_options;
#define EW_REPLY_OPTIONS_INIT                                                                                          \
    {sizeof(ew_reply_options), EW_SAMPLING_INIT, 0, NULL, 0, true, false, NULL, NULL, NULL, false}

typedef enum ew_stop_reason {
    EW_STOP_END = 0,  /* the model ended its turn */
    EW_STOP_STRING,   /* a stop string */
    EW_STOP_LENGTH,   /* max_tokens; of a policy: the answer was cut */
    EW_STOP_CONTEXT,  /* the context is full */
    EW_STOP_CANCELLED,
    EW_STOP_TIME,     /* a policy's time limit */
    EW_STOP_DECIDED   /* one of several streams, stopped because the vote was decided without it */
} ew_stop_reason;
/* "stop", "string", "length", "context", "cancelled", "time", "decided" */
EW_API const char *ew_stop_reason_name(ew_stop_reason reason);

typedef struct ew_reply {
    char *text; /* NUL-terminated, without the end token and stop string */
    size_t length;
    int32_t *tokens;          /* all that were drawn, an end token included */
    float *log_probabilities; /* [n_tokens] log softmax(logits / T) of each, before penalty and truncation (T = 1 if
                                 greedy); NULL if not asked for */
    size_t n_tokens;
    ew_stop_reason stop_reason;
    size_t n_prompt_tokens;   /* of the rendered conversation */
    size_t n_cached_tokens;   /* of these, cells that were there from before */
    size_t n_dropped_messages; /* old messages left out because the context is full; the system message never is */
    double prompt_seconds, reply_seconds;
} ew_reply;
EW_API void ew_reply_free(ew_reply *reply); /* safe on {0} */

/* Answers a conversation on a stream. The conversation is rendered and tokenized whole; cells of the longest common
 * prefix with what the stream holds are kept, the rest is evaluated, so that the next turn costs only what is new
 * and gives exactly what a fresh stream would. When it does not fit the context, the oldest turns are left out
 * whole (a user's message with its answer), never the system message, never the last message; reply->n_dropped_messages
 * says how many. A cancelled reply is EW_OK with what there is. *reply is freed by ew_reply_free.
 *
 * The stream's adapter works from the reply's header on: the prompt is evaluated by the model alone, and an earlier
 * reply that an adapter wrote is evaluated anew. */
EW_API ew_status ew_reply_to(ew_stream *stream, const ew_message *messages, size_t n_messages,
                             const ew_reply_options *options, ew_reply *reply, ew_error *error);

/* The same for a bare prompt of tokens, without a template; the stream's adapter works everywhere. */
EW_API ew_status ew_continue(ew_stream *stream, const int32_t *tokens, size_t n_tokens,
                             const ew_reply_options *options, ew_reply *reply, ew_error *error);

/* ---- Grading ------------------------------------------------------------------------------------------------
 * Do a reply and a gold answer say the same thing? docs/grading.md has the rules. Any input is safe, hostile ones
 * included: a verdict comes within milliseconds and bounded memory. */

typedef enum ew_grade_task {
    EW_TASK_AUTO = 0, /* choice if the gold is one letter A-J, list if it has commas outside brackets, else math */
    EW_TASK_MATH,     /* one value, expression, point, set, interval, matrix, equation or text */
    EW_TASK_LIST,     /* several answers, in any order */
    EW_TASK_CHOICE    /* the letter of a multiple choice */
} ew_grade_task;

typedef enum ew_verdict {
    EW_VERDICT_WRONG = 0,
    EW_VERDICT_RIGHT,
    EW_VERDICT_NONE /* the reply has no final answer; never right */
} ew_verdict;

typedef struct ew_grade_options {
    size_t size;        /* sizeof(ew_grade_options): fields added later read as 0 for older callers */
    ew_grade_task task; /* EW_TASK_AUTO is 0 */
    double tolerance;   /* 0: exact. Else numbers a, b count as equal when |a - b| <= tolerance * |b|, b the gold */
    bool bare;          /* the text is the answer itself, not a reply to search for one */
} ew_grade_options;

typedef struct ew_grade_result {
    ew_verdict verdict;
    char *answer; /* as extracted; NULL for EW_VERDICT_NONE */
    char *normal; /* its normal form, plain text; NULL for EW_VERDICT_NONE */
} ew_grade_result;

/* Grades `reply` against `gold` (UTF-8, NUL-terminated; broken UTF-8 is tolerated). Fills *result, to be freed by
 * ew_grade_result_free. Errors: EW_ERROR_ARGUMENT (a NULL, an unknown task), EW_ERROR_MEMORY. */
EW_API ew_status ew_grade(const char *reply, const char *gold, ew_grade_task task, ew_grade_result *result,
                          ew_error *error);
/* The same with options (NULL: the defaults). */
EW_API ew_status ew_grade_with(const char *reply, const char *gold, const ew_grade_options *options,
                               ew_grade_result *result, ew_error *error);
EW_API void ew_grade_result_free(ew_grade_result *result); /* safe on {0} and NULL */

/* The final answer of a reply, for a vote: *answer is owned by the caller, NULL if there is none. EW_TASK_AUTO is
 * EW_TASK_MATH here, as no gold is known. */
EW_API ew_status ew_final_answer(const char *reply, ew_grade_task task, char **answer, ew_error *error);

/* Equivalence classes of n answers: classes[i] counts from 0 in order of first appearance; a NULL answer gets SIZE_MAX.
 * Which answers share a class does not depend on their order. At most 1024 answers (EW_ERROR_ARGUMENT). */
EW_API ew_status ew_answer_classes(const char *const *answers, size_t n, ew_grade_task task, size_t *classes,
                                   ew_error *error);

/* ---- Answers by a policy ----------------------------------------------------------------------------------------
 * ew_answer thinks first where that pays, no longer than it may, in one or several streams, and lets them vote.
 * docs/policy.md has the rules. */

typedef struct ew_switcher ew_switcher; /* a head that tells from a prompt whether thinking pays */
typedef struct ew_verifier ew_verifier; /* a head that tells how likely an answer is right */

#define EW_NO_LIMIT SIZE_MAX

typedef enum ew_mode {
    EW_MODE_AUTO = 0, /* the switcher decides; without one: on for a model whose template can think, else off */
    EW_MODE_ON,       /* think first */
    EW_MODE_OFF       /* answer at once */
} ew_mode;

typedef enum ew_vote {
    EW_VOTE_WEIGHTED = 0, /* the class of equal answers with the largest sum of scores; a majority without a verifier */
    EW_VOTE_MAJORITY,     /* the class with the most members */
    EW_VOTE_BEST          /* the answer with the best score; needs a verifier */
} ew_vote;

typedef struct ew_policy {
    size_t size;
    ew_mode mode;
    double threshold;       /* p(thinking pays) from which on the switcher says on; below 0: the switcher's own */
    size_t thinking_budget; /* most tokens of thinking. 0 makes sense only where mode is not on */
    size_t answer_tokens;   /* most tokens of the answer; EW_NO_LIMIT: until the context is full */
    size_t total_budget;    /* most tokens of both, the closing of a cut thinking included */
    bool tell_budget;       /* write the thinking budget into the reply, for an adapter trained with it */
    double time_limit;      /* seconds from the call on; 0: none. Thinking is cut at three quarters of it */
    const char *closing;    /* what ends a cut thinking: a text with one </think>; NULL: "\n</think>\n\n" */
    size_t loop_length;     /* thinking in which a run of this many tokens ... ; 0: loops are not looked for */
    size_t loop_repeats;    /* ... has come this often, without overlap, is cut */
    size_t streams;         /* 0: one, and more as long as the verifier is not confident */
    size_t most_streams;    /* where streams is 0 */
    double confidence;      /* where streams is 0: a score, of several streams a probability, that will do */
    ew_vote vote;
    ew_grade_task task;     /* how answers are read and compared; auto is math */
    bool run_all;           /* do not stop streams when the vote is decided */
    double decision_level;  /* stop when the leading class wins with this probability; 0: when it is certain */
    ew_sampling sampling;   /* stream k depends on (seed, k) only */
    const char *const *stop; /* strings that end an answer; not part of it */
    size_t n_stop;
    bool log_probabilities;
    const ew_adapter *adapter;   /* on while thinking and in the answer after it; NULL: the model thinks by itself */
    const ew_switcher *switcher; /* NULL: none */
    const ew_verifier *verifier; /* NULL: none */
} ew_policy;
#define EW_POLICY_INIT                                                                                                 \
    {sizeof(ew_policy), EW_MODE_AUTO, -1.0, EW_NO_LIMIT, 1024, EW_NO_LIMIT, false, 0.0, NULL, 24, 4, 1, 8, 0.8,        \
     EW_VOTE_WEIGHTED, EW_TASK_AUTO, false, 0.0, EW_SAMPLING_INIT, NULL, 0, false, NULL, NULL, NULL}

/* Text as it comes: complete characters, without tags and without the white space around thinking and answer. */
typedef struct ew_answer_text {
    size_t stream;
    bool thinking; /* else: answer */
    const char *text;
    size_t length;
} ew_answer_text;

typedef struct ew_answer_callbacks {
    size_t size;
    bool (*on_text)(void *context, const ew_answer_text *piece);           /* false: end as ew_session_cancel does */
    void (*on_prompt)(void *context, size_t done, size_t total);     /* tokens of the prompt evaluated so far */
    void (*on_mode)(void *context, bool thinks, double probability); /* decided; NaN: no switcher was asked */
    void *context;
} ew_answer_callbacks; /* any of them may be NULL */
#define EW_ANSWER_CALLBACKS_INIT {sizeof(ew_answer_callbacks), NULL, NULL, NULL, NULL}

typedef enum ew_thinking_end {
    EW_THINKING_NONE = 0, /* there was none */
    EW_THINKING_CLOSED,   /* the model closed it */
    EW_THINKING_BUDGET,   /* cut: the thinking budget, or the total budget less what is kept for the answer */
    EW_THINKING_LOOP,     /* cut: it repeated itself */
    EW_THINKING_CONTEXT,  /* cut: room for the answer had to be kept */
    EW_THINKING_TIME,     /* cut: three quarters of the time limit */
    EW_THINKING_TURN,     /* the model ended its turn without closing it; it was closed and an answer asked for */
    EW_THINKING_OPEN      /* the stream ended inside it (cancelled, time, context, decided) */
} ew_thinking_end;
EW_API const char *ew_thinking_end_name(ew_thinking_end end); /* "none", "closed", "budget", "loop", ... */

typedef struct ew_candidate {
    char *thinking; /* NUL-terminated, as are the next; never NULL */
    size_t thinking_length;
    char *answer;
    size_t answer_length;
    int32_t *tokens; /* behind the reply's header: drawn and forced, an end token included */
    bool *forced;    /* [n_tokens]: fed without a draw */
    float *log_probabilities; /* [n_tokens] as in ew_reply, 0 for forced ones; NULL if not asked for */
    size_t n_tokens;
    size_t n_thinking_tokens, n_answer_tokens; /* drawn; a closing tag counts as thinking, an end token as answer */
    ew_stop_reason stop_reason;
    ew_thinking_end thinking_end;
    bool thinking_truncated; /* cut by budget, loop, context or time, and closed */
    double score;        /* p(right) by the verifier; NaN: not asked */
    char *final_answer;  /* what voted; NULL: none */
    size_t answer_class; /* equal answers share one, from 0 in order of the streams; SIZE_MAX: no vote */
} ew_candidate;

typedef struct ew_answer_result {
    ew_candidate *candidates; /* [n_candidates]: stream k is candidates[k] */
    size_t n_candidates;
    size_t chosen;            /* index of the answer to show */
    size_t n_agreed;          /* candidates of its class; 1 if it did not vote */
    bool thinks;
    double probability;       /* of the switcher; NaN: not asked */
    double threshold;         /* that it was held against; NaN with it */
    bool no_switcher;         /* auto had no switcher and the model does not think by itself: off */
    size_t n_prompt_tokens, n_cached_tokens, n_dropped_messages; /* as in ew_reply */
    size_t n_streams_stopped; /* before their end or before their start, because the vote was decided */
    size_t n_tokens_saved;    /* what these would have taken if they were as long as the mean of the others */
    double prompt_seconds;    /* until the routing decision */
    double first_token_seconds;  /* until the first token was drawn, from the call on */
    double first_answer_seconds; /* until the first token of an answer */
    double seconds;
} ew_answer_result;

/* Answers a conversation. The session keeps the prompt's cells of the last call and evaluates only what is new. Earlier
 * replies stand in the prompt without their thinking; what was drawn under an adapter is evaluated again by the base
 * when it becomes prompt. A cancelled answer is EW_OK with what there is. *result is freed by ew_answer_result_free.
 * `policy` and `callbacks` may be NULL. Errors: EW_ERROR_ARGUMENT for a policy that cannot be satisfied; those of
 * ew_reply_to. */
EW_API ew_status ew_answer(ew_session *session, const ew_message *messages, size_t n_messages, const ew_policy *policy,
                           const ew_answer_callbacks *callbacks, ew_answer_result *result, ew_error *error);
EW_API void ew_answer_result_free(ew_answer_result *result); /* safe on {0} */

/* Heads, as `edgewise train` makes them, for this model: EW_ERROR_ARGUMENT if one was trained on other weights. */
EW_API ew_status ew_switcher_open(const ew_model *model, const char *path, ew_switcher **switcher, ew_error *error);
EW_API void ew_switcher_close(ew_switcher *switcher); /* NULL is fine */
EW_API ew_status ew_verifier_open(const ew_model *model, const char *path, ew_verifier **verifier, ew_error *error);
EW_API void ew_verifier_close(ew_verifier *verifier); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
