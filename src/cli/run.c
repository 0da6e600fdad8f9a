/* edgewise run: one prompt, one reply, streamed to stdout. */
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
    bool show_prompt, json;
} request;

/* `context` is the last byte printed. */
static bool print_text(void *context, const char *text, size_t length) {
    if (length > 0) {
        *(char *)context = text[length - 1];
    }
    return ew_cli_print(text, length);
}

static json_t *timings(const ew_reply *reply) {
    size_t evaluated = reply->n_prompt_tokens - reply->n_cached_tokens;
    json_t *object = json_object();
    ew_json_put(&object, "prompt_seconds", json_real(reply->prompt_seconds));
    ew_json_put(&object, "reply_seconds", json_real(reply->reply_seconds));
    if (reply->prompt_seconds > 0.0) {
        ew_json_put(&object, "prompt_tokens_per_second",
                    json_real((double)evaluated / reply->prompt_seconds));
    }
    if (reply->reply_seconds > 0.0) {
        ew_json_put(&object, "reply_tokens_per_second",
                    json_real((double)reply->n_tokens / reply->reply_seconds));
    }
    return object;
}

static ew_status print_json(const char *prompt, const ew_reply *reply, ew_error *error) {
    json_t *object = json_object(), *log_probabilities = json_array();
    for (size_t i = 0; log_probabilities && i < reply->n_tokens; i++) {
        if (json_array_append_new(log_probabilities, json_real((double)reply->log_probabilities[i])) != 0) {
            json_decref(log_probabilities);
            log_probabilities = NULL;
        }
    }
    if (prompt) {
        ew_json_put(&object, "prompt", ew_json_repaired(prompt, strlen(prompt)));
    }
    ew_json_put(&object, "text", ew_json_repaired(reply->text, reply->length));
    ew_json_put(&object, "tokens", ew_json_ids(reply->tokens, reply->n_tokens));
    ew_json_put(&object, "logprobs", log_probabilities);
    ew_json_put(&object, "stop_reason", json_string(ew_stop_reason_name(reply->stop_reason)));
    ew_json_put(&object, "prompt_tokens", json_integer((json_int_t)reply->n_prompt_tokens));
    ew_json_put(&object, "cached_tokens", json_integer((json_int_t)reply->n_cached_tokens));
    ew_json_put(&object, "reply_tokens", json_integer((json_int_t)reply->n_tokens));
    ew_json_put(&object, "timings", timings(reply));
    return ew_json_print(object, error);
}

static ew_status answer(request *asked, const ew_message *messages, size_t n_messages, ew_reply *reply,
                        ew_error *error) {
    ew_reply_options options = EW_REPLY_OPTIONS_INIT;
    char *prompt = NULL, last = '\n';
    ew_reply_arguments_apply(&asked->reply, asked->engine.model, &options);
    options.log_probabilities = asked->json;
    options.on_text = asked->json ? NULL : print_text;
    options.context = &last;
    if (asked->show_prompt) {
        ew_status status = ew_render(asked->engine.model, messages, n_messages, options.thinking, &prompt,
                                     NULL, NULL, error);
        if (status != EW_OK) {
            return status;
        }
        if (!asked->json) {
            print_text(&last, prompt, strlen(prompt));
        }
    }
    ew_status status = ew_reply_to(asked->engine.stream, messages, n_messages, &options, reply, error);
    if (status == EW_OK && asked->json) {
        status = print_json(prompt, reply, error);
    } else if (last != '\n') {
        putchar('\n');
    }
    ew_free(prompt);
    return status;
}

static int run(request *asked, const char *model, const ew_buffer *prompt) {
    ew_error error = {0};
    ew_reply reply = {0};
    ew_message messages[2];
    size_t n = 0;
    if (asked->reply.system) {
        messages[n++] = (ew_message){"system", asked->reply.system, strlen(asked->reply.system)};
    }
    messages[n++] = (ew_message){"user", prompt->data ? prompt->data : "", prompt->length};
    ew_status status = ew_engine_open(&asked->engine, model, true, &error);
    if (status == EW_OK) {
        status = answer(asked, messages, n, &reply, &error);
    }
    int exit_code = status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
    if (status == EW_OK && !ferror(stdout)) {
        ew_reply_notices(&reply);
        exit_code = reply.stop_reason == EW_STOP_CANCELLED ? EW_EXIT_INTERRUPTED : EW_EXIT_OK;
    }
    ew_reply_free(&reply);
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
    "  cat report.txt | edgewise run model.gguf --system \"Summarize the text.\" -\n";

int ew_cli_run(int argc, char **argv) {
    request asked = {.reply = EW_REPLY_ARGUMENTS_INIT};
    enum { OWN = 2 };
    ew_option options[OWN + EW_REPLY_OPTIONS + EW_ENGINE_OPTIONS] = {
        {.name = "show-prompt",
         .type = EW_OPTION_FLAG,
         .value = &asked.show_prompt,
         .help = "print first what the template makes of the prompt"},
        {.name = "json",
         .type = EW_OPTION_FLAG,
         .value = &asked.json,
         .help = "print one JSON object: text, tokens, logprobs, stop_reason, timings"},
    };
    ew_reply_option_table(&asked.reply, options + OWN);
    ew_engine_option_table(&asked.engine, options + OWN + EW_REPLY_OPTIONS);
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
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    ew_error error = {0};
    ew_buffer prompt = {0};
    exit_code = read_prompt(positionals[1], &prompt, &error) == EW_OK ? run(&asked, positionals[0], &prompt)
                                                                      : ew_cli_fail(&error);
    ew_buffer_free(&prompt);
    return ew_cli_finish(exit_code);
}
