/* The lines of a JSONL text. */
#ifndef EW_FORMAT_LINES_H
#define EW_FORMAT_LINES_H

#include "format/names.h"

/* Takes the next line that is not blank off the front of *text; its line end (LF or CR LF) is not part of it, nor is a
 * byte order mark in front of the first. *number (0 to begin with) becomes its number, counted from 1, blank lines
 * included. False when none is left; *number is then that of the last line. */
bool ew_next_line(ew_string *text, ew_string *line, size_t *number);

#endif
