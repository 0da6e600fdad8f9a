/* edgewise run: one prompt, one answer, streamed to stdout. */
#include "cli/bundle_arguments.h"
#include "cli/answer_output.h"
#include "cli/cli.h"
#include "cli/engine.h"
#include "cli/input.h"
#include "cli/json_output.h"
#include "cli/reply_arguments.h"

#include <stdio.h>
#include <string.h>

typedef struct request {
    ew_engine engine;
    ew_reply_arguments reply;
    ew_policy_arguments policy;
    bool show_prompt, json;
} request;

/* The prompt as text, up to the first token that is drawn or decided. */
static ew_status show_prompt(const request *asked, const ew_message *messages, size_t n_messages, char **prompt,
                             ew_error *error) {
    bool thinking = !asked->policy.no_thinking && asked->policy.think != EW_MODE_OFF;
    ew_status status = ew_render(asked->engine.model, messages, n_messages, thinking, prompt, NULL, NULL, error);
    if (status == EW_OK && !asked->json) {
        ew_cli_print(*prompt, strlen(*prompt));
    }
    return status;
}

static ew_status answer(request *asked, const ew_message *messages, size_t n_messages, ew_answer_result *result,
                        ew_error *error) {
    ew_policy policy;
    ew_answer_output output;
    char *prompt = NULL;
    ew_status status = ew_policy_make(&asked->policy, &asked->reply, &asked->engine, &policy, error);
    policy.log_probabilities = asked->json;
    if (status == EW_OK && asked->show_prompt) {
        status = show_prompt(asked, messages, n_messages, &prompt, error);
    }
    if (status != EW_OK) {
        return status;
    }
    ew_answer_output_begin(&output, &asked->policy, &policy, asked->json);
    status = ew_answer(asked->engine.session, messages, n_messages, &policy, &output.callbacks, result, error);
    ew_answer_output_end(&output, result);
    if (status == EW_OK && asked->json) {
        status = ew_json_print(ew_answer_json(&output, prompt, result), error);
    }
    if (status == EW_OK && !ferror(stdout)) {
        ew_mode_notice(asked->policy.think_given || asked->engine.adapter, result);
        ew_answer_notices(result);
        ew_answer_line(&output, result);
    }
    ew_free(prompt);
    return status;
}

static int run(request *asked, const char *model, const ew_buffer *prompt) {
    ew_error error = {0};
    ew_answer_result result = {0};
    ew_message messages[2];
    size_t n = 0;
    if (asked->reply.system) {
        messages[n++] = (ew_message){"system", asked->reply.system, strlen(asked->reply.system)};
    }
    messages[n++] = (ew_message){"user", prompt->data ? prompt->data : "", prompt->length};
    ew_status status = ew_engine_open(&asked->engine, model, true, &error);
    if (status == EW_OK) {
        status = answer(asked, messages, n, &result, &error);
    }
    int exit_code = status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
    if (status == EW_OK && !ferror(stdout) &&
        result.candidates[result.chosen].stop_reason == EW_STOP_CANCELLED) {
        exit_code = EW_EXIT_INTERRUPTED;
    }
    ew_answer_result_free(&result);
    ew_policy_arguments_close(&asked->policy);
    ew_engine_close(&asked->engine);
    return exit_code;
}

/* The argument itself, or standard input without its last line end, which is the pipe's and not the prompt's.
 */
static ew_status read_prompt(const char *argument, ew_buffer *prompt, ew_error *error) {
    if (strcmp(argument, "-") != 0) {
        ew_buffer_append_text(prompt, argument);
        return prompt->failed ? ew_fail_memory(error, strlen(argument), "the prompt") : EW_OK;
    }
    ew_status status = ew_read_stdin(prompt, error);
    if (status == EW_OK && prompt->length > 0 && prompt->data[prompt->length - 1] == '\n') {
        prompt->data[--prompt->length] = '\0';
    }
    return status;
}

static const char examples[] =
    "  edgewise run model.gguf \"What is the capital of France?\"\n"
    "  edgewise run model.gguf --temperature 0.7 --seed 3 --max-tokens 100 \"Tell me a story.\"\n"
    "  edgewise run model.gguf --adapter thinker.gguf --think on --budget 500 --streams 8 \"What is 17 * 23?\"\n"
    "  cat report.txt | edgewise run model.gguf --system \"Summarize the text.\" -\n";

int ew_cli_run(int argc, char **argv) {
    request asked = {.reply = EW_REPLY_ARGUMENTS_INIT, .policy = EW_POLICY_ARGUMENTS_INIT};
    enum { OWN = 2, POLICY_AT = OWN + EW_REPLY_OPTIONS, ENGINE_AT = POLICY_AT + EW_POLICY_OPTIONS };
    ew_option options[ENGINE_AT + EW_ENGINE_OPTIONS + EW_ADAPTER_OPTIONS] = {
        {.name = "show-prompt",
         .type = EW_OPTION_FLAG,
         .value = &asked.show_prompt,
         .help = "print first what the template makes of the prompt"},
        {.name = "json",
         .type = EW_OPTION_FLAG,
         .value = &asked.json,
         .help = "print one JSON object: text, thinking, tokens, every candidate, timings"},
    };
    ew_reply_option_table(&asked.reply, 'n', options + OWN);
    ew_policy_option_table(&asked.policy, options + POLICY_AT);
    ew_engine_option_table(&asked.engine, options + ENGINE_AT);
    ew_adapter_option_table(&asked.engine, options + ENGINE_AT + EW_ENGINE_OPTIONS);
    const ew_command command = {
        .name = "run",
        .positionals = "MODEL PROMPT",
        .summary = "Answer one prompt. MODEL is a file that `edgewise quantize` made, another GGUF file, or "
                   "a Hugging\n"
                   "Face folder; the last two run unquantized. PROMPT \"-\" is standard input.",
        .examples = examples,
        .options = options,
        .n_options = sizeof options / sizeof options[0],
        .least_positionals = 2,
        .most_positionals = 2,
    };
    const char *positionals[2];
    int exit_code;
    if (!ew_bundle_arguments_parse(&command, &asked, sizeof asked, true, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    ew_error error = {0};
    ew_buffer prompt = {0};
    exit_code = read_prompt(positionals[1], &prompt, &error) == EW_OK ? run(&asked, positionals[0], &prompt)
                                                                      : ew_cli_fail(&error);
    ew_buffer_free(&prompt);
    return ew_cli_finish(exit_code);
}
