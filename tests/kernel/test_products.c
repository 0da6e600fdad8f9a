/* goldens/quant/quant.json: activations, cache and integer products, for every kernel set. Its README has the
 * tolerances: scales within one unit in the last place, codes exact but next to a tie. */
#include "golden.h"

#include "kernel_data.h"

static ew_safetensors *tensors;
static json_t *root;

typedef void (*check)(const ew_kernels *kernels);

static void for_each_set(check run) {
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count);
    for (size_t i = 0; i < count; i++) {
        run(all[i]);
    }
}

static const void *data_of(const char *name, ew_dtype type) {
    const ew_safetensors_tensor *tensor = golden_tensor(tensors, "%s", name);
    assert_int_equal(tensor->type, type);
    return tensor->data;
}

static void assert_scale(float expected, float found) {
    int64_t distance = (int64_t)ew_float_to_bits(expected) - (int64_t)ew_float_to_bits(found);
    assert_true(distance >= -1 && distance <= 1);
}

/* Equal, or one apart where x / scale lies within `near` of a tie but not on it. */
static void assert_code(int expected, int found, float x, float scale, double near) {
    if (expected == found) {
        return;
    }
    double quotient = (double)x / scale, distance = fabs(quotient - floor(quotient) - 0.5);
    if (abs(expected - found) > 1 || distance > near || distance == 0) {
        fail_msg("%a / %a became %d, not %d", (double)x, (double)scale, found, expected);
    }
}

enum { ACT_ROWS = 12, ACT_COLS = 72, ACT_BLOCKS = 3 };

static ew_activations quantized(const ew_kernels *kernels, ew_activation_type type, const float *x, size_t rows,
                                size_t cols) {
    ew_activations a;
    assert_int_equal(ew_activations_allocate(&a, type, cols, rows, NULL), EW_OK);
    for (size_t row = 0; row < rows; row++) {
        kernels->quantize(x + row * cols, row, &a);
    }
    a.n_tokens = rows;
    return a;
}

static const int8_t *block_codes(const ew_activations *a, size_t row, size_t col) {
    return a->codes + (row * a->n_blocks + col / 32) * ew_activation_block_bytes(a->type) + col % 32;
}

static void check_int16(const ew_kernels *kernels) {
    const float *x = data_of("act.x", EW_DTYPE_F32), *scales = data_of("act.a16.scale", EW_DTYPE_F32);
    const int16_t *codes = data_of("act.a16.q", EW_DTYPE_I16);
    const int8_t *hi = data_of("act.a16.hi", EW_DTYPE_I8), *lo = data_of("act.a16.lo", EW_DTYPE_I8);
    ew_activations a = quantized(kernels, EW_ACTIVATION_INT16, x, ACT_ROWS, ACT_COLS);
    for (size_t row = 0; row < ACT_ROWS; row++) {
        assert_scale(scales[row], a.scales[row]);
        for (size_t col = 0; col < ACT_COLS; col++) {
            size_t i = row * ACT_COLS + col;
            const int8_t *planes = block_codes(&a, row, col);
            int found = 256 * planes[0] + planes[32];
            assert_code(codes[i], found, x[i], a.scales[row], row >= 3 && row <= 5 ? 0.0 : 0.004);
            if (found == codes[i]) {
                assert_int_equal(planes[0], hi[i]);
                assert_int_equal(planes[32], lo[i]);
            }
        }
    }
    ew_activations_free(&a);
}

static void check_int8(const ew_kernels *kernels) {
    const float *x = data_of("act.x", EW_DTYPE_F32), *scales = data_of("act.a8.scale", EW_DTYPE_F32);
    const int8_t *codes = data_of("act.a8.q", EW_DTYPE_I8);
    ew_activations a = quantized(kernels, EW_ACTIVATION_INT8, x, ACT_ROWS, ACT_COLS);
    for (size_t row = 0; row < ACT_ROWS; row++) {
        for (size_t col = 0; col < ACT_COLS; col++) {
            size_t i = row * ACT_COLS + col, block = row * ACT_BLOCKS + col / 32;
            assert_scale(scales[block], a.scales[block]);
            assert_code(codes[i], *block_codes(&a, row, col), x[i], a.scales[block], 2e-5);
        }
    }
    ew_activations_free(&a);
}

