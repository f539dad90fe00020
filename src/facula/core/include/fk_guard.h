/* Guarded memory: blocks beside pages that nobody may touch, to find what reads or writes outside.
 *
 * Takes: FACULA_GUARD, once: `1` (or `end`) has each block end at such a page, `begin` has it begin
 * behind one; unset or `0`, and nothing here costs more than a branch.
 * Gives: blocks with a header, for storages and scratch memory; `fk_guard_check_all`; a line on
 * stderr that names the block for each fault, and the default action after it.
 * Keeps true: what lies between a block and its pages holds `FK_GUARD_BYTE`, which is looked at when
 * the block is freed and by `fk_guard_check_all`; a freed block stays unreadable, at an address that
 * nobody else gets, until `FK_GUARD_KEPT` bytes or `FK_GUARD_KEPT_BLOCKS` have been freed after it;
 * fresh memory holds `FK_GUARD_BYTE` too, so that what was never written is an absurd number.
 *
 * Any thread may call (a lock, also held over a fork). Static state: include this header in exactly
 * one translation unit. */
#ifndef FK_GUARD_H
#define FK_GUARD_H
#include "fk_base.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum fk_guard_mode { FK_GUARD_UNKNOWN = -1, FK_GUARD_OFF, FK_GUARD_END, FK_GUARD_BEGIN };
enum fk_guard_kind { FK_GUARD_STORAGE, FK_GUARD_SCRATCH };
enum fk_guard_state { FK_GUARD_UNUSED, FK_GUARD_LIVE, FK_GUARD_FREED };

enum {
    FK_PAGE = 4096,
    FK_GUARD_HEADER = 128, /* the user's, at the start of the run */
    FK_GUARD_HEAD = FK_GUARD_HEADER + 64,
    FK_GUARD_RED = 64, /* between a block and what is not its own, at least */
    FK_GUARD_BYTE = 0xCB,
    FK_GUARD_RECORDS = 1 << 18,
    FK_GUARD_KEPT_BLOCKS = 8192,
    FK_GUARD_FILLED = 1 << 20, /* of fresh memory, at most */
};
#define FK_GUARD_KEPT ((int64_t)1 << 30)
#define FK_GUARD_MAGIC UINT64_C(0x6661632d67756172)

/* The run of pages of one block: at the end [header, red zone, data][page], at the begin
 * [header, red zone][page][data, red zone]. */
typedef struct fk_guard_record {
    char *run, *data;
    int64_t run_bytes, bytes;
    int32_t next; /* freed after this one, or the next unused record */
    int8_t kind, state;
} fk_guard_record;

/* behind the user's header */
typedef struct fk_guard_head {
    uint64_t magic;
    int64_t record;
} fk_guard_head;

static struct {
    _Atomic int mode;
    _Atomic int lock;
    fk_guard_record *records;
    int32_t used, unused, oldest, newest; /* records; -1: none */
    int32_t live, most, kept_blocks;
    int64_t kept;      /* bytes of the freed runs */
    int64_t unguarded; /* storages that found no room among the guarded ones */
    struct sigaction before[2];
} fk_guard = {.mode = FK_GUARD_UNKNOWN, .unused = -1, .oldest = -1, .newest = -1};

FK_LOCAL void fk_guard_lock(void) { fk_lock(&fk_guard.lock); }
FK_LOCAL void fk_guard_unlock(void) { fk_unlock(&fk_guard.lock); }

/* ---- what is told ---- */

static const char *const fk_guard_kinds[] = {"a storage", "scratch memory"};

FK_COLD void fk_guard_say(const char *text, int length) {
    if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0) return;
}

/* where the address lies, as seen from the block */
FK_COLD int fk_guard_place(char *text, size_t size, const fk_guard_record *r, const char *at) {
    const char *end = r->data + r->bytes;
    if (at >= end) return snprintf(text, size, "%lld bytes behind the end of", (long long)(at - end));
    if (at < r->data)
        return snprintf(text, size, "%lld bytes before the begin of", (long long)(r->data - at));
    return snprintf(text, size, "at byte %lld of", (long long)(at - r->data));
}

FK_COLD int fk_guard_name(char *text, size_t size, const fk_guard_record *r) {
    return snprintf(text, size, "%s of %lld bytes at %p%s", fk_guard_kinds[r->kind],
        (long long)r->bytes, (void *)r->data, r->state == FK_GUARD_FREED ? ", freed before" : "");
}

