"""Mixed precision on CUDA devices by PyTorch's older names; `facula.amp` has the current ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.amp import autocast_mode as _mode
from facula.amp import grad_scaler as _scaler
from facula.amp.autocast_mode import _cast as _cast
from facula.amp.grad_scaler import OptState as OptState
from facula.amp.grad_scaler import _MultiDeviceReplicator as _MultiDeviceReplicator
from facula.amp.grad_scaler import _refresh_per_optimizer_state as _refresh_per_optimizer_state
from facula.devices.questions import Questions

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def amp_definitely_not_available() -> bool:
    """Whether there is no device that computes in mixed precision."""
    return not Questions("cuda").is_available()


class autocast(_mode.autocast):  # noqa: N801 - PyTorch's name
    """`amp.autocast("cuda", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: core.dtype = core.float16, cache_enabled: bool = True
    ) -> None:
        _mode.warn_of_older_name("cuda", "autocast", "autocast('cuda', args...)")
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_scaler.ScalerOfKind):
    """`amp.GradScaler("cuda", ...)`."""

    kind = "cuda"


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: object = None
) -> Callable[..., Any]:
    """`amp.custom_fwd(device_type="cuda")`."""
    _mode.warn_of_older_name("cuda", "custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return functools.partial(_mode.custom_fwd, device_type="cuda", cast_inputs=cast_inputs)(
        *(() if fwd is None else (fwd,))
    )


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """`amp.custom_bwd(device_type="cuda")`."""
    _mode.warn_of_older_name("cuda", "custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return _mode.custom_bwd(bwd, device_type="cuda")
