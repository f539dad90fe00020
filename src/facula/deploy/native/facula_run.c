/* facula-run: a packaged model on arrays in .npy files.
 *
 * Takes: facula-run model.pt2 in.npy ... out.npy ...: as many files as the model has inputs, then outputs; one output file
 * takes the first output of several. `facula-run model.pt2` describes the model.
 * Gives: the outputs; on an error one line on stderr, exit status 1 and no file. */
#include "facula_model.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const codes[] = {"f4", "f8", "f2", "V2", "i8", "i4", "i2", "i1", "u1", "b1", "c8", "c16", "V4", "u2", "u4", "u8", "V1", "V1", "V1", "V1"};
static const int sizes[] = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1, 8, 16, 4, 2, 4, 8, 1, 1, 1, 1};
enum { DTYPES = sizeof sizes / sizeof *sizes, MOST = 64 };

static int fail(const char *what, const char *path) {
    fprintf(stderr, "facula-run: %s: %s\n", what, path);
    return 1;
}

static int64_t bytes_of(const facula_tensor *t) {
    int64_t bytes = sizes[t->dtype];
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] < 0 || __builtin_mul_overflow(bytes, t->shape[d], &bytes)) return -1;
    return bytes;
}

/* The head of a .npy file: its dtype and shape. */
static int parse_head(char *head, facula_tensor *t) {
    char *descr = strstr(head, "'descr'"), *order = strstr(head, "'fortran_order'"), *shape = strstr(head, "'shape'");
    if (!descr || !order || !shape || !(descr = strchr(descr + 7, '\'')) || !(shape = strchr(shape, '('))) return -1;
    if (!strstr(order, "False") || (strstr(order, "True") && strstr(order, "True") < strstr(order, "False"))) return -1;
    descr += descr[1] == '<' || descr[1] == '|' || descr[1] == '=' ? 2 : 1;
    for (t->dtype = 0; t->dtype < DTYPES; t->dtype++) {
        size_t length = strlen(codes[t->dtype]);
        if (!strncmp(descr, codes[t->dtype], length) && descr[length] == '\'') break;
    }
    if (t->dtype == DTYPES) return -1;
    t->ndim = 0;
    for (char *at = shape + 1; *at && *at != ')';) {
        if (isdigit((unsigned char)*at)) {
            if (t->ndim == FACULA_MODEL_DIMS) return -1;
            t->shape[t->ndim++] = strtoll(at, &at, 10);
        } else {
            at++;
        }
    }
    return 0;
}

static int read_array(const char *path, facula_tensor *t) {
    unsigned char begin[12];
    char head[4096];
    FILE *file = fopen(path, "rb");
    int r = -1;
    if (!file) return -1;
    if (fread(begin, 1, 10, file) == 10 && !memcmp(begin, "\x93NUMPY", 6) && begin[6] >= 1) {
        size_t length = begin[8] | (size_t)begin[9] << 8;
        if (begin[6] > 1 && fread(begin + 10, 1, 2, file) == 2) length |= (size_t)begin[10] << 16 | (size_t)begin[11] << 24;
        if (length < sizeof head && fread(head, 1, length, file) == length) {
            head[length] = 0;
            int64_t bytes = parse_head(head, t) ? -1 : bytes_of(t);
            t->data = bytes < 0 ? NULL : malloc((size_t)bytes + 1);
            if (t->data && fread(t->data, 1, (size_t)bytes, file) == (size_t)bytes) r = 0;
        }
    }
    fclose(file);
    return r;
}