/* The block that the address belongs to; called with the lock or from a handler. */
FK_COLD const fk_guard_record *fk_guard_find(const char *at) {
    for (int32_t i = 0; i < fk_guard.used; i++) {
        const fk_guard_record *r = &fk_guard.records[i];
        if (r->state != FK_GUARD_UNUSED && at >= r->run && at < r->run + r->run_bytes) return r;
    }
    return NULL;
}

/* the instruction that faulted, and whether it wrote; -1 where the processor does not say */
FK_COLD int fk_guard_instruction(const void *context, char **instruction) {
#if defined(__linux__) && defined(__x86_64__)
    const greg_t *registers = ((const ucontext_t *)context)->uc_mcontext.gregs;
    *instruction = (char *)registers[REG_RIP];
    return (int)(registers[REG_ERR] >> 1 & 1);
#elif defined(__linux__) && defined(__aarch64__)
    *instruction = (char *)((const ucontext_t *)context)->uc_mcontext.pc;
    return -1;
#else
    (void)context;
    *instruction = NULL;
    return -1;
#endif
}

static void fk_guard_fault(int number, siginfo_t *info, void *context) {
    char text[640], place[96] = "outside of every block", name[160] = "", library[200] = "";
    char *instruction, *at = info->si_addr;
    int written = fk_guard_instruction(context, &instruction);
    sigaction(number, &fk_guard.before[number == SIGBUS], NULL); /* for the same fault again */
    if (info->si_code <= 0) {
        raise(number); /* somebody sent it */
        return;
    }
    const fk_guard_record *r = fk_guard_find(at);
    Dl_info found;
    if (r) {
        fk_guard_place(place, sizeof place, r, at);
        fk_guard_name(name, sizeof name, r);
    }
    if (instruction && dladdr(instruction, &found) && found.dli_fname)
        snprintf(library, sizeof library, ", by the instruction at %s+0x%llx", found.dli_fname,
            (unsigned long long)(instruction - (char *)found.dli_fbase));
    int length = snprintf(text, sizeof text, "facula: [guard] %s at %p, %s %s%s\n",
        written < 0 ? "access" : written ? "write" : "read", (void *)at, place, name, library);
    fk_guard_say(text, length);
}

/* ---- start ---- */

FK_COLD int32_t fk_guard_most(void) {
    long maps = 65530; /* two mappings to a block, one to a freed one, and the program's own */
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file && fscanf(file, "%ld", &maps) != 1) maps = 65530;
    if (file) fclose(file);
    long most = (maps - FK_GUARD_KEPT_BLOCKS - 8192) / 2;
    long room = FK_GUARD_RECORDS - FK_GUARD_KEPT_BLOCKS - 4096;
    return (int32_t)(most < 0 ? 0 : most < room ? most : room);
}

/* What FACULA_GUARD asks for; `FK_GUARD_UNKNOWN` where it is none of its values. */
FK_COLD int fk_guard_wanted(void) {
    const char *text = getenv("FACULA_GUARD");
    if (!text || !*text || !strcmp(text, "0")) return FK_GUARD_OFF;
    if (!strcmp(text, "1") || !strcmp(text, "end")) return FK_GUARD_END;
    return strcmp(text, "begin") ? FK_GUARD_UNKNOWN : FK_GUARD_BEGIN;
}

FK_COLD void fk_guard_prepare(void) {
    void *records = mmap(NULL, FK_GUARD_RECORDS * sizeof *fk_guard.records,
        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (records == MAP_FAILED) return;
    fk_guard.records = records;
    fk_guard.most = fk_guard_most();
    pthread_atfork(fk_guard_lock, fk_guard_unlock, fk_guard_unlock);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = fk_guard_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &fk_guard.before[0]);
    sigaction(SIGBUS, &action, &fk_guard.before[1]);
}

/* Reads the setting, the first time that anybody asks. */
FK_COLD int fk_guard_start(void) {
    fk_guard_lock();
    int mode = atomic_load_explicit(&fk_guard.mode, memory_order_relaxed);
    if (mode == FK_GUARD_UNKNOWN) {
        mode = fk_guard_wanted();
        if (mode > FK_GUARD_OFF) fk_guard_prepare();
        if (!fk_guard.records) mode = FK_GUARD_OFF;
        atomic_store_explicit(&fk_guard.mode, mode, memory_order_relaxed);
    }
    fk_guard_unlock();
    return mode;
}

