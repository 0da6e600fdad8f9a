#include "quant/quantize_plan.h"
#include "base/memory.h"
#include "quant/int8.h"
#include "quant/pack.h"

#include <stdlib.h>

static ew_status check_options(const ew_quantize_options *options, ew_error *error) {
    size_t group = options->group;
    if (!ew_matrix_group_exists(EW_MATRIX_INT4_SYMMETRIC, group)) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "a group of %zu inputs does not exist; 0 (a row), 32, 64 and 128 do", group);
    }
    if (options->kv_grain % 4 != 0 || options->kv_grain > EW_CONFIG_MAX_HEAD_DIM) {
        return ew_fail(
            error, EW_ERROR_ARGUMENT,
            "a KV grain of %zu channels does not exist; multiples of 4 up to %d do, and 0 for a whole head",
            options->kv_grain, EW_CONFIG_MAX_HEAD_DIM);
    }
    if (options->n_threads > EW_THREADS_MAX) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%zu threads are too many; %d is the most",
                       options->n_threads, EW_THREADS_MAX);
    }
    return EW_OK;
}

static bool is_layer_matrix(ew_layer_kind kind) {
    return kind != EW_LAYER_VECTOR && kind != EW_LAYER_EMBEDDING && kind != EW_LAYER_HEAD;
}

static ew_quantize_scheme choose_scheme(const ew_checkpoint *checkpoint, ew_quantize_scheme wanted) {
    if (wanted != EW_SCHEME_DEFAULT) {
        return wanted;
    }
    for (size_t i = 0; i < ew_checkpoint_tensor_count(checkpoint); i++) {
        const ew_tensor *tensor = ew_checkpoint_tensor_at(checkpoint, i);
        ew_matrix_format format;
        if (is_layer_matrix(ew_layer_kind_of(tensor->name)) &&
            ew_pack_lossless_format(tensor->type, &format)) {
            return EW_SCHEME_KEEP;
        }
    }
    return EW_SCHEME_SYMMETRIC;
}

/* What one matrix becomes: `keep` wins where it can, then embedding and head have rules of their own. */
static void choose_format(const ew_quantize_options *options, ew_quantize_scheme scheme, ew_planned *item) {
    ew_matrix_format same;
    bool can_repack = ew_pack_lossless_format(item->source->type, &same);
    bool int8 =
        item->kind == EW_LAYER_EMBEDDING || (item->kind == EW_LAYER_HEAD && options->head == EW_HEAD_INT8);
    if (can_repack && (scheme == EW_SCHEME_KEEP || (int8 && same == EW_MATRIX_INT8))) {
        item->format = same;
        item->group = EW_BLOCK_COLS;
        item->lossless = true;
        return;
    }
    item->format = int8                         ? EW_MATRIX_INT8
                   : scheme == EW_SCHEME_OFFSET ? EW_MATRIX_INT4_OFFSET
                                                : EW_MATRIX_INT4_SYMMETRIC;
    item->group = int8 ? EW_INT8_GROUP : options->group;
}

static ew_status plan_item(const ew_quantize_options *options, ew_quantize_scheme scheme,
                           const ew_tensor *source, const char *name, ew_planned *item, ew_error *error) {
    *item = (ew_planned){.source = source,
                         .name = name,
                         .kind = ew_layer_kind_of(name),
                         .rows = source->rows,
                         .cols = source->cols};
    if (item->kind == EW_LAYER_VECTOR) {
        return EW_OK;
    }
    choose_format(options, scheme, item);
    return ew_matrix_plan(item->format, item->rows, item->cols, item->group, &item->layout, error);
}

/* Whether a tied model gets a head of its own: INT4, unless `keep` has the embedding as it is. */
static bool needs_own_head(const ew_quantize_options *options, ew_quantize_scheme scheme,
                           const ew_config *config, const ew_tensor *embedding) {
    ew_matrix_format format;
    bool kept = scheme == EW_SCHEME_KEEP && ew_pack_lossless_format(embedding->type, &format);
    return config->tied_embeddings && options->head == EW_HEAD_INT4 && !kept;
}

ew_status ew_quantize_plan_make(const ew_checkpoint *checkpoint, const ew_quantize_options *options,
                                ew_quantize_plan *plan, ew_error *error) {
    *plan = (ew_quantize_plan){0};
    if (ew_checkpoint_kind(checkpoint) == EW_CHECKPOINT_EDGEWISE) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "%s is quantized already; rounding it again would pass for its source's quantization: "
                       "quantize the model that it was made from",
                       ew_checkpoint_path(checkpoint));
    }
    ew_status status = check_options(options, error);
    if (status != EW_OK) {
        return status;
    }
    plan->config = *ew_checkpoint_config(checkpoint);
    ew_config *config = &plan->config;
    plan->scheme = choose_scheme(checkpoint, options->scheme);
    size_t n_tensors = ew_checkpoint_tensor_count(checkpoint);
    plan->items = ew_allocate(n_tensors + 1, sizeof *plan->items);
    if (!plan->items) {
        return ew_fail_memory(error, n_tensors * sizeof *plan->items, "the plan of a quantization");
    }
    const ew_tensor *embedding = ew_checkpoint_find(checkpoint, "token_embd.weight");
    plan->head_is_embedding = config->tied_embeddings;
    for (size_t i = 0; status == EW_OK && i < n_tensors; i++) {
        const ew_tensor *tensor = ew_checkpoint_tensor_at(checkpoint, i);
        status = plan_item(options, plan->scheme, tensor, tensor->name, &plan->items[plan->count++], error);
    }
    if (status == EW_OK && embedding && needs_own_head(options, plan->scheme, config, embedding)) {
        config->tied_embeddings = false;
        plan->head_is_embedding = false;
        status =
            plan_item(options, plan->scheme, embedding, "output.weight", &plan->items[plan->count++], error);
    }
    if (status != EW_OK) {
        ew_quantize_plan_free(plan);
    }
    return status;
}

void ew_quantize_plan_free(ew_quantize_plan *plan) {
    free(plan->items);
    *plan = (ew_quantize_plan){0};
}
