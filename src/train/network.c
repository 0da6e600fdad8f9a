#include "train/network.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernel/math64.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Every weight by name ---- */

typedef ew_status (*weight_visitor)(void *context, const char *name, size_t rows, size_t cols, ew_train_tensor *tensor,
                                    ew_error *error);

static void linear_shape(const ew_config *config, size_t kind, size_t *rows, size_t *cols) {
    size_t q_width = config->n_heads * config->head_dim, kv_width = config->n_kv_heads * config->head_dim;
    const size_t outputs[EW_LINEARS] = {q_width,      kv_width,     kv_width,       config->d_model,
                                        config->d_ff, config->d_ff, config->d_model};
    *rows = outputs[kind];
    *cols = kind == EW_LINEAR_O ? q_width : kind == EW_LINEAR_DOWN ? config->d_ff : config->d_model;
}

typedef struct visit {
    weight_visitor visitor;
    void *context;
    ew_error *error;
    ew_status status;
} visit;

/* A weight of layer `layer` (SIZE_MAX: of none) if it is `present`. */
static void visit_weight(visit *v, size_t layer, const char *rest, bool present, size_t rows, size_t cols,
                         ew_train_tensor *tensor) {
    char name[80];
    if (layer == SIZE_MAX) {
        snprintf(name, sizeof name, "%s", rest);
    } else {
        snprintf(name, sizeof name, "blk.%zu.%s", layer, rest);
    }
    if (present && v->status == EW_OK) {
        v->status = v->visitor(v->context, name, rows, cols, tensor, v->error);
    }
}

static bool has_bias(const ew_config *config, size_t kind) {
    return kind <= EW_LINEAR_V ? config->qkv_bias : kind == EW_LINEAR_O && config->o_bias;
}

static void visit_layer(visit *v, const ew_config *config, size_t index, ew_train_layer *layer) {
    visit_weight(v, index, "attn_norm.weight", true, 1, config->d_model, &layer->attn_norm);
    visit_weight(v, index, "ffn_norm.weight", true, 1, config->d_model, &layer->ffn_norm);
    visit_weight(v, index, "attn_q_norm.weight", config->qk_norm, 1, config->head_dim, &layer->q_norm);
    visit_weight(v, index, "attn_k_norm.weight", config->qk_norm, 1, config->head_dim, &layer->k_norm);
    for (size_t kind = 0; kind < EW_LINEARS; kind++) {
        ew_train_linear *linear = &layer->linears[kind];
        ew_linear_name name = ew_layer_linear_name(index, (ew_linear_kind)kind);
        visit_weight(v, SIZE_MAX, name.text, true, linear->rows, linear->cols, &linear->weight);
        snprintf(strrchr(name.text, '.'), sizeof ".weight", ".bias");
        visit_weight(v, SIZE_MAX, name.text, has_bias(config, kind), 1, linear->rows, &linear->bias);
    }
}

static ew_status for_each_weight(ew_network *network, weight_visitor visitor, void *context, ew_error *error) {
    const ew_config *config = &network->config;
    visit v = {visitor, context, error, EW_OK};
    visit_weight(&v, SIZE_MAX, "token_embd.weight", true, config->vocab_size, config->d_model, &network->embedding);
    for (size_t i = 0; i < config->n_layers; i++) {
        visit_layer(&v, config, i, &network->layers[i]);
    }
    visit_weight(&v, SIZE_MAX, "output_norm.weight", true, 1, config->d_model, &network->output_norm);
    visit_weight(&v, SIZE_MAX, "output.weight", !config->tied_embeddings, config->vocab_size, config->d_model,
                 &network->head.weight);
    return v.status;
}

/* ---- Where weights live ---- */

static ew_status add_parameter(void *context, const char *name, size_t rows, size_t cols, ew_train_tensor *tensor,
                               ew_error *error) {
    ew_network *network = context;
    return ew_parameters_add(&network->parameters, name, rows, cols, rows > 1, &tensor->gradient, error);
}

typedef struct frozen_plan {
    ew_network *network;
    size_t total;
} frozen_plan;

