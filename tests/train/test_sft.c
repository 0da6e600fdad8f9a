/* A training run that is interrupted and resumed gives the same bits as one that was not; bad numbers stop it. */
#include "train_support.h"

#include "base/random.h"
#include "files.h"
#include "train/sft.h"

#include <unistd.h>

enum { EXAMPLES = 11, VOCAB = 19, LONGEST = 20 };

typedef struct corpus {
    ew_train_sequence sequences[EXAMPLES];
    int32_t ids[EXAMPLES][LONGEST];
    float weights[EXAMPLES][LONGEST];
} corpus;

static void make_corpus(corpus *c, bool masked) {
    for (size_t i = 0; i < EXAMPLES; i++) {
        size_t n = 5 + i % 3 * 5 + i % 2 * 4, prompt = masked ? 2 + i % 2 : 0;
        for (size_t t = 0; t < n; t++) {
            c->ids[i][t] = (int32_t)(ew_random_bits(1, i, t / 3) % VOCAB);
            c->weights[i][t] = t > prompt ? 1 : 0;
        }
        c->sequences[i] = (ew_train_sequence){c->ids[i], n, prompt, c->weights[i]};
    }
}

static ew_network *open_network(bool dense) {
    ew_config config = {.architecture = EW_ARCHITECTURE_QWEN2,
                        .n_layers = 2,
                        .d_model = 16,
                        .n_heads = 2,
                        .n_kv_heads = 1,
                        .head_dim = 8,
                        .d_ff = 24,
                        .vocab_size = VOCAB,
                        .context_length = 64,
                        .rms_norm_eps = 1e-6f,
                        .qkv_bias = true,
                        .tied_embeddings = true,
                        .bos_id = -1};
    config.rope.theta = 1000;
    ew_lora_plan plan = {.seed = 1};
    for (size_t kind = 0; kind < EW_LINEARS; kind++) {
        plan.modules[kind] = (ew_lora_module){4, 8};
    }
    ew_network *network;
    EW_ASSERT_OK(ew_network_random(&config, dense ? NULL : &plan, 0.1, 5, &network, error));
    return network;
}

/* What a run reported. */
typedef struct history {
    double first, last, validation_first, validation_last;
    uint64_t step;
    uint64_t stop_at;
    volatile sig_atomic_t stop;
    ew_network *spoiled; /* gets a bad embedding of token 0 after step 3 */
} history;

static void note(void *context, const ew_sft_report *r) {
    history *h = context;
    if (r->step == 1) {
        h->first = r->loss;
    }
    if (!isnan(r->validation_loss)) {
        h->validation_last = r->validation_loss;
        h->validation_first = r->step == 0 ? r->validation_loss : h->validation_first;
    }
    h->last = r->loss;
    h->step = r->step;
    h->stop = r->step == h->stop_at;
    if (h->spoiled && r->step == 3) {
        h->spoiled->parameters.values[h->spoiled->embedding.gradient] = NAN;
    }
}

static ew_status run_with(ew_network *network, const corpus *c, bool validated, ew_sft_options *options, history *h,
                          ew_error *error) {
    const ew_trainer_options trainer_options = {.n_threads = 2, .pack_rows = 24, .dropout = network->dense ? 0 : 0.1};
    ew_trainer *trainer;
    EW_ASSERT_OK(ew_trainer_open(network, &trainer_options, &trainer, error));
    options->report = note;
    options->context = h;
    options->cancel = &h->stop;
    ew_status status = ew_sft_run(network, trainer, c->sequences, EXAMPLES - 2, c->sequences + EXAMPLES - 2,
                                  validated ? 2 : 0, options, error);
    ew_trainer_close(trainer);
    return status;
}

static ew_status run(ew_network *network, const corpus *c, ew_sft_options *options, history *h, ew_error *error) {
    return run_with(network, c, true, options, h, error);
}

static void temporary(char path[32]) {
    strcpy(path, "/tmp/ew-train-XXXXXX");
    close(mkstemp(path));
}

