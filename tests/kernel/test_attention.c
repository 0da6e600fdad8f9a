/* Cells and attention: every kernel set against scalar.c bit for bit, the float path against doubles. */
#include "support.h"

#include "kernel_data.h"

enum { MAX_PAGES = 40 };

static const struct {
    size_t head_dim, grain;
} LAYOUTS[] = {{16, 32}, {16, 0}, {24, 8},  {48, 32},  {64, 32}, {64, 64},  {64, 20},
               {80, 32}, {80, 0}, {96, 24}, {128, 32}, {128, 0}, {256, 32}, {256, 64}};
enum { N_LAYOUTS = sizeof LAYOUTS / sizeof LAYOUTS[0] };

typedef struct {
    ew_kv_layout layout;
    size_t n_positions, page_offset;
    uint8_t *pages[MAX_PAGES];
} test_cells;

static void free_cells(test_cells *cells) {
    for (size_t i = 0; i < MAX_PAGES; i++) {
        free(cells->pages[i]);
    }
}

/* Cells 0 .. n - 1 written by `kernels`, a few of them of another kind of data. */
static test_cells make_cells(const ew_kernels *kernels, ew_kv_layout layout, size_t n, int kind) {
    test_cells cells = {.layout = layout, .n_positions = n, .page_offset = 64};
    for (size_t t = 0; t < n; t++) {
        if (t % EW_PAGE_POSITIONS == 0) {
            cells.pages[t / EW_PAGE_POSITIONS] = ew_allocate_aligned(layout.page_bytes + cells.page_offset, 1);
            assert_non_null(cells.pages[t / EW_PAGE_POSITIONS]);
        }
        int row_kind = data_random() % 16 == 0 ? kind : DATA_NORMAL;
        float *key = data_floats(layout.head_dim, row_kind), *value = data_floats(layout.head_dim, row_kind);
        uint8_t *page = cells.pages[t / EW_PAGE_POSITIONS] + cells.page_offset;
        kernels->store_kv(&cells.layout, page, t % EW_PAGE_POSITIONS, key, value);
        free(key);
        free(value);
    }
    return cells;
}

static bool same_scale(const uint8_t *expected, const uint8_t *found) {
    float a, b;
    memcpy(&a, expected, sizeof a);
    memcpy(&b, found, sizeof b);
    return ew_float_to_bits(a) == ew_float_to_bits(b) || (isnan(a) && isnan(b));
}

static void assert_same_pages(const test_cells *expected, const test_cells *found, const char *name) {
    const ew_kv_layout *layout = &expected->layout;
    for (size_t i = 0; i * EW_PAGE_POSITIONS < expected->n_positions; i++) {
        const uint8_t *a = expected->pages[i] + expected->page_offset, *b = found->pages[i] + found->page_offset;
        for (size_t at = 0; at < layout->page_bytes; at += 4) {
            if (memcmp(a + at, b + at, 4) != 0 && !same_scale(a + at, b + at)) {
                fail_msg("%s: cells differ at byte %zu of page %zu", name, at, i);
            }
        }
    }
}

typedef struct {
    ew_attention call;
    float *queries[EW_ATTENTION_ROWS], *outputs[EW_ATTENTION_ROWS];
    const uint8_t *const *pages[EW_ATTENTION_ROWS];
    uint32_t n_positions[EW_ATTENTION_ROWS];
} test_queries;

static test_queries *make_queries(const test_cells *cells, size_t n_rows, int kind) {
    test_queries *queries = ew_allocate(1, sizeof *queries);
    assert_non_null(queries);
    for (size_t row = 0; row < n_rows; row++) {
        int row_kind = data_random() % 8 == 0 ? kind : DATA_NORMAL;
        queries->queries[row] = data_floats(cells->layout.head_dim, row_kind);
        queries->outputs[row] = data_floats(cells->layout.head_dim, DATA_NORMAL);
        queries->pages[row] = (const uint8_t *const *)cells->pages;
        size_t back = data_random() % 3 == 0 ? data_random() % cells->n_positions : row / 2;
        queries->n_positions[row] = (uint32_t)(cells->n_positions > back ? cells->n_positions - back : 1);
    }
    queries->call = (ew_attention){.layout = &cells->layout,
                                   .pages = queries->pages,
                                   .page_offset = cells->page_offset,
                                   .n_rows = n_rows,
                                   .queries = (const float *const *)queries->queries,
                                   .n_positions = queries->n_positions,
                                   .softmax_scale = 1.0f / sqrtf((float)cells->layout.head_dim),
                                   .outputs = queries->outputs};
    return queries;
}

