#include "reason/source.h"

#include <time.h>

static ew_status evaluate(void *self, const ew_input *inputs, size_t n_inputs, float *logits, float *hidden,
                          ew_error *error) {
    return ew_evaluate(self, inputs, n_inputs, logits, hidden, error);
}

double ew_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double now(void *self) {
    (void)self;
    return ew_seconds();
}

ew_source ew_engine_source(ew_session *session) {
    return (ew_source){.self = session, .session = session, .evaluate = evaluate, .now = now};
}

bool ew_source_thinks(const ew_source *source) {
    const ew_chat_template *chat = &source->session->model->chat_template;
    return source->thinks || chat->family == EW_CHAT_QWEN3 ||
           (chat->think_start != EW_NO_TOKEN && chat->think_end != EW_NO_TOKEN);
}
