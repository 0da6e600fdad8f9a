/* The goldens, through the file that `edgewise logits --output` writes: F32 from the folder, however many tokens are
 * evaluated together. The command is $EDGEWISE. */
#include "golden.h"
#include "status.h"

#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

static const double tolerance = 1e-4;

static const char *command;
static char folder[] = "/tmp/edgewise-logits-XXXXXX", written[sizeof folder + 32];

/* "46,140,41", allocated. */
static char *join_ids(const int32_t *ids, size_t n) {
    char *text = calloc(n, 12), *end = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        end += sprintf(end, i ? ",%d" : "%d", (int)ids[i]);
    }
    return text;
}

static void run_logits(const char *model, const char *ids, const char *chunk) {
    const char *arguments[] = {"edgewise", "logits",  model, "--weights", "f32",   "--ids",
                               ids,        "--chunk", chunk, "--output",  written, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    extern char **environ;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0), 0);
    assert_int_equal(posix_spawn(&pid, command, &actions, NULL, (char *const *)(uintptr_t)arguments, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    posix_spawn_file_actions_destroy(&actions);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* `name` of the file [n][width] against the golden, which has some of the positions. */
static void check_rows(const ew_safetensors *file, const char *name, size_t n, const ew_safetensors *goldens,
                       const char *golden_name) {
    const ew_safetensors_tensor *got = golden_tensor(file, "%s", name);
    const ew_safetensors_tensor *wanted = golden_tensor(goldens, "%s", golden_name);
    const ew_safetensors_tensor *at = golden_tensor(goldens, "seq0.positions");
    assert_int_equal(got->type, EW_DTYPE_F32);
    assert_int_equal(wanted->type, EW_DTYPE_F32);
    assert_int_equal(got->n_dims, 2);
    assert_int_equal(got->shape[0], n);
    assert_int_equal(got->shape[1], wanted->shape[1]);
    assert_int_equal(wanted->shape[0], at->shape[0]);
    assert_true(at->shape[0] > 0);
    const int32_t *positions = (const int32_t *)(const void *)at->data;
    const float *ours = (const float *)(const void *)got->data, *theirs = (const float *)(const void *)wanted->data;
    size_t width = got->shape[1];
    for (size_t i = 0; i < at->shape[0]; i++) {
        for (size_t k = 0; k < width; k++) {
            double value = (double)ours[(size_t)positions[i] * width + k], golden = (double)theirs[i * width + k];
            if (!(fabs(value - golden) <= tolerance)) {
                fail_msg("%s of position %d: value %zu is %.8g, the golden %.8g", name, (int)positions[i], k, value,
                         golden);
            }
        }
    }
}

static void check_model(const char *name) {
    char relative[256], path[1024];
    snprintf(relative, sizeof relative, "goldens/forward/%s.json", name);
    json_t *root = golden_json(relative);
    snprintf(relative, sizeof relative, "goldens/forward/%s.safetensors", name);
    ew_safetensors *goldens = golden_tensors(relative);
    snprintf(relative, sizeof relative, "goldens/models/%s", name);
    assert_non_null(ew_test_shared(relative, path, sizeof path));
    assert_true(root && goldens); /* in tests/data, and so in every checkout */
    size_t n;
    int32_t *ids = golden_ids(json_object_get(json_array_get(json_object_get(root, "seqs"), 0), "ids"), &n);
    char *list = join_ids(ids, n);
    static const char *const chunks[] = {"1", "7", "128"};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        printf("  %s, chunk %s\n", name, chunks[i]);
        ew_safetensors *file;
        run_logits(path, list, chunks[i]);
        EW_ASSERT_OK(ew_safetensors_open(written, &file, error));
        check_rows(file, "logits", n, goldens, "seq0.logits");
        check_rows(file, "hidden", n, goldens, "seq0.hidden_after_final_norm");
        ew_safetensors_close(file);
        unlink(written);
    }
    free(list);
    free(ids);
    ew_safetensors_close(goldens);
    json_decref(root);
}

static void file_holds_the_goldens(void **state) {
    (void)state;
    check_model("qwen2-tiny");
    check_model("qwen3-tiny");
    check_model("llama-tiny");
}

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder)) {
        return -1;
    }
    snprintf(written, sizeof written, "%s/out.safetensors", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(written);
    return rmdir(folder);
}

int main(void) {
    command = getenv("EDGEWISE");
    if (!command) {
        fprintf(stderr, "EDGEWISE names the command\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_holds_the_goldens),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