static void check_poison(const ew_kernels *kernels) {
    const float *x = data_of("act_refuse.x", EW_DTYPE_F32);
    for (int type = 0; type < 2; type++) {
        ew_activations a = quantized(kernels, (ew_activation_type)type, x, 3, ACT_COLS);
        size_t n = ew_activation_scales_per_token(&a);
        for (size_t row = 0; row < 3; row++) {
            bool poisoned = false;
            for (size_t i = 0; i < n; i++) {
                poisoned = poisoned || isnan(a.scales[row * n + i]);
            }
            assert_true(poisoned);
        }
        ew_activations_free(&a);
    }
}

/* All codes from -32639 to 32639 beside one 32639, which makes the scale 1. */
static void check_split(const ew_kernels *kernels) {
    enum { LARGEST = 32639, COLS = 2 * LARGEST + 2 };
    float *x = data_floats(COLS, DATA_ZERO);
    long sum_hi = 0, sum_lo = 0, sum_abs_hi = 0, sum_abs_lo = 0;
    for (int i = 0; i < COLS; i++) {
        x[i] = (float)(i <= 2 * LARGEST ? i - LARGEST : 0);
    }
    ew_activations a = quantized(kernels, EW_ACTIVATION_INT16, x, 1, COLS);
    assert_true(a.scales[0] == 1.0f);
    for (int i = 0; i <= 2 * LARGEST; i++) {
        const int8_t *planes = block_codes(&a, 0, (size_t)i);
        assert_int_equal(256 * planes[0] + planes[32], i - LARGEST);
        sum_hi += planes[0];
        sum_lo += planes[32];
        sum_abs_hi += abs(planes[0]);
        sum_abs_lo += abs(planes[32]);
    }
    json_t *entry;
    size_t at, found = 0;
    json_array_foreach(json_object_get(root, "cases"), at, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "name")), "split") == 0) {
            assert_int_equal(sum_hi, json_integer_value(json_object_get(entry, "sum_hi")));
            assert_int_equal(sum_lo, json_integer_value(json_object_get(entry, "sum_lo")));
            assert_int_equal(sum_abs_hi, json_integer_value(json_object_get(entry, "sum_abs_hi")));
            assert_int_equal(sum_abs_lo, json_integer_value(json_object_get(entry, "sum_abs_lo")));
            found++;
        }
    }
    assert_int_equal(found, 1);
    free(x);
    ew_activations_free(&a);
}

/* Every token and head as a key and as a value. */
static void check_cache(const ew_kernels *kernels) {
    enum { TOKENS = 9, HEADS = 2, DIM = 64 };
    const float *x = data_of("kv.x", EW_DTYPE_F32), *scales = data_of("kv.scale", EW_DTYPE_F32);
    const int8_t *codes = data_of("kv.q", EW_DTYPE_I8);
    ew_kv_layout layout = ew_kv_layout_make(true, DIM, 32);
    uint8_t *page = ew_allocate_aligned(layout.page_bytes, 1);
    assert_non_null(page);
    for (size_t head = 0; head < HEADS; head++) {
        for (size_t t = 0; t < TOKENS; t++) {
            const float *cell = x + (t * HEADS + head) * DIM;
            kernels->store_kv(&layout, page, t, cell, cell);
        }
        const float *k_scales = (const float *)(const void *)(page + layout.k_scales_at);
        const float *v_scales = (const float *)(const void *)(page + layout.v_scales_at);
        for (size_t i = 0; i < TOKENS * DIM; i++) {
            size_t t = i / DIM, c = i % DIM, g = c / 32, at = (t * HEADS + head) * DIM + c;
            float scale = k_scales[g * EW_PAGE_POSITIONS + t];
            assert_scale(scales[(t * HEADS + head) * 2 + g], scale);
            assert_int_equal(ew_float_to_bits(scale), ew_float_to_bits(v_scales[t * 2 + g]));
            assert_code(codes[at], (int8_t)page[(c / 4 * EW_PAGE_POSITIONS + t) * 4 + c % 4], x[at], scale, 2e-5);
            assert_code(codes[at], (int8_t)page[layout.v_codes_at + t * DIM + c], x[at], scale, 2e-5);
        }
    }
    free(page);
}

