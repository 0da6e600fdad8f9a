/* Every kernel set that this machine can run against scalar.c, bit for bit, on odd shapes and hostile values. */
#include "support.h"

#include "base/memory.h"
#include "kernel_data.h"

#include <math.h>

static const size_t LENGTHS[] = {1, 2, 15, 16, 17, 31, 32, 33, 64, 100, 576, 897};
enum { N_LENGTHS = sizeof LENGTHS / sizeof LENGTHS[0] };

typedef void (*comparison)(const ew_kernels *definition, const ew_kernels *kernels);

/* Runs a comparison for every set but the definition itself. */
static void for_each_set(comparison compare) {
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count);
    assert_string_equal(all[0]->name, "scalar");
    for (size_t i = 1; i < count; i++) {
        data_seed(1);
        compare(all[0], all[i]);
    }
}

static void compare_vectors(const ew_kernels *definition, const ew_kernels *kernels) {
    for (size_t i = 0; i < N_LENGTHS; i++) {
        for (int kind = 0; kind < N_DATA_KINDS; kind++) {
            size_t n = LENGTHS[i];
            float *x = data_floats(n, kind), *w = data_floats(n, kind == DATA_NORMAL ? DATA_NORMAL : DATA_POISONED);
            float *expected = data_floats(n, DATA_NORMAL), *found = data_floats(n, DATA_NORMAL);
            definition->rms_norm(x, w, n, 1e-6f, expected);
            kernels->rms_norm(x, w, n, 1e-6f, found);
            assert_same_floats(expected, found, n, kernels->name, "rms_norm");
            definition->swiglu(x, w, n, expected);
            kernels->swiglu(x, w, n, found);
            assert_same_floats(expected, found, n, kernels->name, "swiglu");
            memcpy(found, expected, n * sizeof *found);
            definition->add(expected, w, n);
            kernels->add(found, w, n);
            assert_same_floats(expected, found, n, kernels->name, "add");
            definition->add_scaled(expected, x, w[0], n);
            kernels->add_scaled(found, x, w[0], n);
            assert_same_floats(expected, found, n, kernels->name, "add_scaled");
            free(x);
            free(w);
            free(expected);
            free(found);
        }
    }
}

static void compare_exponentials(const ew_kernels *definition, const ew_kernels *kernels) {
    enum { N = 4096 };
    float *gate = data_floats(N, DATA_NORMAL), *one = data_floats(N, DATA_NORMAL);
    float *expected = data_floats(N, DATA_NORMAL), *found = data_floats(N, DATA_NORMAL);
    for (int i = 0; i < N; i++) {
        gate[i] = -110.0f + 220.0f * (float)i / N;
        one[i] = 1.0f;
    }
    definition->swiglu(gate, one, N, expected);
    kernels->swiglu(gate, one, N, found);
    assert_same_floats(expected, found, N, kernels->name, "exp");
    for (int i = 0; i < N; i++) {
        double exact = (double)gate[i] / (1.0 + exp(-(double)gate[i]));
        if (gate[i] > -86.0f) {
            assert_true(fabs(found[i] - exact) <= 3e-7 * fabs(exact));
        }
    }
    free(gate);
    free(one);
    free(expected);
    free(found);
}

static void compare_rope(const ew_kernels *definition, const ew_kernels *kernels) {
    static const size_t DIMS[] = {2, 16, 24, 48, 64, 80, 96, 128, 256};
    for (size_t i = 0; i < sizeof DIMS / sizeof DIMS[0]; i++) {
        for (int kind = 0; kind < N_DATA_KINDS; kind++) {
            size_t n = DIMS[i];
            float *x = data_floats(n, kind), *y = data_floats(n, DATA_NORMAL);
            float *cosine = data_floats(n, DATA_NORMAL), *sine = data_floats(n, DATA_NORMAL);
            memcpy(y, x, n * sizeof *y);
            definition->rope(x, cosine, sine, n);
            kernels->rope(y, cosine, sine, n);
            assert_same_floats(x, y, n, kernels->name, "rope");
            free(x);
            free(y);
            free(cosine);
            free(sine);
        }
    }
}

