#include "train/head_fit.h"

#include "base/memory.h"
#include "base/random.h"
#include "kernel/math64.h"
#include "model/head_score.h"
#include "train/optimizer.h"
#include "train/shuffle.h"

#include <stdlib.h>
#include <string.h>

/* ---- Samples ---- */

ew_status ew_head_samples_add(ew_head_samples *s, const float *x, bool y, uint64_t problem, size_t length,
                              ew_error *error) {
    size_t wanted = 0;
    if (!ew_multiply_size(s->n + 1, s->d_model, &wanted) ||
        !ew_grow((void **)&s->x, &s->x_capacity, wanted, sizeof *s->x) ||
        !ew_grow((void **)&s->y, &s->y_capacity, s->n + 1, sizeof *s->y) ||
        !ew_grow((void **)&s->problem, &s->problem_capacity, s->n + 1, sizeof *s->problem) ||
        !ew_grow((void **)&s->length, &s->length_capacity, s->n + 1, sizeof *s->length)) {
        return ew_fail_memory(error, s->d_model * sizeof *s->x, "a hidden state");
    }
    memcpy(s->x + s->n * s->d_model, x, s->d_model * sizeof *x);
    s->y[s->n] = y;
    s->problem[s->n] = problem;
    s->length[s->n++] = (double)length;
    return EW_OK;
}

void ew_head_samples_free(ew_head_samples *s) {
    free(s->x);
    free(s->y);
    free(s->problem);
    free(s->length);
    *s = (ew_head_samples){0};
}

ew_status ew_head_samples_add_test(ew_head_samples *samples, ew_head_samples *more, ew_error *error) {
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < more->n; i++) {
        status = ew_head_samples_add(samples, more->x + i * more->d_model, more->y[i], more->problem[i],
                                     (size_t)more->length[i], error);
    }
    samples->n_test = more->n;
    ew_head_samples_free(more);
    return status;
}

uint64_t ew_hash_problem(const char *text, size_t length) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return ew_random_mix(hash);
}

/* ---- Parts ---- */

typedef enum part { TRAIN, VALIDATION, TEST, PARTS } part;

static part part_of(const ew_head_samples *s, uint64_t seed, size_t i) {
    double at = ew_random_unit(seed, s->problem[i], 0);
    if (s->n_test > 0) {
        return i >= s->n - s->n_test ? TEST : at < 0.1 ? VALIDATION : TRAIN;
    }
    return at < 0.2 ? TEST : at < 0.3 ? VALIDATION : TRAIN;
}

typedef struct fitting {
    const ew_head_samples *samples;
    const ew_head_fit_options *options;
    ew_head *head;
    size_t *members[PARTS], n[PARTS], n_right[PARTS]; /* of every part */
    double class_weight[2];
    ew_parameters parameters;
    ew_adamw optimizer;
    real *gradient, *best;
    float *z, *kept; /* of a batch: [batch][d_model], [batch][n_hidden] */
    uint8_t *y;
    double *weight;
} fitting;

