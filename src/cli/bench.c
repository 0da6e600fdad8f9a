/* edgewise bench: tokens a second beside what the machine's memory and units allow, measured in the same run. */
#include "base/memory.h"
#include "cli/arguments.h"
#include "cli/bench_switcher.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/machine.h"
#include "cli/progress.h"
#ifdef EW_WITH_TRAIN
#include "cli/train/bench.h"
#endif
#include "model/cost.h"
#include "model/synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, LIST_MOST = 16, ROWS_MOST = 2 * LIST_MOST + 1, STREAMS_MOST = 64, STEPS_MOST = 4096 };

/* Contexts are those of a made-up text up to here. Cells beyond are random ones: to compute them would take minutes. */
enum { TEXT_MOST = 512 };

typedef struct request {
    int shape; /* index of a synthetic shape */
    const char *file;
    size_t prompt, generate, shared_prefix, context;
    const char *streams;
    size_t n_threads, group, adapter_rank;
    int scheme, activations, adapter_storage;
    bool json, train, switcher;
} request;

typedef struct row {
    bool prefill, adapted;
    size_t streams, context;
    double tokens_per_step;
    double seconds[STEPS_MOST]; /* of each step, over all rounds */
    size_t n_steps;
    double round_medians[ROUNDS];
    size_t n_rounds;
    ew_step_cost cost;
    uint64_t checksum; /* of the logits of the last step */
} row;

typedef struct bench {
    request request;
    ew_pool *pool; /* for making weights and measuring the machine */
    ew_model *model;
    ew_session *session;
    ew_stream *prefix;   /* the shared positions, made once */
    ew_adapter *adapter; /* of random values; may be NULL */
    ew_machine machine;
    ew_switcher_cost switcher_cost;
    row *rows; /* [ROWS_MOST] */
    size_t n_rows;
    float *logits;    /* [STREAMS_MOST][vocab] */
    ew_input *inputs; /* [most of a prompt or STREAMS_MOST] */
} bench;

static int32_t token_at(const bench *b, size_t stream, size_t position) {
    return (int32_t)((position * 7919 + stream * 104729 + 17) % b->model->config.vocab_size);
}

/* Appends positions begin .. end - 1 of a made-up text; the last wants logits if `logits` is given. */
static ew_status feed(bench *b, ew_stream *stream, size_t which, size_t begin, size_t end, float *logits,
                      ew_error *error) {
    for (size_t i = begin; i < end; i++) {
        b->inputs[i - begin] = (ew_input){stream, token_at(b, which, i), logits && i + 1 == end};
    }
    return ew_evaluate(b->session, b->inputs, end - begin, logits, NULL, error);
}

/* ---- One round of one row ---- */

static ew_status run_prefill(bench *b, row *r, ew_error *error) {
    ew_stream *stream;
    ew_status status = ew_stream_open(b->session, &stream, error);
    if (status != EW_OK) {
        return status;
    }
    double start = ew_clock_seconds();
    status = feed(b, stream, 0, 0, b->request.prompt, b->logits, error);
    r->seconds[r->n_steps++] = ew_clock_seconds() - start;
    r->checksum = ew_checksum_floats(b->logits, b->model->config.vocab_size);
    ew_stream_close(stream);
    return status;
}

/* Appends positions up to `end` to a stream. */
static ew_status make_context(bench *b, ew_stream *stream, size_t which, size_t end, ew_error *error) {
    size_t begin = ew_stream_length(stream), text_end = end < TEXT_MOST ? end : TEXT_MOST;
    ew_status status = EW_OK;
    if (begin < text_end) {
        status = feed(b, stream, which, begin, text_end, NULL, error);
    }
    return status == EW_OK && text_end < end ? ew_synthetic_cells(stream, end, which, error) : status;
}

static ew_status make_prefix(bench *b, ew_error *error) {
    ew_status status = ew_stream_open(b->session, &b->prefix, error);
    return status == EW_OK ? make_context(b, b->prefix, 0, b->request.shared_prefix, error) : status;
}

