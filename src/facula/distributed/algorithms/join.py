"""Training on unequal numbers of inputs: ranks that have no more take part in the others' collectives.

Takes: objects that say what their collectives are (`Joinable`). Gives: the block `Join`.
Keeps true: before each step all ranks that still have inputs, and those that have none, agree on how many
there are; when nobody has any, the last of them gives all others what it ended with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from facula import core
from facula.core.errors import fail
from facula.distributed.operations import all_reduce
from facula.distributed.types import ReduceOp
from facula.distributed.world import default_group

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a rank without inputs does in the place of one with inputs."""

    def main_hook(self) -> None:
        """The collectives of one step."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """What is done when no rank has inputs any more."""


class _Config(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


class Joinable(ABC):
    """Something with collectives in each step."""

    def __init__(self) -> None:
        self._join_config = _Config(False, False, False)

    @abstractmethod
    def join_hook(self, **kwargs: object) -> JoinHook:
        """What stands for it on ranks without inputs."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where its tensors are."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Among which ranks its collectives run."""


class Join:
    """A block in which ranks may have different numbers of inputs.

    >>> with Join([model, optimizer]):
    ...     for x in inputs: ...
    """

    def __init__(
        self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if not joinables:
            fail(ValueError, "Join", "something to join was required (The join context manager requires "
                 "at least one joinable)", "none", "for example a DistributedDataParallel")  # fmt: skip
        groups = {id(j.join_process_group) for j in joinables}
        if len(groups) > 1:
            fail(ValueError, "Join", "one process group was required (Using join context manager with "
                 "multiple process groups)", len(groups), "use a block for each group")  # fmt: skip
        self._joinables = joinables
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        self._enable, self._throws = enable, throw_on_early_termination
        self._group = joinables[0].join_process_group or default_group()
        for i, joinable in enumerate(joinables):
            joinable._join_config = _Config(enable, throw_on_early_termination, i == 0)

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            if self._enable and kind is None:
                self._stand_in()
        finally:
            for joinable in self._joinables:
                joinable._join_config = _Config(False, False, False)

    def _stand_in(self) -> None:
        """Shadow the steps of the ranks that still have inputs."""
        last = True
        while True:
            left = _count(self._group, False)
            if left == 0:
                break
            if self._throws:
                _told(self._group, True)
                _exhausted()
            last = False
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable: Any) -> int | None:
        """Say that this rank has an input; gives the number of ranks that have one.

        Raises:
            RuntimeError: another rank has none, and `throw_on_early_termination` was asked for.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group or default_group()
        count = _count(group, True)
        if config.throw_on_early_termination and count < group.size():
            _told(group, False)
            _exhausted()
        return count


def _count(group: Any, active: bool) -> int:
    flag = core.tensor([int(active)], dtype=core.int64)
    all_reduce(flag, ReduceOp.SUM, group)
    return int(flag)


def _told(group: ProcessGroup | None, exhausted: bool) -> None:
    flag = core.tensor([int(exhausted)], dtype=core.int64)
    all_reduce(flag, ReduceOp.MAX, group)


def _exhausted() -> None:
    fail(RuntimeError, "Join", "inputs on all ranks were required (Detected at least one rank that "
         "exhausted inputs. Throwing across all ranks.)", "a rank without any",
         "throw_on_early_termination=False lets the others go on")  # fmt: skip