static ew_status add_frozen(void *context, const char *name, size_t rows, size_t cols, ew_train_tensor *tensor,
                            ew_error *error) {
    frozen_plan *plan = context;
    enum { ALIGNMENT = 16 };
    tensor->gradient = plan->total; /* its place, until place_weight */
    size_t n;
    if (!ew_multiply_size(rows, cols, &n) || !ew_add_size(n, ALIGNMENT - 1, &n) ||
        !ew_add_size(plan->total, n / ALIGNMENT * ALIGNMENT, &plan->total)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%s does not fit memory", name);
    }
    return EW_OK;
}

static ew_status allocate_weights(ew_network *network, ew_error *error) {
    if (network->dense) {
        ew_status status = for_each_weight(network, add_parameter, network, error);
        return status == EW_OK ? ew_parameters_allocate(&network->parameters, error) : status;
    }
    frozen_plan plan = {network, 0};
    ew_status status = for_each_weight(network, add_frozen, &plan, error);
    if (status != EW_OK) {
        return status;
    }
    network->frozen = ew_allocate_aligned(plan.total, sizeof(real));
    if (!network->frozen) {
        return ew_fail_memory(error, plan.total * sizeof(real), "the model's weights");
    }
    ew_prefer_huge_pages(network->frozen, plan.total * sizeof(real));
    return EW_OK;
}

/* Gives a tensor its values, zero so far, and returns them. */
static real *place_weight(ew_network *network, ew_train_tensor *tensor) {
    real *values = (network->dense ? network->parameters.values : network->frozen) + tensor->gradient;
    tensor->values = values;
    if (!network->dense) {
        tensor->gradient = EW_FROZEN;
    }
    return values;
}

/* ---- Where values come from ---- */

typedef struct reading {
    ew_network *network;
    const ew_checkpoint *checkpoint;
    const ew_edgewise_file *file; /* NULL unless the checkpoint is an Edgewise file */
    float *row;
} reading;

/* Row `row` of a weight as floats. */
static ew_status read_row(const reading *r, const char *name, size_t row, size_t rows, size_t cols,
                          const float **values, ew_error *error) {
    *values = r->row;
    if (r->file) {
        const ew_matrix *matrix = rows > 1 ? ew_edgewise_file_matrix(r->file, name) : NULL;
        const float *vector = rows > 1 ? NULL : ew_edgewise_file_vector(r->file, name);
        if (matrix) {
            ew_matrix_read_row(matrix, row, r->row);
        } else if (vector) {
            *values = vector;
        } else {
            return ew_fail(error, EW_ERROR_FORMAT, "%s has no %s", ew_checkpoint_path(r->checkpoint), name);
        }
        return EW_OK;
    }
    const ew_tensor *tensor = ew_checkpoint_find(r->checkpoint, name);
    if (!tensor || tensor->cols != cols || tensor->rows != rows) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s has no %s of this shape", ew_checkpoint_path(r->checkpoint), name);
    }
    return ew_tensor_read_row(tensor, row, r->row, error);
}

static ew_status read_weight(void *context, const char *name, size_t rows, size_t cols, ew_train_tensor *tensor,
                             ew_error *error) {
    const reading *r = context;
    real *to = place_weight(r->network, tensor);
    for (size_t row = 0; row < rows; row++) {
        const float *values;
        ew_status status = read_row(r, name, row, rows, cols, &values, error);
        if (status != EW_OK) {
            return status;
        }
        for (size_t i = 0; i < cols; i++) {
            to[row * cols + i] = (real)values[i];
        }
    }
    return EW_OK;
}

static ew_status read_weights(ew_network *network, const ew_checkpoint *checkpoint, ew_error *error) {
    enum { WIDEST = EW_CONFIG_MAX_WIDTH };
    ew_edgewise_file file = {0};
    bool own = ew_checkpoint_kind(checkpoint) == EW_CHECKPOINT_EDGEWISE;
    ew_status status = own ? ew_edgewise_file_read(checkpoint, &file, error) : EW_OK;
    reading r = {network, checkpoint, own ? &file : NULL, ew_allocate(WIDEST, sizeof(float))};
    if (status == EW_OK && !r.row) {
        status = ew_fail_memory(error, WIDEST * sizeof(float), "a row of weights");
    }
    if (status == EW_OK) {
        status = for_each_weight(network, read_weight, &r, error);
    }
    free(r.row);
    ew_edgewise_file_free(&file);
    return status;
}

