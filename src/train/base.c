#include "train/base.h"

#include <string.h>

static ew_status open_template(ew_train_base *base, const char *name, ew_error *error) {
    ew_status status = ew_chat_template_open(base->tokenizer, name, &base->own_chat, &base->template_error);
    if (status == EW_ERROR_MEMORY || (status != EW_OK && name)) {
        return ew_fail(error, status, "%s", base->template_error.message);
    }
    base->chat = status == EW_OK ? &base->own_chat : NULL;
    return EW_OK;
}

static ew_status open_text(ew_train_base *base, const char *folder, const ew_gguf *gguf, const char *template_name,
                           ew_error *error) {
    ew_status status = gguf ? ew_tokenizer_open_gguf(gguf, &base->own_tokenizer, error)
                            : ew_tokenizer_open_folder(folder, &base->own_tokenizer, error);
    if (status != EW_OK) {
        return status;
    }
    base->tokenizer = base->own_tokenizer;
    return open_template(base, template_name, error);
}

static ew_status check_vocabulary(const ew_train_base *base, ew_error *error) {
    size_t n_tokens = ew_tokenizer_vocab_size(base->tokenizer), vocab_size = base->network->config.vocab_size;
    return n_tokens <= vocab_size
               ? EW_OK
               : ew_fail(error, EW_ERROR_FORMAT, "%s: the tokenizer has %zu tokens, the model only %zu", base->path,
                         n_tokens, vocab_size);
}

static ew_status open_from_nothing(ew_train_base *base, const ew_train_base_options *options, ew_error *error) {
    ew_config config;
    ew_status status = ew_config_from_folder(base->path, &config, error);
    if (status == EW_OK) {
        status = open_text(base, base->path, NULL, options->chat_template, error);
    }
    return status == EW_OK ? ew_network_random(&config, NULL, 0, options->seed, &base->network, error) : status;
}

/* The adapter to go on from, for a base of this configuration. */
static ew_status open_adapter(ew_train_base *base, const ew_config *config, const ew_train_base_options *options,
                              ew_error *error) {
    return options->adapter ? ew_adapter_open(options->adapter, config, &base->adapter, error) : EW_OK;
}

static ew_status open_quantized(ew_train_base *base, const ew_train_base_options *options, ew_error *error) {
    ew_model_options model_options = EW_MODEL_OPTIONS_INIT;
    model_options.chat_template = options->chat_template;
    ew_status status = ew_model_open(base->path, &model_options, &base->model, error);
    if (status == EW_OK) {
        status = open_adapter(base, &base->model->config, options, error);
    }
    if (status != EW_OK) {
        return status;
    }
    base->tokenizer = base->model->tokenizer;
    base->chat = base->model->has_template ? &base->model->chat_template : NULL;
    base->template_error = base->model->template_error;
    return base->adapter
               ? ew_network_continue(NULL, base->model, ew_adapter_file_content(base->adapter), &base->network, error)
               : ew_network_quantized(base->model, &options->plan, &base->network, error);
}

static ew_status open_floats(ew_train_base *base, const ew_train_base_options *options, ew_error *error) {
    if (options->full && ew_checkpoint_gguf(base->checkpoint)) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s is a GGUF file: all weights are trained from a Hugging Face folder, and written as one",
                       base->path);
    }
    ew_status status = open_text(base, base->path, ew_checkpoint_gguf(base->checkpoint), options->chat_template, error);
    if (status == EW_OK) {
        status = open_adapter(base, ew_checkpoint_config(base->checkpoint), options, error);
    }
    if (status != EW_OK) {
        return status;
    }
    return base->adapter
               ? ew_network_continue(base->checkpoint, NULL, ew_adapter_file_content(base->adapter), &base->network,
                                     error)
               : ew_network_open(base->checkpoint, options->full ? NULL : &options->plan, &base->network, error);
}

ew_status ew_train_base_open(const char *path, const ew_train_base_options *options, ew_train_base *base,
                             ew_error *error) {
    *base = (ew_train_base){.path = path};
    ew_status status;
    if (options->from_nothing) {
        status = open_from_nothing(base, options, error);
        return status == EW_OK ? check_vocabulary(base, error) : status;
    }
    status = ew_checkpoint_open(path, &base->checkpoint, error);
    if (status != EW_OK) {
        return status;
    }
    bool quantized = ew_checkpoint_kind(base->checkpoint) == EW_CHECKPOINT_EDGEWISE;
    if (quantized && !options->float_weights && !options->full) {
        ew_checkpoint_close(base->checkpoint);
        base->checkpoint = NULL;
        return open_quantized(base, options, error);
    }
    status = open_floats(base, options, error);
    return status == EW_OK ? check_vocabulary(base, error) : status;
}

void ew_train_base_close(ew_train_base *base) {
    ew_network_close(base->network);
    ew_adapter_close(base->adapter);
    ew_model_close(base->model);
    ew_checkpoint_close(base->checkpoint);
    ew_chat_template_free(&base->own_chat);
    ew_tokenizer_close(base->own_tokenizer);
    *base = (ew_train_base){0};
}
