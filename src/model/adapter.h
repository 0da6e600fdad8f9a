/* Adapters in memory: A and B of a model's linear layers in the order that the kernels read.
 *
 * An adapter is constant once it is made, and counted: the handle and every stream that has it hold one reference each.
 * docs/arithmetic.md ("Adapters") says what is computed; linear.c does it. */
#ifndef EW_MODEL_ADAPTER_H
#define EW_MODEL_ADAPTER_H

#include "format/adapter.h"
#include "model/model.h"

/* Of one linear layer W [rows, cols]: y += scale * B (A x). Factors are F32, F16 or INT8 with one scale a row. */
typedef struct ew_adapter_pair {
    size_t rank; /* 0: W is left alone */
    float scale;
    ew_matrix a;     /* [rank, cols] */
    ew_matrix b;     /* [rows, rank] */
    void *memory[2]; /* of a and b, owned */
} ew_adapter_pair;

struct ew_adapter {
    atomic_size_t n_references;
    const ew_model *model;
    ew_adapter_pair *pairs; /* [n_layers][EW_LINEARS] */
    size_t n_pairs;         /* all of them: the last reference may outlive the model */
    bool float_inputs;      /* some A is F32 or F16 */
    char *name;
    int32_t *invocation_tokens;
    char fingerprint[65]; /* ew_lora_fingerprint of its file; "": from memory */
    ew_adapter_info info;
};

static inline const ew_adapter_pair *ew_adapter_pair_of(const ew_adapter *adapter, size_t layer, ew_linear_kind kind) {
    return &adapter->pairs[layer * EW_LINEARS + (size_t)kind];
}

/* From matrices in memory, such as those that are being trained: they are copied, and what is made of them is a load of
 * its own. EW_ERROR_FORMAT when a target is not in the model or has another shape there; EW_ERROR_ARGUMENT for a value
 * that the storage cannot hold. Values are not looked at otherwise. */
ew_status ew_adapter_from_lora(const ew_model *model, const ew_lora *lora, ew_adapter_storage storage,
                               ew_adapter **adapter, ew_error *error);

/* One reference more, one less. NULL is fine. */
void ew_adapter_retain(const ew_adapter *adapter);
void ew_adapter_release(const ew_adapter *adapter);

#endif
