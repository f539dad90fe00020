/* Launches against what kernels say of their operands.
 *
 * Takes: the text of a kernel's operands (`fk_entry`; the language stands in docs/kernel_interfaces.md), sizes, scalars and
 * pointers of a launch. Gives: `fm_contract_fault`: what is wrong with the launch, or NULL.
 * Keeps true: a launch without a fault touches nothing outside of the memory that its pointers lie in, as far as its sizes say,
 * and writes to no input and to no constant. Texts come out of kernel libraries, which the loader trusts with more than that. */
#ifndef FM_CONTRACT_H
#define FM_CONTRACT_H
#include "fm_program.h"

/* what no extent may be; it stays what it is in all that is computed from it, but in the branch of an `if` that is not taken */
#define FM_UNSOUND INT64_MIN
enum { FM_PAIRS = 32 };

typedef struct {
    int null, constant; /* constant: not to be written to */
    int64_t offset, room; /* bytes from the start of its memory, and to its end */
} fm_given;

typedef struct {
    const fk_entry *kernel, *const *kernels; /* those of the program, for addresses of maps */
    int known, pointers;
    int64_t sizes, scalars, total, item;
    const int64_t *n;
    const fk_scalar *s;
    const fm_given *given;
} fm_launch;

typedef struct {
    const char *at;
    const fm_launch *launch;
} fm_text_reader;

/* ---- expressions ---- */

static int64_t fm_sound(int64_t a, int64_t b, int64_t found, int wrong) {
    return a == FM_UNSOUND || b == FM_UNSOUND || wrong ? FM_UNSOUND : found;
}

static int64_t fm_times(int64_t a, int64_t b) {
    int64_t c = 0;
    int wrong = __builtin_mul_overflow(a, b, &c);
    return fm_sound(a, b, c, wrong || a < 0 || b < 0);
}

static int64_t fm_binary(char mark, int64_t a, int64_t b) {
    int64_t c = 0;
    int wrong = mark == '+' ? __builtin_add_overflow(a, b, &c) : mark == '-' ? __builtin_sub_overflow(a, b, &c) : 0;
    if (mark == '*') return fm_times(a, b);
    if (a == FM_UNSOUND || b == FM_UNSOUND || ((mark == '/' || mark == '%') && !b)) return FM_UNSOUND;
    if (mark == '/') c = a / b;
    if (mark == '%') c = b == -1 ? 0 : a % b;
    if (mark == '=') c = a == b;
    if (mark == '<') c = a < b;
    return fm_sound(a, b, c, wrong);
}

static int64_t fm_size_at(const fm_launch *l, int64_t from, int64_t i) { return from >= 0 && from < l->sizes - i ? l->n[from + i] : 0; }

/* the lowest place that coordinates and strides reach, or one past the highest; 0 where there are no coordinates */
static int64_t fm_box(const fm_launch *l, int64_t count, int64_t sizes, int64_t strides, int high) {
    int64_t total = high, steps = 0;
    if (count < 0 || count > l->sizes) return FM_UNSOUND;
    for (int64_t i = 0; i < count; i++)
        if (fm_size_at(l, sizes, i) < 0) return FM_UNSOUND;
    for (int64_t i = 0; i < count; i++) {
        if (!fm_size_at(l, sizes, i)) return 0;
        if (__builtin_mul_overflow(fm_size_at(l, sizes, i) - 1, fm_size_at(l, strides, i), &steps)) return FM_UNSOUND;
        if ((steps > 0) == high) total = fm_binary('+', total, steps);
    }
    return total;
}

/* one past the highest place that pairs of a size and a stride of at least 0 reach */
static int64_t fm_span(const int64_t *pairs, int count) {
    int64_t total = 1;
    for (int i = 0; i < count; i += 2)
        if (pairs[i] < 0) return FM_UNSOUND;
    for (int i = 0; i < count; i += 2) {
        if (!pairs[i]) return 0;
        total = fm_binary('+', total, pairs[i] > 1 ? fm_times(pairs[i] - 1, pairs[i + 1]) : 0);
    }
    return total;
}

/* the product or the sum of a run of sizes */
static int64_t fm_run_of(const fm_launch *l, int64_t count, int64_t first, int product) {
    int64_t total = product;
    if (count < 0 || count > l->sizes) return FM_UNSOUND;
    for (int64_t i = 0; i < count; i++) total = fm_binary(product ? '*' : '+', total, fm_size_at(l, first, i));
    return total;
}

