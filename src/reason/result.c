/* What an answer gives back: names and freeing. */
#include "reason/ensemble.h"

#include <stdlib.h>

const char *ew_thinking_end_name(ew_thinking_end end) {
    static const char *const names[] = {"none", "closed", "budget", "loop", "context", "time", "turn", "open"};
    return (size_t)end < sizeof names / sizeof *names ? names[end] : "unknown";
}

void ew_candidate_free(ew_candidate *candidate) {
    free(candidate->thinking);
    free(candidate->answer);
    free(candidate->tokens);
    free(candidate->forced);
    free(candidate->log_probabilities);
    free(candidate->final_answer);
    *candidate = (ew_candidate){0};
}

void ew_answer_result_free(ew_answer_result *result) {
    for (size_t i = 0; i < result->n_candidates; i++) {
        ew_candidate_free(&result->candidates[i]);
    }
    free(result->candidates);
    *result = (ew_answer_result){0};
}
