#include "model/forward.h"
#include "model/attention.h"
#include "model/linear.h"

#include <string.h>

/* One pass: what every step of it reads. */
typedef struct pass {
    ew_session *session;
    const ew_config *config;
    const ew_kernels *kernels;
    ew_workspace *work;
    const ew_row *rows;
    size_t n_rows;
    size_t n_groups; /* of rows with adapters */
} pass;

static void for_rows(const pass *p, ew_task task, void *context) {
    ew_for_batch_rows(p->session->pool, p->n_rows, task, context);
}

/* Row `row` of x becomes inputs of linear layers. */
static void make_inputs(const pass *p, const float *x, size_t row, ew_activations *inputs) {
    ew_linear_inputs(p->session, x, row, p->rows[row].adapter, inputs);
}

static void add_bias(const pass *p, float *x, const float *bias, size_t n) {
    if (bias) {
        p->kernels->add(x, bias, n);
    }
}

/* ---- The steps ---- */

typedef struct step {
    const pass *pass;
    const ew_layer *layer;
    size_t layer_index;
} step;

static void embed_task(void *context, size_t begin, size_t end) {
    const pass *p = ((const step *)context)->pass;
    const ew_model *model = p->session->model;
    size_t half = p->config->head_dim / 2;
    for (size_t row = begin; row < end; row++) {
        ew_embed(&model->weights.embedding, (size_t)p->rows[row].token, p->work->residual + row * p->config->d_model);
        ew_rope_at(&model->rope, p->rows[row].position, p->work->cosine + row * half, p->work->sine + row * half);
    }
}

static void attention_input_task(void *context, size_t begin, size_t end) {
    const step *s = context;
    const pass *p = s->pass;
    size_t d_model = p->config->d_model;
    for (size_t row = begin; row < end; row++) {
        float *normed = p->work->normed + row * d_model;
        p->kernels->rms_norm(p->work->residual + row * d_model, s->layer->attn_norm, d_model, p->config->rms_norm_eps,
                             normed);
        make_inputs(p, normed, row, &p->work->inputs);
    }
}

/* Bias, norm (Qwen3) and rotation of one row's heads. */
static void finish_heads(const pass *p, size_t row, float *heads, size_t n_heads, const float *bias,
                         const float *norm) {
    size_t head_dim = p->config->head_dim, half = head_dim / 2;
    add_bias(p, heads, bias, n_heads * head_dim);
    for (size_t head = 0; head < n_heads; head++) {
        float *x = heads + head * head_dim;
        if (norm) {
            p->kernels->rms_norm(x, norm, head_dim, p->config->rms_norm_eps, x);
        }
        p->kernels->rope(x, p->work->cosine + row * half, p->work->sine + row * half, head_dim);
    }
}

static void store_task(void *context, size_t begin, size_t end) {
    const step *s = context;
    const pass *p = s->pass;
    const ew_config *config = p->config;
    size_t head_dim = config->head_dim, kv_width = config->n_kv_heads * head_dim;
    for (size_t row = begin; row < end; row++) {
        float *k = p->work->k + row * kv_width, *v = p->work->v + row * kv_width;
        finish_heads(p, row, p->work->q + row * config->n_heads * head_dim, config->n_heads, s->layer->q_bias,
                     s->layer->q_norm);
        finish_heads(p, row, k, config->n_kv_heads, s->layer->k_bias, s->layer->k_norm);
        add_bias(p, v, s->layer->v_bias, kv_width);
        size_t position = p->rows[row].position;
        uint8_t *page = p->rows[row].stream->cells.pages[position / EW_PAGE_POSITIONS];
        for (size_t head = 0; head < config->n_kv_heads; head++) {
            p->kernels->store_kv(&p->session->pages.layout,
                                 page + ew_page_offset(&p->session->pages, s->layer_index, head),
                                 position % EW_PAGE_POSITIONS, k + head * head_dim, v + head * head_dim);
        }
    }
}

