/* Packages as files: a ZIP of stored entries, each with a digest in the manifest.
 *
 * Takes: the bytes of a package. Gives: `fm_package_read`: its entries, checked, and what the manifest says.
 * Keeps true: nothing is read outside of the bytes; an entry that the manifest does not name, or whose digest is another, is
 * an error, and so is a manifest of another version or machine. */
#ifndef FM_ZIP_H
#define FM_ZIP_H
#include "fm_digest.h"

enum { FM_ENTRIES = 64, FM_NAME = 96 };

typedef struct {
    char name[FM_NAME];
    const char *bytes;
    size_t size;
    int checked;
} fm_entry;

typedef struct {
    const char *bytes;
    size_t size;
    int count;
    fm_entry entries[FM_ENTRIES];
} fm_package;

static uint32_t fm_u32(const char *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

static uint16_t fm_u16(const char *p) {
    uint16_t x;
    memcpy(&x, p, 2);
    return x;
}

static const fm_entry *fm_find(const fm_package *package, const char *name) {
    for (int i = 0; i < package->count; i++)
        if (!strcmp(package->entries[i].name, name)) return &package->entries[i];
    return NULL;
}

/* names are letters, digits and _ . - in folders: none leads out of the package */
static int fm_is_name(const char *name, size_t length) {
    if (!length || length >= FM_NAME || name[0] == '/' || name[0] == '.') return 0;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '_' && c != '.' && c != '-' && c != '/') return 0;
        if (c == '.' && i + 1 < length && name[i + 1] == '.') return 0;
    }
    return 1;
}

/* one record of the central directory at `at`; gives where the next one is */
static int64_t fm_zip_record(fm_package *package, size_t at, size_t end, const fm_error *e) {
    const char *p = package->bytes + at;
    if (end - at < 46 || fm_u32(p) != 0x02014b50) return fm_fail(e, "package: its table of contents was required: it is damaged");
    size_t size = fm_u32(p + 24), local = fm_u32(p + 42), name = fm_u16(p + 28);
    size_t next = at + 46 + name + fm_u16(p + 30) + fm_u16(p + 32);
    if (next > end || package->count == FM_ENTRIES || !fm_is_name(p + 46, name))
        return fm_fail(e, "package: at most %d entries with plain names were required", FM_ENTRIES);
    if (fm_u16(p + 10) || fm_u32(p + 20) != size) return fm_fail(e, "package: entries that are not compressed were required");
    if (local > package->size || package->size - local < 30 || fm_u32(package->bytes + local) != 0x04034b50)
        return fm_fail(e, "package: an entry behind each line of its table was required: it is cut or damaged");
    size_t start = local + 30 + fm_u16(package->bytes + local + 26) + fm_u16(package->bytes + local + 28);
    if (start > package->size || package->size - start < size) return fm_fail(e, "package: all bytes of its entries were required: it is cut");
    fm_entry *entry = &package->entries[package->count++];
    memcpy(entry->name, p + 46, name);
    entry->name[name] = 0;
    entry->bytes = package->bytes + start;
    entry->size = size;
    return (int64_t)next;
}

static int fm_zip_read(fm_package *package, const fm_error *e) {
    size_t size = package->size, least = size > 66000 ? size - 66000 : 0, at = size < 22 ? 0 : size - 22;
    if (size < 22 || size >= 0xffffffffu) return fm_fail(e, "package: a ZIP file of less than 4 GiB was required: got %zu bytes", size);
    while (at > least && fm_u32(package->bytes + at) != 0x06054b50) at--;
    const char *p = package->bytes + at;
    if (fm_u32(p) != 0x06054b50) return fm_fail(e, "package: a ZIP file was required: this is none, or its end is missing");
    size_t count = fm_u16(p + 10), length = fm_u32(p + 12), begin = fm_u32(p + 16);
    if (begin > at || length > at - begin) return fm_fail(e, "package: its table of contents was required: it is damaged");
    for (size_t k = 0, next = begin; k < count; k++) {
        int64_t after = fm_zip_record(package, next, begin + length, e);
        if (after < 0) return -1;
        next = (size_t)after;
    }
    return 0;
}

static const char *fm_machine(void) {
#if defined(__aarch64__)
    return "aarch64";
#else
    return "x86_64";
#endif
}

/* one line of the manifest: `entry <digest> <size> <name>` */
static int fm_check_entry(fm_package *package, const char *line, const fm_error *e) {
    char digest[72], name[FM_NAME], found[72];
    unsigned long long size;
    uint64_t words[2];
    if (sscanf(line, "entry %70s %llu %95s", digest, &size, name) != 3) return fm_fail(e, "package: a manifest was required: a line of it is damaged");
    fm_entry *entry = (fm_entry *)(uintptr_t)fm_find(package, name);
    if (!entry || entry->size != size) return fm_fail(e, "package: %s of %llu bytes was required: it is %s", name, size, entry ? "of another size" : "missing");
    if (digest[0] == 'w') {
        facula_digest(entry->bytes, entry->size, words);
        snprintf(found, sizeof found, "w%016llx%016llx", (unsigned long long)words[0], (unsigned long long)words[1]);
    } else {
        fm_sha256(entry->bytes, entry->size, found);
    }
    if (strcmp(found, digest)) return fm_fail(e, "package: the digest of the manifest was required of %s: its bytes have another (a damaged file)", name);
    entry->checked = 1;
    return 0;
}

/* Version, machine and digests; `text` is the manifest, ended by a zero. */
static int fm_check_manifest(fm_package *package, char *text, const fm_error *e) {
    int version = 0, abi = 0;
    char machine[32] = "", sum[65], *last = strstr(text, "\nend "), *line;
    if (sscanf(text, "facula-package %d\nabi %d\nmachine %31s\n", &version, &abi, machine) != 3 || !last)
        return fm_fail(e, "package: a package of facula was required: its manifest is no manifest");
    if (version != 1 || abi != FACULA_MODEL_ABI)
        return fm_fail(e, "package: version 1 with ABI %d was required: got version %d with ABI %d; package the model again", FACULA_MODEL_ABI, version, abi);
    fm_sha256(text, (size_t)(last + 1 - text), sum);
    if (strncmp(last + 5, sum, 64)) return fm_fail(e, "package: an undamaged manifest was required: its digest is another");
    if (strcmp(machine, fm_machine()) && strcmp(machine, "any"))
        return fm_fail(e, "package: native code for %s was required: the package is for %s", fm_machine(), machine);
    for (line = strstr(text, "\nentry "); line; line = strstr(line + 1, "\nentry "))
        if (fm_check_entry(package, line + 1, e)) return -1;
    for (int i = 0; i < package->count; i++)
        if (!package->entries[i].checked && strcmp(package->entries[i].name, "manifest"))
            return fm_fail(e, "package: entries that the manifest names were required: got %s", package->entries[i].name);
    return 0;
}

static int fm_package_read(fm_package *package, const fm_error *e) {
    if (fm_zip_read(package, e)) return -1;
    const fm_entry *manifest = fm_find(package, "manifest");
    if (!manifest || manifest->size > 1 << 20) return fm_fail(e, "package: a package of facula was required: got a ZIP file without its manifest");
    char *text = calloc(1, manifest->size + 1);
    if (!text) return fm_fail(e, "package: memory was required: there is none");
    memcpy(text, manifest->bytes, manifest->size);
    int r = fm_check_manifest(package, text, e);
    free(text);
    return r;
}
#endif
