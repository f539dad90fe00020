/* A region of a program for given sizes: numbers instead of expressions, places in one arena.
 *
 * Takes: a region, sizes, kernels. Gives: `fm_context_new`, a context that one run at a time may use.
 * Keeps true: two storages share memory only where one is dead before the other is written; each pointer lies inside of what
 * it points into, with all that its kernel touches there; a result that is a whole storage is written where the caller wants it. */
#ifndef FM_PLAN_H
#define FM_PLAN_H
#include "fk_iterate.h"
#include "fm_contract.h"

typedef struct {
    enum fm_kind kind;
    void *fn;
    int pointers;
    int *base;
    int64_t *offset, *n, total, grain;
    fk_scalar *s;
    fk_iter *it;
    char value[16];
} fm_ready;

typedef struct {
    int base, direct; /* direct: the storage is the caller's memory */
    int64_t offset, bytes, shape[FACULA_MODEL_DIMS], strides[FACULA_MODEL_DIMS];
} fm_output;

typedef struct fm_context {
    struct fm_context *next;
    const fm_region *region;
    int64_t sizes[FM_SYMBOLS], *values, arena_bytes;
    fm_ready *steps;
    fm_output *outputs;
    int64_t *place; /* of each storage in the arena; -1: elsewhere */
    char *arena, **bases, **pointers;
    fm_reader memory; /* owns all of it */
} fm_context;

typedef struct {
    const fm_program *program;
    const fk_entry *const *kernels;
    const int64_t *input_bytes; /* of inputs, then of constants */
} fm_surroundings;

static int64_t fm_number_of(const fm_context *c, fm_number n) { return n.symbolic ? c->values[n.value] : n.value; }

static int64_t fm_bytes_of_base(const fm_context *c, const fm_surroundings *around, int base) {
    int outer = around->program->inputs + around->program->constants;
    return base < outer ? around->input_bytes[base] : fm_number_of(c, c->region->storage[base - outer]);
}

static int64_t fm_product_in(fm_reader *r, int64_t a, int64_t b) {
    int wrong = 0;
    int64_t c = fm_product(a, b, &wrong);
    return wrong ? fm_broken(r, "a number of these sizes") : c;
}

static int64_t fm_sum_in(fm_reader *r, int64_t a, int64_t b) {
    int wrong = 0;
    int64_t c = fm_sum(a, b, &wrong);
    return wrong ? fm_broken(r, "a number of these sizes") : c;
}

static int64_t *fm_numbers_of(fm_context *c, const fm_number *given, int count) {
    int64_t *made = fm_own(&c->memory, count, sizeof *made);
    for (int i = 0; made && i < count; i++) made[i] = fm_number_of(c, given[i]);
    return made;
}

/* Elements of `item` bytes at these strides (of `unit` bytes) lie inside of their memory, each where one may lie. */
static void fm_check_extent(fm_context *c, int64_t room, int64_t offset, int64_t item, int64_t unit, int dims, const int64_t *shape, const int64_t *stride) {
    int64_t low = offset, high = fm_sum_in(&c->memory, offset, item), odd = offset;
    for (int d = 0; d < dims; d++) {
        if (!shape[d]) return;
        if (shape[d] > 1) odd |= fm_product_in(&c->memory, stride[d], unit);
        int64_t far = fm_product_in(&c->memory, fm_product_in(&c->memory, shape[d] - 1, stride[d]), unit);
        if (far < 0) low = fm_sum_in(&c->memory, low, far);
        else high = fm_sum_in(&c->memory, high, far);
    }
    if (low < 0 || high > room || odd % (item < 8 ? item : 8)) fm_broken(&c->memory, "elements outside of their memory");
}

