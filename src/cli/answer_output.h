/* What the user sees of an answer. The answer goes to stdout, its thinking (dimmed on a terminal) and everything about
 * it to stderr. One stream is shown as it comes; of several the chosen one, when all have ended. */
#ifndef EW_CLI_ANSWER_OUTPUT_H
#define EW_CLI_ANSWER_OUTPUT_H

#include "base/energy.h"
#include "cli/policy_arguments.h"

#include <jansson.h>

/* Start with ew_answer_output_begin for each answer. */
typedef struct ew_answer_output {
    bool quiet; /* neither text is printed: JSON comes later */
    bool shows_thinking, dims;
    bool live;                     /* one stream: as it comes */
    bool thinking_begun;           /* and not ended by a line end yet */
    char last;                     /* byte printed to stdout; '\n' before the first */
    ew_answer_callbacks callbacks; /* for ew_answer */
    ew_energy energy;
} ew_answer_output;

void ew_answer_output_begin(ew_answer_output *output, const ew_policy_arguments *arguments, const ew_policy *policy,
                            bool json);

/* Prints what is not on the screen yet, and a line end behind it. */
void ew_answer_output_end(ew_answer_output *output, const ew_answer_result *result);

/* Says on stderr what the reader of the text alone would not know: old messages left out, an answer that was cut. */
void ew_answer_notices(const ew_answer_result *result);

/* Says that auto was off for want of a switcher, to those who wanted it: who asked for auto or gave an adapter. */
void ew_mode_notice(bool wanted, const ew_answer_result *result);

/* One line on stderr: mode, p, tokens, streams agreed, times, joules. */
void ew_answer_line(const ew_answer_output *output, const ew_answer_result *result);

/* Everything. `prompt` (NULL: not asked for) is the prompt's text. NULL when memory is out. */
json_t *ew_answer_json(const ew_answer_output *output, const char *prompt, const ew_answer_result *result);
/* Parts of it: all candidates, an object each, and how long it took. */
json_t *ew_candidates_json(const ew_answer_result *result);
json_t *ew_timings_json(const ew_answer_result *result);

#endif
