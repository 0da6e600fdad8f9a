/* edgewise tokenize: the tokens of a text or a conversation. Only the tokenizer of the model is opened: a
 * folder or GGUF file without weights will do. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/conversation.h"
#include "cli/input.h"
#include "cli/json_output.h"
#include "base/utf8.h"
#include "text/chat_template.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct tokenizer_source {
    ew_gguf *gguf; /* NULL for a folder */
    ew_tokenizer *tokenizer;
} tokenizer_source;

static ew_status open_source(const char *path, tokenizer_source *source, ew_error *error) {
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        return ew_tokenizer_open_folder(path, &source->tokenizer, error);
    }
    ew_status result = ew_gguf_open(path, &source->gguf, error);
    return result == EW_OK ? ew_tokenizer_open_gguf(source->gguf, &source->tokenizer, error) : result;
}

static void close_source(tokenizer_source *source) {
    ew_tokenizer_close(source->tokenizer);
    ew_gguf_close(source->gguf);
}

static ew_status render_file(const ew_tokenizer *tokenizer, const char *path, const char *template_name,
                             ew_buffer *text, ew_tokens *tokens, ew_error *error) {
    ew_conversation conversation = {0};
    ew_chat_template chat = {0};
    ew_chat_prompt prompt = {0};
    ew_status status = ew_conversation_read(&conversation, path, error);
    if (status == EW_OK) {
        status = ew_chat_template_open(tokenizer, template_name, &chat, error);
    }
    if (status == EW_OK) {
        status = ew_chat_render(&chat, tokenizer, conversation.messages, conversation.count, EW_CHAT_GENERATE,
                                &prompt, error);
    }
    if (status == EW_OK) {
        ew_buffer_append(text, prompt.text.data, prompt.text.length);
        status = text->failed ? ew_fail_memory(error, prompt.text.length, "a prompt")
                              : ew_chat_encode(&prompt, tokenizer, tokens, NULL, error);
    }
    ew_chat_prompt_free(&prompt);
    ew_chat_template_free(&chat);
    ew_conversation_free(&conversation);
    return status;
}

static ew_status print_json(const ew_tokenizer *tokenizer, const ew_buffer *text, const ew_tokens *tokens,
                            ew_error *error) {
    json_t *pieces = json_array(), *object = json_object();
    for (size_t i = 0; pieces && i < tokens->count; i++) {
        const char *bytes = "";
        size_t length = 0;
        ew_tokenizer_piece(tokenizer, tokens->ids[i], &bytes, &length);
        if (json_array_append_new(pieces, ew_json_repaired(bytes, length)) != 0) {
            json_decref(pieces);
            pieces = NULL;
        }
    }
    ew_json_put(&object, "ids", ew_json_ids(tokens->ids, tokens->count));
    ew_json_put(&object, "pieces", pieces);
    ew_json_put(&object, "text", ew_json_repaired(text->data ? text->data : "", text->length));
    return ew_json_print(object, error);
}

/* A piece in double quotes on one line: line ends and control bytes escaped, broken UTF-8 as \xNN. */
static void print_piece(const char *bytes, size_t length) {
    putchar('"');
    for (size_t i = 0; i < length;) {
        size_t character = ew_utf8_decode(bytes + i, length - i, NULL);
        unsigned char first = (unsigned char)bytes[i];
        if (first == '\n') {
            fputs("\\n", stdout);
        } else if (first == '\r') {
            fputs("\\r", stdout);
        } else if (first == '\t') {
            fputs("\\t", stdout);
        } else if (first == '"' || first == '\\') {
            printf("\\%c", first);
        } else if (character == 0 || first < 0x20 || first == 0x7f) {
            printf("\\x%02x", first);
        } else {
            fwrite(bytes + i, 1, character, stdout);
        }
        i += character > 0 ? character : 1;
    }
    putchar('"');
}

