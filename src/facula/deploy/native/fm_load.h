/* The native code of a package: the richest library that this processor runs, and its kernels by name.
 *
 * Takes: a checked package. Gives: `fm_load_kernels`.
 * Keeps true: a library of another ABI, for a processor that is not there, or without a kernel that the program names, is an
 * error before anything runs. */
#ifndef FM_LOAD_H
#define FM_LOAD_H
#include "fm_program.h"
#include "fm_zip.h"
#include "facula_abi.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
static const char *const fm_variants[] = {"v4", "v3", "v2"};

static int fm_runs(int variant) {
    __builtin_cpu_init();
    int v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("ssse3");
    int v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
    return variant == 0 ? v4 : variant == 1 ? v3 : v2;
}
#else
static const char *const fm_variants[] = {"neon"};

static int fm_runs(int variant) { return variant == 0; }
#endif
enum { FM_VARIANTS = sizeof fm_variants / sizeof *fm_variants };

static int fm_runs_named(const char *name) {
    for (int i = 0; i < FM_VARIANTS; i++)
        if (!strcmp(fm_variants[i], name)) return fm_runs(i);
    return 0;
}

/* kernels that are linked into the library, for the variant FACULA_VARIANT */
extern fk_entry facula_kernels[] __attribute__((weak));
extern const int facula_abi __attribute__((weak));
#ifndef FACULA_VARIANT
#define FACULA_VARIANT "none"
#endif

/* a file without a name that holds these bytes, open; -1 where there can be none */
static int fm_memory_file(const char *bytes, size_t size) {
    int file = memfd_create("facula-model", MFD_CLOEXEC);
    for (size_t at = 0; file >= 0 && at < size;) {
        ssize_t wrote = write(file, bytes + at, size - at);
        if (wrote <= 0) {
            close(file);
            return -1;
        }
        at += (size_t)wrote;
    }
    return file;
}

static void *fm_open_packed(const fm_entry *entry, const fm_error *e) {
    static atomic_uint opened;
    char path[224] = "/proc/self/fd/";
    int file = fm_memory_file(entry->bytes, entry->size);
    if (file < 0) return fm_fail(e, "package: room in memory for %s was required: there is none", entry->name), NULL;
    /* Another text for each: the system knows libraries by it, and numbers of files are used again. Others in the
     * process count as well, copies of this runtime among them: each has its counter at a place of its own. */
    uint64_t numbers[2] = {atomic_fetch_add(&opened, 1), (uint64_t)(uintptr_t)&opened};
    for (int bit = 0; bit < 84; bit++) strcat(path, numbers[bit >= 20] >> (bit < 20 ? bit : bit - 20) & 1 ? "./" : "//");
    snprintf(path + strlen(path), 16, "%d", file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fm_fail(e, "package: a library that the system loads was required: %s: %s", entry->name, dlerror());
    close(file);
    return library;
}

/* The library out of the package, or (where it has no native code) out of the folder; NULL with an error. */
static void *fm_open_library(const fm_package *package, const char *folder, const char **variant, const fm_error *e) {
    char path[4096], there[64] = "";
    int own = 0;
    for (int i = 0; i < package->count; i++) {
        if (strncmp(package->entries[i].name, "lib/", 4)) continue;
        snprintf(there + strlen(there), sizeof there - strlen(there), " %s", package->entries[i].name + 4);
        own = 1;
    }
    for (int i = 0; i < FM_VARIANTS; i++) {
        if (!fm_runs(i)) continue;
        *variant = fm_variants[i];
        snprintf(path, sizeof path, "lib/%s.so", fm_variants[i]);
        const fm_entry *entry = fm_find(package, path);
        if (entry) return fm_open_packed(entry, e);
        if (own) continue;
        snprintf(path, sizeof path, "%s/%s.so", folder, fm_variants[i]);
        if (!access(path, R_OK)) {
            void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (!library) fm_fail(e, "model: a library that the system loads was required: %s", dlerror());
            return library;
        }
    }
    if (own) fm_fail(e, "package: native code that this processor runs was required: the package has%s; package it for this processor too", there);
    else fm_fail(e, "model: a kernel library was required: there is none for this processor in %s", folder);
    return NULL;
}

static int fm_find_kernels(const fk_entry *table, const int *abi, const fm_program *program, const fk_entry **kernels, const fm_error *e) {
    if (!table || !abi || *abi != FACULA_ABI) return fm_fail(e, "package: kernels of ABI %d were required: got %d", FACULA_ABI, abi ? *abi : 0);
    for (int k = 0; k < program->kernels; k++) {
        const fk_entry *row = table;
        while (row->name && strcmp(row->name, program->kernel[k])) row++;
        if (!row->name) return fm_fail(e, "model: the kernel %s was required: the library has none", program->kernel[k]);
        if (!row->fn || !row->operands) return fm_fail(e, "model: a kernel that says what its operands are was required: %s does not", row->name);
        kernels[k] = row;
    }
    return 0;
}
#endif
