"""A trace among fake tensors of the user's.

Takes: the active modes. Gives: `own_mode`.
Keeps true: the user's mode is active again behind the block.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from facula import core
from facula.fx.fake_tensor import FakeTensorMode

__all__ = ["own_mode"]


@contextlib.contextmanager
def own_mode() -> Iterator[None]:
    """A block without a mode of the user's that makes tensors fake: the trace has one."""
    modes = core.DISPATCH_MODES
    given = modes[-1] if modes and isinstance(modes[-1], FakeTensorMode) else None
    if given is None:
        yield
        return
    given.__exit__(None, None, None)
    try:
        yield
    finally:
        given.__enter__()
