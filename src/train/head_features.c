#include "train/head_features.h"

#include "base/file.h"
#include "base/memory.h"
#include "format/json.h"
#include "format/lines.h"
#include "model/head_score.h"
#include "text/problem.h"
#include "text/reply_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const ew_head_source *source;
    const ew_model *model;
    ew_head_samples *samples;
    ew_stream *prompt;  /* the last prompt, evaluated by the model alone */
    ew_tokens tokens;   /* of a prompt with its header */
    ew_pooling pooling; /* switcher */
    ew_tokens question; /* verifier */
    float *hidden;      /* [chunk of the session][d_model] */
    char where[320];
} reader;

#define REFUSE(r, ...) ew_fail(error, EW_ERROR_FORMAT, __VA_ARGS__)

/* Evaluates tokens chunk by chunk; the states go into `pooling` (may be NULL), the last chunk's stay in r->hidden, and
 * *last (may be NULL) is the last token's. */
static ew_status feed(reader *r, ew_stream *stream, const int32_t *tokens, size_t n, ew_pooling *pooling,
                      const float **last, ew_error *error) {
    size_t chunk = r->source->session->chunk;
    ew_input *inputs = ew_allocate(chunk, sizeof *inputs);
    ew_status status = inputs ? EW_OK : ew_fail_memory(error, chunk * sizeof *inputs, "a batch");
    for (size_t at = 0; status == EW_OK && at < n; at += chunk) {
        size_t count = n - at < chunk ? n - at : chunk;
        for (size_t i = 0; i < count; i++) {
            inputs[i] = (ew_input){.stream = stream, .token = tokens[at + i]};
        }
        status = ew_evaluate(r->source->session, inputs, count, NULL, r->hidden, error);
        if (status == EW_OK && pooling) {
            status = ew_pooling_add(pooling, r->hidden, count, error);
        }
        if (last) {
            *last = r->hidden + (count - 1) * r->model->config.d_model;
        }
    }
    free(inputs);
    return status;
}

static size_t common_prefix(const ew_stream *stream, const int32_t *tokens, size_t n) {
    size_t same = 0, length = ew_stream_length(stream);
    const int32_t *held = ew_stream_tokens(stream);
    while (same < length && same < n && held[same] == tokens[same]) {
        same++;
    }
    return same;
}

static ew_status encode_prompt(reader *r, const ew_message *messages, size_t n, bool thinks, size_t *header,
                               ew_error *error) {
    r->tokens.count = 0;
    return ew_prompt_encode(&r->model->chat_template, r->model->tokenizer, messages, n, thinks, &r->tokens, header,
                            error);
}

/* ---- Switcher ---- */

static ew_status add_prompt(reader *r, const ew_message *messages, size_t n, bool label, ew_error *error) {
    size_t header = 0, d = r->model->config.d_model;
    ew_status status = encode_prompt(r, messages, n, true, &header, error);
    if (status == EW_OK && header == 0) {
        status = REFUSE(r, "%s: the prompt is empty", r->where);
    }
    if (status == EW_OK) {
        ew_stream_truncate(r->prompt, 0);
        ew_pooling_rewind(&r->pooling, 0);
        status = feed(r, r->prompt, r->tokens.ids, header, &r->pooling, NULL, error);
    }
    float *s = status == EW_OK ? ew_allocate(d, sizeof *s) : NULL;
    if (status == EW_OK && !s) {
        status = ew_fail_memory(error, d * sizeof *s, "a pooled state");
    }
    if (status == EW_OK) {
        ew_pooling_value(&r->pooling, s);
        uint64_t problem = ew_hash_problem((const char *)r->tokens.ids, header * sizeof *r->tokens.ids);
        status = ew_head_samples_add(r->samples, s, label, problem, header, error);
    }
    free(s);
    return status;
}

