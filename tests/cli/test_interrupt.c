/* Ctrl-C, as long work and chats on a pipe and on a terminal meet it. The command is $EDGEWISE. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* Generous, for emulated and sanitized builds; nobody waits that long for a command that works. */
enum { SECONDS_TO_ANSWER = 60, SECONDS_TO_START = 120, SECONDS_TO_STOP = 300 };

/* What a child printed and nobody has asked for yet. */
typedef struct reader {
    int fd;
    bool ended;
    size_t n;
    char bytes[1 << 16];
} reader;

/* On a terminal `in` and `out` are one file, and `err` is not used. */
typedef struct child {
    pid_t pid; /* 0: ended, its code was taken */
    int in;
    reader out, err;
} child;

static const char *command;
static char model[1024], long_text[64]; /* "": there is none */
static child running;

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Starting and ending ---- */

static int forget_child(void **state) {
    (void)state;
    long_text[0] = '\0';
    running = (child){.in = -1, .out.fd = -1, .err = {.fd = -1, .ended = true}};
    return 0;
}

static int end_child(void **state) {
    if (running.pid > 0) {
        kill(running.pid, SIGKILL);
        waitpid(running.pid, NULL, 0);
    }
    const int files[] = {running.in, running.out.fd == running.in ? -1 : running.out.fd, running.err.fd};
    for (size_t i = 0; i < 3; i++) {
        if (files[i] >= 0) {
            close(files[i]);
        }
    }
    if (long_text[0]) {
        unlink(long_text);
    }
    return forget_child(state);
}

/* Spawned, not forked: emulators of other processors are not all good at fork. */
static void start(const posix_spawn_file_actions_t *actions, short flags, const char *const *arguments) {
    posix_spawnattr_t attributes;
    extern char **environ;
    assert_int_equal(posix_spawnattr_init(&attributes), 0);
    assert_int_equal(posix_spawnattr_setflags(&attributes, flags), 0);
    assert_int_equal(
        posix_spawn(&running.pid, command, actions, &attributes, (char *const *)(uintptr_t)arguments, environ), 0);
    posix_spawnattr_destroy(&attributes);
}

static void start_on_pipes(const char *const *arguments) {
    int in[2], out[2], err[2];
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    running.in = in[1];
    running.out.fd = out[0];
    running.err.fd = err[0];
    running.err.ended = false;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO), 0);
    start(&actions, 0, arguments);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    close(err[1]);
}