static int write_array(const char *path, const facula_tensor *t) {
    char head[1024], place[4096];
    int at = snprintf(head, sizeof head, "{'descr': '%s%s', 'fortran_order': False, 'shape': (", sizes[t->dtype] > 1 && *codes[t->dtype] != 'V' ? "<" : "|", codes[t->dtype]);
    for (int d = 0; d < t->ndim; d++) at += snprintf(head + at, sizeof head - (size_t)at, "%lld,%s", (long long)t->shape[d], d + 1 < t->ndim ? " " : "");
    at += snprintf(head + at, sizeof head - (size_t)at, "), }");
    while ((10 + at + 1) % 64) head[at++] = ' ';
    head[at++] = '\n';
    snprintf(place, sizeof place, "%s.part", path);
    FILE *file = fopen(place, "wb");
    if (!file) return -1;
    unsigned char begin[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)at, (unsigned char)(at >> 8)};
    size_t bytes = (size_t)bytes_of(t);
    int good = fwrite(begin, 1, 10, file) == 10 && fwrite(head, 1, (size_t)at, file) == (size_t)at && fwrite(t->data, 1, bytes, file) == bytes;
    good &= !fclose(file);
    if (good && !rename(place, path)) return 0;
    remove(place);
    return -1;
}

static void print_value(const facula_description *d) {
    printf("  %s: %s[", d->name, codes[d->dtype]);
    for (int i = 0; i < d->ndim; i++) {
        printf("%s%lld", i ? ", " : "", (long long)d->least[i]);
        if (d->least[i] != d->most[i]) printf("..%lld", (long long)d->most[i]);
    }
    printf("]\n");
}

static int describe(const facula_model *model) {
    facula_description d;
    printf("native code: %s\ninputs:\n", facula_model_variant(model));
    for (int i = 0; i < facula_model_inputs(model); i++)
        if (!facula_model_describe_input(model, i, &d)) print_value(&d);
    printf("outputs: %d\nconstants: %d\n", facula_model_outputs(model), facula_model_constants(model));
    return 0;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* FACULA_RUN_TIMES=n: how long the first run took, and the median of n more */
static void measure(facula_model *model, const facula_tensor *in, int inputs, facula_tensor *out, int outputs, double opened, double first) {
    const char *times = getenv("FACULA_RUN_TIMES");
    int count = times ? atoi(times) : 0;
    if (!times) return;
    double *took = calloc((size_t)count + 1, sizeof *took);
    for (int i = 0; took && i < count; i++) {
        double begin = now(), own;
        facula_model_run(model, in, inputs, out, outputs, NULL, 0);
        own = now() - begin;
        int k = i;
        for (; k > 0 && took[k - 1] > own; k--) took[k] = took[k - 1];
        took[k] = own;
    }
    fprintf(stderr, "open %.2f ms, first run %.2f ms", opened, first);
    if (took && count > 0) fprintf(stderr, ", median of %d: %.3f ms", count, took[count / 2]);
    fprintf(stderr, "\n");
    free(took);
}

static int run(facula_model *model, int count, char **files) {
    facula_tensor in[MOST] = {{0}}, out[MOST] = {{0}};
    int inputs = facula_model_inputs(model), outputs = facula_model_outputs(model), written = count - inputs;
    char error[512] = "";
    if (inputs > MOST || outputs > MOST || written < 1 || written > outputs) {
        fprintf(stderr, "facula-run: %d input files and 1 to %d output files were required: got %d files\n", inputs, outputs, count);
        return 1;
    }
    for (int i = 0; i < inputs; i++)
        if (read_array(files[i], &in[i])) return fail("a .npy file in C order was required", files[i]);
    double begin = now();
    if (facula_model_run(model, in, inputs, out, outputs, error, sizeof error)) return fail("the model did not run", error);
    measure(model, in, inputs, out, outputs, 0, now() - begin);
    for (int i = 0; i < written; i++)
        if (write_array(files[inputs + i], &out[i])) return fail("a file that can be written was required", files[inputs + i]);
    return 0;
}

int main(int count, char **words) {
    char error[512] = "";
    if (count < 2) return fail("a model was required", "facula-run model.pt2 in.npy ... out.npy");
    double begin = now();
    facula_model *model = facula_model_open(words[1], getenv("FACULA_RUN_KERNELS"), error, sizeof error);
    if (getenv("FACULA_RUN_TIMES")) fprintf(stderr, "open %.2f ms\n", now() - begin);
    if (!model) return fail("the model can not be opened", error);
    return count == 2 ? describe(model) : run(model, count - 2, words + 2);
}
