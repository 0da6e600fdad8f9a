#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const double terminal_interval = 0.2, plain_interval = 10.0; /* seconds */

double ew_clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void ew_progress_begin(ew_progress *progress, const char *label, const char *unit, size_t total) {
    double now = ew_clock_seconds();
    *progress = (ew_progress){.label = label,
                              .unit = unit,
                              .total = total,
                              .terminal = isatty(STDERR_FILENO) == 1,
                              .started = now,
                              .shown = now};
}

static void format_rate(double rate, const char *unit, char *text, size_t size) {
    if (rate >= 1e6) {
        snprintf(text, size, "%.1f M %s/s", rate * 1e-6, unit);
    } else if (rate >= 1e4) {
        snprintf(text, size, "%.1f k %s/s", rate * 1e-3, unit);
    } else {
        snprintf(text, size, "%.*f %s/s", rate < 10.0 ? 1 : 0, rate, unit);
    }
}

static void format_time(double seconds, char *text, size_t size) {
    long whole = seconds < 3.6e6 ? (long)(seconds + 0.5) : 3600000;
    if (whole >= 3600) {
        snprintf(text, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(text, size, "%ld:%02ld", whole / 60, whole % 60);
    }
}

static size_t terminal_width(void) {
    struct winsize window;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
        return window.ws_col;
    }
    return 80;
}

static void draw_bar(ew_progress *progress, double share, const char *facts) {
    enum { BAR = 20 };
    char bar[BAR + 1], line[512];
    size_t filled = (size_t)(share * BAR);
    memset(bar, '.', BAR);
    memset(bar, '#', filled < BAR ? filled : BAR);
    bar[BAR] = '\0';
    int length = snprintf(line, sizeof line, "%s [%s] %s", progress->label, bar, facts);
    size_t width = terminal_width();
    if (length > 0 && width < sizeof line && (size_t)length >= width) {
        line[width - 1] = '\0';
    }
    fprintf(stderr, "\r%s\x1b[K", line);
    progress->drawn = true;
}

void ew_progress_update(ew_progress *progress, size_t done, const char *note) {
    double now = ew_clock_seconds(), spent = now - progress->started;
    if (now - progress->shown < (progress->terminal ? terminal_interval : plain_interval)) {
        return;
    }
    progress->shown = now;
    char rate[64], left[32], facts[256];
    double share = progress->total > 0 ? (double)done / (double)progress->total : 0.0;
    format_rate((double)done / spent, progress->unit, rate, sizeof rate);
    format_time(share > 0.0 ? spent * (1.0 - share) / share : 0.0, left, sizeof left);
    snprintf(facts, sizeof facts, "%3.0f %%  %s  %s left%s%s", share * 100.0, rate, left, note ? "  " : "",
             note ? note : "");
    if (progress->terminal) {
        draw_bar(progress, share, facts);
    } else {
        fprintf(stderr, "%s %s\n", progress->label, facts);
    }
}

void ew_progress_end(ew_progress *progress) {
    if (progress->drawn) {
        fprintf(stderr, "\r\x1b[K");
        progress->drawn = false;
    }
}
