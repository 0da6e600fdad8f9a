/* The floating-point environment of docs/arithmetic.md: round to nearest, denormals kept. On x86 that is MXCSR
 * (flush-to-zero, denormals-are-zero and rounding), on aarch64 FPCR. Exception flags are left as they are. */
#include "kernel/kernel.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { MXCSR_FLUSH_TO_ZERO = 0x8000, MXCSR_ROUNDING = 0x6000, MXCSR_MASKS = 0x1f80, MXCSR_DENORMALS_ARE_ZERO = 0x0040 };

ew_float_state ew_float_enter(void) {
    unsigned control = _mm_getcsr();
    _mm_setcsr((control & ~(unsigned)(MXCSR_FLUSH_TO_ZERO | MXCSR_ROUNDING | MXCSR_DENORMALS_ARE_ZERO)) | MXCSR_MASKS);
    return (ew_float_state){control};
}

void ew_float_leave(ew_float_state state) {
    _mm_setcsr((unsigned)state.control);
}

#elif defined(__aarch64__)

/* FZ, FZ16, rounding mode, default NaN, trap enables, and (ARMv8.7) FIZ, AH, NEP. */
static const uint64_t FPCR_CLEARED = 1u << 24 | 1u << 19 | 3u << 22 | 1u << 25 | 0x9f00u | 7u;

ew_float_state ew_float_enter(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control & ~FPCR_CLEARED));
    return (ew_float_state){control};
}

void ew_float_leave(ew_float_state state) {
    __asm__ volatile("msr fpcr, %0" : : "r"(state.control));
}

#else
#include <fenv.h>

ew_float_state ew_float_enter(void) {
    int rounding = fegetround();
    fesetround(FE_TONEAREST);
    return (ew_float_state){(uint64_t)rounding};
}

void ew_float_leave(ew_float_state state) {
    fesetround((int)state.control);
}

#endif
