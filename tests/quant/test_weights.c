/* The weight quantizers against goldens/quant/weights.json: every case, edge rows and near ties included. */
#include "support.h"

#include "base/float16.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "quant/int4.h"
#include "quant/int8.h"

#include <math.h>

typedef struct goldens {
    ew_safetensors *weights, *matrices;
    json_t *cases;
    json_t *root;
} goldens;

static bool open_goldens(goldens *out) {
    char path[1024];
    char *text;
    size_t length;
    *out = (goldens){0};
    if (!ew_test_shared("goldens/quant/weights.json", path, sizeof path)) {
        return false;
    }
    assert_int_equal(ew_read_file(path, 1 << 20, &text, &length, NULL), EW_OK);
    assert_int_equal(ew_json_parse((ew_string){text, length}, path, &out->root, NULL), EW_OK);
    free(text);
    out->cases = json_object_get(out->root, "cases");
    ew_test_shared("goldens/quant/weights.safetensors", path, sizeof path);
    assert_int_equal(ew_safetensors_open(path, &out->weights, NULL), EW_OK);
    ew_test_shared("goldens/quant/quant.safetensors", path, sizeof path);
    assert_int_equal(ew_safetensors_open(path, &out->matrices, NULL), EW_OK);
    return true;
}

static void close_goldens(goldens *files) {
    ew_safetensors_close(files->weights);
    ew_safetensors_close(files->matrices);
    json_decref(files->root);
}

static const ew_safetensors_tensor *golden(const goldens *files, const char *name, const char *part) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", name, part);
    const ew_safetensors_tensor *tensor = ew_safetensors_find(files->weights, full);
    if (!tensor) {
        fail_msg("the goldens lack %s", full);
    }
    return tensor;
}

/* How far w lies from a tie between two codes under this scale and offset, in codes. */
static double distance_to_tie(float w, double scale, double offset) {
    double t = (w - offset) / scale;
    return fabs(t - floor(t) - 0.5);
}

typedef struct one_case {
    const char *name;
    ew_int4_rule rule;
    size_t rows, cols, group, n_groups;
    const float *w;
    bool file_stage;
} one_case;

static one_case read_case(const goldens *files, json_t *entry) {
    one_case c = {.name = json_string_value(json_object_get(entry, "name"))};
    char matrix[64];
    assert_int_equal(sscanf(json_string_value(json_object_get(entry, "input")), "%63s of", matrix), 1);
    const ew_safetensors_tensor *input = ew_safetensors_find(files->matrices, matrix);
    assert_non_null(input);
    c.rows = input->shape[0];
    c.cols = input->shape[1];
    c.w = (const float *)(const void *)input->data;
    c.rule.group = (size_t)json_integer_value(json_object_get(entry, "group"));
    bool symmetric = strcmp(json_string_value(json_object_get(entry, "scheme")), "symmetric") == 0;
    bool mse = strcmp(json_string_value(json_object_get(entry, "range")), "mse") == 0;
    c.rule.format = symmetric ? EW_MATRIX_INT4_SYMMETRIC : EW_MATRIX_INT4_OFFSET;
    c.rule.range = mse ? EW_RANGE_MSE : EW_RANGE_MINMAX;
    c.group = c.rule.group == 0 ? c.cols : c.rule.group;
    c.n_groups = (c.cols + c.group - 1) / c.group;
    c.file_stage = json_is_true(json_object_get(entry, "file_stage"));
    return c;
}

static void compare_codes(const one_case *c, size_t row, size_t begin, size_t n, const int8_t *codes,
                          const int8_t *wanted, float scale, float offset) {
    for (size_t i = 0; i < n; i++) {
        const float w = c->w[row * c->cols + begin + i];
        int apart = abs(codes[i] - wanted[i]);
        if (apart > (distance_to_tie(w, scale, offset) < 1e-5 ? 1 : 0)) {
            fail_msg("%s row %zu column %zu: code %d, not %d", c->name, row, begin + i, codes[i], wanted[i]);
        }
        /* Exactly on a tie there is no excuse: our quotients are the real ones. */
        if (apart > 0 && distance_to_tie(w, scale, offset) == 0) {
            fail_msg("%s row %zu column %zu: a tie went to %d, not %d", c->name, row, begin + i, codes[i],
                     wanted[i]);
        }
    }
}

