/* Making the kernel that OpenBLAS runs a good one. */
#ifndef EW_CLI_TRAIN_BLAS_H
#define EW_CLI_TRAIN_BLAS_H

/* OpenBLAS chooses its kernel when it is loaded, by a list of processors; one that is newer than the list gets an old one
 * (Prescott, six times slower). Where that has happened, the machine can do better and the user has not chosen one
 * (OPENBLAS_CORETYPE), this starts the program again with a better choice and does not return. */
void ew_blas_choose(char **argv);

#endif
