/* edgewise chat: a conversation, line by line. Replies go to stdout, everything about them to stderr, so that
 * `edgewise chat MODEL < questions.txt > answers.txt` gives answers only. */
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
    ew_reply_options options;
    ew_conversation conversation; /* the system message first, if there is one */
    ew_chat_input input;
    size_t n_dropped; /* left out of the last prompt */
    double prompt_seconds, reply_seconds;
    size_t n_prompt_tokens, n_cached_tokens, n_reply_tokens;
    bool failed; /* some reply could not be given */
    char last;   /* byte printed */
} chat;

static const char help_text[] =
    "  /system TEXT  set the system message and start anew (without TEXT: the template's own)\n"
    "  /clear        forget the conversation, keep the system message\n"
    "  /stats        tokens, speed and memory\n"
    "  /help         this\n"
    "  /quit         leave (as Ctrl-D does)\n"
    "A line that ends in \\ goes on in the next one. Ctrl-C ends a reply.\n";

static bool print_text(void *context, const char *text, size_t length) {
    chat *here = context;
    if (length > 0) {
        here->last = text[length - 1];
    }
    return ew_cli_print(text, length);
}

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
    ew_session_describe(here->engine.session, &info);
    fprintf(stderr, "  context   %zu of %zu tokens, %.1f MB of KV cells\n",
            ew_stream_length(here->engine.stream), info.context_length, (double)info.kv_bytes * 1e-6);
    fprintf(stderr, "  machine   %zu threads, %s\n", info.n_threads, info.instruction_set);
    if (here->prompt_seconds > 0.0 && here->reply_seconds > 0.0) {
        fprintf(stderr, "  prompt    %zu tokens, %zu of them cached, %.2f s\n", here->n_prompt_tokens,
                here->n_cached_tokens, here->prompt_seconds);
        fprintf(stderr, "  reply     %zu tokens, %.1f tokens/s\n", here->n_reply_tokens,
                (double)here->n_reply_tokens / here->reply_seconds);
    }
}

static void note_reply(chat *here, ew_reply *reply) {
    size_t dropped = reply->n_dropped_messages;
    if (dropped == here->n_dropped) {
        reply->n_dropped_messages = 0; /* said already */
    }
    here->n_dropped = dropped;
    here->prompt_seconds = reply->prompt_seconds;
    here->reply_seconds = reply->reply_seconds;
    here->n_prompt_tokens = reply->n_prompt_tokens;
    here->n_cached_tokens = reply->n_cached_tokens;
    here->n_reply_tokens = reply->n_tokens;
    ew_reply_notices(reply);
}

/* Answers the user's line. What fails is told and taken back; only a failed write ends the chat. */
static void take_turn(chat *here, const char *line, size_t length) {
    ew_error error = {0};
    ew_reply reply = {0};
    ew_conversation *conversation = &here->conversation;
    ew_status status = ew_conversation_add(conversation, "user", line, length, &error);
    if (status != EW_OK) {
        ew_cli_fail(&error);
        here->failed = true;
        return;
    }
    here->last = '\n';
    ew_interrupt_watch(here->engine.session);
    if (ew_interrupted) {
        ew_session_cancel(here->engine.session);
    }
    status = ew_reply_to(here->engine.stream, conversation->messages, conversation->count, &here->options,
                         &reply, &error);
    if (status == EW_OK && reply.stop_reason == EW_STOP_CANCELLED && reply.n_tokens == 0 && !ew_interrupted) {
        /* The Ctrl-C was meant for the reply before, which had ended by itself when it came. */
        ew_reply_free(&reply);
        status = ew_reply_to(here->engine.stream, conversation->messages, conversation->count, &here->options,
                             &reply, &error);
    }
    ew_interrupt_watch(NULL);
    ew_interrupt_clear();
    if (here->last != '\n') {
        print_text(here, "\n", 1);
    }
    if (status == EW_OK && reply.length > 0) {
        status = ew_conversation_add(conversation, "assistant", reply.text, reply.length, &error);
    }
    if (status != EW_OK) {
        ew_cli_fail(&error);
        here->failed = true;
    }
    if (status != EW_OK || reply.length == 0) {
        ew_conversation_drop_last(conversation);
    }
    if (status == EW_OK && !ferror(stdout)) {
        note_reply(here, &reply);
    }
    ew_reply_free(&reply);
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
    } else {
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
    here->options = (ew_reply_options)EW_REPLY_OPTIONS_INIT;
    ew_reply_arguments_apply(&here->reply, here->engine.model, &here->options);
    here->options.on_text = print_text;
    here->options.context = here;
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
    ew_engine_close(&here->engine);
    return exit_code;
}

static const char examples[] =
    "  edgewise chat model.gguf\n"
    "  edgewise chat model.gguf --system \"Answer in one sentence.\" --temperature 0.7\n"
    "  edgewise chat model.gguf < questions.txt > answers.txt\n";

int ew_cli_chat(int argc, char **argv) {
    chat here = {.reply = EW_REPLY_ARGUMENTS_INIT};
    ew_option options[EW_REPLY_OPTIONS + EW_ENGINE_OPTIONS];
    ew_reply_option_table(&here.reply, options);
    ew_engine_option_table(&here.engine, options + EW_REPLY_OPTIONS);
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
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    return ew_cli_finish(chat_with(&here, positionals[0]));
}