/* The quantizer proper, before the F16 stage, group by group. */
static void check_fits(const goldens *files, const one_case *c) {
    const bool has_offset = c->rule.format == EW_MATRIX_INT4_OFFSET;
    const float *scales = (const float *)(const void *)golden(files, c->name, "scale")->data;
    const float *offsets =
        has_offset ? (const float *)(const void *)golden(files, c->name, "offset")->data : NULL;
    const int32_t *best = (const int32_t *)(const void *)golden(files, c->name, "best")->data;
    const double *errors = (const double *)(const void *)golden(files, c->name, "err")->data;
    const int8_t *wanted = (const int8_t *)golden(files, c->name, "q")->data;
    for (size_t index = 0; index < c->rows * c->n_groups; index++) {
        size_t row = index / c->n_groups, begin = index % c->n_groups * c->group;
        size_t n = c->cols - begin < c->group ? c->cols - begin : c->group;
        const float *w = c->w + row * c->cols + begin;
        ew_int4_fit fit = ew_int4_fit_group(&c->rule, w, n);
        int8_t codes[256];
        ew_int4_encode(c->rule.format, w, n, fit.scale, fit.offset, codes);
        assert_true(ew_quantized_error(w, codes, n, fit.scale, fit.offset) <=
                    errors[index] * (1 + 1e-6) + 1e-30);
        assert_int_equal(fit.candidate, best[index]);
        assert_true(fit.scale == scales[index]);
        assert_true(!offsets || fit.offset == offsets[index]);
        compare_codes(c, row, begin, n, codes, wanted + row * c->cols + begin, fit.scale, fit.offset);
    }
}

static void check_file_stage(const goldens *files, const one_case *c) {
    const bool has_offset = c->rule.format == EW_MATRIX_INT4_OFFSET;
    const uint16_t *file_scales = (const uint16_t *)(const void *)golden(files, c->name, "file_scale")->data;
    const uint16_t *file_offsets =
        has_offset ? (const uint16_t *)(const void *)golden(files, c->name, "file_offset")->data : NULL;
    const int8_t *wanted = (const int8_t *)golden(files, c->name, "file_q")->data;
    for (size_t row = 0; row < c->rows; row++) {
        int8_t codes[256];
        float scales[8], offsets[8] = {0};
        ew_error error;
        if (ew_int4_quantize_row(&c->rule, c->name, row, c->w + row * c->cols, c->cols, codes, scales,
                                 offsets, &error) != EW_OK) {
            fail_msg("%s", error.message);
        }
        for (size_t k = 0; k < c->n_groups; k++) {
            size_t begin = k * c->group, n = c->cols - begin < c->group ? c->cols - begin : c->group;
            assert_true(scales[k] == ew_f16_to_f32(file_scales[row * c->n_groups + k]));
            assert_true(!has_offset || offsets[k] == ew_f16_to_f32(file_offsets[row * c->n_groups + k]));
            compare_codes(c, row, begin, n, codes + begin, wanted + row * c->cols + begin, scales[k],
                          has_offset ? offsets[k] : 0);
        }
    }
}

static void all_golden_cases_hold(void **state) {
    (void)state;
    goldens files;
    if (!open_goldens(&files)) {
        skip();
    }
    assert_int_equal(json_array_size(files.cases), 32);
    for (size_t i = 0; i < json_array_size(files.cases); i++) {
        one_case c = read_case(&files, json_array_get(files.cases, i));
        check_fits(&files, &c);
        if (c.file_stage) {
            check_file_stage(&files, &c);
        }
    }
    close_goldens(&files);
}

static void golden_rows_to_refuse_are_refused(void **state) {
    (void)state;
    goldens files;
    if (!open_goldens(&files)) {
        skip();
    }
    const ew_safetensors_tensor *refuse = ew_safetensors_find(files.matrices, "refuse.w");
    assert_non_null(refuse);
    size_t cols = refuse->shape[1];
    for (size_t row = 0; row < refuse->shape[0]; row++) {
        const float *w = (const float *)(const void *)refuse->data + row * cols;
        int8_t codes[64];
        float scales[2], offsets[2];
        ew_error error;
        ew_int4_rule rule = {EW_MATRIX_INT4_OFFSET, 32, EW_RANGE_MSE};
        assert_int_equal(
            ew_int4_quantize_row(&rule, "blk.3.ffn_up.weight", row, w, cols, codes, scales, offsets, &error),
            EW_ERROR_NUMERIC);
        assert_non_null(strstr(error.message, "blk.3.ffn_up.weight"));
        assert_non_null(strstr(error.message, "column"));
        assert_int_equal(ew_int8_quantize_row("token_embd.weight", row, w, cols, codes, scales, &error),
                         EW_ERROR_NUMERIC);
        assert_non_null(strstr(error.message, "token_embd.weight"));
    }
    close_goldens(&files);
}

