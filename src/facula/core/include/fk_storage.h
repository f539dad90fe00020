/* Storage: reference-counted memory with a caching allocator.
 *
 * Takes: byte counts, or memory that somebody else owns.
 * Gives: `fk_storage`, whose header and data share one 64-byte-aligned block; free lists per
 * size class, the heap for large blocks, both kept for reuse up to a byte limit; statistics and
 * limits. With FACULA_GUARD every storage is a guarded block, and none is kept for reuse.
 * Keeps true: `data` is 64-byte aligned for memory of our own, where it need not end at a page;
 * kernels rely on the alignment of an element, and on no byte behind the last one; the caller holds
 * the GIL (nothing here is atomic); a block in a free list is in no other list; `allocated` + `cached` bytes
 * never exceed the limit that the user set.
 *
 * Static state: include this header in exactly one translation unit. */
#ifndef FK_STORAGE_H
#define FK_STORAGE_H
#include "fk_base.h"
#include "fk_guard.h"
#include "fk_heap.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fk_storage_flags {
    FK_READONLY = 1,   /* writing is an error; checked by the caller */
    FK_FOREIGN = 2,    /* `data` belongs to `owner` */
    FK_META = 4,       /* no data at all */
    FK_SHARED = 8,     /* other processes see the memory */
    FK_NO_RESIZE = 16, /* somebody holds a view of the memory: the size is fixed */
    FK_POINTED = 32,   /* an address was handed out, through which writes are not counted */
    FK_LAZY = 64,      /* the data is also another storage's: it is copied before the first write */
    FK_LENT = 128,     /* of the block that holds such data: `lent` counts the storages on it */
};

typedef struct fk_storage {
    int64_t refs;
    char *data;
    int64_t nbytes;     /* as asked for, not the capacity of the block */
    uint32_t version;   /* counts in-place writes */
    uint32_t uncounted; /* counts those through `.data`, which `version` does not */
    int32_t size_class; /* of the block that the header stands in; negative: header only */
    int32_t flags;
    int32_t device;
    int32_t lent;       /* says nothing without FK_LENT */
    void *owner;
    void (*release)(void *owner); /* called with `owner` when the last reference goes */
    void *extra;                  /* the user's; never looked at here while the storage lives */
    struct fk_storage *next;      /* in a free list */
    void *object;                 /* the Python object that shows the storage, not owned; NULL for none */
} fk_storage;

enum {
    FK_STORAGE_HEADER = 128, /* sizeof(fk_storage) rounded up to the alignment of the data */
    FK_SMALL_CLASSES = 17,   /* 0, 64, 128, ... 1024 bytes */
    FK_LARGE_CLASS = 17 + 4 * 6 + 3, /* all above: blocks of the heap, as long as asked for */
    FK_GUARDED_CLASS,                /* of any size, between pages that nobody may touch */
    FK_HEADER_ONLY = -1,
    FK_SMALL_MOST = 7 << 14, /* bytes of the last class below the large ones */
};
_Static_assert(sizeof(fk_storage) <= FK_STORAGE_HEADER, "the header must fit before the data");
_Static_assert((int)FK_STORAGE_HEADER <= (int)FK_GUARD_HEADER, "and before that of a guarded block");
#define FK_STORAGE_MAX ((int64_t)1 << 46)

typedef struct fk_memory_stats {
    int64_t allocated;   /* bytes of blocks in use, rounded to their size class or span */
    int64_t peak;        /* the most that `allocated` was since the last reset */
    int64_t cached;      /* bytes of blocks in the free lists; the heap counts its own */
    int64_t requested;   /* storages asked for, foreign and meta ones not counted */
    int64_t allocations; /* of these, how many took new memory of malloc or the system */
    int64_t live;        /* storages alive, of every kind */
    int64_t failures;    /* requests that found no memory */
    int64_t flushes;     /* how often pressure emptied the cache */
} fk_memory_stats;

static struct {
    fk_storage *free[FK_LARGE_CLASS];
    fk_memory_stats stats;
    int64_t cache_limit;   /* negative: not yet determined */
    int64_t memory_limit;  /* 0: none */
    int64_t machine_limit; /* of the cgroup or host, 0 where unknown */
} fk_memory = {.cache_limit = -1};

/* ---- size classes ---- */

FK_INLINE int fk_size_class(int64_t nbytes) {
    if (FK_LIKELY(nbytes <= 1024)) return (int)((nbytes + 63) >> 6);
    uint64_t last = (uint64_t)nbytes - 1;
    int octave = 63 - __builtin_clzll(last);
    return FK_SMALL_CLASSES + ((octave - 10) << 2) + (int)((last >> (octave - 2)) & 3);
}

