#include "reason/loop.h"
#include "base/memory.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15); /* odd: no bits are lost */

static uint64_t value_of(int32_t token) {
    return (uint64_t)(uint32_t)token + 1;
}

/* Hash of tokens[begin .. begin + length - 1]: the sum of values by descending powers of the factor. */
static uint64_t hash_at(const ew_loop *loop, size_t begin) {
    uint64_t hash = 0;
    for (size_t i = 0; i < loop->length; i++) {
        hash = hash * factor + value_of(loop->tokens[begin + i]);
    }
    return hash;
}

static ew_loop_run *find_run(const ew_loop *loop, uint64_t hash, size_t begin) {
    size_t slot = (size_t)ew_random_mix(hash) & (loop->n_slots - 1);
    while (loop->runs[slot].first > 0 && memcmp(loop->tokens + loop->runs[slot].first - 1, loop->tokens + begin,
                                                loop->length * sizeof *loop->tokens) != 0) {
        slot = (slot + 1) & (loop->n_slots - 1);
    }
    return &loop->runs[slot];
}

static ew_status make_room(ew_loop *loop, ew_error *error) {
    if (loop->n_slots > 2 * loop->n_runs + 1) {
        return EW_OK;
    }
    size_t n_slots = loop->n_slots > 0 ? 2 * loop->n_slots : 256, n_old = loop->n_slots;
    ew_loop_run *old = loop->runs, *runs = ew_allocate(n_slots, sizeof *runs);
    if (!runs) {
        return ew_fail_memory(error, n_slots * sizeof *runs, "looking for loops");
    }
    loop->runs = runs;
    loop->n_slots = n_slots;
    for (size_t i = 0; i < n_old; i++) {
        if (old[i].first > 0) {
            *find_run(loop, hash_at(loop, old[i].first - 1), old[i].first - 1) = old[i];
        }
    }
    free(old);
    return EW_OK;
}

static void roll(ew_loop *loop) {
    size_t n = loop->n_tokens;
    if (n > loop->length) {
        loop->hash -= loop->power * value_of(loop->tokens[n - 1 - loop->length]);
    } else {
        loop->power = n == 1 ? 1 : loop->power * factor;
    }
    loop->hash = loop->hash * factor + value_of(loop->tokens[n - 1]);
}

ew_status ew_loop_add(ew_loop *loop, int32_t token, bool *found, ew_error *error) {
    *found = false;
    if (loop->length == 0) {
        return EW_OK;
    }
    if (!ew_grow((void **)&loop->tokens, &loop->capacity, loop->n_tokens + 1, sizeof *loop->tokens)) {
        return ew_fail_memory(error, loop->n_tokens * sizeof *loop->tokens, "looking for loops");
    }
    loop->tokens[loop->n_tokens++] = token;
    roll(loop);
    if (loop->n_tokens < loop->length) {
        return EW_OK;
    }
    ew_status status = make_room(loop, error);
    if (status != EW_OK) {
        return status;
    }
    size_t begin = loop->n_tokens - loop->length;
    ew_loop_run *run = find_run(loop, loop->hash, begin);
    if (run->first == 0) {
        *run = (ew_loop_run){.first = begin + 1, .last = begin, .count = 1};
        loop->n_runs++;
    } else if (begin - run->last >= loop->length) {
        run->last = begin;
        run->count++;
    }
    *found = run->count >= loop->repeats;
    return EW_OK;
}

void ew_loop_free(ew_loop *loop) {
    free(loop->tokens);
    free(loop->runs);
    *loop = (ew_loop){0};
}