static int compare_hashes(const void *left, const void *right) {
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* That no problem of a test part that stands apart is among the others. */
static ew_status check_apart(const ew_head_samples *s, ew_error *error) {
    size_t n_other = s->n - s->n_test, n_shared = 0;
    if (s->n_test == 0) {
        return EW_OK;
    }
    uint64_t *tested = ew_allocate(s->n_test, sizeof *tested);
    if (!tested) {
        return ew_fail_memory(error, s->n_test * sizeof *tested, "the test problems");
    }
    memcpy(tested, s->problem + n_other, s->n_test * sizeof *tested);
    qsort(tested, s->n_test, sizeof *tested, compare_hashes);
    for (size_t i = 0; i < n_other; i++) {
        n_shared += bsearch(&s->problem[i], tested, s->n_test, sizeof *tested, compare_hashes) != NULL;
    }
    free(tested);
    return n_shared == 0
               ? EW_OK
               : ew_fail(error, EW_ERROR_ARGUMENT,
                         "%zu of the samples to learn from are of problems that stand in the test file too: it "
                         "must have problems of its own",
                         n_shared);
}

static ew_status split(fitting *f, ew_error *error) {
    const ew_head_samples *s = f->samples;
    ew_status status = check_apart(s, error);
    if (status != EW_OK) {
        return status;
    }
    for (int p = 0; p < PARTS; p++) {
        f->members[p] = ew_allocate(s->n, sizeof *f->members[p]);
        if (!f->members[p]) {
            return ew_fail_memory(error, s->n * sizeof *f->members[p], "the parts");
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        part p = part_of(s, f->options->seed, i);
        f->members[p][f->n[p]++] = i;
        f->n_right[p] += s->y[i] != 0;
    }
    static const char *const names[] = {"training", "validation", "test"};
    for (int p = 0; p < PARTS; p++) {
        if (f->n_right[p] == 0 || f->n_right[p] == f->n[p]) {
            return ew_fail(error, EW_ERROR_ARGUMENT,
                           "of %zu samples the %s part has %zu, %zu of them labelled 1; it needs both labels", s->n,
                           names[p], f->n[p], f->n_right[p]);
        }
    }
    double n = (double)f->n[TRAIN];
    f->class_weight[1] = n / (2.0 * (double)f->n_right[TRAIN]);
    f->class_weight[0] = n / (2.0 * (n - (double)f->n_right[TRAIN]));
    return EW_OK;
}

/* Mean and standard deviation of the training part; a channel that never changes is left out (0). */
static void normalise(fitting *f) {
    const ew_head_samples *s = f->samples;
    for (size_t c = 0; c < s->d_model; c++) {
        double sum = 0.0, squares = 0.0, n = (double)f->n[TRAIN];
        for (size_t i = 0; i < f->n[TRAIN]; i++) {
            sum += (double)s->x[f->members[TRAIN][i] * s->d_model + c];
        }
        for (size_t i = 0; i < f->n[TRAIN]; i++) {
            double off = (double)s->x[f->members[TRAIN][i] * s->d_model + c] - sum / n;
            squares += off * off;
        }
        double std = sqrt(squares / n);
        f->head->mean[c] = (float)(sum / n);
        f->head->inverse_std[c] = std > 1e-12 ? (float)(1.0 / std) : 0.0f;
    }
}

/* ---- Batches ---- */

static double gaussian(uint64_t seed, uint64_t stream, uint64_t position) {
    double sine, cosine, u = ew_random_unit(seed, stream, 2 * position),
                         v = ew_random_unit(seed, stream, 2 * position + 1);
    ew_sincos64(6.283185307179586 * v, &sine, &cosine);
    return sqrt(-2.0 * ew_log64(1.0 - u)) * cosine;
}

/* Normalised states of samples list[0 .. n - 1]; `stream` keys noise and dropout, 0: none. */
static ew_head_batch make_batch(fitting *f, const size_t *list, size_t n, uint64_t stream) {
    const ew_head_samples *s = f->samples;
    const ew_head_fit_options *o = f->options;
    size_t d = s->d_model, n_hidden = f->head->n_hidden;
    for (size_t i = 0; i < n; i++) {
        const float *x = s->x + list[i] * d;
        for (size_t c = 0; c < d; c++) {
            double noise = stream > 0 ? o->noise * gaussian(o->seed, stream, i * d + c) : 0.0;
            f->z[i * d + c] = (x[c] - f->head->mean[c]) * f->head->inverse_std[c] + (float)noise;
        }
        for (size_t k = 0; k < n_hidden; k++) {
            bool dropped = stream > 0 && ew_random_unit(~o->seed, stream, i * n_hidden + k) < o->dropout;
            f->kept[i * n_hidden + k] = dropped ? 0.0f : stream > 0 ? (float)(1.0 / (1.0 - o->dropout)) : 1.0f;
        }
        f->y[i] = s->y[list[i]];
        f->weight[i] = f->class_weight[f->y[i] != 0];
    }
    return (ew_head_batch){.n = n,
                           .d_model = d,
                           .z = f->z,
                           .y = f->y,
                           .weight = f->weight,
                           .divisor = (double)n,
                           .kept = n_hidden > 0 ? f->kept : NULL};
}

/* Mean loss of a part, without noise and dropout. */
static ew_status part_loss(fitting *f, part p, double *loss, ew_error *error) {
    double sum = 0.0;
    for (size_t i = 0; i < f->n[p]; i += f->options->batch) {
        size_t n = f->n[p] - i < f->options->batch ? f->n[p] - i : f->options->batch;
        const ew_head_batch batch = make_batch(f, f->members[p] + i, n, 0);
        double mean;
        ew_status status = ew_head_loss(&f->parameters, &batch, &mean, NULL, NULL, error);
        if (status != EW_OK) {
            return status;
        }
        sum += mean * (double)n;
    }
    *loss = sum / (double)f->n[p];
    return EW_OK;
}

/* ---- Training ---- */

/* Hidden units begin within 1 / sqrt(d), as a Linear layer of PyTorch does; what is linear begins at 0. */
static void begin(fitting *f) {
    const ew_parameter *hidden = ew_parameters_find(&f->parameters, "hidden.weight");
    const ew_parameter *output = ew_parameters_find(&f->parameters, "output.weight");
    for (size_t i = 0; hidden && i < hidden->rows * hidden->cols; i++) {
        double at = 2.0 * ew_random_unit(f->options->seed, 1, i) - 1.0;
        f->parameters.values[hidden->at + i] = (real)(at / sqrt((double)hidden->cols));
    }
    for (size_t i = 0; hidden && i < output->cols; i++) {
        double at = 2.0 * ew_random_unit(f->options->seed, 2, i) - 1.0;
        f->parameters.values[output->at + i] = (real)(at / sqrt((double)output->cols));
    }
}

static ew_status epoch(fitting *f, size_t index, uint64_t *step, const ew_schedule *schedule, ew_error *error) {
    const ew_head_fit_options *o = f->options;
    size_t n = f->n[TRAIN], *order = ew_shuffled(n, o->seed, index);
    size_t *list = ew_allocate(o->batch, sizeof *list);
    ew_status status = order && list ? EW_OK : ew_fail_memory(error, n * sizeof *order, "an order");
    for (size_t i = 0; status == EW_OK && i < n; i += o->batch) {
        size_t count = n - i < o->batch ? n - i : o->batch;
        double loss, norm;
        for (size_t k = 0; k < count; k++) {
            list[k] = f->members[TRAIN][order[i + k]];
        }
        const ew_head_batch batch = make_batch(f, list, count, ++*step);
        status = ew_head_loss(&f->parameters, &batch, &loss, f->gradient, NULL, error);
        if (status == EW_OK) {
            status = ew_adamw_step(&f->optimizer, &f->parameters, f->gradient, ew_schedule_rate(schedule, *step), NULL,
                                   &norm, error);
        }
    }
    free(order);
    free(list);
    return status;
}

static ew_status train(fitting *f, ew_head_report *report, ew_error *error) {
    const ew_head_fit_options *o = f->options;
    uint64_t step = 0, steps = (uint64_t)((f->n[TRAIN] + o->batch - 1) / o->batch * o->n_epochs);
    const ew_schedule schedule = {
        .kind = EW_SCHEDULE_COSINE, .peak = o->rate, .n_steps = steps, .warmup = steps / 20 + 1};
    report->validation_loss = INFINITY;
    begin(f);
    for (size_t i = 0; i < o->n_epochs; i++) {
        double loss = 0.0;
        if (o->cancel && *o->cancel) {
            return ew_fail(error, EW_ERROR_CANCELLED, "cancelled after epoch %zu", i);
        }
        ew_status status = epoch(f, i, &step, &schedule, error);
        if (status == EW_OK) {
            status = part_loss(f, VALIDATION, &loss, error);
        }
        if (status != EW_OK) {
            return status;
        }
        if (loss < report->validation_loss) {
            report->validation_loss = loss;
            report->best_epoch = i + 1;
            memcpy(f->best, f->parameters.values, f->parameters.total * sizeof *f->best);
        }
    }
    memcpy(f->parameters.values, f->best, f->parameters.total * sizeof *f->best);
    return EW_OK;
}

/* ---- The head, and what it is worth ---- */

static void fill_head(fitting *f) {
    ew_head *head = f->head;
    const real *values = f->parameters.values;
    const ew_parameter *output = ew_parameters_find(&f->parameters, "output.weight");
    head->output_bias = (double)values[ew_parameters_find(&f->parameters, "output.bias")->at];
    if (head->kind == EW_HEAD_SWITCHER) {
        const ew_parameter *weight = ew_parameters_find(&f->parameters, "hidden.weight");
        const ew_parameter *bias = ew_parameters_find(&f->parameters, "hidden.bias");
        for (size_t i = 0; i < weight->rows * weight->cols; i++) {
            head->hidden_weight[i] = (float)values[weight->at + i];
        }
        for (size_t k = 0; k < head->n_hidden; k++) {
            head->hidden_bias[k] = (float)values[bias->at + k];
            head->output_weight[k] = (float)values[output->at + k];
        }
        return;
    }
    double most = 0.0;
    for (size_t c = 0; c < head->d_model; c++) {
        double size = fabs((double)values[output->at + c]); /* gcc 12 for aarch64 cannot compile fmax here */
        most = size > most ? size : most;
    }
    head->code_scale = most / 127.0;
    for (size_t c = 0; most > 0.0 && c < head->d_model; c++) {
        head->codes[c] = (int8_t)nearbyint((double)values[output->at + c] / head->code_scale);
    }
}

/* The finished head's answers to a part: logits, or probabilities. */
static ew_status judge(const fitting *f, part p, bool probabilities, ew_judged *out, ew_error *error) {
    const ew_head_samples *s = f->samples;
    for (size_t i = 0; i < f->n[p]; i++) {
        size_t at = f->members[p][i];
        double probability, logit;
        ew_status status = ew_head_score(f->head, s->x + at * s->d_model, &probability, &logit, error);
        if (status != EW_OK) {
            return status;
        }
        out[i] = (ew_judged){(size_t)s->problem[at], probabilities ? probability : logit, s->y[at] != 0};
    }
    return EW_OK;
}

static double length_auc(const fitting *f, ew_judged *scratch, ew_status *status, ew_error *error) {
    double auc = NAN;
    for (size_t i = 0; i < f->n[TEST]; i++) {
        size_t at = f->members[TEST][i];
        scratch[i] = (ew_judged){0, f->samples->length[at], f->samples->y[at] != 0};
    }
    *status = ew_auc(scratch, f->n[TEST], &auc, error);
    return auc;
}

static ew_status measure(fitting *f, ew_head_report *report, ew_judged *scratch, ew_error *error) {
    ew_status status = judge(f, VALIDATION, false, scratch, error);
    if (status != EW_OK) {
        return status;
    }
    size_t n = f->n[TEST];
    ew_calibrate(scratch, f->n[VALIDATION], &f->head->calibration_scale, &f->head->calibration_offset);
    if (f->head->calibration_scale <=
        0.0) { /* the validation part says the opposite of the training part: not believed */
        f->head->calibration_scale = 1.0;
        f->head->calibration_offset = 0.0;
    }
    report->length_auc = length_auc(f, scratch, &status, error);
    if (status == EW_OK) {
        status = judge(f, TEST, false, scratch, error);
    }
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        scratch[i].score = 1.0 / (1.0 + ew_exp64(-scratch[i].score));
    }
    report->uncalibrated_error = ew_calibration_error(scratch, status == EW_OK ? n : 0);
    if (status == EW_OK) {
        status = judge(f, TEST, true, report->test, error);
    }
    report->calibration_error = ew_calibration_error(report->test, status == EW_OK ? n : 0);
    if (status == EW_OK) {
        status = ew_auc(report->test, n, &report->auc, error);
    }
    return status == EW_OK ? ew_auc_by_problem(report->test, n, &report->within, error) : status;
}

static ew_status report_on(fitting *f, ew_head_report *report, ew_error *error) {
    ew_judged *scratch = ew_allocate(f->samples->n, sizeof *scratch);
    report->n_train = f->n[TRAIN];
    report->n_validation = f->n[VALIDATION];
    report->n_test = f->n[TEST];
    report->n_right_test = f->n_right[TEST];
    report->test = ew_allocate(f->n[TEST], sizeof *report->test);
    ew_status status = scratch && report->test ? measure(f, report, scratch, error)
                                               : ew_fail_memory(error, f->samples->n * sizeof *scratch, "scores");
    free(scratch);
    return status;
}

static ew_status allocate(fitting *f, ew_error *error) {
    size_t batch = f->options->batch, d = f->samples->d_model, n_hidden = f->head->n_hidden, bytes = 0;
    ew_status status = ew_head_parameters(f->head->kind, d, n_hidden, &f->parameters, error);
    if (status == EW_OK) {
        status = ew_adamw_open(&f->optimizer, &f->parameters, error);
    }
    if (status != EW_OK || !ew_multiply_size(batch, d * sizeof *f->z, &bytes)) {
        return status != EW_OK ? status : ew_fail_memory(error, SIZE_MAX, "a batch");
    }
    f->gradient = ew_allocate(f->parameters.total, sizeof *f->gradient);
    f->best = ew_allocate(f->parameters.total, sizeof *f->best);
    f->z = ew_allocate(batch * d, sizeof *f->z);
    f->kept = ew_allocate(batch * n_hidden, sizeof *f->kept);
    f->y = ew_allocate(batch, sizeof *f->y);
    f->weight = ew_allocate(batch, sizeof *f->weight);
    return f->gradient && f->best && f->z && f->kept && f->y && f->weight ? EW_OK
                                                                          : ew_fail_memory(error, bytes, "a batch");
}

static void release(fitting *f) {
    ew_adamw_close(&f->optimizer);
    ew_parameters_free(&f->parameters);
    for (int p = 0; p < PARTS; p++) {
        free(f->members[p]);
    }
    free(f->gradient);
    free(f->best);
    free(f->z);
    free(f->kept);
    free(f->y);
    free(f->weight);
}

static ew_status check_fit_options(const ew_head_fit_options *o, ew_error *error) {
    bool sound = o->n_epochs > 0 && o->batch > 0 && o->rate > 0.0 && o->weight_decay >= 0.0 && o->noise >= 0.0 &&
                 o->dropout >= 0.0 && o->dropout < 1.0;
    return sound ? EW_OK
                 : ew_fail(error, EW_ERROR_ARGUMENT,
                           "a head is trained with epochs, batch and rate above 0, decay and noise not below, dropout "
                           "from 0 to below 1");
}

ew_status ew_head_fit(ew_head_kind kind, const ew_head_samples *samples, const ew_head_fit_options *options,
                      ew_head *head, ew_head_report *report, ew_error *error) {
    fitting f = {.samples = samples, .options = options, .head = head, .optimizer = EW_ADAMW_INIT};
    *report = (ew_head_report){0};
    *head = (ew_head){0};
    ew_status status = check_fit_options(options, error);
    if (status == EW_OK) {
        status = ew_head_allocate(kind, samples->d_model, options->n_hidden > 0 ? options->n_hidden : 8, head, error);
    }
    f.optimizer.weight_decay = options->weight_decay;
    if (status == EW_OK) {
        status = split(&f, error);
    }
    if (status == EW_OK) {
        normalise(&f);
        status = allocate(&f, error);
    }
    if (status == EW_OK) {
        status = train(&f, report, error);
    }
    if (status == EW_OK) {
        fill_head(&f);
        status = report_on(&f, report, error);
    }
    release(&f);
    return status;
}

void ew_head_report_free(ew_head_report *report) {
    free(report->test);
    *report = (ew_head_report){0};
}
