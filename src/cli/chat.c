/* edgewise chat: a conversation, line by line. Replies go to stdout, everything about them to stderr, so that
 * `edgewise chat MODEL < questions.txt > answers.txt` gives answers only. */
#include "cli/bundle_arguments.h"
#include "cli/answer_output.h"
#include "cli/chat_input.h"
#include "cli/cli.h"
#include "cli/conversation.h"
#include "cli/engine.h"
#include "cli/interrupt.h"
#include "cli/reply_arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct chat {
    ew_engine engine;
    ew_reply_arguments reply;
    ew_policy_arguments arguments;
    ew_policy policy;
    ew_conversation conversation; /* the system message first, if there is one */
    ew_chat_input input;
    size_t n_dropped;        /* left out of the last prompt */
    ew_answer_result before; /* the last answer; without candidates: none yet */
    bool said_mode;          /* that auto is off */
    bool failed;             /* some reply could not be given */
} chat;

static const char help_text[] =
    "  /system TEXT  set the system message and start anew (without TEXT: the template's own)\n"
    "  /clear        forget the conversation, keep the system message\n"
    "  /think MODE   on, off, or auto: as the switcher says\n"
    "  /budget N     most tokens of thinking; none: no limit\n"
    "  /streams N    answers that are written at once and vote; auto: as many as the verifier wants\n"
    "  /stats        tokens, speed and memory\n"
    "  /help         this\n"
    "  /quit         leave (as Ctrl-D does)\n"
    "A line that ends in \\ goes on in the next one. Ctrl-C ends a reply.\n";

/* Forgets all messages but the system message. */
static void clear(chat *here) {
    size_t keep = here->conversation.count > 0 && strcmp(here->conversation.messages[0].role, "system") == 0;
    while (here->conversation.count > keep) {
        ew_conversation_drop_last(&here->conversation);
    }
    here->n_dropped = 0;
}

static ew_status set_system(chat *here, const char *text, ew_error *error) {
    while (here->conversation.count > 0) {
        ew_conversation_drop_last(&here->conversation);
    }
    here->n_dropped = 0;
    return text[0] ? ew_conversation_add(&here->conversation, "system", text, strlen(text), error) : EW_OK;
}

static void print_stats(const chat *here) {
    ew_session_info info = {.size = sizeof info};
    const ew_answer_result *before = &here->before;
    ew_session_describe(here->engine.session, &info);
    fprintf(stderr, "  context   %zu of %zu tokens, %.1f MB of KV cells\n", before->n_prompt_tokens,
            info.context_length, (double)info.kv_bytes * 1e-6);
    fprintf(stderr, "  machine   %zu threads, %s\n", info.n_threads, info.instruction_set);
    if (before->n_candidates > 0) {
        const ew_candidate *chosen = &before->candidates[before->chosen];
        double seconds = before->seconds - before->prompt_seconds;
        fprintf(stderr, "  prompt    %zu tokens, %zu of them cached, %.2f s\n", before->n_prompt_tokens,
                before->n_cached_tokens, before->prompt_seconds);
        fprintf(stderr, "  reply     %zu tokens, %.1f tokens/s\n", chosen->n_tokens,
                seconds > 0 ? (double)chosen->n_tokens / seconds : 0.0);
    }
}

static void note_answer(chat *here, const ew_answer_output *output, ew_answer_result *result) {
    size_t dropped = result->n_dropped_messages;
    if (dropped == here->n_dropped) {
        result->n_dropped_messages = 0; /* said already */
    }
    here->n_dropped = dropped;
    if (!here->said_mode) {
        ew_mode_notice(here->arguments.think_given || here->engine.adapter, result);
    }
    here->said_mode |= result->no_switcher;
    ew_answer_notices(result);
    ew_answer_line(output, result);
}

/* The Ctrl-C was meant for the reply before, which had ended by itself when it came. */
static bool was_meant_for_another(const ew_answer_result *result) {
    const ew_candidate *chosen = &result->candidates[result->chosen];
    return chosen->stop_reason == EW_STOP_CANCELLED && chosen->n_tokens == 0 && !ew_interrupted;
}