static void print_lines(const ew_tokenizer *tokenizer, const ew_tokens *tokens) {
    for (size_t i = 0; i < tokens->count; i++) {
        const char *bytes = "";
        size_t length = 0;
        ew_tokenizer_piece(tokenizer, tokens->ids[i], &bytes, &length);
        printf("%7d  ", (int)tokens->ids[i]);
        print_piece(bytes, length);
        putchar('\n');
    }
}

typedef struct request {
    const char *model, *text, *file, *messages, *template_name;
    bool specials, json;
} request;

static ew_status tokenize(const request *asked, ew_error *error) {
    tokenizer_source source = {0};
    ew_buffer text = {0};
    ew_tokens tokens = {0};
    ew_status status = open_source(asked->model, &source, error);
    if (status == EW_OK && asked->messages) {
        status = render_file(source.tokenizer, asked->messages, asked->template_name, &text, &tokens, error);
    } else if (status == EW_OK) {
        if (asked->file) {
            status = ew_read_text(asked->file, &text, error);
        } else {
            ew_buffer_append_text(&text, asked->text);
            status = text.failed ? ew_fail_memory(error, strlen(asked->text), "the text") : EW_OK;
        }
        if (status == EW_OK) {
            unsigned flags = EW_ENCODE_BOS | (asked->specials ? EW_ENCODE_SPECIALS : EW_ENCODE_TEXT);
            status = ew_tokenizer_encode(source.tokenizer, text.data ? text.data : "", text.length, flags,
                                         &tokens, error);
        }
    }
    if (status == EW_OK && asked->json) {
        status = print_json(source.tokenizer, &text, &tokens, error);
    } else if (status == EW_OK) {
        print_lines(source.tokenizer, &tokens);
    }
    ew_tokens_free(&tokens);
    ew_buffer_free(&text);
    close_source(&source);
    return status;
}

static const char examples[] = "  edgewise tokenize model.gguf \"Hello, world\"\n"
                               "  edgewise tokenize model.gguf --special '<|im_start|>user' --json\n"
                               "  edgewise tokenize model.gguf --chat messages.json\n";

int ew_cli_tokenize(int argc, char **argv) {
    request asked = {0};
    const ew_option options[] = {
        {.name = "file",
         .letter = 'f',
         .type = EW_OPTION_TEXT,
         .value = &asked.file,
         .argument = "FILE",
         .help = "the text is this file's bytes; \"-\": standard input"},
        {.name = "chat",
         .type = EW_OPTION_TEXT,
         .value = &asked.messages,
         .argument = "FILE",
         .help = "a JSON array of messages with role and content: the prompt that they become"},
        {.name = "template",
         .type = EW_OPTION_TEXT,
         .value = &asked.template_name,
         .argument = "NAME",
         .help = "the chat template for --chat; default: recognised from the file"},
        {.name = "special",
         .type = EW_OPTION_FLAG,
         .value = &asked.specials,
         .help = "text such as <|im_end|> becomes that token; never needed for --chat"},
        {.name = "json",
         .type = EW_OPTION_FLAG,
         .value = &asked.json,
         .help = "print one JSON object: ids, pieces, text"},
    };
    const ew_command command = {
        .name = "tokenize",
        .positionals = "MODEL (TEXT | --file FILE | --chat FILE)",
        .summary = "Show the tokens of a text, or of the prompt that a conversation becomes. MODEL may be a "
                   "file or\n"
                   "folder without weights: only its tokenizer is read.",
        .examples = examples,
        .options = options,
        .n_options = sizeof options / sizeof options[0],
        .least_positionals = 1,
        .most_positionals = 2,
    };
    const char *positionals[2];
    int exit_code;
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    asked.model = positionals[0];
    asked.text = positionals[1];
    if ((asked.text != NULL) + (asked.file != NULL) + (asked.messages != NULL) != 1) {
        return ew_usage_error(&command, "one of TEXT, --file and --chat is needed");
    }
    ew_error error = {0};
    if (tokenize(&asked, &error) != EW_OK) {
        return ew_cli_fail(&error);
    }
    return ew_cli_finish(EW_EXIT_OK);
}
