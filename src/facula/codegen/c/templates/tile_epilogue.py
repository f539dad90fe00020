"""What happens to sums on their way to memory: C text of scaling, bias, activation, conversion.

Takes a kind; gives `<dtype>_finish` for every result dtype. Keeps true: with beta zero C is not
read; NaN stays NaN. To fuse another function, add a statement on `x` to `ACTIVATIONS`: its place
in the table is its code in the kernels' flags.
"""

from .tile_kind import Kind, fill

__all__ = ["ACTIVATIONS", "epilogue_text"]

# code: statement on the accumulator value x ($f is the suffix of the C mathematical functions)
ACTIVATIONS: dict[int, tuple[str, str]] = {
    1: ("relu", "x = x < 0 ? 0 : x"),
    2: ("gelu", "x = x * (acc_t)0.5 * (1 + erf$f(x * (acc_t)0.70710678118654752440))"),
    3: (
        "gelu_tanh",
        "x = x * (acc_t)0.5 * (1 + tanh$f((acc_t)0.79788456080286535588"
        " * (x + (acc_t)0.044715 * x * x * x)))",
    ),
    4: ("silu", "x = x / (1 + exp$f(-x))"),
}

# result dtype: element type, value of an element `y`, element of a value `x`
RESULTS = {
    "f32": ("float", "y", "x"),
    "f64": ("double", "y", "x"),
    "f16": ("_Float16", "(float)y", "(_Float16)x"),
    "bf16": ("uint16_t", "float_of_bf16(y)", "bf16_of_float(x)"),
    "i32": ("int32_t", "y", "x"),
    "i64": ("int64_t", "y", "x"),
}

ACTIVATE = r"""
NOINLINE void activate(acc_t *row, long count, int activation)
{
    switch (activation) {
$CASES
    }
}
"""

FINISH = r"""
NOINLINE void $S_finish(const output *o, acc_t *sums, long stride, long rows, long first, long last,
                        const long *c_row)
{
    const long width = last - first;
    const $E *bias = o->bias ? (const $E *)o->bias + first : NULL;
    for (long r = 0; r < rows; r++, sums += stride) {
        $E *c = ($E *)o->c + c_row[r] + first;
        if (o->correction) {
            const acc_t *correction = o->correction + first - o->correction_first;
            for (long j = 0; j < width; j++) sums[j] += correction[j];
        }
        if (o->alpha != 1)
            for (long j = 0; j < width; j++) sums[j] *= o->alpha;
        if (o->beta != 0)
            for (long j = 0; j < width; j++) {
                const $E y = c[j];
                sums[j] += o->beta * (acc_t)($LOAD);
            }
        if (bias)
            for (long j = 0; j < width; j++) {
                const $E y = bias[j];
                sums[j] += (acc_t)($LOAD);
            }
        if (o->activation) activate(sums, width, o->activation);
        for (long j = 0; j < width; j++) {
            const acc_t x = sums[j];
            c[j] = $STORE;
        }
    }
}
"""


def epilogue_text(kind: Kind) -> str:
    """The activation hook and the finishing functions of a kind."""
    floating = kind.accumulator in ("float", "double")
    suffix = "f" if kind.accumulator == "float" else ""
    cases = []
    for code, (name, statement) in ACTIVATIONS.items():
        if floating or name == "relu":
            cases += [
                f"    case {code}: /* {name} */",
                "        for (long j = 0; j < count; j++) {",
                "            acc_t x = row[j];",
                f"            {statement.replace('$f', suffix)};",
                "            row[j] = x;",
                "        }",
                "        break;",
            ]
    parts = [fill(ACTIVATE, CASES="\n".join(cases))]
    results = {
        "f32": ("f32", "f16", "bf16"),
        "f64": ("f64",),
        "bf16": ("bf16", "f32"),
        "i8": ("i32",),
    }.get(kind.name, (kind.name,))
    for name in results:
        element, load, store = RESULTS[name]
        parts.append(fill(FINISH, S=name, E=element, LOAD=load, STORE=store))
    return "\n".join(parts)