static ew_status ask(chat *here, ew_answer_output *output, ew_answer_result *result, ew_error *error) {
    ew_session *session = here->engine.session;
    const ew_conversation *conversation = &here->conversation;
    ew_interrupt_watch(session);
    if (ew_interrupted) {
        ew_session_cancel(session);
    }
    ew_status status = ew_answer(session, conversation->messages, conversation->count, &here->policy,
                                 &output->callbacks, result, error);
    if (status == EW_OK && was_meant_for_another(result)) {
        ew_answer_result_free(result);
        status = ew_answer(session, conversation->messages, conversation->count, &here->policy, &output->callbacks,
                           result, error);
    }
    ew_interrupt_watch(NULL);
    ew_interrupt_clear();
    return status;
}

/* Answers the user's line. What fails is told and taken back; only a failed write ends the chat. */
static void take_turn(chat *here, const char *line, size_t length) {
    ew_error error = {0};
    ew_answer_output output;
    ew_answer_result result = {0};
    ew_conversation *conversation = &here->conversation;
    ew_status status = ew_conversation_add(conversation, "user", line, length, &error);
    if (status != EW_OK) {
        ew_cli_fail(&error);
        here->failed = true;
        return;
    }
    ew_answer_output_begin(&output, &here->arguments, &here->policy, false);
    status = ask(here, &output, &result, &error);
    ew_answer_output_end(&output, &result);
    const ew_candidate *chosen = status == EW_OK ? &result.candidates[result.chosen] : NULL;
    bool answered = chosen && chosen->answer_length > 0;
    if (answered) {
        status = ew_conversation_add(conversation, "assistant", chosen->answer, chosen->answer_length, &error);
    }
    if (status != EW_OK) {
        ew_cli_fail(&error);
        here->failed = true;
    }
    if (status != EW_OK || !answered) {
        ew_conversation_drop_last(conversation);
    }
    if (status == EW_OK && !ferror(stdout)) {
        note_answer(here, &output, &result);
    }
    ew_answer_result_free(&here->before);
    here->before = result;
}

/* ---- Commands ---- */

static void set_think(chat *here, const char *text) {
    if (ew_parse_mode(text, &here->policy.mode)) {
        here->arguments.think_given = true;
        here->said_mode = false;
    } else {
        fprintf(stderr, "edgewise: /think on, /think off or /think auto is meant\n");
    }
}

static void set_budget(chat *here, const char *text) {
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (strcmp(text, "none") == 0) {
        here->policy.thinking_budget = EW_NO_LIMIT;
    } else if (text[0] >= '0' && text[0] <= '9' && *end == '\0') {
        here->policy.thinking_budget = n;
    } else {
        fprintf(stderr, "edgewise: /budget N (tokens of thinking) or /budget none is meant\n");
    }
}

static void set_streams(chat *here, const char *text) {
    if (ew_parse_streams(text, &here->policy.streams)) {
        ew_warm_up_streams(here->reply.has_temperature, &here->policy);
    } else {
        fprintf(stderr, "edgewise: /streams N (1 to 1024) or /streams auto is meant\n");
    }
}

static const struct {
    const char *name;
    void (*set)(chat *here, const char *text);
} settings[] = {{"/think", set_think}, {"/budget", set_budget}, {"/streams", set_streams}};

/* True if the line was one of these. */
static bool change_setting(chat *here, const char *line, size_t length, const char *rest) {
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (strlen(settings[i].name) == length && strncmp(line, settings[i].name, length) == 0) {
            settings[i].set(here, rest);
            return true;
        }
    }
    return false;
}

/* A line that begins with "/". Returns false to leave. */
static bool obey(chat *here, const char *line) {
    size_t length = strcspn(line, " ");
    const char *rest = line + length + strspn(line + length, " ");
    ew_error error = {0};
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0) {
        return false;
    }
    if (strcmp(line, "/help") == 0) {
        fputs(help_text, stderr);
    } else if (strcmp(line, "/clear") == 0) {
        clear(here);
    } else if (strcmp(line, "/stats") == 0) {
        print_stats(here);
    } else if (length == 7 && strncmp(line, "/system", length) == 0) {
        if (set_system(here, rest, &error) != EW_OK) {
            ew_cli_fail(&error);
        }
    } else if (!change_setting(here, line, length, rest)) {
        fprintf(stderr, "edgewise: %.*s is no command; /help lists them\n", (int)length, line);
    }
    return true;
}

