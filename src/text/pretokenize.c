#include "text/pretokenize.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static ew_status push(ew_pieces *pieces, size_t start, size_t end, ew_error *error) {
    if (!ew_grow((void **)&pieces->list, &pieces->capacity, pieces->count + 1, sizeof *pieces->list)) {
        return ew_fail_memory(error, (pieces->count + 1) * sizeof *pieces->list, "cutting a text");
    }
    pieces->list[pieces->count++] = (ew_piece){(uint32_t)start, (uint32_t)(end - start)};
    return EW_OK;
}

static ew_status push_part(ew_pretokenizer *scratch, size_t start, size_t end, bool matched,
                           ew_error *error) {
    size_t wanted = scratch->parts.count + 1;
    if (!ew_grow((void **)&scratch->matched, &scratch->matched_capacity, wanted, sizeof *scratch->matched)) {
        return ew_fail_memory(error, wanted, "cutting a text");
    }
    scratch->matched[wanted - 1] = matched;
    return push(&scratch->parts, start, end, error);
}

/* The piece at `base` as alternating stretches: what the pattern matches and what lies between. */
static ew_status find_parts(const ew_pattern *pattern, bool invert, const char *base, size_t length,
                            ew_pretokenizer *scratch, ew_error *error) {
    ew_match_cursor cursor = {0};
    size_t previous = 0;
    ew_status status = EW_OK;
    scratch->parts.count = 0;
    while (status == EW_OK) {
        bool found = false;
        size_t start = 0, end = 0;
        status =
            ew_pattern_next(pattern, &scratch->matcher, base, length, &cursor, &found, &start, &end, error);
        if (status != EW_OK || !found) {
            break;
        }
        if (previous != start) {
            status = push_part(scratch, previous, start, invert, error);
        }
        if (status == EW_OK) {
            status = push_part(scratch, start, end, !invert, error);
        }
        previous = end;
    }
    if (status == EW_OK && previous != length) {
        status = push_part(scratch, previous, length, invert, error);
    }
    return status;
}

/* Joins parts as the behavior says, in place. Each part either begins a piece or is joined to the neighbour
 * that the walk met before it; MergedWithNext walks backwards. */
static void join_parts(ew_pretokenizer *scratch, ew_split_behavior behavior) {
    ew_piece *list = scratch->parts.list;
    size_t count = scratch->parts.count, kept = 0;
    bool backwards = behavior == EW_SPLIT_MERGED_WITH_NEXT, previous = false;
    for (size_t i = 0; i < count; i++) {
        size_t from = backwards ? count - 1 - i : i;
        ew_piece part = list[from];
        bool matched = scratch->matched[from];
        bool join = behavior == EW_SPLIT_CONTIGUOUS ? matched == previous : matched && !previous;
        previous = matched;
        size_t last = backwards ? count - kept : kept - 1;
        if (join && kept > 0) {
            if (backwards) {
                list[last].start = part.start;
            }
            list[last].length += part.length;
        } else {
            list[backwards ? last - 1 : last + 1] = part;
            kept++;
        }
    }
    if (backwards && kept > 0) {
        memmove(list, list + count - kept, kept * sizeof *list);
    }
    scratch->parts.count = kept;
}

static ew_status split_piece(const ew_blob_step *step, const ew_pattern *pattern, ew_piece piece,
                             ew_pretokenizer *scratch, ew_error *error) {
    ew_status status =
        find_parts(pattern, step->invert != 0, scratch->text + piece.start, piece.length, scratch, error);
    if (status != EW_OK) {
        return status;
    }
    if (step->behavior != EW_SPLIT_ISOLATED && step->behavior != EW_SPLIT_REMOVED) {
        join_parts(scratch, (ew_split_behavior)step->behavior);
    }
    for (size_t i = 0; status == EW_OK && i < scratch->parts.count; i++) {
        bool removed = step->behavior == EW_SPLIT_REMOVED && scratch->matched[i];
        ew_piece part = scratch->parts.list[i];
        if (!removed && part.length > 0) {
            size_t start = (size_t)piece.start + part.start;
            status = push(&scratch->next, start, start + part.length, error);
        }
    }
    return status;
}

/* A space before every piece that has none yet, which needs a text of its own. */
static ew_status prefix_spaces(ew_pretokenizer *scratch, ew_error *error) {
    ew_buffer text = {0};
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < scratch->pieces.count; i++) {
        ew_piece piece = scratch->pieces.list[i];
        size_t start = text.length;
        if (scratch->text[piece.start] != ' ') {
            ew_buffer_append_text(&text, " ");
        }
        ew_buffer_append(&text, scratch->text + piece.start, piece.length);
        if (text.length > INT32_MAX) {
            status = ew_fail(error, EW_ERROR_ARGUMENT, "a text of 2 GiB or more cannot be tokenized at once");
        } else {
            status = push(&scratch->next, start, text.length, error);
        }
    }
    if (status == EW_OK && text.failed) {
        status = ew_fail_memory(error, text.length, "cutting a text");
    }
    if (status != EW_OK) {
        ew_buffer_free(&text);
        return status;
    }
    ew_buffer_free(&scratch->rewritten);
    scratch->rewritten = text;
    scratch->text = text.data;
    return EW_OK;
}

ew_status ew_pretokenize(const ew_tokenizer *tokenizer, const char *text, size_t length,
                         ew_pretokenizer *scratch, ew_error *error) {
    uint32_t n_steps = ew_section_count(tokenizer, EW_SECTION_STEPS);
    scratch->pieces.count = 0;
    scratch->text = text;
    if (length == 0) {
        return EW_OK;
    }
    ew_status status = push(&scratch->pieces, 0, length, error);
    for (uint32_t s = 0; status == EW_OK && s < n_steps && scratch->pieces.count > 0; s++) {
        const ew_blob_step *step = &tokenizer->steps[s];
        scratch->next.count = 0;
        if (step->kind == EW_STEP_PREFIX_SPACE) {
            status = prefix_spaces(scratch, error);
        }
        for (size_t i = 0; status == EW_OK && step->kind != EW_STEP_PREFIX_SPACE && i < scratch->pieces.count;
             i++) {
            status = split_piece(step, tokenizer->patterns[s], scratch->pieces.list[i], scratch, error);
        }
        ew_pieces done = scratch->next;
        scratch->next = scratch->pieces;
        scratch->pieces = done;
    }
    return status;
}

void ew_pretokenizer_free(ew_pretokenizer *scratch) {
    free(scratch->pieces.list);
    free(scratch->next.list);
    free(scratch->parts.list);
    free(scratch->matched);
    ew_buffer_free(&scratch->rewritten);
    ew_matcher_free(&scratch->matcher);
    *scratch = (ew_pretokenizer){0};
}
