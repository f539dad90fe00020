"""The fake mode at work, where PyTorch tells of it."""

from __future__ import annotations

from facula import core
from facula.fx.fake_tensor import FakeTensorMode, detect_fake_mode

__all__ = ["active_fake_mode", "detect_fake_mode"]


def active_fake_mode() -> FakeTensorMode | None:
    """The innermost `FakeTensorMode` that sees the calls of this thread; None where there is none."""
    modes = [mode for mode in core.DISPATCH_MODES if isinstance(mode, FakeTensorMode)]
    return modes[-1] if modes else None
