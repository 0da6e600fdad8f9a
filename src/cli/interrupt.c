#include "cli/interrupt.h"
#include "cli/cli.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t ew_interrupted;

/* A pointer whose atomic operations take no lock, which a signal handler may use. */
static _Atomic(ew_session *) watched;

static void on_signal(int number) {
    (void)number;
    if (ew_interrupted) {
        _exit(EW_EXIT_INTERRUPTED);
    }
    ew_interrupted = 1;
    ew_session *session = atomic_load(&watched);
    if (session) {
        ew_session_cancel(session);
    }
}

void ew_interrupt_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal; /* without SA_RESTART: a waiting read returns */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void ew_interrupt_watch(ew_session *session) {
    atomic_store(&watched, session);
}

void ew_interrupt_clear(void) {
    ew_interrupted = 0;
}
