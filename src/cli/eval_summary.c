#include "cli/eval_summary.h"
#include "base/statistics.h"
#include "cli/json_output.h"

#include <math.h>
#include <stdio.h>

/* ---- Adding up ---- */

static void add_verdicts(ew_eval_summary *s, const ew_eval_line *line) {
    size_t n_right = 0;
    for (size_t i = 0; i < line->n; i++) {
        n_right += line->verdicts[i] == EW_VERDICT_RIGHT;
    }
    double share = (double)n_right / (double)line->n;
    s->n_graded++;
    s->n_right += line->verdicts[line->chosen] == EW_VERDICT_RIGHT;
    s->n_none += line->verdicts[line->chosen] == EW_VERDICT_NONE;
    s->n_some_right += n_right > 0;
    s->share += share;
    s->squares += share * share;
}

void ew_eval_summary_add(ew_eval_summary *s, const ew_eval_line *line) {
    size_t longest = 0, longest_tokens = 0;
    s->n++;
    s->n_thought += line->thinks;
    s->n_candidates += line->n;
    s->most_streams = line->n > s->most_streams ? line->n : s->most_streams;
    s->n_stopped += line->n_stopped;
    s->n_saved += line->n_saved;
    s->seconds += line->seconds;
    s->reply_seconds += line->reply_seconds;
    for (size_t i = 0; i < line->n; i++) {
        const ew_candidate *c = &line->candidates[i];
        size_t n_tokens = c->n_thinking_tokens + c->n_answer_tokens;
        longest = n_tokens > longest_tokens ? i : longest;
        longest_tokens = n_tokens > longest_tokens ? n_tokens : longest_tokens;
        s->thinking += (double)c->n_thinking_tokens;
        s->answer += (double)c->n_answer_tokens;
        s->n_scored += !isnan(c->score);
        s->n_thoughts += c->thinking_end != EW_THINKING_NONE;
        s->n_cut += c->thinking_end == EW_THINKING_BUDGET || c->thinking_end == EW_THINKING_LOOP ||
                    c->thinking_end == EW_THINKING_CONTEXT || c->thinking_end == EW_THINKING_TIME;
        s->stops[c->stop_reason]++;
        s->ends[c->thinking_end]++;
    }
    s->longest_thinking += (double)line->candidates[longest].n_thinking_tokens;
    s->longest_answer += (double)line->candidates[longest].n_answer_tokens;
    if (line->graded) {
        add_verdicts(s, line);
    }
}

/* ---- What it comes to ---- */

typedef struct share {
    double value, low, high; /* 95 % */
} share;

static share share_of(size_t k, size_t n) {
    share s = {.value = n > 0 ? (double)k / (double)n : NAN};
    ew_wilson(k, n, &s.low, &s.high);
    return s;
}

/* One candidate's accuracy: the mean of the problems' shares. Candidates of one problem are no independent draws, so
 * that its interval is by the spread between problems; with one candidate a problem it is Wilson's. */
static share single_share(const ew_eval_summary *s) {
    if (s->most_streams == 1 || s->n_graded == 0) {
        return share_of(s->n_right, s->n_graded);
    }
    double n = (double)s->n_graded, mean = s->share / n;
    double variance = n > 1 ? (s->squares / n - mean * mean) / (n - 1) : 0.0;
    if (!(variance > 1e-15)) { /* no spread to judge by */
        return share_of((size_t)(s->share + 0.5), s->n_graded);
    }
    double half = EW_NORMAL_HALF * sqrt(variance);
    return (share){mean, fmax(mean - half, 0.0), fmin(mean + half, 1.0)};
}

/* Without a verifier the weights are all the same. */
static const char *vote_name(const ew_eval_summary *s, ew_vote vote) {
    return ew_vote_names[vote == EW_VOTE_WEIGHTED && s->n_scored == 0 ? EW_VOTE_MAJORITY : vote];
}

/* Streams that were stopped have no verdict, and those that came to an end are the short ones. */
static bool tells_singles(const ew_eval_summary *s) {
    return s->most_streams > 1 && s->n_stopped == 0;
}

/* ---- Print ---- */

static void print_share(const char *label, share s, const char *rest) {
    printf("%-14s %5.1f %% (95 %%: %.1f to %.1f %%)%s", label, 100.0 * s.value, 100.0 * s.low, 100.0 * s.high, rest);
}

static void print_accuracy(const ew_eval_summary *s, ew_vote vote) {
    if (s->n_graded == 0) {
        printf("%-14s no problem has an answer to grade by\n", "accuracy");
        return;
    }
    print_share("accuracy", share_of(s->n_right, s->n_graded), "");
    printf(", %zu of %zu problems, %zu without an answer", s->n_right, s->n_graded, s->n_none);
    if (s->most_streams > 1) {
        printf("; %s vote of %zu", vote_name(s, vote), s->most_streams);
    }
    putchar('\n');
    if (tells_singles(s)) {
        print_share("one candidate", single_share(s), "\n");
        print_share("some of them", share_of(s->n_some_right, s->n_graded), "");
        printf(", pass@%zu\n", s->most_streams);
    }
}

