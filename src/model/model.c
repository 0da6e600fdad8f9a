#include "model/model.h"
#include "base/memory.h"
#include "model/options.h"

#include <stdlib.h>
#include <string.h>

/* The precision of the reference when the caller does not say: BF16 loses nothing if no weight has more than that. */
static ew_matrix_format natural_format(const ew_checkpoint *checkpoint) {
    for (size_t i = 0; i < ew_checkpoint_tensor_count(checkpoint); i++) {
        const ew_tensor *tensor = ew_checkpoint_tensor_at(checkpoint, i);
        if (tensor->rows > 1 && tensor->type != EW_DTYPE_BF16) {
            return EW_MATRIX_F32;
        }
    }
    return EW_MATRIX_BF16;
}

static ew_status load_unquantized(ew_model *model, const ew_model_options *options, bool own_file, ew_error *error) {
    ew_matrix_format format = options->weights == EW_WEIGHTS_F32    ? EW_MATRIX_F32
                              : options->weights == EW_WEIGHTS_BF16 ? EW_MATRIX_BF16
                                                                    : natural_format(model->checkpoint);
    ew_pool *pool;
    ew_status status = ew_pool_create(options->n_threads, NULL, &pool, error);
    if (status == EW_OK) {
        status = ew_weights_unquantized(model->checkpoint, own_file ? &model->file : NULL, format, pool,
                                        &model->weights, error);
        ew_pool_destroy(pool);
    }
    return status;
}

static ew_status load_weights(ew_model *model, const ew_model_options *options, ew_error *error) {
    bool own_file = ew_checkpoint_kind(model->checkpoint) == EW_CHECKPOINT_EDGEWISE;
    ew_status status = own_file ? ew_edgewise_file_read(model->checkpoint, &model->file, error) : EW_OK;
    if (status != EW_OK) {
        return status;
    }
    if (own_file && options->weights == EW_WEIGHTS_AUTO) {
        if (options->kv == EW_KV_F32) {
            return ew_fail(error, EW_ERROR_ARGUMENT,
                           "a quantized model has an INT8 KV cache; a float one goes with float weights");
        }
        model->kv_quantized = true;
        return ew_weights_from_file(&model->file, &model->weights, error);
    }
    model->kv_quantized = options->kv == EW_KV_INT8;
    return load_unquantized(model, options, own_file, error);
}

static void add_end_token(ew_model *model, int32_t token) {
    if (token >= 0 && !ew_model_ends_reply(model, token)) {
        model->end_tokens[model->n_end_tokens++] = token;
    }
}

static void collect_end_tokens(ew_model *model) {
    int32_t ids[EW_CHAT_MAX_END];
    size_t n = model->has_template ? ew_chat_end_tokens(&model->chat_template, model->tokenizer, ids) : 0;
    for (size_t i = 0; i < n; i++) {
        add_end_token(model, ids[i]);
    }
    for (size_t i = 0; i < model->config.n_eos; i++) {
        add_end_token(model, model->config.eos_ids[i]);
    }
}

/* A chat template that is not recognised is remembered and told when a conversation is rendered. One that the
 * caller names must do. */
static ew_status load_text(ew_model *model, const char *path, const ew_model_options *options, ew_error *error) {
    const ew_gguf *gguf = ew_checkpoint_gguf(model->checkpoint);
    ew_status status = gguf ? ew_tokenizer_open_gguf(gguf, &model->tokenizer, error)
                            : ew_tokenizer_open_folder(path, &model->tokenizer, error);
    if (status != EW_OK) {
        return status;
    }
    size_t n_tokens = ew_tokenizer_vocab_size(model->tokenizer);
    if (n_tokens > model->config.vocab_size) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the tokenizer has %zu tokens, the model only %zu", path, n_tokens,
                       model->config.vocab_size);
    }
    status =
        ew_chat_template_open(model->tokenizer, options->chat_template, &model->chat_template, &model->template_error);
    model->has_template = status == EW_OK;
    if (status == EW_ERROR_MEMORY || (status != EW_OK && options->chat_template)) {
        return ew_fail(error, status, "%s", model->template_error.message);
    }
    collect_end_tokens(model);
    return EW_OK;
}

