#include "quant/int8.h"
#include "base/float16.h"
#include "quant/int4.h"
#include "quant/round.h"

#include <math.h>

static float largest_magnitude(const float *w, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        float magnitude = fabsf(w[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* A double quotient of two floats decides ties as the real one does (int4.c says why). */
static void encode(const float *w, size_t n, float scale, int8_t *codes) {
    for (size_t i = 0; i < n; i++) {
        double t = w[i] / (double)scale;
        t = t < -127.0 ? -127.0 : t > 127.0 ? 127.0 : t;
        codes[i] = (int8_t)(int32_t)ew_round_even(t);
    }
}

ew_status ew_int8_quantize_row(const char *name, size_t row, const float *w, size_t cols, int8_t *codes,
                               float *scales, ew_error *error) {
    ew_status status = ew_check_finite(name, row, w, cols, error);
    for (size_t begin = 0; status == EW_OK && begin < cols; begin += EW_INT8_GROUP) {
        size_t n = cols - begin < EW_INT8_GROUP ? cols - begin : EW_INT8_GROUP;
        float largest = largest_magnitude(w + begin, n);
        float scale = largest == 0 ? 1.0f : ew_f16_to_f32(ew_f32_to_f16((float)(largest / 127.0)));
        if (!isfinite(scale) || scale == 0.0f) {
            return ew_fail(error, EW_ERROR_NUMERIC,
                           "%s, row %zu, group %zu: the scale %g does not fit F16 (6e-8 to 65504)", name, row,
                           begin / EW_INT8_GROUP, largest / 127.0);
        }
        encode(w + begin, n, scale, codes + begin);
        scales[begin / EW_INT8_GROUP] = scale;
    }
    return status;
}
