/* Every gradient against central differences, in double precision, on tiny models in which all parts matter. */
#include "train_support.h"

#include "base/random.h"

enum { VOCAB = 13 };

static ew_config tiny_config(ew_architecture architecture) {
    ew_config config = {.architecture = architecture,
                        .n_layers = 2,
                        .d_model = 10,
                        .n_heads = 4,
                        .n_kv_heads = 2,
                        .head_dim = 6,
                        .d_ff = 14,
                        .vocab_size = VOCAB,
                        .context_length = 64,
                        .rms_norm_eps = 1e-5f,
                        .qkv_bias = architecture == EW_ARCHITECTURE_QWEN2,
                        .qk_norm = architecture == EW_ARCHITECTURE_QWEN3,
                        .o_bias = architecture == EW_ARCHITECTURE_LLAMA,
                        .tied_embeddings = architecture != EW_ARCHITECTURE_QWEN3,
                        .bos_id = -1};
    config.rope.theta = 100;
    return config;
}

/* Sequences of several lengths, some targets weighted, prompts where `masked`. */
static batch random_batch(bool masked) {
    static const size_t lengths[] = {9, 2, 14, 5}, prompts[] = {4, 0, 7, 1};
    batch b = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        int32_t *ids = calloc(n, sizeof *ids);
        float *weights = calloc(n, sizeof *weights);
        assert_true(ids && weights);
        for (size_t t = 0; t < n; t++) {
            ids[t] = (int32_t)(ew_random_bits(5, i, t) % VOCAB);
            weights[t] = t == 0 ? 0.0f : t % 3 == 1 ? 1.0f : t % 3 == 2 ? 0.25f : i == 1 ? 1.0f : 0.0f;
        }
        batch_add(&b, ids, weights, n, masked ? prompts[i] : 0);
    }
    return b;
}

/* Moves every parameter off the special values of initialisation. */
static void shake(ew_network *network) {
    for (size_t i = 0; i < network->parameters.total; i++) {
        network->parameters.values[i] += 0.6 * (ew_random_unit(11, 1, i) - 0.5);
    }
}

typedef struct check {
    ew_network *network;
    ew_trainer *trainer;
    const batch *b;
    const ew_train_loss *loss;
    bool drops;
} check;

enum { STEP = 3 };

/* Dropout is a part of the loss only where a gradient is computed. */
static double loss_of(const check *c) {
    ew_train_result result;
    if (c->drops) {
        EW_ASSERT_OK(ew_trainer_gradient(c->trainer, c->b->items, c->b->n, c->loss, STEP, &result, error));
    } else {
        EW_ASSERT_OK(ew_trainer_evaluate(c->trainer, c->b->items, c->b->n, c->loss, &result, error));
    }
    return result.loss;
}

/* The derivative by one value, to the fourth order. */
static double difference(const check *c, real *value) {
    const double h = 2e-4, offsets[] = {h, -h, 2 * h, -2 * h}, factors[] = {8, -8, -1, 1};
    double kept = *value, sum = 0;
    for (size_t i = 0; i < 4; i++) {
        *value = kept + offsets[i];
        sum += factors[i] * loss_of(c);
    }
    *value = kept;
    return sum / (12 * h);
}

static void assert_all_gradients(const check *c) {
    enum { MOST = 12 }; /* values of a tensor that are looked at */
    size_t total = c->network->parameters.total;
    real *gradient = calloc(total, sizeof *gradient);
    assert_non_null(gradient);
    ew_train_result result;
    EW_ASSERT_OK(ew_trainer_gradient(c->trainer, c->b->items, c->b->n, c->loss, STEP, &result, error));
    memcpy(gradient, ew_trainer_gradient_vector(c->trainer), total * sizeof *gradient);
    for (size_t i = 0; i < c->network->parameters.n_items; i++) {
        const ew_parameter *item = &c->network->parameters.items[i];
        size_t n = item->rows * item->cols, stride = n / MOST + 1;
        double off = 0, size = 0;
        for (size_t j = 0; j < n; j += stride) {
            double expected = difference(c, &c->network->parameters.values[item->at + j]);
            off += (expected - gradient[item->at + j]) * (expected - gradient[item->at + j]);
            size += expected * expected;
        }
        if (!(sqrt(off) <= 1e-6 * sqrt(size)) || size == 0) {
            fail_msg("%s: the gradient is off by %g of %g", item->name, sqrt(off), sqrt(size));
        }
    }
    free(gradient);
}

