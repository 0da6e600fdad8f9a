#include "cli/engine.h"
#include "cli/interrupt.h"
#include "base/threads.h"
#include "text/chat_template.h"

#include <stdio.h>

static const char *const weights_names[] = {"auto", "f32", "bf16", NULL};
static const char *const kv_names[] = {"auto", "int8", "f32", NULL};
static const char *const storage_names[] = {"keep", "f32", "f16", "int8", NULL};

enum { MOST_TEMPLATES = 31 };

/* "auto" and the names of the text room, NULL after the last. */
static const char *const *template_names(void) {
    static const char *names[MOST_TEMPLATES + 2] = {"auto"};
    for (size_t i = 0; i < MOST_TEMPLATES && ew_chat_template_name(i); i++) {
        names[i + 1] = ew_chat_template_name(i);
    }
    return names;
}

void ew_engine_option_table(ew_engine *engine, ew_option *table) {
    const ew_option options[EW_ENGINE_OPTIONS] = {
        {.name = "weights",
         .type = EW_OPTION_CHOICE,
         .value = &engine->weights,
         .choices = weights_names,
         .help = "f32, bf16: the unquantized reference"},
        {.name = "kv",
         .type = EW_OPTION_CHOICE,
         .value = &engine->kv,
         .choices = kv_names,
         .help = "cells of the KV cache; auto: f32 for the reference, else int8"},
        {.name = "template",
         .type = EW_OPTION_CHOICE,
         .value = &engine->chat_template,
         .choices = template_names(),
         .help = "the chat template; auto: recognised from the file"},
        {.name = "threads",
         .letter = 't',
         .type = EW_OPTION_COUNT,
         .value = &engine->n_threads,
         .argument = "N",
         .least = 0,
         .most = EW_THREADS_MAX,
         .help = "threads; 0 (default): the fast cores there are"},
        {.name = "context",
         .letter = 'c',
         .type = EW_OPTION_COUNT,
         .value = &engine->context_length,
         .argument = "N",
         .least = 0,
         .most = 1 << 30,
         .help = "most positions; 0 (default): as many as the model was made for"},
    };
    for (size_t i = 0; i < EW_ENGINE_OPTIONS; i++) {
        table[i] = options[i];
    }
}

void ew_adapter_option_table(ew_engine *engine, ew_option *table) {
    const ew_option options[EW_ADAPTER_OPTIONS] = {
        {.name = "adapter",
         .type = EW_OPTION_TEXT,
         .value = &engine->adapter_path,
         .argument = "PATH",
         .help = "a LoRA adapter: a PEFT folder or a LoRA GGUF file"},
        {.name = "adapter-storage",
         .type = EW_OPTION_CHOICE,
         .value = &engine->adapter_storage,
         .choices = storage_names,
         .help = "how its matrices are held; keep: as the file has them"},
    };
    for (size_t i = 0; i < EW_ADAPTER_OPTIONS; i++) {
        table[i] = options[i];
    }
}

static ew_status load_adapter(ew_engine *engine, ew_error *error) {
    ew_adapter_options options = EW_ADAPTER_OPTIONS_INIT;
    ew_adapter_info info = {.size = sizeof info};
    if (!engine->adapter_path) {
        return EW_OK;
    }
    options.storage = (ew_adapter_storage)engine->adapter_storage;
    ew_status status = ew_adapter_load(engine->model, engine->adapter_path, &options, &engine->adapter, error);
    if (status != EW_OK) {
        return status;
    }
    ew_adapter_describe(engine->adapter, &info);
    if (info.other_weights) {
        fprintf(stderr, "edgewise: %s was trained on other weights of this model (another quantization)\n",
                engine->adapter_path);
    }
    return EW_OK;
}

static ew_status open_model(ew_engine *engine, const char *path, ew_error *error) {
    ew_model_options options = EW_MODEL_OPTIONS_INIT;
    options.weights = (ew_weights)engine->weights;
    options.kv = (ew_kv)engine->kv;
    options.chat_template =
        engine->chat_template > 0 ? ew_chat_template_name((size_t)engine->chat_template - 1) : NULL;
    options.n_threads = engine->n_threads;
    ew_status status = ew_model_open(path, &options, &engine->model, error);
    if (status != EW_OK) {
        return status;
    }
    engine->info.size = sizeof engine->info;
    ew_model_describe(engine->model, &engine->info);
    if (!engine->info.own_file && engine->weights == EW_WEIGHTS_AUTO) {
        fprintf(stderr,
                "edgewise: `edgewise quantize` did not make %s, so it runs unquantized: slower, and in more "
                "memory\n",
                path);
    }
    return EW_OK;
}

ew_status ew_engine_open(ew_engine *engine, const char *path, bool runs, ew_error *error) {
    ew_status status = open_model(engine, path, error);
    if (status == EW_OK) {
        status = load_adapter(engine, error);
    }
    if (status != EW_OK || !runs) {
        return status;
    }
    ew_session_options options = EW_SESSION_OPTIONS_INIT;
    options.n_threads = engine->n_threads;
    options.context_length = engine->context_length;
    options.chunk = engine->chunk;
    status = ew_session_open(engine->model, &options, &engine->session, error);
    if (status != EW_OK) {
        return status;
    }
    ew_interrupt_install();
    ew_interrupt_watch(engine->session);
    return ew_stream_open(engine->session, &engine->stream, error);
}

void ew_engine_close(ew_engine *engine) {
    ew_interrupt_watch(NULL);
    ew_stream_close(engine->stream);
    ew_session_close(engine->session);
    ew_adapter_unload(engine->adapter);
    ew_model_close(engine->model);
    engine->adapter = NULL;
    engine->stream = NULL;
    engine->session = NULL;
    engine->model = NULL;
}
