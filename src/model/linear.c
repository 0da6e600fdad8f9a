#include "model/linear.h"

typedef struct product_list {
    const ew_kernels *kernels;
    ew_product *products;
    size_t n;
} product_list;

void ew_for_batch_rows(ew_pool *pool, size_t n_rows, ew_task task, void *context) {
    enum { SERIAL_ROWS = 2, CHUNKS_PER_THREAD = 4 };
    size_t chunk = n_rows <= SERIAL_ROWS ? n_rows : n_rows / (ew_pool_size(pool) * CHUNKS_PER_THREAD);
    ew_pool_run(pool, n_rows, chunk, task, context);
}

static size_t tiles_of(const ew_matrix *matrix) {
    return (matrix->rows + EW_TILE_ROWS - 1) / EW_TILE_ROWS;
}

/* ---- Loops over tiles ---- */

/* Tiles of the products, counted through. */
typedef void (*tile_function)(const ew_kernels *kernels, const ew_product *p, size_t from, size_t to);

static void for_tiles(const product_list *list, size_t begin, size_t end, tile_function function) {
    size_t first = 0;
    for (size_t i = 0; i < list->n && first < end; i++) {
        size_t n_tiles = tiles_of(list->products[i].matrix);
        size_t from = begin > first ? begin - first : 0, to = end - first < n_tiles ? end - first : n_tiles;
        if (from < to) {
            function(list->kernels, &list->products[i], from, to);
        }
        first += n_tiles;
    }
}

static size_t tiles_of_all(const product_list *list) {
    size_t n_tiles = 0;
    for (size_t i = 0; i < list->n; i++) {
        n_tiles += tiles_of(list->products[i].matrix);
    }
    return n_tiles;
}

static void multiply(const ew_kernels *kernels, const ew_product *p, const ew_matrix *matrix, size_t from, size_t to,
                     float *output, size_t stride) {
    if (ew_matrix_is_float(matrix->format)) {
        kernels->matmul_float(matrix, from, to, p->float_inputs, p->float_stride, p->n_rows, output, stride);
    } else {
        kernels->matmul(matrix, from, to, &p->inputs, output, stride);
    }
}

static void fill_tiles(const ew_kernels *kernels, const ew_product *p, size_t from, size_t to) {
    multiply(kernels, p, p->matrix, from, to, p->output, p->stride);
}

static void fill_task(void *context, size_t begin, size_t end) {
    for_tiles(context, begin, end, fill_tiles);
}

enum { ADDED_TILES = 8, ADDED_ROWS = 16, ADDED_STRIDE = ADDED_TILES * EW_TILE_ROWS };

/* Output columns of `part`, a piece of the matrix, for rows begin .. begin + n - 1 of the product. */
static void add_part(const ew_kernels *kernels, const ew_product *p, const ew_matrix *part, size_t begin, size_t n,
                     float *output) {
    float added[ADDED_ROWS * ADDED_STRIDE];
    ew_product some = *p;
    some.n_rows = n;
    some.inputs = ew_activations_rows(&p->inputs, begin, n);
    some.float_inputs += begin * p->float_stride;
    multiply(kernels, &some, part, 0, tiles_of(part), added, ADDED_STRIDE);
    for (size_t row = 0; row < n; row++) {
        kernels->add_scaled(output + (begin + row) * p->stride, added + row * ADDED_STRIDE, p->scale, part->rows);
    }
}

/* A rank's worth of columns is over before the processor has found out what is read: all lines of some tiles are asked
 * for at once. */
static void prefetch_tiles(const ew_matrix *matrix, size_t from, size_t to) {
    enum { BYTES_MOST = 1 << 15, LINE = 64 };
    const uint8_t *begin = (const uint8_t *)matrix->codes + from * ew_matrix_tile_bytes(matrix);
    size_t bytes = (to - from) * ew_matrix_tile_bytes(matrix);
    for (size_t at = 0; at < bytes && at < BYTES_MOST; at += LINE) {
        __builtin_prefetch(begin + at, 0, 2);
    }
}

static void add_tiles(const ew_kernels *kernels, const ew_product *p, size_t from, size_t to) {
    size_t end = from + ADDED_TILES < to ? from + ADDED_TILES : to;
    prefetch_tiles(p->matrix, from, end);
    for (size_t tile = from, next; tile < to; tile = end, end = next) {
        next = end + ADDED_TILES < to ? end + ADDED_TILES : to;
        prefetch_tiles(p->matrix, end, next);
        ew_matrix part = ew_matrix_tiles(p->matrix, tile, end);
        for (size_t row = 0; row < p->n_rows; row += ADDED_ROWS) {
            size_t n = p->n_rows - row < ADDED_ROWS ? p->n_rows - row : ADDED_ROWS;
            add_part(kernels, p, &part, row, n, p->output + tile * EW_TILE_ROWS);
        }
    }
}

static void add_task(void *context, size_t begin, size_t end) {
    for_tiles(context, begin, end, add_tiles);
}