static void check_network(ew_network *network, const ew_trainer_options *options, const ew_train_loss *loss,
                          bool masked) {
    batch b = random_batch(masked);
    check c = {.network = network, .b = &b, .loss = loss, .drops = options->dropout > 0};
    shake(network);
    EW_ASSERT_OK(ew_trainer_open(network, options, &c.trainer, error));
    assert_all_gradients(&c);
    ew_trainer_close(c.trainer);
    ew_network_close(network);
    batch_free(&b);
}

static ew_network *dense(ew_architecture architecture) {
    ew_config config = tiny_config(architecture);
    ew_network *network;
    EW_ASSERT_OK(ew_network_random(&config, NULL, 0.3, 7, &network, error));
    return network;
}

static ew_network *adapted(ew_architecture architecture, bool all) {
    ew_config config = tiny_config(architecture);
    ew_lora_plan plan = {.seed = 3, .rslora = all};
    for (size_t kind = 0; kind < EW_LINEARS; kind++) {
        if (all || kind == EW_LINEAR_V || kind == EW_LINEAR_GATE) {
            plan.modules[kind] = (ew_lora_module){2 + kind % 3, 5};
        }
    }
    ew_network *network;
    EW_ASSERT_OK(ew_network_random(&config, &plan, 0.3, 7, &network, error));
    return network;
}

static const ew_trainer_options plain = {.n_threads = 2, .pack_rows = 12};

static void dense_all(void **state) {
    (void)state;
    check_network(dense(EW_ARCHITECTURE_QWEN2), &plain, NULL, false);
    check_network(dense(EW_ARCHITECTURE_QWEN3), &plain, NULL, false);
    check_network(dense(EW_ARCHITECTURE_LLAMA), &plain, NULL, false);
}

static void dense_checkpointing(void **state) {
    (void)state;
    const ew_trainer_options options = {.n_threads = 1, .pack_rows = 100, .checkpointing = true};
    check_network(dense(EW_ARCHITECTURE_QWEN3), &options, NULL, false);
}

static void adapters(void **state) {
    (void)state;
    check_network(adapted(EW_ARCHITECTURE_QWEN2, true), &plain, NULL, false);
    check_network(adapted(EW_ARCHITECTURE_QWEN3, false), &plain, NULL, false);
}

static void adapters_masked(void **state) {
    (void)state;
    const ew_trainer_options options = {.n_threads = 2, .pack_rows = 100, .checkpointing = true};
    check_network(adapted(EW_ARCHITECTURE_QWEN3, true), &plain, NULL, true);
    check_network(adapted(EW_ARCHITECTURE_LLAMA, true), &options, NULL, true);
}

static void adapters_dropout(void **state) {
    (void)state;
    const ew_trainer_options options = {.n_threads = 1, .pack_rows = 12, .dropout = 0.3, .seed = 9};
    check_network(adapted(EW_ARCHITECTURE_QWEN2, true), &options, NULL, true);
}

/* Some term that is no cross-entropy: (log p + token / 4)^2 */
static double squared(void *context, size_t sequence, size_t token, double log_probability, double *derivative) {
    (void)sequence;
    double shifted = log_probability + *(const double *)context * (double)token;
    *derivative = 2 * shifted;
    return shifted * shifted;
}

static void other_losses(void **state) {
    (void)state;
    double factor = 0.25;
    const ew_train_loss loss = {.temperature = 0.7, .divisor = 2.5, .term = squared, .context = &factor};
    check_network(adapted(EW_ARCHITECTURE_QWEN2, true), &plain, &loss, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_all),       cmocka_unit_test(dense_checkpointing), cmocka_unit_test(adapters),
        cmocka_unit_test(adapters_masked), cmocka_unit_test(adapters_dropout),    cmocka_unit_test(other_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
