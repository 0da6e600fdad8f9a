/* For comparisons on machines where llama.cpp's AMX code fails: it asks Linux for the tile registers first, and falls back
 * to its repacked AVX-512 code when they are refused. Preloaded, this refuses them.
 *
 *   cc -shared -fPIC bench/refuse_amx.c -o refuse_amx.so
 *   LD_PRELOAD=$PWD/refuse_amx.so python3 bench/compare_llama.py ...
 *
 * Edgewise, started from there, would lose them too: the comparison starts it without the preload. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>

long syscall(long number, ...) {
    enum { REQUEST_STATE = 0x1023 };
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        arguments[i] = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_arch_prctl && arguments[0] == REQUEST_STATE) {
        errno = EPERM;
        return -1;
    }
    long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}
