/* Checks of guarded memory: each fault ends a child with a line that names the block.
 *
 * Takes: FACULA_GUARD, `1` or `begin`.
 * Gives: exit status 0, or a line per failed check and 1. */
#include "fk_launch.h"
#include "fk_storage.h"
#include "fk_pool.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include "check.h"

static volatile char sink;

/* ---- what children do ---- */

static void read_behind(void) {
    fk_storage *s = fk_storage_new(12);
    sink = s->data[12];
}

static void read_before(void) {
    fk_storage *s = fk_storage_new(12);
    sink = s->data[-1];
}

static void write_behind(void) {
    fk_storage *s = fk_storage_new(4096 + 12);
    s->data[4096 + 12 + 2] = 1;
}

static void write_behind_then_free(void) {
    fk_storage *s = fk_storage_new(12);
    ((volatile char *)s->data)[13] = 1;
    fk_storage_decref(s);
}

static void write_before_then_free(void) {
    fk_storage *s = fk_storage_new(12);
    ((volatile char *)s->data)[-3] = 1;
    fk_storage_decref(s);
}

static void read_freed(void) {
    fk_storage *s = fk_storage_new(1000), *volatile other;
    char *data = s->data;
    fk_storage_decref(s);
    for (int i = 0; i < 100; i++) other = fk_storage_new(1000);
    (void)other;
    sink = data[10];
}

static void free_twice(void) {
    fk_storage *volatile s = fk_storage_new(64);
    fk_storage_decref(s);
    fk_storage_decref(s);
}

static void scratch_behind(void) {
    char *data = fk_scratch(128);
    data[128] = 1;
}

static void scratch_behind_then_free(void) {
    char *data = fk_scratch(70);
    ((volatile char *)data)[71] = 1; /* between the length asked for and the aligned one */
    fk_scratch_release(data);
}

static void scratch_freed(void) {
    char *data = fk_scratch(70);
    fk_scratch_release(data);
    sink = data[0];
}

static void out_of_a_worker(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    for (int64_t i = begin; i < end; i++) p[0][i] = 1;
}

static void worker_behind(void) {
    fk_set_num_threads(4);
    char *p[1] = {fk_storage_new(1 << 16)->data};
    fk_parallel(out_of_a_worker, p, NULL, NULL, (1 << 16) + 1, 1);
}

/* ---- what is expected ---- */

typedef struct fk_case {
    void (*action)(void);
    int at_end, at_begin; /* the signal */
    const char *end, *begin;
} fk_case;

static const fk_case cases[] = {
    {read_behind, SIGSEGV, 0, "0 bytes behind the end of a storage of 12 bytes", ""},
    {read_before, 0, SIGSEGV, "", "1 bytes before the begin of a storage of 12 bytes"},
    {write_behind, SIGSEGV, 0, "write at ", ""},
    {write_behind_then_free, SIGSEGV, SIGABRT, "1 bytes behind the end of a storage of 12 bytes",
        "1 bytes behind the end of a storage of 12 bytes"},
    {write_before_then_free, SIGABRT, SIGSEGV, "3 bytes before the begin of a storage of 12 bytes",
        "3 bytes before the begin of a storage of 12 bytes"},
    {read_freed, SIGSEGV, SIGSEGV, "at byte 10 of a storage of 1000 bytes",
        "at byte 10 of a storage of 1000 bytes"},
    {read_freed, SIGSEGV, SIGSEGV, "freed before", "freed before"},
    {free_twice, SIGSEGV, SIGSEGV, "a storage of 64 bytes", "a storage of 64 bytes"},
    {scratch_behind, SIGSEGV, 0, "0 bytes behind the end of scratch memory of 128 bytes", ""},
    {scratch_behind_then_free, SIGABRT, SIGABRT, "1 bytes behind the end of scratch memory of 70",
        "1 bytes behind the end of scratch memory of 70"},
    {scratch_freed, SIGSEGV, SIGSEGV, "at byte 0 of scratch memory of 70 bytes",
        "at byte 0 of scratch memory of 70 bytes"},
    {worker_behind, SIGSEGV, 0, "0 bytes behind the end of a storage of 65536 bytes", ""},
};

