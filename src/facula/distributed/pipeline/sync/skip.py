"""Skip connections through a pipeline: what a layer puts by, a later one takes.

Takes: generator functions that yield `stash(name, value)` and `pop(name)`. Gives: the decorator `skippable`.
Keeps true: each micro-batch has values of its own; a name is put by once and taken once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from facula import nn
from facula.core.errors import fail

__all__ = ["pop", "skippable", "stash", "using", "verify_skippables"]

_LOCAL = threading.local()


@dataclass
class stash:  # noqa: N801 - PyTorch's name
    """Yield it to put a value by."""

    name: str
    tensor: Any


@dataclass
class pop:  # noqa: N801 - PyTorch's name
    """Yield it to take what was put by."""

    name: str


@contextlib.contextmanager
def using(values: dict[Any, Any]) -> Iterator[None]:
    """A block in which layers put by and take from these values."""
    before, _LOCAL.values = getattr(_LOCAL, "values", None), values
    try:
        yield
    finally:
        _LOCAL.values = before


class Skippable(nn.Module):
    """A layer that puts by or takes values."""

    module_cls: Callable[..., nn.Module]
    stashes: tuple[str, ...] = ()
    pops: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = type(self).module_cls(*args, **kwargs)
        self.namespaces: dict[str, Any] = {}

    def isolate(self, namespace: Any, *, only: Sequence[str] | None = None) -> Skippable:
        """Keep the layer's names apart from the same names elsewhere."""
        for name in only if only is not None else (*self.stashes, *self.pops):
            self.namespaces[name] = namespace
        return self

    def forward(self, *args: Any) -> Any:
        """The layer's result, with its requests answered."""
        values = getattr(_LOCAL, "values", None)
        values = {} if values is None else values
        steps = self.module(*args)
        if not isinstance(steps, Generator):
            return steps
        answer = None
        while True:
            try:
                wish = steps.send(answer)
            except StopIteration as end:
                return end.value
            key = (self.namespaces.get(wish.name), wish.name)
            if isinstance(wish, stash):
                values[key], answer = wish.tensor, None
            else:
                answer = values.pop(key)


def skippable(stash: Sequence[str] = (), pop: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Mark a class of layers, whose `forward` yields `stash` and `pop`, with their names."""

    def mark(module_class: Any) -> Any:
        fields = {"module_cls": module_class, "stashes": tuple(stash), "pops": tuple(pop)}
        return type(
            module_class.__name__, (Skippable,), {**fields, "__doc__": module_class.__doc__}
        )

    return mark


def verify_skippables(module: nn.Sequential) -> None:
    """Raise unless each name that is put by is taken once, later."""
    open_ones: set[Any] = set()
    problems = []
    for name, layer in module.named_children():
        if not isinstance(layer, Skippable):
            continue
        for wanted in layer.pops:
            key = (layer.namespaces.get(wanted), wanted)
            if key not in open_ones:
                problems.append(f"{name} takes {wanted!r}, which no layer before it put by")
            open_ones.discard(key)
        for given in layer.stashes:
            key = (layer.namespaces.get(given), given)
            if key in open_ones:
                problems.append(f"{name} puts {given!r} by, which is there already")
            open_ones.add(key)
    problems += [f"nobody takes {name!r}" for _, name in open_ones]
    if problems:
        fail(TypeError, "Pipe", "skip connections that fit were required (one or more pop / stash do not "
             "match)", "; ".join(problems), "isolate() keeps equal names apart")  # fmt: skip