static int64_t fm_called(const fm_launch *l, const char *word, const int64_t *a, int count) {
    if (!strcmp(word, "span")) return fm_span(a, count & ~1);
    if (!strcmp(word, "if")) return a[0] == FM_UNSOUND ? a[0] : a[0] ? a[1] : a[2];
    if (!strcmp(word, "high") || !strcmp(word, "low")) return fm_box(l, a[0], a[1], a[2], *word == 'h');
    if (!strcmp(word, "product") || !strcmp(word, "sum")) return fm_run_of(l, a[0], a[1], *word == 'p');
    int64_t most = a[0] > a[1] ? a[0] : a[1], least = a[0] < a[1] ? a[0] : a[1];
    return fm_sound(a[0], a[1], !strcmp(word, "max") ? most : least, strcmp(word, "max") && strcmp(word, "min"));
}

static int64_t fm_comparison(fm_text_reader *r, int level);

static int64_t fm_digits(fm_text_reader *r) {
    int64_t value = 0;
    while (*r->at >= '0' && *r->at <= '9') value = fm_binary('+', fm_times(value, 10), *r->at++ - '0');
    return value;
}

static int64_t fm_leaf(fm_text_reader *r) {
    const fm_launch *l = r->launch;
    char word[8] = "";
    int64_t a[FM_PAIRS] = {0}, value = 0;
    int length = 0, count = 0;
    if (*r->at >= '0' && *r->at <= '9') return fm_digits(r);
    while (((*r->at | 32) >= 'a' && (*r->at | 32) <= 'z') && length < 7) word[length++] = *r->at++;
    if (!strcmp(word, "P")) return l->pointers;
    if (!strcmp(word, "N")) return l->total;
    if (!strcmp(word, "i")) return l->item;
    if (*r->at == '[') {
        r->at++;
        value = fm_comparison(r, 0);
        r->at += *r->at == ']';
        return value == FM_UNSOUND ? value : fm_size_at(l, value, 0);
    }
    if (!strcmp(word, "n")) return fm_size_at(l, fm_digits(r), 0);
    if (!strcmp(word, "s")) return value = fm_digits(r), value >= 0 && value < l->scalars ? l->s[value].i : 0;
    if (*r->at != '(') return FM_UNSOUND;
    do {
        r->at++;
        value = fm_comparison(r, 0);
        if (count < FM_PAIRS) a[count++] = value;
    } while (*r->at == ',');
    r->at += *r->at == ')';
    return length ? fm_called(l, word, a, count) : value;
}

/* comparisons, then sums, then products */
static int64_t fm_comparison(fm_text_reader *r, int level) {
    static const char *const marks[] = {"=<", "+-", "*/%"};
    int64_t value = level == 2 ? fm_leaf(r) : fm_comparison(r, level + 1);
    while (*r->at && strchr(marks[level], *r->at) && r->at[1] != ';') { /* `4+;`: so many or more */
        char mark = *r->at++;
        value = fm_binary(mark, value, level == 2 ? fm_leaf(r) : fm_comparison(r, level + 1));
    }
    return value;
}

static int64_t fm_extent(const char *text, const fm_launch *l) {
    fm_text_reader r = {text, l};
    return fm_comparison(&r, 0);
}

/* ---- items: `[*count ]mode name dtype low..high` ---- */

static const char *fm_after(const char *text, char mark) {
    while (*text && *text != mark && *text != ';') text++;
    return text + (*text == mark);
}

static int fm_code_of(const char *text) {
    for (int k = 0; k < FK_DTYPES; k++) {
        size_t length = strlen(fk_dtype_names[k]);
        if (!strncmp(text, fk_dtype_names[k], length) && text[length] == ' ') return k;
    }
    return -1;
}

/* bytes of an element; 1 where the extent counts bytes */
static int64_t fm_item_bytes(const char *text) {
    int code = fm_code_of(text);
    return code >= 0 ? fk_itemsize[code] : *text == 'x' ? atoi(text + 1) : 1;
}

