"""Fake tensors that know the elements of an example: `fake_tensor_propagate_real_tensors`.

Takes: a mode, and real tensors that its inputs stand for. Gives: `Examples`: operators of programs are tried on the
elements, numbers that are read have an example, and operators without a function for fake tensors get one.
Keeps true: a condition that an example decides is checked where the program runs; no number of the example becomes part
of the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.symbols import SymBool, SymInt
from facula.fx.unbacked import UnbackedFloat

Tensor = core.Tensor


class Examples:
    """The elements behind the fake tensors of one mode."""

    def __init__(self, mode: Any) -> None:
        self.mode = mode
        mode.constants.most = math.inf

    def hold(self, fake: Tensor, real: Tensor) -> None:
        """Let a fake tensor stand for a copy of a real one."""
        self.mode.constants.keep(fake, real.detach().clone())

    def known(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The real result of an operator; None where an argument has no elements.

        Raises:
            RuntimeError: an operator of a program writes to what it did not say.
        """
        definition = getattr(func, "_definition", None)
        if definition is None or "::" not in definition.name:
            return self.mode.constants.known(func, args, kwargs)
        names = [p.name for p in definition.schema.parameters]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        unsaid = {
            name: [x.constant for x in pytree.tree_leaves(value) if hasattr(x, "constant")]
            for name, value in given.items()
            if name not in definition.mutated
        }
        before = {
            name: [t.clone() for t in tensors if t is not None] for name, tensors in unsaid.items()
        }
        found = self.mode.constants.known(func, args, kwargs)
        for name, tensors in unsaid.items():
            held = [t for t in tensors if t is not None]
            if not all(_same(a, b) for a, b in zip(held, before[name], strict=True)):
                fail(RuntimeError, definition.name, "arguments that stay as they are were required: the operator wrote "
                     f"to its input for argument '{name}'", "other elements after the call",
                     hint=f"mutates_args={{{name!r}}} says that it is written to")  # fmt: skip
        return found

    def read(self, number: Any, known: Any) -> None:
        """Note the example of a number that was read."""
        env = self.mode.shape_env
        if isinstance(number, SymBool) and number.condition is not None:
            env.examples[number.condition[0].symbol] = int(known)
        elif isinstance(number, UnbackedFloat):
            number.example = float(known)
            env.examples[number] = number.example
        elif isinstance(number, SymInt) and number.expr.symbol is not None:
            env.examples[number.expr.symbol] = int(known)

    def inferred(self, func: Callable[..., Any], known: Any) -> Any:
        """The results of an operator that has no function for fake tensors: of the example's number of dimensions."""
        return pytree.tree_map(lambda x: self._like(func, x) if isinstance(x, Tensor) else x, known)

    def _like(self, func: Callable[..., Any], real: Tensor) -> Tensor:
        if real.storage_offset():
            fail(RuntimeError, str(func), "a result at the start of its memory was required (non-zero storage offset)",
                 real.storage_offset(), hint="register a function for fake tensors")  # fmt: skip
        order = sorted(range(real.dim()), key=lambda d: (-real.stride(d), d))
        if not real.permute(order).is_contiguous():
            fail(RuntimeError, str(func), "a result was required that is dense: this one is not dense in memory",
                 tuple(real.stride()), hint="register a function for fake tensors")  # fmt: skip
        env, sizes = self.mode.shape_env, []
        for size in real.shape:
            made = env.create_unbacked_symint(low=0)
            env.examples[made.expr.symbol] = size
            sizes.append(made)
        with self.mode:
            made = core.empty(tuple(sizes[d] for d in order), dtype=real.dtype, device=real.device)
            back = [order.index(d) for d in range(real.dim())]
            return made if order == back == sorted(back) else made.permute(back)


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