/* Streams that share a prefix, made by the model alone, and then each go their own way up to `context`. */
static ew_status open_streams(bench *b, const row *r, ew_stream **streams, ew_error *error) {
    ew_status status = b->prefix ? EW_OK : make_prefix(b, error);
    for (size_t k = 0; status == EW_OK && k < r->streams; k++) {
        status = ew_stream_fork(b->prefix, &streams[k], error);
    }
    for (size_t k = 0; status == EW_OK && r->adapted && k < r->streams; k++) {
        status = ew_stream_set_adapter(streams[k], b->adapter, error);
    }
    for (size_t k = 0; status == EW_OK && k < r->streams; k++) {
        status = make_context(b, streams[k], k, r->context, error);
    }
    return status;
}

static ew_status run_steps(bench *b, row *r, ew_stream **streams, ew_error *error) {
    size_t vocab_size = b->model->config.vocab_size, first = r->n_steps;
    for (size_t step = 0; step < b->request.generate; step++) {
        for (size_t k = 0; k < r->streams; k++) {
            b->inputs[k] = (ew_input){streams[k], token_at(b, k, r->context + step), true};
        }
        double start = ew_clock_seconds();
        ew_status status = ew_evaluate(b->session, b->inputs, r->streams, b->logits, NULL, error);
        if (status != EW_OK) {
            return status;
        }
        r->seconds[r->n_steps++] = ew_clock_seconds() - start;
    }
    r->checksum = ew_checksum_floats(b->logits, r->streams * vocab_size);
    double round[STEPS_MOST];
    memcpy(round, r->seconds + first, (r->n_steps - first) * sizeof *round);
    r->round_medians[r->n_rounds++] = ew_median(round, r->n_steps - first);
    return EW_OK;
}

static ew_status run_decode(bench *b, row *r, ew_error *error) {
    ew_stream *streams[STREAMS_MOST] = {0};
    ew_status status = open_streams(b, r, streams, error);
    if (status == EW_OK) {
        status = run_steps(b, r, streams, error);
    }
    for (size_t k = 0; k < STREAMS_MOST; k++) {
        ew_stream_close(streams[k]);
    }
    return status;
}

/* Rounds go over all rows, so that a drift of the machine meets all of them. The first round warms up. */
static ew_status run_rounds(bench *b, ew_error *error) {
    ew_progress progress;
    ew_progress_begin(&progress, "measuring", "rows", (ROUNDS + 1) * b->n_rows);
    ew_status status = EW_OK;
    for (size_t round = 0; status == EW_OK && round <= ROUNDS; round++) {
        for (size_t i = 0; status == EW_OK && i < b->n_rows; i++) {
            row *r = &b->rows[i];
            status = r->prefill ? run_prefill(b, r, error) : run_decode(b, r, error);
            if (round == 0) {
                r->n_steps = r->n_rounds = 0;
            } else if (r->prefill && status == EW_OK) {
                r->round_medians[r->n_rounds++] = r->seconds[r->n_steps - 1];
            }
            ew_progress_update(&progress, round * b->n_rows + i + 1, NULL);
        }
    }
    ew_progress_end(&progress);
    return status;
}

/* ---- What is measured ---- */

static bool add_row(bench *b, bool prefill, size_t streams, bool adapted) {
    const request *q = &b->request;
    if (streams == 0 || streams > STREAMS_MOST) {
        return false;
    }
    row *r = &b->rows[b->n_rows++];
    *r = (row){.prefill = prefill, .adapted = adapted, .streams = streams, .context = prefill ? q->prompt : q->context};
    if (prefill) {
        r->tokens_per_step = (double)q->prompt;
        r->cost = ew_model_step_cost(b->model, q->prompt, 1, q->prompt);
        return true;
    }
    size_t own = q->context - q->shared_prefix + q->generate / 2;
    r->tokens_per_step = (double)streams;
    r->cost = ew_model_step_cost(b->model, streams, streams, q->shared_prefix + streams * own);
    if (adapted) {
        ew_step_cost more = ew_adapter_step_cost(b->adapter, streams);
        r->cost.bytes += more.bytes;
        r->cost.macs += more.macs;
    }
    return true;
}

/* "1,2,4" into rows; with an adapter each of them twice, without it and with it. */
static bool add_stream_rows(bench *b, const char *list) {
    size_t n_listed = 0;
    for (const char *at = list;; at++) {
        char *end;
        unsigned long n = strtoul(at, &end, 10);
        if (n_listed++ == LIST_MOST || *at < '0' || *at > '9' || (*end && *end != ',') ||
            !add_row(b, false, n, false) || (b->adapter && !add_row(b, false, n, true))) {
            return false;
        }
        if (!*end) {
            return true;
        }
        at = end;
    }
}