FK_INLINE int64_t fk_class_bytes(int size_class) {
    if (FK_LIKELY(size_class < FK_SMALL_CLASSES)) return (int64_t)size_class << 6;
    int index = size_class - FK_SMALL_CLASSES;
    return (int64_t)((index & 3) + 5) << ((index >> 2) + 8);
}

/* ---- what the machine allows ---- */

FK_COLD int64_t fk_read_number(const char *path) {
    char text[64];
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    char *got = fgets(text, sizeof text, file);
    fclose(file);
    if (!got || text[0] < '0' || text[0] > '9') return -1; /* "max" means no limit */
    return (int64_t)strtoll(text, NULL, 10);
}

FK_COLD int64_t fk_machine_memory(void) {
    int64_t host = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    char own[640];
    const char *paths[] = {
        "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes", own};
    int count = fk_own_cgroup("memory.max", own, sizeof own) ? 3 : 2;
    for (int i = 0; i < count; i++) {
        int64_t limit = fk_read_number(paths[i]);
        if (limit > 0 && (host <= 0 || limit < host)) host = limit;
    }
    return host > 0 ? host : 0;
}

FK_COLD void fk_memory_start(void) {
    fk_memory.machine_limit = fk_machine_memory();
    fk_memory.cache_limit =
        fk_memory.machine_limit ? fk_memory.machine_limit / 4 : (int64_t)1 << 30;
    if (fk_guard_on()) fk_memory.cache_limit = 0;
}

/* ---- blocks ---- */

/* the bytes that a block takes */
FK_INLINE int64_t fk_block_bytes(const fk_storage *block) {
    if (FK_LIKELY(block->size_class < FK_LARGE_CLASS)) return fk_class_bytes(block->size_class);
    return FK_LIKELY(block->size_class == FK_LARGE_CLASS) ? fk_heap_bytes(block)
                                                          : fk_guard_bytes(block);
}

/* the bytes of all blocks that are kept */
FK_INLINE int64_t fk_cached(void) { return fk_memory.stats.cached + fk_heap_free(); }

/* Gives every cached block back to the system; returns the bytes. */
FK_COLD int64_t fk_cache_empty(void) {
    int64_t bytes = fk_cached();
    for (int size_class = 0; size_class < FK_LARGE_CLASS; size_class++) {
        fk_storage *block = fk_memory.free[size_class];
        fk_memory.free[size_class] = NULL;
        while (block) {
            fk_storage *next = block->next;
            free(block);
            block = next;
        }
    }
    fk_heap_trim(0);
    fk_memory.stats.cached = 0;
    return bytes;
}

/* Brings the cache under its limit: large blocks go first. */
FK_COLD void fk_cache_trim(void) {
    if (fk_memory.cache_limit < 0) fk_memory_start();
    int64_t room = fk_memory.cache_limit - fk_memory.stats.cached;
    if (fk_heap_free() > room) fk_heap_trim(room > 0 ? room : 0);
    if (room < 0) fk_cache_empty(); /* small blocks fill it */
}

/* Room for `bytes` more under the user's limit, and under the machine's if emptying the cache gives
 * it. */
FK_COLD int fk_memory_make_room(int64_t bytes) {
    fk_memory_stats *stats = &fk_memory.stats;
    int64_t total = stats->allocated + fk_cached() + bytes;
    int64_t soft = fk_memory.machine_limit - fk_memory.machine_limit / 8;
    int over = fk_memory.memory_limit > 0 && total > fk_memory.memory_limit;
    if ((over || (soft > 0 && total > soft)) && fk_cached()) {
        fk_cache_empty();
        stats->flushes++;
    }
    return !(fk_memory.memory_limit > 0 && stats->allocated + bytes > fk_memory.memory_limit);
}

FK_COLD fk_storage *fk_block_grow(int size_class, int64_t nbytes) {
    if (size_class == FK_LARGE_CLASS) return fk_heap_take(nbytes + FK_STORAGE_HEADER, 1);
    void *block = NULL;
    size_t bytes = (size_t)fk_class_bytes(size_class) + FK_STORAGE_HEADER;
    return posix_memalign(&block, 64, bytes) ? NULL : (fk_storage *)block;
}

