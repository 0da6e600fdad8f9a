#include "reason/vote.h"
#include "base/memory.h"
#include "kernel/math64.h"

#include <math.h>
#include <stdlib.h>

/* One class of equal answers. */
typedef struct party {
    size_t count;
    double sum, best;
    size_t first;          /* index of its first member */
    size_t representative; /* of its best scored one */
} party;

/* parties[n]; those without members have count 0. */
static ew_status gather(const ew_ballots *ballots, party **parties, ew_error *error) {
    *parties = ew_allocate(ballots->n, sizeof **parties);
    if (!*parties) {
        return ew_fail_memory(error, ballots->n * sizeof **parties, "a vote");
    }
    for (size_t i = 0; i < ballots->n; i++) {
        if (ballots->classes[i] >= ballots->n) {
            continue;
        }
        party *p = &(*parties)[ballots->classes[i]];
        if (p->count == 0) {
            p->first = i;
        }
        if (p->count == 0 || ballots->scores[i] > p->best) {
            p->best = ballots->scores[i];
            p->representative = i;
        }
        p->count++;
        p->sum += ballots->scores[i];
    }
    return EW_OK;
}

/* What a class has by the rule. */
static double amount(ew_vote rule, const party *p) {
    return rule == EW_VOTE_WEIGHTED ? p->sum : rule == EW_VOTE_MAJORITY ? (double)p->count : p->best;
}

static bool beats(ew_vote rule, const party *a, const party *b) {
    double first = amount(rule, a), second = amount(rule, b);
    if (first != second) {
        return first > second;
    }
    double next = rule == EW_VOTE_WEIGHTED ? a->best : a->sum, other = rule == EW_VOTE_WEIGHTED ? b->best : b->sum;
    if (rule != EW_VOTE_BEST && next != other) {
        return next > other;
    }
    return rule == EW_VOTE_BEST ? a->representative < b->representative : a->first < b->first;
}

static const party *leader_of(const ew_ballots *ballots, const party *parties, const party *except) {
    const party *leader = NULL;
    for (size_t i = 0; i < ballots->n; i++) {
        const party *p = &parties[i];
        if (p->count > 0 && p != except && (!leader || beats(ballots->rule, p, leader))) {
            leader = p;
        }
    }
    return leader;
}

ew_status ew_vote_count(const ew_ballots *ballots, size_t *winner, ew_error *error) {
    party *parties;
    *winner = SIZE_MAX;
    ew_status status = gather(ballots, &parties, error);
    if (status == EW_OK) {
        const party *leader = leader_of(ballots, parties, NULL);
        *winner = leader ? leader->representative : SIZE_MAX;
        free(parties);
    }
    return status;
}

static double score_or_less(const ew_candidate *candidate) {
    return isnan(candidate->score) ? -1 : candidate->score;
}

/* Where nobody votes: the best score, then a complete answer, then the first. */
static size_t best_scored(const ew_candidate *candidates, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        const ew_candidate *one = &candidates[i], *other = &candidates[best];
        double score = score_or_less(one), held = score_or_less(other);
        bool complete = one->stop_reason == EW_STOP_END && other->stop_reason != EW_STOP_END;
        if (score > held || (score == held && complete)) {
            best = i;
        }
    }
    return best;
}

ew_status ew_vote_candidates(ew_vote rule, const ew_candidate *candidates, size_t n, size_t *chosen, size_t *n_agreed,
                             ew_error *error) {
    size_t *classes = ew_allocate(n, sizeof *classes);
    double *scores = ew_allocate(n, sizeof *scores);
    const ew_ballots ballots = {rule, classes, scores, n};
    ew_status status = classes && scores ? EW_OK : ew_fail_memory(error, n * sizeof *scores, "a vote");
    for (size_t i = 0; status == EW_OK && i < n; i++) {
        classes[i] = candidates[i].answer_class;
        scores[i] = isnan(candidates[i].score) ? 0 : candidates[i].score;
    }
    if (status == EW_OK) {
        status = ew_vote_count(&ballots, chosen, error);
    }
    *n_agreed = 0;
    if (status == EW_OK && *chosen == SIZE_MAX) {
        *chosen = best_scored(candidates, n);
        *n_agreed = 1;
    } else if (status == EW_OK) {
        for (size_t i = 0; i < n; i++) {
            *n_agreed += classes[i] == classes[*chosen];
        }
    }
    free(classes);
    free(scores);
    return status;
}

/* The integral of x^a (1 - x)^b over [from, to] by Simpson's rule, divided by the integrand's maximum. */
static double beta_integral(double a, double b, double from, double to) {
    enum { STEPS = 512 };
    double mode = a + b > 0 ? a / (a + b) : 0.5, sum = 0;
    double top = (a > 0 ? a * ew_log64(mode) : 0) + (b > 0 ? b * ew_log64(1 - mode) : 0);
    for (int i = 0; i <= STEPS; i++) {
        double x = from + (to - from) * i / STEPS, weight = i == 0 || i == STEPS ? 1 : i % 2 ? 4 : 2;
        double log_value = (a > 0 ? a * ew_log64(x) : 0) + (b > 0 ? b * ew_log64(1 - x) : 0);
        sum += weight * ew_exp64(log_value - top);
    }
    return sum * (to - from) / (3 * STEPS);
}

static double probability_ahead(double leader, double runner_up) {
    double below = beta_integral(leader, runner_up, 0, 0.5), above = beta_integral(leader, runner_up, 0.5, 1);
    return above / (above + below);
}

ew_status ew_vote_certainty(const ew_ballots *ballots, size_t n_left, double *probability, ew_error *error) {
    party *parties;
    *probability = 0;
    ew_status status = gather(ballots, &parties, error);
    if (status != EW_OK) {
        return status;
    }
    const party *leader = leader_of(ballots, parties, NULL);
    if (leader && n_left == 0) {
        *probability = 1;
    } else if (leader && ballots->rule != EW_VOTE_BEST) {
        const party *second = leader_of(ballots, parties, leader);
        double ahead = amount(ballots->rule, leader), behind = second ? amount(ballots->rule, second) : 0;
        /* A score is 1 at most, and so is a vote. */
        *probability = ahead > behind + (double)n_left ? 1 : probability_ahead(ahead, behind);
    }
    free(parties);
    return EW_OK;
}
