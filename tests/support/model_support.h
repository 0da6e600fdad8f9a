/* Golden models quantized for a test, cells looked at, values compared. */
#ifndef EW_TEST_MODEL_SUPPORT_H
#define EW_TEST_MODEL_SUPPORT_H

#include "running.h"

#include "model/model.h"
#include "quant/quantize.h"

#include <unistd.h>

/* A golden model, quantized. Skips the test where the goldens are not there. */
static inline ew_model *open_quantized(const char *name, const ew_quantize_options *options) {
    char relative[128], input[1024], output[] = "/tmp/ew-model-XXXXXX";
    snprintf(relative, sizeof relative, "goldens/models/%s", name);
    if (!ew_test_shared(relative, input, sizeof input)) {
        skip();
    }
    close(mkstemp(output));
    EW_ASSERT_OK(ew_quantize(input, output, options, NULL, error));
    ew_model *model = open_test_model(output, EW_WEIGHTS_AUTO, EW_KV_AUTO);
    unlink(output);
    return model;
}

/* Some token; another one in every stream. */
static inline int32_t token_at(size_t stream, size_t position, size_t vocab) {
    return (int32_t)((position * 31 + position * position * 7 + stream * 101 + 5) % vocab);
}

static inline void check_near(const float *got, const float *wanted, size_t n, double absolute, double relative,
                              const char *what) {
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - (double)wanted[i]);
        if (!(error <= absolute + relative * fabs((double)wanted[i]))) {
            fail_msg("%s: value %zu is %.8g, the golden %.8g", what, i, (double)got[i], (double)wanted[i]);
        }
    }
}

/* One cell of the float cache. */
static inline const float *float_cell(const ew_stream *stream, size_t layer, size_t head, size_t position,
                                      bool is_key) {
    const ew_page_pool *pages = &stream->session->pages;
    const uint8_t *page = stream->cells.pages[position / EW_PAGE_POSITIONS] + ew_page_offset(pages, layer, head);
    const float *cells = (const float *)(const void *)(page + (is_key ? 0 : pages->layout.v_codes_at));
    return cells + (position % EW_PAGE_POSITIONS) * pages->layout.head_dim;
}

#endif
