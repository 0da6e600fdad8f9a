/* Training on a quantized base: the forward pass is the engine's bit for bit, and the gradient that of a plain reference in
 * which every quantizer adds a constant. */
#include "model_support.h"
#include "train_support.h"

#include "base/random.h"
#include "train/packed.h"

enum { PROMPT = 37, LENGTH = 70, RANK = 3 };

static ew_quantize_options variant(ew_quantize_scheme scheme, ew_activation_type activations) {
    ew_quantize_options options = ew_quantize_default_options();
    options.scheme = scheme;
    options.activations = activations;
    return options;
}

static ew_network *open_network(const ew_model *model) {
    ew_lora_plan plan = {.seed = 4};
    for (size_t kind = 0; kind < EW_LINEARS; kind++) {
        plan.modules[kind] = (ew_lora_module){RANK + kind % 2, 6};
    }
    ew_network *network;
    EW_ASSERT_OK(ew_network_quantized(model, &plan, &network, error));
    for (size_t i = 0; i < network->parameters.total; i++) {
        network->parameters.values[i] += (float)(0.2 * (ew_random_unit(8, 1, i) - 0.5));
    }
    return network;
}

/* ---- The same logits as the engine's ---- */

/* Logits of positions PROMPT .. LENGTH - 1 as a session gives them, the adapter on from PROMPT on. */
static void engine_logits(const ew_model *model, const ew_network *network, const int32_t *ids, float *logits) {
    ew_lora_view view;
    ew_adapter *adapter;
    ew_stream *stream;
    ew_session *session = open_test_session(model, 1, 0);
    EW_ASSERT_OK(ew_lora_view_open(network, &view, error));
    EW_ASSERT_OK(ew_adapter_from_lora(model, &view.lora, EW_ADAPTER_F32, &adapter, error));
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    run_ids(session, stream, ids, PROMPT, NULL, NULL);
    EW_ASSERT_OK(ew_stream_set_adapter(stream, adapter, error));
    run_ids(session, stream, ids + PROMPT, LENGTH - PROMPT, logits, NULL);
    ew_session_close(session);
    ew_adapter_release(adapter);
    ew_lora_view_close(&view);
}

static void check_forward(const char *name, const ew_quantize_options *options, bool checkpointing) {
    ew_model *model = open_quantized(name, options);
    ew_network *network = open_network(model);
    size_t vocab = vocab_size_of(model), n = (LENGTH - PROMPT) * vocab;
    float *wanted = calloc(n, sizeof *wanted), *got = calloc(n, sizeof *got), weights[LENGTH + 1] = {0};
    int32_t ids[LENGTH + 1];
    assert_true(wanted && got);
    for (size_t i = 0; i <= LENGTH; i++) {
        ids[i] = token_at(0, i, vocab);
    }
    const ew_trainer_options trainer_options = {.n_threads = 1, .checkpointing = checkpointing};
    const ew_train_sequence sequence = {ids, LENGTH + 1, PROMPT, weights};
    ew_trainer *trainer;
    EW_ASSERT_OK(ew_trainer_open(network, &trainer_options, &trainer, error));
    EW_ASSERT_OK(ew_trainer_logits(trainer, &sequence, got, error));
    engine_logits(model, network, ids, wanted);
    assert_memory_equal(got, wanted, n * sizeof *got);
    ew_trainer_close(trainer);
    ew_network_close(network);
    ew_model_close(model);
    free(wanted);
    free(got);
}

static void forward_is_the_engines(void **state) {
    (void)state;
    const ew_quantize_options offset = variant(EW_SCHEME_OFFSET, EW_ACTIVATION_INT16),
                              symmetric = variant(EW_SCHEME_SYMMETRIC, EW_ACTIVATION_INT16),
                              int8 = variant(EW_SCHEME_SYMMETRIC, EW_ACTIVATION_INT8);
    check_forward("qwen2-tiny", &offset, false);
    check_forward("qwen3-tiny", &symmetric, true);
    check_forward("llama-tiny", &int8, false);
}

