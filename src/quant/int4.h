/* INT4 weights from float ones, a row at a time: both schemes, per row or per group, two rules for the range.
 *
 * A group is `group` consecutive inputs of a row (0: the whole row); the last may be shorter. For a group
 * with values w:
 *
 *   symmetric  scale = f max|w| / 7, offset 0;            q = clamp(rne(w / scale), -8, 7)
 *   offset     scale = f (max - min) / 15,
 *              offset = middle - f (max - min) / 2;       q = clamp(rne((w - offset) / scale), 0, 15)
 *
 * scale and offset are computed in double and rounded once to float. f is 1 (minmax), or the one of
 * 1 - 0.7 i / 99, i = 0..99, with the smallest sum of squared errors, the earliest of equals (mse). A scale
 * of 0 (a group of zeros or of one constant) becomes 1. With groups, scale and offset are then rounded to F16
 * and the codes computed anew from the rounded values; a row's single scale stays float.
 *
 * Every quotient is the real one: ties to even are decided exactly, not as a float division would see them.
 */
#ifndef EW_QUANT_INT4_H
#define EW_QUANT_INT4_H

#include "kernel/matrix.h"

enum { EW_MSE_CANDIDATES = 100 };

typedef enum ew_quantize_range { EW_RANGE_MINMAX, EW_RANGE_MSE } ew_quantize_range;

typedef struct ew_int4_rule {
    ew_matrix_format format; /* EW_MATRIX_INT4_SYMMETRIC or EW_MATRIX_INT4_OFFSET */
    size_t group;            /* 0, 32, 64 or 128 */
    ew_quantize_range range;
} ew_int4_rule;

/* The scale and offset that the rule finds for one group of n >= 1 finite values, as floats before any F16
 * stage, and the index i of the winning f. */
typedef struct ew_int4_fit {
    float scale, offset;
    int candidate;
    bool degenerate; /* the scale was 0 as a float; the 1 that replaces it stands here */
    bool vanished;   /* and the real one was not 0 */
} ew_int4_fit;
ew_int4_fit ew_int4_fit_group(const ew_int4_rule *rule, const float *w, size_t n);

/* codes[n] of one group under a given scale (not 0) and offset. */
void ew_int4_encode(ew_matrix_format format, const float *w, size_t n, float scale, float offset,
                    int8_t *codes);

/* Sum over n values of (w - (scale q + offset))^2 in double. */
double ew_quantized_error(const float *w, const int8_t *codes, size_t n, float scale, float offset);

/* One whole row: codes[cols], scales[n_groups], and offsets[n_groups] for the offset scheme (else unused),
 * all as the file will hold them. `name` and `row` are for the sentence of EW_ERROR_NUMERIC: a value that is
 * NaN or infinite, or a scale (an offset) that F16 cannot hold: too large, or rounded to nothing. An offset
 * that rounds to 0 beside a scale that does not is no loss and passes. */
ew_status ew_int4_quantize_row(const ew_int4_rule *rule, const char *name, size_t row, const float *w,
                               size_t cols, int8_t *codes, float *scales, float *offsets, ew_error *error);

/* Refuses NaN and infinity with the tensor's name and the place. */
ew_status ew_check_finite(const char *name, size_t row, const float *w, size_t cols, ew_error *error);

#endif