static void free_queries(test_queries *queries) {
    for (size_t row = 0; row < EW_ATTENTION_ROWS; row++) {
        free(queries->queries[row]);
        free(queries->outputs[row]);
    }
    free(queries);
}

/* The same by the two steps, the runs cut anywhere and computed from the last to the first. */
static void attend_in_parts(const ew_kernels *kernels, const ew_attention *call) {
    size_t most = 0;
    for (size_t row = 0; row < call->n_rows; row++) {
        most = call->n_positions[row] > most ? call->n_positions[row] : most;
    }
    size_t n_runs = (most + EW_ATTENTION_PARTIAL - 1) / EW_ATTENTION_PARTIAL;
    float *partials =
        ew_allocate_aligned(call->n_rows * n_runs * ew_attention_partial_floats(call->layout), sizeof *partials);
    assert_non_null(partials);
    for (size_t end = n_runs; end > 0;) {
        size_t begin = data_random() % end;
        kernels->attend_runs(call, begin, end, n_runs, partials);
        end = begin;
    }
    kernels->merge_runs(call, n_runs, partials);
    free(partials);
}

static void assert_same_outputs(float *const *expected, test_queries *queries, const char *name, const char *way) {
    for (size_t row = 0; row < queries->call.n_rows; row++) {
        size_t head_dim = queries->call.layout->head_dim;
        assert_same_floats(expected[row], queries->outputs[row], head_dim, name, way);
        memset(queries->outputs[row], 0, head_dim * sizeof(float));
    }
}

/* All sets against the first, the definition, and each in parts; the definition is slow and computed once. */
static void compare_attend(const ew_kernels *const *all, size_t n_sets, const test_cells *cells, size_t n_rows,
                           int kind) {
    test_queries *queries = make_queries(cells, n_rows, kind);
    float *expected[EW_ATTENTION_ROWS];
    all[0]->attend(&queries->call);
    for (size_t row = 0; row < n_rows; row++) {
        expected[row] = queries->outputs[row];
        queries->outputs[row] = data_floats(cells->layout.head_dim, DATA_NORMAL);
    }
    for (size_t set = 0; set < n_sets; set++) {
        if (set > 0) {
            all[set]->attend(&queries->call);
            assert_same_outputs(expected, queries, all[set]->name, "attend");
        }
        attend_in_parts(all[set], &queries->call);
        assert_same_outputs(expected, queries, all[set]->name, "in parts");
    }
    for (size_t row = 0; row < n_rows; row++) {
        free(expected[row]);
    }
    free_queries(queries);
}