static void check_resume(bool dense, size_t batch_tokens) {
    corpus c;
    char path[32];
    ew_error error;
    make_corpus(&c, !dense);
    temporary(path);
    ew_sft_options options = EW_SFT_OPTIONS_INIT;
    options.epochs = 4;
    options.batch = 2;
    options.batch_tokens = batch_tokens;
    options.rate = 0.02;
    options.settings = "a test";
    options.evaluate_every = 3;
    ew_network *whole = open_network(dense);
    history h = {.stop_at = UINT64_MAX};
    assert_int_equal(run(whole, &c, &options, &h, &error), EW_OK);
    /* Adapters on random weights learn little. */
    assert_true(dense ? h.last < 0.8 * h.first && h.validation_last < h.validation_first : h.last < h.first);
    uint64_t n_steps = h.step;
    assert_true(n_steps > 8);

    /* Stopped twice; each part begins with a new network, as after a kill. */
    options.checkpoint = path;
    const uint64_t stops[] = {3, n_steps - 2, UINT64_MAX};
    ew_network *part = NULL;
    for (size_t i = 0; i < 3; i++) {
        ew_network_close(part);
        part = open_network(dense);
        options.resume = i > 0;
        h = (history){.stop_at = stops[i]};
        assert_int_equal(run(part, &c, &options, &h, &error), i < 2 ? EW_ERROR_CANCELLED : EW_OK);
        assert_int_equal(h.step, i < 2 ? stops[i] : n_steps);
    }
    assert_memory_equal(part->parameters.values, whole->parameters.values, whole->parameters.total * sizeof(real));

    options.settings = "another test";
    assert_int_equal(run(part, &c, &options, &h, &error), EW_ERROR_FORMAT);
    ew_network *other = open_network(!dense);
    options.settings = "a test";
    assert_int_equal(run(other, &c, &options, &h, &error), EW_ERROR_FORMAT);
    ew_network_close(other);
    ew_network_close(part);
    ew_network_close(whole);
    unlink(path);
}

static void resumed_dense(void **state) {
    (void)state;
    check_resume(true, 0);
    check_resume(true, 25);
}

static void resumed_adapters(void **state) {
    (void)state;
    check_resume(false, 0);
}

/* A loss that is no number: the run stops, the weights and the checkpoint of before stay. */
static void not_a_number(void **state) {
    (void)state;
    corpus c;
    char path[32], kept[48];
    ew_error error;
    make_corpus(&c, false);
    temporary(path);
    snprintf(kept, sizeof kept, "%s.kept", path);
    ew_network *network = open_network(true);
    ew_sft_options options = EW_SFT_OPTIONS_INIT;
    options.batch = 2;
    options.most_steps = 2;
    options.checkpoint = path;
    options.save_every = 1;
    history h = {.stop_at = UINT64_MAX};
    assert_int_equal(run(network, &c, &options, &h, &error), EW_OK);
    assert_int_equal(link(path, kept), 0);
    network->parameters.values[network->embedding.gradient] = NAN;
    options.most_steps = 0;
    options.save_every = 0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        c.ids[i][1] = 0; /* its embedding is the bad one */
    }
    assert_int_equal(run(network, &c, &options, &h, &error),
                     EW_ERROR_NUMERIC); /* the validation before the first step */
    assert_non_null(strstr(error.message, "step 0: the loss is not a number on the validation set; no checkpoint"));
    assert_same_files(path, kept);

    /* In training: the lines of the batch; with more of them than are shown, in order. */
    size_t lines[EXAMPLES];
    for (size_t i = 0; i < EXAMPLES; i++) {
        lines[i] = 10 + 3 * (EXAMPLES - i);
        c.ids[i][1] = i < EXAMPLES - 2 ? 0 : 1;
    }
    options.lines = lines;
    options.batch = EXAMPLES - 2;
    assert_int_equal(run_with(network, &c, false, &options, &h, &error), EW_ERROR_NUMERIC);
    assert_non_null(strstr(error.message,
                           "step 1: the loss is not a number; its batch had lines 19, 22, 25, 28, 31, 34, "
                           "37 and 2 more of the data; no checkpoint was saved before"));
    for (size_t i = 0; i < EXAMPLES; i++) {
        lines[i] = 7;
    }
    options.batch = 2;
    assert_int_equal(run_with(network, &c, false, &options, &h, &error), EW_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "; its batch had line 7 of the data;"));
    assert_same_files(path, kept);
    ew_network_close(network);

    /* The last good state is told. */
    network = open_network(true);
    h.spoiled = network;
    options.save_every = 2;
    char expected[96];
    snprintf(expected, sizeof expected, " of the data; the last good state, of step 2, is %s;", path);
    assert_int_equal(run_with(network, &c, false, &options, &h, &error), EW_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "step 4: the loss is not a number; its batch had line"));
    assert_non_null(strstr(error.message, expected));
    unlink(path);
    unlink(kept);
    ew_network_close(network);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(resumed_dense), cmocka_unit_test(resumed_adapters),
                                       cmocka_unit_test(not_a_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
