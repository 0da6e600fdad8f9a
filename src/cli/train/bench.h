/* edgewise bench --train. */
#ifndef EW_CLI_TRAIN_BENCH_H
#define EW_CLI_TRAIN_BENCH_H

/* argv[0] is "bench"; --train stands among the arguments. */
int ew_cli_bench_train(int argc, char **argv);

#endif
