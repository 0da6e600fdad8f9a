/* edgewise logits: what the model says at every position of a given sequence. For comparing engines. */
#include "cli/cli.h"
#include "cli/engine.h"
#include "cli/input.h"
#include "cli/json_output.h"
#include "cli/progress.h"
#include "base/memory.h"
#include "format/safetensors.h"
#include "reason/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CHUNK = 128, DEFAULT_TOP = 5 };

typedef struct request {
    ew_engine engine;
    const char *ids, *ids_file, *prompt, *output;
    size_t top, adapter_from;
    bool specials, json;
} request;

/* What is evaluated, and the memory that it is evaluated in. */
typedef struct run_state {
    int32_t *tokens; /* [n] */
    size_t n;
    size_t chunk;
    ew_input *inputs;  /* [chunk] */
    float *logits;     /* [chunk][vocab] */
    float *hidden;     /* [n][d] with an output file, else NULL */
    int32_t *best;     /* [top] */
    json_t *positions; /* with --json */
} run_state;

static bool is_separator(char c) {
    return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '[' || c == ']';
}

/* Numbers between separators; a JSON array of ids is such a text too. */
static ew_status parse_ids(const char *text, const char *where, size_t vocab, run_state *state,
                           ew_error *error) {
    size_t capacity = 0;
    for (const char *c = text; *c;) {
        if (is_separator(*c)) {
            c++;
            continue;
        }
        char *end = NULL;
        unsigned long id = strtoul(c, &end, 10);
        if (*c < '0' || *c > '9' || (*end && !is_separator(*end))) {
            return ew_fail(
                error, EW_ERROR_ARGUMENT,
                "%s: \"%.20s\" is no token id; whole numbers with commas or spaces between them are wanted",
                where, c);
        }
        if (id >= vocab) {
            return ew_fail(error, EW_ERROR_ARGUMENT,
                           "%s: there is no token %.20s; the model's ids are 0 to %zu", where, c, vocab - 1);
        }
        if (!ew_grow((void **)&state->tokens, &capacity, state->n + 1, sizeof *state->tokens)) {
            return ew_fail_memory(error, (state->n + 1) * sizeof *state->tokens, "token ids");
        }
        state->tokens[state->n++] = (int32_t)id;
        c = end;
    }
    return EW_OK;
}

static ew_status read_tokens(const request *asked, run_state *state, ew_error *error) {
    size_t vocab = asked->engine.info.vocab_size;
    ew_status status;
    if (asked->prompt) {
        status = ew_tokenize(asked->engine.model, asked->prompt, strlen(asked->prompt), asked->specials,
                             &state->tokens, &state->n, error);
    } else if (asked->ids) {
        status = parse_ids(asked->ids, "--ids", vocab, state, error);
    } else {
        ew_buffer text = {0};
        status = ew_read_text(asked->ids_file, &text, error);
        if (status == EW_OK) {
            status = parse_ids(text.data ? text.data : "", asked->ids_file, vocab, state, error);
        }
        ew_buffer_free(&text);
    }
    if (status == EW_OK && state->n == 0) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "no tokens: at least one is needed");
    }
    return status;
}

static ew_status allocate(const request *asked, run_state *state, ew_error *error) {
    const ew_model_info *info = &asked->engine.info;
    size_t bytes = 0;
    state->chunk = asked->engine.chunk > 0 ? asked->engine.chunk : DEFAULT_CHUNK;
    state->chunk = state->chunk < state->n ? state->chunk : state->n;
    if (!ew_multiply_size(state->chunk, info->vocab_size, &bytes)) {
        return ew_fail_memory(error, SIZE_MAX, "logits");
    }
    state->inputs = ew_allocate(state->chunk, sizeof *state->inputs);
    state->logits = ew_allocate(bytes, sizeof *state->logits);
    state->best = ew_allocate(asked->top, sizeof *state->best);
    state->hidden = asked->output ? ew_allocate(state->n * info->d_model, sizeof *state->hidden) : NULL;
    state->positions = asked->json ? json_array() : NULL;
    if (!state->inputs || !state->logits || !state->best || (asked->output && !state->hidden) ||
        (asked->json && !state->positions)) {
        return ew_fail_memory(error, bytes * sizeof *state->logits, "logits");
    }
    return EW_OK;
}

/* The `top` largest of a row, ties by id, into best. */
static size_t find_best(const float *logits, size_t vocab, size_t top, int32_t *best) {
    size_t count = 0;
    for (size_t id = 0; id < vocab; id++) {
        if (count == top && !(logits[id] > logits[best[top - 1]])) {
            continue;
        }
        size_t place = count < top ? count++ : top - 1;
        while (place > 0 && logits[id] > logits[best[place - 1]]) {
            best[place] = best[place - 1];
            place--;
        }
        best[place] = (int32_t)id;
    }
    return count;
}