static ew_status open_model(bench *b, ew_error *error) {
    const request *q = &b->request;
    if (q->file) {
        ew_status status = ew_model_open(q->file, NULL, &b->model, error);
        if (status == EW_OK && !b->model->weights.quantized) {
            return ew_fail(error, EW_ERROR_ARGUMENT,
                           "%s is not quantized; bench wants what `edgewise quantize` makes of it", q->file);
        }
        return status;
    }
    const ew_synthetic_options options = {
        .shape = ew_synthetic_shape_names[q->shape],
        .format = q->scheme == 0   ? EW_MATRIX_INT4_SYMMETRIC
                  : q->scheme == 1 ? EW_MATRIX_INT4_OFFSET
                                   : EW_MATRIX_INT8,
        .group = q->group,
        .activations = q->activations == 0 ? EW_ACTIVATION_INT16 : EW_ACTIVATION_INT8,
        .context_length = 1 << 17,
    };
    return ew_synthetic_model(&options, b->pool, &b->model, error);
}

/* Positions that the longest row takes. */
static size_t positions_wanted(const request *q) {
    size_t decode = q->generate > 0 ? q->context + q->generate : 0;
    return q->prompt > decode ? q->prompt : decode;
}

static ew_status open_all(bench *b, ew_error *error) {
    ew_status status = ew_pool_create(b->request.n_threads, NULL, &b->pool, error);
    if (status == EW_OK) {
        status = open_model(b, error);
    }
    if (status == EW_OK && b->request.adapter_rank > 0) {
        static const ew_adapter_storage storages[] = {EW_ADAPTER_INT8, EW_ADAPTER_F16, EW_ADAPTER_F32};
        status = ew_synthetic_adapter(b->model, b->request.adapter_rank, 1, storages[b->request.adapter_storage],
                                      &b->adapter, error);
    }
    if (status == EW_OK) {
        ew_session_options options = EW_SESSION_OPTIONS_INIT;
        options.n_threads = b->request.n_threads;
        size_t wanted = positions_wanted(&b->request), most = b->model->config.context_length;
        status = wanted <= most
                     ? ew_session_open(b->model, &options, &b->session, error)
                     : ew_fail(error, EW_ERROR_ARGUMENT,
                               "%zu positions are asked for; this model was made for at most %zu", wanted, most);
    }
    if (status == EW_OK) {
        ew_interrupt_watch(b->session);
        size_t n = b->request.prompt > b->request.context ? b->request.prompt : b->request.context;
        b->inputs = ew_allocate(n > STREAMS_MOST ? n : STREAMS_MOST, sizeof *b->inputs);
        b->logits = ew_allocate_aligned(STREAMS_MOST * b->model->config.vocab_size, sizeof *b->logits);
        b->rows = ew_allocate(ROWS_MOST, sizeof *b->rows);
        if (!b->inputs || !b->logits || !b->rows) {
            status = ew_fail_memory(error, STREAMS_MOST * b->model->config.vocab_size * sizeof(float), "a benchmark");
        }
    }
    return status;
}

static void close_all(bench *b) {
    ew_interrupt_watch(NULL);
    ew_session_close(b->session);
    ew_adapter_unload(b->adapter);
    ew_model_close(b->model);
    ew_pool_destroy(b->pool);
    free(b->inputs);
    free(b->logits);
    free(b->rows);
}

/* ---- What is told ---- */

typedef struct summary {
    double step_ms, spread, tokens_per_s, limit_ms, share;
} summary;

/* Spread: how far the rounds' medians lie apart, over their middle. */
static summary summarize(const bench *b, row *r) {
    size_t planes = b->model->weights.activations == EW_ACTIVATION_INT16 ? 2 : 1;
    double step = ew_median(r->seconds, r->n_steps), middle = ew_median(r->round_medians, r->n_rounds);
    double by_memory = r->cost.bytes / (b->machine.read_gbps * 1e9);
    double by_units = r->cost.macs * (double)planes / (b->machine.int8_gmacs * 1e9);
    double limit = by_memory > by_units ? by_memory : by_units;
    return (summary){.step_ms = step * 1e3,
                     .spread = (r->round_medians[r->n_rounds - 1] - r->round_medians[0]) / middle,
                     .tokens_per_s = r->tokens_per_step / step,
                     .limit_ms = limit * 1e3,
                     .share = limit / step};
}

