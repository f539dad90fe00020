/* The thread pool, and the services that kernels get from the core (`fk_runtime_table`).
 *
 * Takes: a body over an index space, a number of threads.
 * Gives: `fk_parallel`, `fk_set_num_threads`, `fk_get_num_threads`, `fk_default_threads`,
 * and the table of services.
 * Keeps true: one pool for everything, started on the first call that needs it; the index space
 * is cut into contiguous parts, the caller takes part, and whoever is free takes the next one,
 * so that a thread that wakes late holds nobody up; a nested call, or one while another thread
 * uses the pool, runs in the calling thread; a forked child starts with no pool and makes its
 * own; bodies never touch Python, so the GIL may be held or not.
 *
 * Static state: include this header in exactly one translation unit. */
#ifndef FK_POOL_H
#define FK_POOL_H
#include "fk_base.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif
#include "facula_abi.h"
#include "fk_scratch.h"

enum {
    FK_MAX_THREADS = 1024,
    FK_SPIN_WORKER = 2000, /* pauses before a worker sleeps: some tens of microseconds */
    FK_SPIN_CALLER = 4000,
    FK_WORKER_STACK = 4 << 20,
};

typedef struct fk_job {
    fk_body body;
    char *const *p;
    const int64_t *n;
    const fk_scalar *s;
    int64_t total;
    int64_t parts;
} fk_job;

static struct {
    /* generation << 32 | parts << 16 | next part: claiming a part proves that the job is still the
     * one looked at */
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic uint32_t pending; /* parts that are not finished */
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t generation; /* what sleeping workers wait on */
    _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic int busy; /* some caller has the pool */
    fk_job job;
    int workers;         /* threads started, the callers not counted */
    _Atomic int threads; /* as set or found; 0: not yet determined */
    _Atomic int spin;    /* whether spinning makes sense: not with more threads than processors */
    int fork_handler;
} fk_pool;

static _Thread_local int fk_inside_parallel;

/* ---- how many threads ---- */

/* processors that the control group's quota grants, rounded up; 0: no quota */
FK_COLD int fk_quota_processors(const char *quota_path, const char *period_path) {
    long long quota = -1, period = 100000;
    FILE *file = fopen(quota_path, "r");
    if (!file) return 0;
    int got = fscanf(file, period_path ? "%lld" : "%lld %lld", &quota, &period);
    fclose(file);
    if (got >= 1 && period_path && (file = fopen(period_path, "r"))) {
        if (fscanf(file, "%lld", &period) != 1) period = 100000;
        fclose(file);
    }
    return got >= 1 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

FK_COLD int fk_available_processors(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
    uint64_t affinity[128] = {
        0}; /* the system call itself: 8192 processors, and no feature macros */
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof affinity, affinity), allowed = 0;
    for (long i = 0; i < bytes / 8; i++) allowed += __builtin_popcountll(affinity[i]);
    if (allowed > 0 && (count <= 0 || allowed < count)) count = allowed;
#endif
    char own[640];
    int quotas[3] = {fk_quota_processors("/sys/fs/cgroup/cpu.max", NULL),
        fk_quota_processors(
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
        fk_own_cgroup("cpu.max", own, sizeof own) ? fk_quota_processors(own, NULL) : 0};
    for (int i = 0; i < 3; i++)
        if (quotas[i] > 0 && quotas[i] < count) count = quotas[i];
    return count < 1 ? 1 : count > FK_MAX_THREADS ? FK_MAX_THREADS : (int)count;
}

/* FACULA_NUM_THREADS, else OMP_NUM_THREADS, else the processors that this process may use. */
FK_COLD int fk_default_threads(void) {
    const char *names[] = {"FACULA_NUM_THREADS", "OMP_NUM_THREADS"};
    for (int i = 0; i < 2; i++) {
        const char *text = getenv(names[i]);
        long value = text ? strtol(text, NULL, 10) : 0;
        if (value > 0) return value > FK_MAX_THREADS ? FK_MAX_THREADS : (int)value;
    }
    return fk_available_processors();
}

FK_COLD int fk_threads_start(int threads) {
    int spin = threads <= fk_available_processors();
    atomic_store_explicit(&fk_pool.spin, spin, memory_order_relaxed);
    atomic_store_explicit(&fk_pool.threads, threads, memory_order_relaxed);
    return threads;
}

FK_LOCAL int fk_get_num_threads(void) {
    int threads = atomic_load_explicit(&fk_pool.threads, memory_order_relaxed);
    return FK_LIKELY(threads) ? threads : fk_threads_start(fk_default_threads());
}

/* 0 or less: back to the default.  Takes effect from the next call on; threads beyond the number
 * sleep. */
FK_COLD void fk_set_num_threads(int threads) {
    fk_threads_start(threads <= 0               ? fk_default_threads()
                     : threads > FK_MAX_THREADS ? FK_MAX_THREADS
                                                : threads);
}

/* ---- waiting ---- */

FK_INLINE void fk_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

FK_INLINE int fk_spins(int most) {
    return atomic_load_explicit(&fk_pool.spin, memory_order_relaxed) ? most : 0;
}

/* sleeps while the word is as seen; may return early */
#if defined(__linux__)
FK_LOCAL void fk_futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

FK_LOCAL void fk_futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
#else
static pthread_mutex_t fk_futex_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fk_futex_changed = PTHREAD_COND_INITIALIZER;

FK_LOCAL void fk_futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    pthread_mutex_lock(&fk_futex_mutex);
    if (atomic_load(word) == seen) pthread_cond_wait(&fk_futex_changed, &fk_futex_mutex);
    pthread_mutex_unlock(&fk_futex_mutex);
}