static ew_status open_parts(ew_model *model, const char *path, const ew_model_options *options, ew_error *error) {
    ew_status status = ew_checkpoint_open(path, &model->checkpoint, error);
    if (status != EW_OK) {
        return status;
    }
    model->config = *ew_checkpoint_config(model->checkpoint);
    ew_rope_prepare(&model->config.rope, model->config.head_dim, &model->rope);
    status = load_text(model, path, options, error); /* first: it is cheap, and may refuse */
    return status == EW_OK ? load_weights(model, options, error) : status;
}

ew_status ew_model_open(const char *path, const ew_model_options *given, ew_model **out, ew_error *error) {
    *out = NULL;
    ew_model_options options = EW_MODEL_OPTIONS_INIT;
    ew_status status = ew_read_options(given, &options, sizeof options, "ew_model_options", error);
    if (status != EW_OK) {
        return status;
    }
    if (!path) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "no model is named");
    }
    ew_model *model = ew_allocate(1, sizeof *model);
    if (!model) {
        return ew_fail_memory(error, sizeof *model, "a model");
    }
    status = open_parts(model, path, &options, error);
    if (status != EW_OK) {
        ew_model_close(model);
        return status;
    }
    *out = model;
    return EW_OK;
}

void ew_model_close(ew_model *model) {
    if (!model) {
        return;
    }
    ew_weights_free(&model->weights);
    ew_chat_template_free(&model->chat_template);
    ew_tokenizer_close(model->tokenizer);
    ew_edgewise_file_free(&model->file);
    ew_checkpoint_close(model->checkpoint);
    free(model);
}

bool ew_model_ends_reply(const ew_model *model, int32_t token) {
    for (size_t i = 0; i < model->n_end_tokens; i++) {
        if (model->end_tokens[i] == token) {
            return true;
        }
    }
    return false;
}

void ew_model_describe(const ew_model *model, ew_model_info *info) {
    const ew_config *config = &model->config;
    ew_kv_layout layout = ew_kv_layout_make(model->kv_quantized, config->head_dim, model->weights.kv_grain);
    bool own_file = model->checkpoint && ew_checkpoint_kind(model->checkpoint) == EW_CHECKPOINT_EDGEWISE;
    const ew_model_info known = {
        .architecture = ew_architecture_name(config->architecture),
        .chat_template = model->has_template ? model->chat_template.name : NULL,
        .n_layers = config->n_layers,
        .d_model = config->d_model,
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .vocab_size = config->vocab_size,
        .context_length = config->context_length,
        .quantized = model->weights.quantized,
        .own_file = own_file,
        .thinks = model->has_template && model->chat_template.family == EW_CHAT_QWEN3,
        .weight_bytes = model->weights.bytes,
        .kv_bytes_per_token = layout.page_bytes * config->n_layers * config->n_kv_heads / EW_PAGE_POSITIONS,
        .source_fingerprint = own_file ? model->file.source_fingerprint : NULL,
        .weights_fingerprint = own_file ? model->file.weights_fingerprint : NULL,
    };
    ew_write_info(&known, sizeof known, info);
}

void ew_model_sampling(const ew_model *model, ew_sampling *sampling) {
    const ew_sampling_defaults *defaults = &model->config.sampling;
    ew_sampling known = EW_SAMPLING_INIT;
    if (defaults->given) {
        known.temperature = defaults->do_sample ? (float)defaults->temperature : 0.0f;
        known.top_k = defaults->do_sample ? defaults->top_k : 0;
        known.top_p = defaults->do_sample ? (float)defaults->top_p : 1.0f;
        known.min_p = defaults->do_sample ? (float)defaults->min_p : 0.0f;
        known.repetition_penalty = (float)defaults->repetition_penalty;
    }
    ew_write_info(&known, sizeof known, sampling);
}
