/* The runtime of packaged models: the functions of `facula_model.h`.
 *
 * Takes: packages. Gives: a library without Python, and (with `facula_run.c`) a program.
 * Keeps true: weights are read where the file is mapped; a run that begins sees the constants of one moment. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "facula_model.h"
#include "fm_run.h"
#include "fm_load.h"
#include <pthread.h>
#include <sys/stat.h>

enum { FM_IDLE = 8 };

/* a package that is linked into the library */
extern const char facula_embedded[] __attribute__((weak)), facula_embedded_end[] __attribute__((weak));

struct facula_model {
    fm_package package;
    fm_program program;
    fm_reader memory;
    const fk_entry **kernels;
    void *mapped;
    const char *variant;
    int64_t *bytes; /* of inputs and constants */
    char **constants, **copies, *derived; /* `copies`: of those that were swapped; `derived`: all of those, one after the other */
    fm_context *idle;
    pthread_mutex_t lock;
    pthread_rwlock_t swap;
};

int facula_model_abi(void) { return FACULA_MODEL_ABI; }

void facula_model_close(facula_model *model) {
    if (!model) return;
    while (model->idle) {
        fm_context *next = model->idle->next;
        fm_context_free(model->idle);
        model->idle = next;
    }
    for (int i = 0; model->copies && i < model->program.constants; i++) free(model->copies[i]);
    for (size_t i = 0; i < model->memory.count; i++) free(model->memory.owned[i]);
    free(model->memory.owned);
    free(model->derived);
    /* the library stays: a worker of the pool may still be on its way out of a kernel */
    if (model->mapped) munmap(model->mapped, model->package.size);
    pthread_mutex_destroy(&model->lock);
    pthread_rwlock_destroy(&model->swap);
    free(model);
}

/* ---- opening ---- */

static int64_t fm_bytes(const facula_tensor *t, int *wrong) {
    int64_t bytes = fk_itemsize[t->dtype];
    for (int d = 0; d < t->ndim; d++) bytes = fm_product(bytes, t->shape[d], wrong);
    return bytes;
}

/* Memory for all derived constants in one piece: on huge pages it takes few faults, which are a good part of a start. */
static int fm_place_derived(facula_model *model, const fm_error *e) {
    const fm_program *program = &model->program;
    int64_t room = 0, at = 0;
    int wrong = 0;
    for (int i = 0; i < program->constants; i++)
        if (program->constant[i].derived) room = fm_sum(room, fm_sum(program->constant[i].bytes, 127, &wrong) & ~(int64_t)63, &wrong);
    if (wrong || !(model->derived = fm_memory(room))) return fm_fail(e, "model: memory was required: there is none");
    for (int i = 0; i < program->constants; i++) {
        if (!program->constant[i].derived) continue;
        model->constants[i] = model->derived + at;
        at += (program->constant[i].bytes + 127) & ~(int64_t)63;
    }
    return 0;
}

static int fm_place_constants(facula_model *model, const fm_error *e) {
    const fm_program *program = &model->program;
    const fm_entry *weights = fm_find(&model->package, "weights");
    model->bytes = fm_own(&model->memory, program->inputs + program->constants, sizeof *model->bytes);
    model->constants = fm_own(&model->memory, program->constants, sizeof *model->constants);
    model->copies = fm_own(&model->memory, program->constants, sizeof *model->copies);
    if (model->memory.failed) return -1;
    for (int i = 0; i < program->constants; i++) {
        const fm_value_of *value = &program->constant[i];
        int64_t bytes = fk_itemsize[value->dtype];
        int wrong = 0;
        for (int d = 0; d < value->ndim; d++) bytes = fm_product(bytes, value->b[d], &wrong);
        if (wrong || value->bytes > bytes) return fm_fail(e, "package: a program was required: it is damaged (the size of %s)", value->name);
        model->bytes[program->inputs + i] = value->bytes;
        if (value->derived) continue;
        int64_t room = weights ? (int64_t)weights->size : 0;
        if (value->offset > room || value->bytes > room - value->offset) return fm_fail(e, "package: all weights were required: %s is cut", value->name);
        uintptr_t place = (uintptr_t)(weights ? weights->bytes : "") + (uintptr_t)value->offset;
        if (value->bytes && place % 8) return fm_fail(e, "package: weights at multiples of 8 bytes were required: %s lies elsewhere", value->name);
        model->constants[i] = (char *)place;
    }
    return fm_place_derived(model, e);
}