FK_INLINE int fk_guard_on(void) {
    int mode = atomic_load_explicit(&fk_guard.mode, memory_order_relaxed);
    return FK_UNLIKELY(mode != FK_GUARD_OFF) && (mode > 0 || fk_guard_start() > 0);
}

FK_INLINE int fk_guard_begins(void) {
    return atomic_load_explicit(&fk_guard.mode, memory_order_relaxed) == FK_GUARD_BEGIN;
}

/* ---- red zones ---- */

/* the first byte of [from, to) that was written; NULL: none */
FK_COLD const char *fk_guard_written(const char *from, const char *to) {
    for (; from < to; from++)
        if (*(const unsigned char *)from != FK_GUARD_BYTE) return from;
    return NULL;
}

/* the bytes in front of the guard page, or behind it, that hold the data */
FK_INLINE int64_t fk_guard_length(const fk_guard_record *r) {
    return r->run_bytes - (fk_guard_begins() ? 2 * FK_PAGE : FK_PAGE);
}

/* The first byte of a live block's red zones that was written; NULL: none. */
FK_COLD const char *fk_guard_damage(const fk_guard_record *r) {
    int begins = fk_guard_begins();
    const char *first = begins ? r->run + 2 * FK_PAGE : r->run;
    const char *at =
        fk_guard_written(r->run + FK_GUARD_HEAD, begins ? r->run + FK_PAGE : r->data);
    return at ? at : fk_guard_written(r->data + r->bytes, first + fk_guard_length(r));
}

FK_COLD int fk_guard_damage_text(
    char *text, size_t size, const fk_guard_record *r, const char *at) {
    char place[96], name[160];
    fk_guard_place(place, sizeof place, r, at);
    fk_guard_name(name, sizeof name, r);
    return snprintf(text, size, "a byte was written %s %s: it holds 0x%02x", place, name,
        *(const unsigned char *)at);
}

/* Looks at every live block; returns how many there are, or -1 with the damage in `text`. */
FK_COLD int64_t fk_guard_check_all(char *text, size_t size) {
    int64_t seen = 0;
    fk_guard_lock();
    for (int32_t i = 0; i < fk_guard.used && seen >= 0; i++) {
        const fk_guard_record *r = &fk_guard.records[i];
        if (r->state != FK_GUARD_LIVE) continue;
        const char *at = fk_guard_damage(r);
        seen++;
        if (!at) continue;
        fk_guard_damage_text(text, size, r, at);
        seen = -1;
    }
    fk_guard_unlock();
    return seen;
}

__attribute__((noreturn)) FK_COLD void fk_guard_fail(const fk_guard_record *r, const char *at) {
    char text[512], what[400] = "the header of a block was written over, or it was freed twice";
    if (r) fk_guard_damage_text(what, sizeof what, r, at);
    fk_guard_say(text, snprintf(text, sizeof text, "facula: [guard] %s (seen when freed)\n", what));
    abort();
}

/* ---- taking and giving ---- */

FK_COLD void fk_guard_forget_oldest(void) {
    int32_t index = fk_guard.oldest;
    fk_guard_record *r = &fk_guard.records[index];
    fk_guard.oldest = r->next;
    if (fk_guard.oldest < 0) fk_guard.newest = -1;
    fk_guard.kept -= r->run_bytes;
    fk_guard.kept_blocks--;
    munmap(r->run, (size_t)r->run_bytes);
    r->state = FK_GUARD_UNUSED;
    r->next = fk_guard.unused;
    fk_guard.unused = index;
}

FK_COLD int32_t fk_guard_record_new(void) {
    int32_t index = fk_guard.unused;
    if (index >= 0)
        fk_guard.unused = fk_guard.records[index].next;
    else if (fk_guard.used < FK_GUARD_RECORDS)
        index = fk_guard.used++;
    return index;
}

FK_INLINE int64_t fk_guard_pages(int64_t bytes) {
    return (bytes + FK_PAGE - 1) & ~(int64_t)(FK_PAGE - 1);
}

