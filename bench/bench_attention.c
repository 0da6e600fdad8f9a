/* How fast attention over INT8 cells is, by kernel set, for some rows of queries on one KV head, head_dim 64, a scale per 32
 * channels.
 *
 *   bench_attention [threads [rounds [set ...]]]
 *
 * "cache" goes over 1024 positions of one layer and head again and again; "memory" over 8192 positions of 24 layers
 * and 2 heads, pages apart from each other as in the engine, in the order of the engine. Times are the threads' own; per
 * row and position, and what was read. */
#include "bench_support.h"

#include <math.h>

enum { HEAD_DIM = 64, GRAIN = 32, LAYERS = 24, HEADS = 2, POSITIONS = 8192, CACHED = 1024 };
enum { PARTS = LAYERS * HEADS, N_PAGES = POSITIONS / EW_PAGE_POSITIONS };

static const size_t ROWS[] = {1, 3, 7, 24, 56};
enum { N_ROWS = sizeof ROWS / sizeof ROWS[0] };

typedef struct {
    const ew_kernels *sets[MAX_SETS];
    size_t n_sets, n_rounds, n_threads;
    ew_kv_layout layout;
    const uint8_t *pages[N_PAGES];
    float *queries[EW_ATTENTION_ROWS], *outputs[MAX_THREADS][EW_ATTENTION_ROWS];
    double seconds[MAX_SETS][N_ROWS][2][MAX_ROUNDS], peak[MAX_ROUNDS];
} bench;

typedef struct {
    bench *bench;
    const ew_kernels *kernels;
    size_t n_rows;
    bool cached, peak; /* peak: dot_peak instead */
} job;

enum { PEAK_REPEATS = 400000 };

static void work_share(const void *context, size_t index) {
    const job *j = context;
    bench *b = j->bench;
    if (j->peak) {
        b->outputs[index][0][0] = (float)j->kernels->dot_peak(PEAK_REPEATS);
        return;
    }
    const uint8_t *const *pages[EW_ATTENTION_ROWS];
    uint32_t n_positions[EW_ATTENTION_ROWS];
    for (size_t row = 0; row < j->n_rows; row++) {
        pages[row] = b->pages;
        n_positions[row] = j->cached ? CACHED : POSITIONS;
    }
    for (size_t part = index; part < PARTS; part += b->n_threads) {
        const ew_attention call = {.layout = &b->layout,
                                   .pages = pages,
                                   .page_offset = (j->cached ? index : part) * b->layout.page_bytes,
                                   .n_rows = j->n_rows,
                                   .queries = (const float *const *)b->queries,
                                   .n_positions = n_positions,
                                   .softmax_scale = 0.125f,
                                   .outputs = b->outputs[index]};
        j->kernels->attend(&call);
    }
}

static void make_cells(bench *b) {
    float cell[2 * HEAD_DIM];
    for (size_t i = 0; i < N_PAGES; i++) {
        uint8_t *page = bench_allocate(PARTS * b->layout.page_bytes + 64);
        for (size_t part = 0; part < PARTS; part++) {
            for (size_t t = 0; t < EW_PAGE_POSITIONS; t++) {
                for (size_t c = 0; c < 2 * HEAD_DIM; c++) {
                    cell[c] = (float)((i * 7 + part * 31 + t * 17 + c * 13) % 101) / 50.0f - 1.0f;
                }
                b->sets[0]->store_kv(&b->layout, page + part * b->layout.page_bytes, t, cell, cell + HEAD_DIM);
            }
        }
        b->pages[i] = page;
    }
}

static void make_rows(bench *b) {
    for (size_t row = 0; row < EW_ATTENTION_ROWS; row++) {
        b->queries[row] = bench_allocate(HEAD_DIM * sizeof(float));
        for (size_t c = 0; c < HEAD_DIM; c++) {
            b->queries[row][c] = (float)((row * 31 + c * 17) % 101) / 25.0f - 2.0f;
        }
        for (size_t i = 0; i < b->n_threads; i++) {
            b->outputs[i][row] = bench_allocate(HEAD_DIM * sizeof(float));
        }
    }
}

static void print_row(bench *b, size_t set, size_t r) {
    double ns[2], gbps = 0;
    for (int cached = 0; cached < 2; cached++) {
        double positions = (double)PARTS * (cached ? CACHED : POSITIONS);
        double seconds = median(b->seconds[set][r][cached], b->n_rounds);
        ns[cached] = seconds * 1e9 * (double)b->n_threads / positions / (double)ROWS[r];
        gbps = cached ? gbps : positions / EW_PAGE_POSITIONS * (double)b->layout.page_bytes / seconds * 1e-9;
    }
    printf("%-10s %4zu %9.2f %9.2f %9.1f\n", b->sets[set]->name, ROWS[r], ns[1], ns[0], gbps);
}

int main(int argc, char **argv) {
    static bench b;
    b.n_threads = argc > 1 ? (size_t)atoi(argv[1]) : 2;
    b.n_rounds = argc > 2 ? (size_t)atoi(argv[2]) : 7;
    if (b.n_threads < 1 || b.n_threads > MAX_THREADS || b.n_rounds < 1 || b.n_rounds > MAX_ROUNDS) {
        fprintf(stderr, "bench_attention [threads [rounds [set ...]]]\n");
        return 2;
    }
    b.n_sets = find_sets(argv + 3, argc - 3, b.sets);
    b.layout = ew_kv_layout_make(true, HEAD_DIM, GRAIN);
    make_cells(&b);
    make_rows(&b);
    for (size_t round = 0; round < b.n_rounds; round++) {
        job peak = {.bench = &b, .kernels = b.sets[b.n_sets - 1], .peak = true};
        b.peak[round] = bench_run(b.n_threads, work_share, &peak);
        for (size_t set = 0; set < b.n_sets; set++) {
            for (size_t r = 0; r < 2 * N_ROWS; r++) {
                job j = {.bench = &b, .kernels = b.sets[set], .n_rows = ROWS[r / 2], .cached = r % 2};
                b.seconds[set][r / 2][r % 2][round] = bench_run(b.n_threads, work_share, &j);
            }
        }
    }
    printf("%s, register to register: %.1f GMAC/s a thread\n", b.sets[b.n_sets - 1]->name,
           (double)PEAK_REPEATS * EW_DOT_PEAK_PRODUCTS / median(b.peak, b.n_rounds) * 1e-9);
    printf("%-10s %4s %9s %9s %9s\n", "set", "rows", "ns cache", "ns memory", "GB/s");
    for (size_t set = 0; set < b.n_sets; set++) {
        for (size_t r = 0; r < N_ROWS; r++) {
            print_row(&b, set, r);
        }
    }
    return 0;
}
