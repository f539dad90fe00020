/* Checks of the storage and of the pool that need C: limits, resizing, nesting, concurrent
 * callers, fork.
 *
 * Takes: nothing.
 * Gives: exit status 0, or a line per failed check and 1. */
#include "fk_launch.h"
#include "fk_storage.h"
#include "fk_copy.h"
#include "fk_pool.h"
#include "fk_random.h"
#include <sys/wait.h>
#include "check.h"

static int released;
static void count_release(void *owner) { released += owner != NULL; }

static void check_classes(void) {
    int64_t before = -1;
    for (int c = 0; c < FK_LARGE_CLASS; c++) {
        int64_t bytes = fk_class_bytes(c);
        CHECK(bytes > before && (bytes & 63) == 0);
        if (before >= 0) CHECK(fk_size_class(before + 1) == c);
        CHECK(fk_size_class(bytes) == c);
        before = bytes;
    }
    CHECK(before == FK_SMALL_MOST);
}

static void check_storage(void) {
    int64_t sizes[] = {0, 1, 63, 64, 65, 1024, 1025, 4096, 100000, 1 << 19, (1 << 20) - 1, 1 << 20,
        5 << 20, 70 << 20};
    int64_t live = fk_memory.stats.live;
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            fk_storage *a = fk_storage_new(sizes[i]), *b = fk_storage_new(sizes[i]);
            CHECK(a && b && a != b && a->refs == 1 && a->nbytes == sizes[i] && !a->version &&
                  !a->flags);
            CHECK(((uintptr_t)a->data & 63) == 0 && ((uintptr_t)b->data & 63) == 0);
            memset(a->data, 1, (size_t)sizes[i]);
            memset(b->data, 2, (size_t)sizes[i]);
            CHECK(sizes[i] == 0 || (a->data[sizes[i] - 1] == 1 && b->data[0] == 2));
            fk_storage_incref(a);
            fk_storage_decref(a);
            CHECK(a->refs == 1);
            fk_storage_decref(a);
            fk_storage *c = fk_storage_new(sizes[i]);
            CHECK(c == a || sizes[i] > FK_SMALL_MOST); /* last in, first out */
            fk_storage_decref(b);
            fk_storage_decref(c);
        }
    CHECK(fk_memory.stats.live == live && fk_memory.stats.allocated == 0 && fk_cached() > 0);
    CHECK(fk_heap_consistent());
    CHECK(fk_storage_new(-1) == NULL && fk_storage_new(INT64_MIN) == NULL &&
          fk_storage_new(INT64_MAX) == NULL);
    CHECK(fk_cache_empty() > 0 && fk_cached() == 0);
    CHECK(fk_heap_consistent() && !fk_heap.regions);
}

static int64_t grown(void) { return fk_memory.stats.allocations; }

/* Large blocks are cut from what was freed, and joined again: new memory is only taken where none
 * of it is long enough. */
static void check_heap(void) {
    enum { COUNT = 24, MIB = 1 << 20 };
    fk_cache_empty();
    fk_storage *s[COUNT];
    for (int i = 0; i < COUNT; i++) s[i] = fk_storage_new(MIB);
    int64_t held = fk_memory.stats.allocated, before = grown();
    for (int i = 0; i < COUNT; i += 2) fk_storage_decref(s[i]);
    CHECK(fk_heap_consistent() && fk_cached() >= COUNT / 2 * MIB);
    for (int i = 0; i < COUNT; i += 2) s[i] = fk_storage_new(MIB - 5000 * i); /* into the gaps */
    CHECK(grown() == before && fk_memory.stats.allocated <= held);
    for (int i = 0; i < COUNT; i++) fk_storage_decref(s[(i * 7) % COUNT]);
    CHECK(fk_heap_consistent() && fk_cached() == held);
    fk_storage *whole = fk_storage_new(COUNT * MIB); /* of all of them */
    CHECK(whole && grown() == before);
    fk_storage_decref(whole);
    whole = fk_storage_new((COUNT + 4) * MIB); /* what is there, and a little more */
    CHECK(whole && fk_cached() == 0 && grown() == before + 1);
    memset(whole->data, 1, (COUNT + 4) * MIB);
    fk_storage_decref(whole);
    fk_heap_trim(3 * MIB);
    CHECK(fk_heap_consistent() && fk_cached() <= 3 * MIB && fk_cached() > MIB);
    fk_cache_empty();
    for (int i = 0; i < COUNT; i++) s[i] = fk_storage_new(i % 2 ? 3 * MIB : 200000);
    CHECK(fk_heap_consistent());
    for (int i = 0; i < COUNT; i++) fk_storage_decref(s[i]);
    CHECK(fk_heap_consistent());
    fk_cache_empty();
    CHECK(fk_heap_consistent() && !fk_heap.regions);
}