static void attended_input_task(void *context, size_t begin, size_t end) {
    const pass *p = ((const step *)context)->pass;
    size_t width = p->config->n_heads * p->config->head_dim;
    for (size_t row = begin; row < end; row++) {
        make_inputs(p, p->work->attended + row * width, row, &p->work->attended_inputs);
    }
}

/* The attention's output joins the residual stream, whose norm feeds the MLP. */
static void mlp_input_task(void *context, size_t begin, size_t end) {
    const step *s = context;
    const pass *p = s->pass;
    size_t d_model = p->config->d_model;
    for (size_t row = begin; row < end; row++) {
        float *residual = p->work->residual + row * d_model, *normed = p->work->normed + row * d_model;
        float *projected = p->work->projected + row * d_model;
        add_bias(p, projected, s->layer->o_bias, d_model);
        p->kernels->add(residual, projected, d_model);
        p->kernels->rms_norm(residual, s->layer->ffn_norm, d_model, p->config->rms_norm_eps, normed);
        make_inputs(p, normed, row, &p->work->inputs);
    }
}

static void swiglu_task(void *context, size_t begin, size_t end) {
    const pass *p = ((const step *)context)->pass;
    size_t d_ff = p->config->d_ff;
    for (size_t row = begin; row < end; row++) {
        float *gate = p->work->gate + row * d_ff;
        p->kernels->swiglu(gate, p->work->up + row * d_ff, d_ff, gate);
        make_inputs(p, gate, row, &p->work->hidden_inputs);
    }
}

static void mlp_output_task(void *context, size_t begin, size_t end) {
    const pass *p = ((const step *)context)->pass;
    size_t d_model = p->config->d_model;
    for (size_t row = begin; row < end; row++) {
        p->kernels->add(p->work->residual + row * d_model, p->work->projected + row * d_model, d_model);
    }
}

/* ---- A layer ---- */

/* Linear layers over inputs x[n_rows][width], quantized ones if the model is quantized. */
static ew_linear_run linear_over(const step *s, ew_activations *quantized, const float *x, size_t width) {
    const pass *p = s->pass;
    return (ew_linear_run){.session = p->session,
                           .n_rows = p->n_rows,
                           .n_groups = p->n_groups,
                           .inputs = p->session->model->weights.quantized ? quantized : NULL,
                           .float_inputs = x,
                           .width = width,
                           .layer = s->layer_index};
}

static void run_attention(const pass *p, step *s) {
    ew_workspace *work = p->work;
    const ew_config *config = p->config;
    size_t q_width = config->n_heads * config->head_dim, kv_width = config->n_kv_heads * config->head_dim;

    for_rows(p, attention_input_task, s);
    ew_linear_run qkv = linear_over(s, &work->inputs, work->normed, config->d_model);
    ew_linear_add(&qkv, &s->layer->q, EW_LINEAR_Q, work->q, q_width);
    ew_linear_add(&qkv, &s->layer->k, EW_LINEAR_K, work->k, kv_width);
    ew_linear_add(&qkv, &s->layer->v, EW_LINEAR_V, work->v, kv_width);
    ew_linear_compute(&qkv);
    for_rows(p, store_task, s);

    ew_attention_run(p->session, p->rows, s->layer_index);
    for_rows(p, attended_input_task, s);
    ew_linear_run output = linear_over(s, &work->attended_inputs, work->attended, q_width);
    ew_linear_add(&output, &s->layer->o, EW_LINEAR_O, work->projected, config->d_model);
    ew_linear_compute(&output);
}

static void run_mlp(const pass *p, step *s) {
    ew_workspace *work = p->work;
    const ew_config *config = p->config;

    for_rows(p, mlp_input_task, s);
    ew_linear_run gate_up = linear_over(s, &work->inputs, work->normed, config->d_model);
    ew_linear_add(&gate_up, &s->layer->gate, EW_LINEAR_GATE, work->gate, config->d_ff);
    ew_linear_add(&gate_up, &s->layer->up, EW_LINEAR_UP, work->up, config->d_ff);
    ew_linear_compute(&gate_up);
    for_rows(p, swiglu_task, s);
    ew_linear_run down = linear_over(s, &work->hidden_inputs, work->gate, config->d_ff);
    ew_linear_add(&down, &s->layer->down, EW_LINEAR_DOWN, work->projected, config->d_model);
    ew_linear_compute(&down);
    for_rows(p, mlp_output_task, s);
}

