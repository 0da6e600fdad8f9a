/* The trainer against losses, gradients and AdamW steps that independent software computed in double precision. Built
 * twice: in float, and in double, where the tolerances are the goldens' own precision. */
#include "train_support.h"

#ifdef EW_TRAIN_DOUBLE
#define LOSS_TOLERANCE 5e-7
#define GRADIENT_TOLERANCE 2e-6
#define LORA_GRADIENT_TOLERANCE 2e-6
#define LOGIT_TOLERANCE 5e-6
#define CHANGE_TOLERANCE 2e-5
#define LORA_CHANGE_TOLERANCE 2e-5
#else
#define LOSS_TOLERANCE 1e-5
#define GRADIENT_TOLERANCE 2e-5
#define LORA_GRADIENT_TOLERANCE 5e-5
#define LOGIT_TOLERANCE 2e-4
#define CHANGE_TOLERANCE 2e-3
#define LORA_CHANGE_TOLERANCE 1e-3
#endif

static ew_checkpoint *open_model(const char *name) {
    char relative[96], path[512];
    ew_checkpoint *checkpoint;
    snprintf(relative, sizeof relative, "goldens/models/%s", name);
    if (!ew_test_shared(relative, path, sizeof path)) {
        return NULL;
    }
    EW_ASSERT_OK(ew_checkpoint_open(path, &checkpoint, error));
    return checkpoint;
}

static ew_trainer *open_trainer(ew_network *network, bool checkpointing) {
    const ew_trainer_options options = {.n_threads = 2, .pack_rows = 24, .checkpointing = checkpointing};
    ew_trainer *trainer;
    EW_ASSERT_OK(ew_trainer_open(network, &options, &trainer, error));
    return trainer;
}

/* sum, l2 and cos of the goldens' "checksum". */
static void assert_checksum(const json_t *expected, const real *values, size_t n, double tolerance, const char *name) {
    double sum = 0, squares = 0, cosine = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
        cosine += (double)values[i] * cos(0.37 * (double)i);
    }
    double l2 = json_double(expected, "l2"), off = tolerance * l2 * sqrt((double)n);
    if (fabs(sum - json_double(expected, "sum")) > off || fabs(cosine - json_double(expected, "cos")) > off ||
        fabs(sqrt(squares) - l2) > tolerance * l2) {
        fail_msg("%s: sum %g, l2 %g, cos %g", name, sum, sqrt(squares), cosine);
    }
}

/* Gradients of all parameters against PREFIXgrad.NAME, or its checksum where there is one only. */
static void assert_gradients(const ew_network *network, ew_trainer *trainer, const ew_safetensors *file,
                             const char *prefix, const json_t *checksums, double tolerance) {
    for (size_t i = 0; i < network->parameters.n_items; i++) {
        const ew_parameter *item = &network->parameters.items[i];
        char name[128], full[192];
        golden_name(&network->config, item->name, name, sizeof name);
        snprintf(full, sizeof full, "%sgrad.%s", prefix, name);
        const ew_safetensors_tensor *tensor = ew_safetensors_find(file, full);
        const real *gradient = ew_trainer_gradient_vector(trainer) + item->at;
        size_t n = item->rows * item->cols;
        if (!tensor) {
            assert_checksum(json_object_get(checksums, name), gradient, n, tolerance, full);
            continue;
        }
        assert_int_equal(tensor->bytes, n * sizeof(float));
        double off = relative_l2(gradient, (const float *)(const void *)tensor->data, n);
        if (!(off <= tolerance)) {
            fail_msg("%s: relative error %g", full, off);
        }
    }
}

