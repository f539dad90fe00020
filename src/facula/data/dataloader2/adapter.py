"""Adapters: what a loader changes in a graph before it is read.

Takes the last pipe of a graph. Gives the pipe to be read. Keeps true: an adapter says in its arguments
all that it changes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.extended.caching import EndOnDiskCacheHolderIterDataPipe
from facula.data.graph import traverse_dps
from facula.data.graph_settings import apply_shuffle_settings, get_all_graph_pipes

__all__ = ["Adapter", "CacheTimeout", "Shuffle"]


class Adapter:
    """Base class: a subclass defines `__call__`, which takes a pipe and gives one."""

    @abstractmethod
    def __call__(self, datapipe: Iterable[Any]) -> Any:
        raise NotImplementedError


class Shuffle(Adapter):
    """Switches all shuffling on or off; adds a step that shuffles where there is none."""

    def __init__(self, enable: bool = True) -> None:
        self.enable = enable

    def __call__(self, datapipe: Iterable[Any]) -> Any:
        return apply_shuffle_settings(datapipe, shuffle=self.enable)


class CacheTimeout(Adapter):
    """Says how many seconds a reader waits for a file that another one makes."""

    def __init__(self, timeout: int | None = None) -> None:
        if timeout is None or timeout < 1:
            fail(
                ValueError,
                "CacheTimeout",
                "Timeout should be integer and greater than zero.",
                timeout,
                hint="CacheTimeout(300) waits five minutes",
            )
        self.timeout = timeout

    def __call__(self, datapipe: Iterable[Any]) -> Any:
        for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
            if isinstance(pipe, EndOnDiskCacheHolderIterDataPipe):
                pipe.timeout = self.timeout
        return datapipe