static void check_foreign(void) {
    static char memory[100];
    fk_storage *s = fk_storage_from(memory, 100, memory, count_release);
    CHECK(s->data == memory && s->flags == FK_FOREIGN && fk_storage_resize(s, 200) == -2);
    fk_storage_decref(s);
    CHECK(released == 1);
    fk_storage *meta = fk_storage_meta((int64_t)1 << 40);
    CHECK(meta->data == NULL && meta->flags == FK_META && meta->nbytes == (int64_t)1 << 40);
    CHECK(fk_storage_resize(meta, 5) == 0 && meta->nbytes == 5);
    fk_storage_decref(meta);
}

static void check_resize(void) {
    fk_storage *s = fk_storage_new(10);
    memset(s->data, 7, 10);
    CHECK(fk_storage_resize(s, 64) == 0 && s->nbytes == 64 && fk_storage_resize(s, -1) == -1);
    for (int64_t size = 100; size < 4 << 20; size *= 3) {
        CHECK(fk_storage_resize(s, size) == 0 && s->nbytes == size && s->data[9] == 7);
        memset(s->data + 10, 1, (size_t)size - 10);
    }
    CHECK(fk_storage_resize(s, 5) == 0 && s->data[4] == 7);
    s->flags |= FK_NO_RESIZE;
    CHECK(fk_storage_resize(s, 6) == -2);
    fk_storage_decref(s);
    CHECK(fk_memory.stats.allocated == 0);
    fk_storage *again = fk_storage_new(10);
    CHECK(again->data == (char *)again + FK_STORAGE_HEADER);
    fk_storage_decref(again);
}

/* the storages alive beyond `before` */
static int64_t alive(int64_t before) { return fk_memory.stats.live - before; }

static void check_launches(void) {
    int64_t before = fk_memory.stats.live;
    fk_storage_give_up(fk_storage_new(10));
    CHECK(alive(before) == 0); /* nobody runs */
    int first = fk_launch_begin();
    fk_storage_give_up(fk_storage_new(10));
    CHECK(alive(before) == 1);
    int second = fk_launch_begin(); /* began later: it keeps the second one back, not the first */
    fk_storage_give_up(fk_storage_new(100000));
    CHECK(alive(before) == 2);
    fk_launch_end(first);
    CHECK(alive(before) == 1);
    int third = fk_launch_begin();
    fk_launch_end(second);
    CHECK(alive(before) == 0);
    fk_launch_end(third);
    int running = fk_launch_begin(); /* some launch runs at every moment */
    for (int i = 0; i < 1000; i++) {
        fk_storage_give_up(fk_storage_new(64));
        int next = fk_launch_begin();
        fk_launch_end(running);
        running = next;
        CHECK(alive(before) <= 2);
    }
    fk_launch_end(running);
    CHECK(alive(before) == 0);
    fk_storage *s = fk_storage_new(10); /* of a block that a resize replaces */
    CHECK(fk_storage_resize(s, 2000) == 0);
    char *data = s->data;
    memset(data, 3, 2000);
    running = fk_launch_begin();
    CHECK(fk_storage_resize(s, 100000) == 0 && s->data != data && s->data[1999] == 3);
    fk_storage *other = fk_storage_new(2000);
    CHECK(other->data != data && alive(before) == 4);
    fk_launch_end(running);
    CHECK(alive(before) == 3);
    fk_storage_decref(other);
    fk_storage_decref(s);
    CHECK(alive(before) == 0);
}