static fm_surroundings fm_around(const facula_model *model) {
    return (fm_surroundings){&model->program, model->kernels, model->bytes};
}

/* what is made of the weights once: packed panels, folded norms */
static int fm_derive(facula_model *model, const fm_error *e) {
    const fm_program *program = &model->program;
    const fm_region *region = &program->region[0];
    int count = program->inputs + program->constants, next = 0, r = 0;
    int64_t sizes[FM_SYMBOLS] = {0};
    fm_surroundings around = fm_around(model);
    fm_context *c = fm_context_new(region, sizes, &around, e);
    if (!c) return -1;
    char **outer = calloc((size_t)count + 1, sizeof *outer), **targets = calloc((size_t)region->results + 1, sizeof *targets);
    if (!outer || !targets) r = fm_fail(e, "model: memory was required: there is none");
    for (int i = 0; !r && i < program->constants; i++) {
        outer[program->inputs + i] = model->constants[i];
        if (!program->constant[i].derived) continue;
        if (next >= region->results || c->outputs[next].bytes != program->constant[i].bytes) r = fm_fail(e, "package: a program was required: it is damaged (derived constants)");
        else targets[next++] = model->constants[i];
    }
    if (!r && next != region->results) r = fm_fail(e, "package: a program was required: it is damaged (derived constants)");
    if (!r) r = fm_run(c, outer, count, targets, e);
    free(outer);
    free(targets);
    fm_context_free(c);
    return r;
}

static int fm_read_model(facula_model *model, const char *kernels, const fm_error *e) {
    char folder[4096];
    Dl_info own;
    if (fm_package_read(&model->package, e)) return -1;
    const fm_entry *text = fm_find(&model->package, "program");
    if (!text) return fm_fail(e, "package: a program was required: it has none");
    model->memory = (fm_reader){.at = text->bytes, .end = text->bytes + text->size, .e = e};
    if (fm_program_read(&model->memory, &model->program) || fm_place_constants(model, e)) return -1;
    if (!kernels && dladdr((void *)(uintptr_t)&facula_model_abi, &own) && own.dli_fname) {
        snprintf(folder, sizeof folder, "%s", own.dli_fname);
        char *last = strrchr(folder, '/');
        if (last) *last = 0;
        kernels = last ? folder : ".";
    }
    model->kernels = fm_own(&model->memory, model->program.kernels, sizeof *model->kernels);
    if (!model->kernels) return -1;
    if (facula_kernels && model->package.bytes == facula_embedded) {
        model->variant = FACULA_VARIANT;
        if (!fm_runs_named(FACULA_VARIANT)) return fm_fail(e, "model: a processor of %s was required: this one is none", FACULA_VARIANT);
        if (fm_find_kernels(facula_kernels, &facula_abi, &model->program, model->kernels, e)) return -1;
        return fm_derive(model, e);
    }
    void *library = fm_open_library(&model->package, kernels ? kernels : ".", &model->variant, e);
    if (!library) return -1;
    if (fm_find_kernels(dlsym(library, "facula_kernels"), dlsym(library, "facula_abi"), &model->program, model->kernels, e)) return -1;
    return fm_derive(model, e);
}

static facula_model *fm_new(const void *bytes, size_t size, void *mapped, const char *kernels, const fm_error *e) {
    facula_model *model = calloc(1, sizeof *model);
    if (!model) {
        if (mapped) munmap(mapped, size);
        return fm_fail(e, "model: memory was required: there is none"), NULL;
    }
    model->package.bytes = bytes;
    model->package.size = size;
    model->mapped = mapped;
    pthread_mutex_init(&model->lock, NULL);
    pthread_rwlock_init(&model->swap, NULL);
    if (!fm_read_model(model, kernels, e)) return model;
    facula_model_close(model);
    return NULL;
}

facula_model *facula_model_open_memory(const void *bytes, size_t size, const char *kernels, char *error, size_t room) {
    fm_error e = {error, room};
    return fm_new(bytes, size, NULL, kernels, &e);
}

