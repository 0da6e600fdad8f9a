/* What every subcommand that runs a model shares: the options that open one, and the opened thing. */
#ifndef EW_CLI_ENGINE_H
#define EW_CLI_ENGINE_H

#include "cli/arguments.h"
#include "edgewise.h"

/* Start from {0}. The first six are what the options say. */
typedef struct ew_engine {
    int weights;       /* ew_weights */
    int kv;            /* ew_kv */
    int chat_template; /* 0: recognised from the file, else 1 + its index among the names */
    size_t n_threads, context_length, chunk;
    ew_model *model;
    ew_session *session;
    ew_stream *stream;
    ew_model_info info;
} ew_engine;

enum { EW_ENGINE_OPTIONS = 5 };

/* --weights, --kv, --template, --threads, --context into `table`. */
void ew_engine_option_table(ew_engine *engine, ew_option *table);

/* Opens the model, and says on stderr when it runs unquantized because `quantize` did not make it. With
 * `runs` also a session, which Ctrl-C cancels from now on, and a stream. Whatever comes of it,
 * ew_engine_close ends it. */
ew_status ew_engine_open(ew_engine *engine, const char *path, bool runs, ew_error *error);
void ew_engine_close(ew_engine *engine);

#endif