/* ---- From nothing ---- */

/* Number `index` of a normal distribution (Box and Muller). */
static double normal(uint64_t seed, uint64_t stream, uint64_t index) {
    double radius = sqrt(-2 * ew_log64(1 - ew_random_unit(seed, stream, 2 * index))), sine, cosine;
    ew_sincos64(6.283185307179586 * ew_random_unit(seed, stream, 2 * index + 1), &sine, &cosine);
    return radius * cosine;
}

typedef struct drawing {
    ew_network *network;
    double deviation;
    uint64_t seed, stream; /* a stream a tensor */
} drawing;

static ew_status draw_weight(void *context, const char *name, size_t rows, size_t cols, ew_train_tensor *tensor,
                             ew_error *error) {
    (void)error;
    drawing *d = context;
    real *to = place_weight(d->network, tensor);
    size_t length = strlen(name);
    bool bias = length > 5 && strcmp(name + length - 5, ".bias") == 0;
    bool into_residual = strstr(name, ".attn_output.weight") || strstr(name, ".ffn_down.weight");
    double deviation = d->deviation / (into_residual ? sqrt(2 * (double)d->network->config.n_layers) : 1);
    d->stream++;
    for (size_t i = 0; i < rows * cols; i++) {
        to[i] = rows > 1 ? (real)(deviation * normal(d->seed, d->stream, i)) : bias ? 0 : 1;
    }
    return EW_OK;
}

/* ---- Adapters ---- */

/* Linear layers are counted through: index / EW_LINEARS is the layer. */
static ew_linear_name name_of(size_t index) {
    return ew_layer_linear_name(index / EW_LINEARS, (ew_linear_kind)(index % EW_LINEARS));
}

static void set_adapter(ew_train_linear *linear, size_t rank, double alpha, double scale) {
    linear->rank = rank;
    linear->alpha = alpha;
    linear->scale = (real)scale;
}

static ew_status plan_adapters(ew_network *network, const ew_lora_plan *plan, ew_error *error) {
    for (size_t i = 0; i < network->config.n_layers * EW_LINEARS; i++) {
        ew_train_linear *linear = &network->layers[i / EW_LINEARS].linears[i % EW_LINEARS];
        const ew_lora_module *module = &plan->modules[i % EW_LINEARS];
        if (module->rank > linear->rows || module->rank > linear->cols) {
            return ew_fail(error, EW_ERROR_ARGUMENT,
                           "a rank of %zu on %s, which is %zu x %zu: no rank is larger than that", module->rank,
                           name_of(i).text, linear->rows, linear->cols);
        }
        if (module->rank > 0) {
            double rank = (double)module->rank;
            set_adapter(linear, module->rank, module->alpha, module->alpha / (plan->rslora ? sqrt(rank) : rank));
        }
    }
    network->rslora = plan->rslora;
    return EW_OK;
}

/* The factors of all planned adapters become the parameters. */
static ew_status allocate_adapters(ew_network *network, ew_error *error) {
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < network->config.n_layers * EW_LINEARS; i++) {
        ew_train_linear *linear = &network->layers[i / EW_LINEARS].linears[i % EW_LINEARS];
        ew_linear_name name = name_of(i);
        if (linear->rank == 0) {
            continue;
        }
        snprintf(strrchr(name.text, '.'), sizeof ".weight", ".lora_a");
        status = ew_parameters_add(&network->parameters, name.text, linear->rank, linear->cols, true,
                                   &linear->a.gradient, error);
        snprintf(strrchr(name.text, '.'), sizeof ".weight", ".lora_b");
        if (status == EW_OK) {
            status = ew_parameters_add(&network->parameters, name.text, linear->rows, linear->rank, true,
                                       &linear->b.gradient, error);
        }
    }
    if (status == EW_OK && network->parameters.n_items == 0) {
        status = ew_fail(error, EW_ERROR_ARGUMENT, "no layer gets an adapter: there is nothing to train");
    }
    if (status == EW_OK) {
        status = ew_parameters_allocate(&network->parameters, error);
    }
    for (size_t i = 0; status == EW_OK && i < network->config.n_layers * EW_LINEARS; i++) {
        ew_train_linear *linear = &network->layers[i / EW_LINEARS].linears[i % EW_LINEARS];
        if (linear->rank > 0) {
            linear->a.values = network->parameters.values + linear->a.gradient;
            linear->b.values = network->parameters.values + linear->b.gradient;
        }
    }
    return status;
}

