/* edgewise perplexity: how surprised a model is by a text, by the rule that llama.cpp's tool follows.
 *
 * The file's bytes are tokenized at once and cut into disjoint windows of `context` tokens; a last partial
 * one is dropped. Each window is evaluated from an empty cache and the tokens of its second half are scored:
 * positions context/2 .. context-2 predict the tokens after them. A model whose texts begin with BOS gets it
 * in the place of each window's first token. Perplexity is exp of the mean negative log-likelihood of the
 * scored tokens. */
#include "cli/cli.h"
#include "cli/engine.h"
#include "cli/input.h"
#include "cli/json_output.h"
#include "cli/progress.h"
#include "base/memory.h"
#include "base/threads.h"
#include "reason/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHUNK = 128, DEFAULT_WINDOW = 512 };

typedef struct request {
    ew_engine engine;    /* its context_length is the window */
    size_t skip, chunks; /* windows; chunks 0: all */
    bool json;
} request;

typedef struct scoring {
    ew_engine *engine;
    ew_pool *pool;
    int32_t *tokens; /* of the whole file */
    size_t n_tokens;
    int32_t bos; /* -1: windows stay as they are */
    size_t window;
    size_t first, n_windows; /* windows first .. first + n_windows - 1 are scored */
    ew_input inputs[CHUNK];
    float *logits;        /* [CHUNK][vocab] */
    double losses[CHUNK]; /* of the rows of `logits` */
    int32_t targets[CHUNK];
    double total; /* negative log-likelihood, nats */
    size_t scored;
} scoring;

static void score_rows(void *context, size_t begin, size_t end) {
    scoring *work = context;
    size_t vocab = work->engine->info.vocab_size;
    for (size_t i = begin; i < end; i++) {
        work->losses[i] = -ew_log_probability(work->logits + i * vocab, vocab, 1.0f, work->targets[i]);
    }
}

/* Evaluates positions from .. from + count - 1 of a window and adds the losses of those that are scored. */
static ew_status score_chunk(scoring *work, const int32_t *window, size_t from, size_t count,
                             ew_error *error) {
    size_t n_rows = 0;
    for (size_t i = 0; i < count; i++) {
        size_t position = from + i;
        bool wanted = position >= work->window / 2 && position + 1 < work->window;
        int32_t token = position == 0 && work->bos >= 0 ? work->bos : window[position];
        work->inputs[i] = (ew_input){work->engine->stream, token, wanted};
        if (wanted) {
            work->targets[n_rows++] = window[position + 1];
        }
    }
    ew_status status = ew_evaluate(work->engine->session, work->inputs, count,
                                   n_rows > 0 ? work->logits : NULL, NULL, error);
    if (status != EW_OK) {
        return status;
    }
    ew_pool_run(work->pool, n_rows, 1, score_rows, work);
    for (size_t i = 0; i < n_rows; i++) {
        work->total += work->losses[i];
    }
    work->scored += n_rows;
    return EW_OK;
}

static ew_status score_windows(scoring *work, ew_error *error) {
    ew_progress progress;
    ew_status status = EW_OK;
    ew_progress_begin(&progress, "perplexity", "tokens", work->n_windows * work->window);
    for (size_t i = 0; i < work->n_windows && status == EW_OK; i++) {
        const int32_t *window = work->tokens + (work->first + i) * work->window;
        ew_stream_truncate(work->engine->stream, 0);
        for (size_t from = 0; from < work->window && status == EW_OK; from += CHUNK) {
            size_t count = work->window - from < CHUNK ? work->window - from : CHUNK;
            status = score_chunk(work, window, from, count, error);
        }
        if (status == EW_OK) {
            char note[64];
            snprintf(note, sizeof note, "%.4f after %zu windows", exp(work->total / (double)work->scored),
                     i + 1);
            ew_progress_update(&progress, (i + 1) * work->window, note);
        }
    }
    ew_progress_end(&progress);
    return status;
}

static ew_status choose_windows(const request *asked, const char *path, scoring *work, ew_error *error) {
    size_t there = work->n_tokens / work->window;
    if (there <= asked->skip) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "%s has %zu tokens, which are %zu windows of %zu: none is left to score", path,
                       work->n_tokens, there, work->window);
    }
    work->first = asked->skip;
    work->n_windows = there - asked->skip;
    if (asked->chunks > 0 && asked->chunks < work->n_windows) {
        work->n_windows = asked->chunks;
    }
    return EW_OK;
}

static ew_status tokenize_file(const request *asked, const char *path, scoring *work, ew_error *error) {
    ew_buffer text = {0};
    int32_t *prefix = NULL;
    size_t n_prefix = 0;
    ew_status status = ew_read_text(path, &text, error);
    if (status == EW_OK) {
        status = ew_tokenize(asked->engine.model, text.data ? text.data : "", text.length, false,
                             &work->tokens, &work->n_tokens, error);
    }
    if (status == EW_OK) { /* an empty text is BOS alone, if the model wants one */
        status = ew_tokenize(asked->engine.model, "", 0, false, &prefix, &n_prefix, error);
    }
    work->bos = status == EW_OK && n_prefix > 0 ? prefix[0] : -1;
    ew_free(prefix);
    ew_buffer_free(&text);
    return status;
}

