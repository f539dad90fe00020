/* Programs as data: what a model launches, with numbers that follow from sizes.
 *
 * Takes: the text of a program (`deploy/program_text.py` writes it). Gives: `fm_program_read`, and `fm_value`, a number for
 * given sizes.
 * Keeps true: a text that does not parse to its end is an error; every index of a program lies inside of what it indexes. */
#ifndef FM_PROGRAM_H
#define FM_PROGRAM_H
#include "fk_cast.h"
#include "fm_base.h"

enum { FM_SYMBOLS = 8, FM_MOST = 1 << 20 };
enum { FM_CONSTANT, FM_SYMBOL, FM_ADD, FM_MUL, FM_FLOORDIV, FM_MOD, FM_MAX, FM_MIN, FM_STACK = 64 };
enum fm_kind { FM_DRIVER, FM_BODY, FM_MAP, FM_ITERATE, FM_COPY, FM_FILL, FM_ZERO, FM_CHECK, FM_KINDS };

typedef struct {
    int64_t value; /* or the number of an expression */
    int symbolic;
} fm_number;

/* 'p': a sum of products of sizes; 'r': the same, rounded up to a multiple of `least`; 'e': operations
 * on a stack, as pairs of an operation and a number; 'f': m * ((a * size + b) / c) + d, rounded down; 't': a table from `least` on */
typedef struct {
    char kind;
    int symbol, count;
    int64_t least;
    int64_t *words;
} fm_expression;

typedef struct {
    int base;
    fm_number offset;
} fm_pointer;

typedef struct {
    int dtype, compute;
    fm_number *strides;
} fm_operand;

typedef struct {
    enum fm_kind kind;
    int kernel, pointers, sizes, scalars, dims, outputs, inputs;
    fm_pointer *p;
    fm_number *n, *s, *shape;
    fm_operand *operands;
    fm_number total, grain;
} fm_step;

typedef struct {
    int base, dtype, ndim;
    fm_number offset, *shape, *strides;
} fm_result;

typedef struct {
    int64_t least[FM_SYMBOLS], most[FM_SYMBOLS];
    int expressions, storages, steps, results;
    fm_expression *expression;
    fm_number *storage;
    fm_step *step;
    fm_result *result;
} fm_region;

typedef struct {
    char name[FACULA_MODEL_ROOM];
    int dtype, ndim, derived;
    int64_t a[FACULA_MODEL_DIMS], b[FACULA_MODEL_DIMS]; /* a size: a * symbol + b */
    int symbol[FACULA_MODEL_DIMS];
    int64_t offset, bytes; /* of a constant: where it lies among the weights */
} fm_value_of;

typedef struct {
    int symbols, inputs, constants, kernels, regions;
    char (*kernel)[FACULA_MODEL_ROOM];
    fm_value_of *input, *constant;
    fm_region *region; /* the first one makes derived constants */
} fm_program;

/* ---- reading ---- */

typedef struct {
    const char *at, *end;
    const fm_error *e;
    int failed;
    void **owned; /* everything that was allocated */
    size_t count, room;
} fm_reader;

static int64_t fm_broken(fm_reader *r, const char *what) {
    if (!r->failed) fm_fail(r->e, "package: a program was required: it is damaged (%s)", what);
    r->failed = 1;
    return 0;
}

static void *fm_own(fm_reader *r, int64_t count, size_t size) {
    if (r->count == r->room) {
        size_t room = 2 * r->room + 64;
        void **grown = realloc(r->owned, room * sizeof *grown);
        if (!grown) return fm_broken(r, "memory"), NULL;
        r->owned = grown;
        r->room = room;
    }
    void *made = calloc((size_t)count + 1, size);
    if (!made) return fm_broken(r, "memory"), NULL;
    r->owned[r->count++] = made;
    return made;
}

static void fm_skip(fm_reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n')) r->at++;
}

static int fm_peek(fm_reader *r) {
    fm_skip(r);
    return r->at < r->end ? (unsigned char)*r->at : -1;
}

static int64_t fm_int(fm_reader *r) {
    int negative = fm_peek(r) == '-', digits = 0;
    uint64_t value = 0;
    if (negative) r->at++;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && digits < 20; r->at++, digits++)
        value = value * 10 + (uint64_t)(*r->at - '0');
    if (!digits || digits > 19 || value > (uint64_t)INT64_MAX + negative) return fm_broken(r, "a number");
    return negative ? (int64_t)(0 - value) : (int64_t)value;
}

