#include "base/memory.h"
#include "base/random.h"
#include "model/synthetic.h"

#include <stdlib.h>

/* All matrices are cut from one stretch of random values, each from another place: as many random numbers as the largest
 * matrix has, not as many as the adapter. */
typedef struct material {
    float *values;
    size_t n;
    ew_lora_target *targets;
    ew_linear_name *names;
    size_t n_targets;
} material;

enum { STEPS = 4093 }; /* places a matrix may begin at */

static void find_largest(const ew_model *model, size_t rank, size_t *largest) {
    *largest = 0;
    for (int kind = 0; kind < EW_LINEARS; kind++) {
        const ew_matrix *w = ew_layer_linear(&model->weights.layers[0], (ew_linear_kind)kind);
        size_t widest = w->cols > w->rows ? w->cols : w->rows;
        *largest = widest * rank > *largest ? widest * rank : *largest;
    }
}

static ew_status allocate(const ew_model *model, size_t rank, material *m, ew_error *error) {
    enum { RANK_MOST = 1 << 16 };
    if (rank == 0 || rank > RANK_MOST) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "an adapter of rank %zu cannot be; 1 to %d are possible", rank,
                       RANK_MOST);
    }
    m->n_targets = model->config.n_layers * EW_LINEARS;
    find_largest(model, rank, &m->n);
    m->n += STEPS;
    m->values = ew_allocate(m->n, sizeof *m->values);
    m->targets = ew_allocate(m->n_targets, sizeof *m->targets);
    m->names = ew_allocate(m->n_targets, sizeof *m->names);
    return m->values && m->targets && m->names ? EW_OK
                                               : ew_fail_memory(error, m->n * sizeof *m->values, "a synthetic adapter");
}

/* Uniform in -scale .. scale, scale being a power of two, so that no rounding is involved. */
static void fill(material *m, uint64_t seed, size_t d_model) {
    float scale = 1.0f;
    for (size_t n = 1; n < d_model; n *= 4) {
        scale *= 0.5f;
    }
    uint64_t bits = ew_random_bits(seed, 0, 0);
    for (size_t i = 0; i < m->n; i++) {
        bits = ew_random_mix(bits);
        m->values[i] = (float)((int)(bits & 0xffff) - 0x8000) * (0x1p-15f * scale);
    }
}

static ew_tensor matrix_of(const material *m, size_t index, size_t rows, size_t cols) {
    const float *values = m->values + index * 37 % STEPS;
    return (ew_tensor){.type = EW_DTYPE_F32,
                       .rows = rows,
                       .cols = cols,
                       .data = (const uint8_t *)values,
                       .bytes = rows * cols * sizeof(float),
                       .row_bytes = cols * sizeof(float)};
}

ew_status ew_synthetic_adapter(const ew_model *model, size_t rank, uint64_t seed, ew_adapter_storage storage,
                               ew_adapter **adapter, ew_error *error) {
    material m = {0};
    *adapter = NULL;
    ew_status status = allocate(model, rank, &m, error);
    if (status == EW_OK) {
        fill(&m, seed, model->config.d_model);
        for (size_t i = 0; i < m.n_targets; i++) {
            ew_linear_kind kind = (ew_linear_kind)(i % EW_LINEARS);
            const ew_matrix *w = ew_layer_linear(&model->weights.layers[i / EW_LINEARS], kind);
            m.names[i] = ew_layer_linear_name(i / EW_LINEARS, kind);
            m.targets[i] = (ew_lora_target){.name = m.names[i].text,
                                            .rank = rank,
                                            .alpha = (double)rank,
                                            .a.values = matrix_of(&m, 2 * i, rank, w->cols),
                                            .b.values = matrix_of(&m, 2 * i + 1, w->rows, rank)};
        }
        const ew_lora lora = {.name = "synthetic", .targets = m.targets, .n_targets = m.n_targets};
        status = ew_adapter_from_lora(model, &lora, storage, adapter, error);
    }
    free(m.values);
    free(m.targets);
    free(m.names);
    return status;
}
