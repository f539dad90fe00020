"""What a program may ask of guards: to leave some out, to hear which were made and which failed.

Takes: the guards of a segment with the state that they were made of; reasons of a miss. Gives: `GuardHooks`,
and filters for `compile(options={"guard_filter_fn": ...})`.
Keeps true: what is not asked for costs nothing; a filter answers for each guard, or is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from facula.capture.errors import TorchDynamoException
from facula.core.errors import fail, is_own
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

if TYPE_CHECKING:
    from facula.capture.guards.conditions import Guard, GuardSet
    from facula.capture.values.sources import Source

__all__ = [
    "GuardEntry", "GuardFail", "GuardHooks", "keep_tensor_guards_unsafe", "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe",
]  # fmt: skip

#: PyTorch's names for the kinds of guards
_TYPES = {
    "type": "TYPE_MATCH", "is": "ID_MATCH", "not": "ID_MATCH", "equal": "EQUALS_MATCH", "length": "SEQUENCE_LENGTH",
    "longer": "SEQUENCE_LENGTH", "keys": "DICT_KEYS_MATCH", "has": "DICT_CONTAINS", "lacks": "DICT_CONTAINS",
    "same": "DUPLICATE_INPUT", "different": "OBJECT_ALIASING", "integer": "TYPE_MATCH", "condition": "CONSTANT_MATCH",
    "tensor": "TENSOR_MATCH", "plain-module": "NN_MODULE",
}  # fmt: skip


class GuardEntry(NamedTuple):
    """A guard as a filter sees it."""

    name: str
    has_value: bool
    value: Any
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: Guard
    owners: tuple[Any, ...]


class GuardFail(NamedTuple):
    """Why segments did not serve a call, and the code that they are of."""

    reason: str
    orig_code: CodeType


class GuardHooks(NamedTuple):
    """What is asked of guards: which to keep; what hears of new ones; what hears of those that failed."""

    keep: Callable[[list[GuardEntry]], Sequence[bool]] | None = None
    made: Callable[[Any], Any] | None = None
    failed: Callable[[GuardFail], Any] | None = None

    def of_segment(self, guards: GuardSet, slots: dict[str, Any]) -> None:
        """Take out the guards of a new segment that the filter leaves out, and tell of the others."""
        if self.keep is not None:
            asked = list(guards.guards.items())
            kept = list(self.keep([_entry(guard, slots) for _, guard in asked]))
            if len(kept) != len(asked):
                fail(
                    TorchDynamoException,
                    "guard_filter_fn",
                    f"an answer for each of {len(asked)} guards was required",
                    f"{len(kept)} answers",
                    hint="return [True] * len(entries) to keep all",
                )
            for (key, _), keep in zip(asked, kept, strict=True):
                if not keep:
                    del guards.guards[key]
        if self.made is not None:
            self.made([_entry(guard, slots) for guard in guards.guards.values()])

    def of_miss(self, reason: str, code: CodeType) -> None:
        """Tell why no segment served a call."""
        if self.failed is not None:
            self.failed(GuardFail(reason, code))


def _steps(source: Source) -> Iterable[Source]:
    while source is not None:
        yield source
        source = source.base


def _entry(guard: Guard, slots: dict[str, Any]) -> GuardEntry:
    try:
        value, there = guard.source.read(slots), True
    except (KeyError, AttributeError, IndexError, TypeError):
        value, there = None, False
    steps = list(_steps(guard.source))
    first = steps[-1]
    kind = _TYPES[guard.kind]
    if kind == "EQUALS_MATCH" and (value is None or isinstance(value, (bool, int, float, str))):
        kind = "CONSTANT_MATCH"
    return GuardEntry(
        guard.source.label(), there, value, kind, (), first.kind == "held", guard,
        tuple(step.read(slots) for step in steps[1:]),
    )  # fmt: skip


def _modules(entry: GuardEntry) -> Iterable[Module]:
    return (owner for owner in (*entry.owners, entry.value) if isinstance(owner, Module))


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: list[GuardEntry]) -> list[bool]:
    """A filter of guards: what modules of the framework hold is believed to stay as it is.

    Args:
        guard_entries: the guards of a new graph

    Returns:
        for each whether it is checked.

    Example:
        >>> skip = facula.compiler.skip_guard_on_inbuilt_nn_modules_unsafe
        >>> norm = facula.nn.LayerNorm(4)
        >>> f = facula.compile(lambda x: norm(x), options={"guard_filter_fn": skip})
        >>> f(facula.ones(2, 4)).sum()
        tensor(0., grad_fn=<SumBackward0>)
    """
    return [not any(is_own(type(m).__module__) for m in _modules(e)) for e in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries: list[GuardEntry]) -> list[bool]:
    """A filter of guards: what modules hold is believed to stay as it is.

    Args:
        guard_entries: the guards of a new graph

    Returns:
        for each whether it is checked.

    Example:
        >>> skip = facula.compiler.skip_guard_on_all_nn_modules_unsafe
        >>> f = facula.compile(lambda x: x + 1, options={"guard_filter_fn": skip})
        >>> f(facula.ones(2))
        tensor([2., 2.])
    """
    return [not any(_modules(entry)) for entry in guard_entries]


def keep_tensor_guards_unsafe(
    guard_entries: list[GuardEntry], keep_parameters: bool = False
) -> list[bool]:
    """A filter of guards: only tensors are looked at.

    Args:
        guard_entries: the guards of a new graph
        keep_parameters: whether parameters are looked at, too

    Returns:
        for each whether it is checked.

    Example:
        >>> keep = facula.compiler.keep_tensor_guards_unsafe
        >>> f = facula.compile(lambda x: x + 1, options={"guard_filter_fn": keep})
        >>> f(facula.ones(2))
        tensor([2., 2.])
    """
    return [
        entry.guard_type == "TENSOR_MATCH"
        and (keep_parameters or not isinstance(entry.value, Parameter))
        for entry in guard_entries
    ]


def skip_guard_on_globals_unsafe(guard_entries: list[GuardEntry]) -> list[bool]:
    """A filter of guards: global variables are believed to stay as they are.

    Args:
        guard_entries: the guards of a new graph

    Returns:
        for each whether it is checked.

    Example:
        >>> skip = facula.compiler.skip_guard_on_globals_unsafe
        >>> f = facula.compile(lambda x: x + 1, options={"guard_filter_fn": skip})
        >>> f(facula.ones(2))
        tensor([2., 2.])
    """
    return [not entry.is_global for entry in guard_entries]


def skip_all_guards_unsafe(guard_entries: list[GuardEntry]) -> list[bool]:
    """A filter of guards: every call is believed to be like the first.

    Args:
        guard_entries: the guards of a new graph

    Returns:
        for each that it is not checked.

    Example:
        >>> skip = facula.compiler.skip_all_guards_unsafe
        >>> f = facula.compile(lambda x: x + 1, options={"guard_filter_fn": skip})
        >>> f(facula.ones(2))
        tensor([2., 2.])
    """
    return [False for _ in guard_entries]