static bool add_position(run_state *state, size_t position, const float *row, size_t count, double normal) {
    json_t *object = json_object(), *top = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *entry = json_object();
        ew_json_put(&entry, "id", json_integer(state->best[i]));
        ew_json_put(&entry, "logit", json_real((double)row[state->best[i]]));
        ew_json_put(&entry, "logprob", json_real((double)row[state->best[i]] - normal));
        if (json_array_append_new(top, entry) != 0) {
            json_decref(top);
            top = NULL;
        }
    }
    ew_json_put(&object, "position", json_integer((json_int_t)position));
    ew_json_put(&object, "id", json_integer(state->tokens[position]));
    if (position + 1 < state->n) {
        double next = (double)row[state->tokens[position + 1]] - normal;
        ew_json_put(&object, "next_logprob", json_real(next));
    }
    ew_json_put(&object, "top", top);
    return json_array_append_new(state->positions, object) == 0;
}

static ew_status show_rows(const request *asked, run_state *state, size_t from, size_t count,
                           ew_error *error) {
    size_t vocab = asked->engine.info.vocab_size;
    for (size_t i = 0; i < count; i++) {
        const float *row = state->logits + i * vocab;
        size_t n_best = find_best(row, vocab, asked->top, state->best);
        /* A log-probability is the logit less this. */
        double normal = (double)row[state->best[0]] - ew_log_probability(row, vocab, 1.0f, state->best[0]);
        if (asked->json) {
            if (!add_position(state, from + i, row, n_best, normal)) {
                return ew_fail(error, EW_ERROR_MEMORY, "out of memory while writing JSON");
            }
            continue;
        }
        printf("%5zu %7d ", from + i, (int)state->tokens[from + i]);
        for (size_t k = 0; k < n_best; k++) {
            printf("  %d %.4f (%.4f)", (int)state->best[k], (double)row[state->best[k]],
                   (double)row[state->best[k]] - normal);
        }
        putchar('\n');
    }
    return EW_OK;
}

static ew_status begin_output(const request *asked, const run_state *state, ew_safetensors_writer *writer,
                              ew_error *error) {
    const uint64_t logits[2] = {state->n, asked->engine.info.vocab_size};
    const uint64_t hidden[2] = {state->n, asked->engine.info.d_model};
    ew_status status = ew_safetensors_writer_open(asked->output, writer, error);
    if (status != EW_OK) {
        return status;
    }
    ew_safetensors_write_tensor(writer, "logits", EW_DTYPE_F32, 2, logits);
    ew_safetensors_write_tensor(writer, "hidden", EW_DTYPE_F32, 2, hidden);
    return ew_safetensors_writer_begin(writer, error);
}

/* The next tokens, at most a chunk, `from` being the first: a chunk ends where the adapter begins. */
static ew_status next_chunk(const request *asked, run_state *state, size_t from, size_t *count, ew_error *error) {
    const ew_engine *engine = &asked->engine;
    size_t border = asked->adapter_from;
    ew_status status = EW_OK;
    *count = state->n - from < state->chunk ? state->n - from : state->chunk;
    if (engine->adapter && from == border) {
        status = ew_stream_set_adapter(engine->stream, engine->adapter, error);
    } else if (engine->adapter && from < border && border - from < *count) {
        *count = border - from;
    }
    for (size_t i = 0; i < *count; i++) {
        state->inputs[i] = (ew_input){engine->stream, state->tokens[from + i], true};
    }
    return status;
}

/* Evaluates chunk by chunk; logits go where they were asked for, so that only one chunk of them is in memory.
 */
static ew_status evaluate(const request *asked, run_state *state, ew_safetensors_writer *writer,
                          ew_error *error) {
    const ew_engine *engine = &asked->engine;
    size_t vocab = engine->info.vocab_size;
    ew_progress progress;
    ew_status status = EW_OK;
    ew_progress_begin(&progress, "evaluating", "tokens", state->n);
    for (size_t from = 0, count; from < state->n && status == EW_OK; from += count) {
        float *hidden = state->hidden ? state->hidden + from * engine->info.d_model : NULL;
        status = next_chunk(asked, state, from, &count, error);
        if (status == EW_OK) {
            status = ew_evaluate(engine->session, state->inputs, count, state->logits, hidden, error);
        }
        if (status == EW_OK && writer) {
            status = ew_safetensors_writer_data(writer, state->logits, count * vocab * sizeof(float), error);
        }
        ew_progress_update(&progress, from + count, NULL);
        if (status == EW_OK && (asked->json || !writer)) {
            ew_progress_end(&progress);
            status = show_rows(asked, state, from, count, error);
        }
    }
    ew_progress_end(&progress);
    return status;
}

static ew_status print_json(const request *asked, run_state *state, ew_error *error) {
    json_t *object = json_object();
    ew_json_put(&object, "n", json_integer((json_int_t)state->n));
    ew_json_put(&object, "vocab", json_integer((json_int_t)asked->engine.info.vocab_size));
    ew_json_put(&object, "ids", ew_json_ids(state->tokens, state->n));
    ew_json_put(&object, "positions", state->positions);
    state->positions = NULL;
    return ew_json_print(object, error);
}

