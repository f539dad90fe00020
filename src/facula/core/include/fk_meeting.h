/* Where processes wait for each other, in memory that all of them map.
 *
 * Takes: the start of zeroed memory, one line for each process and one for all. Gives: `fk_meeting_arrive`, by which a
 * process says how far it is, and `fk_meeting_wait`, which ends when all are as far.
 * Keeps true: what a process wrote before it arrived is seen by those whose wait ended; nothing waits longer than it
 * was told to; a process that died while it waited costs the others a system call each time, and nothing else.
 */
#ifndef FK_MEETING_H
#define FK_MEETING_H

#include "fk_base.h"
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Looks that keep the processor, and those that offer it to others each time, before sleeping: who sleeps is late at the
 * next step, and is often woken where the one that wakes it runs; a process that has the same processor comes at once. */
#define FK_MEETING_LOOKS 20
#define FK_MEETING_YIELDS 300
/* Nanoseconds after which it sleeps all the same: on a machine that is busy with others, each offer may take as long as
 * all of them want to run, and 300 of them longer than the time that the collective has. */
#define FK_MEETING_OFFERED 2000000

typedef struct {
    _Alignas(64) _Atomic int64_t step; /* how far a process is; in the last line unused */
    _Atomic uint32_t changes;          /* in the last line: what is slept on */
    _Atomic uint32_t sleepers;         /* in the last line: how many sleep */
} fk_meeting_line;

FK_LOCAL void fk_meeting_arrive(fk_meeting_line *lines, int size, int rank, int64_t step) {
    fk_meeting_line *all = lines + size;
    atomic_store_explicit(&lines[rank].step, step, memory_order_seq_cst);
    atomic_fetch_add_explicit(&all->changes, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&all->sleepers, memory_order_seq_cst))
        syscall(SYS_futex, (uint32_t *)&all->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* the first process that is not as far; -1: all are */
FK_LOCAL int fk_meeting_behind(fk_meeting_line *lines, int size, int64_t step) {
    for (int i = 0; i < size; i++)
        if (atomic_load_explicit(&lines[i].step, memory_order_acquire) < step) return i;
    return -1;
}

FK_LOCAL int64_t fk_meeting_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* whether all came within these nanoseconds; who has waited for the same before (`again`) sleeps at once */
FK_LOCAL int fk_meeting_wait(fk_meeting_line *lines, int size, int64_t step, int64_t limit, int again) {
    fk_meeting_line *all = lines + size;
    int64_t began = fk_meeting_now(), end = began + limit;
    for (int i = again ? FK_MEETING_LOOKS + FK_MEETING_YIELDS : 0; i < FK_MEETING_LOOKS + FK_MEETING_YIELDS; i++) {
        if (fk_meeting_behind(lines, size, step) < 0) return 1;
        if (i >= FK_MEETING_LOOKS) {
            sched_yield();
            if (fk_meeting_now() - began > FK_MEETING_OFFERED) break;
        }
#if defined(__x86_64__)
        else __builtin_ia32_pause();
#endif
    }
    for (;;) {
        int64_t left = end - fk_meeting_now();
        atomic_fetch_add_explicit(&all->sleepers, 1, memory_order_seq_cst);
        uint32_t seen = atomic_load_explicit(&all->changes, memory_order_seq_cst);
        int behind = fk_meeting_behind(lines, size, step);
        if (behind >= 0 && left > 0) {
            struct timespec rest = {left / 1000000000, left % 1000000000};
            syscall(SYS_futex, (uint32_t *)&all->changes, FUTEX_WAIT, seen, &rest, NULL, 0);
        }
        atomic_fetch_sub_explicit(&all->sleepers, 1, memory_order_seq_cst);
        if (behind < 0) return 1;
        if (left <= 0) return 0;
    }
}

#endif