FK_LOCAL void fk_futex_wake(_Atomic uint32_t *word, int count) {
    (void)word, (void)count;
    pthread_mutex_lock(&fk_futex_mutex);
    pthread_cond_broadcast(&fk_futex_changed);
    pthread_mutex_unlock(&fk_futex_mutex);
}
#endif

/* ---- parts ---- */

/* Takes the next part of the current job, runs it; 0 when none is left. */
FK_LOCAL int fk_run_part(void) {
    uint64_t seen = atomic_load_explicit(&fk_pool.ticket, memory_order_acquire);
    uint64_t part, parts;
    do {
        part = seen & 0xffff;
        parts = seen >> 16 & 0xffff;
        if (part >= parts) return 0;
    } while (!atomic_compare_exchange_weak_explicit(
        &fk_pool.ticket, &seen, seen + 1, memory_order_acquire, memory_order_acquire));
    /* an unfinished part keeps the job in place */
    const fk_job *job = &fk_pool.job;
    int64_t share = job->total / (int64_t)parts, rest = job->total % (int64_t)parts,
            k = (int64_t)part;
    int64_t begin = k * share + (k < rest ? k : rest), end = begin + share + (k < rest);
    job->body(job->p, job->n, job->s, begin, end);
    if (atomic_fetch_sub_explicit(&fk_pool.pending, 1, memory_order_seq_cst) == 1 &&
        atomic_load_explicit(&fk_pool.caller_sleeps, memory_order_seq_cst))
        fk_futex_wake(&fk_pool.pending, 1);
    return 1;
}

static void *fk_worker(void *unused) {
    (void)unused;
    fk_inside_parallel = 1;
    for (;;) {
        uint32_t seen = atomic_load_explicit(&fk_pool.generation, memory_order_seq_cst);
        while (fk_run_part()) {
        }
        int spins = fk_spins(FK_SPIN_WORKER);
        while (
            spins-- > 0 && atomic_load_explicit(&fk_pool.generation, memory_order_relaxed) == seen)
            fk_pause();
        if (atomic_load_explicit(&fk_pool.generation, memory_order_seq_cst) != seen) continue;
        atomic_fetch_add_explicit(&fk_pool.sleepers, 1, memory_order_seq_cst);
        fk_futex_wait(&fk_pool.generation, seen);
        atomic_fetch_sub_explicit(&fk_pool.sleepers, 1, memory_order_seq_cst);
    }
    return NULL;
}