/* Change since `start` against that of the goldens, over all tensors that are there in full. */
static void assert_change(const ew_network *network, const real *start, const ew_safetensors *file, const char *prefix,
                          const json_t *checksums, double tolerance) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < network->parameters.n_items; i++) {
        const ew_parameter *item = &network->parameters.items[i];
        char name[128], full[192];
        golden_name(&network->config, item->name, name, sizeof name);
        snprintf(full, sizeof full, "%s%s", prefix, name);
        const ew_safetensors_tensor *tensor = ew_safetensors_find(file, full);
        const real *now = network->parameters.values + item->at;
        if (!tensor) {
            assert_checksum(json_object_get(checksums, name), now, item->rows * item->cols, 1e-5, full);
            continue;
        }
        const float *expected = (const float *)(const void *)tensor->data;
        for (size_t j = 0; j < item->rows * item->cols; j++) {
            double change = (double)expected[j] - (double)start[item->at + j];
            difference += ((double)now[j] - (double)expected[j]) * ((double)now[j] - (double)expected[j]);
            size += change * change;
        }
    }
    if (!(sqrt(difference / size) <= tolerance)) {
        fail_msg("%s: relative error of the change %g", prefix, sqrt(difference / size));
    }
}

/* The goldens' schedule: up to the peak in three steps, cosine down to a tenth. */
static ew_schedule golden_schedule(const json_t *training) {
    return (ew_schedule){.kind = EW_SCHEDULE_COSINE,
                         .peak = json_double(training, "peak_lr"),
                         .min_ratio = 0.1,
                         .n_steps = 10,
                         .warmup = 3};
}

typedef struct run {
    ew_network *network;
    ew_trainer *trainer;
    const json_t *training;
    const ew_safetensors *file;
    double weight_decay, tolerance;
    double rounding; /* times the tolerance of losses, in steps */
} run;

/* Ten steps; batches[10], or one for all where `same` is given. */
static void assert_training(const run *r, const batch *same) {
    size_t total = r->network->parameters.total;
    real *start = calloc(total, sizeof *start);
    assert_non_null(start);
    memcpy(start, r->network->parameters.values, total * sizeof *start);
    ew_adamw optimizer = EW_ADAMW_INIT;
    optimizer.beta2 = 0.95;
    optimizer.weight_decay = r->weight_decay;
    EW_ASSERT_OK(ew_adamw_open(&optimizer, &r->network->parameters, error));
    ew_schedule schedule = golden_schedule(r->training);
    for (size_t step = 1; step <= 10; step++) {
        const json_t *expected = json_array_get(json_object_get(r->training, "steps"), step - 1);
        batch own = same ? (batch){0} : batch_golden(json_array_get(json_object_get(r->training, "batches"), step - 1));
        const batch *b = same ? same : &own;
        ew_train_result result;
        double norm, rate = ew_schedule_rate(&schedule, step);
        EW_ASSERT_OK(ew_trainer_gradient(r->trainer, b->items, b->n, NULL, step, &result, error));
        EW_ASSERT_OK(ew_adamw_step(&optimizer, &r->network->parameters, ew_trainer_gradient_vector(r->trainer), rate,
                                   ew_trainer_pool(r->trainer), &norm, error));
        assert_true(fabs(result.loss - json_double(expected, "loss")) < r->rounding * LOSS_TOLERANCE);
        assert_int_equal(result.n_targets, (size_t)json_double(expected, "targets"));
        assert_true(fabs(rate / json_double(expected, "lr") - 1) < 1e-12);
        assert_true(fabs(norm / json_double(expected, "grad_norm_before_clip") - 1) < r->rounding * 1e-4);
        if (step == 1 || step == 10) {
            assert_change(r->network, start, r->file, step == 1 ? "after1." : "after10.",
                          json_object_get(r->training, step == 1 ? "after1_checksums" : "after10_checksums"),
                          r->tolerance);
        }
        batch_free(&own);
    }
    ew_adamw_close(&optimizer);
    free(start);
}

/* ---- Dense ---- */

static void check_log_probabilities(ew_trainer *trainer, const batch *b, const ew_safetensors *file) {
    float *buffers[BATCH_MOST];
    batch all = *b;
    for (size_t i = 0; i < b->n; i++) {
        float *weights = calloc(b->items[i].n, sizeof *weights);
        buffers[i] = calloc(b->items[i].n, sizeof *buffers[i]);
        assert_true(weights && buffers[i]);
        for (size_t t = 1; t < b->items[i].n; t++) {
            weights[t] = 1;
        }
        all.items[i].weights = weights;
    }
    const ew_train_loss loss = {.log_probabilities = buffers};
    ew_train_result result;
    EW_ASSERT_OK(ew_trainer_evaluate(trainer, all.items, all.n, &loss, &result, error));
    for (size_t i = 0; i < b->n; i++) {
        const float *expected = golden_floats(file, "seq%zu.logp", i, 0);
        for (size_t t = 1; t < b->items[i].n; t++) {
            assert_true(fabs((double)buffers[i][t] - (double)expected[t - 1]) < 1e-4);
        }
        free(buffers[i]);
        free((void *)all.items[i].weights);
    }
}

