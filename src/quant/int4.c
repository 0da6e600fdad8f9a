#include "quant/int4.h"
#include "base/float16.h"
#include "quant/round.h"

#include <math.h>

enum { SCREEN_CHUNK = 128 }; /* a power of 2 */

typedef struct code_range {
    int lowest, highest;
} code_range;

static code_range codes_of(ew_matrix_format format) {
    return format == EW_MATRIX_INT4_SYMMETRIC ? (code_range){-8, 7} : (code_range){0, 15};
}

/* What a group's candidates are made of. */
typedef struct group_span {
    double lowest, highest; /* symmetric: -max|w| and max|w| */
    double least, most;     /* the smallest and largest value */
} group_span;

static group_span span_of(ew_matrix_format format, const float *w, size_t n) {
    float lowest = w[0], highest = w[0];
    for (size_t i = 1; i < n; i++) {
        lowest = w[i] < lowest ? w[i] : lowest;
        highest = w[i] > highest ? w[i] : highest;
    }
    if (format == EW_MATRIX_INT4_SYMMETRIC) {
        float largest = -lowest > highest ? -lowest : highest;
        return (group_span){-(double)largest, largest, lowest, highest};
    }
    return (group_span){lowest, highest, lowest, highest};
}

static double candidate_factor(int candidate) {
    return 1.0 - 0.7 * candidate / 99.0;
}

static ew_int4_fit candidate_fit(ew_matrix_format format, group_span span, int candidate) {
    double factor = candidate_factor(candidate);
    ew_int4_fit fit = {.candidate = candidate};
    if (format == EW_MATRIX_INT4_SYMMETRIC) {
        fit.scale = (float)(factor * span.highest / 7.0);
    } else {
        double middle = (span.lowest + span.highest) / 2, half = factor * (span.highest - span.lowest) / 2;
        double lowest = candidate == 0 ? span.lowest : middle - half;
        double highest = candidate == 0 ? span.highest : middle + half;
        fit.scale = (float)((highest - lowest) / 15.0);
        fit.offset = (float)lowest;
    }
    if (fit.scale == 0.0f) {
        fit.scale = 1.0f;
        fit.degenerate = true;
        fit.vanished = span.highest > span.lowest;
    }
    return fit;
}

/* A lower bound of the error under factor f: what the smallest and the largest value lose by clipping, were
 * everything else exact. It only grows as f shrinks. */
static double clipping_error(ew_matrix_format format, group_span span, double factor) {
    double middle = (span.lowest + span.highest) / 2, half = (span.highest - span.lowest) / 2 * factor;
    double reach = format == EW_MATRIX_INT4_SYMMETRIC ? half * 8 / 7 : half; /* there is a code -8 */
    double below = middle - reach - span.least, above = span.most - middle - half;
    return (below > 0 ? below * below : 0) + (above > 0 ? above * above : 0);
}

/* Sums 2^k values in place, as a tree. */
static float tree_sum(float *values, size_t count) {
    for (size_t half = count / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++) {
            values[i] += values[half + i];
        }
    }
    return values[0];
}

/* The error of one candidate in float, good to about 1e-5: enough to leave almost every candidate out. Stops
 * early once beyond `limit`. Two plain loops a chunk, so that compilers make vector code of them. */
static double screen(const float *w, size_t n, const ew_int4_fit *fit, code_range range, double limit) {
    const float inverse = 1.0f / fit->scale, scale = fit->scale, offset = fit->offset;
    const float lowest = (float)range.lowest, highest = (float)range.highest;
    double total = 0;
    for (size_t begin = 0; begin < n && total <= limit; begin += SCREEN_CHUNK) {
        float squares[SCREEN_CHUNK];
        size_t length = n - begin < SCREEN_CHUNK ? n - begin : SCREEN_CHUNK, count = 16;
        for (size_t i = 0; i < length; i++) {
            float x = w[begin + i] - offset, t = x * inverse;
            t = t < lowest ? lowest : t;
            t = t > highest ? highest : t;
            float left = x - ew_round_even_float(t) * scale;
            squares[i] = left * left;
        }
        while (count < length) {
            count *= 2;
        }
        for (size_t i = length; i < count; i++) {
            squares[i] = 0;
        }
        total += tree_sum(squares, count);
    }
    return total;
}

/* The error of a candidate by its definition. */
static double exact_error(ew_matrix_format format, const float *w, size_t n, const ew_int4_fit *fit) {
    enum { CHUNK = 256 };
    int8_t codes[CHUNK];
    double total = 0;
    for (size_t begin = 0; begin < n; begin += CHUNK) {
        size_t length = n - begin < CHUNK ? n - begin : CHUNK;
        ew_int4_encode(format, w + begin, length, fit->scale, fit->offset, codes);
        total += ew_quantized_error(w + begin, codes, length, fit->scale, fit->offset);
    }
    return total;
}

/* Float screening leaves the candidates whose error may be the smallest; the definition decides among them.
 */
static ew_int4_fit fit_mse(ew_matrix_format format, const float *w, size_t n, group_span span) {
    const double slack = 5e-5;
    double width = span.highest - span.lowest;
    double grain =
        1e-11 * (double)n * width * width; /* float noise where the error itself is nearly nothing */
    bool screened = span.highest < 1e12 && span.lowest > -1e12 && width > 1e-12;
    double errors[EW_MSE_CANDIDATES], smallest = INFINITY;
    int count = 0;
    for (; count < EW_MSE_CANDIDATES; count++) {
        double limit = smallest * (1 + slack) + grain;
        if (clipping_error(format, span, candidate_factor(count)) > limit) {
            break;
        }
        ew_int4_fit fit = candidate_fit(format, span, count);
        errors[count] = screened ? screen(w, n, &fit, codes_of(format), limit) : 0;
        smallest = errors[count] < smallest && screened ? errors[count] : smallest;
    }
    double limit = smallest * (1 + slack) + grain, best_error = INFINITY;
    int best = 0, left = 0;
    for (int i = 0; i < count; i++) {
        left += errors[i] <= limit;
    }
    for (int i = 0; i < count; i++) {
        if (errors[i] <= limit) {
            ew_int4_fit fit = candidate_fit(format, span, i);
            double error = left == 1 ? 0 : exact_error(format, w, n, &fit);
            if (error < best_error) {
                best_error = error;
                best = i;
            }
        }
    }
    return candidate_fit(format, span, best);
}