static int fm_within(fm_reader *r, int64_t least, int64_t most) {
    int64_t value = fm_int(r);
    if (value < least || value > most) return (int)fm_broken(r, "a number out of range");
    return (int)value;
}

static int fm_count(fm_reader *r) { return fm_within(r, 0, FM_MOST); }

static void fm_text(fm_reader *r, char out[FACULA_MODEL_ROOM]) {
    int length = 0;
    fm_skip(r);
    while (r->at < r->end && *r->at > ' ' && length < FACULA_MODEL_ROOM - 1) out[length++] = *r->at++;
    out[length] = 0;
    if (!length) fm_broken(r, "a name");
}

static void fm_word(fm_reader *r, const char *expected) {
    char found[FACULA_MODEL_ROOM];
    fm_text(r, found);
    if (strcmp(found, expected)) fm_broken(r, expected);
}

static fm_number fm_read_number(fm_reader *r, int expressions) {
    fm_number n = {0, fm_peek(r) == '$'};
    if (n.symbolic) {
        r->at++;
        n.value = fm_within(r, 0, expressions - 1);
    } else {
        n.value = fm_int(r);
    }
    return n;
}

static fm_number *fm_numbers(fm_reader *r, int count, int expressions) {
    fm_number *made = fm_own(r, count, sizeof *made);
    for (int i = 0; made && i < count && !r->failed; i++) made[i] = fm_read_number(r, expressions);
    return made;
}

/* Operations find what they take, and leave one number. */
static void fm_check_stack(fm_reader *r, const fm_expression *x, int symbols) {
    int depth = 0;
    for (int i = 0; i < x->count && !r->failed; i++) {
        int64_t operation = x->words[2 * i], number = x->words[2 * i + 1];
        if (operation < 0 || operation > FM_MIN || (operation == FM_SYMBOL && (number < 0 || number >= symbols))) fm_broken(r, "an operation");
        depth += operation <= FM_SYMBOL ? 1 : -1;
        if (depth < 1 || depth > FM_STACK) fm_broken(r, "a stack");
    }
    if (depth != 1) fm_broken(r, "a stack");
}

static void fm_read_expression(fm_reader *r, fm_expression *x, int symbols) {
    char kind[FACULA_MODEL_ROOM];
    fm_text(r, kind);
    x->kind = kind[0];
    int each = 1 + symbols;
    int sum = x->kind == 'p' || x->kind == 'r';
    if (x->kind == 'r' && (x->least = fm_int(r)) <= 0) fm_broken(r, "a multiple");
    if (sum || x->kind == 'e') {
        x->count = fm_count(r);
        if (x->kind == 'e') each = 2;
    } else {
        x->symbol = fm_within(r, 0, symbols - 1);
        if (x->kind == 't') x->least = fm_int(r);
        else if (x->kind != 'f') fm_broken(r, "an expression");
        each = 1;
        x->count = x->kind == 'f' ? 5 : fm_count(r);
    }
    x->words = fm_own(r, (int64_t)x->count * each, sizeof *x->words);
    for (int64_t i = 0; x->words && i < (int64_t)x->count * each && !r->failed; i++) x->words[i] = fm_int(r);
    for (int i = 0; sum && !r->failed && i < x->count; i++)
        for (int k = 1; k < each; k++)
            if (x->words[i * each + k] < 0 || x->words[i * each + k] > 8) fm_broken(r, "a power");
    if (x->kind == 'e') fm_check_stack(r, x, symbols);
    if (x->kind == 'f' && !r->failed && x->words[3] <= 0) fm_broken(r, "a divisor");
}

static void fm_read_iteration(fm_reader *r, fm_step *s, int expressions) {
    s->outputs = fm_within(r, 1, 10);
    s->inputs = fm_within(r, 0, 10 - (r->failed ? 0 : s->outputs));
    s->dims = fm_within(r, 0, 16);
    if (r->failed || s->outputs + s->inputs != s->pointers) {
        fm_broken(r, "an iteration");
        return;
    }
    s->shape = fm_numbers(r, s->dims, expressions);
    s->operands = fm_own(r, s->pointers, sizeof *s->operands);
    for (int i = 0; s->operands && i < s->pointers && !r->failed; i++) {
        s->operands[i].dtype = fm_within(r, 0, FK_DTYPES - 1);
        s->operands[i].compute = fm_within(r, 0, FK_DTYPES - 1);
        s->operands[i].strides = fm_numbers(r, s->dims, expressions);
    }
}