static void check_dense(const char *name, bool checkpointing) {
    char relative[96];
    snprintf(relative, sizeof relative, "goldens/dense/%s.json", name);
    ew_checkpoint *checkpoint = open_model(name);
    json_t *root = checkpoint ? golden_json(relative) : NULL;
    if (!root) {
        skip();
    }
    snprintf(relative, sizeof relative, "goldens/dense/%s.safetensors", name);
    ew_safetensors *file = golden_tensors(relative);
    run r = {.file = file, .weight_decay = 0.1, .tolerance = CHANGE_TOLERANCE, .rounding = 1};
    EW_ASSERT_OK(ew_network_open(checkpoint, NULL, &r.network, error));
    r.trainer = open_trainer(r.network, checkpointing);
    r.training = json_object_get(root, "training");
    batch b = batch_golden(json_object_get(root, "batch"));
    ew_train_result result;
    EW_ASSERT_OK(ew_trainer_gradient(r.trainer, b.items, b.n, NULL, 0, &result, error));
    assert_true(fabs(result.loss - json_double(root, "loss")) < LOSS_TOLERANCE);
    assert_int_equal(result.n_targets, (size_t)json_double(root, "targets"));
    assert_gradients(r.network, r.trainer, file, "", json_object_get(root, "grad_checksums"), GRADIENT_TOLERANCE);
    check_log_probabilities(r.trainer, &b, file);
    assert_training(&r, NULL);
    batch_free(&b);
    ew_trainer_close(r.trainer);
    ew_network_close(r.network);
    ew_safetensors_close(file);
    ew_checkpoint_close(checkpoint);
    json_decref(root);
}

#ifndef EW_TRAIN_DOUBLE
/* Products by BF16x3: loss and gradients at five times float's tolerances, about what was measured. */
static void dense_bf16x3(void **state) {
    (void)state;
    ew_error reason;
    ew_checkpoint *checkpoint = open_model("qwen2-tiny");
    json_t *root = checkpoint ? golden_json("goldens/dense/qwen2-tiny.json") : NULL;
    if (!root) {
        skip();
    }
    const ew_trainer_options options = {.n_threads = 2, .pack_rows = 24, .products = EW_PRODUCTS_BF16X3};
    ew_network *network;
    ew_trainer *trainer;
    EW_ASSERT_OK(ew_network_open(checkpoint, NULL, &network, error));
    if (ew_products_check(EW_PRODUCTS_BF16X3, NULL) != EW_OK) {
        assert_int_equal(ew_trainer_open(network, &options, &trainer, &reason), EW_ERROR_ARGUMENT);
        assert_non_null(strstr(reason.message, "float32 would do"));
    } else {
        ew_safetensors *file = golden_tensors("goldens/dense/qwen2-tiny.safetensors");
        batch b = batch_golden(json_object_get(root, "batch"));
        ew_train_result result;
        EW_ASSERT_OK(ew_trainer_open(network, &options, &trainer, error));
        EW_ASSERT_OK(ew_trainer_gradient(trainer, b.items, b.n, NULL, 0, &result, error));
        assert_true(fabs(result.loss - json_double(root, "loss")) < 5 * LOSS_TOLERANCE);
        assert_gradients(network, trainer, file, "", NULL, 5 * GRADIENT_TOLERANCE);
        batch_free(&b);
        ew_trainer_close(trainer);
        ew_safetensors_close(file);
    }
    ew_network_close(network);
    ew_checkpoint_close(checkpoint);
    json_decref(root);
}
#endif

static void dense_qwen2(void **state) {
    (void)state;
    check_dense("qwen2-tiny", false);
}