static void compare_quantize(const ew_kernels *definition, const ew_kernels *kernels) {
    for (size_t i = 0; i < N_LENGTHS; i++) {
        for (int kind = 0; kind < N_DATA_KINDS; kind++) {
            for (int type = 0; type < 2; type++) {
                ew_activations expected, found;
                size_t n = LENGTHS[i];
                assert_int_equal(ew_activations_allocate(&expected, (ew_activation_type)type, n, 2, NULL), EW_OK);
                assert_int_equal(ew_activations_allocate(&found, (ew_activation_type)type, n, 2, NULL), EW_OK);
                float *x = data_floats(n, kind);
                definition->quantize(x, 1, &expected);
                kernels->quantize(x, 1, &found);
                size_t n_blocks = 2 * expected.n_blocks;
                assert_memory_equal(expected.codes, found.codes, n_blocks * ew_activation_block_bytes(expected.type));
                assert_memory_equal(expected.sums, found.sums, n_blocks * sizeof(int32_t));
                assert_same_floats(expected.scales, found.scales, 2 * ew_activation_scales_per_token(&expected),
                                   kernels->name, "quantize");
                float *y = data_floats(n, DATA_NORMAL);
                definition->dequantize(&expected, 1, x);
                kernels->dequantize(&found, 1, y);
                assert_same_floats(x, y, n, kernels->name, "dequantize");
                free(x);
                free(y);
                ew_activations_free(&expected);
                ew_activations_free(&found);
            }
        }
    }
}

/* All tiles at once, or in two parts, of the product of one matrix with n_tokens tokens. */
static void compare_product(const ew_kernels *definition, const ew_kernels *kernels, const ew_matrix *w,
                            ew_activation_type type, size_t n_tokens, int kind) {
    ew_activations x;
    assert_int_equal(ew_activations_allocate(&x, type, w->cols, n_tokens, NULL), EW_OK);
    x.n_tokens = n_tokens;
    for (size_t token = 0; token < n_tokens; token++) {
        float *inputs = data_floats(w->cols, token == n_tokens / 2 ? kind : DATA_NORMAL);
        definition->quantize(inputs, token, &x);
        free(inputs);
    }
    size_t stride = w->rows + 3, n_tiles = (w->rows + EW_TILE_ROWS - 1) / EW_TILE_ROWS, n = n_tokens * stride;
    float *expected = data_floats(n, DATA_NORMAL), *found = data_floats(n, DATA_NORMAL);
    memcpy(found, expected, n * sizeof *found); /* what is not written must stay */
    definition->matmul(w, 0, n_tiles, &x, expected, stride);
    size_t middle = data_random() % (n_tiles + 1);
    kernels->matmul(w, 0, middle, &x, found, stride);
    kernels->matmul(w, middle, n_tiles, &x, found, stride);
    assert_same_floats(expected, found, n, kernels->name, "matmul");
    free(expected);
    free(found);
    ew_activations_free(&x);
}

static void compare_matmul(const ew_kernels *definition, const ew_kernels *kernels) {
    static const struct {
        ew_matrix_format format;
        size_t group;
    } FORMATS[] = {{EW_MATRIX_INT4_SYMMETRIC, 0},  {EW_MATRIX_INT4_SYMMETRIC, 32},
                   {EW_MATRIX_INT4_SYMMETRIC, 64}, {EW_MATRIX_INT4_SYMMETRIC, 128},
                   {EW_MATRIX_INT4_OFFSET, 0},     {EW_MATRIX_INT4_OFFSET, 32},
                   {EW_MATRIX_INT4_OFFSET, 64},    {EW_MATRIX_INT4_OFFSET, 128},
                   {EW_MATRIX_INT8, 32},           {EW_MATRIX_INT8, 0}};
    static const size_t ROWS[] = {1, 16, 37, 64, 81}, COLS[] = {1, 32, 72, 160, 576};
    for (size_t f = 0; f < sizeof FORMATS / sizeof FORMATS[0]; f++) {
        for (size_t n_tokens = 1; n_tokens <= 40; n_tokens += n_tokens < 20 ? 1 : 7) {
            size_t rows = ROWS[data_random() % 5], cols = COLS[data_random() % 5];
            test_matrix matrix = data_matrix(FORMATS[f].format, rows, cols, FORMATS[f].group, false);
            for (int type = 0; type < 2; type++) {
                int kind = (int)(data_random() % N_DATA_KINDS);
                compare_product(definition, kernels, &matrix.view, (ew_activation_type)type, n_tokens, kind);
            }
            free(matrix.data);
        }
    }
}

/* The largest codes everywhere, over more than one segment of a row: where 32 bits are closest to full. */
static void compare_largest(const ew_kernels *definition, const ew_kernels *kernels) {
    static const struct {
        ew_matrix_format format;
        size_t group;
    } FORMATS[] = {
        {EW_MATRIX_INT4_SYMMETRIC, 0}, {EW_MATRIX_INT4_OFFSET, 0}, {EW_MATRIX_INT8, 32}, {EW_MATRIX_INT8, 0}};
    for (size_t f = 0; f < sizeof FORMATS / sizeof FORMATS[0]; f++) {
        test_matrix matrix = data_matrix(FORMATS[f].format, 19, 4867, FORMATS[f].group, true);
        for (int type = 0; type < 2; type++) {
            compare_product(definition, kernels, &matrix.view, (ew_activation_type)type, 1, DATA_LARGEST);
            compare_product(definition, kernels, &matrix.view, (ew_activation_type)type, 6, DATA_LARGEST);
        }
        free(matrix.data);
    }
    test_matrix rows = data_matrix(EW_MATRIX_INT8, 16, 600, 0, true); /* many tokens have programs of their own */
    compare_product(definition, kernels, &rows.view, EW_ACTIVATION_INT16, 33, DATA_LARGEST);
    free(rows.data);
}