static void fm_ready_iteration(fm_context *c, const fm_step *s, fm_ready *ready) {
    fk_iter *it = ready->it = fm_own(&c->memory, 1, sizeof *it);
    if (!it) return;
    it->ndim = s->dims;
    it->nout = s->outputs;
    it->nin = s->inputs;
    for (int d = 0; d < s->dims; d++) {
        it->shape[d] = fm_number_of(c, s->shape[d]);
        if (it->shape[d] < 0) fm_broken(&c->memory, "a size");
    }
    for (int k = 0; k < s->pointers; k++) {
        it->dtype[k] = (uint8_t)s->operands[k].dtype;
        it->compute[k] = (uint8_t)s->operands[k].compute;
        for (int d = 0; d < s->dims; d++) it->stride[k][d] = fm_number_of(c, s->operands[k].strides[d]);
    }
}

/* The address of a map that a driver calls, instead of -(its number) - 2^62. */
static int64_t fm_address_of(const fm_surroundings *around, int64_t number) {
    int64_t kernel = (int64_t)(0 - (uint64_t)number - ((uint64_t)1 << 62));
    return number < 0 && kernel >= 0 && kernel < around->program->kernels ? (int64_t)(intptr_t)around->kernels[kernel]->fn : number;
}

/* The launch of a step is one that its kernel was written for. */
static void fm_check_launch(fm_context *c, const fm_surroundings *around, const fm_step *s, const fm_ready *ready) {
    static const char kinds[] = {[FM_DRIVER] = 'd', [FM_BODY] = 'b', [FM_MAP] = 'm', [FM_ITERATE] = 'm'};
    const fk_entry *kernel = around->kernels[s->kernel];
    fm_given *given = fm_own(&c->memory, s->pointers, sizeof *given);
    char said[FACULA_MODEL_ROOM + 96];
    const char *fault = kernel->kind != kinds[s->kind] ? "a step of its kind" : NULL;
    for (int k = 0; given && k < s->pointers; k++) {
        given[k].null = ready->base[k] < 0;
        given[k].constant = ready->base[k] < around->program->inputs + around->program->constants;
        given[k].offset = ready->offset[k];
        given[k].room = given[k].null ? 0 : fm_bytes_of_base(c, around, ready->base[k]) - ready->offset[k];
    }
    fm_launch launch = {kernel, around->kernels, around->program->kernels, s->pointers, s->sizes, s->scalars, ready->total, 0, ready->n, ready->s, given};
    if (c->memory.failed) return;
    if (!fault) fault = s->kind == FM_ITERATE ? fm_iteration_fault(&launch, s->operands, s->outputs) : fm_contract_fault(&launch);
    if (!fault) return;
    snprintf(said, sizeof said, "a launch of %s: %s", kernel->name, fault);
    fm_broken(&c->memory, said);
}

static void fm_check_step(fm_context *c, const fm_surroundings *around, const fm_step *s, fm_ready *ready) {
    int written = s->kind == FM_ZERO ? 1 : s->outputs, outer = around->program->inputs + around->program->constants;
    int64_t room = s->pointers && ready->base[0] >= 0 ? fm_bytes_of_base(c, around, ready->base[0]) - ready->offset[0] : 0;
    if (s->kernel >= 0) fm_check_launch(c, around, s, ready);
    for (int k = 0; k < written && !c->memory.failed; k++)
        if (ready->base[k] < outer) fm_broken(&c->memory, "memory that may be written to");
    if (s->kind == FM_ZERO && (ready->total < 0 || ready->total > room)) fm_broken(&c->memory, "a length");
    if (s->kind == FM_CHECK && room < 8) fm_broken(&c->memory, "a check");
    if (s->operands) fm_ready_iteration(c, s, ready);
    for (int k = 0; ready->it && !c->memory.failed && k < s->pointers; k++)
        fm_check_extent(c, fm_bytes_of_base(c, around, ready->base[k]), ready->offset[k], fk_itemsize[ready->it->dtype[k]], 1, s->dims, ready->it->shape, ready->it->stride[k]);
}