static void dense_qwen2_checkpointing(void **state) {
    (void)state;
    check_dense("qwen2-tiny", true);
}

static void dense_qwen3(void **state) {
    (void)state;
    check_dense("qwen3-tiny", false);
}

static void dense_llama(void **state) {
    (void)state;
    check_dense("llama-tiny", false);
}

/* ---- LoRA ---- */

/* What a test of an adapter has open. */
typedef struct adapter_case {
    ew_checkpoint *checkpoint;
    ew_adapter_file *adapter;
    json_t *root;
    ew_safetensors *file;
    run r;
} adapter_case;

static bool open_case(const char *folder, const char *name, const char *model, adapter_case *c) {
    char relative[128], path[512];
    *c = (adapter_case){0};
    c->checkpoint = open_model(model);
    snprintf(relative, sizeof relative, "goldens/%s/%s.json", folder, name);
    c->root = c->checkpoint ? golden_json(relative) : NULL;
    if (!c->root) {
        return false;
    }
    snprintf(relative, sizeof relative, "goldens/%s/%s.safetensors", folder, name);
    c->file = golden_tensors(relative);
    snprintf(relative, sizeof relative, "goldens/%s/adapters/%s", folder, name);
    assert_non_null(ew_test_shared(relative, path, sizeof path));
    EW_ASSERT_OK(ew_adapter_open(path, ew_checkpoint_config(c->checkpoint), &c->adapter, error));
    EW_ASSERT_OK(ew_network_continue(c->checkpoint, NULL, ew_adapter_file_content(c->adapter), &c->r.network, error));
    c->r.trainer = open_trainer(c->r.network, false);
    c->r.training = json_object_get(c->root, "training");
    c->r.file = c->file;
    c->r.tolerance = LORA_CHANGE_TOLERANCE;
    /* Adam divides small gradients by their own size, and with rsLoRA's scale of 4 rounding grows from step to step: OpenBLAS's
     * kernels are 0.9 to 3.3e-5 off, products summed in double and rounded once 1.0e-5, the goldens' own float32 0.9e-5. */
    c->r.rounding = strstr(name, ".rslora") ? 5 : 1;
    return true;
}

static void close_case(adapter_case *c) {
    ew_trainer_close(c->r.trainer);
    ew_network_close(c->r.network);
    ew_adapter_close(c->adapter);
    ew_safetensors_close(c->file);
    ew_checkpoint_close(c->checkpoint);
    json_decref(c->root);
}

/* Rows prompt_length .. n - 1 of the logits; a token that stands for nothing follows, so that the last position runs. */
static real *logits_of(ew_trainer *trainer, const int32_t *ids, size_t n, size_t prompt_length, size_t vocab_size) {
    int32_t *longer = calloc(n + 1, sizeof *longer);
    float *weights = calloc(n + 1, sizeof *weights);
    real *logits = calloc((n - prompt_length) * vocab_size, sizeof *logits);
    assert_true(longer && weights && logits);
    memcpy(longer, ids, n * sizeof *ids);
    const ew_train_sequence sequence = {longer, n + 1, prompt_length, weights};
    EW_ASSERT_OK(ew_trainer_logits(trainer, &sequence, logits, error));
    free(longer);
    free(weights);
    return logits;
}

static void assert_close(const real *values, const float *expected, size_t n, double tolerance, const char *what) {
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)values[i] - (double)expected[i]) <= tolerance)) {
            fail_msg("%s: value %zu is %g, not %g", what, i, (double)values[i], (double)expected[i]);
        }
    }
}

static void check_lora_logits(const adapter_case *c) {
    size_t n, vocab_size = c->r.network->config.vocab_size;
    int32_t *ids = golden_ids(json_object_get(c->root, "ids"), &n);
    real *logits = logits_of(c->r.trainer, ids, n, 0, vocab_size);
    const ew_safetensors_tensor *positions = golden_tensor(c->file, "positions");
    const float *expected = golden_floats(c->file, "logits", 0, 0);
    for (size_t i = 0; i < positions->shape[0]; i++) {
        int32_t position;
        memcpy(&position, positions->data + 4 * i, sizeof position);
        assert_close(logits + (size_t)position * vocab_size, expected + i * vocab_size, vocab_size, LOGIT_TOLERANCE,
                     "logits");
    }
    free(logits);
    free(ids);
}

