/* What an adapter is, whatever file it came from. */
#include "format/adapter.h"

#include "base/memory.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Four lanes of 64 bits, fed in turn: as fast as reading, and good enough for telling adapters apart (nobody is kept
 * from making two that agree). */
typedef struct mixture {
    uint64_t lanes[4];
    size_t n;
} mixture;

static void feed(mixture *m, uint64_t word) {
    uint64_t *lane = &m->lanes[m->n++ % 4];
    *lane = (*lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    *lane ^= *lane >> 29;
}

static void feed_text(mixture *m, const char *text) {
    for (; *text; text++) {
        feed(m, (unsigned char)*text);
    }
    feed(m, 256);
}

static void feed_double(mixture *m, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    feed(m, bits);
}

static ew_status feed_factor(mixture *m, const ew_lora_factor *factor, ew_error *error) {
    size_t rows = factor->values.rows, cols = factor->values.cols;
    float *row = ew_allocate(cols, sizeof *row);
    ew_status status = row ? EW_OK : ew_fail_memory(error, cols * sizeof *row, "a row of an adapter");
    feed(m, rows);
    feed(m, cols);
    for (size_t i = 0; status == EW_OK && i < rows; i++) {
        status = ew_lora_read_row(factor, i, row, error);
        for (size_t c = 0; status == EW_OK && c < cols; c++) {
            uint32_t bits;
            memcpy(&bits, &row[c], sizeof bits);
            feed(m, bits);
        }
    }
    free(row);
    return status;
}

ew_status ew_lora_fingerprint(const ew_lora *adapter, char hex[65], ew_error *error) {
    mixture m = {.lanes = {1, 2, 3, 4}};
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < adapter->n_targets; i++) {
        const ew_lora_target *target = &adapter->targets[i];
        feed_text(&m, target->name);
        feed_double(&m, ew_lora_scale(adapter, target));
        status = feed_factor(&m, &target->a, error);
        if (status == EW_OK) {
            status = feed_factor(&m, &target->b, error);
        }
    }
    for (size_t i = 0; i < 4; i++) {
        uint64_t word = ew_random_mix(m.lanes[i] ^ ew_random_mix(m.n + i));
        snprintf(hex + 16 * i, 17, "%016llx", (unsigned long long)word);
    }
    return status;
}
