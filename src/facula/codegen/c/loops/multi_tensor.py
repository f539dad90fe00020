"""C text of multi-tensor kernels: one launch over a list of tensors.

Takes: a `StepProgram`, a storage dtype and an instruction-set variant.
Gives: a driver `step.<name>:<dtype>` with `p` = for each tensor its operands, then its scalars
(zero-dimensional f32 tensors), `n` = number of tensors, then the number of elements of each, `s` =
parameters; and the drivers `sum_of_squares:<dtype>`, `largest_magnitude:<dtype>` with `p` = result
(f32, or f64 for f64: one value a tensor), then the tensors, `n` the same.
Keeps true: operands of one tensor are contiguous and of one dtype; per-tensor values (bias
corrections) are computed once a tensor in f64; scalars are updated once; results do not depend on
the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable

from facula.codegen.c.entries import group, item, operands
from facula.codegen.c.isa import Isa, isa
from facula.codegen.c.loops import text
from facula.codegen.c.loops import translation_unit as loops_unit
from facula.codegen.c.loops.program_text import ProgramSweeps
from facula.lower.loops.programs import step_program
from facula.ops.expr import rows
from facula.ops.programs.step import DTYPES, STEP_PROGRAMS, StepProgram

CHUNK = 8192

PLAN = f"""\
enum {{ CHUNK = {CHUNK} }};
/* the first chunk of each tensor, and after the last the number of chunks */
static int64_t fk_chunks(const int64_t *n, int64_t *first, int64_t *elements)
{{
    int64_t chunks = 0;
    *elements = 0;
    for (int64_t t = 0; t < n[0]; t++) {{
        first[t] = chunks;
        chunks += (n[1 + t] + CHUNK - 1) / CHUNK;
        *elements += n[1 + t];
    }}
    first[n[0]] = chunks;
    return chunks;
}}
static int64_t fk_grain(int64_t chunks, int64_t elements)
{{
    return elements < 32768 ? chunks : 1 + chunks * 16384 / (elements + 1);
}}
/* the tensor to which a chunk belongs */
static int64_t fk_owner(const int64_t *first, int64_t tensors, int64_t chunk)
{{
    int64_t low = 0, high = tensors;
    while (high - low > 1) {{
        const int64_t middle = (low + high) / 2;
        if (first[middle] <= chunk) low = middle; else high = middle;
    }}
    return low;
}}
"""


class _Generator:
    """The functions of one step for one storage dtype."""

    def __init__(self, program: StepProgram, storage: str, variant: Isa) -> None:
        self.program, self.storage = program, storage
        self.function = loops_unit.identifier(f"step_{program.name}_{storage}")
        self.pointers = len(program.operands) + len(program.scalars)
        step, self.updates = step_program(program, storage)
        (self.sweep,) = step.sweeps
        (self.pass_,) = self.sweep.passes
        self.changed = {step.outputs.index(store.buffer) for store in self.pass_.stores}
        self.loops = ProgramSweeps(step, 0, variant.vector_bytes)

    def body(self) -> list[str]:
        """A range of chunks."""
        kind = text.STORED[self.storage]
        lines = [
            "while (first[t + 1] <= chunk) t++;",
            "const int64_t offset = (chunk - first[t]) * CHUNK;",
            "const int64_t left = n[1 + t] - offset, origin = 0;",
            "const int64_t stop = left < CHUNK ? left : CHUNK;",
            f"char *const *q = all + t * {self.pointers};",
        ]
        for k in range(len(self.program.operands)):
            lines.append(f"{kind} *restrict x{k} = ({kind} *)q[{k}] + offset;")
            if k in self.changed:
                lines.append(f"{kind} *restrict y{k} = x{k};")
        count = len(self.sweep.before)
        for k, (leaf, _) in enumerate(self.sweep.before):
            held = f"({text.STORED[leaf.dtype]})values[t * {count} + {k}]"
            lines.append(f"const {text.STORED[leaf.dtype]} u{leaf.value.number} = {held};")
        lines += self.loops.one_pass(self.pass_)
        return [
            f"static void {self.function}_chunks(char *const *p, const int64_t *n, const "
            f"fk_scalar *s, "
            "int64_t begin, int64_t end)",
            "{",
            "    char *const *all = (char *const *)p[0];",
            "    const int64_t *first = (const int64_t *)p[1];",
            "    const double *values = (const double *)p[2];",
            "    int64_t t = fk_owner(first, n[0], begin);",
            "    (void)s, (void)values;",
            "    for (int64_t chunk = begin; chunk < end; chunk++) {",
            *text.indent(lines, 2),
            "    }",
            "}",
        ]

    def prepare(self) -> list[str]:
        """Per-tensor values and the new scalars; tensors in the same state share the work."""
        count = len(self.sweep.before)
        scalars = range(len(self.program.scalars))
        roots = [e for _, e in self.sweep.before] + [e for _, e in self.updates]
        computed, values = self.loops.evaluate(roots)
        inner = [f"last{k} = scalar{k};" for k in scalars]
        inner += [f"row[{k}] = (double){values[k]};" for k in range(count)]
        inner += [
            f"new{k} = {value};" for (k, _), value in zip(self.updates, values[count:], strict=True)
        ]
        base = len(self.program.operands)
        same = " && ".join(["known", *[f"scalar{k} == last{k}" for k in scalars]])
        return [
            f"float {', '.join(['unused = 0', *[f'last{k} = 0, new{k} = 0' for k in scalars]])};",
            "int known = 0;",
            "(void)unused;",
            "for (int64_t t = 0; t < n[0]; t++) {",
            f"    double *row = values + t * {count};",
            *[f"    float *at{k} = (float *)p[t * {self.pointers} + {base + k}];" for k in scalars],
            *[f"    const float scalar{k} = *at{k};" for k in scalars],
            f"    if ({same}) {{",
            f"        for (int k = 0; k < {count}; k++) row[k] = row[k - {count}];",
            "    } else {",
            *text.indent([*computed, *inner], 2),
            "        known = 1;",
            "    }",
            *[f"    *at{k} = new{k};" for k, _ in self.updates],
            "}",
        ]

    def driver(self) -> list[str]:
        reads = [
            f"const double parameter_{name} = s[{k}].f;"
            for k, name in enumerate(self.program.parameters)
        ]
        voids = [f"(void)parameter_{name};" for name in self.program.parameters]
        return [
            f"static int {self.function}(char *const *p, const int64_t *n, const fk_scalar *s, "
            f"const fk_runtime *rt)",
            "{",
            f"    int64_t *first = rt->scratch((n[0] + 1) * 8 + n[0] * "
            f"{8 * len(self.sweep.before)});",
            "    if (!first) return 1;",
            "    double *values = (double *)(first + n[0] + 1);",
            *text.indent([*reads, *voids, *self.prepare()]),
            "    int64_t elements;",
            "    const int64_t chunks = fk_chunks(n, first, &elements);",
            "    char *q[3] = {(char *)p, (char *)first, (char *)values};",
            f"    rt->parallel({self.function}_chunks, q, n, s, chunks, fk_grain(chunks, "
            f"elements));",
            "    rt->release(first);",
            "    return 0;",
            "}",
        ]


_NORM = """\
static void {name}_chunks(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
                          int64_t end)
{{
    char *const *all = (char *const *)p[0];
    const int64_t *first = (const int64_t *)p[1];
    double *partial = (double *)p[2];
    int64_t t = fk_owner(first, n[0], begin);
    (void)s;
    for (int64_t chunk = begin; chunk < end; chunk++) {{
        while (first[t + 1] <= chunk) t++;
        const int64_t offset = (chunk - first[t]) * CHUNK;
        const int64_t length = n[1 + t] - offset < CHUNK ? n[1 + t] - offset : CHUNK;
        const {kind} *restrict x = (const {kind} *)all[1 + t] + offset;
        {compute} lanes[{lanes}];
        for (int l = 0; l < {lanes}; l++) lanes[l] = 0;
        int64_t j = 0;
        for (; j + {lanes} <= length; j += {lanes}) {{
            #pragma omp simd
            for (int l = 0; l < {lanes}; l++) {{
                const {compute} v = {load_lane};
                lanes[l] = {step};
            }}
        }}
        for (int l = 0; j < length; j++, l++) {{
            const {compute} v = {load_rest};
            lanes[l] = {step};
        }}
        double total = 0;
        for (int l = 0; l < {lanes}; l++) {{
            const double v = (double)lanes[l];
            total = {join};
        }}
        partial[chunk] = total;
    }}
}}
static int {name}(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{{
    int64_t elements, most = 0;
    for (int64_t t = 0; t < n[0]; t++) most += n[1 + t] / CHUNK + 1;
    int64_t *first = rt->scratch((n[0] + 1 + most) * 8);
    if (!first) return 1;
    const int64_t chunks = fk_chunks(n, first, &elements);
    double *partial = (double *)(first + n[0] + 1);
    char *q[3] = {{(char *)p, (char *)first, (char *)partial}};
    rt->parallel({name}_chunks, q, n, s, chunks, fk_grain(chunks, elements));
    for (int64_t t = 0; t < n[0]; t++) {{
        double total = 0;
        for (int64_t chunk = first[t]; chunk < first[t + 1]; chunk++) {{
            const double v = partial[chunk];
            total = {join};
        }}
        (({compute} *)p[0])[t] = ({compute})total;
    }}
    rt->release(first);
    return 0;
}}"""

#: per-tensor reductions: step over lanes, join of partial values
_NORMS = {
    "sum_of_squares": ("lanes[l] + v * v", "total + v"),
    "largest_magnitude": (
        "({a} > lanes[l]) | ({a} != {a}) ? {a} : lanes[l]",
        "(v > total) | (v != v) ? v : total",
    ),
}


def kernel(program: StepProgram, storage: str, variant: str | Isa) -> loops_unit.Kernel:
    """The driver of one optimizer step for one storage dtype."""
    generator = _Generator(program, storage, isa(variant))
    lines = [*generator.body(), *generator.driver()]
    items = [
        item("u" if k in generator.changed else "r", name, storage, "n[1+i]")
        for k, name in enumerate(program.operands)
    ]
    renewed = {k for k, _ in generator.updates}
    items += [
        item("u" if k in renewed else "r", name, "f32", "1")
        for k, name in enumerate(program.scalars)
    ]
    said = operands("1+n0", len(program.parameters), *group("n0", *items))
    return loops_unit.driver(f"step.{program.name}:{storage}", generator.function, lines, said)


def norm_kernel(name: str, storage: str, variant: str | Isa) -> loops_unit.Kernel:
    """The driver of one per-tensor reduction for one storage dtype."""
    compute = rows.COMPUTE[storage]
    step, join = _NORMS[name]
    function = loops_unit.identifier(f"{name}_{storage}")
    body = _NORM.format(
        name=function,
        kind=text.STORED[storage],
        compute=text.STORED[compute],
        lanes=4 * isa(variant).vector_bytes // text.SIZE[compute],
        load_lane=text.load(storage, compute, "x[j + l]"),
        load_rest=text.load(storage, compute, "x[j]"),
        step=step.format(a=f"__builtin_fabs{'f' if compute == 'f32' else ''}(v)"),
        join=join,
    )
    tensors = group("n0", item("r", "x", storage, "n[1+i]"))
    said = operands("1+n0", 0, item("w", "result", compute, "n0"), *tensors)
    return loops_unit.driver(f"{name}:{storage}", function, [body], said)


def kernels(variant: str | Isa, names: Iterable[str] | None = None) -> list[loops_unit.Kernel]:
    """Every step of the table (or those named) and the per-tensor reductions, for all storage
    dtypes."""
    chosen = STEP_PROGRAMS if names is None else names
    steps = [kernel(STEP_PROGRAMS[name], storage, variant) for name in chosen for storage in DTYPES]
    return steps + [norm_kernel(name, storage, variant) for name in _NORMS for storage in DTYPES]


def unit(variant: str | Isa, names: Iterable[str] | None = None) -> str:
    """A translation unit with the multi-tensor kernels."""
    return loops_unit.translation_unit(kernels(variant, names), PLAN)
