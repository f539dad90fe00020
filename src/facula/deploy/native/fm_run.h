/* Running a context: its steps one after the other.
 *
 * Takes: a context, the memory of inputs, constants and outputs. Gives: `fm_run`.
 * Keeps true: inputs and constants are only read; a check that finds an index out of range ends the run with an error. */
#ifndef FM_RUN_H
#define FM_RUN_H
#include "fk_copy.h"
#include "fm_plan.h"

static const fk_runtime fm_services = {fk_parallel, fk_get_num_threads, fk_scratch, fk_scratch_release};

static int fm_run_step(const fm_ready *s, char *const *p) {
    fk_iter it;
    switch (s->kind) {
    case FM_DRIVER: return ((fk_driver)s->fn)(p, s->n, s->s, &fm_services) ? -1 : 0;
    case FM_BODY:
        if (s->total > 0) fk_parallel((fk_body)s->fn, p, s->n, s->s, s->total, s->grain);
        return 0;
    case FM_MAP:
        if (s->total > 0) ((fk_map)s->fn)(p, s->s, s->total);
        return 0;
    case FM_ZERO: memset(p[0], 0, (size_t)s->total); return 0;
    case FM_CHECK: return *(const int64_t *)p[0] >= 0;
    default: break;
    }
    memcpy(&it, s->it, sizeof it);
    for (int i = 0; i < s->pointers; i++) it.data[i] = p[i];
    if (s->kind == FM_ITERATE) fk_map_run((fk_map)s->fn, s->s, &it);
    else if (s->kind == FM_COPY) fk_copy_run(&it);
    else fk_fill_run(&it, s->value);
    return 0;
}

/* a result that lies elsewhere, or in another order, to where the caller wants it */
static void fm_copy_out(const fm_context *c, const fm_output *out, const fm_result *r, char *target) {
    fk_iter it;
    int64_t item = fk_itemsize[r->dtype], step = item;
    if (!out->bytes) return;
    memset(&it, 0, sizeof it);
    it.ndim = r->ndim;
    it.nout = it.nin = 1;
    for (int d = r->ndim - 1; d >= 0; d--) {
        it.shape[d] = out->shape[d];
        it.stride[0][d] = step;
        it.stride[1][d] = out->strides[d] * item;
        step *= out->shape[d];
    }
    for (int k = 0; k < 2; k++) it.dtype[k] = it.compute[k] = (uint8_t)r->dtype;
    it.data[0] = target;
    it.data[1] = c->bases[out->base] + out->offset;
    fk_copy_run(&it);
}

/* `outer`: the memory of inputs, then of constants; `targets`: that of the outputs */
static int fm_run(fm_context *c, char *const *outer, int count, char *const *targets, const fm_error *e) {
    const fm_region *region = c->region;
    memcpy(c->bases, outer, (size_t)count * sizeof *outer);
    for (int i = 0; i < region->results; i++)
        if (c->outputs[i].direct) c->bases[c->outputs[i].base] = targets[i];
    for (int k = 0; k < region->steps; k++) {
        const fm_ready *s = &c->steps[k];
        for (int i = 0; i < s->pointers; i++) c->pointers[i] = s->base[i] < 0 ? NULL : c->bases[s->base[i]] + s->offset[i];
        int r = fm_run_step(s, c->pointers);
        if (r < 0) return fm_fail(e, "model: memory was required: there is none for step %d", k);
        if (r > 0) return fm_fail(e, "model: indices inside of what they index were required: an input has one out of range");
    }
    for (int i = 0; i < region->results; i++)
        if (!c->outputs[i].direct) fm_copy_out(c, &c->outputs[i], &region->result[i], targets[i]);
    return 0;
}
#endif