/* The definition itself at that point: q = -128 and 32639 everywhere, s = 1. */
static void test_largest_sum(void **state) {
    (void)state;
    enum { COLS = 1300, ROWS = 16 };
    test_matrix matrix = data_matrix(EW_MATRIX_INT8, ROWS, COLS, 0, true);
    ew_activations x;
    assert_int_equal(ew_activations_allocate(&x, EW_ACTIVATION_INT16, COLS, 1, NULL), EW_OK);
    float *inputs = data_floats(COLS, DATA_LARGEST), *y = data_floats(ROWS, DATA_ZERO);
    const ew_kernels *kernels = ew_kernels_find("scalar");
    kernels->quantize(inputs, 0, &x);
    x.n_tokens = 1;
    x.scales[0] = 1.0f;
    ((float *)matrix.data)[COLS / 32 * 512 / 4 + 128] = 1.0f; /* the first scale: 41 blocks of 512 bytes */
    kernels->matmul(&matrix.view, 0, 1, &x, y, ROWS);
    assert_true(ew_matrix_scale(&matrix.view, 0, 0) == 1.0f);
    assert_true(fabs(y[0] + 128.0 * 32639 * COLS) < 1024);
    free(matrix.data);
    free(inputs);
    free(y);
    ew_activations_free(&x);
}

static void compare_matmul_float(const ew_kernels *definition, const ew_kernels *kernels) {
    for (size_t n_tokens = 1; n_tokens <= 40; n_tokens += 1 + n_tokens / 4) {
        size_t rows = 1 + data_random() % 80, cols = 1 + data_random() % 300, stride = rows + 2;
        size_t n_tiles = (rows + EW_TILE_ROWS - 1) / EW_TILE_ROWS;
        static const ew_matrix_format FORMATS[] = {EW_MATRIX_F32, EW_MATRIX_BF16, EW_MATRIX_F16};
        test_matrix matrix = data_matrix(FORMATS[n_tokens % 3], rows, cols, 0, false);
        float *x = data_floats(n_tokens * (cols + 1), DATA_NORMAL), *row = data_floats(cols, DATA_NORMAL);
        float *found = data_floats(n_tokens * stride, DATA_NORMAL),
              *before = data_floats(n_tokens * stride, DATA_NORMAL);
        memcpy(before, found, n_tokens * stride * sizeof *before);
        size_t middle = data_random() % (n_tiles + 1);
        kernels->matmul_float(&matrix.view, 0, middle, x, cols + 1, n_tokens, found, stride);
        kernels->matmul_float(&matrix.view, middle, n_tiles, x, cols + 1, n_tokens, found, stride);
        definition->matmul_float(&matrix.view, 0, n_tiles, x, cols + 1, n_tokens, before, stride);
        assert_same_floats(before, found, n_tokens * stride, kernels->name, "matmul_float");
        for (size_t r = 0; r < rows; r++) {
            ew_matrix_read_row(&matrix.view, r, row);
            for (size_t token = 0; token < n_tokens; token++) {
                double sum = 0, magnitude = 0;
                for (size_t c = 0; c < cols; c++) {
                    sum += (double)row[c] * x[token * (cols + 1) + c];
                    magnitude += fabs((double)row[c] * x[token * (cols + 1) + c]);
                }
                assert_true(fabs(found[token * stride + r] - sum) <= 1e-5 * magnitude);
            }
        }
        free(matrix.data);
        free(x);
        free(row);
        free(found);
        free(before);
    }
}

static void test_vectors(void **state) {
    (void)state;
    for_each_set(compare_vectors);
}
static void test_exponentials(void **state) {
    (void)state;
    for_each_set(compare_exponentials);
}
static void test_rope(void **state) {
    (void)state;
    for_each_set(compare_rope);
}
static void test_quantize(void **state) {
    (void)state;
    for_each_set(compare_quantize);
}
static void test_matmul(void **state) {
    (void)state;
    for_each_set(compare_matmul);
}
static void test_largest(void **state) {
    (void)state;
    for_each_set(compare_largest);
}
static void test_matmul_float(void **state) {
    (void)state;
    for_each_set(compare_matmul_float);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),     cmocka_unit_test(test_exponentials), cmocka_unit_test(test_rope),
        cmocka_unit_test(test_quantize),    cmocka_unit_test(test_matmul),       cmocka_unit_test(test_largest),
        cmocka_unit_test(test_largest_sum), cmocka_unit_test(test_matmul_float),
    };
    ew_float_state outside = ew_float_enter();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ew_float_leave(outside);
    return failed;
}
