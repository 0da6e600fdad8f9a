/* What running costs: peak memory at most weights + KV + 64 MB, and opening in milliseconds. */
#include "running.h"

#include "quant/quantize.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char source_path[1024], file_path[] = "/tmp/ew-footprint-XXXXXX";

static size_t peak_bytes(void) {
    char line[256];
    size_t kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "VmHWM: %zu kB", &kilobytes);
    }
    if (status) {
        fclose(status);
    }
    return kilobytes * 1024;
}

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* In a process of its own: its memory must not count as ours. */
static void quantize_in_child(void) {
    close(mkstemp(file_path));
    pid_t child = fork();
    if (child == 0) {
        ew_quantize_options options = ew_quantize_default_options();
        _exit(ew_quantize(source_path, file_path, &options, NULL, NULL) == EW_OK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_reply_stays_within_its_memory(void **state) {
    (void)state;
    quantize_in_child();
    double start = milliseconds();
    ew_model *model = open_test_model(file_path, EW_WEIGHTS_AUTO, EW_KV_AUTO);
    double opened = milliseconds() - start;
    ew_session *session = open_test_session(model, 2, 0);
    ew_stream *stream = NULL;
    EW_ASSERT_OK(ew_stream_open(session, &stream, error));
    static const char question[] = "Write a long story about a lighthouse and the sea.";
    char prompt[6 * sizeof question] = "";
    for (int i = 0; i < 5; i++) {
        strcat(prompt, question);
    }
    const ew_message message = {"user", prompt, strlen(prompt)};
    ew_reply_options options = EW_REPLY_OPTIONS_INIT;
    options.max_tokens = 150;
    ew_reply reply;
    EW_ASSERT_OK(ew_reply_to(stream, &message, 1, &options, &reply, error));
    ew_model_info info = {.size = sizeof info};
    ew_session_info session_info = {.size = sizeof session_info};
    ew_model_describe(model, &info);
    ew_session_describe(session, &session_info);
    size_t allowed = info.weight_bytes + session_info.kv_bytes + ((size_t)64 << 20);
    printf("  opened in %.2f ms; peak %.1f MB: weights %.1f, KV %.1f, the rest %.1f\n", opened,
           (double)peak_bytes() * 1e-6, (double)info.weight_bytes * 1e-6, (double)session_info.kv_bytes * 1e-6,
           ((double)peak_bytes() - (double)info.weight_bytes - (double)session_info.kv_bytes) * 1e-6);
    assert_true(peak_bytes() <= allowed);
    ew_reply_free(&reply);
    ew_session_close(session);
    ew_model_close(model);
    unlink(file_path);
}

int main(void) {
    if (!ew_test_smollm2(source_path, sizeof source_path)) {
        return EW_TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_reply_stays_within_its_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
