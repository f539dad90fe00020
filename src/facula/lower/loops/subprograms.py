"""Calls of operators that take functions, in lowered graphs: the functions are programs of their own.

Takes: a node of `cond`, `while_loop`, `scan`, `map` or `associative_scan`, its graphs, and who compiles graphs.
Gives: what stands in the graph's call in place of the operator and of the graphs.
Keeps true: a program gets inputs that lie as it was compiled for, and results lie as the graph says; both are
copied where
they do not. Without a compiler the graphs themselves run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.fx import GraphModule
from facula.fx.fake_tensor import FakeTensor, FakeTensorMode
from facula.fx.higher_order import ControlFlow
from facula.lower.aot.tracing import trace

if TYPE_CHECKING:
    from facula.fx import Node


__all__ = ["Launched", "SubProgram", "functions_compiled"]

Tensor = core.Tensor
Compiler = Callable[[GraphModule], Callable[..., Any]]


class SubProgram:
    """A compiled function of a call."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any], compiler: Compiler) -> None:
        given = module.graph.output_node().args[0]
        self.single = not isinstance(given, (tuple, list))

        def program(*args: object) -> list[Any]:
            found = module(*args)
            return [found] if self.single else list(found)

        traced = trace(program, inputs, gradients=False)
        self.signature = traced.signature
        self.strides = [tuple(x.stride()) if isinstance(x, Tensor) else None for x in inputs]
        self.call = compiler(traced.joint)
        self.sources = [(r.kind, r.source) for r in traced.signature.results]

    def __call__(self, *args: Any) -> Any:
        given = [
            x if s is None or x.stride() == s else _laid_out(x, s)
            for x, s in zip(args, self.strides, strict=True)
        ]
        values = self.call(*given)
        found = [values[n] if kind.startswith("value") else args[n] for kind, n in self.sources]
        return found[0] if self.single else tuple(found)


class Launched:
    """An operator whose results lie as a graph says."""

    def __init__(self, op: ControlFlow, values: Sequence[Any]) -> None:
        self.op = op
        self.strides = [tuple(v.stride()) if isinstance(v, Tensor) else None for v in values]
        self.__name__ = op.name()

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        found = self.op.run(*args)
        return tuple([
            x if s is None or x.stride() == s else _laid_out(x, s)
            for x, s in zip(found, self.strides, strict=True)
        ])  # fmt: skip


def _laid_out(x: Tensor, strides: tuple[int, ...]) -> Tensor:
    made = core.empty_strided(tuple(x.shape), strides, dtype=x.dtype, device=x.device)
    return made.copy_(x)


def functions_compiled(node: Node, args: tuple[Any, ...], compiler: Compiler | None) -> list[Any]:
    """The functions of a call, compiled for the call's operands."""
    op = node.target
    functions = list(op.functions_of(args))
    if compiler is None:
        return functions
    metas = _metas(node.args, FakeTensorMode(allow_non_fake_inputs=True))
    found = []
    for number, function in enumerate(functions):
        inputs = list(op.inputs_of(number, metas))
        inputs += metas[-1] if op.separate else ()
        found.append(SubProgram(function, inputs, compiler))
    return found


def _metas(structure: object, mode: FakeTensorMode) -> Any:
    if isinstance(structure, (tuple, list)):
        return tuple(_metas(x, mode) for x in structure)
    value = structure.meta.get("val") if hasattr(structure, "meta") else structure
    return core.fake_like(FakeTensor, value, mode) if isinstance(value, Tensor) else value