facula_model *facula_model_open_embedded(char *error, size_t room) {
    fm_error e = {error, room};
    if (!facula_embedded || !facula_embedded_end) return fm_fail(&e, "model: a library with a model in it was required: this one has none"), NULL;
    return fm_new(facula_embedded, (size_t)(facula_embedded_end - facula_embedded), NULL, NULL, &e);
}

facula_model *facula_model_open(const char *path, const char *kernels, char *error, size_t room) {
    fm_error e = {error, room};
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) || !S_ISREG(status.st_mode) || !status.st_size) {
        if (file >= 0) close(file);
        return fm_fail(&e, "package: a file that can be read was required: %s", path), NULL;
    }
    size_t size = (size_t)status.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    close(file);
    if (bytes == MAP_FAILED) return fm_fail(&e, "package: memory for %s was required: there is none", path), NULL;
    return fm_new(bytes, size, bytes, kernels, &e);
}

/* ---- describing ---- */

int facula_model_inputs(const facula_model *model) { return model->program.inputs; }
int facula_model_outputs(const facula_model *model) { return model->program.region[1].results; }
int facula_model_constants(const facula_model *model) { return model->program.constants; }
const char *facula_model_variant(const facula_model *model) { return model->variant; }

static int64_t fm_bound(const fm_program *program, int symbol, int high) {
    int64_t found = high ? 0 : INT64_MAX;
    for (int i = 1; i < program->regions; i++) {
        int64_t one = high ? program->region[i].most[symbol] : program->region[i].least[symbol];
        if (high ? one > found : one < found) found = one;
    }
    return found;
}

static void fm_describe(const fm_program *program, const fm_value_of *value, facula_description *out) {
    memset(out, 0, sizeof *out);
    out->name = value->name;
    out->dtype = value->dtype;
    out->ndim = value->ndim;
    for (int d = 0; d < value->ndim; d++) {
        int wrong = 0;
        out->least[d] = out->most[d] = value->b[d];
        if (!value->a[d]) continue;
        out->least[d] = fm_sum(value->b[d], fm_product(value->a[d], fm_bound(program, value->symbol[d], 0), &wrong), &wrong);
        out->most[d] = fm_sum(value->b[d], fm_product(value->a[d], fm_bound(program, value->symbol[d], 1), &wrong), &wrong);
    }
}

int facula_model_describe_input(const facula_model *model, int number, facula_description *out) {
    if (number < 0 || number >= model->program.inputs) return -1;
    fm_describe(&model->program, &model->program.input[number], out);
    return 0;
}

int facula_model_describe_constant(const facula_model *model, int number, facula_description *out) {
    if (number < 0 || number >= model->program.constants) return -1;
    fm_describe(&model->program, &model->program.constant[number], out);
    return 0;
}

/* ---- running ---- */

static void fm_say_shape(char *text, size_t room, int dtype, int ndim, const int64_t *shape) {
    size_t at = (size_t)snprintf(text, room, "%s[", dtype >= 0 && dtype < FK_DTYPES ? fk_dtype_names[dtype] : "?");
    for (int d = 0; d < ndim && d < FACULA_MODEL_DIMS && at < room; d++)
        at += (size_t)snprintf(text + at, room - at, "%s%lld", d ? ", " : "", (long long)shape[d]);
    if (at < room) snprintf(text + at, room - at, "]");
}

static int fm_wrong_input(const facula_model *model, int number, const facula_tensor *got, const char *what, const fm_error *e) {
    char found[256];
    const fm_value_of *value = &model->program.input[number];
    fm_say_shape(found, sizeof found, got->dtype, got->ndim, got->shape);
    return fm_fail(e, "run: %s was required for input %d (%s, %s of %d dimensions): got %s", what, number, value->name,
        fk_dtype_names[value->dtype], value->ndim, found);
}

