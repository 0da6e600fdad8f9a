/* Rotary embedding: the model's frequencies, and the cosines and sines of a position (docs/arithmetic.md). */
#ifndef EW_MODEL_ROPE_H
#define EW_MODEL_ROPE_H

#include "format/config.h"

typedef struct ew_rope_table {
    size_t half;             /* head_dim / 2 */
    double attention_factor; /* on cosine and sine */
    double frequency[EW_CONFIG_MAX_HEAD_DIM / 2];
} ew_rope_table;

void ew_rope_prepare(const ew_rope *rope, size_t head_dim, ew_rope_table *table);

/* cosine[half] and sine[half] of one position. */
void ew_rope_at(const ew_rope_table *table, size_t position, float *cosine, float *sine);

#endif
