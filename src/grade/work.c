#include "grade/work.h"

#include <stdlib.h>

typedef struct ew_work_chunk {
    struct ew_work_chunk *next;
    _Alignas(16) char bytes[];
} ew_work_chunk;

void ew_work_begin(ew_work *work) {
    work->chunks = NULL;
    work->at = work->first;
    work->end = work->first + EW_WORK_FIRST;
    work->total = 0;
    work->fuel = EW_WORK_FUEL;
    work->memory_out = false;
    work->exhausted = false;
}

ew_work_mark ew_work_marked(const ew_work *work) {
    return (ew_work_mark){work->chunks, work->at, work->end, work->total};
}

void ew_work_rewind(ew_work *work, ew_work_mark mark) {
    while (work->chunks != mark.chunks) {
        ew_work_chunk *chunk = work->chunks;
        work->chunks = chunk->next;
        free(chunk);
    }
    work->at = mark.at;
    work->end = mark.end;
    work->total = mark.total;
}

void ew_work_end(ew_work *work) {
    ew_work_rewind(work, (ew_work_mark){0});
}

/* Under AddressSanitizer every allocation is a malloc of its own, so that it sees where each one ends. */
#if defined(__SANITIZE_ADDRESS__)
#define EW_WORK_SEPARATE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EW_WORK_SEPARATE 1
#endif
#endif
#ifdef EW_WORK_SEPARATE
enum { SEPARATE = 1, LEAST_CHUNK = 0 };
#else
enum { SEPARATE = 0, LEAST_CHUNK = 65536 };
#endif

static bool add_chunk(ew_work *work, size_t size) {
    size_t wanted = size > LEAST_CHUNK ? size : LEAST_CHUNK;
    if (size > EW_WORK_LIMIT || work->total + wanted > EW_WORK_LIMIT) {
        work->exhausted = true;
        return false;
    }
    ew_work_chunk *chunk = malloc(sizeof *chunk + wanted);
    if (!chunk) {
        work->memory_out = true;
        return false;
    }
    chunk->next = work->chunks;
    work->chunks = chunk;
    work->total += wanted;
    work->at = chunk->bytes;
    work->end = chunk->bytes + wanted;
    return true;
}

void *ew_work_allocate(ew_work *work, size_t size) {
    if (size > EW_WORK_LIMIT) {
        work->exhausted = true;
        return NULL;
    }
    if (SEPARATE && !ew_work_stopped(work) && ew_work_spend(work, 200)) { /* and each takes that much longer */
        return add_chunk(work, size) ? (work->at = work->end, work->chunks->bytes) : NULL;
    }
    size = (size + 15) & ~(size_t)15;
    if (ew_work_stopped(work) || ((size_t)(work->end - work->at) < size && !add_chunk(work, size))) {
        return NULL;
    }
    void *result = work->at;
    work->at += size;
    return result;
}
