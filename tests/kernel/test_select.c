/* Choosing a kernel set by EDGEWISE_ISA, and the floating-point state. */
#include "support.h"

#include "kernel/kernel.h"

#include <fenv.h>

static void test_default_is_the_last(void **state) {
    (void)state;
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count), *kernels = NULL;
    unsetenv("EDGEWISE_ISA");
    assert_int_equal(ew_kernels_select(&kernels, NULL), EW_OK);
    assert_ptr_equal(kernels, all[count - 1]);
    setenv("EDGEWISE_ISA", "", 1);
    assert_int_equal(ew_kernels_select(&kernels, NULL), EW_OK);
    assert_ptr_equal(kernels, all[count - 1]);
}

static void test_every_name_selects(void **state) {
    (void)state;
    size_t count;
    const ew_kernels *const *all = ew_kernels_available(&count), *kernels = NULL;
    for (size_t i = 0; i < count; i++) {
        printf("can run %s\n", all[i]->name);
        setenv("EDGEWISE_ISA", all[i]->name, 1);
        assert_int_equal(ew_kernels_select(&kernels, NULL), EW_OK);
        assert_ptr_equal(kernels, all[i]);
        assert_ptr_equal(ew_kernels_find(all[i]->name), all[i]);
    }
}

static void test_unknown_name_is_refused(void **state) {
    (void)state;
    static const char *const NAMES[] = {"sse9", "AVX2", "scalar ", "avx512,avx2"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const ew_kernels *kernels;
        ew_error error;
        memset(&error, 0, sizeof error);
        setenv("EDGEWISE_ISA", NAMES[i], 1);
        assert_int_equal(ew_kernels_select(&kernels, &error), EW_ERROR_ARGUMENT);
        assert_null(kernels);
        assert_non_null(strstr(error.message, NAMES[i]));
        assert_non_null(strstr(error.message, "scalar"));
        assert_null(ew_kernels_find(NAMES[i]));
    }
}

static void test_float_state(void **state) {
    (void)state;
    volatile float third = 3.0f, tiny = 0x1p-149f, one = 1.0f;
    float nearest = one / third;
    assert_int_equal(fesetround(FE_UPWARD), 0);
    float upward = one / third;
    ew_float_state outside = ew_float_enter();
    assert_true(one / third == nearest);
    assert_true(tiny * one == 0x1p-149f);
    ew_float_leave(outside);
    assert_true(one / third == upward);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
}

#if defined(__x86_64__)
#include <xmmintrin.h>

static void test_denormals_are_kept_inside_and_the_flag_restored(void **state) {
    (void)state;
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040); /* flush to zero, denormals are zero */
    volatile float tiny = 0x1p-149f, two = 2.0f;
    assert_true(tiny * two == 0.0f);
    ew_float_state outside = ew_float_enter();
    assert_true(tiny * two == 0x1p-148f);
    ew_float_leave(outside);
    assert_true(tiny * two == 0.0f);
    _mm_setcsr(before);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_is_the_last),
        cmocka_unit_test(test_every_name_selects),
        cmocka_unit_test(test_unknown_name_is_refused),
        cmocka_unit_test(test_float_state),
#if defined(__x86_64__)
        cmocka_unit_test(test_denormals_are_kept_inside_and_the_flag_restored),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
