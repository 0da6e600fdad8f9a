/* Ctrl-C (SIGINT) and SIGTERM: the first asks the work to stop, a second one ends the program. */
#ifndef EW_CLI_INTERRUPT_H
#define EW_CLI_INTERRUPT_H

#include "edgewise.h"

#include <signal.h>

/* Non-zero once a signal came; ew_interrupt_clear makes it 0 again. For functions that take a flag to look
 * at. */
extern volatile sig_atomic_t ew_interrupted;

/* From now on a first signal sets ew_interrupted, cancels the watched session if there is one, and interrupts
 * a waiting read (EINTR); a second one ends the program with EW_EXIT_INTERRUPTED. */
void ew_interrupt_install(void);

/* The session to cancel, NULL for none. Call it with NULL before the session is closed. */
void ew_interrupt_watch(ew_session *session);

/* Forgets the signal that came, so that the next one is again a first one. */
void ew_interrupt_clear(void);

#endif
