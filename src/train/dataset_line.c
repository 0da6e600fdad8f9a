/* The forms of a line (docs/formats.md, "Training data"). */
#include "train/dataset_internal.h"

#include "base/memory.h"
#include "format/json.h"
#include "text/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUDGET_MOST = 1000000000, NO_TARGET = -100 };

typedef struct line_reader {
    ew_dataset *dataset;
    const ew_dataset_options *options;
    size_t number;
    char where[32]; /* "line 12" */
    ew_drop_reason *reason;
    ew_reply_tokens tokens; /* working memory */
    float *weights;
    size_t weight_capacity;
} line_reader;

typedef struct turn {
    const char *role; /* "system", "user", "assistant" */
    ew_string content;
    ew_string thinking; /* from a field of its own */
} turn;

#define DROP(reader, why, ...) (*(reader)->reason = (why), ew_fail(error, EW_ERROR_FORMAT, __VA_ARGS__))

/* ---- Examples ---- */

static ew_status check_length(const line_reader *reader, size_t length, ew_error *error) {
    size_t most = reader->options->max_tokens;
    return length <= most ? EW_OK
                          : DROP(reader, EW_DROP_LONG, "%s: %zu tokens; at most %zu fit", reader->where, length, most);
}

/* The weights of a reply's tokens, and of what stands before it, in reader->weights. */
static ew_status weigh_reply(line_reader *reader, ew_error *error) {
    const ew_reply_tokens *reply = &reader->tokens;
    if (!ew_grow((void **)&reader->weights, &reader->weight_capacity, reply->tokens.count, sizeof *reader->weights)) {
        return ew_fail_memory(error, reply->tokens.count * sizeof *reader->weights, "an example's weights");
    }
    for (size_t t = 0; t < reply->begin[EW_PART_HEADER]; t++) {
        reader->weights[t] = reader->options->prompt_weight;
    }
    for (size_t part = 0; part < EW_REPLY_PARTS; part++) {
        for (size_t t = reply->begin[part]; t < reply->begin[part + 1]; t++) {
            reader->weights[t] = reply->target[part] ? 1.0f : reader->options->prompt_weight;
        }
    }
    return EW_OK;
}

static ew_status add_reply(line_reader *reader, const ew_message *messages, size_t n, const ew_reply_content *content,
                           ew_error *error) {
    const ew_dataset_options *options = reader->options;
    if (content->open || content->answer.length == 0) {
        return DROP(reader, EW_DROP_REPLY, "%s: %s", reader->where,
                    content->open ? "the reply's thinking never ends" : "the reply has no answer");
    }
    if (n == 0) {
        return DROP(reader, EW_DROP_REPLY, "%s: the reply answers nothing", reader->where);
    }
    ew_error why = {0};
    ew_status status = !options->chat ? ew_fail(&why, EW_ERROR_ARGUMENT, "the model has no chat template")
                                      : ew_reply_encode(options->chat, options->tokenizer, messages, n, content,
                                                        &reader->tokens, &why);
    if (status == EW_ERROR_MEMORY) {
        return ew_fail(error, status, "%s", why.message);
    }
    if (status != EW_OK) {
        return DROP(reader, EW_DROP_TEXT, "%s: %s", reader->where, why.message);
    }
    status = check_length(reader, reader->tokens.tokens.count, error);
    if (status == EW_OK) {
        status = weigh_reply(reader, error);
    }
    return status == EW_OK
               ? ew_dataset_append(reader->dataset, reader->number, reader->tokens.tokens.ids, reader->weights,
                                   reader->tokens.tokens.count, reader->tokens.begin[EW_PART_HEADER], error)
               : status;
}

/* ---- Fields ---- */

static ew_status read_budget(line_reader *reader, const json_t *object, size_t *budget, ew_error *error) {
    const json_t *value = json_object_get(object, "budget");
    *budget = 0;
    if (!value || json_is_null(value)) {
        return EW_OK;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > BUDGET_MOST) {
        return DROP(reader, EW_DROP_FORM, "%s: \"budget\" must be a number of tokens, 1 to %d", reader->where,
                    BUDGET_MOST);
    }
    *budget = (size_t)json_integer_value(value);
    return EW_OK;
}