ew_int4_fit ew_int4_fit_group(const ew_int4_rule *rule, const float *w, size_t n) {
    group_span span = span_of(rule->format, w, n);
    ew_int4_fit widest = candidate_fit(rule->format, span, 0);
    return rule->range == EW_RANGE_MINMAX || widest.degenerate ? widest : fit_mse(rule->format, w, n, span);
}

/* Whether the integer above the tie at `below` + 0.5 is nearer (or, on the tie, the even one): w - offset
 * carries a rounding error in double when the two are far apart in size, so its lost part decides. */
static double decide_tie(float w, float scale, float offset, double below) {
    double difference = (double)w - offset;
    double taken = w - difference, left = difference + taken;
    double lost = (w - left) + (taken - offset); /* what the subtraction rounded away, exactly */
    double beyond = (difference - (below + 0.5) * scale) + lost;
    if (beyond == 0) {
        return fmod(below, 2) == 0 ? below : below + 1;
    }
    return beyond > 0 ? below + 1 : below;
}

void ew_int4_encode(ew_matrix_format format, const float *w, size_t n, float scale, float offset,
                    int8_t *codes) {
    const code_range range = codes_of(format);
    const double lowest = range.lowest, highest = range.highest, divisor = scale, base = offset;
    bool near_tie = false;
    for (size_t i = 0; i < n; i++) {
        double t = ((double)w[i] - base) / divisor;
        t = t < lowest ? lowest : t;
        t = t > highest ? highest : t;
        double rounded = ew_round_even(t);
        near_tie |= fabs(t - rounded) > 0.5 - 1e-9;
        codes[i] = (int8_t)(int32_t)rounded;
    }
    /* A quotient of two floats is never nearer than 2^-26 to a tie without being on it; a difference may be.
     */
    for (size_t i = 0; near_tie && format == EW_MATRIX_INT4_OFFSET && i < n; i++) {
        double t = ((double)w[i] - base) / divisor, below = floor(t);
        if (t > lowest && t < highest && fabs(t - below - 0.5) < 1e-9) {
            codes[i] = (int8_t)decide_tie(w[i], scale, offset, below);
        }
    }
}

double ew_quantized_error(const float *w, const int8_t *codes, size_t n, float scale, float offset) {
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        double left = w[i] - ((double)scale * codes[i] + offset);
        total += left * left;
    }
    return total;
}

ew_status ew_check_finite(const char *name, size_t row, const float *w, size_t cols, ew_error *error) {
    for (size_t i = 0; i < cols; i++) {
        if (!isfinite(w[i])) {
            return ew_fail(error, EW_ERROR_NUMERIC,
                           "%s holds %s at row %zu, column %zu; weights must be finite", name,
                           isnan(w[i]) ? "NaN" : "infinity", row, i);
        }
    }
    return EW_OK;
}

static ew_status fail_half(const char *name, size_t row, size_t group, const char *what, double value,
                           ew_error *error) {
    return ew_fail(
        error, EW_ERROR_NUMERIC,
        "%s, row %zu, group %zu: the %s %g does not fit F16 (6e-8 to 65504); group 0 has F32 scales", name,
        row, group, what, value);
}

/* Rounds scale and offset to F16, or says why that cannot be. */
static ew_status round_to_half(const ew_int4_fit *fit, const char *name, size_t row, size_t group,
                               float *scale, float *offset, ew_error *error) {
    *scale = ew_f16_to_f32(ew_f32_to_f16(fit->scale));
    *offset = ew_f16_to_f32(ew_f32_to_f16(fit->offset));
    if (!isfinite(*scale) || *scale == 0.0f || fit->vanished) {
        return fail_half(name, row, group, "scale", fit->vanished ? 0.0 : fit->scale, error);
    }
    if (!isfinite(*offset) || (fit->degenerate && *offset == 0.0f && fit->offset != 0.0f)) {
        return fail_half(name, row, group, "offset", fit->offset, error);
    }
    return EW_OK;
}

ew_status ew_int4_quantize_row(const ew_int4_rule *rule, const char *name, size_t row, const float *w,
                               size_t cols, int8_t *codes, float *scales, float *offsets, ew_error *error) {
    ew_status status = ew_check_finite(name, row, w, cols, error);
    size_t group = rule->group == 0 ? cols : rule->group;
    for (size_t begin = 0; status == EW_OK && begin < cols; begin += group) {
        size_t n = cols - begin < group ? cols - begin : group, index = begin / group;
        ew_int4_fit fit = ew_int4_fit_group(rule, w + begin, n);
        float scale = fit.scale, offset = fit.offset;
        if (rule->group > 0) {
            status = round_to_half(&fit, name, row, index, &scale, &offset, error);
        }
        ew_int4_encode(rule->format, w + begin, n, scale, offset, codes + begin);
        scales[index] = scale;
        if (rule->format == EW_MATRIX_INT4_OFFSET) {
            offsets[index] = offset;
        }
    }
    return status;
}
