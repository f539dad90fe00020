"""Pointwise kernels made on first use: of users' operators, and of variants that are not prebuilt.

Takes what the core asks through its slot `MISSING_KERNEL`: a definition, a variant, a compute dtype
and a part (`""`, or `grad<i>`). Gives the address of a kernel compiled now (or found in the disk
cache), or None where there is to be none: the core then evaluates the expression by other operators.
Keeps true: a kernel is made from the same expression that its operator's gradient rules and its
evaluation use; what an operator's `unsupported` or `result_of` leaves out is never made; doing
without a kernel for want of a compiler is an event (`events`, a warning once) that the user can
forbid with `FACULA_JIT=error`.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from facula import core
from facula.codegen.c.loops import pointwise
from facula.core import config
from facula.core.errors import fail, is_own, message
from facula.ops.expr import scalar
from facula.ops.table import pointwise_rules
from facula.runtime.compile import CompileError, library

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition


__all__ = ["Event", "MissingKernelWarning", "clear_events", "events", "make_kernel"]


class MissingKernelWarning(UserWarning):
    """An operator runs without a kernel of its own, since none could be compiled."""


class Event(NamedTuple):
    """What was done about one missing kernel: `compiled`, `evaluated` or `refused`, and how long it took."""

    kernel: str
    outcome: str
    seconds: float
    reason: str


_events: list[Event] = []
_announced: list[str] = []


def events() -> tuple[Event, ...]:
    """Every kernel that was asked for and not prebuilt, in order."""
    return tuple(_events)


def clear_events() -> None:
    """Forgets the events, so that the next missing compiler is announced again."""
    _events.clear()
    _announced.clear()


def kernel_name(variant: core.Variant, code: str, part: str) -> str:
    """`operator[.variant][.part]:dtype`, as the core looks it up."""
    stem = ".".join(word for word in (variant.op.name, variant.key, part) if word)
    return f"{stem}:{code}"


def make_kernel(definition: Definition, variant: core.Variant, code: str, part: str) -> int | None:
    """The address of a kernel, compiled now; None where the operator has to do without."""
    if not _wanted(definition, variant, code):
        return None
    name = kernel_name(variant, code, part)
    mode = config.get("jit")
    if mode == "0":
        _events.append(Event(name, "evaluated", 0.0, "FACULA_JIT=0"))
        return None
    begin = time.perf_counter()
    try:
        compiled = library(pointwise.unit(None, _expressions(definition, variant, code)))
    except CompileError as error:
        _without_kernel(name, mode, error)
        return None
    core.load_library(compiled.loadable())
    compiled.close()
    _events.append(Event(name, "compiled", time.perf_counter() - begin, ""))
    return core.KERNELS.get(name)


def _chosen(definition: Definition, variant: Any) -> dict[str, Any]:
    """The attributes that differ from their defaults, as `prebuilt` and `unsupported` know them."""
    chosen = {
        p.name: variant.attributes[p.name]
        for p in definition.schema.attributes
        if p.name in variant.attributes
        and not (p.has_default and variant.attributes[p.name] == p.default)
    }
    chosen |= {name: scalar.Runtime() for name in variant.runtime}
    present = zip(definition.schema.tensor_parameters, variant.present, strict=True)
    return chosen | {p.name: True for p, there in present if p.optional and there}


def _wanted(definition: Any, variant: core.Variant, code: str) -> bool:
    """Whether the operator computes in this dtype at all."""
    if code not in pointwise.compute_dtypes(definition):
        return False
    unsupported = definition.unsupported
    return unsupported is None or not unsupported(code, _chosen(definition, variant))


def _expressions(definition: Any, variant: Any, code: str) -> list[tuple[str, scalar.Traced]]:
    """The variant's kernels in one dtype that are not loaded: forward and, where needed, gradients."""
    found = {kernel_name(variant, code, ""): pointwise_rules.traced(variant, code)}
    if definition.differentiable and code not in ("i64", "i32", "b8"):
        for wrt, there in enumerate(variant.present):
            try:
                gradient = pointwise_rules.gradient(variant, code, wrt) if there else None
            except NotImplementedError:
                continue  # raised again when somebody asks for this gradient
            if gradient is not None and not scalar.is_trivial(gradient):
                found[kernel_name(variant, code, f"grad{wrt}")] = gradient
    return [(name, traced) for name, traced in found.items() if name not in core.KERNELS]


def _without_kernel(name: str, mode: str, error: CompileError) -> None:
    reason = str(error)
    if mode == "error":
        _events.append(Event(name, "refused", 0.0, reason))
        required, hint = "a compiled kernel is required by FACULA_JIT=error", "pip install ziglang"
        fail(RuntimeError, "kernels", required, got=f"none for {name} ({reason})", hint=hint)
    _events.append(Event(name, "evaluated", 0.0, reason))
    if not _announced:
        _announced.append(name)
        required = "a kernel should be compiled on first use"
        got = f"none for {name}, which is evaluated by other operators instead ({reason})"
        hint = "FACULA_JIT=error makes this an error, FACULA_JIT=0 is silent"
        warnings.warn(
            message("kernels", required, got, hint), MissingKernelWarning, stacklevel=_users_level()
        )


def _users_level() -> int:
    """How many calls up from the caller of `warn` the first line outside of facula stands."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_own(frame.f_globals.get("__name__")):
        frame, level = frame.f_back, level + 1
    return level
