/* Feeds damaged packages to the runtime of packaged models, under sanitizers (`fuzz_packages.py` compiles and starts it).
 *
 * Takes: fuzz_packages COUNT SEED FILE...: packages that are sound, and behind `-` those whose kernels are not run. Gives: how
 * many were opened and how many were run. Linked with the kernels that the former name (`facula_kernels`), sanitized as well.
 * Keeps true: a part of the packages has digests that are right, so that damaged programs are read, planned and run. Kernels
 * that are not run are those of compiled graphs, whose code a package brings along, and those that read elements as places. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <dlfcn.h>
#include <unistd.h>
static void *no_library(const char *path, int flags) { (void)path, (void)flags; return (void *)(uintptr_t)1; }
static void *no_symbol(void *library, const char *name);
#define dlopen no_library
#define dlsym no_symbol
#define access(path, mode) 0
#include "facula_model.c"
#undef access

enum { SECONDS = 60 }; /* that a package may take */
static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return below ? (state >> 11) % below : 0;
}

/* every kernel, without anything in it; `stands_in` while a package's kernels are not run */
static fk_entry hollow[4096];
static int stands_in;

static int nothing(char *const *p, const int64_t *n, const fk_scalar *s, const void *services) { return (void)p, (void)n, (void)s, (void)services, 0; }

static void *no_symbol(void *library, const char *name) {
    (void)library;
    if (!strcmp(name, "facula_abi")) return (void *)(uintptr_t)&facula_abi;
    return stands_in ? hollow : facula_kernels;
}

static void learn(void) {
    for (int k = 0; k < 4095 && facula_kernels[k].name; k++) {
        hollow[k] = facula_kernels[k];
        hollow[k].fn = (void *)(uintptr_t)nothing;
    }
}

/* Linked in memcpy's place: where operands of a damaged step lie over one another its numbers are others, and no other memory
 * is touched. */
void *__wrap_memcpy(void *to, const void *from, size_t bytes) { return memmove(to, from, bytes); }

static void damage(char *bytes, size_t size, int text) {
    static const char digits[] = "0123456789 -$\n";
    for (uint64_t times = 1 + draw(draw(3) ? 2 : 8); times && size; times--) {
        size_t at = draw(size), from = draw(size), length = 1 + draw(draw(2) ? 4 : 64);
        if (length > size - at) length = size - at;
        if (length > size - from) length = size - from;
        switch (draw(text ? 7 : 4)) {
        case 0: bytes[at] = (char)draw(256); break;
        case 1: bytes[at] ^= (char)(1 << draw(8)); break;
        case 2: memmove(bytes + at, bytes + from, length); break;
        case 3: memset(bytes + at, text ? '9' : (int)draw(2) * 255, length); break;
        case 4: bytes[at] = digits[draw(sizeof digits - 1)]; break;
        default: /* another number, so that the text can be read still */
            while (at < size && (bytes[at] < '0' || bytes[at] > '9')) at++;
            if (at < size) bytes[at] = (char)('0' + draw(10));
        }
    }
}

/* the digests of a package whose entries were changed, in its manifest */
static void seal(char *bytes, size_t size) {
    char nothing_said[8], digest[72];
    fm_package package = {.bytes = bytes, .size = size};
    fm_error e = {nothing_said, sizeof nothing_said};
    if (fm_zip_read(&package, &e)) return;
    const fm_entry *manifest = fm_find(&package, "manifest");
    char *text = (char *)(uintptr_t)manifest->bytes, *line = text, *end = text + manifest->size;
    while ((line = memmem(line, (size_t)(end - line), "\nentry ", 7))) {
        char *word = line + 7, *name = memchr(word, '\n', (size_t)(end - word));
        while (name[-1] != ' ') name--;
        char plain[FM_NAME];
        size_t length = (size_t)((char *)memchr(name, '\n', (size_t)(end - name)) - name);
        memcpy(plain, name, length), plain[length] = 0;
        const fm_entry *entry = fm_find(&package, plain);
        if (*word != 'w') fm_sha256(entry->bytes, entry->size, digest), memcpy(word, digest, 64);
        line = word;
    }
    char *last = memmem(text, manifest->size, "\nend ", 5);
    fm_sha256(text, (size_t)(last + 1 - text), digest);
    memcpy(last + 5, digest, 64);
}

