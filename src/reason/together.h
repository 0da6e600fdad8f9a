/* Several pieces of work on one session at once, each written as if it were alone: an answer to each of many problems, for
 * instance.
 *
 * Each worker is a thread with a source of its own, and only one of them runs at a time, until it wants a batch. When all
 * want one or have ended, their inputs go through the model together. So workers may share what they like without
 * locks, and a worker's logits do not depend on the others (docs/arithmetic.md): what it draws is what it would draw
 * alone. */
#ifndef EW_REASON_TOGETHER_H
#define EW_REASON_TOGETHER_H

#include "reason/source.h"

/* Runs `work` n_workers times, with sources that evaluate through `base`. When one fails, or a batch is cancelled, the
 * others get EW_ERROR_CANCELLED for their next batch; the first failure is the result. Fewer workers run where the
 * system gives no threads. */
ew_status ew_together(const ew_source *base, size_t n_workers,
                      ew_status (*work)(void *context, const ew_source *source, ew_error *error), void *context,
                      ew_error *error);

#endif