/* A string member of a message; null and nothing are "". */
static ew_status read_string(line_reader *reader, const json_t *object, const char *key, ew_string *text,
                             ew_error *error) {
    const json_t *value = json_object_get(object, key);
    *text = (ew_string){"", 0};
    if (!value || json_is_null(value)) {
        return EW_OK;
    }
    if (!json_is_string(value)) {
        return DROP(reader, EW_DROP_FORM, "%s: \"%s\" of a message must be a string", reader->where, key);
    }
    *text = (ew_string){json_string_value(value), json_string_length(value)};
    return EW_OK;
}

static ew_status read_role(line_reader *reader, const json_t *object, const char *key, const char **role,
                           ew_error *error) {
    static const struct {
        const char *given, *role;
    } roles[] = {
        {"system", "system"}, {"user", "user"}, {"assistant", "assistant"}, {"human", "user"}, {"gpt", "assistant"}};
    const char *given = json_string_value(json_object_get(object, key));
    if (!given) {
        return DROP(reader, EW_DROP_FORM, "%s: a message needs a \"%s\"", reader->where, key);
    }
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(roles[i].given, given) == 0) {
            *role = roles[i].role;
            return EW_OK;
        }
    }
    return DROP(reader, EW_DROP_ROLE, "%s: the role \"%.40s\" is not known; system, user and assistant are",
                reader->where, given);
}

static ew_status read_turn(line_reader *reader, const json_t *object, bool sharegpt, turn *turn, ew_error *error) {
    ew_status status = read_role(reader, object, sharegpt ? "from" : "role", &turn->role, error);
    if (status == EW_OK) {
        status = read_string(reader, object, sharegpt ? "value" : "content", &turn->content, error);
    }
    if (status == EW_OK) {
        status = read_string(reader, object, "reasoning_content", &turn->thinking, error);
    }
    if (status == EW_OK && turn->thinking.length == 0) {
        status = read_string(reader, object, "thinking", &turn->thinking, error);
    }
    return status;
}

/* ---- Conversations ---- */

static ew_reply_content content_of(const turn *turn, size_t budget) {
    ew_reply_content content;
    ew_reply_split(turn->content, &content);
    ew_string thinking = ew_reply_strip(turn->thinking);
    if (thinking.length > 0) { /* it has a field of its own: the content is the answer */
        content.thinking = thinking;
        content.open = false;
        content.answer = ew_reply_without_thinking(ew_reply_strip(turn->content));
    }
    content.budget = budget;
    return content;
}

/* Every reply, or the last one, with the messages before it. */
static ew_status add_turns(line_reader *reader, const turn *turns, ew_message *messages, size_t n, size_t budget,
                           ew_error *error) {
    ew_status status = EW_OK;
    bool found = false;
    for (size_t i = n; i > 0 && !found; i--) {
        found = strcmp(turns[i - 1].role, "assistant") == 0;
        n = found ? i : n;
    }
    if (!found) {
        return DROP(reader, EW_DROP_REPLY, "%s: no message is an assistant's", reader->where);
    }
    for (size_t i = 0; i < n && status == EW_OK; i++) {
        messages[i] = (ew_message){turns[i].role, turns[i].content.data, turns[i].content.length};
        bool reply = strcmp(turns[i].role, "assistant") == 0;
        if (reply && (i + 1 == n || reader->options->all_turns)) {
            ew_reply_content content = content_of(&turns[i], budget);
            status = add_reply(reader, messages, i, &content, error);
        }
    }
    return status;
}

static ew_status add_conversation(line_reader *reader, const json_t *object, const json_t *list, bool sharegpt,
                                  ew_error *error) {
    size_t n = json_array_size(list), budget = 0;
    if (!json_is_array(list)) {
        return DROP(reader, EW_DROP_FORM, "%s: the messages must be an array", reader->where);
    }
    turn *turns = ew_allocate(n, sizeof *turns);
    ew_message *messages = ew_allocate(n, sizeof *messages);
    ew_status status = turns && messages ? read_budget(reader, object, &budget, error)
                                         : ew_fail_memory(error, n * sizeof *turns, "the messages");
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        status = read_turn(reader, json_array_get(list, i), sharegpt, &turns[i], error);
    }
    if (status == EW_OK) {
        status = add_turns(reader, turns, messages, n, budget, error);
    }
    free(turns);
    free(messages);
    return status;
}

/* ---- Problems ---- */

