/* What attention's steps share: who reads which page, and one run of positions for all rows (docs/arithmetic.md,
 * "Attention"). */
#ifndef EW_KERNEL_LANES_ATTENTION_PAGES_H
#define EW_KERNEL_LANES_ATTENTION_PAGES_H

#include "kernel/lanes/quantize_ops.h"

enum { SCALES_MAX = EW_HEAD_DIM_MAX / 4 };

/* One run of up to 256 positions for all rows. Vectors that cross cache lines cost double, hence the alignment. */
typedef struct {
    _Alignas(64) float scores[EW_ATTENTION_ROWS][EW_ATTENTION_PARTIAL]; /* then probabilities */
    float maximum[EW_ATTENTION_ROWS], sum[EW_ATTENTION_ROWS];
    _Alignas(64) float output[EW_ATTENTION_ROWS][EW_HEAD_DIM_MAX];
} attention_run;

static inline const uint8_t *page_at(const ew_attention *a, size_t row, size_t position) {
    return a->pages[row][position / EW_PAGE_POSITIONS] + a->page_offset;
}

/* How many of `most` positions from `begin` on the row sees. */
static inline size_t seen_from(const ew_attention *a, size_t row, size_t begin, size_t most) {
    size_t n = a->n_positions[row] > begin ? a->n_positions[row] - begin : 0;
    return n < most ? n : most;
}

static inline size_t seen_by_any(const ew_attention *a) {
    size_t most = 0;
    for (size_t row = 0; row < a->n_rows; row++) {
        most = a->n_positions[row] > most ? a->n_positions[row] : most;
    }
    return most;
}

/* Rows begin .. end - 1 read one page. */
typedef struct {
    size_t begin, end;
} row_range;

/* The next rows from `row` on that see `position` and have it on the same page; an empty range when there are none. */
static inline row_range next_sharers(const ew_attention *a, size_t row, size_t position) {
    while (row < a->n_rows && a->n_positions[row] <= position) {
        row++;
    }
    row_range rows = {row, row};
    while (rows.end < a->n_rows && a->n_positions[rows.end] > position &&
           page_at(a, rows.end, position) == page_at(a, row, position)) {
        rows.end++;
    }
    return rows;
}

/* Rows row .. end - 1, at most `most`, that see as many positions from `begin` on as the first does. */
static inline size_t rows_alike(const ew_attention *a, size_t row, size_t end, size_t begin, size_t most) {
    size_t n = seen_from(a, row, begin, EW_PAGE_POSITIONS), count = 1;
    while (count < most && row + count < end && seen_from(a, row + count, begin, EW_PAGE_POSITIONS) == n) {
        count++;
    }
    return count;
}

/* Bytes that are read later. They are asked for part by part between other work, as more lines at once than the core can
 * wait for would hold it up. */
typedef struct {
    const uint8_t *bytes; /* NULL: none */
    size_t n;
} read_ahead;

static inline void ask_for_part(read_ahead ahead, size_t part, size_t n_parts) {
    enum { LINE = 64 };
    if (ahead.bytes) {
        for (size_t at = ahead.n * part / n_parts / LINE * LINE; at < ahead.n * (part + 1) / n_parts; at += LINE) {
            __builtin_prefetch(ahead.bytes + at, 0, 2);
        }
    }
}

#endif
