/* Loss and gradient of a head. */
#include "train/head_fit.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

ew_status ew_head_parameters(ew_head_kind kind, size_t d_model, size_t n_hidden, ew_parameters *parameters,
                             ew_error *error) {
    size_t at, width = kind == EW_HEAD_SWITCHER ? n_hidden : d_model;
    ew_status status = EW_OK;
    *parameters = (ew_parameters){0};
    if (kind == EW_HEAD_SWITCHER) {
        status = ew_parameters_add(parameters, "hidden.weight", n_hidden, d_model, true, &at, error);
        if (status == EW_OK) {
            status = ew_parameters_add(parameters, "hidden.bias", 1, n_hidden, false, &at, error);
        }
    }
    if (status == EW_OK) {
        status = ew_parameters_add(parameters, "output.weight", 1, width, true, &at, error);
    }
    if (status == EW_OK) {
        status = ew_parameters_add(parameters, "output.bias", 1, 1, false, &at, error);
    }
    return status == EW_OK ? ew_parameters_allocate(parameters, error) : status;
}

typedef struct head_view {
    size_t n_hidden;                                               /* 0: linear */
    size_t hidden_weight, hidden_bias, output_weight, output_bias; /* in the vector */
} head_view;

static head_view view_of(const ew_parameters *parameters) {
    const ew_parameter *hidden = ew_parameters_find(parameters, "hidden.weight");
    head_view view = {.output_weight = ew_parameters_find(parameters, "output.weight")->at,
                      .output_bias = ew_parameters_find(parameters, "output.bias")->at};
    if (hidden) {
        view.n_hidden = hidden->rows;
        view.hidden_weight = hidden->at;
        view.hidden_bias = ew_parameters_find(parameters, "hidden.bias")->at;
    }
    return view;
}

static double dot(const real *a, const float *z, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)z[i];
    }
    return sum;
}

/* The logit of sample i; hidden[n_hidden]: units after ReLU and dropout. */
static double forward(const head_view *view, const real *p, const ew_head_batch *batch, size_t i, double *hidden) {
    const float *z = batch->z + i * batch->d_model;
    double logit = (double)p[view->output_bias];
    if (view->n_hidden == 0) {
        return logit + dot(p + view->output_weight, z, batch->d_model);
    }
    for (size_t k = 0; k < view->n_hidden; k++) {
        double unit =
            (double)p[view->hidden_bias + k] + dot(p + view->hidden_weight + k * batch->d_model, z, batch->d_model);
        unit = unit > 0.0 ? unit : 0.0;
        hidden[k] = batch->kept ? unit * (double)batch->kept[i * view->n_hidden + k] : unit;
        logit += (double)p[view->output_weight + k] * hidden[k];
    }
    return logit;
}

/* Adds what sample i gives to the gradient; `slope` is the loss's derivative by its logit. */
static void backward(const head_view *view, const real *p, const ew_head_batch *batch, size_t i, const double *hidden,
                     double slope, double *gradient) {
    const float *z = batch->z + i * batch->d_model;
    gradient[view->output_bias] += slope;
    if (view->n_hidden == 0) {
        for (size_t c = 0; c < batch->d_model; c++) {
            gradient[view->output_weight + c] += slope * (double)z[c];
        }
        return;
    }
    for (size_t k = 0; k < view->n_hidden; k++) {
        gradient[view->output_weight + k] += slope * hidden[k];
        if (hidden[k] > 0.0) {
            double kept = batch->kept ? (double)batch->kept[i * view->n_hidden + k] : 1.0;
            double unit = slope * (double)p[view->output_weight + k] * kept;
            double *row = gradient + view->hidden_weight + k * batch->d_model;
            gradient[view->hidden_bias + k] += unit;
            for (size_t c = 0; c < batch->d_model; c++) {
                row[c] += unit * (double)z[c];
            }
        }
    }
}

ew_status ew_head_loss(const ew_parameters *parameters, const ew_head_batch *batch, double *loss, real *gradient,
                       double *logits, ew_error *error) {
    const head_view view = view_of(parameters);
    double *hidden = ew_allocate(view.n_hidden, sizeof *hidden);
    double *sums = ew_allocate(gradient ? parameters->total : 0, sizeof *sums);
    if (!hidden || !sums) {
        free(hidden);
        free(sums);
        return ew_fail_memory(error, parameters->total * sizeof *sums, "a gradient");
    }
    double total = 0.0;
    for (size_t i = 0; i < batch->n; i++) {
        double z = forward(&view, parameters->values, batch, i, hidden), y = batch->y[i] ? 1.0 : 0.0;
        total += batch->weight[i] * (fmax(z, 0.0) - z * y + log1p(exp(-fabs(z))));
        if (logits) {
            logits[i] = z;
        }
        if (gradient) {
            double slope = (1.0 / (1.0 + exp(-z)) - y) * batch->weight[i] / batch->divisor;
            backward(&view, parameters->values, batch, i, hidden, slope, sums);
        }
    }
    *loss = total / batch->divisor;
    for (size_t i = 0; gradient && i < parameters->total; i++) {
        gradient[i] = (real)sums[i];
    }
    free(hidden);
    free(sums);
    return EW_OK;
}