static void print_counts(const char *label, const size_t *counts, size_t n, const char *(*name)(size_t)) {
    printf("%-14s", label);
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (counts[i] > 0) {
            printf("%s %zu %s", any ? "," : "", counts[i], name(i));
            any = true;
        }
    }
    putchar('\n');
}

void ew_eval_summary_print(const ew_eval_summary *s, ew_vote vote, size_t n_left_out) {
    double n = (double)s->n;
    if (s->n == 0) {
        printf("no problem was answered\n");
        return;
    }
    print_accuracy(s, vote);
    printf("%-14s %5.1f %% of the problems", "thought", 100.0 * (double)s->n_thought / n);
    if (s->n_thoughts > 0) {
        printf("; %.1f %% of the thinkings were cut", 100.0 * (double)s->n_cut / (double)s->n_thoughts);
    }
    printf("\n%-14s %.1f of thinking and %.1f of answer a problem", "tokens", s->thinking / n, s->answer / n);
    if (s->most_streams > 1) {
        printf("; %.1f and %.1f of its longest candidate", s->longest_thinking / n, s->longest_answer / n);
    }
    if (s->reply_seconds > 0.0) {
        printf("\n%-14s %.2f s a problem, %.1f tokens/s", "time", s->seconds / n,
               (s->thinking + s->answer) / s->reply_seconds);
    }
    putchar('\n');
    print_counts("ends", s->stops, EW_STOP_REASONS, ew_stop_name);
    print_counts("thinking ends", s->ends, EW_THINKING_ENDS, ew_end_name);
    if (s->n_stopped > 0) {
        printf("%-14s %zu streams, about %zu tokens, by early decision (--all-streams tells what one candidate is "
               "worth)\n",
               "saved", s->n_stopped, s->n_saved);
    }
    if (n_left_out > 0) {
        printf("%-14s %zu problems, which fit no context\n", "left out", n_left_out);
    }
}

/* ---- JSON ---- */

static void put_share(json_t **object, const char *name, share s, bool known) {
    char low[64], high[64];
    snprintf(low, sizeof low, "%s_low", name);
    snprintf(high, sizeof high, "%s_high", name);
    ew_json_put(object, name, known ? ew_json_known(s.value) : json_null());
    ew_json_put(object, low, known ? ew_json_known(s.low) : json_null());
    ew_json_put(object, high, known ? ew_json_known(s.high) : json_null());
}

static json_t *counts_json(const size_t *counts, size_t n, const char *(*name)(size_t)) {
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++) {
        ew_json_put_count(&object, name(i), counts[i]);
    }
    return object;
}

static void put_mean(json_t **object, const char *key, double sum, double n) {
    ew_json_put(object, key, n > 0 && !isnan(sum) ? json_real(sum / n) : json_null());
}

json_t *ew_eval_summary_json(const ew_eval_summary *s, ew_vote vote, size_t n_left_out, json_t *policy) {
    double n = (double)s->n;
    bool graded = s->n_graded > 0, several = graded && tells_singles(s);
    json_t *object = json_object();
    ew_json_put_count(&object, "problems", s->n);
    ew_json_put_count(&object, "graded", s->n_graded);
    ew_json_put_count(&object, "left_out", n_left_out);
    ew_json_put_count(&object, "right", s->n_right);
    ew_json_put_count(&object, "without_answer", s->n_none);
    put_share(&object, "accuracy", share_of(s->n_right, s->n_graded), graded);
    put_share(&object, "single", single_share(s), several);
    put_share(&object, "pass", share_of(s->n_some_right, s->n_graded), several);
    ew_json_put_count(&object, "streams", s->most_streams);
    ew_json_put(&object, "vote", json_string(vote_name(s, vote)));
    ew_json_put_count(&object, "candidates", s->n_candidates);
    put_mean(&object, "thought", (double)s->n_thought, n);
    put_mean(&object, "truncated", (double)s->n_cut, (double)s->n_thoughts);
    put_mean(&object, "thinking_tokens", s->thinking, n);
    put_mean(&object, "answer_tokens", s->answer, n);
    put_mean(&object, "longest_thinking_tokens", s->longest_thinking, n);
    put_mean(&object, "longest_answer_tokens", s->longest_answer, n);
    put_mean(&object, "seconds", s->seconds, n);
    put_mean(&object, "tokens_per_second", s->thinking + s->answer, s->reply_seconds);
    ew_json_put_count(&object, "streams_stopped", s->n_stopped);
    ew_json_put_count(&object, "tokens_saved", s->n_saved);
    ew_json_put(&object, "stop_reasons", counts_json(s->stops, EW_STOP_REASONS, ew_stop_name));
    ew_json_put(&object, "thinking_ends", counts_json(s->ends, EW_THINKING_ENDS, ew_end_name));
    ew_json_put(&object, "policy", policy ? json_incref(policy) : json_null());
    return object;
}