static ew_status quantize_constant(float value, ew_matrix_format format, size_t group, float last,
                                   float *dequantized, ew_error *error) {
    float w[40];
    for (size_t i = 0; i < 40; i++) {
        w[i] = value;
    }
    w[39] = last;
    int8_t codes[40];
    float scales[2], offsets[2] = {0};
    ew_int4_rule rule = {format, group, EW_RANGE_MSE};
    ew_status status = ew_int4_quantize_row(&rule, "w", 0, w, 40, codes, scales, offsets, error);
    if (status == EW_OK) {
        *dequantized = scales[0] * codes[0] + (format == EW_MATRIX_INT4_OFFSET ? offsets[0] : 0);
    }
    return status;
}

static void scales_that_f16_cannot_hold_are_refused(void **state) {
    (void)state;
    ew_error error;
    float got = 1;
    const ew_matrix_format symmetric = EW_MATRIX_INT4_SYMMETRIC, offset = EW_MATRIX_INT4_OFFSET;
    /* 65504 is the largest F16; halves of 2^-24 and below round to nothing. */
    assert_int_equal(quantize_constant(65504.0f * 7, symmetric, 32, 0, &got, &error), EW_OK);
    assert_true(got == 65504.0f * 7);
    assert_int_equal(quantize_constant(65536.0f * 7, symmetric, 32, 0, &got, &error), EW_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "w, row 0, group 0"));
    assert_int_equal(quantize_constant(1e-8f, symmetric, 32, 0, &got, &error), EW_ERROR_NUMERIC);
    assert_int_equal(quantize_constant(1e-45f, symmetric, 32, 0, &got, &error), EW_ERROR_NUMERIC);
    assert_int_equal(quantize_constant(1e6f, symmetric, 0, 0, &got, &error), EW_OK);
    assert_int_equal(quantize_constant(1e-8f, symmetric, 0, 0, &got, &error), EW_OK);
    assert_true(fabsf(got - 1e-8f) < 1e-14f);
    assert_int_equal(quantize_constant(1e6f, offset, 32, 1e6f, &got, &error), EW_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "offset"));
    assert_int_equal(quantize_constant(1e-9f, offset, 32, 1e-9f, &got, &error), EW_ERROR_NUMERIC);
    /* An offset of nearly nothing beside a proper scale loses nothing. */
    assert_int_equal(quantize_constant(1, offset, 32, 1e-9f, &got, &error), EW_OK);
}

static void zero_and_constant_groups(void **state) {
    (void)state;
    float got = 1;
    assert_int_equal(quantize_constant(0, EW_MATRIX_INT4_SYMMETRIC, 32, 0, &got, NULL), EW_OK);
    assert_true(got == 0);
    assert_int_equal(quantize_constant(0, EW_MATRIX_INT4_OFFSET, 32, 0, &got, NULL), EW_OK);
    assert_true(got == 0);
    assert_int_equal(quantize_constant(0.375f, EW_MATRIX_INT4_OFFSET, 32, 0.375f, &got, NULL), EW_OK);
    assert_true(got == 0.375f);
    float w[32] = {0}, scale;
    int8_t codes[32];
    assert_int_equal(ew_int8_quantize_row("w", 0, w, 32, codes, &scale, NULL), EW_OK);
    assert_true(scale == 1 && codes[5] == 0);
}