/* ---- The reference ---- */

enum { MOST_WIDTH = 512, MOST_CONSTANTS = 1 << 16, SHORT_PROMPT = 5, SHORT = 12 };

/* A model in plain loops. The first pass records what every quantizer changes; later ones add just that. */
typedef struct reference {
    const ew_model *model;
    const ew_network *network;
    const int32_t *ids;
    double *constants;
    size_t at;
    bool records;
    double k[4][SHORT][MOST_WIDTH], v[4][SHORT][MOST_WIDTH];
} reference;

static void quantize(reference *r, double *x, size_t n, double code_max) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmaxf(largest, fabsf((float)x[i]));
    }
    float scale = largest / (float)code_max;
    for (size_t i = 0; i < n; i++) {
        assert_true(r->at < MOST_CONSTANTS);
        if (r->records) {
            r->constants[r->at] = scale > 0 ? (double)scale * (double)rintf((float)x[i] / scale) - x[i] : 0;
        }
        x[i] += r->constants[r->at++];
    }
}

static void norm(const reference *r, const double *x, const float *weight, size_t n, double *y) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    double root = sqrt(sum / (double)n + (double)r->model->config.rms_norm_eps);
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] / root * (double)weight[i];
    }
}

static void product(const ew_matrix *w, const double *x, double *y) {
    float row[MOST_WIDTH];
    for (size_t i = 0; i < w->rows; i++) {
        ew_matrix_read_row(w, i, row);
        y[i] = 0;
        for (size_t j = 0; j < w->cols; j++) {
            y[i] += (double)row[j] * x[j];
        }
    }
}

static void linear(const reference *r, size_t layer, ew_linear_kind kind, bool adapted, const double *x, double *y) {
    const ew_train_linear *l = &r->network->layers[layer].linears[kind];
    product(l->packed, x, y);
    for (size_t k = 0; adapted && k < l->rank; k++) {
        double u = 0;
        for (size_t j = 0; j < l->cols; j++) {
            u += (double)l->a.values[k * l->cols + j] * x[j];
        }
        for (size_t i = 0; i < l->rows; i++) {
            y[i] += (double)l->scale * (double)l->b.values[i * l->rank + k] * u;
        }
    }
    for (size_t i = 0; l->bias.values && i < l->rows; i++) {
        y[i] += (double)l->bias.values[i];
    }
}

static void finish_heads(const reference *r, size_t position, size_t n_heads, const float *weight, double *x) {
    size_t dim = r->model->config.head_dim, half = dim / 2;
    float cosine[128], sine[128];
    ew_rope_at(&r->model->rope, position, cosine, sine);
    for (size_t h = 0; h < n_heads; h++, x += dim) {
        if (weight) {
            norm(r, x, weight, dim, x);
        }
        for (size_t i = 0; i < half; i++) {
            double a = x[i], b = x[i + half];
            x[i] = a * (double)cosine[i] - b * (double)sine[i];
            x[i + half] = b * (double)cosine[i] + a * (double)sine[i];
        }
    }
}

static void attend(reference *r, size_t layer, size_t position, double *q, double *out) {
    const ew_config *config = &r->model->config;
    size_t dim = config->head_dim, group = config->n_heads / config->n_kv_heads;
    for (size_t h = 0; h < config->n_heads; h++) {
        double p[SHORT], sum = 0;
        size_t at = h / group * dim;
        quantize(r, q + h * dim, dim, 32639);
        for (size_t t = 0; t <= position; t++) {
            double dot = 0;
            for (size_t i = 0; i < dim; i++) {
                dot += q[h * dim + i] * r->k[layer][t][at + i];
            }
            p[t] = exp(dot / sqrt((double)dim));
            sum += p[t];
        }
        for (size_t i = 0; i < dim; i++) {
            out[h * dim + i] = 0;
            for (size_t t = 0; t <= position; t++) {
                out[h * dim + i] += p[t] / sum * r->v[layer][t][at + i];
            }
        }
    }
}