static ew_status add_solved(line_reader *reader, const ew_problem *problem, size_t budget, ew_error *error) {
    ew_buffer answer = {0};
    bool thinks = problem->solution.length > 0 && !reader->options->no_think;
    if (problem->solution.length > 0 && !thinks) {
        ew_string solution = ew_reply_strip(problem->solution);
        ew_buffer_append(&answer, solution.data, solution.length);
        ew_buffer_append_text(&answer, "\n\n");
    }
    ew_buffer_append_format(&answer, "\\boxed{%s}", problem->answer);
    const ew_message question = {"user", problem->text.data, problem->text.length};
    const ew_reply_content content = {.thinking = thinks ? problem->solution : (ew_string){"", 0},
                                      .answer = {answer.data, answer.length},
                                      .budget = budget};
    ew_status status = answer.failed ? ew_fail_memory(error, problem->solution.length, "an answer")
                                     : add_reply(reader, &question, 1, &content, error);
    ew_buffer_free(&answer);
    return status;
}

static ew_status add_problem(line_reader *reader, const json_t *object, ew_error *error) {
    ew_problem problem;
    size_t budget = 0;
    ew_status status = ew_problem_read(object, reader->where, &problem, error);
    if (status == EW_OK && !problem.answer) {
        status = DROP(reader, EW_DROP_FORM, "%s: a problem needs an \"answer\"", reader->where);
    }
    if (status == EW_OK) {
        status = read_budget(reader, object, &budget, error);
    }
    if (status == EW_OK) {
        status = add_solved(reader, &problem, budget, error);
    }
    ew_problem_free(&problem);
    return status;
}

/* ---- Ready-made ids, plain text ---- */

