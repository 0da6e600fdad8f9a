/* How fast the integer matrix products are, by kernel set: all linear layers of a Qwen2.5-0.5B shape (and its tied head
 * for single tokens), random weights, group 32 symmetric.
 *
 *   bench_kernels [threads [rounds [set ...]]]
 *
 * Every round runs every set and every number of tokens once, so that a busy moment of the machine hits all alike; the
 * median of the rounds is printed, beside the bandwidth read and the byte products' peak of the last set in the same
 * rounds. Times are the threads' own CPU time. */
#include "bench_support.h"

enum { LAYERS = 24, PER_LAYER = 7, N_MATRICES = LAYERS * PER_LAYER + 1, MAX_TOKENS = 128 };
enum { HIDDEN = 896, KEYS = 128, INNER = 4864, VOCABULARY = 151936 };

static const size_t TOKENS[] = {1, 2, 4, 8, 16, 128};
enum { N_TOKENS = sizeof TOKENS / sizeof TOKENS[0], N_TYPES = 2 };

typedef struct {
    const ew_kernels *kernels;
    const ew_matrix *matrices;
    size_t n_matrices;
    const ew_activations *narrow, *wide; /* HIDDEN and INNER inputs */
    float *y;
    size_t y_stride;
    const uint64_t *memory; /* read instead when there are no kernels */
    size_t memory_words;
    size_t n_threads;
    bool peak; /* measure dot_peak instead */
    uint64_t *sums; /* [n_threads]: keep the compiler from leaving out what is read */
} job;

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static uint64_t
read_memory(const uint64_t *words, size_t n) {
    uint64_t sums[8] = {0};
    for (size_t i = 0; i + 8 <= n; i += 8) {
        for (size_t j = 0; j < 8; j++) {
            sums[j] += words[i + j];
        }
    }
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

enum { PEAK_REPEATS = 1000000 };

static void work_share(const void *context, size_t index) {
    const job *job = context;
    if (job->peak) {
        job->sums[index] = (uint64_t)(uint32_t)job->kernels->dot_peak(PEAK_REPEATS);
        return;
    }
    if (!job->kernels) {
        size_t share = job->memory_words / job->n_threads;
        job->sums[index] = read_memory(job->memory + share * index, share);
        return;
    }
    for (size_t i = 0; i < job->n_matrices; i++) {
        const ew_matrix *w = &job->matrices[i];
        size_t n_tiles = (w->rows + EW_TILE_ROWS - 1) / EW_TILE_ROWS;
        size_t begin = n_tiles * index / job->n_threads, end = n_tiles * (index + 1) / job->n_threads;
        const ew_activations *x = w->cols == INNER ? job->wide : job->narrow;
        job->kernels->matmul(w, begin, end, x, job->y, job->y_stride);
    }
}

static double run(const job *job) {
    return bench_run(job->n_threads, work_share, job);
}

/* All matrices behind each other in one allocation, as in a file; its size. */
static size_t make_matrices(ew_matrix matrices[N_MATRICES], void **memory) {
    static const size_t SHAPES[PER_LAYER][2] = {{HIDDEN, HIDDEN}, {KEYS, HIDDEN},  {KEYS, HIDDEN}, {HIDDEN, HIDDEN},
                                                {INNER, HIDDEN},  {INNER, HIDDEN}, {HIDDEN, INNER}};
    ew_matrix_layout layouts[N_MATRICES];
    size_t total = 0, at = 0;
    for (size_t i = 0; i < N_MATRICES; i++) {
        const size_t head[2] = {VOCABULARY, HIDDEN};
        const size_t *shape = i + 1 == N_MATRICES ? head : SHAPES[i % PER_LAYER];
        matrices[i] = (ew_matrix){.rows = (uint32_t)shape[0], .cols = (uint32_t)shape[1]};
        if (ew_matrix_plan(EW_MATRIX_INT4_SYMMETRIC, shape[0], shape[1], 32, &layouts[i], NULL) != EW_OK) {
            exit(1);
        }
        total += layouts[i].total;
    }
    char *bytes = *memory = bench_allocate(total);
    fill_random(bytes, total);
    for (size_t i = 0; i < N_MATRICES; i++) {
        uint16_t *scales = (uint16_t *)(void *)(bytes + at + layouts[i].scales_at);
        for (size_t j = 0; j < (layouts[i].total - layouts[i].scales_at) / 2; j++) {
            scales[j] = 0x2000 | (scales[j] & 0x3ff); /* 2^-7 to 2^-6 */
        }
        if (ew_matrix_view(EW_MATRIX_INT4_SYMMETRIC, matrices[i].rows, matrices[i].cols, 32, bytes + at,
                           layouts[i].total, &matrices[i], NULL) != EW_OK) {
            exit(1);
        }
        at += layouts[i].total;
    }
    return total;
}

static ew_activations make_activations(ew_activation_type type, size_t cols) {
    ew_activations x;
    float *row = bench_allocate(cols * sizeof *row);
    if (ew_activations_allocate(&x, type, cols, MAX_TOKENS, NULL) != EW_OK) {
        exit(1);
    }
    for (size_t token = 0; token < MAX_TOKENS; token++) {
        for (size_t i = 0; i < cols; i++) {
            row[i] = (float)((token * 31 + i * 17) % 101) - 50.0f;
        }
        ew_kernels_find("scalar")->quantize(row, token, &x);
    }
    free(row);
    return x;
}

typedef struct {
    const ew_kernels *sets[MAX_SETS];
    size_t n_sets, n_rounds;
    ew_matrix matrices[N_MATRICES];
    ew_activations narrow[N_TYPES], wide[N_TYPES];
    double seconds[MAX_SETS][N_TYPES][N_TOKENS][MAX_ROUNDS], reading[MAX_ROUNDS], peak[MAX_ROUNDS];
    size_t bytes;
    job job;
} bench;

/* Prompts run without the head, as the engine does. */
static size_t matrices_for(size_t n_tokens) {
    return n_tokens > 16 ? N_MATRICES - 1 : N_MATRICES;
}

static void run_round(bench *b, size_t round) {
    job job = b->job;
    job.kernels = NULL;
    b->reading[round] = run(&job);
    job.kernels = b->sets[b->n_sets - 1];
    job.peak = true;
    b->peak[round] = run(&job);
    job.peak = false;
    for (size_t set = 0; set < b->n_sets; set++) {
        for (size_t type = 0; type < N_TYPES; type++) {
            for (size_t t = 0; t < N_TOKENS; t++) {
                b->narrow[type].n_tokens = b->wide[type].n_tokens = TOKENS[t];
                job.kernels = b->sets[set];
                job.narrow = &b->narrow[type];
                job.wide = &b->wide[type];
                job.n_matrices = matrices_for(TOKENS[t]);
                b->seconds[set][type][t][round] = run(&job);
            }
        }
    }
}

static void print_row(bench *b, size_t set, size_t type, size_t t) {
    double seconds = median(b->seconds[set][type][t], b->n_rounds), bytes = 0, macs = 0;
    for (size_t i = 0; i < matrices_for(TOKENS[t]); i++) {
        double weights = (double)b->matrices[i].rows * b->matrices[i].cols;
        bytes += weights * 4.5 / 8;
        macs += weights * (double)TOKENS[t] * (type == EW_ACTIVATION_INT16 ? 2 : 1);
    }
    printf("%-10s %-5s %6zu %9.3f %9.1f %9.1f\n", b->sets[set]->name, type == EW_ACTIVATION_INT16 ? "int16" : "int8",
           TOKENS[t], 1e3 * seconds, bytes / seconds / 1e9, macs / seconds / 1e9);
}

int main(int argc, char **argv) {
    static bench b;
    size_t n_threads = argc > 1 ? (size_t)atoi(argv[1]) : 2;
    b.n_rounds = argc > 2 ? (size_t)atoi(argv[2]) : 7;
    if (n_threads < 1 || n_threads > MAX_THREADS || b.n_rounds < 1 || b.n_rounds > MAX_ROUNDS) {
        fprintf(stderr, "bench_kernels [threads [rounds [set ...]]]\n");
        return 2;
    }
    b.n_sets = find_sets(argv + 3, argc - 3, b.sets);
    void *memory;
    b.bytes = make_matrices(b.matrices, &memory);
    for (size_t type = 0; type < N_TYPES; type++) {
        b.narrow[type] = make_activations((ew_activation_type)type, HIDDEN);
        b.wide[type] = make_activations((ew_activation_type)type, INNER);
    }
    b.job = (job){.matrices = b.matrices, .memory = memory, .memory_words = b.bytes / 8, .n_threads = n_threads};
    b.job.y_stride = VOCABULARY;
    b.job.sums = bench_allocate(n_threads * sizeof *b.job.sums);
    b.job.y = bench_allocate((size_t)MAX_TOKENS * VOCABULARY * sizeof(float));
    for (size_t round = 0; round < b.n_rounds; round++) {
        run_round(&b, round);
    }
    printf("%zu threads, %zu rounds, weights %.1f MB, read at %.1f GB/s\n", n_threads, b.n_rounds,
           1e-6 * (double)b.bytes, (double)b.bytes / median(b.reading, b.n_rounds) / 1e9);
    printf("%s, register to register: %.1f GMAC/s\n", b.sets[b.n_sets - 1]->name,
           (double)n_threads * PEAK_REPEATS * EW_DOT_PEAK_PRODUCTS / median(b.peak, b.n_rounds) / 1e9);
    printf("%-10s %-5s %6s %9s %9s %9s\n", "set", "acts", "tokens", "ms", "GB/s", "GMAC/s x planes");
    for (size_t set = 0; set < b.n_sets; set++) {
        for (size_t type = 0; type < N_TYPES; type++) {
            for (size_t t = 0; t < N_TOKENS; t++) {
                print_row(&b, set, type, t);
            }
        }
    }
    return 0;
}
