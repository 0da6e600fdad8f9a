/* What a sampler does with every token of a vocabulary, in vectors. The files weigh*.c hold the same loops for several
 * machines; elements do not depend on each other, so that all give the same bits. */
#ifndef EW_REASON_WEIGH_H
#define EW_REASON_WEIGH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Buckets of x by how far it is below 0: so many to the unit; the last takes all that is below the others. */
enum { EW_WEIGH_BUCKETS = 4096, EW_WEIGH_BUCKETS_PER_UNIT = 64 };

typedef struct ew_weigh_table {
    /* The largest of n logits, -infinity for none; *sound: none is NaN or +infinity. */
    float (*largest)(const float *logits, size_t n, bool *sound);

    /* Logits of tokens that were seen (NULL: of none) divided by the penalty if above 0, else multiplied. */
    void (*penalize)(const float *logits, const uint8_t *seen, size_t n, float penalty, float *out);

    /* x = (logit - largest) * (1 / temperature), in double: exp(x), the bits of ew_exp64, and the bucket of x. Sound logits.
     */
    void (*weigh)(const float *logits, size_t n, float largest, float temperature, double *weights, uint16_t *buckets);

    /* The sum of exp((logit - largest) / temperature) over the logits below `cut`, to one part in 10,000 (and 1e-30);
     * *any: there are others. Sound logits. */
    double (*tail)(const float *logits, size_t n, float largest, float temperature, float cut, bool *any);

    /* Whether some of n logits are within low .. high. */
    bool (*any_within)(const float *logits, size_t n, float low, float high);
} ew_weigh_table;

const ew_weigh_table *ew_weigh_choose(void); /* the fastest for this machine */

/* All that this machine has, the plain one first. */
size_t ew_weigh_all(const ew_weigh_table *tables[3]);

#endif