static ew_status read_message(reader *r, const json_t *entry, ew_message *message, ew_error *error) {
    const char *role = json_string_value(json_object_get(entry, "role"));
    const json_t *content = json_object_get(entry, "content");
    if (!role || !json_is_string(content)) {
        return REFUSE(r, "%s: a message needs \"role\" and \"content\"", r->where);
    }
    *message = (ew_message){role, json_string_value(content), json_string_length(content)};
    return EW_OK;
}

static ew_status add_messages(reader *r, const json_t *list, bool label, ew_error *error) {
    size_t n = json_array_size(list), kept = 0;
    ew_message *messages = ew_allocate(n, sizeof *messages);
    ew_status status = messages ? EW_OK : ew_fail_memory(error, n * sizeof *messages, "the messages");
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        status = read_message(r, json_array_get(list, i), &messages[i], error);
        kept = status == EW_OK && strcmp(messages[i].role, "user") == 0 ? i + 1 : kept;
    }
    if (status == EW_OK && kept == 0) {
        status = REFUSE(r, "%s: no message is a user's", r->where);
    }
    if (status == EW_OK) {
        status = add_prompt(r, messages, kept, label, error);
    }
    free(messages);
    return status;
}

static ew_status switcher_line(reader *r, const json_t *object, ew_error *error) {
    const json_t *label = json_object_get(object, "label"), *messages = json_object_get(object, "messages");
    ew_problem problem = {0};
    ew_status status = EW_OK;
    if (!json_is_integer(label) || json_integer_value(label) < 0 || json_integer_value(label) > 1) {
        return REFUSE(r, "%s: \"label\" must be 0 or 1", r->where);
    }
    bool positive = json_integer_value(label) == 1;
    if (messages) {
        return add_messages(r, messages, positive, error);
    }
    status = ew_problem_read(object, r->where, &problem, error);
    if (status == EW_OK) {
        const ew_message message = {"user", problem.text.data, problem.text.length};
        status = add_prompt(r, &message, 1, positive, error);
    }
    ew_problem_free(&problem);
    return status;
}

/* ---- Verifier ---- */

static ew_status read_reply(reader *r, const json_t *object, ew_tokens *reply, ew_error *error) {
    const json_t *list = json_object_get(object, "tokens"), *value = NULL;
    size_t index = 0;
    json_array_foreach(list, index, value) {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || (uint64_t)id >= r->model->config.vocab_size) {
            return REFUSE(r, "%s: tokens[%zu] is no token of this model", r->where, index);
        }
        int32_t token = (int32_t)id;
        ew_status status = ew_tokens_append(reply, &token, 1, error);
        if (status != EW_OK) {
            return status;
        }
    }
    return reply->count > 0 ? EW_OK : REFUSE(r, "%s: \"tokens\" must be an array of the reply's tokens", r->where);
}

/* What stands behind the prompt: header, reply, its end of turn, the question. */
static ew_status append_rest(reader *r, const ew_tokens *reply, ew_error *error) {
    int32_t end = r->model->chat_template.turn_end;
    size_t n = reply->count;
    bool ended = n > 0 && ew_model_ends_reply(r->model, reply->ids[n - 1]);
    ew_status status = ew_tokens_append(&r->tokens, reply->ids, ended ? n - 1 : n, error);
    if (status == EW_OK) {
        status = ew_tokens_append(&r->tokens, &end, 1, error);
    }
    return status == EW_OK ? ew_tokens_append(&r->tokens, r->question.ids, r->question.count, error) : status;
}

/* The prompt is evaluated once for all its replies, which stand one after the other in the file. */
static ew_status judge_reply(reader *r, size_t header, bool thinks, const float **last, ew_error *error) {
    ew_stream *fork = NULL;
    size_t same = common_prefix(r->prompt, r->tokens.ids, header);
    ew_stream_truncate(r->prompt, same);
    ew_status status = feed(r, r->prompt, r->tokens.ids + same, header - same, NULL, NULL, error);
    if (status == EW_OK) {
        status = ew_stream_fork(r->prompt, &fork, error);
    }
    if (status == EW_OK) {
        status = ew_stream_set_adapter(fork, thinks ? r->source->adapter : NULL, error);
    }
    if (status == EW_OK) {
        status = feed(r, fork, r->tokens.ids + header, r->tokens.count - header, NULL, last, error);
    }
    ew_stream_close(fork);
    return status;
}