static void fm_read_step(fm_reader *r, fm_step *s, const fm_program *program, const fm_region *region) {
    int x = region->expressions, bases = program->inputs + program->constants + region->storages;
    s->kind = (enum fm_kind)fm_within(r, 0, FM_KINDS - 1);
    s->kernel = fm_within(r, -1, program->kernels - 1);
    s->pointers = fm_count(r);
    s->p = fm_own(r, s->pointers, sizeof *s->p);
    for (int i = 0; s->p && i < s->pointers && !r->failed; i++) {
        s->p[i].base = fm_within(r, -1, bases - 1);
        s->p[i].offset = fm_read_number(r, x);
    }
    s->sizes = fm_count(r);
    s->n = fm_numbers(r, s->sizes, x);
    s->scalars = fm_count(r);
    s->s = fm_numbers(r, s->scalars, x);
    s->total = fm_read_number(r, x);
    s->grain = fm_read_number(r, x);
    if (s->kind == FM_ITERATE || s->kind == FM_COPY || s->kind == FM_FILL) fm_read_iteration(r, s, x);
    for (int i = 0; s->kind >= FM_ITERATE && !r->failed && i < s->pointers; i++)
        if (s->p[i].base < 0) fm_broken(r, "memory of a step");
    int launches = s->kind <= FM_ITERATE, least = s->kind == FM_COPY ? 2 : s->kind >= FM_FILL ? 1 : 0;
    if (launches != (s->kernel >= 0) || s->pointers < least || (s->kind == FM_FILL && s->scalars != 2)) fm_broken(r, "a step");
}

static void fm_read_region(fm_reader *r, fm_region *region, const fm_program *program) {
    fm_word(r, "region");
    for (int k = 0; k < program->symbols; k++) {
        region->least[k] = fm_int(r);
        region->most[k] = fm_int(r);
    }
    region->expressions = fm_count(r);
    region->expression = fm_own(r, region->expressions, sizeof *region->expression);
    for (int i = 0; i < region->expressions && !r->failed; i++) fm_read_expression(r, &region->expression[i], program->symbols);
    region->storages = fm_count(r);
    region->storage = fm_numbers(r, region->storages, region->expressions);
    region->steps = fm_count(r);
    region->step = fm_own(r, region->steps, sizeof *region->step);
    for (int i = 0; i < region->steps && !r->failed; i++) fm_read_step(r, &region->step[i], program, region);
    region->results = fm_count(r);
    region->result = fm_own(r, region->results, sizeof *region->result);
    for (int i = 0; i < region->results && !r->failed; i++) {
        fm_result *found = &region->result[i];
        found->base = fm_within(r, 0, program->inputs + program->constants + region->storages - 1);
        found->dtype = fm_within(r, 0, FK_DTYPES - 1);
        found->ndim = fm_within(r, 0, FACULA_MODEL_DIMS);
        found->offset = fm_read_number(r, region->expressions);
        found->shape = fm_numbers(r, r->failed ? 0 : found->ndim, region->expressions);
        found->strides = fm_numbers(r, r->failed ? 0 : found->ndim, region->expressions);
    }
}

static void fm_read_value(fm_reader *r, fm_value_of *value, int symbols, int constant) {
    fm_text(r, value->name);
    value->dtype = fm_within(r, 0, FK_DTYPES - 1);
    value->ndim = fm_within(r, 0, FACULA_MODEL_DIMS);
    for (int d = 0; d < value->ndim && !r->failed; d++) {
        value->a[d] = fm_int(r);
        value->b[d] = fm_int(r);
        value->symbol[d] = fm_within(r, 0, symbols > 0 ? symbols - 1 : 0);
        if (value->a[d] < 0 || value->a[d] > 1 << 20 || (value->a[d] && !symbols)) fm_broken(r, "a size");
    }
    if (!constant) return;
    value->derived = fm_within(r, 0, 1);
    value->offset = fm_int(r);
    value->bytes = fm_int(r);
    if (value->offset < 0 || value->bytes < 0) fm_broken(r, "a constant");
}

