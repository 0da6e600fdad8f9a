#include "model/forward.h"

#include <math.h>

/* One pass: what every step of it reads. */
typedef struct pass {
    ew_session *session;
    const ew_config *config;
    const ew_kernels *kernels;
    ew_workspace *work;
    const ew_row *rows;
    size_t n_rows;
    size_t n_spans;
} pass;

/* ---- Loops over rows ---- */

/* A loop over rows is worth waking threads for from a few rows on. */
static void for_rows(const pass *p, ew_task task, void *context) {
    enum { SERIAL_ROWS = 2, CHUNKS_PER_THREAD = 4 };
    size_t chunk = p->n_rows / (ew_pool_size(p->session->pool) * CHUNKS_PER_THREAD);
    if (p->n_rows <= SERIAL_ROWS) {
        chunk = p->n_rows;
    }
    ew_pool_run(p->session->pool, p->n_rows, chunk, task, context);
}

/* ---- Linear layers ---- */

/* Several matrices with the same inputs, run as one loop over the tiles of all of them. */
typedef struct linear {
    const pass *pass;
    const ew_matrix *matrices[3];
    float *outputs[3];
    size_t strides[3];
    size_t n_tiles[3];
    size_t n_matrices;
    const ew_activations *inputs; /* quantized model */
    const float *float_inputs;    /* unquantized reference: [n_rows][float_stride] */
    size_t float_stride;
    size_t n_rows;
} linear;

static void linear_add(linear *l, const ew_matrix *matrix, float *output, size_t stride) {
    l->matrices[l->n_matrices] = matrix;
    l->outputs[l->n_matrices] = output;
    l->strides[l->n_matrices] = stride;
    l->n_tiles[l->n_matrices++] = (matrix->rows + EW_TILE_ROWS - 1) / EW_TILE_ROWS;
}

static void linear_task(void *context, size_t begin, size_t end) {
    const linear *l = context;
    size_t first = 0;
    for (size_t i = 0; i < l->n_matrices; first += l->n_tiles[i++]) {
        size_t from = begin > first ? begin - first : 0;
        size_t to = end > first ? end - first : 0;
        to = to < l->n_tiles[i] ? to : l->n_tiles[i];
        if (from >= to) {
            continue;
        }
        if (l->inputs) {
            l->pass->kernels->matmul(l->matrices[i], from, to, l->inputs, l->outputs[i], l->strides[i]);
        } else {
            l->pass->kernels->matmul_float(l->matrices[i], from, to, l->float_inputs, l->float_stride, l->n_rows,
                                           l->outputs[i], l->strides[i]);
        }
    }
}

static void linear_run(const linear *l) {
    enum { CHUNKS_PER_THREAD = 6 };
    size_t n_tiles = l->n_tiles[0] + l->n_tiles[1] + l->n_tiles[2];
    size_t n_threads = ew_pool_size(l->pass->session->pool);
    ew_pool_run(l->pass->session->pool, n_tiles, n_tiles / (n_threads * CHUNKS_PER_THREAD), linear_task, (void *)l);
}

/* Inputs of n_rows rows: quantized ones if the model is quantized, else floats x[n_rows][width]. */
static linear linear_over(const pass *p, ew_activations *quantized, const float *x, size_t width, size_t n_rows) {
    linear l = {.pass = p, .float_inputs = x, .float_stride = width, .n_rows = n_rows};
    if (p->session->model->weights.quantized) {
        quantized->n_tokens = n_rows;
        l.inputs = quantized;
    }
    return l;
}