static void draw_adapters(ew_network *network, uint64_t seed) {
    for (size_t i = 0; i < network->config.n_layers * EW_LINEARS; i++) {
        const ew_train_linear *linear = &network->layers[i / EW_LINEARS].linears[i % EW_LINEARS];
        double bound = 1 / sqrt((double)linear->cols);
        for (size_t j = 0; j < linear->rank * linear->cols; j++) {
            network->parameters.values[linear->a.gradient + j] = (real)(bound * (2 * ew_random_unit(seed, i, j) - 1));
        }
    }
}

/* ---- Opening ---- */

/* Absent and frozen tensors have no gradient; the ones that are trained get a place later. */
static void freeze_all(ew_network *network) {
    const ew_train_tensor absent = {NULL, EW_FROZEN};
    network->embedding = network->output_norm = network->head.weight = network->head.bias = absent;
    for (size_t i = 0; i < network->config.n_layers; i++) {
        ew_train_layer *layer = &network->layers[i];
        layer->attn_norm = layer->ffn_norm = layer->q_norm = layer->k_norm = absent;
        for (size_t kind = 0; kind < EW_LINEARS; kind++) {
            ew_train_linear *linear = &layer->linears[kind];
            linear->weight = linear->bias = linear->a = linear->b = absent;
            linear_shape(&network->config, kind, &linear->rows, &linear->cols);
        }
    }
    network->head.rows = network->config.vocab_size;
    network->head.cols = network->config.d_model;
}

static ew_status create(const ew_config *config, ew_network **out, ew_error *error) {
    ew_network *network = ew_allocate(1, sizeof *network);
    *out = network;
    if (!network) {
        return ew_fail_memory(error, sizeof *network, "a network");
    }
    network->config = *config;
    ew_rope_prepare(&config->rope, config->head_dim, &network->rope);
    network->layers = ew_allocate(config->n_layers, sizeof *network->layers);
    if (!network->layers) {
        return ew_fail_memory(error, config->n_layers * sizeof *network->layers, "the list of layers");
    }
    freeze_all(network);
    return EW_OK;
}

static ew_status finish(ew_status status, ew_network **network) {
    if (status != EW_OK) {
        ew_network_close(*network);
        *network = NULL;
    } else if ((*network)->config.tied_embeddings && !(*network)->model) {
        (*network)->head.weight = (*network)->embedding;
    }
    return status;
}

static ew_status open_floats(ew_network *network, const ew_checkpoint *checkpoint, ew_error *error) {
    ew_status status = allocate_weights(network, error);
    return status == EW_OK ? read_weights(network, checkpoint, error) : status;
}

static ew_status add_adapters(ew_network *network, const ew_lora_plan *plan, ew_error *error) {
    ew_status status = plan_adapters(network, plan, error);
    if (status == EW_OK) {
        status = allocate_adapters(network, error);
    }
    if (status == EW_OK) {
        draw_adapters(network, plan->seed);
    }
    return status;
}

ew_status ew_network_open(const ew_checkpoint *checkpoint, const ew_lora_plan *plan, ew_network **out,
                          ew_error *error) {
    ew_status status = create(ew_checkpoint_config(checkpoint), out, error);
    if (status == EW_OK) {
        (*out)->dense = plan == NULL;
        status = open_floats(*out, checkpoint, error);
    }
    if (status == EW_OK && plan) {
        status = add_adapters(*out, plan, error);
    }
    return finish(status, out);
}

