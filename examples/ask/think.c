/* Asks a model that can think one question: thinking and answer apart, on a budget, several streams that vote.
 *
 *     think MODEL QUESTION [STREAMS [ADAPTER]]
 *
 * It knows Edgewise by the installed header alone; build it like ask.c. */
#include <edgewise.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The thinking of the only stream goes to stderr as it comes. */
static bool show(void *context, const ew_answer_text *piece) {
    (void)context;
    FILE *where = piece->thinking ? stderr : stdout;
    return fwrite(piece->text, 1, piece->length, where) == piece->length && fflush(where) == 0;
}

static void tell(const ew_answer_result *result) {
    const ew_candidate *chosen = &result->candidates[result->chosen];
    if (result->n_candidates > 1) {
        printf("%s", chosen->answer);
    }
    printf("\n[%s, %zu tokens of thinking (%s), %zu of answer, %zu of %zu agree, ended by: %s]\n",
           result->thinks ? "thought" : "did not think", chosen->n_thinking_tokens,
           ew_thinking_end_name(chosen->thinking_end), chosen->n_answer_tokens, result->n_agreed, result->n_candidates,
           ew_stop_reason_name(chosen->stop_reason));
}

static ew_status think(const char *path, const char *question, size_t streams, const char *adapter_path,
                       ew_error *error) {
    ew_model *model = NULL;
    ew_adapter *adapter = NULL;
    ew_session *session = NULL;
    ew_answer_result result = {0};
    ew_policy policy = EW_POLICY_INIT;
    ew_answer_callbacks callbacks = EW_ANSWER_CALLBACKS_INIT;
    const ew_message message = {"user", question, strlen(question)};

    ew_status status = ew_model_open(path, NULL, &model, error);
    if (status == EW_OK && adapter_path) {
        status = ew_adapter_load(model, adapter_path, NULL, &adapter, error);
    }
    if (status == EW_OK) {
        status = ew_session_open(model, NULL, &session, error);
    }
    if (status == EW_OK) {
        policy.mode = adapter ? EW_MODE_ON : EW_MODE_AUTO; /* auto: on if the model thinks by itself */
        policy.adapter = adapter;
        policy.thinking_budget = 400;
        policy.answer_tokens = 200;
        policy.streams = streams;
        policy.sampling.temperature = streams > 1 ? 0.7f : 0.0f;
        callbacks.on_text = streams > 1 ? NULL : show;
        status = ew_answer(session, &message, 1, &policy, &callbacks, &result, error);
    }
    if (status == EW_OK) {
        tell(&result);
    }
    ew_answer_result_free(&result);
    ew_session_close(session);
    ew_adapter_unload(adapter);
    ew_model_close(model);
    return status;
}

int main(int argc, char **argv) {
    ew_error error;
    if (argc < 3 || argc > 5) {
        fprintf(stderr, "Usage: think MODEL QUESTION [STREAMS [ADAPTER]]\n");
        return 2;
    }
    size_t streams = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    if (think(argv[1], argv[2], streams, argc > 4 ? argv[4] : NULL, &error) != EW_OK) {
        fprintf(stderr, "think: %s\n", error.message);
        return 1;
    }
    return 0;
}