/* The pages of a run, with its guard page shut; NULL when there are none. */
FK_COLD char *fk_guard_map(int64_t run_bytes) {
    char *run = mmap(NULL, (size_t)run_bytes, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (run == MAP_FAILED) return NULL;
    char *shut = run + (fk_guard_begins() ? FK_PAGE : run_bytes - FK_PAGE);
    if (!mprotect(shut, FK_PAGE, PROT_NONE)) return run;
    munmap(run, (size_t)run_bytes);
    return NULL;
}

FK_COLD char *fk_guard_enter(int32_t index, int64_t bytes, int64_t padded, int kind) {
    fk_guard_record *r = &fk_guard.records[index];
    int begins = fk_guard_begins();
    int64_t length = fk_guard_pages(padded + FK_GUARD_RED + (begins ? 0 : FK_GUARD_HEAD));
    int64_t run_bytes = length + FK_PAGE + (begins ? FK_PAGE : 0);
    char *run = fk_guard_map(run_bytes);
    if (!run) return NULL;
    char *data = begins ? run + 2 * FK_PAGE : run + length - padded;
    *r = (fk_guard_record){run, data, run_bytes, bytes, -1, (int8_t)kind, FK_GUARD_LIVE};
    char *red = run + FK_GUARD_HEAD, *end = (begins ? data : run) + length;
    memset(red, FK_GUARD_BYTE, (size_t)((begins ? run + FK_PAGE : data) - red));
    memset(data, FK_GUARD_BYTE, (size_t)(bytes < FK_GUARD_FILLED ? bytes : FK_GUARD_FILLED));
    memset(data + bytes, FK_GUARD_BYTE, (size_t)(end - data - bytes));
    *(fk_guard_head *)(void *)(run + FK_GUARD_HEADER) = (fk_guard_head){FK_GUARD_MAGIC, index};
    return run;
}

/* A run whose first `FK_GUARD_HEADER` bytes are the caller's, with `*data` for `bytes` at a multiple
 * of `alignment`; NULL where there is no room. Scratch memory has room beyond that of storages. */
FK_COLD char *fk_guard_take(int64_t bytes, int64_t alignment, int kind, char **data) {
    int64_t padded = (bytes + alignment - 1) & -alignment;
    char *run = NULL;
    fk_guard_lock();
    if (kind == FK_GUARD_SCRATCH || fk_guard.live < fk_guard.most) {
        int32_t index = fk_guard_record_new();
        if (index >= 0 && !(run = fk_guard_enter(index, bytes, padded, kind))) {
            while (fk_guard.oldest >= 0) fk_guard_forget_oldest();
            run = fk_guard_enter(index, bytes, padded, kind);
        }
        if (run) {
            fk_guard.live++;
            *data = fk_guard.records[index].data;
        } else if (index >= 0) {
            fk_guard.records[index].next = fk_guard.unused;
            fk_guard.unused = index;
        }
    }
    fk_guard_unlock();
    return run;
}

FK_COLD fk_guard_record *fk_guard_record_of(const char *run) {
    const fk_guard_head *head = (const fk_guard_head *)(const void *)(run + FK_GUARD_HEADER);
    if (head->magic != FK_GUARD_MAGIC || head->record < 0 || head->record >= fk_guard.used ||
        fk_guard.records[head->record].run != run)
        fk_guard_fail(NULL, NULL);
    return &fk_guard.records[head->record];
}

/* the bytes that a run's block counts for */
FK_COLD int64_t fk_guard_bytes(const void *run) {
    fk_guard_lock();
    int64_t bytes = fk_guard_record_of(run)->bytes;
    fk_guard_unlock();
    return (bytes + 63) & ~(int64_t)63;
}

/* The run of a block of scratch memory, by its data. */
FK_COLD char *fk_guard_run(char *data) {
    if (fk_guard_begins()) return data - 2 * FK_PAGE;
    return (char *)((uintptr_t)(data - FK_GUARD_HEAD - FK_GUARD_RED) & ~(uintptr_t)(FK_PAGE - 1));
}

FK_COLD void fk_guard_give(char *run) {
    fk_guard_lock();
    fk_guard_record *r = fk_guard_record_of(run);
    const char *at = fk_guard_damage(r);
    if (at) fk_guard_fail(r, at);
    /* the pages go back to the system, the addresses stay */
    mmap(run, (size_t)r->run_bytes, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    int32_t index = (int32_t)(r - fk_guard.records);
    r->state = FK_GUARD_FREED;
    r->next = -1;
    if (fk_guard.newest < 0)
        fk_guard.oldest = index;
    else
        fk_guard.records[fk_guard.newest].next = index;
    fk_guard.newest = index;
    fk_guard.live--;
    fk_guard.kept += r->run_bytes;
    fk_guard.kept_blocks++;
    while (fk_guard.kept_blocks > FK_GUARD_KEPT_BLOCKS ||
           (fk_guard.kept > FK_GUARD_KEPT && fk_guard.kept_blocks > 1))
        fk_guard_forget_oldest();
    fk_guard_unlock();
}
#endif
