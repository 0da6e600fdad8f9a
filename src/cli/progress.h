/* How long work shows itself on stderr: on a terminal a bar with rate and time left, redrawn a few times a
 * second; elsewhere a plain line every ten seconds, so that short work says nothing. One thread. */
#ifndef EW_CLI_PROGRESS_H
#define EW_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ew_progress {
    const char *label; /* "quantizing"; not owned */
    const char *unit;  /* of what is counted: "tokens"; not owned */
    size_t total;
    bool terminal;
    bool drawn;            /* a bar stands on the line */
    double started, shown; /* seconds */
} ew_progress;

void ew_progress_begin(ew_progress *progress, const char *label, const char *unit, size_t total);

/* `done` of `total`; `note` (may be NULL) is a few words that stand at the end. */
void ew_progress_update(ew_progress *progress, size_t done, const char *note);

/* Takes the bar away. Before anything else is printed. */
void ew_progress_end(ew_progress *progress);

/* Seconds of a clock that only goes forward. */
double ew_clock_seconds(void);

#endif
