#include "cli/chat_input.h"
#include "cli/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void ew_chat_input_open(ew_chat_input *input) {
    *input = (ew_chat_input){.terminal = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1};
}

void ew_chat_input_close(ew_chat_input *input) {
    free(input->line);
    ew_buffer_free(&input->text);
    *input = (ew_chat_input){0};
}

/* Waits until the terminal has a line. False when Ctrl-C came, before the wait or in it: the signal is let in
 * by the waiting call itself, so that there is no moment in between in which it would be missed. */
static bool wait_for_line(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    int ready = ew_interrupted ? -1 : ppoll(&input, 1, NULL, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ready > 0;
}

/* One line with its line end; its length, or -1 at the end. */
static ssize_t read_line(ew_chat_input *input, const char *sign) {
    bool warned = false;
    while (input->terminal) {
        fputs(sign, stderr);
        if (wait_for_line()) {
            break;
        }
        if (warned) {
            return -1;
        }
        ew_interrupt_clear();
        warned = true;
        fputs("\n(Ctrl-D or /quit leaves, and so does Ctrl-C once more)\n", stderr);
    }
    /* A Ctrl-C that comes on the heels of a line is meant for its reply. */
    return ew_interrupted && !input->terminal ? -1 : getline(&input->line, &input->capacity, stdin);
}

const char *ew_chat_input_next(ew_chat_input *input, size_t *length) {
    ew_buffer_clear(&input->text);
    ew_buffer_append(&input->text, "", 0);
    const char *sign = "> ";
    for (;;) {
        ssize_t got = read_line(input, sign);
        if (got < 0) {
            /* A last line that ended in "\" is still a message. */
            if (input->text.length == 0 || input->text.failed) {
                return NULL;
            }
            break;
        }
        size_t used = (size_t)got;
        while (used > 0 && (input->line[used - 1] == '\n' || input->line[used - 1] == '\r')) {
            used--;
        }
        bool goes_on = used > 0 && input->line[used - 1] == '\\';
        ew_buffer_append(&input->text, input->line, used - goes_on);
        if (!goes_on) {
            break;
        }
        ew_buffer_append_text(&input->text, "\n");
        sign = ". ";
    }
    *length = input->text.length;
    return input->text.failed ? NULL : input->text.data;
}