/* w - offset loses bits in double here: only the exact comparison sees on which side of the tie it lies. */
static void ties_beside_a_large_offset_are_decided_exactly(void **state) {
    (void)state;
    const float offset = -0x1p-40f, scale = 0x1p30f;
    const float w[3] = {0x1p29f, 0x1.8p30f, 0x1p29f - 64};
    int8_t codes[3];
    ew_int4_encode(EW_MATRIX_INT4_OFFSET, w, 3, scale, offset, codes);
    assert_int_equal(codes[0], 1); /* 0.5 + 2^-70: above the tie, to even would be 0 */
    assert_int_equal(codes[1], 2); /* 1.5 + 2^-70 */
    assert_int_equal(codes[2], 0);
    ew_int4_encode(EW_MATRIX_INT4_OFFSET, w, 3, scale, -offset, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 1); /* 1.5 - 2^-70: to even would be 2 */
    ew_int4_encode(EW_MATRIX_INT4_OFFSET, w, 3, scale, 0, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 2);
}

static double random_normal(uint64_t *state) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 11) * 0x1p-53;
    }
    return sum;
}

/* The float screening must lead to the candidate that the definition alone would choose. */
static void screening_chooses_as_the_definition_does(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 400; round++) {
        float w[300];
        size_t n = round % 4 == 0 ? 300 : round % 4 == 1 ? 32 : round % 4 == 2 ? 128 : 5;
        double shift = round % 3 == 0 ? 0 : round % 3 == 1 ? 0.3 : 40, size = round % 5 == 0 ? 1e-11 : 0.05;
        for (size_t i = 0; i < n; i++) {
            double x = random_normal(&seed);
            w[i] = (float)(size * (x * x * x + shift));
        }
        ew_int4_rule rule = {round % 2 ? EW_MATRIX_INT4_OFFSET : EW_MATRIX_INT4_SYMMETRIC, 0, EW_RANGE_MSE};
        float low = w[0], high = w[0];
        for (size_t i = 0; i < n; i++) {
            low = w[i] < low ? w[i] : low;
            high = w[i] > high ? w[i] : high;
        }
        double largest = -low > high ? -low : high, best = INFINITY;
        for (int i = 0; i < EW_MSE_CANDIDATES; i++) {
            double f = 1 - 0.7 * i / 99;
            float scale = (float)(f * largest / 7), offset = 0;
            if (round % 2) {
                double middle = ((double)low + high) / 2, half = f * ((double)high - low) / 2;
                scale = (float)(2 * half / 15);
                offset = (float)(middle - half);
            }
            int8_t codes[300];
            ew_int4_encode(rule.format, w, n, scale, offset, codes);
            double error = ew_quantized_error(w, codes, n, scale, offset);
            best = error < best ? error : best;
        }
        ew_int4_fit fit = ew_int4_fit_group(&rule, w, n);
        int8_t codes[300];
        ew_int4_encode(rule.format, w, n, fit.scale, fit.offset, codes);
        assert_true(ew_quantized_error(w, codes, n, fit.scale, fit.offset) <= best * (1 + 1e-9));
    }
}

static void int8_rows_are_within_half_a_step(void **state) {
    (void)state;
    uint64_t seed = 3;
    float w[72], scales[3];
    int8_t codes[72];
    for (size_t i = 0; i < 72; i++) {
        w[i] = (float)random_normal(&seed);
    }
    w[70] = 0x1p-10f; /* the ragged last group has a scale of its own */
    assert_int_equal(ew_int8_quantize_row("w", 0, w, 72, codes, scales, NULL), EW_OK);
    for (size_t i = 0; i < 72; i++) {
        assert_true(fabsf(w[i] - scales[i / 32] * codes[i]) <= scales[i / 32] * 0.5625f);
        assert_true(codes[i] >= -127);
    }
    const float ties[4] = {127, 0.5f, 1.5f, -2.5f}; /* scale 1 */
    assert_int_equal(ew_int8_quantize_row("w", 0, ties, 4, codes, scales, NULL), EW_OK);
    assert_true(scales[0] == 1 && codes[1] == 0 && codes[2] == 2 && codes[3] == -2);
    assert_int_equal(ew_int8_quantize_row("w", 0, (const float[1]){1e9f}, 1, codes, scales, NULL),
                     EW_ERROR_NUMERIC);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_golden_cases_hold),
        cmocka_unit_test(golden_rows_to_refuse_are_refused),
        cmocka_unit_test(scales_that_f16_cannot_hold_are_refused),
        cmocka_unit_test(zero_and_constant_groups),
        cmocka_unit_test(ties_beside_a_large_offset_are_decided_exactly),
        cmocka_unit_test(screening_chooses_as_the_definition_does),
        cmocka_unit_test(int8_rows_are_within_half_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