/* What is forced behind the header of a reply that thinks: a budget that was told, the opening tag. */
static ew_status append_opening(reader *r, const json_t *object, ew_error *error) {
    const ew_chat_template *chat = &r->model->chat_template;
    const json_t *budget = json_object_get(object, "budget");
    ew_status status = EW_OK;
    if (json_is_integer(budget) && json_integer_value(budget) > 0) {
        char digits[24];
        int n = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(budget));
        const ew_string text = {digits, (size_t)n};
        status = ew_reply_encode_part(chat, r->model->tokenizer, EW_PART_BUDGET, text, &r->tokens, error);
    }
    const ew_string nothing = {"", 0};
    return status == EW_OK
               ? ew_reply_encode_part(chat, r->model->tokenizer, EW_PART_THINK_OPEN, nothing, &r->tokens, error)
               : status;
}

/* What was asked: the problem, behind the system message that `sample` was given. */
static ew_status read_question(reader *r, const json_t *object, ew_message messages[2], size_t *n, ew_error *error) {
    const json_t *problem = json_object_get(object, "problem"), *system = json_object_get(object, "system");
    *n = 0;
    if (!json_is_string(problem) || (system && !json_is_null(system) && !json_is_string(system))) {
        return REFUSE(r,
                      "%s: a line of `edgewise sample` with \"problem\" and, if any, \"system\" as strings is needed",
                      r->where);
    }
    if (json_is_string(system)) {
        messages[(*n)++] = (ew_message){"system", json_string_value(system), json_string_length(system)};
    }
    messages[(*n)++] = (ew_message){"user", json_string_value(problem), json_string_length(problem)};
    return EW_OK;
}

static ew_status add_reply(reader *r, const json_t *object, const ew_message *messages, size_t n_messages,
                           const ew_tokens *reply, bool right, ew_error *error) {
    size_t header = 0;
    const float *last = NULL;
    const ew_message *message = &messages[n_messages - 1];
    bool thinks = json_is_true(json_object_get(object, "thinks"));
    ew_status status = encode_prompt(r, messages, n_messages, thinks, &header, error);
    if (status == EW_OK && thinks) {
        status = append_opening(r, object, error);
    }
    if (status == EW_OK) {
        status = append_rest(r, reply, error);
    }
    if (status == EW_OK) {
        status = judge_reply(r, header, thinks, &last, error);
    }
    uint64_t problem = ew_hash_problem(message->content, message->length);
    return status == EW_OK ? ew_head_samples_add(r->samples, last, right, problem, reply->count, error) : status;
}

static ew_status verifier_line(reader *r, const json_t *object, ew_error *error) {
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    ew_tokens reply = {0};
    ew_message messages[2];
    size_t n = 0;
    if (!verdict) {
        return REFUSE(r, "%s: a line of `edgewise sample` with a verdict is needed", r->where);
    }
    bool right = strcmp(verdict, "right") == 0;
    if (!right && strcmp(verdict, "wrong") != 0) {
        return strcmp(verdict, "none") == 0 ? EW_OK
                                            : REFUSE(r, "%s: the verdict \"%.20s\" is not known", r->where, verdict);
    }
    ew_status status = read_question(r, object, messages, &n, error);
    if (status == EW_OK) {
        status = read_reply(r, object, &reply, error);
    }
    if (status == EW_OK) {
        status = add_reply(r, object, messages, n, &reply, right, error);
    }
    ew_tokens_free(&reply);
    return status;
}

/* ---- All lines ---- */

typedef ew_status (*line_function)(reader *r, const json_t *object, ew_error *error);

