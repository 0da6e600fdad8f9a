/* What every subcommand that runs a model shares: the options that open one, and the opened thing. */
#ifndef EW_CLI_ENGINE_H
#define EW_CLI_ENGINE_H

#include "cli/arguments.h"
#include "edgewise.h"

/* Start from {0}. The first eight are what the options say. */
typedef struct ew_engine {
    int weights;       /* ew_weights */
    int kv;            /* ew_kv */
    int chat_template; /* 0: recognised from the file, else 1 + its index among the names */
    size_t n_threads, context_length, chunk;
    const char *adapter_path; /* NULL: none */
    int adapter_storage;      /* ew_adapter_storage */
    ew_model *model;
    ew_adapter *adapter; /* loaded; the stream does not have it yet */
    ew_session *session;
    ew_stream *stream;
    ew_model_info info;
} ew_engine;

enum { EW_ENGINE_OPTIONS = 5, EW_ADAPTER_OPTIONS = 2 };

/* --weights, --kv, --template, --threads, --context into `table`. */
void ew_engine_option_table(ew_engine *engine, ew_option *table);

/* --adapter, --adapter-storage into `table`, for commands that have them. */
void ew_adapter_option_table(ew_engine *engine, ew_option *table);

/* Opens the model and the adapter, and says on stderr when the model runs unquantized because `quantize` did not
 * make it, and when the adapter was trained on other weights. With `runs` also a session, which Ctrl-C cancels from now
 * on, and a stream. Whatever comes of it, ew_engine_close ends it. */
ew_status ew_engine_open(ew_engine *engine, const char *path, bool runs, ew_error *error);
void ew_engine_close(ew_engine *engine);

#endif