static int fm_sizes_of(const facula_model *model, const facula_tensor *inputs, int count, int64_t *sizes, const fm_error *e) {
    const fm_program *program = &model->program;
    char what[96];
    for (int k = 0; k < FM_SYMBOLS; k++) sizes[k] = -1;
    if (count != program->inputs) return fm_fail(e, "run: %d inputs were required: got %d", program->inputs, count);
    for (int i = 0; i < count; i++) {
        const fm_value_of *value = &program->input[i];
        if (inputs[i].dtype != value->dtype) return fm_wrong_input(model, i, &inputs[i], "the dtype of the export", e);
        if (inputs[i].ndim != value->ndim) return fm_wrong_input(model, i, &inputs[i], "the number of dimensions of the export", e);
        for (int d = 0; d < value->ndim; d++) {
            int64_t rest = inputs[i].shape[d] - value->b[d], a = value->a[d], *size = &sizes[value->symbol[d]];
            snprintf(what, sizeof what, a ? "a size that fits in dimension %d" : "size %2$lld in dimension %1$d", d, (long long)value->b[d]);
            if (a ? rest < 0 || rest % a || (*size >= 0 && *size != rest / a) : rest) return fm_wrong_input(model, i, &inputs[i], what, e);
            if (a) *size = rest / a;
        }
    }
    return 0;
}

static const fm_region *fm_region_of(const fm_program *program, const int64_t *sizes, const fm_error *e) {
    for (int i = 1; i < program->regions; i++) {
        int inside = 1;
        for (int k = 0; k < program->symbols; k++) inside &= sizes[k] >= program->region[i].least[k] && sizes[k] <= program->region[i].most[k];
        if (inside) return &program->region[i];
    }
    char found[200] = "";
    for (int k = 0; k < program->symbols; k++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%lld (of %lld to %lld)", k ? ", " : "", (long long)sizes[k],
            (long long)fm_bound(program, k, 0), (long long)fm_bound(program, k, 1));
    fm_fail(e, "run: sizes that the package was made for were required: got %s", found);
    return NULL;
}

static fm_context *fm_take_context(facula_model *model, const fm_region *region, const int64_t *sizes, const fm_error *e) {
    fm_context *found = NULL;
    pthread_mutex_lock(&model->lock);
    for (fm_context **at = &model->idle; *at && !found; at = &(*at)->next)
        if ((*at)->region == region && !memcmp((*at)->sizes, sizes, sizeof(int64_t) * FM_SYMBOLS)) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&model->lock);
    fm_surroundings around = fm_around(model);
    if (found) return found;
    /* the sizes of inputs are those of the shapes: nothing points beyond what a caller's tensor has */
    int64_t bytes[256], *own = bytes;
    int count = model->program.inputs + model->program.constants;
    if (count > 256 && !(own = malloc((size_t)count * sizeof *own))) return fm_fail(e, "model: memory was required: there is none"), NULL;
    memcpy(own, model->bytes, (size_t)count * sizeof *own);
    for (int i = 0; i < model->program.inputs; i++) {
        const fm_value_of *value = &model->program.input[i];
        int wrong = 0;
        own[i] = fk_itemsize[value->dtype];
        for (int d = 0; d < value->ndim; d++) own[i] = fm_product(own[i], value->b[d] + (value->a[d] ? value->a[d] * sizes[value->symbol[d]] : 0), &wrong);
    }
    around.input_bytes = own;
    found = fm_context_new(region, sizes, &around, e);
    if (own != bytes) free(own);
    if (found) found->memory.e = NULL;
    return found;
}

static void fm_give_context(facula_model *model, fm_context *c) {
    fm_context *dropped = NULL, **at = &model->idle;
    pthread_mutex_lock(&model->lock);
    c->next = model->idle;
    model->idle = c;
    for (int i = 0; *at && i < FM_IDLE; i++) at = &(*at)->next;
    dropped = *at;
    *at = NULL;
    pthread_mutex_unlock(&model->lock);
    while (dropped) {
        fm_context *next = dropped->next;
        fm_context_free(dropped);
        dropped = next;
    }
}

static void fm_fill_output(const fm_context *c, int number, facula_tensor *out) {
    out->dtype = c->region->result[number].dtype;
    out->ndim = c->region->result[number].ndim;
    memcpy(out->shape, c->outputs[number].shape, sizeof(int64_t) * FACULA_MODEL_DIMS);
}

static int fm_outputs_fit(const facula_model *model, int count, const fm_error *e) {
    if (count == facula_model_outputs(model)) return 0;
    return fm_fail(e, "run: room for %d outputs was required: got %d", facula_model_outputs(model), count);
}

