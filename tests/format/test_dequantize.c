#include "support.h"

#include "base/float16.h"
#include "format/dequantize.h"
#include "format/safetensors.h"

#include <math.h>

/* tests/data/format/dequantize.safetensors: random blocks and what gguf-py makes of them. */
static void blocks_give_ggufs_values(void **state) {
    (void)state;
    static const ew_dtype types[] = {EW_DTYPE_Q4_0, EW_DTYPE_Q4_1, EW_DTYPE_Q5_0, EW_DTYPE_Q5_1,
                                     EW_DTYPE_Q8_0, EW_DTYPE_Q2_K, EW_DTYPE_Q3_K, EW_DTYPE_Q4_K,
                                     EW_DTYPE_Q5_K, EW_DTYPE_Q6_K};
    char path[512], name[32];
    ew_safetensors *file;
    ew_error error = {0};
    assert_non_null(ew_test_find("EDGEWISE_TEST_DATA", "format/dequantize.safetensors", path, sizeof path));
    if (ew_safetensors_open(path, &file, &error) != EW_OK) {
        fail_msg("%s", error.message);
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        snprintf(name, sizeof name, "%s.blocks", ew_dtype_name(types[i]));
        const ew_safetensors_tensor *blocks = ew_safetensors_find(file, name);
        snprintf(name, sizeof name, "%s.values", ew_dtype_name(types[i]));
        const ew_safetensors_tensor *values = ew_safetensors_find(file, name);
        assert_non_null(blocks);
        assert_non_null(values);
        size_t count = (size_t)values->shape[0], bytes;
        assert_true(ew_dtype_size(types[i], count, &bytes));
        assert_int_equal(bytes, blocks->bytes);
        float *out = malloc(values->bytes);
        assert_int_equal(ew_dequantize_row(types[i], blocks->data, count, out, &error), EW_OK);
        for (size_t j = 0; j < count; j++) {
            float wanted;
            memcpy(&wanted, values->data + j * sizeof wanted, sizeof wanted);
            if (wanted != out[j]) {
                fail_msg("%s, value %zu: %.9g, expected %.9g", ew_dtype_name(types[i]), j, out[j], wanted);
            }
        }
        free(out);
    }
    ew_safetensors_close(file);
}

static void what_is_no_weight_is_refused(void **state) {
    (void)state;
    uint8_t bytes[64] = {0};
    float out[64];
    ew_error error;
    assert_int_equal(ew_dequantize_row(EW_DTYPE_I8, bytes, 4, out, &error), EW_ERROR_UNSUPPORTED);
    assert_int_equal(ew_dequantize_row(EW_DTYPE_F64, bytes, 4, out, &error), EW_ERROR_UNSUPPORTED);
    assert_int_equal(ew_dequantize_row(EW_DTYPE_Q4_0, bytes, 33, out, &error), EW_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "blocks of 32"));
    size_t size;
    assert_false(ew_dtype_size(EW_DTYPE_Q4_0, 33, &size));
    assert_false(ew_dtype_size(EW_DTYPE_F32, UINT64_MAX / 2, &size));
}

/* The definition: (-1)^s 2^(e-15) (1 + f / 1024), denormals f * 2^-24. */
static float half_by_definition(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double magnitude = exponent == 0    ? ldexp(fraction, -24)
                       : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                        : ldexp(1024 + fraction, exponent - 25);
    return (float)(half & 0x8000 ? -magnitude : magnitude);
}

static void every_half_is_exact_and_comes_back(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = ew_f16_to_f32((uint16_t)bits), wanted = half_by_definition((uint16_t)bits);
        if (isnan(wanted)) {
            assert_true(isnan(value) && isnan(ew_f16_to_f32(ew_f32_to_f16(value))));
            continue;
        }
        assert_true(value == wanted && signbit(value) == signbit(wanted));
        assert_int_equal(ew_f32_to_f16(value), bits);
    }
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = ew_bf16_to_f32((uint16_t)bits);
        if (isnan(value)) {
            assert_true(isnan(ew_bf16_to_f32(ew_f32_to_bf16(value))));
        } else {
            assert_int_equal(ew_f32_to_bf16(value), bits);
        }
    }
}

/* Between two neighbours: the nearer one; in the middle: the even one. Checked below, at and above every
 * middle. */
static void rounding_is_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x7bff; bits++) {
        double low = (double)half_by_definition((uint16_t)bits),
               high = (double)half_by_definition((uint16_t)(bits + 1));
        float middle = (float)((low + high) / 2);
        uint16_t even = (uint16_t)(bits % 2 == 0 ? bits : bits + 1);
        assert_int_equal(ew_f32_to_f16(middle), even);
        assert_int_equal(ew_f32_to_f16(-middle), even | 0x8000);
        assert_int_equal(ew_f32_to_f16(nextafterf(middle, 0)), bits);
        assert_int_equal(ew_f32_to_f16(nextafterf(middle, INFINITY)), bits + 1);
    }
    assert_int_equal(ew_f32_to_f16(65504.0f), 0x7bff);
    assert_int_equal(ew_f32_to_f16(nextafterf(65520.0f, 0)), 0x7bff);
    assert_int_equal(ew_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(ew_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(ew_f32_to_f16(1e-30f), 0);
    for (uint32_t bits = 0; bits < 0x7f7f; bits++) {
        float middle = ew_float_from_bits(bits << 16 | 0x8000);
        assert_int_equal(ew_f32_to_bf16(middle), bits % 2 == 0 ? bits : bits + 1);
        assert_int_equal(ew_f32_to_bf16(ew_float_from_bits(bits << 16 | 0x7fff)), bits);
        assert_int_equal(ew_f32_to_bf16(ew_float_from_bits(bits << 16 | 0x8001)), bits + 1);
    }
}

static void plain_rows_are_read_unaligned(void **state) {
    (void)state;
    uint8_t bytes[9] = {0};
    const uint16_t half[2] = {0x3c00, 0xc000}, brain[2] = {0x3f80, 0xc000};
    float out[2];
    memcpy(bytes + 1, half, sizeof half);
    assert_int_equal(ew_dequantize_row(EW_DTYPE_F16, bytes + 1, 2, out, NULL), EW_OK);
    assert_true(out[0] == 1 && out[1] == -2);
    memcpy(bytes + 1, brain, sizeof brain);
    assert_int_equal(ew_dequantize_row(EW_DTYPE_BF16, bytes + 1, 2, out, NULL), EW_OK);
    assert_true(out[0] == 1 && out[1] == -2);
    memcpy(bytes + 1, (float[2]){1.5f, -3}, 8);
    assert_int_equal(ew_dequantize_row(EW_DTYPE_F32, bytes + 1, 2, out, NULL), EW_OK);
    assert_true(out[0] == 1.5f && out[1] == -3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_give_ggufs_values),           cmocka_unit_test(what_is_no_weight_is_refused),
        cmocka_unit_test(every_half_is_exact_and_comes_back), cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(plain_rows_are_read_unaligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
