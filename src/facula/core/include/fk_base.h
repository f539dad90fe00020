/* What every header of the runtime shares: linkage, branch hints, and loops compiled for several
 * instruction sets.
 *
 * Takes: GCC or Clang.
 * Gives: macros, and the path of this process's control group.
 * Keeps true: the baseline is whatever the translation unit is built for; whichever header of
 * the runtime comes first includes this one first, since it asks the C library for everything it
 * has. */
#ifndef FK_BASE_H
#define FK_BASE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define FK_LOCAL static __attribute__((unused))
#define FK_INLINE static inline __attribute__((always_inline, unused))
#define FK_COLD static __attribute__((unused, noinline, cold))
#define FK_LIKELY(x) __builtin_expect(!!(x), 1)
#define FK_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* a lock for a few instructions, with or without the GIL */
FK_LOCAL void fk_lock(_Atomic int *lock) {
    while (atomic_exchange_explicit(lock, 1, memory_order_acquire)) sched_yield();
}

FK_LOCAL void fk_unlock(_Atomic int *lock) { atomic_store_explicit(lock, 0, memory_order_release); }

/* a function compiled three times, the best one chosen when the library is loaded */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12
#define FK_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FK_CLONES
#endif

/* around loops that must become vectors whatever the command line says */
#if defined(__GNUC__) && !defined(__clang__)
#define FK_VECTORIZE_BEGIN      \
    _Pragma("GCC push_options") \
        _Pragma("GCC optimize(\"O3\", \"no-trapping-math\", \"no-math-errno\")")
#define FK_VECTORIZE_END _Pragma("GCC pop_options")
#else
#define FK_VECTORIZE_BEGIN
#define FK_VECTORIZE_END
#endif

/* The file `name` of this process's own control group (version 2); 0 where there is none.  Its
 * limits bind beside those of the root that a container sees. */
FK_COLD int fk_own_cgroup(const char *name, char *path, size_t size) {
    char line[512];
    int found = 0;
    FILE *file = fopen("/proc/self/cgroup", "r");
    if (!file) return 0;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        found = !strncmp(line, "0::/", 4) && line[4] != 0;
    }
    fclose(file);
    return found && snprintf(path, size, "/sys/fs/cgroup%s/%s", line + 3, name) < (int)size;
}
#endif