int facula_model_sizes(facula_model *model, const facula_tensor *inputs, int ninputs, facula_tensor *outputs, int noutputs, char *error, size_t room) {
    fm_error e = {error, room};
    int64_t sizes[FM_SYMBOLS];
    const fm_region *region = NULL;
    if (fm_outputs_fit(model, noutputs, &e) || fm_sizes_of(model, inputs, ninputs, sizes, &e)) return -1;
    region = fm_region_of(&model->program, sizes, &e);
    fm_context *c = region ? fm_take_context(model, region, sizes, &e) : NULL;
    if (!c) return -1;
    for (int i = 0; i < noutputs; i++) fm_fill_output(c, i, &outputs[i]);
    fm_give_context(model, c);
    return 0;
}

/* the memory of inputs, constants and outputs, and the steps */
static int fm_run_on(facula_model *model, fm_context *c, const facula_tensor *inputs, facula_tensor *outputs, const fm_error *e) {
    const fm_program *program = &model->program;
    int count = program->inputs + program->constants, results = c->region->results, r = 0;
    char *few[512], **outer = few;
    if (count + results > 512 && !(outer = malloc((size_t)(count + results) * sizeof *outer))) return fm_fail(e, "model: memory was required: there is none");
    char **targets = outer + count;
    for (int i = 0; i < program->inputs; i++) outer[i] = inputs[i].data;
    for (int i = 0; i < results; i++) {
        int own = !outputs[i].data;
        fm_fill_output(c, i, &outputs[i]);
        if (own && !(outputs[i].data = fm_memory(c->outputs[i].bytes))) {
            r = fm_fail(e, "model: memory was required: there is none");
        }
        targets[i] = outputs[i].data;
    }
    if (!r) {
        pthread_rwlock_rdlock(&model->swap);
        memcpy(outer + program->inputs, model->constants, (size_t)program->constants * sizeof *outer);
        r = fm_run(c, outer, count, targets, e);
        pthread_rwlock_unlock(&model->swap);
    }
    if (outer != few) free(outer);
    return r;
}

int facula_model_run(facula_model *model, const facula_tensor *inputs, int ninputs, facula_tensor *outputs, int noutputs, char *error, size_t room) {
    fm_error e = {error, room};
    int64_t sizes[FM_SYMBOLS];
    if (fm_outputs_fit(model, noutputs, &e) || fm_sizes_of(model, inputs, ninputs, sizes, &e)) return -1;
    for (int i = 0; i < ninputs; i++) {
        int wrong = 0;
        if (!inputs[i].data && fm_bytes(&inputs[i], &wrong)) return fm_fail(&e, "run: elements were required for input %d: got a null pointer", i);
    }
    const fm_region *region = fm_region_of(&model->program, sizes, &e);
    fm_context *c = region ? fm_take_context(model, region, sizes, &e) : NULL;
    if (!c) return -1;
    int r = fm_run_on(model, c, inputs, outputs, &e);
    fm_give_context(model, c);
    return r;
}

void facula_model_release(facula_tensor *output) {
    free(output->data);
    output->data = NULL;
}

void facula_model_set_threads(int threads) { fk_set_num_threads(threads); }

/* ---- constants ---- */

int facula_model_update_constant(facula_model *model, const char *name, const facula_tensor *value, char *error, size_t room) {
    fm_error e = {error, room};
    char found[256], wanted[256];
    for (int i = 0; i < model->program.constants; i++) {
        const fm_value_of *constant = &model->program.constant[i];
        if (constant->derived || strcmp(constant->name, name)) continue;
        int same = value->dtype == constant->dtype && value->ndim == constant->ndim;
        for (int d = 0; same && d < constant->ndim; d++) same = value->shape[d] == constant->b[d];
        if (!same) {
            fm_say_shape(found, sizeof found, value->dtype, value->ndim, value->shape);
            fm_say_shape(wanted, sizeof wanted, constant->dtype, constant->ndim, constant->b);
            return fm_fail(&e, "update: %s was required for %s: got %s", wanted, name, found);
        }
        char *copy = fm_memory(constant->bytes);
        if (!copy) return fm_fail(&e, "model: memory was required: there is none");
        memcpy(copy, value->data, (size_t)constant->bytes);
        pthread_rwlock_wrlock(&model->swap);
        free(model->copies[i]);
        model->constants[i] = model->copies[i] = copy;
        int r = fm_derive(model, &e);
        pthread_rwlock_unlock(&model->swap);
        return r;
    }
    return fm_fail(&e, "update: a constant of the model was required: got %.100s", name);
}
