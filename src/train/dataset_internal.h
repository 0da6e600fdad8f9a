/* From one line to its examples; what dataset.c and dataset_line.c share. */
#ifndef EW_TRAIN_DATASET_INTERNAL_H
#define EW_TRAIN_DATASET_INTERNAL_H

#include "train/dataset.h"

/* Appends an example; while a set is read, examples have no ids and weights yet (ew_dataset_settle). `weights` NULL:
 * all 1 but the first. */
ew_status ew_dataset_append(ew_dataset *dataset, size_t line, const int32_t *ids, const float *weights, size_t length,
                            size_t prompt_length, ew_error *error);

/* Appends the examples of line `number`. EW_ERROR_FORMAT: the line is to be dropped, *reason and the error's sentence
 * say why; what it gave before that stays. Any other error is the set's. */
ew_status ew_dataset_line(ew_dataset *dataset, const ew_dataset_options *options, ew_string line, size_t number,
                          ew_drop_reason *reason, ew_error *error);

#endif