/* A block by which the process grows; NULL when there is no room. */
FK_COLD fk_storage *fk_block_new(int size_class, int64_t nbytes) {
    fk_memory_stats *stats = &fk_memory.stats;
    if (fk_memory.cache_limit < 0) fk_memory_start();
    int large = size_class == FK_LARGE_CLASS;
    int64_t bytes = large ? nbytes + FK_STORAGE_HEADER : fk_class_bytes(size_class);
    if (!fk_memory_make_room(bytes)) return NULL;
    fk_storage *block = fk_block_grow(size_class, nbytes);
    if (!block && fk_cached()) {
        fk_cache_empty();
        stats->flushes++;
        block = fk_block_grow(size_class, nbytes);
    }
    stats->allocations += block != NULL;
    return block;
}

FK_COLD fk_storage *fk_large_new(int64_t nbytes) {
    fk_storage *block = fk_heap_take(nbytes + FK_STORAGE_HEADER, 0);
    return block ? block : fk_block_new(FK_LARGE_CLASS, nbytes);
}

/* A block of the heap or of malloc; NULL where there is no memory. */
FK_COLD fk_storage *fk_block_take(int64_t nbytes) {
    int size_class = nbytes > FK_SMALL_MOST ? FK_LARGE_CLASS : fk_size_class(nbytes);
    fk_storage *block =
        size_class == FK_LARGE_CLASS ? fk_large_new(nbytes) : fk_block_new(size_class, nbytes);
    if (!block) return NULL;
    block->size_class = size_class;
    block->data = (char *)block + FK_STORAGE_HEADER;
    fk_guard.unguarded += fk_guard_on();
    return block;
}

/* A guarded block; NULL where there is no room among them. */
FK_COLD fk_storage *fk_block_guarded(int64_t nbytes) {
    char *data;
    if (fk_memory.cache_limit < 0) fk_memory_start();
    if (!fk_memory_make_room(nbytes)) return NULL;
    fk_storage *block = (fk_storage *)(void *)fk_guard_take(nbytes, 1, FK_GUARD_STORAGE, &data);
    if (!block) return NULL;
    block->size_class = FK_GUARDED_CLASS;
    block->data = data;
    fk_memory.stats.allocations++;
    return block;
}

/* ---- storages ---- */

FK_INLINE void fk_storage_start(fk_storage *storage, int64_t nbytes, int32_t flags) {
    storage->refs = 1;
    storage->nbytes = nbytes;
    storage->version = 0;
    storage->uncounted = 0;
    storage->flags = flags;
    storage->device = 0;
    storage->owner = NULL;
    storage->release = NULL;
    storage->extra = NULL;
    storage->next = NULL;
    storage->object = NULL;
}

FK_COLD fk_storage *fk_storage_new_slow(int64_t nbytes) {
    fk_memory_stats *stats = &fk_memory.stats;
    fk_storage *block = NULL;
    if (nbytes >= 0 && nbytes <= FK_STORAGE_MAX) {
        if (fk_guard_on()) block = fk_block_guarded(nbytes);
        if (!block) block = fk_block_take(nbytes);
    }
    stats->requested++;
    if (!block) {
        stats->failures++;
        return NULL;
    }
    stats->live++;
    stats->allocated += fk_block_bytes(block);
    if (stats->allocated > stats->peak) stats->peak = stats->allocated;
    fk_storage_start(block, nbytes, 0);
    return block;
}

/* Memory of our own, uninitialised; NULL when there is none or the size is negative or absurd. */
FK_INLINE fk_storage *fk_storage_new(int64_t nbytes) {
    if (FK_UNLIKELY((uint64_t)nbytes > FK_SMALL_MOST)) return fk_storage_new_slow(nbytes);
    int size_class = fk_size_class(nbytes);
    fk_storage *block = fk_memory.free[size_class];
    if (FK_UNLIKELY(!block)) return fk_storage_new_slow(nbytes);
    fk_memory.free[size_class] = block->next;
    fk_memory_stats *stats = &fk_memory.stats;
    int64_t bytes = fk_class_bytes(size_class);
    stats->cached -= bytes;
    stats->allocated += bytes;
    if (stats->allocated > stats->peak) stats->peak = stats->allocated;
    stats->requested++;
    stats->live++;
    fk_storage_start(block, nbytes, 0);
    return block;
}

FK_COLD fk_storage *fk_storage_header(char *data, int64_t nbytes, int32_t flags) {
    fk_storage *storage = nbytes < 0 ? NULL : malloc(sizeof *storage);
    if (!storage) return NULL;
    fk_storage_start(storage, nbytes, flags);
    storage->data = data;
    storage->size_class = FK_HEADER_ONLY;
    fk_memory.stats.live++;
    return storage;
}