static ew_status evaluate_and_write(const request *asked, run_state *state, ew_error *error) {
    ew_safetensors_writer writer = {0};
    ew_status status = EW_OK;
    if (asked->output) {
        status = begin_output(asked, state, &writer, error);
    }
    if (status == EW_OK) {
        status = evaluate(asked, state, asked->output ? &writer : NULL, error);
    }
    if (status == EW_OK && asked->output) {
        size_t bytes = state->n * asked->engine.info.d_model * sizeof(float);
        status = ew_safetensors_writer_data(&writer, state->hidden, bytes, error);
    }
    if (asked->output && status == EW_OK) {
        status = ew_safetensors_writer_commit(&writer, error);
    } else if (asked->output) {
        ew_safetensors_writer_abandon(&writer);
    }
    if (status == EW_OK && asked->json) {
        status = print_json(asked, state, error);
    } else if (status == EW_OK && asked->output) {
        printf("%s: logits [%zu, %zu], hidden [%zu, %zu]\n", asked->output, state->n,
               asked->engine.info.vocab_size, state->n, asked->engine.info.d_model);
    }
    return status;
}

static int show_logits(request *asked, const char *model) {
    ew_error error = {0};
    run_state state = {0};
    ew_status status = ew_engine_open(&asked->engine, model, true, &error);
    if (status == EW_OK) {
        status = read_tokens(asked, &state, &error);
    }
    if (status == EW_OK) {
        status = allocate(asked, &state, &error);
    }
    if (status == EW_OK) {
        status = evaluate_and_write(asked, &state, &error);
    }
    free(state.tokens);
    free(state.inputs);
    free(state.logits);
    free(state.hidden);
    free(state.best);
    json_decref(state.positions);
    ew_engine_close(&asked->engine);
    return status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
}

static const char examples[] =
    "  edgewise logits model.gguf --prompt \"The capital of France is\" --top 3\n"
    "  edgewise logits model.gguf --ids 504,3575,282,4649,314 --json\n"
    "  edgewise logits model.gguf --ids-file ids.txt --weights f32 -o logits.safetensors\n";

int ew_cli_logits(int argc, char **argv) {
    request asked = {.top = DEFAULT_TOP};
    enum { OWN = 9 };
    bool from_given = false;
    ew_option options[OWN + EW_ADAPTER_OPTIONS + EW_ENGINE_OPTIONS] = {
        {.name = "ids",
         .type = EW_OPTION_TEXT,
         .value = &asked.ids,
         .argument = "1,2,3",
         .help = "the tokens"},
        {.name = "ids-file",
         .type = EW_OPTION_TEXT,
         .value = &asked.ids_file,
         .argument = "FILE",
         .help = "the tokens stand in this file, with commas or white space between them"},
        {.name = "prompt",
         .letter = 'p',
         .type = EW_OPTION_TEXT,
         .value = &asked.prompt,
         .argument = "TEXT",
         .help = "the tokens of this text, without a chat template"},
        {.name = "special",
         .type = EW_OPTION_FLAG,
         .value = &asked.specials,
         .help = "text such as <|im_end|> in --prompt becomes that token"},
        {.name = "chunk",
         .type = EW_OPTION_COUNT,
         .value = &asked.engine.chunk,
         .argument = "N",
         .least = 1,
         .most = 4096,
         .help = "tokens evaluated together, 128; results do not depend on it"},
        {.name = "top",
         .type = EW_OPTION_COUNT,
         .value = &asked.top,
         .argument = "N",
         .least = 1,
         .most = 1000,
         .help = "likeliest next tokens shown of each position, 5"},
        {.name = "json", .type = EW_OPTION_FLAG, .value = &asked.json, .help = "print one JSON object"},
        {.name = "adapter-from",
         .type = EW_OPTION_COUNT,
         .value = &asked.adapter_from,
         .given = &from_given,
         .argument = "N",
         .most = 1 << 30,
         .help = "the position from which on --adapter works, 0"},
        {.name = "output",
         .letter = 'o',
         .type = EW_OPTION_TEXT,
         .value = &asked.output,
         .argument = "FILE",
         .help = "write `logits` [n, vocab] and `hidden` [n, d] (after the final norm), both F32, as "
                 "safetensors"},
    };
    ew_adapter_option_table(&asked.engine, options + OWN);
    ew_engine_option_table(&asked.engine, options + OWN + EW_ADAPTER_OPTIONS);
    const ew_command command = {
        .name = "logits",
        .positionals = "MODEL (--ids 1,2,3 | --ids-file FILE | --prompt TEXT)",
        .summary =
            "Evaluate a sequence and show, of every position, the likeliest next tokens: id, logit and (in\n"
            "brackets) log-probability.",
        .examples = examples,
        .options = options,
        .n_options = sizeof options / sizeof options[0],
        .least_positionals = 1,
        .most_positionals = 1,
    };
    const char *positionals[1];
    int exit_code;
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    if ((asked.ids != NULL) + (asked.ids_file != NULL) + (asked.prompt != NULL) != 1) {
        return ew_usage_error(&command, "one of --ids, --ids-file and --prompt is needed");
    }
    if (from_given && !asked.engine.adapter_path) {
        return ew_usage_error(&command, "--adapter-from goes with --adapter");
    }
    return ew_cli_finish(show_logits(&asked, positionals[0]));
}
