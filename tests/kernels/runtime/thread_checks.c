/* What several threads do to the pool, to scratch memory, to the heap and to storages, for the
 * thread sanitizer.
 *
 * Takes: nothing, or FACULA_GUARD.
 * Gives: exit status 0, or 1 where a part was lost; the sanitizer ends the program at a race. */
#include "fk_storage.h"
#include "fk_pool.h"

enum { CALLERS = 4, ROUNDS = 400, LENGTH = 777 };

static _Atomic int failures;
static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER; /* as the GIL over storages */

static void mark(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    char *scratch = fk_runtime_table.scratch(end - begin);
    for (int64_t i = begin; i < end; i++) scratch[i - begin] = p[0][i];
    for (int64_t i = begin; i < end; i++) p[1][i] = (char)(scratch[i - begin] + 1);
    fk_runtime_table.release(scratch);
}

static fk_storage *locked_new(int64_t bytes) {
    pthread_mutex_lock(&interpreter);
    fk_storage *s = fk_storage_new(bytes);
    pthread_mutex_unlock(&interpreter);
    return s;
}

static void locked_free(fk_storage *s) {
    pthread_mutex_lock(&interpreter);
    fk_storage_decref(s);
    pthread_mutex_unlock(&interpreter);
}

static void *caller(void *number) {
    int64_t seed = (int64_t)(intptr_t)number;
    for (int64_t i = 0; i < ROUNDS; i++) {
        int64_t length = LENGTH - (i + seed) % 5, large = (i * 7 + seed) % 11 * 50000;
        fk_storage *a = locked_new(length), *b = locked_new(length), *c = locked_new(large);
        char *long_scratch = fk_scratch((int64_t)(i % 3) << 20);
        char *p[2] = {a->data, b->data};
        memset(a->data, 1, (size_t)length);
        memset(c->data, 1, (size_t)large);
        fk_parallel(mark, p, NULL, NULL, length, 1 + i % 300);
        for (int64_t k = 0; k < length; k++) failures += b->data[k] != 2;
        fk_scratch_release(long_scratch);
        locked_free(c), locked_free(b), locked_free(a);
    }
    return NULL;
}

/* a number of threads that changes while others use the pool, and a cache that is emptied */
static void *changer(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        fk_set_num_threads(1 + i % 4);
        if (i % 20 == 0) fk_scratch_empty();
        if (i % 20 == 10) fk_heap_trim(1 << 20);
        sched_yield();
    }
    return NULL;
}

int main(void) {
    fk_set_num_threads(3);
    pthread_t threads[CALLERS + 1];
    for (int i = 0; i < CALLERS; i++)
        pthread_create(&threads[i], NULL, caller, (void *)(intptr_t)i);
    pthread_create(&threads[CALLERS], NULL, changer, NULL);
    for (int i = 0; i <= CALLERS; i++) pthread_join(threads[i], NULL);
    fk_set_num_threads(4);
    caller(NULL);
    if (failures) printf("%d elements are wrong\n", failures);
    return failures != 0;
}
