/* Where a reply's text meets one of its stop strings, and how much of it may be shown before that is known. */
#ifndef EW_REASON_STOP_STRINGS_H
#define EW_REASON_STOP_STRINGS_H

#include "base/error.h"

/* The first place in text[length], at or after `from` minus the longest stop string, where one stands; false if none
 * does. Of two at one place either will do: both cut there. */
bool ew_find_stop(const char *text, size_t length, size_t from, const char *const *stop, size_t n_stop, size_t *at);

/* Bytes of text[length] that belong to no beginning of a stop string at its end. */
size_t ew_safe_length(const char *text, size_t length, const char *const *stop, size_t n_stop);

/* EW_ERROR_ARGUMENT unless every string is UTF-8 and not empty. */
ew_status ew_check_stops(const char *const *stop, size_t n_stop, ew_error *error);

#endif
