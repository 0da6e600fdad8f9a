/* The memory and the time one grading may take. Everything a grading makes lives in its workspace and is
 * given back at once; when the workspace is used up, or its fuel burnt, the grading goes on without what it
 * could not compute. */
#ifndef EW_GRADE_WORK_H
#define EW_GRADE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EW_WORK_FIRST = 16384,   /* bytes that need no malloc; an ordinary grading stays within them */
    EW_WORK_LIMIT = 8 << 20, /* bytes in all */
    EW_WORK_FUEL = 4 << 20   /* about one nanosecond each */
};

typedef struct ew_work {
    struct ew_work_chunk *chunks;
    char *at, *end;
    size_t total;
    int64_t fuel;
    bool memory_out; /* malloc refused: the caller returns EW_ERROR_MEMORY */
    bool exhausted;  /* a limit of ours was reached: undecided, not an error */
    _Alignas(16) char first[EW_WORK_FIRST];
} ew_work;

void ew_work_begin(ew_work *work);
void ew_work_end(ew_work *work);

/* Where a workspace stands, to give back what comes after. */
typedef struct ew_work_mark {
    struct ew_work_chunk *chunks;
    char *at, *end;
    size_t total;
} ew_work_mark;
ew_work_mark ew_work_marked(const ew_work *work);
void ew_work_rewind(ew_work *work, ew_work_mark mark);

/* `size` bytes, uninitialized, aligned to 16. NULL when memory or the limit is out (the flags say which). */
void *ew_work_allocate(ew_work *work, size_t size);

/* Takes `cost` off the fuel; false when none is left. */
static inline bool ew_work_spend(ew_work *work, int64_t cost) {
    work->fuel -= cost;
    if (work->fuel < 0) {
        work->exhausted = true;
    }
    return work->fuel >= 0;
}
/* True when nothing more can be computed. */
static inline bool ew_work_stopped(const ew_work *work) {
    return work->memory_out || work->exhausted;
}

#endif