static void fm_ready_step(fm_context *c, const fm_surroundings *around, const fm_step *s, fm_ready *ready) {
    ready->kind = s->kind;
    ready->fn = s->kernel >= 0 ? around->kernels[s->kernel]->fn : NULL;
    ready->pointers = s->pointers;
    ready->base = fm_own(&c->memory, s->pointers, sizeof *ready->base);
    ready->offset = fm_own(&c->memory, s->pointers, sizeof *ready->offset);
    ready->n = fm_own(&c->memory, s->sizes, sizeof *ready->n);
    ready->s = fm_own(&c->memory, s->scalars, sizeof *ready->s);
    if (c->memory.failed) return;
    for (int i = 0; i < s->pointers; i++) {
        ready->base[i] = s->p[i].base;
        ready->offset[i] = fm_number_of(c, s->p[i].offset);
        if (ready->base[i] >= 0 && (ready->offset[i] < 0 || ready->offset[i] > fm_bytes_of_base(c, around, ready->base[i])))
            fm_broken(&c->memory, "a pointer outside of its memory");
    }
    for (int i = 0; i < s->sizes; i++) ready->n[i] = fm_address_of(around, fm_number_of(c, s->n[i]));
    for (int i = 0; i < s->scalars; i++) ready->s[i].i = fm_number_of(c, s->s[i]);
    if (s->kind == FM_FILL) memcpy(ready->value, ready->s, 16);
    ready->total = fm_number_of(c, s->total);
    ready->grain = fm_number_of(c, s->grain);
    if (!c->memory.failed) fm_check_step(c, around, s, ready);
}

static void fm_ready_outputs(fm_context *c, const fm_surroundings *around) {
    const fm_region *region = c->region;
    int outer = around->program->inputs + around->program->constants;
    c->outputs = fm_own(&c->memory, region->results, sizeof *c->outputs);
    for (int i = 0; c->outputs && i < region->results; i++) {
        const fm_result *r = &region->result[i];
        fm_output *out = &c->outputs[i];
        int64_t expected = 1;
        int wrong = 0;
        out->base = r->base;
        out->offset = fm_number_of(c, r->offset);
        out->bytes = fk_itemsize[r->dtype];
        out->direct = r->base >= outer && !out->offset;
        for (int d = r->ndim - 1; d >= 0; d--) {
            out->shape[d] = fm_number_of(c, r->shape[d]);
            out->strides[d] = fm_number_of(c, r->strides[d]);
            out->direct &= out->shape[d] == 1 || out->strides[d] == expected;
            expected = fm_product(expected, out->shape[d], &wrong);
            if (out->shape[d] < 0) wrong = 1;
        }
        out->bytes = fm_product(out->bytes, expected, &wrong);
        for (int k = 0; k < i; k++) out->direct &= c->outputs[k].base != r->base;
        if (wrong || out->offset < 0 || out->offset > fm_bytes_of_base(c, around, r->base)) fm_broken(&c->memory, "a result");
        out->direct &= out->bytes == fm_bytes_of_base(c, around, r->base);
        if (!wrong) fm_check_extent(c, fm_bytes_of_base(c, around, r->base), out->offset, fk_itemsize[r->dtype], fk_itemsize[r->dtype], r->ndim, out->shape, out->strides);
    }
}

typedef struct {
    int64_t bytes, first, last, number;
} fm_life;

static int fm_longer(const void *a, const void *b) {
    const fm_life *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->number < y->number ? -1 : 1;
}

/* The lowest place where a storage meets none that lives at the same time. */
static int64_t fm_free_place(const fm_context *c, const fm_life *lives, int placed, const fm_life *own) {
    int64_t at = 0;
    for (int again = 1; again;) {
        again = 0;
        for (int i = 0; i < placed; i++) {
            const fm_life *other = &lives[i];
            int64_t begin = c->place[other->number], end = begin + other->bytes;
            if (begin < 0 || other->last < own->first || own->last < other->first) continue;
            if (at < end && begin < at + own->bytes) at = end, again = 1;
        }
    }
    return at;
}