static void check_limits(void) {
    fk_cache_empty();
    fk_cache_set_limit(8 << 20);
    fk_storage *s[8];
    for (int i = 0; i < 8; i++) s[i] = fk_storage_new(((int64_t)i + 2) << 20);
    for (int i = 0; i < 8; i++) fk_storage_decref(s[i]);
    CHECK(fk_cached() <= 8 << 20 && fk_cached() > 0);
    fk_storage *small = fk_storage_new(100); /* small blocks push old large ones out */
    fk_storage_decref(small);
    CHECK(fk_cached() <= 8 << 20);
    fk_cache_set_limit(0);
    CHECK(fk_cached() == 0);
    small = fk_storage_new(100);
    fk_storage_decref(small);
    CHECK(fk_cached() == 0);
    fk_cache_set_limit(-1);
    CHECK(fk_memory.cache_limit > 0);
    fk_memory_set_limit(16 << 20);
    fk_storage *a = fk_storage_new(10 << 20);
    CHECK(a && fk_storage_new(10 << 20) == NULL && fk_memory.stats.failures > 0);
    fk_storage_decref(a);
    int64_t flushes = fk_memory.stats.flushes;
    a = fk_storage_new(14 << 20); /* the cached block must go first */
    CHECK(a && fk_memory.stats.flushes == flushes + 1);
    fk_storage_decref(a);
    fk_memory_set_limit(0);
    fk_memory_reset_peak();
    CHECK(fk_memory_get_stats().peak == 0);
    fk_cache_empty();
}

static void check_random_life(void) {
    enum { COUNT = 200 };
    fk_storage *s[COUNT] = {0};
    fk_cache_set_limit(64 << 20);
    for (int64_t i = 0; i < 20000; i++) {
        uint32_t r[4];
        fk_philox(1, 1, (uint64_t)i, r);
        unsigned k = r[0] % COUNT;
        if (s[k]) {
            CHECK(s[k]->nbytes == 0 || s[k]->data[s[k]->nbytes - 1] == (char)k);
            fk_storage_decref(s[k]);
            s[k] = NULL;
        } else {
            int64_t size = (int64_t)(r[1] >> (10 + r[2] % 22));
            s[k] = fk_storage_new(size);
            if (size) s[k]->data[0] = s[k]->data[size - 1] = (char)k;
        }
        CHECK(fk_cached() <= fk_memory.cache_limit);
        if (i % 16 == 0) CHECK(fk_heap_consistent());
    }
    for (int k = 0; k < COUNT; k++)
        if (s[k]) fk_storage_decref(s[k]);
    CHECK(fk_heap_consistent());
    CHECK(fk_memory.stats.allocated == 0 && fk_memory.stats.live == 0);
    fk_cache_empty();
    fk_cache_set_limit(-1);
}

/* ---- the pool ---- */

static void mark(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    for (int64_t i = begin; i < end; i++) p[0][i]++;
}

static void nested(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)s;
    for (int64_t i = begin; i < end; i++) {
        char *row[1] = {p[0] + i * n[0]};
        fk_runtime_table.parallel(mark, row, n, s, n[0], 1);
    }
}

static int all_ones(const char *marks, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (marks[i] != 1) return 0;
    return 1;
}

static void *caller(void *unused) {
    (void)unused;
    for (int64_t i = 0; i < 2000; i++) {
        char marks[777] = {0}, *p[1] = {marks};
        fk_parallel(mark, p, NULL, NULL, 777 - i % 5, 1 + i % 300);
        if (!all_ones(marks, 777 - i % 5)) __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
        int64_t bytes = i % 50 ? 1000 * (i % 17) : 5 << 20;
        void *scratch = fk_scratch(bytes);
        memset(scratch, 1, (size_t)bytes);
        fk_scratch_release(scratch);
    }
    return NULL;
}