static ew_status prepare(request *asked, const char *model, const char *path, scoring *work,
                         ew_error *error) {
    ew_status status = ew_engine_open(&asked->engine, model, true, error);
    work->engine = &asked->engine;
    work->window = asked->engine.context_length;
    if (status == EW_OK) { /* works everywhere in the text */
        status = ew_stream_set_adapter(asked->engine.stream, asked->engine.adapter, error);
    }
    if (status == EW_OK) {
        status = tokenize_file(asked, path, work, error);
    }
    if (status == EW_OK) {
        status = choose_windows(asked, path, work, error);
    }
    if (status == EW_OK) {
        status = ew_pool_create(asked->engine.n_threads, NULL, &work->pool, error);
    }
    if (status == EW_OK) {
        size_t bytes = CHUNK * asked->engine.info.vocab_size * sizeof(float);
        work->logits = ew_allocate(CHUNK * asked->engine.info.vocab_size, sizeof(float));
        status = work->logits ? EW_OK : ew_fail_memory(error, bytes, "logits");
    }
    return status;
}

static ew_status print_result(const request *asked, const scoring *work, ew_error *error) {
    double nll = work->total / (double)work->scored;
    if (!asked->json) {
        printf("perplexity %.4f (nll %.6f) over %zu tokens of %zu windows of %zu\n", exp(nll), nll,
               work->scored, work->n_windows, work->window);
        return EW_OK;
    }
    json_t *object = json_object();
    ew_json_put(&object, "perplexity", json_real(exp(nll)));
    ew_json_put(&object, "nll", json_real(nll));
    ew_json_put(&object, "tokens", json_integer((json_int_t)work->scored));
    ew_json_put(&object, "windows", json_integer((json_int_t)work->n_windows));
    ew_json_put(&object, "context", json_integer((json_int_t)work->window));
    return ew_json_print(object, error);
}

static int measure(request *asked, const char *model, const char *path) {
    ew_error error = {0};
    scoring work = {.bos = -1};
    ew_status status = prepare(asked, model, path, &work, &error);
    if (status == EW_OK) {
        status = score_windows(&work, &error);
    }
    if (status == EW_OK) {
        status = print_result(asked, &work, &error);
    }
    ew_pool_destroy(work.pool);
    ew_free(work.tokens);
    free(work.logits);
    ew_engine_close(&asked->engine);
    return status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
}

static const char examples[] = "  edgewise perplexity model.gguf wikitext2-test.txt\n"
                               "  edgewise perplexity model.gguf text.txt --weights f32 --chunks 40 --json\n"
                               "  edgewise perplexity model.gguf text.txt --adapter adapter.gguf\n";

int ew_cli_perplexity(int argc, char **argv) {
    request asked = {.engine.context_length = DEFAULT_WINDOW};
    enum { OWN = 3 };
    ew_option options[OWN + EW_ENGINE_OPTIONS + EW_ADAPTER_OPTIONS] = {
        {.name = "skip",
         .type = EW_OPTION_COUNT,
         .value = &asked.skip,
         .argument = "N",
         .least = 0,
         .help = "windows left out at the beginning"},
        {.name = "chunks",
         .type = EW_OPTION_COUNT,
         .value = &asked.chunks,
         .argument = "N",
         .least = 0,
         .help = "most windows scored; 0 (default): all"},
        {.name = "json",
         .type = EW_OPTION_FLAG,
         .value = &asked.json,
         .help = "print one JSON object: perplexity, nll (mean, nats), tokens, windows, context"},
    };
    ew_engine_option_table(&asked.engine, options + OWN);
    ew_adapter_option_table(&asked.engine, options + OWN + EW_ENGINE_OPTIONS);
    for (size_t i = 0; i < EW_ENGINE_OPTIONS; i++) {
        if (options[OWN + i].value == &asked.engine.context_length) {
            options[OWN + i].least = 4;
            options[OWN + i].help = "tokens of a window, 512; the second half of each is scored";
        }
    }
    const ew_command command = {
        .name = "perplexity",
        .positionals = "MODEL FILE",
        .summary = "Measure how well a model predicts a text. The file's bytes are tokenized at once and cut "
                   "into windows,\n"
                   "a last partial one is dropped; each window is evaluated by itself and its second half "
                   "scored, as\n"
                   "llama.cpp's tool does, so that figures compare.",
        .examples = examples,
        .options = options,
        .n_options = sizeof options / sizeof options[0],
        .least_positionals = 2,
        .most_positionals = 2,
    };
    const char *positionals[2];
    int exit_code;
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    return ew_cli_finish(measure(&asked, positionals[0], positionals[1]));
}