/* Row `row` of x becomes inputs of a linear layer (the reference reads x itself). */
static void quantize_row(const pass *p, const float *x, size_t row, ew_activations *inputs) {
    if (p->session->model->weights.quantized) {
        p->kernels->quantize(x, row, inputs);
    }
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
        quantize_row(p, normed, row, &p->work->inputs);
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

/* Whether the two read some of the same cells. */
static bool share_cells(const ew_row *a, const ew_row *b) {
    return a->stream->cells.pages[0] == b->stream->cells.pages[0];
}

/* Rows that read the same cells are attended together: the rows of a span are consecutive rows of one stream or of
 * streams with a common prefix, each times the query heads of a KV head. As many as one call takes, but no fewer spans than
 * keep all threads busy. */
static size_t find_spans(const pass *p) {
    enum { ITEMS_PER_THREAD = 2 };
    size_t group = p->config->n_heads / p->config->n_kv_heads;
    size_t most = group < EW_ATTENTION_ROWS ? EW_ATTENTION_ROWS / group : 1;
    size_t fair = p->n_rows * p->config->n_kv_heads / (ITEMS_PER_THREAD * ew_pool_size(p->session->pool));
    most = fair < most ? (fair > 0 ? fair : 1) : most;
    size_t n_spans = 0;
    for (size_t row = 0; row < p->n_rows; row++) {
        size_t first = n_spans > 0 ? p->work->spans[n_spans - 1] : 0;
        if (n_spans == 0 || row - first == most || !share_cells(&p->rows[row], &p->rows[first])) {
            p->work->spans[n_spans++] = row;
        }
    }
    p->work->spans[n_spans] = p->n_rows;
    return n_spans;
}

/* Query heads first_head .. first_head + n_heads - 1 of rows begin .. end - 1. */
static void attend_rows(const step *s, size_t kv_head, size_t first_head, size_t n_heads, size_t begin, size_t end) {
    const pass *p = s->pass;
    size_t head_dim = p->config->head_dim, width = p->config->n_heads * head_dim;
    const float *queries[EW_ATTENTION_ROWS];
    float *outputs[EW_ATTENTION_ROWS];
    const uint8_t *const *pages[EW_ATTENTION_ROWS];
    uint32_t n_positions[EW_ATTENTION_ROWS];
    size_t n = 0;
    for (size_t row = begin; row < end; row++) {
        for (size_t head = first_head; head < first_head + n_heads; head++, n++) {
            queries[n] = p->work->q + row * width + head * head_dim;
            outputs[n] = p->work->attended + row * width + head * head_dim;
            pages[n] = (const uint8_t *const *)p->rows[row].stream->cells.pages;
            n_positions[n] = p->rows[row].position + 1;
        }
    }
    const ew_attention attention = {
        .layout = &p->session->pages.layout,
        .pages = pages,
        .page_offset = ew_page_offset(&p->session->pages, s->layer_index, kv_head),
        .n_rows = n,
        .queries = queries,
        .n_positions = n_positions,
        .softmax_scale = 1.0f / sqrtf((float)head_dim),
        .outputs = outputs,
    };
    if (p->session->model->weights.quantized) {
        p->kernels->attend(&attention);
    } else {
        p->kernels->attend_float(&attention);
    }
}

/* Items are (KV head, span): spans that follow each other read the same head, of which streams with a common prefix
 * share pages, so that these come from memory once. */
static void attend_task(void *context, size_t begin, size_t end) {
    const step *s = context;
    const pass *p = s->pass;
    size_t group = p->config->n_heads / p->config->n_kv_heads;
    for (size_t item = begin; item < end; item++) {
        size_t kv_head = item / p->n_spans, span = item % p->n_spans;
        size_t first = p->work->spans[span], last = p->work->spans[span + 1];
        for (size_t done = 0; done < group; done += EW_ATTENTION_ROWS) {
            size_t n_heads = group - done < EW_ATTENTION_ROWS ? group - done : EW_ATTENTION_ROWS;
            attend_rows(s, kv_head, kv_head * group + done, n_heads, first, last);
        }
    }
}

static void attended_input_task(void *context, size_t begin, size_t end) {
    const pass *p = ((const step *)context)->pass;
    size_t width = p->config->n_heads * p->config->head_dim;
    for (size_t row = begin; row < end; row++) {
        quantize_row(p, p->work->attended + row * width, row, &p->work->attended_inputs);
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
        quantize_row(p, normed, row, &p->work->inputs);
    }
}

static void swiglu_task(void *context, size_t begin, size_t end) {
    const pass *p = ((const step *)context)->pass;
    size_t d_ff = p->config->d_ff;
    for (size_t row = begin; row < end; row++) {
        float *gate = p->work->gate + row * d_ff;
        p->kernels->swiglu(gate, p->work->up + row * d_ff, d_ff, gate);
        quantize_row(p, gate, row, &p->work->hidden_inputs);
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

static void run_attention(const pass *p, step *s) {
    ew_workspace *work = p->work;
    const ew_config *config = p->config;
    size_t q_width = config->n_heads * config->head_dim, kv_width = config->n_kv_heads * config->head_dim;

    for_rows(p, attention_input_task, s);
    linear qkv = linear_over(p, &work->inputs, work->normed, config->d_model, p->n_rows);
    linear_add(&qkv, &s->layer->q, work->q, q_width);
    linear_add(&qkv, &s->layer->k, work->k, kv_width);
    linear_add(&qkv, &s->layer->v, work->v, kv_width);
    linear_run(&qkv);
    for_rows(p, store_task, s);

    ew_pool_run(p->session->pool, p->n_spans * config->n_kv_heads, 1, attend_task, s);
    for_rows(p, attended_input_task, s);
    linear output = linear_over(p, &work->attended_inputs, work->attended, q_width, p->n_rows);
    linear_add(&output, &s->layer->o, work->projected, config->d_model);
    linear_run(&output);
}

static void run_mlp(const pass *p, step *s) {
    ew_workspace *work = p->work;
    const ew_config *config = p->config;

    for_rows(p, mlp_input_task, s);
    linear gate_up = linear_over(p, &work->inputs, work->normed, config->d_model, p->n_rows);
    linear_add(&gate_up, &s->layer->gate, work->gate, config->d_ff);
    linear_add(&gate_up, &s->layer->up, work->up, config->d_ff);
    linear_run(&gate_up);
    for_rows(p, swiglu_task, s);
    linear down = linear_over(p, &work->hidden_inputs, work->gate, config->d_ff, p->n_rows);
    linear_add(&down, &s->layer->down, work->projected, config->d_model);
    linear_run(&down);
    for_rows(p, mlp_output_task, s);
}

/* ---- The end of the model ---- */

typedef struct finite_check {
    const float *values;
    atomic_bool failed;
} finite_check;

static void finite_task(void *context, size_t begin, size_t end) {
    finite_check *check = context;
    bool failed = false;
    for (size_t i = begin; i < end; i++) {
        failed |= !(fabsf(check->values[i]) <= 3.40282347e38f);
    }
    if (failed) {
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
            quantize_row(p, normed, n++, &p->work->inputs);
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
        linear head = linear_over(p, &p->work->inputs, p->work->normed, d_model, n);
        linear_add(&head, &p->session->model->weights.head, logits, vocab_size);
        linear_run(&head);
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
    p.n_spans = find_spans(&p);
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