ew_status ew_network_random(const ew_config *config, const ew_lora_plan *plan, double deviation, uint64_t seed,
                            ew_network **out, ew_error *error) {
    ew_status status = create(config, out, error);
    if (status == EW_OK) {
        (*out)->dense = plan == NULL;
        status = allocate_weights(*out, error);
    }
    if (status == EW_OK) {
        drawing d = {*out, deviation > 0 ? deviation : 0.02, seed, 0};
        status = for_each_weight(*out, draw_weight, &d, error);
    }
    if (status == EW_OK && plan) {
        status = add_adapters(*out, plan, error);
    }
    return finish(status, out);
}

#ifdef EW_TRAIN_DOUBLE
static ew_status open_packed(ew_network *network, const ew_model *model, ew_error *error) {
    (void)network;
    (void)model;
    return ew_fail(error, EW_ERROR_UNSUPPORTED, "the engine's kernels have no double precision");
}
#else
static ew_train_tensor frozen(const float *values) {
    return (ew_train_tensor){values, EW_FROZEN};
}

/* Views of the model's weights. */
static ew_status open_packed(ew_network *network, const ew_model *model, ew_error *error) {
    if (!model->weights.quantized) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "the model is not quantized: its checkpoint is to be opened");
    }
    network->model = model;
    for (size_t i = 0; i < network->config.n_layers; i++) {
        const ew_layer *from = &model->weights.layers[i];
        ew_train_layer *to = &network->layers[i];
        const ew_matrix *matrices[EW_LINEARS] = {&from->q,    &from->k,  &from->v,   &from->o,
                                                 &from->gate, &from->up, &from->down};
        const float *biases[EW_LINEARS] = {from->q_bias, from->k_bias, from->v_bias, from->o_bias};
        to->attn_norm = frozen(from->attn_norm);
        to->ffn_norm = frozen(from->ffn_norm);
        to->q_norm = frozen(from->q_norm);
        to->k_norm = frozen(from->k_norm);
        for (size_t kind = 0; kind < EW_LINEARS; kind++) {
            to->linears[kind].packed = matrices[kind];
            to->linears[kind].weight.gradient = EW_FROZEN;
            to->linears[kind].bias = frozen(biases[kind]);
        }
    }
    network->embedding = network->head.weight = frozen(NULL);
    network->output_norm = frozen(model->weights.output_norm);
    network->head.packed = &model->weights.head;
    return EW_OK;
}
#endif

ew_status ew_network_quantized(const ew_model *model, const ew_lora_plan *plan, ew_network **out, ew_error *error) {
    ew_status status = create(&model->config, out, error);
    if (status == EW_OK) {
        status = open_packed(*out, model, error);
    }
    if (status == EW_OK) {
        status = add_adapters(*out, plan, error);
    }
    return finish(status, out);
}

/* ---- From an adapter ---- */

static const ew_lora_target *target_of(const ew_lora *lora, size_t index) {
    return ew_lora_find(lora, name_of(index).text);
}

static ew_status read_factor(const ew_lora_factor *factor, size_t rows, size_t cols, float *scratch, real *to,
                             ew_error *error) {
    for (size_t row = 0; row < rows; row++) {
        ew_status status = ew_lora_read_row(factor, row, scratch, error);
        if (status != EW_OK) {
            return status;
        }
        for (size_t i = 0; i < cols; i++) {
            to[row * cols + i] = (real)scratch[i];
        }
    }
    return EW_OK;
}

static ew_status copy_adapters(ew_network *network, const ew_lora *lora, ew_error *error) {
    float *scratch = ew_allocate(EW_CONFIG_MAX_WIDTH, sizeof *scratch);
    ew_status status = scratch ? EW_OK : ew_fail_memory(error, EW_CONFIG_MAX_WIDTH * sizeof *scratch, "a row");
    for (size_t i = 0; status == EW_OK && i < network->config.n_layers * EW_LINEARS; i++) {
        const ew_train_linear *linear = &network->layers[i / EW_LINEARS].linears[i % EW_LINEARS];
        const ew_lora_target *target = target_of(lora, i);
        if (!target) {
            continue;
        }
        status = read_factor(&target->a, linear->rank, linear->cols, scratch,
                             network->parameters.values + linear->a.gradient, error);
        if (status == EW_OK) {
            status = read_factor(&target->b, linear->rows, linear->rank, scratch,
                                 network->parameters.values + linear->b.gradient, error);
        }
    }
    free(scratch);
    return status;
}

