#include "reason/limits.h"
#include "base/memory.h"

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* What an answer is kept of `whole` tokens. */
static size_t share_of(size_t whole, size_t answer) {
    size_t quarter = whole / 4 > 0 ? whole / 4 : 1;
    return smaller(answer, quarter);
}

ew_status ew_limits_make(const ew_policy *policy, bool thinks, size_t n_closing, size_t n_prompt, size_t context_length,
                         ew_limits *limits, ew_error *error) {
    size_t room = n_prompt < context_length ? context_length - n_prompt : 0;
    size_t least = thinks ? n_closing + 2 : 1; /* a token of thinking, its closing, a token of the answer */
    *limits = (ew_limits){.thinking = policy->thinking_budget,
                          .answer = policy->answer_tokens,
                          .total = policy->total_budget,
                          .closing = n_closing,
                          .kept = share_of(policy->total_budget, policy->answer_tokens),
                          .context = context_length,
                          .context_kept = share_of(room, policy->answer_tokens)};
    if (policy->total_budget < least) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "a total budget of %zu tokens holds no reply%s: at least %zu are needed", policy->total_budget,
                       thinks ? " that thinks" : "", least);
    }
    if (room < least) {
        return ew_fail(error, EW_ERROR_CONTEXT,
                       "a prompt of %zu tokens leaves no room for a reply%s in a context of %zu: %zu more are needed",
                       n_prompt, thinks ? " that thinks" : "", context_length, least);
    }
    return EW_OK;
}

/* No more than `wanted` of the whole is left. */
static bool is_short(size_t whole, size_t used, size_t wanted) {
    return used >= whole || whole - used <= wanted;
}

ew_thinking_end ew_limits_cut(const ew_limits *limits, size_t n_thinking, size_t n_tokens, size_t n_positions) {
    if (n_thinking >= limits->thinking) {
        return EW_THINKING_BUDGET;
    }
    if (limits->total != EW_NO_LIMIT && is_short(limits->total, n_tokens, limits->closing + limits->kept)) {
        return EW_THINKING_BUDGET;
    }
    return is_short(limits->context, n_positions, limits->closing + limits->context_kept) ? EW_THINKING_CONTEXT
                                                                                          : EW_THINKING_NONE;
}

size_t ew_limits_most(const ew_limits *limits, bool thinks) {
    size_t sum = limits->answer;
    if (thinks && (sum == EW_NO_LIMIT || limits->thinking == EW_NO_LIMIT || !ew_add_size(sum, limits->thinking, &sum) ||
                   !ew_add_size(sum, limits->closing, &sum))) {
        sum = EW_NO_LIMIT;
    }
    return smaller(sum, limits->total);
}
