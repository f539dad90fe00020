"""Mixed precision on the CPU by PyTorch's older names; `facula.amp` has the current ones."""

from __future__ import annotations

from typing import Any

from facula import core
from facula.amp import autocast_mode as _mode
from facula.amp import grad_scaler as _scaler

__all__ = ["GradScaler", "autocast"]


class autocast(_mode.autocast):  # noqa: N801 - PyTorch's name
    """`amp.autocast("cpu", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: core.dtype = core.bfloat16, cache_enabled: bool = True
    ) -> None:
        _mode.warn_of_older_name("cpu", "autocast", "autocast('cpu', args...)")
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_scaler.ScalerOfKind):
    """`amp.GradScaler("cpu", ...)`."""

    kind = "cpu"