static void run_layer(reference *r, size_t layer, size_t position, double *x) {
    const ew_config *config = &r->model->config;
    const ew_layer *w = &r->model->weights.layers[layer];
    bool on = position >= SHORT_PROMPT;
    double normed[MOST_WIDTH], q[MOST_WIDTH], out[MOST_WIDTH], gate[MOST_WIDTH], up[MOST_WIDTH];
    double *k = r->k[layer][position], *v = r->v[layer][position];
    norm(r, x, w->attn_norm, config->d_model, normed);
    quantize(r, normed, config->d_model, 32639);
    linear(r, layer, EW_LINEAR_Q, on, normed, q);
    linear(r, layer, EW_LINEAR_K, on, normed, k);
    linear(r, layer, EW_LINEAR_V, on, normed, v);
    finish_heads(r, position, config->n_heads, w->q_norm, q);
    finish_heads(r, position, config->n_kv_heads, w->k_norm, k);
    size_t grain = r->model->weights.kv_grain < config->head_dim ? r->model->weights.kv_grain : config->head_dim;
    for (size_t i = 0; i < config->n_kv_heads * config->head_dim; i += grain) { /* grain divides the tiny heads */
        quantize(r, k + i, grain, 127);
        quantize(r, v + i, grain, 127);
    }
    attend(r, layer, position, q, out);
    quantize(r, out, config->n_heads * config->head_dim, 32639);
    linear(r, layer, EW_LINEAR_O, on, out, normed);
    for (size_t i = 0; i < config->d_model; i++) {
        x[i] += normed[i];
    }
    norm(r, x, w->ffn_norm, config->d_model, normed);
    quantize(r, normed, config->d_model, 32639);
    linear(r, layer, EW_LINEAR_GATE, on, normed, gate);
    linear(r, layer, EW_LINEAR_UP, on, normed, up);
    for (size_t i = 0; i < config->d_ff; i++) {
        gate[i] *= up[i] / (1 + exp(-gate[i]));
    }
    quantize(r, gate, config->d_ff, 32639);
    linear(r, layer, EW_LINEAR_DOWN, on, gate, normed);
    for (size_t i = 0; i < config->d_model; i++) {
        x[i] += normed[i];
    }
}

static double reference_loss(reference *r) {
    const ew_config *config = &r->model->config;
    double loss = 0;
    r->at = 0;
    for (size_t position = 0; position + 1 < SHORT; position++) {
        double x[MOST_WIDTH], logits[MOST_WIDTH], sum = 0;
        float row[MOST_WIDTH];
        ew_embed(&r->model->weights.embedding, (size_t)r->ids[position], row);
        for (size_t i = 0; i < config->d_model; i++) {
            x[i] = (double)row[i];
        }
        for (size_t layer = 0; layer < config->n_layers; layer++) {
            run_layer(r, layer, position, x);
        }
        if (position < SHORT_PROMPT) {
            continue; /* predicted by the base */
        }
        norm(r, x, r->model->weights.output_norm, config->d_model, x);
        quantize(r, x, config->d_model, 32639);
        product(&r->model->weights.head, x, logits);
        for (size_t i = 0; i < config->vocab_size; i++) {
            sum += exp(logits[i]);
        }
        loss += log(sum) - logits[r->ids[position + 1]];
    }
    return loss / (SHORT - 1 - SHORT_PROMPT);
}

