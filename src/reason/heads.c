#include "reason/heads.h"
#include "base/memory.h"
#include "format/bundle.h"
#include "model/adapter.h"
#include "reason/prefix.h"
#include "text/reply_parts.h"

#include <stdlib.h>
#include <string.h>

static const char *weights_fingerprint(const ew_model *model) {
    ew_model_info info = {.size = sizeof info};
    ew_model_describe(model, &info);
    return info.weights_fingerprint;
}

/* Opens a head of this kind for the model; which adapter it belongs to is looked at when it is used. */
static ew_status open_head(const ew_model *model, const char *path, ew_head_kind kind, ew_head *head, ew_error *error) {
    const char *part;
    ew_status status =
        ew_bundle_path(path, &part)
            ? ew_bundle_head_open(model->checkpoint ? ew_checkpoint_gguf(model->checkpoint) : NULL, part, head, error)
            : ew_head_open(path, head, error);
    if (status == EW_OK && head->kind != kind) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s is a %s; a %s is needed here", path,
                         kind == EW_HEAD_SWITCHER ? "verifier" : "switcher",
                         kind == EW_HEAD_SWITCHER ? "switcher" : "verifier");
    }
    if (status == EW_OK) {
        status =
            ew_head_match(head, model->config.d_model, weights_fingerprint(model), head->adapter_fingerprint, error);
    }
    return status;
}

ew_status ew_switcher_open(const ew_model *model, const char *path, ew_switcher **out, ew_error *error) {
    *out = NULL;
    ew_switcher *switcher = ew_allocate(1, sizeof *switcher);
    if (!switcher) {
        return ew_fail_memory(error, sizeof *switcher, "a switcher");
    }
    switcher->model = model;
    ew_status status = open_head(model, path, EW_HEAD_SWITCHER, &switcher->head, error);
    if (status != EW_OK) {
        ew_switcher_close(switcher);
        return status;
    }
    *out = switcher;
    return EW_OK;
}

void ew_switcher_close(ew_switcher *switcher) {
    if (switcher) {
        ew_head_free(&switcher->head);
        free(switcher);
    }
}

ew_status ew_verifier_open(const ew_model *model, const char *path, ew_verifier **out, ew_error *error) {
    *out = NULL;
    ew_verifier *verifier = ew_allocate(1, sizeof *verifier);
    if (!verifier) {
        return ew_fail_memory(error, sizeof *verifier, "a verifier");
    }
    verifier->model = model;
    ew_status status = open_head(model, path, EW_HEAD_VERIFIER, &verifier->head, error);
    if (status == EW_OK && !model->has_template) {
        status = ew_fail(error, model->template_error.status, "%s", model->template_error.message);
    }
    if (status == EW_OK) {
        const ew_string text = {verifier->head.text, strlen(verifier->head.text)};
        status = ew_verification_encode(&model->chat_template, model->tokenizer, text, &verifier->prompt, error);
    }
    if (status != EW_OK) {
        ew_verifier_close(verifier);
        return status;
    }
    *out = verifier;
    return EW_OK;
}

void ew_verifier_close(ew_verifier *verifier) {
    if (verifier) {
        ew_head_free(&verifier->head);
        ew_tokens_free(&verifier->prompt);
        free(verifier);
    }
}

bool ew_verifier_is_for(const ew_verifier *verifier, const ew_adapter *adapter) {
    return strcmp(verifier->head.adapter_fingerprint, adapter ? adapter->fingerprint : "") == 0;
}

ew_status ew_switcher_ask(const ew_switcher *switcher, const ew_pooling *pooling, double *probability,
                          ew_error *error) {
    size_t d_model = switcher->head.d_model;
    float *pooled = ew_allocate(d_model, sizeof *pooled);
    if (!pooled) {
        return ew_fail_memory(error, d_model * sizeof *pooled, "a pooled state");
    }
    ew_pooling_value(pooling, pooled);
    ew_status status = ew_head_score(&switcher->head, pooled, probability, NULL, error);
    free(pooled);
    return status;
}

/* What has not been fed of the reply, its end of turn, and the question. */
static ew_status make_question(const ew_verifier *verifier, const ew_strand *strand, ew_tokens *question,
                               ew_error *error) {
    int32_t turn_end = verifier->model->chat_template.turn_end;
    ew_status status = ew_tokens_append(question, strand->queue.ids, strand->queue.count, error);
    if (status == EW_OK) {
        status = ew_tokens_append(question, &turn_end, 1, error);
    }
    return status == EW_OK ? ew_tokens_append(question, verifier->prompt.ids, verifier->prompt.count, error) : status;
}

static ew_status score(const ew_verifier *verifier, const ew_source *source, ew_strand *strand,
                       const ew_tokens *question, ew_error *error) {
    size_t d_model = verifier->head.d_model, length = ew_stream_length(strand->stream);
    float *hidden = ew_allocate(question->count * d_model, sizeof *hidden);
    if (!hidden) {
        return ew_fail_memory(error, question->count * d_model * sizeof *hidden, "hidden states");
    }
    ew_error full = {0};
    ew_status status = ew_feed_tokens(source, strand->stream, question->ids, question->count, NULL, hidden, &full);
    if (status == EW_OK) {
        const float *last = hidden + (question->count - 1) * d_model;
        status = ew_head_score(&verifier->head, last, &strand->out->score, NULL, error);
        ew_stream_truncate(strand->stream, length);
    } else if (status == EW_ERROR_CONTEXT) {
        status = EW_OK; /* no room for the question: no score */
    } else if (error) {
        *error = full;
    }
    free(hidden);
    return status;
}

ew_status ew_verifier_ask(const ew_verifier *verifier, const ew_source *source, ew_strand *strand, ew_error *error) {
    ew_tokens question = {0};
    ew_status status = make_question(verifier, strand, &question, error);
    if (status == EW_OK) {
        status = score(verifier, source, strand, &question, error);
    }
    ew_tokens_free(&question);
    return status;
}
