#include "model/rope.h"
#include "kernel/math64.h"

#include <math.h>

static const double TWO_PI = 0x1.921fb54442d18p+2;

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* Llama 3: long wavelengths are divided by the factor, short ones kept, a ramp between. */
static double scale_llama3(const ew_rope *rope, double frequency) {
    double wavelength = TWO_PI / frequency, original = (double)rope->original_context;
    if (wavelength < original / rope->high_freq_factor) {
        return frequency;
    }
    if (wavelength > original / rope->low_freq_factor) {
        return frequency / rope->factor;
    }
    double smooth = (original / wavelength - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * frequency / rope->factor + smooth * frequency;
}

/* The channel whose frequency makes `rotations` turns over the original context (YaRN, arXiv 2309.00071). */
static double yarn_channel(const ew_rope *rope, size_t head_dim, double rotations) {
    return (double)head_dim * ew_log64((double)rope->original_context / (rotations * TWO_PI)) /
           (2 * ew_log64(rope->theta));
}

static void scale_yarn(const ew_rope *rope, size_t head_dim, ew_rope_table *table) {
    double low = yarn_channel(rope, head_dim, rope->beta_fast), high = yarn_channel(rope, head_dim, rope->beta_slow);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)head_dim - 1);
    if (low == high) {
        high += 0.001;
    }
    for (size_t i = 0; i < table->half; i++) {
        double ramp = clamp(((double)i - low) / (high - low), 0, 1);
        double frequency = table->frequency[i];
        table->frequency[i] = ramp * frequency / rope->factor + (1 - ramp) * frequency;
    }
}

static double yarn_magnitude(double factor, double scale) {
    return factor > 1 ? 0.1 * scale * ew_log64(factor) + 1 : 1;
}

static double yarn_attention_factor(const ew_rope *rope) {
    if (rope->attention_factor > 0) {
        return rope->attention_factor;
    }
    if (rope->mscale > 0 && rope->mscale_all_dim > 0) {
        return yarn_magnitude(rope->factor, rope->mscale) / yarn_magnitude(rope->factor, rope->mscale_all_dim);
    }
    return yarn_magnitude(rope->factor, 1);
}

void ew_rope_prepare(const ew_rope *rope, size_t head_dim, ew_rope_table *table) {
    table->half = head_dim / 2;
    table->attention_factor = rope->scaling == EW_ROPE_YARN ? yarn_attention_factor(rope) : 1;
    double log_theta = ew_log64(rope->theta);
    for (size_t i = 0; i < table->half; i++) {
        double frequency = ew_exp64(-(2 * (double)i / (double)head_dim) * log_theta);
        switch (rope->scaling) {
        case EW_ROPE_LINEAR:
            frequency = frequency / rope->factor;
            break;
        case EW_ROPE_LLAMA3:
            frequency = scale_llama3(rope, frequency);
            break;
        case EW_ROPE_DIVISORS:
            frequency = frequency / (double)rope->divisors[i];
            break;
        case EW_ROPE_NONE:
        case EW_ROPE_YARN:
            break;
        }
        table->frequency[i] = frequency;
    }
    if (rope->scaling == EW_ROPE_YARN) {
        scale_yarn(rope, head_dim, table);
    }
}

void ew_rope_at(const ew_rope_table *table, size_t position, float *cosine, float *sine) {
    for (size_t i = 0; i < table->half; i++) {
        double s, c;
        ew_sincos64((double)position * table->frequency[i], &s, &c);
        cosine[i] = (float)(c * table->attention_factor);
        sine[i] = (float)(s * table->attention_factor);
    }
}