FK_LOCAL void fk_wait_for_parts(void) {
    int spins = fk_spins(FK_SPIN_CALLER);
    while (atomic_load_explicit(&fk_pool.pending, memory_order_acquire) && spins-- > 0) fk_pause();
    if (!atomic_load_explicit(&fk_pool.pending, memory_order_acquire)) return;
    atomic_store_explicit(&fk_pool.caller_sleeps, 1, memory_order_seq_cst);
    uint32_t left;
    while ((left = atomic_load_explicit(&fk_pool.pending, memory_order_seq_cst)))
        fk_futex_wait(&fk_pool.pending, left);
    atomic_store_explicit(&fk_pool.caller_sleeps, 0, memory_order_relaxed);
}

/* ---- start, fork ---- */

FK_COLD void fk_pool_after_fork(void) {
    int threads = fk_pool.threads, spin = fk_pool.spin;
    memset(&fk_pool, 0, sizeof fk_pool);
    fk_pool.threads = threads;
    fk_pool.spin = spin;
    fk_pool.fork_handler = 1; /* handlers are inherited */
    fk_inside_parallel = 0;
    fk_scratch_forget();
}

/* Has at least `wanted` workers if the system lets us; the caller owns the pool. */
FK_COLD void fk_start_workers(int wanted) {
    if (!fk_pool.fork_handler)
        fk_pool.fork_handler = pthread_atfork(NULL, NULL, fk_pool_after_fork) == 0;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, FK_WORKER_STACK);
    sigset_t all, before; /* signals are the main thread's business; a fault is its thread's */
    sigfillset(&all);
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (fk_pool.workers < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, fk_worker, NULL)) break;
        fk_pool.workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

/* ---- parallel ---- */

static __attribute__((noinline)) int fk_parallel_shared(fk_body body, char *const *p,
    const int64_t *n, const fk_scalar *s, int64_t total, int64_t parts) {
    if (atomic_exchange_explicit(&fk_pool.busy, 1, memory_order_acquire)) return 0;
    if (FK_UNLIKELY(fk_pool.workers < parts - 1)) fk_start_workers((int)parts - 1);
    fk_pool.job = (fk_job){body, p, n, s, total, parts};
    atomic_store_explicit(&fk_pool.pending, (uint32_t)parts, memory_order_relaxed);
    uint32_t generation = atomic_load_explicit(&fk_pool.generation, memory_order_relaxed) + 1;
    atomic_store_explicit(
        &fk_pool.ticket, (uint64_t)generation << 32 | (uint64_t)parts << 16, memory_order_release);
    atomic_store_explicit(&fk_pool.generation, generation, memory_order_seq_cst);
    if (atomic_load_explicit(&fk_pool.sleepers, memory_order_seq_cst))
        fk_futex_wake(&fk_pool.generation, (int)parts - 1);
    fk_inside_parallel = 1;
    while (fk_run_part()) {
    }
    fk_inside_parallel = 0;
    fk_wait_for_parts();
    atomic_store_explicit(&fk_pool.busy, 0, memory_order_release);
    return 1;
}

/* Runs body over [0, total), at least `grain` items a part; returns when all is done. */
FK_LOCAL void fk_parallel(fk_body body, char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t total, int64_t grain) {
    if (total <= 0) return;
    if (grain < 1) grain = 1;
    if (total > grain && !fk_inside_parallel) {
        int64_t parts = (total + grain - 1) / grain, threads = fk_get_num_threads();
        if (parts > threads) parts = threads;
        if (parts > 1 && fk_parallel_shared(body, p, n, s, total, parts)) return;
    }
    body(p, n, s, 0, total);
}

static const fk_runtime fk_runtime_table
    __attribute__((unused)) = {fk_parallel, fk_get_num_threads, fk_scratch, fk_scratch_release};
#endif
