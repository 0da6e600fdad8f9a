/* What ew_answer costs on top of the batches that it evaluates: streams of a made-up model, as many tokens each.
 *
 *   bench_answer [shape or model file [streams [tokens [prompt [top_p [rounds]]]]]]        qwen2.5-0.5b 8 64 1000 0.95 3
 *
 * The model's own logits, of random weights, are flat: a draw among 151,936 tokens that are all alike is the worst case.
 * So every other round draws from logits as trained models have them (a few tokens stand out), which replace the model's
 * behind the clock. A model file's logits are its own in every round. Printed are the medians over steps: the batch, and
 * all between two batches. */
#include "bench_support.h"
#include "base/random.h"
#include "format/json.h"
#include "model/synthetic.h"
#include "reason/answer.h"
#include "text/chat_template.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MOST = 1 << 16 };

typedef struct bench {
    ew_pool *pool;
    ew_model *model;
    ew_session *session;
    float *peaked; /* [2 * vocab]: logits to be copied from any place of the first half */
    bool peaks;
    double batch[2][STEPS_MOST], between[2][STEPS_MOST]; /* seconds, without and with peaks */
    size_t n[2];
    bool own;    /* the model comes from a file: its tokenizer, its logits */
    size_t step; /* of the round */
    double last; /* when the last batch ended; 0: none yet */
} bench;

