/* tiny-problems: quantity problems as JSON lines, the same ones for the same arguments. */
#include "problem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: tiny-problems [options] > FILE.jsonl\n\n"
    "Quantity problems in words, of one to five steps, with worked solutions. A line is an object with id, problem, "
    "answer,\n"
    "steps and kinds, and with solution unless it is a bare one.\n\n"
    "  --count N        how many (1000)\n"
    "  --seed N         other problems (0)\n"
    "  --steps N[-M]    steps of a problem (1-5)\n"
    "  --bare PERCENT   so many have no solution (0)\n"
    "  --test           of the tenth that is kept from training, by structure and numbers; else of the others\n"
    "  --unseen WHAT    words that training never has: names, objects or openings; may be given several times\n";

static int complain(const char *what, const char *value) {
    fprintf(stderr, "tiny-problems: %s%s%s\nTry: tiny-problems --help\n", what, value ? " " : "", value ? value : "");
    return 2;
}

static bool read_number(const char *text, unsigned long long most, unsigned long long *value) {
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *value <= most;
}

static bool read_steps(const char *text, tiny_request *request) {
    int n = 0;
    char least = text[0], most = text[0] && text[1] == '-' ? text[2] : text[0];
    n = text[0] && text[1] == '-' ? 3 : 1;
    request->least_steps = least - '0';
    request->most_steps = most - '0';
    return least >= '1' && least <= most && most <= '0' + TINY_MOST_STEPS && text[n] == '\0';
}

static bool read_unseen(const char *text, unsigned *unseen) {
    static const char *const names[] = {"names", "objects", "openings"};
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *unseen |= 1u << i;
            return true;
        }
    }
    return false;
}

/* All texts are the generator's own: letters, digits, spaces and stops, and line ends in solutions. */
static void print_text(const char *key, const char *text) {
    printf(", \"%s\": \"", key);
    for (; *text; text++) {
        if (*text == '\n') {
            fputs("\\n", stdout);
        } else {
            putchar(*text);
        }
    }
    putchar('"');
}

static void print_problem(const tiny_request *request, uint64_t index) {
    tiny_problem problem;
    tiny_make(request, index, &problem);
    printf("{\"id\": \"tiny-%s-%llu-%llu\"", request->test ? "test" : "train", (unsigned long long)request->seed,
           (unsigned long long)index);
    print_text("problem", problem.text);
    if (!problem.bare) {
        print_text("solution", problem.solution);
    }
    printf(", \"answer\": \"%d\", \"steps\": %d, \"kinds\": [", problem.answer, problem.n_steps);
    for (size_t i = 0; i < problem.n_kinds; i++) {
        printf("%s\"%s\"", i > 0 ? ", " : "", problem.kinds[i]);
    }
    printf("]}\n");
}

int main(int argc, char **argv) {
    tiny_request request = {.least_steps = 1, .most_steps = TINY_MOST_STEPS};
    unsigned long long count = 1000, number = 0;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        bool sound = true;
        if (strcmp(option, "--help") == 0) {
            fputs(help, stdout);
            return 0;
        }
        if (strcmp(option, "--test") == 0) {
            request.test = true;
            continue;
        }
        if (strcmp(option, "--count") == 0) {
            sound = read_number(value, UINT32_MAX, &count);
        } else if (strcmp(option, "--seed") == 0) {
            sound = read_number(value, UINT64_MAX, &number);
            request.seed = number;
        } else if (strcmp(option, "--bare") == 0) {
            sound = read_number(value, 100, &number);
            request.bare_percent = (int)number;
        } else if (strcmp(option, "--steps") == 0) {
            sound = read_steps(value, &request);
        } else if (strcmp(option, "--unseen") == 0) {
            sound = read_unseen(value, &request.unseen);
        } else {
            return complain("unknown option", option);
        }
        if (!sound) {
            return complain("no such value of", option);
        }
        i++;
    }
    for (unsigned long long index = 0; index < count && !ferror(stdout); index++) {
        print_problem(&request, index);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return complain("cannot write", NULL) - 1;
    }
    return 0;
}
