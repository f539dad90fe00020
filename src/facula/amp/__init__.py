"""Automatic mixed precision: `autocast`, `GradScaler`, and decorators for `autograd.Function`.

Re-exports; nothing else.
"""

from facula.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from facula.amp.grad_scaler import GradScaler, OptState
from facula.autograd.autocast import is_autocast_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