/* on inputs of the least sizes, and on some that do not fit */
static int run(facula_model *model) {
    facula_tensor in[8] = {{0}}, out[8] = {{0}};
    facula_description d;
    char error[256];
    int inputs = facula_model_inputs(model), outputs = facula_model_outputs(model), good;
    if (inputs > 8 || outputs > 8) return 0;
    for (int i = 0; i < inputs; i++) {
        int64_t bytes = 16;
        int wrong = 0;
        facula_model_describe_input(model, i, &d);
        in[i].dtype = d.dtype, in[i].ndim = d.ndim;
        for (int k = 0; k < d.ndim; k++) in[i].shape[k] = draw(16) ? d.least[k] : (int64_t)draw(9) - 1;
        for (int k = 0; k < d.ndim; k++) bytes = fm_product(bytes, in[i].shape[k], &wrong);
        in[i].data = wrong || bytes < 0 || bytes > 1 << 24 ? NULL : calloc(1, (size_t)bytes + 1);
        if (!draw(32)) in[i].dtype = (int)draw(FK_DTYPES);
    }
    good = !facula_model_run(model, in, inputs, out, outputs, error, sizeof error);
    for (int i = 0; i < inputs; i++) free(in[i].data);
    for (int i = 0; i < outputs; i++) facula_model_release(&out[i]);
    return good;
}

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size);
    if (bytes && fread(bytes, 1, *size, file) != *size) bytes = NULL;
    fclose(file);
    return bytes;
}

int main(int count, char **words) {
    long wanted = count > 3 ? atol(words[1]) : 0, opened = 0, ran = 0, sealed = 0, packages = count - 3;
    state = 0x9e3779b97f4a7c15u ^ (count > 2 ? strtoull(words[2], NULL, 10) : 0);
    fk_set_num_threads(1);
    learn();
    for (int k = 3; k < count; k++) packages -= !strcmp(words[k], "-");
    for (int k = 3; k < count; k++) {
        size_t size;
        if (!strcmp(words[k], "-")) {
            stands_in = 1;
            continue;
        }
        char *sound = read_file(words[k], &size), error[256];
        fm_package package = {.bytes = sound, .size = size};
        fm_error e = {error, sizeof error};
        if (!sound || fm_zip_read(&package, &e)) return 2;
        const fm_entry *text = fm_find(&package, "program");
        facula_model *model = facula_model_open_memory(sound, size, ".", error, sizeof error);
        if (!model) return fprintf(stderr, "%s: %s\n", words[k], error), 2;
        int runs = run(model);
        for (int again = 0; !runs && again < 64; again++) runs = run(model); /* some inputs are made to be refused */
        facula_model_close(model);
        if (!runs) return fprintf(stderr, "%s: a sound package that runs was required\n", words[k]), 2;
        for (long i = 0; i < wanted / packages; i++) {
            alarm(SECONDS);
            size_t left = size;
            char *bytes = malloc(size);
            memcpy(bytes, sound, size);
            if (draw(2)) {
                size_t at = (size_t)(text->bytes - sound);
                damage(bytes + at, text->size, 1);
                seal(bytes, size);
                sealed++;
            } else {
                damage(bytes, size, 0);
                if (!draw(8)) left = draw(size);
            }
            char *exact = malloc(left ? left : 1); /* so that a byte behind the end is noticed */
            memcpy(exact, bytes, left);
            error[0] = 0;
            model = facula_model_open_memory(exact, left, ".", error, sizeof error);
            if (!model && !error[0]) return fprintf(stderr, "an error without words\n"), 3;
            if (model) {
                opened++;
                for (int again = 0; again < 2; again++) ran += run(model);
                facula_model_close(model);
            }
            free(exact);
            free(bytes);
        }
        free(sound);
    }
    printf("%ld packages, %ld with right digests: %ld opened, %ld runs\n", wanted, sealed, opened, ran);
    return 0;
}