/* Rows begin .. end - 1 of the batch: A x becomes the inputs of the B that are integers. */
static void reduced_task(void *context, size_t begin, size_t end) {
    const product_list *list = context;
    for (size_t i = 0; i < list->n; i++) {
        ew_product *p = &list->products[i];
        size_t from = begin > p->first ? begin : p->first, to = p->first + p->n_rows;
        to = end < to ? end : to;
        for (size_t row = from; !ew_matrix_is_float(p->matrix->format) && row < to; row++) {
            list->kernels->quantize(p->float_inputs + (row - p->first) * p->float_stride, row - p->first, &p->inputs);
        }
    }
}

/* ---- The products of a run ---- */

void ew_linear_add(ew_linear_run *run, const ew_matrix *matrix, ew_linear_kind kind, float *output, size_t stride) {
    run->matrices[run->n_matrices] = matrix;
    run->kinds[run->n_matrices] = kind;
    run->outputs[run->n_matrices] = output;
    run->strides[run->n_matrices++] = stride;
}

/* The inputs of rows first .. first + n_rows - 1: integers for an integer matrix; floats for a float one, which in a
 * quantized model is an adapter's and reads what the integers stand for. */
static ew_product product_of(const ew_linear_run *run, const ew_matrix *matrix, size_t first, size_t n_rows) {
    const float *floats = run->inputs ? run->session->adapter_workspace.plain : run->float_inputs;
    ew_product p = {.matrix = matrix, .first = first, .n_rows = n_rows};
    if (ew_matrix_is_float(matrix->format)) {
        p.float_inputs = floats + first * run->width;
        p.float_stride = run->width;
    } else {
        p.inputs = ew_activations_rows(run->inputs, first, n_rows);
    }
    return p;
}

static void list_matrices(const ew_linear_run *run, product_list *list) {
    for (size_t i = 0; i < run->n_matrices; i++) {
        ew_product p = product_of(run, run->matrices[i], 0, run->n_rows);
        p.output = run->outputs[i];
        p.stride = run->strides[i];
        list->products[list->n++] = p;
    }
}

/* Adds A, or B, of matrix i for one group. */
static void list_factor(const ew_linear_run *run, const ew_adapter_group *group, size_t i, bool b, product_list *list) {
    const ew_adapter_workspace *work = &run->session->adapter_workspace;
    const ew_adapter_pair *pair = ew_adapter_pair_of(group->adapter, run->layer, run->kinds[i]);
    if (pair->rank == 0) {
        return;
    }
    float *reduced = work->reduced[i] + group->first * work->rank;
    ew_product p;
    if (b) {
        p = (ew_product){.matrix = &pair->b, .first = group->first, .n_rows = group->n_rows};
        p.inputs = ew_activations_rows(&work->reduced_inputs[i], group->first, group->n_rows);
        p.inputs.cols = pair->rank;
        p.inputs.n_blocks = (pair->rank + EW_BLOCK_COLS - 1) / EW_BLOCK_COLS;
        p.float_inputs = reduced;
        p.float_stride = work->rank;
        p.output = run->outputs[i] + group->first * run->strides[i];
        p.stride = run->strides[i];
        p.scale = pair->scale;
    } else {
        p = product_of(run, &pair->a, group->first, group->n_rows);
        p.output = reduced;
        p.stride = work->rank;
    }
    list->products[list->n++] = p;
}

static void list_factors(const ew_linear_run *run, bool b, product_list *list) {
    for (size_t g = 0; g < run->n_groups; g++) {
        for (size_t i = 0; i < run->n_matrices; i++) {
            list_factor(run, &run->session->adapter_workspace.groups[g], i, b, list);
        }
    }
}

void ew_linear_compute(const ew_linear_run *run) {
    enum { FILL_LEAST = 4 };            /* tiles; kernels take two at a time */
    enum { ADD_CHUNKS_PER_THREAD = 3 }; /* B is small, and a chunk of it begins cold */
    ew_session *session = run->session;
    ew_product own[EW_LINEARS_TOGETHER];
    product_list list = {.kernels = session->kernels,
                         .products = run->n_groups > 0 ? session->adapter_workspace.products : own};
    list_factors(run, false, &list);
    bool adapted = list.n > 0;
    list_matrices(run, &list);
    ew_pool_run_shrinking(session->pool, tiles_of_all(&list), FILL_LEAST, fill_task, &list);
    if (adapted) {
        list.n = 0;
        list_factors(run, true, &list);
        ew_for_batch_rows(session->pool, run->n_rows, reduced_task, &list);
        size_t n_tiles = tiles_of_all(&list), n_chunks = ew_pool_size(session->pool) * ADD_CHUNKS_PER_THREAD;
        ew_pool_run(session->pool, n_tiles, n_tiles / n_chunks, add_task, &list);
    }
}

void ew_linear_inputs(const ew_session *session, const float *x, size_t row, const ew_adapter *adapter,
                      ew_activations *inputs) {
    if (!session->model->weights.quantized) {
        return;
    }
    session->kernels->quantize(x, row, inputs);
    if (adapter && adapter->float_inputs) {
        session->kernels->dequantize(inputs, row, session->adapter_workspace.plain + row * inputs->cols);
    }
}
