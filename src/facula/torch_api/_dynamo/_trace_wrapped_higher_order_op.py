"""`TransformGetItemToIndex`, which model libraries enter around `vmap` of functions that index.

Takes nothing. Gives the context. Keeps true: nothing changes inside: `x[i]` with a mapped `i` is an
ordinary operator here, which `vmap` knows.
"""

from __future__ import annotations

from types import TracebackType

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A context in which a tensor may be indexed by a 0-d tensor under `vmap`, as everywhere else."""

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None