static void check_pool(void) {
    CHECK(fk_runtime_table.threads() >= 1);
    int counts[] = {0, 1, 2, 3, 8, 2};
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        fk_set_num_threads(counts[i]);
        CHECK(counts[i] == 0 || fk_get_num_threads() == counts[i]);
        caller(NULL);
    }
    static char grid[50 * 40];
    char *p[1] = {grid};
    int64_t n[1] = {40};
    fk_parallel(nested, p, n, NULL, 50, 1);
    CHECK(all_ones(grid, sizeof grid));
    fk_parallel(mark, p, NULL, NULL, 0, 1);
    fk_parallel(mark, p, NULL, NULL, -3, 0);
    CHECK(all_ones(grid, sizeof grid));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, caller, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(fk_scratch(-1) == NULL && fk_scratch(INT64_MAX) == NULL);
    void *scratch = fk_scratch(3 << 20);
    CHECK(((uintptr_t)scratch & 63) == 0);
    fk_scratch_release(scratch);
    CHECK(fk_scratch(3 << 20) == scratch);
    fk_scratch_release(scratch);
    CHECK(fk_scratch_empty() > 0);
    for (int64_t bytes = FK_SCRATCH_LONG - 9000; bytes < FK_SCRATCH_LONG + 9000; bytes += 61) {
        scratch = fk_scratch(bytes); /* each goes back to where it came from */
        memset(scratch, 1, (size_t)bytes);
        fk_scratch_release(scratch);
        fk_scratch_empty();
        CHECK(fk_heap_consistent());
    }
    fk_cache_empty();
    for (int i = 0; i < 3; i++) { /* long ones are the heap's */
        scratch = fk_scratch(40 << 20);
        CHECK(((uintptr_t)scratch & 63) == 0 && (i == 0 || fk_cached() < 1 << 20));
        memset(scratch, 1, 40 << 20);
        fk_scratch_release(scratch);
        CHECK(fk_cached() >= 40 << 20 && fk_heap_consistent());
    }
    fk_storage *tensor = fk_storage_new(39 << 20);
    CHECK(fk_cached() < 2 << 20);
    fk_storage_decref(tensor);
}

static void check_fork(void) {
    caller(NULL);
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            int idle = fk_pool.workers == 0;
            caller(NULL);
            _exit(failures || !idle);
        }
        int status = 1;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        caller(NULL);
    }
}

/* blocks at the very end of an allocation, for the sanitizers */
static void check_blocks(void) {
    int items[] = {1, 2, 4, 8, 16};
    for (int k = 0; k < 5; k++)
        for (int64_t rows = 1; rows < 40; rows += 3)
            for (int64_t columns = 1; columns < 40; columns += 2) {
                int64_t item = items[k], bytes = rows * columns * item;
                char *a = malloc((size_t)bytes), *b = malloc((size_t)bytes),
                     *c = malloc((size_t)bytes);
                for (int64_t i = 0; i < bytes; i++) a[i] = (char)(i * 7);
                fk_copy_block(
                    (int)item, a, item, rows * item, b, columns * item, item, rows, columns);
                fk_copy_block(
                    (int)item, b, item, columns * item, c, rows * item, item, columns, rows);
                CHECK(!memcmp(a, c, (size_t)bytes));
                CHECK(!memcmp(b + (bytes - item), a + (bytes - item), (size_t)item));
                free(a), free(b), free(c);
            }
}

/* the last item read and written is the last of its allocation */
static void check_weave_and_pick(void) {
    for (int item = 1; item <= 8; item *= 2)
        for (int64_t step = 2; step <= 4; step++)
            for (int64_t n = 16; n < 200; n += 7) {
                int64_t wide = ((n - 1) * step + 1) * item;
                char *a = malloc((size_t)(n * step * item)), *b = malloc((size_t)(n * step * item));
                char *picked = malloc((size_t)(n * item)), *sparse = malloc((size_t)wide);
                for (int64_t i = 0; i < n * step * item; i++) a[i] = (char)(i * 5);
                fk_copy_block(item, a, item, n * item, b, step * item, item, n, step);
                memcpy(sparse, b, (size_t)wide);
                fk_copy_block(item, sparse, 0, step * item, picked, 0, item, 1, n);
                CHECK(!memcmp(picked, a, (size_t)(n * item)));
                free(a), free(b), free(picked), free(sparse);
            }
}

int main(void) {
    check_classes();
    check_weave_and_pick();
    check_storage();
    check_heap();
    check_foreign();
    check_resize();
    check_launches();
    check_limits();
    check_random_life();
    check_blocks();
    check_pool();
    check_fork();
    if (failures) printf("%d failures\n", failures);
    return failures != 0;
}