/* A line's own mistakes, and a prompt that does not fit, drop it; anything else ends the reading. */
static ew_status read_line(reader *r, ew_string line, size_t number, line_function take, ew_head_drops *drops,
                           ew_error *error) {
    json_t *object = NULL;
    ew_error why = {0};
    snprintf(r->where, sizeof r->where, "%.256s line %zu", r->source->path, number);
    ew_status status = ew_json_parse(line, r->where, &object, &why);
    if (status == EW_OK) {
        status = take(r, object, &why);
    }
    json_decref(object);
    if (status == EW_ERROR_FORMAT || status == EW_ERROR_CONTEXT || status == EW_ERROR_ARGUMENT) {
        if (drops->n_dropped++ == 0) {
            drops->first = why;
            drops->first_line = number;
        }
        return EW_OK;
    }
    return status == EW_OK ? EW_OK : ew_fail(error, status, "%s", why.message);
}

static ew_status read_lines(reader *r, ew_string text, line_function take, ew_head_drops *drops, ew_error *error) {
    ew_string line, rest = text;
    size_t number = 0, total = 0;
    ew_status status = EW_OK;
    while (ew_next_line(&rest, &line, &number)) {
        total++;
    }
    number = 0;
    while (status == EW_OK && ew_next_line(&text, &line, &number)) {
        drops->n_lines++;
        status = read_line(r, line, number, take, drops, error);
        if (r->source->progress) {
            r->source->progress(r->source->context, drops->n_lines, total);
        }
    }
    if (status == EW_OK && r->samples->n == 0) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s: none of its %zu lines can be learned from%s%s", r->source->path,
                         drops->n_lines, drops->n_dropped > 0 ? ", the first: " : "", drops->first.message);
    }
    return status;
}

static ew_status open_reader(reader *r, bool pools, ew_error *error) {
    const ew_head_source *source = r->source;
    size_t d = r->model->config.d_model, chunk = source->session->chunk;
    if (!r->model->has_template) {
        return ew_fail(error, r->model->template_error.status, "%s", r->model->template_error.message);
    }
    r->samples->d_model = d;
    r->hidden = ew_allocate(chunk * d, sizeof *r->hidden);
    ew_status status = r->hidden ? ew_stream_open(source->session, &r->prompt, error)
                                 : ew_fail_memory(error, chunk * d * sizeof *r->hidden, "hidden states");
    if (status == EW_OK && pools) {
        status = ew_pooling_open(d, source->chunk, source->mix, &r->pooling, error);
    }
    if (status == EW_OK && !pools) {
        const ew_string text = {source->text, strlen(source->text)};
        status = ew_verification_encode(&r->model->chat_template, r->model->tokenizer, text, &r->question, error);
    }
    return status;
}

static ew_status read_features(const ew_head_source *source, bool pools, line_function take, ew_head_samples *samples,
                               ew_head_drops *drops, ew_error *error) {
    reader r = {.source = source, .model = source->session->model, .samples = samples};
    ew_mapping mapping = {0};
    *samples = (ew_head_samples){0};
    *drops = (ew_head_drops){0};
    ew_status status = ew_map_file(source->path, &mapping, error);
    if (status == EW_OK) {
        status = open_reader(&r, pools, error);
    }
    if (status == EW_OK) {
        const char *data = mapping.data ? (const char *)mapping.data : "";
        status = read_lines(&r, (ew_string){data, mapping.size}, take, drops, error);
    }
    ew_unmap(&mapping);
    ew_stream_close(r.prompt);
    ew_tokens_free(&r.tokens);
    ew_tokens_free(&r.question);
    ew_pooling_free(&r.pooling);
    free(r.hidden);
    return status;
}

ew_status ew_switcher_features(const ew_head_source *source, ew_head_samples *samples, ew_head_drops *drops,
                               ew_error *error) {
    return read_features(source, true, switcher_line, samples, drops, error);
}

ew_status ew_verifier_features(const ew_head_source *source, ew_head_samples *samples, ew_head_drops *drops,
                               ew_error *error) {
    return read_features(source, false, verifier_line, samples, drops, error);
}