static void fm_place_storages(fm_context *c, const fm_surroundings *around) {
    const fm_region *region = c->region;
    int outer = around->program->inputs + around->program->constants, count = region->storages;
    fm_life *lives = fm_own(&c->memory, count, sizeof *lives);
    c->place = fm_own(&c->memory, count, sizeof *c->place);
    if (c->memory.failed) return;
    for (int i = 0; i < count; i++) {
        int64_t bytes = fm_number_of(c, region->storage[i]);
        lives[i] = (fm_life){(bytes + 127) & ~(int64_t)63, INT64_MAX, -1, i};
        c->place[i] = -1;
        if (bytes < 0 || bytes > (int64_t)1 << 46) fm_broken(&c->memory, "a storage");
    }
    for (int k = 0; k < region->steps; k++)
        for (int i = 0; i < c->steps[k].pointers; i++) {
            int number = c->steps[k].base[i] - outer;
            if (number < 0) continue;
            if (lives[number].first > k) lives[number].first = k;
            lives[number].last = k;
        }
    for (int i = 0; i < region->results; i++) {
        int number = c->outputs[i].base - outer;
        if (number < 0) continue;
        if (c->outputs[i].direct) lives[number].bytes = 0;
        lives[number].last = INT64_MAX;
        if (lives[number].first > region->steps) lives[number].first = 0;
    }
    qsort(lives, (size_t)count, sizeof *lives, fm_longer);
    for (int i = 0; i < count && lives[i].bytes; i++) {
        if (lives[i].last < 0) continue;
        int64_t at = c->place[lives[i].number] = fm_free_place(c, lives, i, &lives[i]);
        if (at + lives[i].bytes > c->arena_bytes) c->arena_bytes = at + lives[i].bytes;
    }
}

static void fm_context_free(fm_context *c) {
    if (!c) return;
    for (size_t i = 0; i < c->memory.count; i++) free(c->memory.owned[i]);
    free(c->memory.owned);
    free(c->arena);
    free(c);
}

static void fm_context_fill(fm_context *c, const fm_surroundings *around) {
    const fm_region *region = c->region;
    int most = 0, wrong = 0, outer = around->program->inputs + around->program->constants;
    c->values = fm_own(&c->memory, region->expressions, sizeof *c->values);
    for (int i = 0; c->values && i < region->expressions; i++)
        c->values[i] = fm_evaluate(&region->expression[i], around->program->symbols, c->sizes, &wrong);
    if (wrong) fm_broken(&c->memory, "a number of these sizes");
    c->steps = fm_own(&c->memory, region->steps, sizeof *c->steps);
    for (int i = 0; i < region->steps && !c->memory.failed; i++) {
        fm_ready_step(c, around, &region->step[i], &c->steps[i]);
        if (region->step[i].pointers > most) most = region->step[i].pointers;
    }
    if (!c->memory.failed) fm_ready_outputs(c, around);
    if (!c->memory.failed) fm_place_storages(c, around);
    c->pointers = fm_own(&c->memory, most, sizeof *c->pointers);
    c->bases = fm_own(&c->memory, outer + region->storages, sizeof *c->bases);
    if (!c->memory.failed && c->arena_bytes && !(c->arena = fm_memory(c->arena_bytes))) fm_broken(&c->memory, "memory");
    for (int i = 0; i < region->storages && !c->memory.failed; i++) c->bases[outer + i] = c->place[i] < 0 ? NULL : c->arena + c->place[i];
}

/* A context for sizes, which are inside of the region; NULL with an error. */
static fm_context *fm_context_new(const fm_region *region, const int64_t *sizes, const fm_surroundings *around, const fm_error *e) {
    fm_context *c = calloc(1, sizeof *c);
    if (!c) return fm_fail(e, "model: memory was required: there is none"), NULL;
    c->region = region;
    c->memory.e = e;
    memcpy(c->sizes, sizes, sizeof c->sizes);
    fm_context_fill(c, around);
    if (!c->memory.failed) return c;
    fm_context_free(c);
    return NULL;
}
#endif