/* The first terminal that the leader of a new session opens controls it: a Ctrl-C there is a signal to the command. */
static void start_on_terminal(const char *const *arguments) {
    int fd, other;
    char name[128];
    struct termios mode;
    posix_spawn_file_actions_t actions;
    assert_int_equal(openpty(&fd, &other, NULL, NULL, NULL), 0);
    running.in = running.out.fd = fd;
    assert_int_equal(fcntl(fd, F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(fcntl(other, F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(ttyname_r(other, name, sizeof name), 0);
    /* Without NOFLSH the terminal may throw away, at a Ctrl-C, what the program prints just then. */
    assert_int_equal(tcgetattr(other, &mode), 0);
    mode.c_lflag |= NOFLSH;
    assert_int_equal(tcsetattr(other, TCSANOW, &mode), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, name, O_RDWR, 0), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO), 0);
    start(&actions, POSIX_SPAWN_SETSID, arguments);
    posix_spawn_file_actions_destroy(&actions);
    close(other);
}

/* ---- Talking ---- */

/* Takes what comes within a moment. A terminal that nobody holds any more is an error, where a pipe has an end. */
static void read_more(reader *from) {
    struct pollfd waiting = {.fd = from->fd, .events = POLLIN};
    if (from->n == sizeof from->bytes) {
        fail_msg("the command says too much");
    }
    if (poll(&waiting, 1, 50) > 0) {
        ssize_t n = read(from->fd, from->bytes + from->n, sizeof from->bytes - from->n);
        from->n += n > 0 ? (size_t)n : 0;
        from->ended = n == 0 || (n < 0 && errno != EINTR);
    }
}

/* Reads up to and with `text`; what stands behind it waits for the next call. True if `hint` was among it. */
static bool read_with(reader *from, const char *text, const char *hint, double seconds) {
    size_t length = strlen(text);
    double deadline = seconds_now() + seconds;
    const char *at;
    while (!(at = memmem(from->bytes, from->n, text, length))) {
        if (from->ended || seconds_now() > deadline) {
            fail_msg("waited for \"%s\"; what came is \"%.*s\"", text, (int)from->n, from->bytes);
        }
        read_more(from);
    }
    size_t used = (size_t)(at - from->bytes) + length;
    bool hinted = memmem(from->bytes, used, hint, strlen(hint));
    from->n -= used;
    memmove(from->bytes, from->bytes + used, from->n);
    return hinted;
}

static void read_until(reader *from, const char *text, double seconds) {
    read_with(from, text, text, seconds);
}

static void say(const char *text) {
    assert_int_equal(write(running.in, text, strlen(text)), strlen(text));
}

/* Reads all that is left. The exit code; of a child that died by a signal the signal's number below zero. */
static int await_end(double seconds) {
    double deadline = seconds_now() + seconds;
    int status;
    while (!running.out.ended || !running.err.ended) {
        if (seconds_now() > deadline) {
            fail_msg("still running after %.0f seconds; it said \"%.*s\"", seconds, (int)running.out.n,
                     running.out.bytes);
        }
        read_more(running.out.ended ? &running.err : &running.out);
    }
    assert_int_equal(waitpid(running.pid, &status, 0), running.pid);
    running.pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void sleep_seconds(double seconds) {
    struct timespec span = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&span, NULL);
}

/* ---- Tests ---- */

static void write_long_text(void) {
    snprintf(long_text, sizeof long_text, "/tmp/edgewise-interrupt-XXXXXX");
    FILE *file = fdopen(mkstemp(long_text), "w");
    assert_non_null(file);
    for (size_t i = 0; i < 200000; i++) {
        fputs("the quick brown fox ", file);
    }
    assert_int_equal(fclose(file), 0);
}

/* With the code that shells know, and without a result. */
static void long_work_ends(void **state) {
    (void)state;
    write_long_text();
    const char *arguments[] = {"edgewise", "perplexity", model, long_text, NULL};
    start_on_pipes(arguments);
    read_until(&running.err, "runs unquantized", SECONDS_TO_START); /* the last that it says before its work */
    sleep_seconds(1);
    kill(running.pid, SIGINT);
    assert_int_equal(await_end(SECONDS_TO_STOP), 130);
    assert_int_equal(running.out.n, 0);
}

/* A chat that waits for a pipe is long work too. */
static void chat_on_a_pipe_ends(void **state) {
    (void)state;
    const char *arguments[] = {"edgewise",      "chat", model,          "--weights", "f32",
                               "--temperature", "0",    "--max-tokens", "4",         NULL};
    start_on_pipes(arguments);
    say("hi\n");
    read_until(&running.out, "\n", SECONDS_TO_START);
    sleep_seconds(0.5);
    kill(running.pid, SIGINT);
    assert_int_equal(await_end(SECONDS_TO_ANSWER), 130);
}

/* The first Ctrl-C at the prompt says how to leave, the next message is answered, two leave. */
static void two_leave_a_chat(void **state) {
    (void)state;
    const char *arguments[] = {"edgewise",      "chat", model, "--max-tokens", "8", "--weights", "f32",
                               "--temperature", "0",    NULL};
    start_on_terminal(arguments);
    read_until(&running.out, "> ", SECONDS_TO_START);
    say("\003");
    read_until(&running.out, "/quit leaves", SECONDS_TO_ANSWER);
    read_until(&running.out, "> ", SECONDS_TO_ANSWER);
    say("hi\n");
    read_until(&running.out, "> ", SECONDS_TO_ANSWER);
    say("/stats\n");
    read_until(&running.out, "tokens/s", SECONDS_TO_ANSWER);
    say("\003");
    read_until(&running.out, "/quit leaves", SECONDS_TO_ANSWER);
    say("\003");
    assert_int_equal(await_end(SECONDS_TO_ANSWER), 0);
}

/* Begins a new chat and asks. True if the Ctrl-C after the first of the reply cut it; the reply may be over before. */
static bool cut_a_reply(size_t attempt) {
    char mark[32], answer[64];
    snprintf(mark, sizeof mark, "/mark%zu\n", attempt);
    snprintf(answer, sizeof answer, "/mark%zu is no command", attempt);
    say("/clear\n");
    say(mark); /* and so the prompt that follows is a new one */
    read_until(&running.out, answer, SECONDS_TO_ANSWER);
    read_until(&running.out, "> ", SECONDS_TO_ANSWER);
    say("hi\n");
    read_until(&running.out, "hi\r\n", SECONDS_TO_ANSWER);
    for (double deadline = seconds_now() + SECONDS_TO_ANSWER; running.out.n == 0 && seconds_now() < deadline;) {
        read_more(&running.out);
    }
    say("\003");
    say("/stats\n");
    return read_with(&running.out, "context ", "the reply was cut: interrupted", SECONDS_TO_ANSWER);
}

/* A reply that is under way ends, the chat goes on. */
static void reply_ends_and_chat_goes_on(void **state) {
    (void)state;
    const char *arguments[] = {"edgewise", "chat",          model, "--max-tokens", "0", "--weights",
                               "f32",      "--temperature", "30",  "--seed",       "9", NULL};
    bool cut = false;
    start_on_terminal(arguments);
    read_until(&running.out, "> ", SECONDS_TO_START);
    for (size_t attempt = 0; attempt < 50 && !cut; attempt++) {
        cut = cut_a_reply(attempt);
    }
    say("/quit\n");
    assert_int_equal(await_end(SECONDS_TO_ANSWER), 0);
    assert_true(cut);
}

int main(void) {
    command = getenv("EDGEWISE");
    if (!command || !ew_test_find("EDGEWISE_TEST_DATA", "goldens/models/qwen2-tiny", model, sizeof model)) {
        fprintf(stderr, "EDGEWISE names the command, EDGEWISE_TEST_DATA the folder tests/data\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_work_ends, forget_child, end_child),
        cmocka_unit_test_setup_teardown(chat_on_a_pipe_ends, forget_child, end_child),
        cmocka_unit_test_setup_teardown(two_leave_a_chat, forget_child, end_child),
        cmocka_unit_test_setup_teardown(reply_ends_and_chat_goes_on, forget_child, end_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
