#include "model/synthetic.h"
#include "base/float16.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    ew_architecture architecture;
    size_t n_layers, d_model, n_heads, n_kv_heads, head_dim, d_ff, vocab_size;
    double rope_theta;
    bool tied; /* the head is the embedding's matrix in float weights; quantized ones are made apart */
} shape;

const char *const ew_synthetic_shape_names[] = {"smollm2-135m", "qwen2.5-0.5b", "qwen2.5-1.5b",
                                                "qwen2.5-3b",   "qwen2.5-7b",   NULL};

/* In the order of the names. */
static const shape shapes[] = {
    {EW_ARCHITECTURE_LLAMA, 30, 576, 9, 3, 64, 1536, 49152, 1e5, true},
    {EW_ARCHITECTURE_QWEN2, 24, 896, 14, 2, 64, 4864, 151936, 1e6, true},
    {EW_ARCHITECTURE_QWEN2, 28, 1536, 12, 2, 128, 8960, 151936, 1e6, true},
    {EW_ARCHITECTURE_QWEN2, 36, 2048, 16, 2, 128, 11008, 151936, 1e6, true},
    {EW_ARCHITECTURE_QWEN2, 28, 3584, 28, 4, 128, 18944, 152064, 1e6, false},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
_Static_assert(sizeof ew_synthetic_shape_names / sizeof *ew_synthetic_shape_names == N_SHAPES + 1, "a name for each");

/* Random bytes of one matrix's codes, a chunk of them by chunk number, so that threads do not matter. */
typedef struct filling {
    uint8_t *bytes;
    size_t size;
    uint64_t seed;
} filling;

enum { FILL_CHUNK = 1 << 16 };

static void fill_task(void *context, size_t begin, size_t end) {
    const filling *f = context;
    for (size_t chunk = begin; chunk < end; chunk++) {
        size_t from = chunk * FILL_CHUNK, to = from + FILL_CHUNK < f->size ? from + FILL_CHUNK : f->size;
        uint64_t bits = ew_random_bits(f->seed, chunk, 0);
        for (size_t i = from; i < to; i += sizeof bits) {
            bits = ew_random_mix(bits);
            memcpy(f->bytes + i, &bits, to - i < sizeof bits ? to - i : sizeof bits);
        }
    }
}

typedef struct maker {
    ew_model *model;
    ew_pool *pool;
    uint64_t n_made; /* seeds the next matrix */
    uint8_t *next;   /* what is left of the last piece of memory */
    size_t left;
    ew_error *error;
} maker;

static void *allocate_owned(maker *m, size_t bytes) {
    ew_model_weights *weights = &m->model->weights;
    void *memory = ew_allocate_aligned(bytes, 1);
    if (!memory ||
        !ew_grow((void **)&weights->owned, &weights->owned_capacity, weights->n_owned + 1, sizeof *weights->owned)) {
        free(memory);
        ew_fail_memory(m->error, bytes, "a synthetic model");
        return NULL;
    }
    return weights->owned[weights->n_owned++] = memory;
}

/* Zeroed memory of the model. What is too small to get large pages of its own lies one behind the other in pieces that do:
 * small pages are read more slowly. NULL: no memory. */
static void *take(maker *m, size_t bytes) {
    enum { PIECE = 1 << 25, LARGE = PIECE / 4, ALIGNMENT = 64 };
    m->model->weights.bytes += bytes;
    if (bytes >= LARGE) {
        return allocate_owned(m, bytes);
    }
    size_t size = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (size > m->left) {
        m->next = allocate_owned(m, PIECE);
        m->left = m->next ? PIECE : 0;
    }
    if (!m->next) {
        return NULL;
    }
    void *memory = m->next;
    m->next += size;
    m->left -= size;
    return memory;
}

/* Weights of about the size that trained ones have: outputs as large as inputs. */
static void fill_scales(uint8_t *memory, const ew_matrix_layout *layout, ew_matrix_format format, size_t cols,
                        bool per_row) {
    double spread = format == EW_MATRIX_INT8 ? 74.0 : 4.6; /* standard deviation of uniform codes */
    float scale = (float)(1 / (spread * sqrt((double)cols)));
    float offset = format == EW_MATRIX_INT4_OFFSET ? -7.5f * scale : 0.0f;
    size_t n = layout->n_tiles * layout->n_groups * EW_TILE_ROWS;
    for (size_t i = 0; i < n; i++) {
        if (per_row) {
            ((float *)(void *)(memory + layout->scales_at))[i] = scale;
        } else {
            ((uint16_t *)(void *)(memory + layout->scales_at))[i] = ew_f32_to_f16(scale);
        }
        if (offset != 0.0f && per_row) {
            ((float *)(void *)(memory + layout->offsets_at))[i] = offset;
        } else if (offset != 0.0f) {
            ((uint16_t *)(void *)(memory + layout->offsets_at))[i] = ew_f32_to_f16(offset);
        }
    }
}

static ew_status make_matrix(maker *m, ew_matrix_format format, size_t rows, size_t cols, size_t group,
                             ew_matrix *matrix) {
    ew_matrix_layout layout;
    group = format == EW_MATRIX_INT8 ? EW_BLOCK_COLS : group;
    ew_status status = ew_matrix_plan(format, rows, cols, group, &layout, m->error);
    if (status != EW_OK) {
        return status;
    }
    uint8_t *memory = take(m, layout.total);
    if (!memory) {
        return EW_ERROR_MEMORY;
    }
    filling f = {memory, layout.scales_at, m->n_made++};
    ew_pool_run(m->pool, (f.size + FILL_CHUNK - 1) / FILL_CHUNK, 1, fill_task, &f);
    fill_scales(memory, &layout, format, cols, group == 0);
    return ew_matrix_view(format, rows, cols, group, memory, layout.total, matrix, m->error);
}

static ew_status make_vector(maker *m, size_t n, float value, const float **vector) {
    float *values = take(m, n * sizeof *values);
    if (!values) {
        return EW_ERROR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        values[i] = value;
    }
    *vector = values;
    return EW_OK;
}

static ew_status make_layer(maker *m, const ew_synthetic_options *options, ew_layer *layer) {
    const ew_config *config = &m->model->config;
    size_t d = config->d_model, q = config->n_heads * config->head_dim, kv = config->n_kv_heads * config->head_dim;
    const struct {
        ew_matrix *matrix;
        size_t rows, cols;
    } matrices[] = {
        {&layer->q, q, d},
        {&layer->k, kv, d},
        {&layer->v, kv, d},
        {&layer->o, d, q},
        {&layer->gate, config->d_ff, d},
        {&layer->up, config->d_ff, d},
        {&layer->down, d, config->d_ff},
    };
    ew_status status = make_vector(m, d, 1.0f, &layer->attn_norm);
    if (status == EW_OK) {
        status = make_vector(m, d, 1.0f, &layer->ffn_norm);
    }
    for (size_t i = 0; status == EW_OK && i < sizeof matrices / sizeof *matrices; i++) {
        status =
            make_matrix(m, options->format, matrices[i].rows, matrices[i].cols, options->group, matrices[i].matrix);
    }
    if (status == EW_OK && config->qkv_bias) {
        status = make_vector(m, q, 0.01f, &layer->q_bias);
        layer->k_bias = layer->v_bias = layer->q_bias; /* q is at least as wide */
    }
    return status;
}

static ew_status make_weights(maker *m, const ew_synthetic_options *options) {
    const ew_config *config = &m->model->config;
    ew_model_weights *weights = &m->model->weights;
    weights->quantized = true;
    weights->activations = options->activations;
    weights->kv_grain = 32;
    weights->layers = ew_allocate(config->n_layers, sizeof *weights->layers);
    if (!weights->layers) {
        return ew_fail_memory(m->error, config->n_layers * sizeof *weights->layers, "a synthetic model");
    }
    ew_status status =
        make_matrix(m, EW_MATRIX_INT8, config->vocab_size, config->d_model, EW_BLOCK_COLS, &weights->embedding);
    for (size_t i = 0; status == EW_OK && i < config->n_layers; i++) {
        status = make_layer(m, options, &weights->layers[i]);
    }
    if (status == EW_OK) {
        status = make_vector(m, config->d_model, 1.0f, &weights->output_norm);
    }
    if (status == EW_OK) {
        status = make_matrix(m, options->format, config->vocab_size, config->d_model, options->group, &weights->head);
    }
    return status;
}

static const shape *find_shape(const char *name) {
    for (size_t i = 0; i < N_SHAPES; i++) {
        if (strcmp(ew_synthetic_shape_names[i], name) == 0) {
            return &shapes[i];
        }
    }
    return NULL;
}

ew_status ew_synthetic_config(const char *name, size_t context_length, ew_config *config, ew_error *error) {
    const shape *s = find_shape(name);
    if (!s) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "there is no shape %s", name);
    }
    *config = (ew_config){
        .architecture = s->architecture,
        .n_layers = s->n_layers,
        .d_model = s->d_model,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .d_ff = s->d_ff,
        .vocab_size = s->vocab_size,
        .context_length = context_length,
        .rms_norm_eps = 1e-6f,
        .qkv_bias = s->architecture == EW_ARCHITECTURE_QWEN2,
        .tied_embeddings = s->tied,
        .rope = {.theta = s->rope_theta},
    };
    return EW_OK;
}

ew_status ew_synthetic_model(const ew_synthetic_options *options, ew_pool *pool, ew_model **out, ew_error *error) {
    *out = NULL;
    ew_model *model = ew_allocate(1, sizeof *model);
    if (!model) {
        return ew_fail_memory(error, sizeof *model, "a synthetic model");
    }
    ew_status status = ew_synthetic_config(options->shape, options->context_length, &model->config, error);
    if (status == EW_OK) {
        model->kv_quantized = true;
        ew_rope_prepare(&model->config.rope, model->config.head_dim, &model->rope);
        ew_fail(&model->template_error, EW_ERROR_UNSUPPORTED, "a synthetic model has no chat template");
        maker m = {.model = model, .pool = pool, .error = error};
        status = make_weights(&m, options);
    }
    if (status != EW_OK) {
        ew_model_close(model);
        return status;
    }
    *out = model;
    return EW_OK;
}