/* An INT4 offset matrix with the codes q[rows][cols], all scales and offsets 0. */
static test_matrix offset_matrix(const uint8_t *q, size_t rows, size_t cols, size_t group) {
    test_matrix matrix = data_matrix(EW_MATRIX_INT4_OFFSET, rows, cols, group, false);
    ew_matrix_layout layout = {0};
    assert_int_equal(ew_matrix_plan(EW_MATRIX_INT4_OFFSET, rows, cols, group, &layout, NULL), EW_OK);
    uint8_t *bytes = matrix.data;
    memset(bytes, 0, layout.total);
    for (size_t row = 0; row < rows; row++) {
        for (size_t col = 0; col < cols; col++) {
            size_t block = row / 16 * layout.n_blocks + col / 32, input = col % 32;
            uint8_t *byte = bytes + block * 256 + input % 16 / 4 * 64 + row % 16 * 4 + input % 4;
            *byte = (uint8_t)(*byte | q[row * cols + col] << (input < 16 ? 0 : 4));
        }
    }
    return matrix;
}

/* Sets one group's scales (or offsets) of all rows of a matrix of one tile. */
static void set_factor(test_matrix *matrix, bool offset, size_t group, float value) {
    void *table = (void *)(uintptr_t)(offset ? matrix->view.offsets : matrix->view.scales);
    for (size_t row = 0; row < 16; row++) {
        if (matrix->view.group == 0) {
            ((float *)table)[row] = value;
        } else {
            ((uint16_t *)table)[group * 16 + row] = ew_f32_to_f16(value);
        }
    }
}

/* The goldens' 12 tokens, planes and sums laid out as quantize does. */
static ew_activations golden_activations(void) {
    const int16_t *codes = data_of("dot.x.q", EW_DTYPE_I16);
    ew_activations a;
    assert_int_equal(ew_activations_allocate(&a, EW_ACTIVATION_INT16, ACT_COLS, ACT_ROWS, NULL), EW_OK);
    a.n_tokens = ACT_ROWS;
    for (size_t row = 0; row < ACT_ROWS; row++) {
        a.scales[row] = 1.0f;
        for (size_t col = 0; col < ACT_COLS; col++) {
            int code = codes[row * ACT_COLS + col], hi = (int)floor((code + 128) / 256.0);
            int8_t *planes = (int8_t *)block_codes(&a, row, col);
            planes[0] = (int8_t)hi;
            planes[32] = (int8_t)(code - 256 * hi);
            a.sums[row * a.n_blocks + col / 32] += code;
        }
    }
    return a;
}

/* One group at a time with scale 1 (or offset 1): y is then the group's integer sum, rounded to float. */
static void check_dots(const ew_kernels *kernels) {
    static const size_t GROUPS[] = {0, 32, 64};
    enum { ROWS = 16 };
    ew_activations a = golden_activations();
    float y[ACT_ROWS * ROWS];
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        size_t group = GROUPS[i], n_groups = group == 0 ? 1 : (ACT_COLS + group - 1) / group;
        snprintf(name, sizeof name, "b.g%zu.minmax.q", group);
        test_matrix matrix = offset_matrix(data_of(name, EW_DTYPE_U8), ROWS, ACT_COLS, group);
        snprintf(name, sizeof name, "dot.g%zu.sum", group);
        const int64_t *sums = data_of(name, EW_DTYPE_I64);
        snprintf(name, sizeof name, "dot.g%zu.sum_x", group);
        const int64_t *input_sums = data_of(name, EW_DTYPE_I64);
        for (size_t g = 0; g < n_groups; g++) {
            for (int offset = 0; offset < 2; offset++) {
                set_factor(&matrix, offset, g, 1.0f);
                kernels->matmul(&matrix.view, 0, 1, &a, y, ROWS);
                set_factor(&matrix, offset, g, 0.0f);
                for (size_t j = 0; j < ACT_ROWS * ROWS; j++) {
                    int64_t sum = offset ? input_sums[j / ROWS * n_groups + g] : sums[j * n_groups + g];
                    assert_true(y[j] == (float)sum);
                }
            }
        }
        free(matrix.data);
    }
    ew_activations_free(&a);
}

