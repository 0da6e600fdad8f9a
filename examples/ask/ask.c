/* The smallest program on libedgewise: asks a model one question and prints the answer as it comes.
 *
 *     ask MODEL QUESTION
 *
 * Build it with examples/ask/CMakeLists.txt, or by hand:
 *     cc ask.c -o ask $(pkg-config --cflags --libs edgewise) */
#include <edgewise.h>

#include <stdio.h>
#include <string.h>

static bool print_text(void *context, const char *text, size_t length) {
    (void)context;
    return fwrite(text, 1, length, stdout) == length && fflush(stdout) == 0;
}

static ew_status ask(const char *path, const char *question, ew_error *error) {
    ew_model *model = NULL;
    ew_session *session = NULL;
    ew_stream *stream = NULL;
    ew_reply reply = {0};
    ew_reply_options options = EW_REPLY_OPTIONS_INIT;
    const ew_message message = {"user", question, strlen(question)};

    ew_status status = ew_model_open(path, NULL, &model, error);
    if (status == EW_OK) {
        status = ew_session_open(model, NULL, &session, error);
    }
    if (status == EW_OK) {
        status = ew_stream_open(session, &stream, error);
    }
    if (status == EW_OK) {
        ew_model_sampling(model, &options.sampling);
        options.max_tokens = 200;
        options.on_text = print_text;
        status = ew_reply_to(stream, &message, 1, &options, &reply, error);
    }
    if (status == EW_OK) {
        printf("\n[%zu tokens, %.1f a second, ended by: %s]\n", reply.n_tokens,
               (double)reply.n_tokens / reply.reply_seconds, ew_stop_reason_name(reply.stop_reason));
    }
    ew_reply_free(&reply);
    ew_session_close(session); /* and its streams */
    ew_model_close(model);
    return status;
}

int main(int argc, char **argv) {
    ew_error error;
    if (argc != 3) {
        fprintf(stderr, "Usage: ask MODEL QUESTION\n");
        return 2;
    }
    if (ask(argv[1], argv[2], &error) != EW_OK) {
        fprintf(stderr, "ask: %s\n", error.message);
        return 1;
    }
    return 0;
}