static ew_status read_ids(line_reader *reader, const json_t *list, ew_tokens *tokens, ew_error *error) {
    size_t index = 0;
    const json_t *value = NULL;
    json_array_foreach(list, index, value) {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || (uint64_t)id >= reader->options->vocab_size || id > INT32_MAX) {
            return DROP(reader, EW_DROP_IDS, "%s: input_ids[%zu] is no token of this model, which has %zu",
                        reader->where, index, reader->options->vocab_size);
        }
        int32_t token = (int32_t)id;
        ew_status status = ew_tokens_append(tokens, &token, 1, error);
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

static ew_status read_labels(line_reader *reader, const json_t *labels, const ew_tokens *tokens, size_t *first,
                             ew_error *error) {
    if (!json_is_array(labels) || json_array_size(labels) != tokens->count) {
        return DROP(reader, EW_DROP_IDS, "%s: labels must be as many as input_ids", reader->where);
    }
    *first = tokens->count;
    for (size_t t = tokens->count; t > 0; t--) {
        const json_t *label = json_array_get(labels, t - 1);
        json_int_t id = json_integer_value(label);
        if (!json_is_integer(label) || (id != NO_TARGET && id != tokens->ids[t - 1])) {
            return DROP(reader, EW_DROP_IDS, "%s: labels[%zu] is neither -100 nor the token there", reader->where,
                        t - 1);
        }
        reader->weights[t - 1] = id == NO_TARGET ? 0.0f : 1.0f;
        *first = id != NO_TARGET && t > 1 ? t - 1 : *first;
    }
    return EW_OK;
}

/* Where the adapter begins, when the line does not say: with the input that predicts the first target. */
static ew_status add_ids(line_reader *reader, const json_t *object, const json_t *list, ew_tokens *tokens,
                         ew_error *error) {
    const json_t *labels = json_object_get(object, "labels");
    bool given = false;
    size_t n = json_array_size(list), prompt_length = 0, first = 1;
    ew_status status =
        !json_is_array(list) || n < 2
            ? DROP(reader, EW_DROP_IDS, "%s: input_ids must be an array of two tokens at least", reader->where)
            : check_length(reader, n, error);
    if (status == EW_OK) {
        status = read_ids(reader, list, tokens, error);
    }
    if (status == EW_OK && !ew_grow((void **)&reader->weights, &reader->weight_capacity, n, sizeof *reader->weights)) {
        status = ew_fail_memory(error, n * sizeof *reader->weights, "an example's weights");
    }
    if (status == EW_OK) {
        status = ew_json_get_size(object, "prompt_length", reader->where, &given, &prompt_length, error);
    }
    if (status == EW_OK && labels && !json_is_null(labels)) {
        status = read_labels(reader, labels, tokens, &first, error);
    } else if (status == EW_OK) {
        first = prompt_length + 1 < n ? prompt_length + 1 : n;
        for (size_t t = 0; t < n; t++) {
            reader->weights[t] = t >= first ? 1.0f : 0.0f;
        }
    }
    if (status == EW_OK && (first >= n || prompt_length >= n)) {
        status = DROP(reader, EW_DROP_IDS, "%s: there is no target behind the prompt", reader->where);
    }
    prompt_length = given || first == n ? prompt_length : first - 1;
    return status == EW_OK ? ew_dataset_append(reader->dataset, reader->number, tokens->ids, reader->weights, n,
                                               prompt_length, error)
                           : status;
}

static int32_t end_of_text(const ew_tokenizer *tokenizer) {
    int32_t id = ew_tokenizer_find(tokenizer, "<|endoftext|>");
    id = id != EW_NO_TOKEN ? id : ew_tokenizer_find(tokenizer, "<|end_of_text|>");
    return id != EW_NO_TOKEN ? id : ew_tokenizer_eos(tokenizer);
}

static ew_status add_text(line_reader *reader, const json_t *value, ew_tokens *tokens, ew_error *error) {
    const ew_tokenizer *tokenizer = reader->options->tokenizer;
    ew_error why = {0};
    int32_t end = end_of_text(tokenizer);
    ew_status status = ew_tokenizer_encode(tokenizer, json_string_value(value), json_string_length(value),
                                           EW_ENCODE_BOS, tokens, &why);
    if (status == EW_ERROR_MEMORY) {
        return ew_fail(error, status, "%s", why.message);
    }
    if (status != EW_OK) {
        return DROP(reader, EW_DROP_TEXT, "%s: %s", reader->where, why.message);
    }
    status = end != EW_NO_TOKEN ? ew_tokens_append(tokens, &end, 1, error) : EW_OK;
    if (status == EW_OK && tokens->count < 2) {
        status = DROP(reader, EW_DROP_TEXT, "%s: the text has no two tokens", reader->where);
    }
    if (status == EW_OK) {
        status = check_length(reader, tokens->count, error);
    }
    return status == EW_OK
               ? ew_dataset_append(reader->dataset, reader->number, tokens->ids, NULL, tokens->count, 0, error)
               : status;
}

/* ---- A line ---- */

static ew_status add_object(line_reader *reader, const json_t *object, ew_error *error) {
    const json_t *ids = json_object_get(object, "input_ids"), *messages = json_object_get(object, "messages");
    const json_t *conversations = json_object_get(object, "conversations"), *text = json_object_get(object, "text");
    ew_tokens tokens = {0};
    ew_status status;
    if (ids) {
        status = add_ids(reader, object, ids, &tokens, error);
    } else if (messages) {
        status = add_conversation(reader, object, messages, false, error);
    } else if (conversations) {
        status = add_conversation(reader, object, conversations, true, error);
    } else if (json_object_get(object, "problem")) {
        status = add_problem(reader, object, error);
    } else if (json_is_string(text) && reader->options->plain_text) {
        status = add_text(reader, text, &tokens, error);
    } else {
        status = DROP(reader, EW_DROP_FORM, "%s: none of input_ids, messages, conversations and problem%s is there",
                      reader->where,
                      reader->options->plain_text ? ", and no text"
                      : text                      ? " (--plain-text takes lines of text)"
                                                  : "");
    }
    ew_tokens_free(&tokens);
    return status;
}

ew_status ew_dataset_line(ew_dataset *dataset, const ew_dataset_options *options, ew_string line, size_t number,
                          ew_drop_reason *reason, ew_error *error) {
    line_reader reader = {.dataset = dataset, .options = options, .number = number, .reason = reason};
    json_t *object = NULL;
    snprintf(reader.where, sizeof reader.where, "line %zu", number);
    *reason = EW_DROP_JSON;
    ew_status status = ew_json_parse(line, reader.where, &object, error);
    if (status == EW_OK) {
        *reason = EW_DROP_FORM;
        status = add_object(&reader, object, error);
    }
    json_decref(object);
    ew_reply_tokens_free(&reader.tokens);
    free(reader.weights);
    return status;
}