/* Whole products: per channel, scale s and offset -s zp, against the goldens' y. */
static void check_results(const ew_kernels *kernels) {
    enum { ROWS = 16 };
    const float *scales = data_of("b.g0.minmax.scale", EW_DTYPE_F32),
                *input_scales = data_of("dot.x.scale", EW_DTYPE_F32);
    const uint8_t *q = data_of("b.g0.minmax.q", EW_DTYPE_U8), *zero = data_of("b.g0.minmax.zp", EW_DTYPE_U8);
    const double *expected = data_of("dot.g0.y", EW_DTYPE_F64);
    test_matrix matrix = offset_matrix(q, ROWS, ACT_COLS, 0);
    ew_activations a = golden_activations();
    float y[ACT_ROWS * ROWS];
    for (size_t row = 0; row < ROWS; row++) {
        ((float *)(uintptr_t)matrix.view.scales)[row] = scales[row];
        ((float *)(uintptr_t)matrix.view.offsets)[row] = -scales[row] * (float)zero[row];
    }
    memcpy(a.scales, input_scales, ACT_ROWS * sizeof *input_scales);
    kernels->matmul(&matrix.view, 0, 1, &a, y, ROWS);
    for (size_t i = 0; i < ACT_ROWS * ROWS; i++) {
        size_t token = i / ROWS, row = i % ROWS;
        double magnitude = 0;
        for (size_t block = 0; block < ACT_BLOCKS; block++) {
            magnitude += 15.0 * fabs((double)a.sums[token * ACT_BLOCKS + block]);
        }
        magnitude = (magnitude + 15.0 * 32639) * fabs((double)scales[row]) * fabs((double)input_scales[token]);
        assert_true(fabs(y[i] - expected[i]) <= 1e-6 * magnitude);
    }
    free(matrix.data);
    ew_activations_free(&a);
}

/* Rows whose sum is at or beyond the end of int32. */
static void check_overflow(const ew_kernels *kernels) {
    json_t *entry, *row;
    size_t at, index, found = 0;
    json_array_foreach(json_object_get(root, "cases"), at, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "name")), "overflow") != 0) {
            continue;
        }
        json_array_foreach(json_object_get(entry, "table"), index, row) {
            size_t width = (size_t)json_integer_value(json_object_get(row, "width"));
            uint8_t *q = ew_allocate(16, width);
            float *x = data_floats(width, DATA_ZERO), y[16];
            assert_non_null(q);
            memset(q, (int)json_integer_value(json_object_get(row, "every_q")), 16 * width);
            for (size_t i = 0; i < width; i++) {
                x[i] = (float)json_integer_value(json_object_get(row, "every_x"));
            }
            test_matrix matrix = offset_matrix(q, 16, width, 0);
            set_factor(&matrix, false, 0, 1.0f);
            set_factor(&matrix, true, 0, -(float)json_integer_value(json_object_get(row, "zp")));
            ew_activations a = quantized(kernels, EW_ACTIVATION_INT16, x, 1, width);
            kernels->matmul(&matrix.view, 0, 1, &a, y, 16);
            double exact = (double)json_integer_value(json_object_get(row, "sum_minus_zp_sum_x"));
            assert_true(fabs(y[0] - exact) <= 3e-7 * 15 * 32639 * (double)width);
            assert_true(y[15] == y[0]);
            ew_activations_free(&a);
            free(matrix.data);
            free(q);
            free(x);
            found++;
        }
    }
    assert_true(found >= 5);
}

static void test_int16(void **state) {
    (void)state;
    for_each_set(check_int16);
}
static void test_int8(void **state) {
    (void)state;
    for_each_set(check_int8);
}
static void test_poison(void **state) {
    (void)state;
    for_each_set(check_poison);
}
static void test_split(void **state) {
    (void)state;
    for_each_set(check_split);
}
static void test_cache(void **state) {
    (void)state;
    for_each_set(check_cache);
}
static void test_dots(void **state) {
    (void)state;
    for_each_set(check_dots);
}
static void test_results(void **state) {
    (void)state;
    for_each_set(check_results);
}
static void test_overflow(void **state) {
    (void)state;
    for_each_set(check_overflow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int16),   cmocka_unit_test(test_int8),     cmocka_unit_test(test_poison),
        cmocka_unit_test(test_split),   cmocka_unit_test(test_cache),    cmocka_unit_test(test_dots),
        cmocka_unit_test(test_results), cmocka_unit_test(test_overflow),
    };
    root = golden_json("goldens/quant/quant.json");
    tensors = golden_tensors("goldens/quant/quant.safetensors");
    if (!root || !tensors) {
        return EW_TEST_SKIPPED;
    }
    ew_float_state outside = ew_float_enter();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ew_float_leave(outside);
    ew_safetensors_close(tensors);
    json_decref(root);
    return failed;
}