static void check_lora(const char *name, const char *model) {
    adapter_case c;
    if (!open_case("lora", name, model, &c)) {
        skip();
    }
    check_lora_logits(&c);
    batch b = batch_golden(json_object_get(c.root, "batch"));
    ew_train_result result;
    EW_ASSERT_OK(ew_trainer_gradient(c.r.trainer, b.items, b.n, NULL, 0, &result, error));
    assert_true(fabs(result.loss - json_double(c.root, "loss")) < LOSS_TOLERANCE);
    assert_gradients(c.r.network, c.r.trainer, c.file, "", NULL, LORA_GRADIENT_TOLERANCE);
    assert_training(&c.r, NULL);
    batch_free(&b);
    close_case(&c);
}

static void lora_qwen2(void **state) {
    (void)state;
    check_lora("qwen2-tiny.plain", "qwen2-tiny");
    check_lora("qwen2-tiny.rslora", "qwen2-tiny");
    check_lora("qwen2-tiny.pattern", "qwen2-tiny");
}

static void lora_llama(void **state) {
    (void)state;
    check_lora("llama-tiny.plain", "llama-tiny");
    check_lora("llama-tiny.rslora", "llama-tiny");
    check_lora("llama-tiny.pattern", "llama-tiny");
}

/* ---- Masked LoRA ---- */

static void check_masked_logits(const adapter_case *c, const json_t *item, const char *name, size_t prompt_length) {
    size_t n, vocab_size = c->r.network->config.vocab_size;
    int32_t *ids = golden_ids(json_object_get(item, "ids"), &n);
    real *logits = logits_of(c->r.trainer, ids, n, prompt_length, vocab_size);
    char full[64];
    snprintf(full, sizeof full, "%s.logits", name);
    const float *expected = golden_floats(c->file, full, 0, 0);
    assert_close(logits, expected + vocab_size, (n - prompt_length) * vocab_size, LOGIT_TOLERANCE, full);
    free(logits);
    free(ids);
}

static void check_masked_temperature(const adapter_case *c, const ew_train_sequence *sequence, const char *name,
                                     double temperature, const char *suffix) {
    float *log_probabilities = calloc(sequence->n, sizeof *log_probabilities);
    float *weights = calloc(sequence->n, sizeof *weights);
    assert_true(log_probabilities && weights);
    for (size_t t = 0; t < sequence->n; t++) {
        weights[t] = 1; /* those of prompt and first reply token do not count */
    }
    ew_train_sequence all = *sequence;
    all.weights = weights;
    ew_train_result result;
    const ew_train_loss loss = {.temperature = temperature, .log_probabilities = &log_probabilities};
    EW_ASSERT_OK(ew_trainer_evaluate(c->r.trainer, &all, 1, &loss, &result, error));
    size_t n_reply = sequence->n - sequence->prompt_length;
    assert_int_equal(result.n_targets, n_reply - 1);
    assert_true(result.weight == (double)(n_reply - 1));
    char full[64];
    snprintf(full, sizeof full, "%s.logp_%s", name, suffix);
    const float *expected = golden_floats(c->file, full, 0, 0); /* from the first token behind the prompt */
    for (size_t i = 1; i < n_reply; i++) {
        assert_true(fabs((double)log_probabilities[sequence->prompt_length + i] - (double)expected[i]) < 1e-4);
    }
    free(weights);
    free(log_probabilities);
}