static const char *shape_name(const bench *b) {
    return b->request.file ? b->request.file : ew_synthetic_shape_names[b->request.shape];
}

static size_t rank_of(const bench *b, const row *r) {
    return r->adapted ? b->request.adapter_rank : 0;
}

/* Why the figures are not good, or NULL. */
static const char *complaint(const bench *b) {
    double most = 0;
    for (size_t i = 0; i < b->n_rows; i++) {
        double spread = summarize(b, &b->rows[i]).spread;
        most = spread > most ? spread : most;
    }
    return ew_machine_complaint(&b->machine, most);
}

static void print_table(const bench *b) {
    const ew_machine *m = &b->machine;
    printf("%s, %s kernels, %zu threads; memory %.1f GB/s, units %.0f GMAC/s (INT8), load %.2f\n", m->cpu,
           b->session->kernels->name, m->n_threads, m->read_gbps, m->int8_gmacs, m->load);
    printf("%s: %.2f bits a weight read, %s activations\n\n", shape_name(b),
           b->rows[0].cost.bytes > 0
               ? 8 * ew_model_step_cost(b->model, 1, 1, 0).bytes / ew_model_step_cost(b->model, 1, 1, 0).macs
               : 0,
           b->model->weights.activations == EW_ACTIVATION_INT16 ? "INT16" : "INT8");
    printf("phase    streams  context  rank  tokens/s    step ms  spread  MB/step   GMAC/step  limit ms  share  "
           "checksum\n");
    for (size_t i = 0; i < b->n_rows; i++) {
        row *r = &b->rows[i];
        summary s = summarize(b, r);
        printf("%-8s %7zu  %7zu  %4zu  %8.1f  %9.3f  %5.1f%%  %7.1f  %10.3f  %8.3f  %4.0f%%  %016llx\n",
               r->prefill ? "prefill" : "decode", r->streams, r->context, rank_of(b, r), s.tokens_per_s, s.step_ms,
               s.spread * 100, r->cost.bytes * 1e-6, r->cost.macs * 1e-9, s.limit_ms, s.share * 100,
               (unsigned long long)r->checksum);
    }
    if (b->request.switcher) {
        const ew_switcher_cost *c = &b->switcher_cost;
        printf("\nA switcher's own work on a prompt of %zu tokens is %.3f ms, %.2f %% of the fastest reading "
               "(%.3f ms). Read in turn without\nand with it, the prompt takes %.2f %% more "
               "(median of %zu pairs, half of them %.2f to %.2f %%).\n",
               b->request.prompt, c->own * 1e3, 100 * c->own / c->alone, c->alone * 1e3, 100 * c->share, c->n_pairs,
               100 * c->low, 100 * c->high);
    }
    const char *why = complaint(b);
    if (why) {
        printf("\nNot a good measurement: %s. Run it again on a quiet machine.\n", why);
    }
}

static json_t *row_json(const bench *b, row *r) {
    char checksum[17];
    summary s = summarize(b, r);
    json_t *object = json_object();
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)r->checksum);
    ew_json_put(&object, "phase", json_string(r->prefill ? "prefill" : "decode"));
    ew_json_put(&object, "shape", ew_json_repaired(shape_name(b), strlen(shape_name(b))));
    ew_json_put(&object, "streams", json_integer((json_int_t)r->streams));
    ew_json_put(&object, "context", json_integer((json_int_t)r->context));
    ew_json_put(&object, "group", json_integer((json_int_t)b->model->weights.layers[0].q.group));
    ew_json_put(&object, "activations",
                json_string(b->model->weights.activations == EW_ACTIVATION_INT16 ? "int16" : "int8"));
    ew_json_put(&object, "adapter_rank", json_integer((json_int_t)rank_of(b, r)));
    ew_json_put(&object, "tokens_per_s", json_real(s.tokens_per_s));
    ew_json_put(&object, "step_ms", json_real(s.step_ms));
    ew_json_put(&object, "spread", json_real(s.spread));
    ew_json_put(&object, "bytes_per_step", json_real(r->cost.bytes));
    ew_json_put(&object, "macs_per_step", json_real(r->cost.macs));
    ew_json_put(&object, "limit_ms", json_real(s.limit_ms));
    ew_json_put(&object, "limit_share", json_real(s.share));
    ew_json_put(&object, "checksum", json_string(checksum));
    return object;
}

