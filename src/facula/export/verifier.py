"""Whether an exported program is what exported programs are.

Takes: an exported program. Gives: `Verifier`, which raises for what does not belong there; subclasses allow more.
Keeps true: nothing is changed.
"""

from __future__ import annotations

import operator
from typing import Any

from facula.core.errors import message
from facula.export.description import FUNCTIONS
from facula.fx import GraphModule, Node
from facula.fx.higher_order.operator import HigherOrderOperator
from facula.fx.pre_dispatch import writes
from facula.ops.table.overloads import OpOverload

__all__ = ["SpecViolationError", "TrainingVerifier", "Verifier", "load_verifier"]


class SpecViolationError(Exception):
    """An exported program with something that does not belong into one."""


def _refuse(required: str, got: object) -> Any:
    text = message("verifier", f"{required} was required", got, "export the program again")
    raise SpecViolationError(text)


class Verifier:
    """Checks exported programs of one dialect."""

    dialect = "ATEN"

    def allowed_builtin_ops(self) -> list[Any]:
        """Functions of Python's that graphs may call."""
        return [operator.getitem, *FUNCTIONS.values()]

    def allowed_op_types(self) -> tuple[type, ...]:
        """The classes of operators that graphs may call."""
        return (OpOverload, HigherOrderOperator)

    def allowed_getattr_types(self) -> tuple[type, ...]:
        """The classes of attributes that graphs may read."""
        return (GraphModule,)

    def check_valid_op(self, op: Any) -> None:
        """Whether an operator may be called; subclasses say more."""

    def check_additional(self, gm: GraphModule) -> None:
        """What else a subclass asks of a graph module."""

    def check(self, ep: Any) -> None:
        """Check a program.

        Args:
            ep: the program

        Raises:
            SpecViolationError: something does not belong there.
        """
        self._check_graph_module(ep.graph_module)
        names = [n.name for n in ep.graph.nodes if n.op == "placeholder"]
        described = [spec.arg.name for spec in ep.graph_signature.input_specs]
        if names != described:
            _refuse(f"a signature of the inputs {names}", described)
        results = ep.graph.output_node().args[0]
        specs = ep.graph_signature.output_specs
        if len(results) != len(specs):
            _refuse(f"a signature of {len(results)} outputs (Number of output nodes)", len(specs))
        for value, spec in zip(results, specs, strict=True):
            if isinstance(value, Node) and spec.arg.name != value.name:
                _refuse(f"a signature of the output {value.name}", spec.arg.name)
        self._check_held(ep)

    @staticmethod
    def _check_held(ep: Any) -> None:
        """Whether what the inputs stand for is there."""
        held = {**ep.state_dict, **ep.constants}
        for spec in ep.graph_signature.input_specs:
            if spec.target is not None and spec.target not in held:
                _refuse(f"a tensor for {spec.kind.name} {spec.target!r}", "none")

    def _check_graph_module(self, module: GraphModule) -> None:
        module.graph.lint()
        for node in module.graph.nodes:
            if node.op in ("call_module", "call_method"):
                _refuse("a graph of calls of functions", f"{node.op} ({node.format_node()})")
            if node.op == "get_attr":
                found = getattr(module, str(node.target), None)
                if not isinstance(found, self.allowed_getattr_types()):
                    _refuse(
                        "graphs of functions as attributes (Invalid get_attr type)",
                        type(found).__name__,
                    )
                if isinstance(found, GraphModule):
                    self._check_graph_module(found)
            if node.op == "call_function":
                self._check_call(node)
        self.check_additional(module)

    def _check_call(self, node: Node) -> None:
        known = isinstance(node.target, self.allowed_op_types())
        if not known and node.target not in self.allowed_builtin_ops():
            _refuse("an operator (not an allowed operator type)", node.target)
        if isinstance(node.target, OpOverload) and writes(node) and self.dialect == "ATEN":
            _refuse("an operator that writes to nothing", node.target)
        self.check_valid_op(node.target)


class TrainingVerifier(Verifier):
    """Checks programs as `export` gives them, which may write to their inputs and buffers."""

    dialect = "TRAINING"


#: dialect -> verifier
_KNOWN: dict[str, type[Verifier]] = {"ATEN": Verifier, "TRAINING": TrainingVerifier}


def load_verifier(dialect: str) -> type[Verifier]:
    """The verifier of a dialect: PyTorch's own where nobody has defined one.

    Args:
        dialect: its name
    """
    for kind in _subclasses(Verifier):
        _KNOWN.setdefault(kind.dialect, kind)
    return _KNOWN.get(dialect, Verifier)


def _subclasses(kind: type[Verifier]) -> list[type[Verifier]]:
    found = kind.__subclasses__()
    return [*found, *[inner for k in found for inner in _subclasses(k)]]