/* Memory that `owner` keeps alive; `release(owner)` runs when the storage dies (either may be
 * NULL). NULL when there is no room for the header: `release` has then not been called. */
FK_COLD fk_storage *fk_storage_from(
    void *data, int64_t nbytes, void *owner, void (*release)(void *)) {
    fk_storage *storage = fk_storage_header((char *)data, nbytes, FK_FOREIGN);
    if (!storage) return NULL;
    storage->owner = owner;
    storage->release = release;
    return storage;
}

/* A size without data, for the meta device. */
FK_COLD fk_storage *fk_storage_meta(int64_t nbytes) {
    return fk_storage_header(NULL, nbytes, FK_META);
}

FK_INLINE void fk_storage_incref(fk_storage *storage) { storage->refs++; }

FK_COLD void fk_storage_free_slow(fk_storage *storage) {
    void (*release)(void *) = storage->release;
    void *owner = storage->owner;
    fk_memory_stats *stats = &fk_memory.stats;
    stats->live--;
    storage->release = NULL;
    if (storage->size_class == FK_HEADER_ONLY) {
        free(storage);
    } else if (storage->size_class == FK_GUARDED_CLASS) {
        stats->allocated -= fk_block_bytes(storage);
        fk_guard_give((char *)storage);
    } else {
        stats->allocated -= fk_block_bytes(storage);
        storage->data = (char *)storage + FK_STORAGE_HEADER;
        if (storage->size_class == FK_LARGE_CLASS) {
            fk_heap_give(storage);
        } else {
            storage->next = fk_memory.free[storage->size_class];
            fk_memory.free[storage->size_class] = storage;
            stats->cached += fk_class_bytes(storage->size_class);
        }
        if (fk_cached() > fk_memory.cache_limit) fk_cache_trim();
    }
    if (release) release(owner); /* last: it may run anything, also this allocator */
}

FK_INLINE void fk_storage_decref(fk_storage *storage) {
    if (--storage->refs) return;
    int size_class = storage->size_class;
    fk_memory_stats *stats = &fk_memory.stats;
    /* a header of its own has class -1, which is a large number here */
    if (FK_UNLIKELY((unsigned)size_class >= FK_LARGE_CLASS || storage->release)) {
        fk_storage_free_slow(storage);
        return;
    }
    int64_t bytes = fk_class_bytes(size_class);
    if (FK_UNLIKELY(fk_cached() + bytes > fk_memory.cache_limit)) {
        fk_storage_free_slow(storage);
        return;
    }
    storage->next = fk_memory.free[size_class];
    fk_memory.free[size_class] = storage;
    stats->cached += bytes;
    stats->allocated -= bytes;
    stats->live--;
}

/* ---- limits and statistics ---- */

/* The most bytes that freed blocks may keep; negative: back to the default, a quarter of the
 * machine's memory. */
FK_COLD void fk_cache_set_limit(int64_t bytes) {
    fk_memory_start();
    if (bytes >= 0 && !fk_guard_on()) fk_memory.cache_limit = bytes;
    if (fk_cached() > fk_memory.cache_limit) fk_cache_trim();
}

/* The most bytes in use and cached together; 0 or less: no limit. */
FK_COLD void fk_memory_set_limit(int64_t bytes) {
    fk_memory.memory_limit = bytes > 0 ? bytes : 0;
    if (bytes > 0 && fk_memory.stats.allocated + fk_cached() > bytes) fk_cache_empty();
}

FK_LOCAL fk_memory_stats fk_memory_get_stats(void) {
    fk_memory_stats stats = fk_memory.stats;
    stats.cached = fk_cached();
    return stats;
}

/* Looks for damage; returns the number of guarded blocks, or -1 with what was found in `text`. */
FK_COLD int64_t fk_memory_check(char *text, size_t size) {
    fk_heap_lock();
    int whole = fk_heap_consistent();
    fk_heap_unlock();
    if (whole) return fk_guard_on() ? fk_guard_check_all(text, size) : 0;
    snprintf(text, size, "the spans of the heap are not what they were: a header was written over");
    return -1;
}

FK_LOCAL int64_t fk_memory_unguarded(void) { return fk_guard.unguarded; }

FK_LOCAL void fk_memory_reset_peak(void) { fk_memory.stats.peak = fk_memory.stats.allocated; }
#endif