/* Rows of several streams: the first pages are the same ones, the later ones their own. */
static void compare_shared(const ew_kernels *definition, const ew_kernels *kernels, size_t n_positions,
                           size_t n_shared_pages) {
    enum { STREAMS = 3, ROWS_OF_ONE = 5 };
    ew_kv_layout layout = ew_kv_layout_make(true, 64, 32);
    test_cells cells[STREAMS];
    for (size_t k = 0; k < STREAMS; k++) {
        cells[k] = make_cells(definition, layout, n_positions - 7 * k, DATA_NORMAL);
        for (size_t i = 0; k > 0 && i < n_shared_pages && cells[k].pages[i]; i++) {
            free(cells[k].pages[i]);
            cells[k].pages[i] = cells[0].pages[i];
        }
    }
    test_queries *queries = make_queries(&cells[0], STREAMS * ROWS_OF_ONE, DATA_NORMAL);
    float *expected[STREAMS * ROWS_OF_ONE];
    for (size_t row = 0; row < STREAMS * ROWS_OF_ONE; row++) {
        const test_cells *own = &cells[row / ROWS_OF_ONE];
        queries->pages[row] = (const uint8_t *const *)own->pages;
        queries->n_positions[row] = (uint32_t)own->n_positions - (row % 3 == 0 ? 40 : 0);
    }
    definition->attend(&queries->call);
    for (size_t row = 0; row < STREAMS * ROWS_OF_ONE; row++) {
        expected[row] = queries->outputs[row];
        queries->outputs[row] = data_floats(layout.head_dim, DATA_NORMAL);
    }
    kernels->attend(&queries->call);
    for (size_t row = 0; row < STREAMS * ROWS_OF_ONE; row++) {
        assert_same_floats(expected[row], queries->outputs[row], layout.head_dim, kernels->name, "shared pages");
        free(expected[row]);
    }
    free_queries(queries);
    for (size_t k = 1; k < STREAMS; k++) {
        for (size_t i = 0; i < n_shared_pages; i++) {
            cells[k].pages[i] = NULL;
        }
    }
    for (size_t k = 0; k < STREAMS; k++) {
        free_cells(&cells[k]);
    }
}

static void test_shared_pages(void **state) {
    (void)state;
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count);
    for (size_t set = 1; set < count; set++) {
        data_seed(5);
        compare_shared(all[0], all[set], 100, 2);
        compare_shared(all[0], all[set], 600, 10);
        compare_shared(all[0], all[set], 300, 0);
    }
}

static const size_t POSITIONS[] = {1, 2, 16, 31, 32, 33, 63, 100, 255, 256, 257, 288, 511, 513, 800};
enum { N_POSITIONS = sizeof POSITIONS / sizeof POSITIONS[0] };

static void test_attend(void **state) {
    (void)state;
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count);
    data_seed(2);
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        ew_kv_layout layout = ew_kv_layout_make(true, LAYOUTS[i].head_dim, LAYOUTS[i].grain);
        for (int kind = 0; kind < N_DATA_KINDS; kind++) {
            size_t n = POSITIONS[data_random() % N_POSITIONS];
            uint64_t start = data_state;
            test_cells cells = make_cells(all[0], layout, n, kind);
            for (size_t set = 1; set < count; set++) {
                data_state = start;
                test_cells again = make_cells(all[set], layout, n, kind);
                assert_same_pages(&cells, &again, all[set]->name);
                free_cells(&again);
            }
            compare_attend(all, count, &cells, 1 + data_random() % EW_ATTENTION_ROWS, kind);
            free_cells(&cells);
        }
    }
    for (size_t i = 0; i < N_POSITIONS; i++) { /* every border, for the fewest and the most rows */
        test_cells cells = make_cells(all[0], ew_kv_layout_make(true, 64, 32), POSITIONS[i], DATA_NORMAL);
        compare_attend(all, count, &cells, 1, DATA_NORMAL);
        compare_attend(all, count, &cells, EW_ATTENTION_ROWS, DATA_NORMAL);
        free_cells(&cells);
    }
}

/* A row must not see what stands behind its own positions, be it poison. */
static void test_later_cells_do_not_matter(void **state) {
    (void)state;
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count);
    for (size_t set = 0; set < count; set++) {
        for (int quantized = 0; quantized < 2; quantized++) {
            data_seed(3);
            test_cells cells = make_cells(all[0], ew_kv_layout_make(quantized, 64, 32), 40, DATA_NORMAL);
            test_queries *queries = make_queries(&cells, 2, DATA_NORMAL);
            queries->n_positions[0] = 35;
            queries->n_positions[1] = 40;
            void (*attend)(const ew_attention *) = quantized ? all[set]->attend : all[set]->attend_float;
            attend(&queries->call);
            float *before = data_floats(64, DATA_NORMAL), *poison = data_floats(64, DATA_POISONED);
            memcpy(before, queries->outputs[0], 64 * sizeof(float));
            all[0]->store_kv(&cells.layout, cells.pages[1] + cells.page_offset, 36 - 32, poison, poison);
            attend(&queries->call);
            assert_memory_equal(before, queries->outputs[0], 64 * sizeof(float));
            assert_true(!quantized || isnan(queries->outputs[1][0]));
            free(before);
            free(poison);
            free_queries(queries);
            free_cells(&cells);
        }
    }
}