ew_status ew_network_continue(const ew_checkpoint *checkpoint, const ew_model *model, const ew_lora *lora,
                              ew_network **out, ew_error *error) {
    ew_status status = create(model ? &model->config : ew_checkpoint_config(checkpoint), out, error);
    if (status == EW_OK) {
        status = model ? open_packed(*out, model, error) : open_floats(*out, checkpoint, error);
    }
    for (size_t i = 0; status == EW_OK && i < (*out)->config.n_layers * EW_LINEARS; i++) {
        const ew_lora_target *target = target_of(lora, i);
        if (target) {
            set_adapter(&(*out)->layers[i / EW_LINEARS].linears[i % EW_LINEARS], target->rank, target->alpha,
                        ew_lora_scale(lora, target));
        }
    }
    if (status == EW_OK) {
        (*out)->rslora = lora->rslora;
        status = allocate_adapters(*out, error);
    }
    if (status == EW_OK) {
        status = copy_adapters(*out, lora, error);
    }
    return finish(status, out);
}

/* ---- To an adapter ---- */

#ifdef EW_TRAIN_DOUBLE
ew_status ew_network_publish(ew_network *network, ew_error *error) {
    (void)network;
    (void)error;
    return EW_OK;
}
#else
static ew_lora_factor factor_view(const char *name, const real *values, size_t rows, size_t cols) {
    return (ew_lora_factor){.values = {.name = name,
                                       .type = EW_DTYPE_F32,
                                       .rows = rows,
                                       .cols = cols,
                                       .data = (const uint8_t *)values,
                                       .bytes = rows * cols * sizeof *values,
                                       .row_bytes = cols * sizeof *values}};
}

ew_status ew_lora_view_open(const ew_network *network, ew_lora_view *view, ew_error *error) {
    size_t n = network->config.n_layers * EW_LINEARS;
    *view =
        (ew_lora_view){.targets = ew_allocate(n, sizeof *view->targets), .names = ew_allocate(n, sizeof *view->names)};
    if (!view->targets || !view->names) {
        ew_lora_view_close(view);
        return ew_fail_memory(error, n * sizeof *view->targets, "a list of adapters");
    }
    for (size_t i = 0; i < n; i++) {
        const ew_train_linear *linear = &network->layers[i / EW_LINEARS].linears[i % EW_LINEARS];
        if (linear->rank == 0) {
            continue;
        }
        const char *name = view->names[view->lora.n_targets].text;
        view->names[view->lora.n_targets] = name_of(i);
        view->targets[view->lora.n_targets++] =
            (ew_lora_target){.name = name,
                             .rank = linear->rank,
                             .alpha = linear->alpha,
                             .a = factor_view(name, linear->a.values, linear->rank, linear->cols),
                             .b = factor_view(name, linear->b.values, linear->rows, linear->rank)};
    }
    view->lora.targets = view->targets;
    view->lora.rslora = network->rslora;
    return EW_OK;
}

void ew_lora_view_close(ew_lora_view *view) {
    free(view->targets);
    free(view->names);
    *view = (ew_lora_view){0};
}

ew_status ew_network_publish(ew_network *network, ew_error *error) {
    if (!network->model) {
        return EW_OK;
    }
    ew_lora_view view;
    ew_status status = ew_lora_view_open(network, &view, error);
    if (status == EW_OK) {
        ew_adapter *made;
        status = ew_adapter_from_lora(network->model, &view.lora, EW_ADAPTER_F32, &made, error);
        if (status == EW_OK) {
            ew_adapter_release(network->adapter);
            network->adapter = made;
        }
        ew_lora_view_close(&view);
    }
    return status;
}
#endif

void ew_network_close(ew_network *network) {
    if (!network) {
        return;
    }
    ew_adapter_release(network->adapter);
    ew_parameters_free(&network->parameters);
    free(network->frozen);
    free(network->layers);
    free(network);
}
