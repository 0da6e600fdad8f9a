/* Random inputs for the kernel tests, the hostile kinds among them, and the comparison of floats by their bits. */
#ifndef EW_TEST_KERNEL_DATA_H
#define EW_TEST_KERNEL_DATA_H

#include "base/float16.h"
#include "base/memory.h"
#include "kernel/kernel.h"

#include <math.h>

enum {
    DATA_NORMAL,
    DATA_POISONED, /* a NaN or infinity somewhere */
    DATA_DENORMAL, /* below the normal range */
    DATA_HUGE,     /* close to the end of the range */
    DATA_ZERO,
    DATA_WIDE,    /* softmax weights from 1 down to nothing */
    DATA_LARGEST, /* one magnitude everywhere, so that every code is the largest */
    N_DATA_KINDS
};

static uint64_t data_state;

static inline void data_seed(uint64_t seed) {
    data_state = seed * 0x9e3779b97f4a7c15u + 1;
}

static inline uint32_t data_random(void) {
    data_state = data_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(data_state >> 33);
}

/* About normal with deviation 1: the sum of four uniforms. */
static inline float data_normal(void) {
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += (float)(data_random() & 0xffff) / 65536.0f;
    }
    return (sum - 2.0f) * 1.7f;
}

static inline float data_float(int kind) {
    switch (kind) {
    case DATA_DENORMAL:
        return data_normal() * 0x1p-130f;
    case DATA_HUGE:
        return data_normal() * 0x1p124f;
    case DATA_WIDE:
        return data_normal() * 30.0f;
    case DATA_ZERO:
        return data_random() % 2 ? 0.0f : -0.0f;
    case DATA_LARGEST:
        return 2.5f;
    default:
        return data_normal();
    }
}

/* n values; the caller frees. */
static inline float *data_floats(size_t n, int kind) {
    static const float POISON[] = {NAN, INFINITY, -INFINITY};
    float *x = ew_allocate(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        x[i] = data_float(kind);
    }
    if (kind == DATA_POISONED) {
        x[data_random() % n] = POISON[data_random() % 3];
    }
    return x;
}

typedef struct {
    ew_matrix view;
    void *data; /* the caller frees */
} test_matrix;

/* Random codes and scales; `largest` sets every code to its extreme. Padding is random, too: it must not matter. */
static inline test_matrix data_matrix(ew_matrix_format format, size_t rows, size_t cols, size_t group, bool largest) {
    ew_matrix_layout layout = {0};
    test_matrix matrix = {0};
    assert_int_equal(ew_matrix_plan(format, rows, cols, group, &layout, NULL), EW_OK);
    uint8_t *bytes = matrix.data = ew_allocate_aligned(layout.total, 1);
    assert_non_null(bytes);
    assert_int_equal(ew_matrix_view(format, rows, cols, group, bytes, layout.total, &matrix.view, NULL), EW_OK);
    bool is_float = ew_matrix_is_float(format);
    size_t n_codes = is_float ? layout.n_tiles * cols * EW_TILE_ROWS : layout.scales_at;
    for (size_t i = 0; i < n_codes; i++) {
        if (format == EW_MATRIX_F32) {
            ((float *)matrix.data)[i] = data_normal();
        } else if (format == EW_MATRIX_BF16) {
            ((uint16_t *)matrix.data)[i] = ew_f32_to_bf16(data_normal());
        } else if (format == EW_MATRIX_F16) {
            ((uint16_t *)matrix.data)[i] = ew_f32_to_f16(data_normal());
        } else {
            bytes[i] = largest ? (format == EW_MATRIX_INT8          ? 0x80
                                  : format == EW_MATRIX_INT4_OFFSET ? 0xff
                                                                    : 0x00)
                               : (uint8_t)data_random();
        }
    }
    for (size_t at = layout.scales_at; !is_float && at < layout.total; at += group == 0 ? 4 : 2) {
        float factor = 0.01f * data_normal();
        uint16_t half = ew_f32_to_f16(factor);
        memcpy(bytes + at, group == 0 ? (const void *)&factor : (const void *)&half, group == 0 ? 4 : 2);
    }
    return matrix;
}

/* Equal bits, or both NaN. */
static inline void assert_same_floats(const float *expected, const float *found, size_t n, const char *name,
                                      const char *what) {
    for (size_t i = 0; i < n; i++) {
        if (ew_float_to_bits(expected[i]) != ew_float_to_bits(found[i]) && !(isnan(expected[i]) && isnan(found[i]))) {
            fail_msg("%s, %s: value %zu of %zu is %a, not %a", name, what, i, n, (double)found[i], (double)expected[i]);
        }
    }
}

#endif