/* ---- The end of the model ---- */

typedef struct finite_check {
    const float *values;
    atomic_bool failed;
} finite_check;

/* Infinities and NaNs have all bits of the exponent: one more carries into the highest bit. In integers, which vectors
 * of any processor can do. */
static void finite_task(void *context, size_t begin, size_t end) {
    const uint32_t EXPONENT = 0x7f800000, LOWEST = 0x00800000;
    finite_check *check = context;
    uint32_t carries = 0;
    for (size_t i = begin; i < end; i++) {
        uint32_t bits;
        memcpy(&bits, &check->values[i], sizeof bits);
        carries |= (bits & EXPONENT) + LOWEST;
    }
    if (carries >> 31) {
        atomic_store(&check->failed, true);
    }
}

static bool all_finite(const pass *p, const float *values, size_t n) {
    enum { CHUNK = 16384 };
    finite_check check = {.values = values};
    ew_pool_run(p->session->pool, n, CHUNK, finite_task, &check);
    return !atomic_load(&check.failed);
}

static void final_norm(const pass *p, size_t row, float *y) {
    p->kernels->rms_norm(p->work->residual + row * p->config->d_model, p->session->model->weights.output_norm,
                         p->config->d_model, p->config->rms_norm_eps, y);
}

/* Norms the rows that want logits into the first rows of `normed` and returns how many. */
static size_t gather_head_inputs(const pass *p) {
    size_t n = 0;
    for (size_t row = 0; row < p->n_rows; row++) {
        if (p->rows[row].wants_logits) {
            float *normed = p->work->normed + n * p->config->d_model;
            final_norm(p, row, normed);
            ew_linear_inputs(p->session, normed, n++, NULL, &p->work->inputs);
        }
    }
    return n;
}

static ew_status run_head(const pass *p, float *logits, float *hidden, ew_error *error) {
    size_t d_model = p->config->d_model, vocab_size = p->config->vocab_size;
    for (size_t row = 0; hidden && row < p->n_rows; row++) {
        final_norm(p, row, hidden + row * d_model);
    }
    size_t n = logits ? gather_head_inputs(p) : 0;
    if (n > 0) {
        ew_linear_run head = linear_over(&(step){.pass = p}, &p->work->inputs, p->work->normed, d_model);
        head.n_rows = n;
        head.n_groups = 0; /* adapters leave the head alone */
        ew_linear_add(&head, &p->session->model->weights.head, EW_LINEARS, logits, vocab_size);
        ew_linear_compute(&head);
    }
    if ((n > 0 && !all_finite(p, logits, n * vocab_size)) || (hidden && !all_finite(p, hidden, p->n_rows * d_model))) {
        return ew_fail(error, EW_ERROR_NUMERIC,
                       "the model's output is not a number: its weights or activations overflow; "
                       "`edgewise inspect --check` looks for bad weights");
    }
    return EW_OK;
}

ew_status ew_forward(ew_session *session, const ew_row *rows, size_t n_rows, float *logits, float *hidden,
                     ew_error *error) {
    const ew_model *model = session->model;
    pass p = {.session = session,
              .config = &model->config,
              .kernels = session->kernels,
              .work = &session->workspace,
              .rows = rows,
              .n_rows = n_rows};
    step s = {.pass = &p};
    ew_status status = ew_attention_plan(session, rows, n_rows, error);
    if (status != EW_OK) {
        return status;
    }
    p.n_groups = ew_find_adapter_groups(session, rows, n_rows);
    for_rows(&p, embed_task, &s);
    for (size_t i = 0; i < model->config.n_layers; i++) {
        s.layer = &model->weights.layers[i];
        s.layer_index = i;
        run_attention(&p, &s);
        run_mlp(&p, &s);
    }
    session->n_evaluated += n_rows;
    return run_head(&p, logits, hidden, error);
}