static json_t *switcher_json(const bench *b) {
    const ew_switcher_cost *c = &b->switcher_cost;
    json_t *object = json_object();
    ew_json_put(&object, "own_ms", json_real(c->own * 1e3));
    ew_json_put(&object, "own_share", json_real(c->own / c->alone));
    ew_json_put_count(&object, "pairs", c->n_pairs);
    ew_json_put(&object, "share", json_real(c->share));
    ew_json_put(&object, "share_low", json_real(c->low));
    ew_json_put(&object, "share_high", json_real(c->high));
    ew_json_put(&object, "alone_ms", json_real(c->alone * 1e3));
    ew_json_put(&object, "with_ms", json_real(c->with * 1e3));
    return object;
}

static ew_status print_json(const bench *b, ew_error *error) {
    const ew_machine *m = &b->machine;
    json_t *machine = json_object(), *rows = json_array(), *object = json_object();
    ew_json_put(&machine, "cpu", ew_json_repaired(m->cpu, strlen(m->cpu)));
    ew_json_put(&machine, "isa", json_string(b->session->kernels->name));
    ew_json_put(&machine, "threads", json_integer((json_int_t)m->n_threads));
    ew_json_put(&machine, "read_gbps", json_real(m->read_gbps));
    ew_json_put(&machine, "int8_gmacs", json_real(m->int8_gmacs));
    ew_json_put(&machine, "load", json_real(m->load));
    for (size_t i = 0; rows && i < b->n_rows; i++) {
        if (json_array_append_new(rows, row_json(b, &b->rows[i])) != 0) {
            json_decref(rows);
            rows = NULL;
        }
    }
    const char *why = complaint(b);
    ew_json_put(&object, "machine", machine);
    ew_json_put(&object, "rows", rows);
    if (b->request.switcher) {
        ew_json_put(&object, "switcher", switcher_json(b));
    }
    ew_json_put(&object, "good", json_boolean(why == NULL));
    if (why) {
        ew_json_put(&object, "why_not", json_string(why));
    }
    return ew_json_print(object, error);
}

static const char examples[] = "  edgewise bench --shape qwen2.5-0.5b\n"
                               "  edgewise bench --shape qwen2.5-1.5b --adapter-rank 128 --streams 1\n"
                               "  edgewise bench -m smollm2.gguf --streams 1,8 --context 1024 --shared-prefix 512\n"
                               "  EDGEWISE_ISA=avx2 edgewise bench --shape qwen2.5-1.5b --activations int8 --json\n";

static int run(bench *b, const ew_command *command) {
    ew_error error;
    ew_status status = open_all(b, &error);
    if (status == EW_OK) {
        if (b->request.prompt > 0) {
            add_row(b, true, 1, false);
        }
        if (b->request.generate > 0 && !add_stream_rows(b, b->request.streams)) {
            close_all(b);
            return ew_usage_error(command, "--streams takes numbers from 1 to %d, \"1,2,4\"", STREAMS_MOST);
        }
        status = ew_machine_measure(b->pool, b->session->kernels, &b->machine, &error);
    }
    if (status == EW_OK) {
        status = run_rounds(b, &error);
    }
    if (status == EW_OK && b->request.switcher) {
        status = ew_switcher_cost_measure(b->session, b->request.prompt, &b->switcher_cost, &error);
    }
    if (status == EW_OK && b->request.json) {
        status = print_json(b, &error);
    } else if (status == EW_OK) {
        print_table(b);
    }
    close_all(b);
    return status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
}

bool ew_cli_bench_trains(int argc, char **argv) {
    bool asks = false;
    for (int i = 1; i < argc; i++) {
        asks |= strcmp(argv[i], "--train") == 0;
    }
    return asks;
}

static int bench_training(int argc, char **argv) {
#ifdef EW_WITH_TRAIN
    return ew_cli_bench_train(argc, argv);
#else
    (void)argc;
    (void)argv;
    fprintf(stderr, "edgewise: bench --train measures the trainer, which this edgewise was built without "
                    "(EDGEWISE_TRAIN=OFF)\n");
    return EW_EXIT_ERROR;
#endif
}