static void converse(chat *here) {
    size_t length;
    const char *line;
    while (!ferror(stdout) && (line = ew_chat_input_next(&here->input, &length)) != NULL) {
        if (line[0] == '/') {
            if (!obey(here, line)) {
                return;
            }
        } else if (length > 0) {
            take_turn(here, line, length);
        }
    }
}

static ew_status start(chat *here, const char *model, ew_error *error) {
    ew_status status = ew_engine_open(&here->engine, model, true, error);
    if (status == EW_OK) {
        ew_interrupt_watch(NULL); /* at the prompt Ctrl-C has no reply to end */
        status = set_system(here, here->reply.system ? here->reply.system : "", error);
    }
    if (status != EW_OK) {
        return status;
    }
    status = ew_policy_make(&here->arguments, &here->reply, &here->engine, &here->policy, error);
    if (status != EW_OK) {
        return status;
    }
    /* A template that is not known is found out now and not after the first question. */
    const ew_message probe = {"user", "", 0};
    char *text = NULL;
    status = ew_render(here->engine.model, &probe, 1, true, &text, NULL, NULL, error);
    ew_free(text);
    return status;
}

static int chat_with(chat *here, const char *model) {
    ew_error error = {0};
    int exit_code = EW_EXIT_OK;
    if (start(here, model, &error) == EW_OK) {
        ew_chat_input_open(&here->input);
        if (here->input.terminal) {
            fprintf(stderr, "%s, %s. /help lists the commands, Ctrl-D leaves.\n", model,
                    here->engine.info.quantized ? "quantized" : "unquantized");
        }
        converse(here);
        bool interrupted = ew_interrupted && !here->input.terminal;
        ew_chat_input_close(&here->input);
        exit_code = interrupted ? EW_EXIT_INTERRUPTED : here->failed ? EW_EXIT_ERROR : EW_EXIT_OK;
    } else {
        exit_code = ew_cli_fail(&error);
    }
    ew_conversation_free(&here->conversation);
    ew_answer_result_free(&here->before);
    ew_policy_arguments_close(&here->arguments);
    ew_engine_close(&here->engine);
    return exit_code;
}

static const char examples[] =
    "  edgewise chat model.gguf\n"
    "  edgewise chat model.gguf --system \"Answer in one sentence.\" --temperature 0.7\n"
    "  edgewise chat model.gguf < questions.txt > answers.txt\n";

int ew_cli_chat(int argc, char **argv) {
    chat here = {.reply = EW_REPLY_ARGUMENTS_INIT, .arguments = EW_POLICY_ARGUMENTS_INIT};
    enum { ENGINE_AT = EW_REPLY_OPTIONS + EW_POLICY_OPTIONS };
    ew_option options[ENGINE_AT + EW_ENGINE_OPTIONS + EW_ADAPTER_OPTIONS];
    ew_reply_option_table(&here.reply, 'n', options);
    ew_policy_option_table(&here.arguments, options + EW_REPLY_OPTIONS);
    ew_engine_option_table(&here.engine, options + ENGINE_AT);
    ew_adapter_option_table(&here.engine, options + ENGINE_AT + EW_ENGINE_OPTIONS);
    const ew_command command = {
        .name = "chat",
        .positionals = "MODEL",
        .summary =
            "Talk with a model, line by line; it remembers the conversation. When the context is full the "
            "oldest\n"
            "turns are left out, which is said; never the system message. Commands begin with /: see /help.\n"
            "Ctrl-C ends a reply, not the program.",
        .examples = examples,
        .options = options,
        .n_options = sizeof options / sizeof options[0],
        .least_positionals = 1,
        .most_positionals = 1,
    };
    const char *positionals[1];
    int exit_code;
    if (!ew_bundle_arguments_parse(&command, &here, sizeof here, true, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    return ew_cli_finish(chat_with(&here, positionals[0]));
}
