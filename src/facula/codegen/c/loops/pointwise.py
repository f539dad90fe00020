"""Pointwise kernels: traced expressions to C map kernels and translation units.

Takes: `ops.expr.scalar.Traced` (forward or gradient) under a kernel name `operator[.variant][.part]:dtype`.
Gives: `unit` (a translation unit with its table), `kernels_of` (what an operator definition wants
prebuilt), `all_kernels` (the same for a whole table), `written` (one kernel).
Keeps true: one loop over contiguous elements, which the emitter of fused kernels writes; an output
may be the memory of an input; equal kernels are emitted once; the text depends on nothing but its
input.

Functions with a limited fast form (sin but for huge arguments, fmod but for huge quotients, powers
with simple exponents) are checked in blocks before anything is written: a block whose arguments all
fit runs the loop of the fast form, another one that of the full form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from facula.codegen.c.entries import item, operands
from facula.codegen.c.loops import translation_unit as loops_unit
from facula.codegen.c.loops.fused_flat import FlatText
from facula.codegen.c.loops.printer import guarded
from facula.codegen.c.loops.program_text import ProgramNames
from facula.codegen.c.loops.text import STORED, indent
from facula.codegen.c.math.library import SMOOTH
from facula.lower.loops.programs import Mapped, mapped
from facula.ops.expr import scalar
from facula.ops.expr.node import Scalar
from facula.ops.expr.scalar import Traced
from facula.ops.table import pointwise_rules

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition


__all__ = ["all_kernels", "compute_dtypes", "kernels_of", "unit", "written"]


class _Names(ProgramNames):
    """Names in map kernels, which get attributes in the order of `Traced.parameters`."""

    def __init__(self, traced: Traced) -> None:
        super().__init__()
        self.slots = {id(parameter): k for k, parameter in enumerate(traced.parameters)}

    def parameter(self, parameter: Scalar) -> str:
        return f"s[{self.slots[id(parameter)]}].{'f' if parameter.dtype == 'f64' else 'i'}"


class _Map(FlatText):
    """Writes the loop of one operator; its memory may be in place."""

    def __init__(self, traced: Traced) -> None:
        self.program: Mapped = mapped(traced)
        super().__init__(self.program.loop, _Names(traced))
        self.stages = []

    def lanes(self, first: str, last: str) -> list[str]:
        if not self.guarded:
            return super().lanes(first, last)
        test, quick, full = self.body(True, False), self.body(True), self.body(False)
        smooth = all(current.op in SMOOTH for current in guarded(self.expressions))
        block = [
            "int far = 0;",
            *self.loop(test, "at", "until"),
            "if (!far) {",
            *indent(self.loop(quick, "at", "until")),
            "} else {",
            *indent(self.loop(full, "at", "until", smooth)),
            "}",
        ]
        return self.in_blocks(first, last, block)

    def function(self, name: str) -> str:
        """The C function."""
        pointers = [
            f"{const}{STORED[buffer.code]} *const {buffer.name} = "
            f"({const}{STORED[buffer.code]} *)p[{k}];"
            for k, (const, buffer) in enumerate(
                [("", each) for each in self.program.outputs]
                + [("const ", each) for each in self.program.inputs]
            )
        ]
        lines = ["(void)s;", *pointers, *self.before(), *self.lanes("0", "n")]
        head = f"static void {name}(char *const *p, const fk_scalar *s, int64_t n)"
        return "\n".join([head, "{", *indent(lines), "}", ""])


def written(name: str, traced: Traced) -> loops_unit.Kernel:
    """The kernel of an expression."""
    function = loops_unit.identifier(name)
    text = _Map(traced).function(function)
    return loops_unit.Kernel(name, "m", function, text, operands_of(traced))


def unit(isa: Any, kernels: Iterable[tuple[str, Traced]]) -> str:
    """A translation unit for kernels (name, expression): library functions, kernels, table.

    The text is the same for every instruction set; `isa` decides the compiler flags only.
    """
    del isa
    return loops_unit.translation_unit([written(name, traced) for name, traced in kernels])


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


def compute_dtypes(definition: Any) -> tuple[str, ...]:
    """The dtypes in which an operator computes."""
    kinds = definition.dtypes.split()
    if definition.result in ("float", "real_float"):
        kinds = [kind for kind in kinds if kind in ("float", "complex")]
    return tuple(code for kind in kinds for code in _KINDS[kind])


def _variant(definition: Definition, chosen: dict[str, Any], code: str) -> tuple[str, Traced]:
    """Key and expression of the variant in which the attributes `chosen` differ from their defaults."""
    key, dtypes, attributes = pointwise_rules.variant_parts(definition, chosen, code)
    return key, scalar.trace(definition.body, dtypes, attributes)


def _has_default_variant(definition: Definition) -> bool:
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
