"""Counting floating-point operations.

Takes: a block in which operators run. Gives: `FlopCounterMode`, with totals by module and operator.
Keeps true: an operator's count is the field `flops` of its definition; elementwise operators count
nothing, as in PyTorch, whose tables hold products, convolutions and attention.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.overloads import OpOverload
from facula.utils._python_dispatch import TorchDispatchMode
from facula.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

#: operator -> a formula of a user's
flop_registry: dict[Any, Callable[..., int]] = {}
_SCALES = ("", "K", "M", "B", "T", "P")


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Any], Any]:
    """Decorator: the function counts the operations of one or several operators.

    It gets the operator's arguments, tensors as their shapes (as they are with `get_raw`), and
    `out_shape` (`out_val`).

    Raises:
        ValueError: a target is one overload of an operator.
    """

    def enter(formula: Callable[..., Any]) -> Any:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if isinstance(target, OpOverload):
                fail(
                    ValueError,
                    "register_flop_formula",
                    "an operator was required (expected each target to be OpOverloadPacket)",
                    target,
                    hint=f"{target.overloadpacket} has all of its overloads",
                )
            flop_registry[target] = formula if get_raw else _of_shapes(formula)
        return formula

    return enter


def _of_shapes(formula: Callable[..., Any]) -> Callable[..., int]:
    """A formula of arguments and results, of one of their shapes."""

    def count(*args: object, out_val: object = None, **kwargs: object) -> int:
        shapes = [_shape(value) for value in args]
        named = {name: _shape(value) for name, value in kwargs.items()}
        return int(formula(*shapes, out_shape=_shape(out_val), **named))

    return count


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """The operations of attention: of the scores, and of the values that they weigh.

    Args:
        query_shape: `[batch, heads, length, size]`
        key_shape: `[batch, key heads, key length, size]`; the heads of the query are a multiple of its heads
        value_shape: `[batch, key heads, key length, value size]`

    Raises:
        AssertionError: the sizes do not fit.

    Example:
        >>> facula.utils.flop_counter.sdpa_flop_count((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6))
        600
    """
    batch, heads, rows, size = query_shape
    _, key_heads, columns, _ = key_shape
    if tuple(key_shape) != (batch, key_heads, columns, size) or heads % key_heads or (
            tuple(value_shape[:3]) != (batch, key_heads, columns)):  # fmt: skip
        fail(
            AssertionError,
            "sdpa_flop_count",
            "shapes of queries, keys and values that fit were required",
            f"{tuple(query_shape)}, {tuple(key_shape)}, {tuple(value_shape)}",
            hint="keys and values have one batch, length and number of heads, which divides the queries'",
        )
    return int(2 * batch * heads * rows * columns * (size + value_shape[-1]))


def _shape(value: object) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_shape(item) for item in value)
    return value.shape if hasattr(value, "shape") else value


class FlopCounterMode(TorchDispatchMode):
    """A block that counts: `get_total_flops()`, `get_flop_counts()`, `get_table()`."""

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        """Make a counter.

        Args:
            mods: not needed any more, which is said; modules are found by themselves.
            depth: how deep the table goes into modules.
            display: whether the table is printed at the end of the block.
            custom_mapping: formulas for operators, as those of `register_flop_formula`; one with a true
                attribute `_get_raw` gets tensors and `out_val`.
        """
        super().__init__()
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.mod_tracker = ModuleTracker()
        own = (custom_mapping or {}).items()
        made = {op: f if getattr(f, "_get_raw", False) else _of_shapes(f) for op, f in own}
        self.formulas = {**flop_registry, **made}

    def get_total_flops(self) -> int:
        """All operations of the block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Operations by module and operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A table of modules, their operators and their shares."""
        total = max(1, self.get_total_flops())
        lines = [("Module", "FLOP", "% Total")]
        for name in sorted(self.flop_counts, key=lambda n: (n != "Global", n)):
            level = name.count(".") + (name != "Global")
            if level > (self.depth if depth is None else depth):
                continue
            counts = self.flop_counts[name]
            lines.append(_line(" " * level + name, sum(counts.values()), total))
            lines += [_line(f"{' ' * level} - {op}", n, total) for op, n in counts.items()]
        widths = [max(len(line[place]) for line in lines) for place in range(3)]
        lines.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
        return "\n".join(
            f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in lines
        )

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        count = self._count(func, args, kwargs, result)
        if count:
            packet = getattr(func, "overloadpacket", func)
            for name in self.mod_tracker.parents:
                self.flop_counts[name][packet] += count
        return result

    def _count(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[Any, Any], result: Any
    ) -> int:
        formula = self.formulas.get(getattr(func, "overloadpacket", func), self.formulas.get(func))
        if formula is not None:
            return int(formula(*args, **kwargs, out_val=result))
        operator = getattr(func, "op", func)
        definition = getattr(operator, "definition", None)
        if definition is None or definition.flops is None or definition.kind == "pointwise":
            return 0
        bound = core.bind_arguments(operator, args, kwargs)[0]
        if all(x.dim() < 2 for x in bound if isinstance(x, core.Tensor)):
            return 0  # products of vectors are no matrix products
        return int(definition.flops(*bound))


def _line(name: str, count: int, total: int) -> tuple[str, str, str]:
    scale = min(len(_SCALES) - 1, max(0, (len(str(count)) - 1) // 3))
    return name, f"{count / 1000**scale:.3f}{_SCALES[scale]}", f"{100 * count / total:.2f}%"