/* Runs the action in a child; what it said comes into `text`, its signal back. */
static int run(void (*action)(void), char *text, size_t size) {
    int ends[2], status = 0;
    fflush(stdout);
    if (pipe(ends)) return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        action();
        _exit(0);
    }
    close(ends[1]);
    size_t had = 0;
    for (ssize_t got; had < size - 1 && (got = read(ends[0], text + had, size - 1 - had)) > 0;)
        had += (size_t)got;
    text[had] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void check_cases(int begins) {
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2000];
        int number = run(cases[i].action, text, sizeof text);
        int wanted = begins ? cases[i].at_begin : cases[i].at_end;
        const char *part = begins ? cases[i].begin : cases[i].end;
        int lines = 0;
        for (char *at = text; *at; at++) lines += *at == '\n';
        if (number == wanted && strstr(text, part) && lines == (wanted != 0)) continue;
        printf("case %u: signal %d instead of %d: %s\n", i, number, wanted, text);
        failures++;
    }
}

/* What is within bounds goes well, at every size; the check of all finds damage and its place. */
static void check_life(int begins) {
    enum { COUNT = 300 };
    fk_storage *s[COUNT];
    char text[400];
    for (int i = 0; i < COUNT; i++) {
        int64_t size = (int64_t)i * i * (i % 7 ? 1 : 30);
        s[i] = fk_storage_new(size);
        CHECK(s[i]->nbytes == size && s[i]->refs == 1);
        CHECK(((uintptr_t)(s[i]->data + (begins ? 0 : size)) & 4095) == 0);
        int64_t filled = size < FK_GUARD_FILLED ? size : FK_GUARD_FILLED;
        for (int64_t k = 0; k < filled; k++) CHECK(s[i]->data[k] == (char)FK_GUARD_BYTE);
        memset(s[i]->data, i, (size_t)size);
    }
    CHECK(fk_memory_check(text, sizeof text) == COUNT);
    char *place = s[40]->data + (begins ? 1601 : -5), kept = *place;
    *place = 7;
    CHECK(fk_memory_check(text, sizeof text) == -1);
    CHECK(strstr(text, "a storage of 1600 bytes") && strstr(text, "it holds 0x07"));
    CHECK(strstr(text, begins ? "1 bytes behind" : "5 bytes before"));
    *place = kept;
    CHECK(fk_memory_check(text, sizeof text) == COUNT);
    CHECK(fk_storage_resize(s[5], 4000) == 0 && s[5]->data[24] == 5);
    s[5]->data[3999] = 1;
    CHECK(fk_storage_resize(s[5], 3) == 0 && fk_storage_resize(s[5], 30) == 0);
    CHECK(s[5]->data[2] == 5);
    for (int i = 0; i < COUNT; i++) fk_storage_decref(s[i]);
    CHECK(fk_memory.stats.live == 0 && fk_memory.stats.allocated == 0 && fk_cached() == 0);
    CHECK(fk_memory_check(text, sizeof text) == 0);
}

/* more blocks alive than there are mappings for: the others are plain, and counted */
static void check_many(void) {
    int64_t count = fk_guard.most + 100;
    fk_storage **s = malloc((size_t)count * sizeof *s);
    for (int64_t i = 0; i < count; i++) CHECK((s[i] = fk_storage_new(8)) != NULL);
    CHECK(fk_guard.unguarded == 100 && fk_guard.live == fk_guard.most);
    char *scratch = fk_scratch(1000);
    CHECK(scratch && ((uintptr_t)scratch & 63) == 0);
    fk_scratch_release(scratch);
    for (int64_t i = 0; i < count; i++) fk_storage_decref(s[i]);
    CHECK(fk_memory.stats.allocated == 0 && fk_cached() == 0 && fk_guard.live == 0);
    CHECK(fk_guard.kept_blocks == FK_GUARD_KEPT_BLOCKS);
    free(s);
}

/* freed pages go back to the system, and so do the oldest addresses */
static void check_quarantine(void) {
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 200; i++) {
        fk_storage *s = fk_storage_new(16 << 20);
        memset(s->data, 1, 16 << 20);
        fk_storage_decref(s);
    }
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    CHECK(fk_guard.kept <= FK_GUARD_KEPT && fk_guard.kept > FK_GUARD_KEPT / 2);
}

static void *scratch_user(void *unused) {
    (void)unused;
    for (int i = 0; i < 3000; i++) {
        int64_t bytes = i % 300;
        char *scratch = fk_scratch(bytes);
        memset(scratch, i, (size_t)bytes);
        fk_scratch_release(scratch);
    }
    return NULL;
}

static void check_threads(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, scratch_user, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(fk_guard.live == 0);
}

int main(void) {
    CHECK(fk_guard_on());
    int begins = fk_guard_begins();
    check_cases(begins);
    check_life(begins);
    check_threads();
    check_quarantine();
    check_many();
    if (failures) printf("%d failures\n", failures);
    return failures != 0;
}