static const char *fm_operand_fault(const fm_launch *l, const char *text, int at, int idle) {
    int nullable = text[1] == '?';
    const char *dtype = fm_after(fm_after(text, ' '), ' '), *low = fm_after(dtype, ' '), *high = low;
    while (*high && *high != ';' && strncmp(high, "..", 2)) high++;
    int two = *high == '.';
    int64_t size = fm_item_bytes(dtype), last = fm_extent(two ? high + 2 : low, l), first = two ? fm_extent(low, l) : 0;
    if (at >= l->pointers) return "the number of its operands";
    const fm_given *g = &l->given[at];
    if (g->null) return nullable || idle || !last ? NULL : "memory for all of its operands";
    if (*text != 'r' && g->constant) return "memory that may be written to";
    if (idle) return NULL;
    if (last < 0 || first == FM_UNSOUND) return "its sizes";
    int64_t bytes = fm_times(last, size), before = first < 0 ? fm_times(-first, size) : 0;
    if (bytes == FM_UNSOUND || (last && bytes > g->room) || before == FM_UNSOUND || before > g->offset) return "elements outside of their memory";
    return last && g->offset % (size < 8 ? size : 8) ? "elements at odd places" : NULL;
}

/* A size that is the address of an elementwise kernel of one operand, which takes the scalars behind the launch's own. */
static const char *fm_map_fault(const fm_launch *l, const char *text, int64_t own) {
    const char *dtype = fm_after(fm_after(text, ' '), ' ');
    int64_t address = fm_extent(fm_after(dtype, ' '), l);
    for (int k = 0; k < l->known; k++) {
        const fk_entry *map = l->kernels[k];
        if (map->kind != 'm' || (int64_t)(intptr_t)map->fn != address) continue;
        const char *scalars = fm_after(map->operands, ';'), *at = fm_after(scalars, ';');
        int same = fm_extent(scalars, l) == l->scalars - own, operands = 0;
        for (; *at; at = fm_after(at, ';'), operands++) same &= fm_code_of(fm_after(fm_after(at, ' '), ' ')) == fm_code_of(dtype);
        return same && operands == 2 ? NULL : "its elementwise kernel";
    }
    return "its elementwise kernel";
}

static const char *fm_item_fault(fm_launch *l, const char *text, int64_t own, int *at, int idle) {
    if (*text == '*') text = fm_after(text, ' ');
    if (*text == 'm') return fm_map_fault(l, text, own);
    if (*text != 'c') return fm_operand_fault(l, text, (*at)++, idle);
    return !idle && fm_extent(fm_after(fm_after(text, ' '), ' '), l) <= 0 ? "sizes that it was written for" : NULL;
}

static int fm_count_fits(const char *text, int64_t given, int64_t count) {
    const char *end = fm_after(text, ';');
    return count >= 0 && (given == count || (end - text > 1 && end[-2] == '+' && given > count));
}

/* the first behind neighbours with the same number of times, which come in turn */
static const char *fm_group_end(const char *text) {
    size_t prefix = *text == '*' ? (size_t)(fm_after(text, ' ') - text) : 0;
    const char *end = fm_after(text, ';');
    while (prefix && !strncmp(end, text, prefix)) end = fm_after(end, ';');
    return end;
}

static const char *fm_contract_fault(fm_launch *l) {
    const char *text = l->kernel->operands, *scalars = fm_after(text, ';'), *fault = NULL;
    int at = 0, idle = l->kernel->kind != 'd' && l->total <= 0;
    int64_t own = fm_extent(scalars, l);
    if (!fm_count_fits(text, l->sizes, fm_extent(text, l))) return "the number of its sizes";
    if (!fm_count_fits(scalars, l->scalars, own)) return "the number of its scalars";
    for (const char *first = fm_after(scalars, ';'), *end; *first; first = end) {
        end = fm_group_end(first);
        int64_t count = *first == '*' ? fm_extent(first + 1, l) : 1;
        if (count < 0) return "the numbers of its operands";
        for (l->item = 0; l->item < count; l->item++)
            for (const char *one = first; one < end; one = fm_after(one, ';'))
                if ((fault = fm_item_fault(l, one, own, &at, idle))) return fault;
    }
    return at == l->pointers ? NULL : "the number of its operands";
}

/* What an elementwise kernel says of the dtypes that an iteration gives it; extents are those of the iteration. */
static const char *fm_iteration_fault(const fm_launch *l, const fm_operand *operands, int outputs) {
    const char *scalars = fm_after(l->kernel->operands, ';'), *text = fm_after(scalars, ';');
    int at = 0;
    if (fm_extent(scalars, l) > l->scalars) return "the number of its scalars";
    for (; *text && at < l->pointers; text = fm_after(text, ';'), at++)
        if ((*text != 'r') != (at < outputs) || operands[at].compute != fm_code_of(fm_after(fm_after(text, ' '), ' '))) return "dtypes of its operands";
    return *text || at != l->pointers ? "the number of its operands" : NULL;
}
#endif