static void masked(void **state) {
    (void)state;
    adapter_case c;
    if (!open_case("alora", "qwen2-tiny.masked", "qwen2-tiny", &c)) {
        skip();
    }
    batch training = {0};
    const json_t *cases = json_object_get(c.root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *item = json_array_get(cases, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!json_is_number(json_object_get(item, "h"))) {
            continue; /* the header never comes: there is nothing to train */
        }
        size_t h = (size_t)json_double(item, "h");
        batch b = {0};
        batch_add_golden(&b, item, h);
        ew_train_result result;
        char prefix[64];
        EW_ASSERT_OK(ew_trainer_gradient(c.r.trainer, b.items, b.n, NULL, 0, &result, error));
        assert_true(fabs(result.loss - json_double(item, "loss")) < LOSS_TOLERANCE);
        assert_int_equal(result.n_targets, (size_t)json_double(item, "targets"));
        snprintf(prefix, sizeof prefix, "%s.", name);
        assert_gradients(c.r.network, c.r.trainer, c.file, prefix, NULL, LORA_GRADIENT_TOLERANCE);
        check_masked_logits(&c, item, name, h);
        check_masked_temperature(&c, &b.items[0], name, 1, "T1");
        check_masked_temperature(&c, &b.items[0], name, 0.7, "T0.7");
        batch_free(&b);
        if (i < 3) {
            batch_add_golden(&training, item, h);
        }
    }
    assert_training(&c.r, &training);
    batch_free(&training);
    close_case(&c);
}

/* ---- The optimizer alone ---- */

/* Reads a tensor of a step, [rows][cols] or [cols], and returns how many values. */
static size_t json_values(const json_t *value, real *out) {
    if (json_is_number(value)) {
        *out = (real)json_number_value(value);
        return 1;
    }
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        n += json_values(json_array_get(value, i), out + n);
    }
    return n;
}

static void adamw(void **state) {
    (void)state;
    json_t *root = golden_json("goldens/dense/adamw.json");
    if (!root) {
        skip();
    }
    static const char *const names[] = {"matrix.weight", "some_norm.weight", "matrix.bias"};
    ew_parameters parameters = {0};
    size_t at[3];
    EW_ASSERT_OK(ew_parameters_add(&parameters, names[0], 3, 4, true, &at[0], error));
    EW_ASSERT_OK(ew_parameters_add(&parameters, names[1], 1, 4, false, &at[1], error));
    EW_ASSERT_OK(ew_parameters_add(&parameters, names[2], 1, 3, false, &at[2], error));
    EW_ASSERT_OK(ew_parameters_allocate(&parameters, error));
    real *gradient = calloc(parameters.total, sizeof *gradient), expected[16];
    assert_non_null(gradient);
    for (size_t i = 0; i < 3; i++) {
        json_values(json_object_get(json_object_get(root, "start"), names[i]), parameters.values + at[i]);
    }
    ew_adamw optimizer = EW_ADAMW_INIT;
    optimizer.beta2 = 0.95;
    optimizer.weight_decay = 0.1;
    EW_ASSERT_OK(ew_adamw_open(&optimizer, &parameters, error));
    ew_schedule schedule = golden_schedule(root);
    for (size_t s = 1; s <= 10; s++) {
        const json_t *step = json_array_get(json_object_get(root, "steps"), s - 1);
        double norm;
        for (size_t i = 0; i < 3; i++) {
            json_values(json_object_get(json_object_get(step, "grads"), names[i]), gradient + at[i]);
        }
        EW_ASSERT_OK(
            ew_adamw_step(&optimizer, &parameters, gradient, ew_schedule_rate(&schedule, s), NULL, &norm, error));
        assert_true(fabs(norm - json_double(step, "grad_norm_before_clip")) <= 1e-6 * norm);
        for (size_t i = 0; i < 3; i++) {
            size_t n = json_values(json_object_get(json_object_get(step, "after"), names[i]), expected);
            for (size_t j = 0; j < n; j++) {
                double off = fabs((double)parameters.values[at[i] + j] - (double)expected[j]);
                assert_true(off <= 1e-5 * fabs((double)expected[j]) + 1e-7);
            }
        }
    }
    ew_adamw_close(&optimizer);
    free(gradient);
    ew_parameters_free(&parameters);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#ifndef EW_TRAIN_DOUBLE
        cmocka_unit_test(dense_bf16x3),
#endif
        cmocka_unit_test(adamw),        cmocka_unit_test(dense_qwen2), cmocka_unit_test(dense_qwen2_checkpointing),
        cmocka_unit_test(dense_qwen3),  cmocka_unit_test(dense_llama), cmocka_unit_test(lora_qwen2),
        cmocka_unit_test(lora_llama),   cmocka_unit_test(masked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