/* Key (or value) of a cell in double, read by the layout's own description. */
static double read_cell(const test_cells *cells, size_t t, size_t c, bool is_key) {
    const ew_kv_layout *layout = &cells->layout;
    const uint8_t *page = cells->pages[t / EW_PAGE_POSITIONS] + cells->page_offset;
    size_t slot = t % EW_PAGE_POSITIONS, g = c / layout->grain;
    if (!layout->quantized) {
        const float *floats = (const float *)(const void *)(page + (is_key ? 0 : layout->v_codes_at));
        return floats[slot * layout->head_dim + c];
    }
    const int8_t *codes = (const int8_t *)page;
    if (is_key) {
        const float *scales = (const float *)(const void *)(page + layout->k_scales_at);
        return (double)scales[g * EW_PAGE_POSITIONS + slot] * codes[(c / 4 * EW_PAGE_POSITIONS + slot) * 4 + c % 4];
    }
    const float *scales = (const float *)(const void *)(page + layout->v_scales_at);
    return (double)scales[slot * layout->n_scales + g] * codes[layout->v_codes_at + slot * layout->padded_dim + c];
}

static void reference_row(const test_cells *cells, const float *query, size_t n, double *out) {
    size_t dim = cells->layout.head_dim;
    double scores[MAX_PAGES * EW_PAGE_POSITIONS], most = -INFINITY, sum = 0;
    for (size_t t = 0; t < n; t++) {
        scores[t] = 0;
        for (size_t c = 0; c < dim; c++) {
            scores[t] += query[c] * read_cell(cells, t, c, true) / sqrt((double)dim);
        }
        most = scores[t] > most ? scores[t] : most;
    }
    memset(out, 0, dim * sizeof *out);
    for (size_t t = 0; t < n; t++) {
        double p = exp(scores[t] - most);
        sum += p;
        for (size_t c = 0; c < dim; c++) {
            out[c] += p * read_cell(cells, t, c, false);
        }
    }
    for (size_t c = 0; c < dim; c++) {
        out[c] /= sum;
    }
}

static void check_against_reference(const ew_kernels *kernels, const test_cells *cells, size_t n_rows, bool integer) {
    test_queries *queries = make_queries(cells, n_rows, DATA_NORMAL);
    double out[EW_HEAD_DIM_MAX];
    (integer ? kernels->attend : kernels->attend_float)(&queries->call);
    for (size_t row = 0; row < n_rows; row++) {
        reference_row(cells, queries->queries[row], queries->n_positions[row], out);
        for (size_t c = 0; c < cells->layout.head_dim; c++) {
            double distance = fabs(out[c] - queries->outputs[row][c]);
            if (distance > (integer ? 1e-3 : 1e-5)) {
                fail_msg("%s: row %zu channel %zu is %g away", kernels->name, row, c, distance);
            }
        }
    }
    free_queries(queries);
}

static void test_against_doubles(void **state) {
    (void)state;
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count);
    for (size_t set = 0; set < count; set++) {
        data_seed(4);
        for (size_t i = 0; i < N_LAYOUTS; i++) {
            for (int quantized = 0; quantized < 2; quantized++) {
                ew_kv_layout layout = ew_kv_layout_make(quantized, LAYOUTS[i].head_dim, LAYOUTS[i].grain);
                test_cells cells = make_cells(all[0], layout, POSITIONS[data_random() % N_POSITIONS], DATA_NORMAL);
                size_t n_rows = 1 + data_random() % EW_ATTENTION_ROWS;
                check_against_reference(all[set], &cells, n_rows, false);
                if (quantized) {
                    check_against_reference(all[set], &cells, n_rows, true);
                }
                free_cells(&cells);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_pages), cmocka_unit_test(test_attend),
        cmocka_unit_test(test_later_cells_do_not_matter),
        cmocka_unit_test(test_against_doubles),
    };
    ew_float_state outside = ew_float_enter();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ew_float_leave(outside);
    return failed;
}