static int fm_program_read(fm_reader *r, fm_program *program) {
    fm_word(r, "facula-program");
    if (fm_int(r) != 1) fm_broken(r, "its version");
    program->symbols = fm_within(r, 0, FM_SYMBOLS);
    program->inputs = fm_count(r);
    program->input = fm_own(r, program->inputs, sizeof *program->input);
    for (int i = 0; i < program->inputs && !r->failed; i++) fm_read_value(r, &program->input[i], program->symbols, 0);
    program->constants = fm_count(r);
    program->constant = fm_own(r, program->constants, sizeof *program->constant);
    for (int i = 0; i < program->constants && !r->failed; i++) fm_read_value(r, &program->constant[i], program->symbols, 1);
    program->kernels = fm_count(r);
    program->kernel = fm_own(r, program->kernels, sizeof *program->kernel);
    for (int i = 0; i < program->kernels && !r->failed; i++) fm_text(r, program->kernel[i]);
    program->regions = fm_count(r);
    if (program->regions < 2) fm_broken(r, "its regions");
    program->region = fm_own(r, program->regions, sizeof *program->region);
    for (int i = 0; i < program->regions && !r->failed; i++) fm_read_region(r, &program->region[i], program);
    if (fm_peek(r) != -1) fm_broken(r, "more than a program");
    return r->failed ? -1 : 0;
}

/* ---- numbers for given sizes; `*wrong` is set where one does not fit ---- */

static int64_t fm_product(int64_t a, int64_t b, int *wrong) {
    int64_t c = 0;
    *wrong |= __builtin_mul_overflow(a, b, &c);
    return c;
}

static int64_t fm_sum(int64_t a, int64_t b, int *wrong) {
    int64_t c = 0;
    *wrong |= __builtin_add_overflow(a, b, &c);
    return c;
}

static int64_t fm_operate(int64_t operation, int64_t a, int64_t b, int *wrong) {
    int64_t rest = 0;
    switch (operation) {
    case FM_ADD: return fm_sum(a, b, wrong);
    case FM_MUL: return fm_product(a, b, wrong);
    case FM_MAX: return a > b ? a : b;
    case FM_MIN: return a < b ? a : b;
    default: break;
    }
    if (b <= 0) return 0;
    rest = a % b;
    if (operation == FM_MOD) return rest < 0 ? rest + b : rest;
    return a / b - (rest < 0);
}

static int64_t fm_stacked(const fm_expression *x, const int64_t *sizes, int *wrong) {
    int64_t stack[FM_STACK] = {0};
    int depth = 0;
    for (int i = 0; i < x->count; i++) {
        int64_t operation = x->words[2 * i], number = x->words[2 * i + 1];
        if (operation <= FM_SYMBOL) {
            stack[depth++] = operation == FM_CONSTANT ? number : sizes[number];
            continue;
        }
        depth--;
        stack[depth - 1] = fm_operate(operation, stack[depth - 1], stack[depth], wrong);
    }
    return stack[0];
}

static int64_t fm_evaluate(const fm_expression *x, int symbols, const int64_t *sizes, int *wrong) {
    int64_t total = 0;
    if (x->kind == 'e') return fm_stacked(x, sizes, wrong);
    if (x->kind == 't') {
        int64_t at = sizes[x->symbol] - x->least;
        if (at >= 0 && at < x->count) return x->words[at];
        *wrong = 1;
        return 0;
    }
    if (x->kind == 'f') {
        int64_t top = fm_sum(fm_product(x->words[1], sizes[x->symbol], wrong), x->words[2], wrong);
        int64_t rest = top % x->words[3], quotient = top / x->words[3] - (rest < 0);
        return fm_sum(fm_product(x->words[0], quotient, wrong), x->words[4], wrong);
    }
    for (int i = 0; i < x->count; i++) {
        const int64_t *term = x->words + i * (1 + symbols);
        int64_t value = term[0];
        for (int k = 0; k < symbols; k++)
            for (int64_t power = term[1 + k]; power > 0; power--) value = fm_product(value, sizes[k], wrong);
        total = fm_sum(total, value, wrong);
    }
    if (x->kind == 'r' && total % x->least) total = fm_sum(total, x->least - total % x->least, wrong);
    return total;
}
#endif
