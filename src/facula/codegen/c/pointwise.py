"""Pointwise kernels: traced expressions to C map kernels and translation units.

Takes: `ops.scalar.Traced` (forward or gradient) under a kernel name `operator[.variant][.part]:dtype`.
Gives: `map_kernel` (one C function with the `fk_map` signature), `unit` (a translation unit with its table),
`kernels_of` (what an operator definition wants prebuilt), `all_kernels` and `units` (the same for a whole table).
Keeps true: one loop over contiguous elements; an output may be the memory of an input; equal kernels are emitted once;
the text depends on nothing but its input.

Functions with a limited fast form (sin but for huge arguments, fmod but for huge quotients, powers
with simple exponents)
are checked in blocks: a block whose arguments all fit runs the loop of the fast form, another one
that of the full form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from facula.codegen.c.entries import Entry, item, operands, table
from facula.codegen.c.loops_text import STORED, indent, loop, simd
from facula.codegen.c.math import PREAMBLE, SMOOTH, functions_for
from facula.codegen.c.printer import Printer, guarded_nodes
from facula.ops import TABLE, pointwise_rules, scalar
from facula.ops.scalar import Traced
from facula.ops.scalar_node import Complex, Scalar

__all__ = ["all_kernels", "compute_dtypes", "kernels_of", "map_kernel", "unit", "units"]

BLOCK = 1024
_ABI = '#include "facula_abi.h"\n'


def _pointers(traced: Traced) -> list[str]:
    lines = []
    for i, output in enumerate(traced.outputs):
        kind = STORED[output.dtype]
        lines.append(f"{kind} *const o{i} = ({kind} *)p[{i}];")
    for i, leaf in enumerate(traced.inputs):
        kind = STORED[leaf.dtype]
        lines.append(f"const {kind} *const x{i} = (const {kind} *)p[{len(traced.outputs) + i}];")
    return lines


def _printer(traced: Traced, fast: bool) -> Printer:
    position = {id(leaf): i for i, leaf in enumerate(traced.inputs)}
    slots = {id(parameter): i for i, parameter in enumerate(traced.parameters)}

    def leaf_text(leaf: Scalar) -> str:
        if leaf.op in ("real", "imag"):
            return f"x{position[id(leaf.args[0])]}[2 * i{' + 1' if leaf.op == 'imag' else ''}]"
        text = f"x{position[id(leaf)]}[i]"
        return f"{text} != 0" if leaf.dtype == "b8" else text

    def parameter_text(parameter: Scalar) -> str:
        return f"s[{slots[id(parameter)]}].{'f' if parameter.dtype == 'f64' else 'i'}"

    return Printer(leaf_text, parameter_text, fast)


def _stores(traced: Traced, printer: Printer) -> list[str]:
    lines = []
    for i, output in enumerate(traced.outputs):
        if isinstance(output, Complex):
            lines.append(f"o{i}[2 * i] = {printer.text(output.re)};")
            lines.append(f"o{i}[2 * i + 1] = {printer.text(output.im)};")
        else:
            lines.append(f"o{i}[i] = {printer.text(output)};")
    return lines


def _plain(traced: Traced) -> list[str]:
    printer = _printer(traced, fast=False)
    printer.add(traced.outputs)
    body = [*printer.body, *_stores(traced, printer)]
    return [*_pointers(traced), *printer.invariant, *simd(body), *loop("i", "0", "n", body)]


def _checked(traced: Traced, guarded: list[Scalar]) -> list[str]:
    """Blocks of the simd loop where the fast forms hold, of the full loop elsewhere."""
    fast = _printer(traced, True)
    fast.add(traced.outputs)
    check, full = fast.fork(True), fast.fork(False)
    for current in guarded:
        check.add(current.args)
    conditions = []
    for current in guarded:
        args = ", ".join(check.text(arg) for arg in current.args)
        conditions.append(f"fm_{current.op}_guard_{current.args[0].dtype}({args})")
    full.add(traced.outputs)
    test = [*check.body, f"far |= !({' & '.join(dict.fromkeys(conditions))});"]
    quick = [*fast.body, *_stores(traced, fast)]
    slow = [*full.body, *_stores(traced, full)]
    smooth = simd(slow) if all(current.op in SMOOTH for current in guarded) else []
    block = [
        f"const int64_t end = n - begin < {BLOCK} ? n : begin + {BLOCK};",
        "int far = 0;",
        "#pragma omp simd reduction(| : far)",
        *loop("i", "begin", "end", test),
        "if (!far) {",
        *indent([*simd(quick), *loop("i", "begin", "end", quick)]),
        "} else {",
        *indent([*smooth, *loop("i", "begin", "end", slow)]),
        "}",
    ]
    outer = [
        f"for (int64_t begin = 0; begin < n; begin += {BLOCK}) {{",
        *indent(block),
        "}",
    ]
    return [*_pointers(traced), *fast.invariant, *outer]


def _body(traced: Traced) -> str:
    guarded = guarded_nodes(traced.outputs)
    lines = _checked(traced, guarded) if guarded else _plain(traced)
    unused = [] if traced.parameters else ["(void)s;"]
    return "\n".join("    " + line for line in [*unused, *lines])


def _symbol(name: str) -> str:
    return "k_" + re.sub(r"\W", "_", name)


def map_kernel(name: str, traced: Traced, dtypes: Any = None) -> str:
    """The C function of one kernel, named after it.

    `dtypes`, if given, are the input dtypes that the caller expects; they must be the traced ones.
    """
    if dtypes is not None and tuple(dtypes) != traced.input_dtypes:
        raise TypeError(
            f"[{name}] traced dtypes {tuple(dtypes)} were required: got {traced.input_dtypes}"
        )
    return _function(_symbol(name), _body(traced))


def _function(symbol: str, body: str) -> str:
    return f"static void {symbol}(char *const *p, const fk_scalar *s, int64_t n) {{\n{body}\n}}\n"


def unit(isa: Any, kernels: Iterable[tuple[str, Traced]]) -> str:
    """A translation unit for kernels (name, expression): library functions, kernels, table.

    The text is the same for every instruction set; `isa` decides the compiler flags only.
    """
    del isa
    functions: list[str] = []
    symbols: dict[str, str] = {}
    entries: list[Entry] = []
    for name, traced in kernels:
        body = _body(traced)
        key = hashlib.sha256(body.encode()).hexdigest()
        if key not in symbols:
            symbols[key] = _symbol(name)
            functions.append(_function(symbols[key], body))
        entries.append((name, "m", symbols[key], operands_of(traced)))
    text = "\n".join(functions)
    return f"{_ABI}{PREAMBLE}\n{functions_for(text)}\n\n{text}\n{table(entries)}"


def operands_of(traced: Traced) -> str:
    """What a map says of its operands: its results and inputs, all of the length of the call."""
    results = [item("w", f"result{k}", each.dtype, "N") for k, each in enumerate(traced.outputs)]
    inputs = [item("r", f"input{k}", leaf.dtype, "N") for k, leaf in enumerate(traced.inputs)]
    return operands(0, len(traced.parameters), *results, *inputs)


_KINDS = {
    "bool": ("b8",),
    "int": ("i64", "i32"),
    "float": ("f32", "f64"),
    "complex": ("c64", "c128"),
}
_INTEGERS = ("i64", "i32", "b8")
KERNELS_PER_UNIT = 100


def compute_dtypes(definition: Any) -> tuple[str, ...]:
    """The dtypes in which an operator computes."""
    kinds = definition.dtypes.split()
    if definition.result in ("float", "real_float"):
        kinds = [kind for kind in kinds if kind in ("float", "complex")]
    return tuple(code for kind in kinds for code in _KINDS[kind])


def _variant(definition: Any, chosen: dict[str, Any], code: str) -> tuple[str, Traced]:
    """Key and expression of the variant in which the attributes `chosen` differ from their defaults."""
    key, dtypes, attributes = pointwise_rules.variant_parts(definition, chosen, code)
    return key, scalar.trace(definition.body, dtypes, attributes)


def _has_default_variant(definition: Any) -> bool:
    """Whether a call without optional tensors means something (of clamp it does not)."""
    return (
        not all(p.optional for p in definition.schema.tensor_parameters[1:])
        or len(definition.schema.tensor_parameters) == 1
    )


def kernels_of(definition: Any, compute_dtype: str) -> Iterator[tuple[str, Traced]]:
    """Forward and gradient kernels of the default variant and of the `prebuilt` ones, with their names."""
    variants: list[dict[str, Any]] = [{}] if _has_default_variant(definition) else []
    for chosen in [*variants, *definition.prebuilt]:
        unsupported = definition.unsupported
        if unsupported is not None and unsupported(compute_dtype, chosen):
            continue
        key, traced = _variant(definition, chosen, compute_dtype)
        stem = f"{definition.name}.{key}" if key else definition.name
        yield f"{stem}:{compute_dtype}", traced
        if definition.differentiable and compute_dtype not in _INTEGERS:
            yield from _gradients(definition, stem, traced, compute_dtype)


def _gradients(
    definition: Any, stem: str, traced: Traced, compute_dtype: str
) -> Iterator[tuple[str, Traced]]:
    for wrt in range(len(traced.values)):
        try:
            found = scalar.gradient(traced, wrt, definition.explicit_backward)
        except NotImplementedError:
            continue  # raised again when somebody asks for this gradient
        if found is not None and not scalar.is_trivial(found):
            yield f"{stem}.grad{wrt}:{compute_dtype}", found


def all_kernels(table: Mapping[str, Any]) -> Iterator[tuple[str, Traced]]:
    """The prebuilt kernels of every pointwise operator of a table (name -> operator)."""
    for name in sorted(table):
        definition = table[name].definition
        if definition.kind == "pointwise":
            for code in compute_dtypes(definition):
                yield from kernels_of(definition, code)


def units(isa: Any, table: Mapping[str, Any] | None = None) -> Iterator[tuple[str, str]]:
    """Translation units (name, C text) of about `KERNELS_PER_UNIT` kernels; default: all operators."""
    if table is None:
        table = TABLE
    kernels = list(all_kernels(table))
    for first in range(0, len(kernels), KERNELS_PER_UNIT):
        part = kernels[first : first + KERNELS_PER_UNIT]
        yield f"pointwise_{first // KERNELS_PER_UNIT}", unit(isa, part)