static void check(ew_status status, const ew_error *error) {
    if (status != EW_OK) {
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
}

/* ---- A tokenizer with as many tokens as the model has rows ---- */

static void append_byte_tokens(ew_buffer *json) {
    int32_t next = 256;
    for (int byte = 0; byte < 256; byte++) { /* GPT-2's characters for bytes */
        bool visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        int c = visible ? byte : next++;
        ew_buffer_append_format(json, "\"\\u%04x\":%d,", c, byte);
    }
}

static void make_tokenizer(bench *b) {
    static const char *const specials[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"};
    enum { N_SPECIALS = sizeof specials / sizeof *specials };
    ew_error error = {0};
    ew_buffer json = {0};
    size_t vocab_size = b->model->config.vocab_size;
    ew_buffer_append_text(&json, "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    append_byte_tokens(&json);
    for (size_t id = 256; id + N_SPECIALS < vocab_size; id++) {
        ew_buffer_append_format(&json, "\"w%zu\":%zu%s", id, id, id + N_SPECIALS + 1 < vocab_size ? "," : "");
    }
    ew_buffer_append_text(&json, "}},\"added_tokens\":[");
    for (size_t i = 0; i < N_SPECIALS; i++) {
        ew_buffer_append_format(&json, "%s{\"id\":%zu,\"content\":\"%s\",\"special\":%s}", i > 0 ? "," : "",
                                vocab_size - N_SPECIALS + i, specials[i], i < 3 ? "true" : "false");
    }
    ew_buffer_append_text(&json, "],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                                 "\"decoder\":{\"type\":\"ByteLevel\"}}");
    check(ew_tokenizer_from_json(json.data, json.length, NULL, 0, "bench", &b->model->tokenizer, &error), &error);
    ew_buffer_free(&json);
    check(ew_chat_template_open(b->model->tokenizer, "chatml", &b->model->chat_template, &error), &error);
    b->model->has_template = true;
}

/* ---- Logits ---- */

static double normal(uint64_t stream, uint64_t position) {
    double sum = -6;
    for (uint64_t k = 0; k < 12; k++) {
        sum += ew_random_unit(k, stream, position);
    }
    return sum;
}

static void make_peaked(bench *b) {
    size_t vocab_size = b->model->config.vocab_size;
    b->peaked = ew_allocate(2 * vocab_size, sizeof *b->peaked);
    for (size_t i = 0; i < vocab_size; i++) {
        b->peaked[i] = b->peaked[i + vocab_size] = (float)(2.5 * normal(1, i));
    }
}

/* The best of them with a probability of a half or so at temperature 0.7. No end of turn. */
static void put_peaks(const bench *b, size_t row, float *logits) {
    size_t vocab_size = b->model->config.vocab_size;
    uint64_t at = b->step;
    memcpy(logits, b->peaked + ew_random_bits(2, row, at) % vocab_size, vocab_size * sizeof *logits);
    for (uint64_t k = 0; k < 30; k++) {
        logits[ew_random_bits(3 + k, row, at) % (vocab_size - 8)] = (float)(20.0 - 0.5 * (double)k);
    }
}

static ew_status evaluate(void *self, const ew_input *inputs, size_t n_inputs, float *logits, float *hidden,
                          ew_error *error) {
    bench *b = self;
    double start = ew_seconds();
    bool decodes = logits && n_inputs > 1 && inputs[0].stream != inputs[1].stream;
    ew_status status = ew_evaluate(b->session, inputs, n_inputs, logits, hidden, error);
    double end = ew_seconds();
    size_t *n = &b->n[b->peaks];
    if (decodes && b->last > 0 && *n < STEPS_MOST) {
        b->batch[b->peaks][*n] = end - start;
        b->between[b->peaks][(*n)++] = start - b->last;
    }
    for (size_t i = 0, row = 0; logits && i < n_inputs; i++) {
        if (inputs[i].wants_logits) {
            float *of = logits + row * b->model->config.vocab_size;
            if (b->peaks) {
                put_peaks(b, row, of);
            }
            for (size_t k = b->model->config.vocab_size - 5; !b->own && k < b->model->config.vocab_size; k++) {
                of[k] = -INFINITY; /* nobody ends before the others */
            }
            for (size_t k = 0; b->own && k < b->model->n_end_tokens; k++) {
                of[b->model->end_tokens[k]] = -INFINITY;
            }
            row++;
        }
    }
    b->step++;
    b->last = decodes ? ew_seconds() : 0;
    return status;
}

static double now(void *self) {
    (void)self;
    return ew_seconds();
}

static bool take_text(void *context, const ew_answer_text *piece) {
    *(size_t *)context += piece->length;
    return true;
}

/* ---- Rounds ---- */

static uint64_t run(bench *b, size_t n_streams, size_t n_tokens, size_t n_prompt, double top_p) {
    ew_error error = {0};
    ew_answer_result result;
    ew_answer_callbacks callbacks = EW_ANSWER_CALLBACKS_INIT;
    ew_policy policy = EW_POLICY_INIT;
    size_t n_shown = 0;
    uint64_t hash = 0;
    const ew_source source = {.self = b, .session = b->session, .evaluate = evaluate, .now = now};
    static const char sentence[] = "Tell me a story about the sea. "; /* 8 tokens, or as many as bytes */
    size_t length = b->own ? n_prompt / 8 * (sizeof sentence - 1) : n_prompt;
    char *text = ew_allocate(length, 1);
    for (size_t i = 0; i < length; i++) {
        text[i] = sentence[i % (sizeof sentence - 1)];
    }
    const ew_message message = {"user", text, length};
    policy.mode = EW_MODE_OFF;
    policy.streams = n_streams;
    policy.run_all = true;
    policy.answer_tokens = n_tokens;
    policy.sampling.temperature = 0.7f;
    policy.sampling.top_p = (float)top_p;
    callbacks.on_text = take_text;
    callbacks.context = &n_shown;
    check(ew_answer_from(&source, &message, 1, &policy, &callbacks, &result, &error), &error);
    for (size_t i = 0; i < result.n_candidates; i++) {
        for (size_t k = 0; k < result.candidates[i].n_tokens; k++) {
            hash = ew_random_mix(hash ^ (uint64_t)result.candidates[i].tokens[k]);
        }
    }
    ew_answer_result_free(&result);
    free(text);
    return hash;
}

static double number(int argc, char **argv, int at, double otherwise) {
    return argc > at ? strtod(argv[at], NULL) : otherwise;
}

int main(int argc, char **argv) {
    static bench b;
    ew_error error = {0};
    const ew_synthetic_options options = {.shape = argc > 1 ? argv[1] : "qwen2.5-0.5b",
                                          .format = EW_MATRIX_INT4_SYMMETRIC,
                                          .group = 32,
                                          .activations = EW_ACTIVATION_INT16,
                                          .context_length = 1 << 15};
    size_t n_streams = (size_t)number(argc, argv, 2, 8), n_tokens = (size_t)number(argc, argv, 3, 64);
    size_t n_prompt = (size_t)number(argc, argv, 4, 1000), n_rounds = (size_t)number(argc, argv, 6, 3);
    double top_p = number(argc, argv, 5, 0.95);
    uint64_t hash[2] = {0};
    check(ew_pool_create(0, NULL, &b.pool, &error), &error);
    b.own = strchr(options.shape, '/') || strstr(options.shape, ".gguf");
    if (b.own) {
        check(ew_model_open(options.shape, NULL, &b.model, &error), &error);
    } else {
        check(ew_synthetic_model(&options, b.pool, &b.model, &error), &error);
        make_tokenizer(&b);
        make_peaked(&b);
    }
    check(ew_session_open(b.model, NULL, &b.session, &error), &error);
    for (size_t round = 0; round < 2 * n_rounds; round++) {
        b.peaks = !b.own && round % 2 == 1;
        b.step = 0; /* the same peaks in every round */
        hash[b.peaks] = run(&b, n_streams, n_tokens, n_prompt, top_p);
    }
    printf("%s, %zu streams of %zu tokens behind %zu, top_p %g, %zu threads\n", options.shape, n_streams, n_tokens,
           n_prompt, top_p, ew_pool_size(b.session->pool));
    for (int peaks = 0; peaks < (b.own ? 1 : 2); peaks++) {
        if (b.n[peaks] == 0) {
            continue;
        }
        double batch = median(b.batch[peaks], b.n[peaks]), between = median(b.between[peaks], b.n[peaks]);
        printf("%-7s batch %7.3f ms, between batches %7.3f ms (%4.1f %%), tokens %016llx\n",
               b.own   ? "its own"
               : peaks ? "peaked"
                       : "flat",
               batch * 1e3, between * 1e3, 100 * between / batch, (unsigned long long)hash[peaks]);
    }
    ew_session_close(b.session);
    ew_model_close(b.model);
    ew_pool_destroy(b.pool);
    free(b.peaked);
    return 0;
}
