#include "base/memory.h"
#include "model/linear.h"

#include <stdlib.h>

size_t ew_find_adapter_groups(ew_session *session, const ew_row *rows, size_t n_rows) {
    ew_adapter_group *groups = session->adapter_workspace.groups;
    size_t n = 0;
    for (size_t row = 0; row < n_rows; row++) {
        const ew_adapter *adapter = rows[row].adapter;
        if (adapter && row > 0 && rows[row - 1].adapter == adapter) {
            groups[n - 1].n_rows++;
        } else if (adapter) {
            groups[n++] = (ew_adapter_group){adapter, row, 1};
        }
    }
    return n;
}

static float *allocate_rows(size_t n_rows, size_t width) {
    size_t n;
    return ew_multiply_size(n_rows, width, &n) ? ew_allocate_aligned(n, sizeof(float)) : NULL;
}

static size_t widest_input(const ew_config *config) {
    size_t q_width = config->n_heads * config->head_dim;
    size_t widest = config->d_model > q_width ? config->d_model : q_width;
    return config->d_ff > widest ? config->d_ff : widest;
}

static ew_status allocate(const ew_session *session, size_t rank, bool plain, ew_adapter_workspace *w,
                          ew_error *error) {
    size_t n_rows = session->workspace.n_rows, width = widest_input(&session->model->config);
    size_t n_products = EW_LINEARS_TOGETHER * (n_rows + 1);
    *w = (ew_adapter_workspace){.rank = rank};
    w->groups = ew_allocate(n_rows, sizeof *w->groups);
    w->products = ew_allocate(n_products, sizeof *w->products);
    w->plain = plain ? allocate_rows(n_rows, width) : NULL;
    bool complete = w->groups && w->products && (w->plain || !plain);
    for (size_t i = 0; complete && i < EW_LINEARS_TOGETHER; i++) {
        w->reduced[i] = allocate_rows(n_rows, rank);
        complete = w->reduced[i] &&
                   ew_activations_allocate(&w->reduced_inputs[i], EW_ACTIVATION_INT16, rank, n_rows, NULL) == EW_OK;
    }
    return complete ? EW_OK
                    : ew_fail_memory(error, n_rows * (rank + width) * sizeof(float), "the work space of adapters");
}

ew_status ew_adapter_workspace_reserve(ew_session *session, const ew_adapter *adapter, ew_error *error) {
    ew_adapter_workspace *old = &session->adapter_workspace, wanted;
    size_t rank = adapter->info.rank > old->rank ? adapter->info.rank : old->rank;
    bool plain = old->plain || (adapter->float_inputs && session->model->weights.quantized);
    if (rank == old->rank && plain == (old->plain != NULL)) {
        return EW_OK;
    }
    ew_status status = allocate(session, rank, plain, &wanted, error);
    if (status != EW_OK) {
        ew_adapter_workspace_free(&wanted);
        return status;
    }
    ew_adapter_workspace_free(old);
    *old = wanted;
    return EW_OK;
}

void ew_adapter_workspace_free(ew_adapter_workspace *workspace) {
    for (size_t i = 0; i < EW_LINEARS_TOGETHER; i++) {
        free(workspace->reduced[i]);
        ew_activations_free(&workspace->reduced_inputs[i]);
    }
    free(workspace->plain);
    free(workspace->groups);
    free(workspace->products);
    *workspace = (ew_adapter_workspace){0};
}
