/* The state of a training run as a file: parameters, the optimizer's moments, and where it stands. */
#ifndef EW_TRAIN_CHECKPOINT_H
#define EW_TRAIN_CHECKPOINT_H

#include "train/optimizer.h"

/* What has to be the same for a run to go on: one line. */
typedef struct ew_train_state {
    uint64_t step; /* steps done */
    const char *settings;
} ew_train_state;

/* Writes a safetensors file that appears under its name when it is complete. Float build only. */
ew_status ew_train_save(const char *path, const ew_parameters *parameters, const ew_adamw *optimizer,
                        const ew_train_state *state, ew_error *error);

/* Reads it back into parameters and optimizer of the same shape. EW_ERROR_FORMAT when it is no such file, is of another
 * network, or was started with other settings (state->settings); state->step is set. */
ew_status ew_train_load(const char *path, ew_parameters *parameters, ew_adamw *optimizer, ew_train_state *state,
                        ew_error *error);

#endif