static void check_gradient(const char *name, ew_quantize_scheme scheme, size_t text) {
    /* A value that double and float round to neighbouring codes moves loss and gradient: the texts are such that few do. */
    const double tolerance = 5e-4;
    enum { LOOKED_AT = 2 };
    const ew_quantize_options options = variant(scheme, EW_ACTIVATION_INT16);
    ew_model *model = open_quantized(name, &options);
    ew_network *network = open_network(model);
    int32_t ids[SHORT];
    float weights[SHORT];
    for (size_t i = 0; i < SHORT; i++) {
        ids[i] = token_at(text, i, vocab_size_of(model));
        weights[i] = 1;
    }
    const ew_trainer_options trainer_options = {.n_threads = 1};
    const ew_train_sequence sequence = {ids, SHORT, SHORT_PROMPT, weights};
    ew_train_result result;
    ew_trainer *trainer;
    EW_ASSERT_OK(ew_trainer_open(network, &trainer_options, &trainer, error));
    EW_ASSERT_OK(ew_trainer_gradient(trainer, &sequence, 1, NULL, 0, &result, error));
    reference *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->model = model;
    r->network = network;
    r->ids = ids;
    r->constants = calloc(MOST_CONSTANTS, sizeof *r->constants);
    assert_non_null(r->constants);
    r->records = true;
    double plain = reference_loss(r);
    if (!(fabs(plain - result.loss) < 1e-4)) {
        fail_msg("%s: the loss is %.9g, the reference %.9g", name, result.loss, plain);
    }
    r->records = false;
    for (size_t i = 0; i < network->parameters.n_items; i++) {
        const ew_parameter *item = &network->parameters.items[i];
        const float *gradient = ew_trainer_gradient_vector(trainer) + item->at;
        size_t n = item->rows * item->cols;
        double size = 0;
        for (size_t j = 0; j < n; j++) {
            size += (double)gradient[j] * (double)gradient[j];
        }
        for (size_t j = 0; j < LOOKED_AT; j++) {
            size_t index = (size_t)(ew_random_bits(2, i, j) % n);
            float *value = &network->parameters.values[item->at + index], kept = *value, h = 0x1p-12f;
            *value = kept + h;
            double above = reference_loss(r), moved = (double)*value;
            *value = kept - h;
            double expected = (above - reference_loss(r)) / (moved - (double)*value);
            *value = kept;
            if (!(fabs(expected - (double)gradient[index]) <= tolerance * sqrt(size / (double)n))) {
                fail_msg("%s, value %zu: %g, the reference %g", item->name, index, (double)gradient[index], expected);
            }
        }
    }
    free(r->constants);
    free(r);
    ew_trainer_close(trainer);
    ew_network_close(network);
    ew_model_close(model);
}

static void quantizers_add_constants(void **state) {
    (void)state;
    check_gradient("qwen2-tiny", EW_SCHEME_OFFSET, 1);
    check_gradient("qwen3-tiny", EW_SCHEME_SYMMETRIC, 11);
}

/* Rows by tiles are the rows one by one. */
static void rows_by_tiles(void **state) {
    (void)state;
    static const ew_quantize_scheme schemes[] = {EW_SCHEME_OFFSET, EW_SCHEME_SYMMETRIC};
    for (size_t s = 0; s < 2; s++) {
        ew_quantize_options options = variant(schemes[s], EW_ACTIVATION_INT16);
        options.group = s == 0 ? 32 : 0;
        ew_model *model = open_quantized("llama-tiny", &options);
        const ew_layer *layer = &model->weights.layers[1];
        const ew_matrix *matrices[] = {&layer->q, &layer->down, &layer->gate, &model->weights.embedding};
        for (size_t i = 0; i < 4; i++) {
            const ew_matrix *m = matrices[i];
            size_t begin = 16, n = m->rows - begin < 37 ? m->rows - begin : 37;
            float *rows = calloc(n * m->cols, sizeof *rows), *row = calloc(m->cols, sizeof *row);
            assert_true(rows && row);
            ew_packed_read_rows(m, begin, n, rows);
            for (size_t r = 0; r < n; r++) {
                ew_matrix_read_row(m, begin + r, row);
                assert_memory_equal(rows + r * m->cols, row, m->cols * sizeof *row);
            }
            free(rows);
            free(row);
        }
        ew_model_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward_is_the_engines), cmocka_unit_test(rows_by_tiles),
                                       cmocka_unit_test(quantizers_add_constants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