int ew_cli_bench(int argc, char **argv) {
    if (ew_cli_bench_trains(argc, argv)) {
        return bench_training(argc, argv);
    }
    bench b = {
        .request = {
            .shape = 1, .prompt = 512, .generate = 32, .shared_prefix = 256, .streams = "1,2,4,8,16", .group = 32}};
    request *q = &b.request;
    static const char *const schemes[] = {"symmetric", "offset", "int8", NULL}, *const types[] = {"int16", "int8",
                                                                                                  NULL};
    static const char *const storages[] = {"int8", "f16", "f32", NULL};
    bool context_given = false, shape_given = false;
    const ew_option options[] = {
        {"shape", 0, EW_OPTION_CHOICE, &q->shape, .help = "random weights of this shape", .given = &shape_given,
         .choices = ew_synthetic_shape_names},
        {"model", 'm', EW_OPTION_TEXT, &q->file, .argument = "FILE", .help = "a model instead"},
        {"prompt", 0, EW_OPTION_COUNT, &q->prompt, .argument = "N",
         .help = "tokens of the prompt; 0: no such row (512)", .most = 1 << 16},
        {"generate", 0, EW_OPTION_COUNT, &q->generate, .argument = "N",
         .help = "steps of each decode row and round; 0: no such rows (32)", .most = STEPS_MOST / ROUNDS},
        {"streams", 0, EW_OPTION_TEXT, &q->streams, .argument = "LIST", .help = "decode rows (1,2,4,8,16)"},
        {"shared-prefix", 0, EW_OPTION_COUNT, &q->shared_prefix, .argument = "N",
         .help = "positions that all streams share (256)", .most = 1 << 16},
        {"context", 0, EW_OPTION_COUNT, &q->context, .argument = "N",
         .help = "positions of each stream before decoding (the shared prefix)", .given = &context_given,
         .most = 1 << 16},
        {"threads", 0, EW_OPTION_COUNT, &q->n_threads, .argument = "N", .help = "0: the fast cores (0)",
         .most = EW_THREADS_MAX},
        {"group", 0, EW_OPTION_COUNT, &q->group, .argument = "N", .help = "inputs a scale: 32, 64, 128, 0 (32)"},
        {"scheme", 0, EW_OPTION_CHOICE, &q->scheme, .help = "weights of a shape (symmetric)", .choices = schemes},
        {"activations", 0, EW_OPTION_CHOICE, &q->activations, .help = "of a shape (int16)", .choices = types},
        {"adapter-rank", 0, EW_OPTION_COUNT, &q->adapter_rank, .argument = "N",
         .help = "decode rows also with an adapter of this rank on all layers, of random values; 0: without (0)",
         .most = 4096},
        {"adapter-storage", 0, EW_OPTION_CHOICE, &q->adapter_storage, .help = "of this adapter (int8)",
         .choices = storages},
        {"train", 0, EW_OPTION_FLAG, &q->train,
         .help = "measure training instead; `edgewise bench --train --help` has its options"},
        {"switcher", 0, EW_OPTION_FLAG, &q->switcher,
         .help = "also what a switcher adds to the prompt, read in turn without and with it"},
        {"json", 0, EW_OPTION_FLAG, &q->json, .help = "print one JSON object"},
    };
    const ew_command command = {"bench",
                                "",
                                "Measures prompt and decode speed, beside the limits that the memory's and the units' "
                                "speed of the same run set.",
                                examples,
                                options,
                                sizeof options / sizeof *options,
                                0,
                                0};
    int exit_code;
    const char *none[1];
    if (!ew_arguments_parse(&command, argc, argv, none, &exit_code)) {
        return exit_code;
    }
    if (q->file && shape_given) {
        return ew_usage_error(&command, "-m and --shape exclude each other");
    }
    if (!ew_matrix_group_exists(EW_MATRIX_INT4_SYMMETRIC, q->group)) {
        return ew_usage_error(&command, "--group is 32, 64, 128 or 0, not %zu", q->group);
    }
    if (q->prompt == 0 && q->switcher) {
        return ew_usage_error(&command, "--switcher is about the prompt: --prompt must not be 0");
    }
    if (q->prompt == 0 && q->generate == 0) {
        return ew_usage_error(&command, "with --prompt 0 and --generate 0 there is nothing to measure");
    }
    q->context = context_given ? q->context : q->shared_prefix;
    if (q->context < q->shared_prefix) {
        return ew_usage_error(&command, "--context %zu is less than the shared prefix of %zu", q->context,
                              q->shared_prefix);
    }
    return ew_cli_finish(run(&b, &command));
}
