"""`GradScaler`: scaling a loss so that small float16 gradients do not vanish, and skipping steps whose
gradients overflow.

Takes: losses, optimizers. Gives: scaled losses, unscaled gradients, steps, and a scale that follows
what overflows.
Keeps true: gradients are unscaled once per optimizer and update; the state dictionary is
interchangeable with PyTorch's.
"""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from facula import core
from facula.amp.autocast_mode import warn_of_older_name
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """Where an optimizer stands between two updates of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _MultiDeviceReplicator:
    """A tensor on every device that asks for it: copied once each."""

    def __init__(self, master_tensor: core.Tensor) -> None:
        self.master = master_tensor
        self._per_device_tensors: dict[core.device, core.Tensor] = {}

    def get(self, device: core.device) -> core.Tensor:
        """The tensor on a device."""
        found = self._per_device_tensors.get(device)
        if found is None:
            found = self.master.to(device=device, non_blocking=True, copy=True)
            self._per_device_tensors[device] = found
        return found


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _amp_foreach_non_finite_check_and_unscale_(
    self: Any, found_inf: core.Tensor, inv_scale: core.Tensor
) -> None:
    """Multiply every gradient of a list by `inv_scale`; `found_inf` becomes 1 where one is not finite."""
    with no_grad():
        for grad in self:
            values = grad._values() if grad.is_sparse else grad
            bad = values.isfinite().all().logical_not().to(found_inf.dtype)
            found_inf.copy_(found_inf.maximum(bad))
            grad.mul_(inv_scale.to(device=grad.device, dtype=grad.dtype.to_real()))


def _amp_update_scale_(
    self: core.Tensor,
    growth_tracker: core.Tensor,
    found_inf: core.Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> core.Tensor:
    """The scale after a step: smaller where gradients overflowed, larger after `growth_interval` steps in a
    row where none
    did; never beyond what its dtype holds.
    """
    with no_grad():
        if bool(found_inf.item()):
            self.mul_(scale_backoff_factor)
            growth_tracker.zero_()
            return self
        growth_tracker.add_(1)
        if growth_tracker.item() == growth_interval:
            grown = self * scale_growth_factor
            if bool(grown.isfinite().item()):
                self.copy_(grown)
            growth_tracker.zero_()
    return self


def _available(device: str) -> bool:
    """Whether tensors of a device type can be made."""
    try:
        core.empty((0,), dtype=core.float32, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        return False
    return True


class GradScaler:
    """Scales losses so that small gradients survive float16; the factor adapts. [Micikevicius et al.
    2018]

    One iteration is ``scaler.scale(loss).backward()``, ``scaler.step(optimizer)``,
    ``scaler.update()``; `unscale_(optimizer)` comes before gradients are clipped. A step with
    infinite gradients is left out.

    Args:
        device: its type
        init_scale: the first factor
        growth_factor: of the factor after ``growth_interval`` good steps
        backoff_factor: of the factor after a step that was left out
        growth_interval: good steps before the factor grows
        enabled: whether it does anything

    Raises:
        AssertionError: ``growth_factor`` is not above 1 or ``backoff_factor`` not below.

    Example:
        >>> w = facula.nn.Parameter(facula.ones(1))
        >>> optimizer, scaler = facula.optim.SGD([w], lr=0.1), facula.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.scale((w * 2).sum()).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w.detach(), scaler.get_scale()
        (tensor([0.8000]), 4.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and not _available(device):
            warnings.warn(
                f"GradScaler is enabled, but {device} is not available. Disabling.", stacklevel=2
            )
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                fail(
                    AssertionError,
                    "GradScaler",
                    "The growth factor must be > 1.0",
                    growth_factor,
                    hint="growth_factor=2.0 is the default",
                )
            if backoff_factor >= 1.0:
                fail(
                    AssertionError,
                    "GradScaler",
                    "The backoff factor must be < 1.0",
                    backoff_factor,
                    hint="backoff_factor=0.5 is the default",
                )
        self._init_scale = init_scale
        self._scale: Any = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Any = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(
            _refresh_per_optimizer_state
        )

    def _scale_tensor(self, name: str) -> Any:
        if self._scale is None:
            fail(
                AssertionError,
                name,
                "a scaled loss was required (Attempted to use the scale before it was made)",
                "none",
                "call scaler.scale(loss) first",
            )
        return self._scale

    def _make_scale(self, device: core.device | None) -> None:
        self._scale = core.tensor(self._init_scale, dtype=core.float32, device=device)
        self._growth_tracker = core.tensor(
            self._init_growth_tracker, dtype=core.int32, device=device
        )

    def scale(self, outputs: Any) -> Any:
        """The output, or an iterable of outputs, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, core.Tensor):
            if self._scale is None:
                self._make_scale(outputs.device)
            return outputs * self._scale.to(device=outputs.device)
        if isinstance(outputs, Iterable):
            scaled = [self.scale(x) for x in outputs]
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else iter(scaled)
        fail(
            ValueError,
            "GradScaler.scale",
            "outputs must be a Tensor or an iterable of Tensors",
            type(outputs).__name__,
            hint="scale(loss) takes the loss, or a list of losses",
        )

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool
    ) -> dict[Any, Any]:
        """Multiply every gradient by `inv_scale`; tells per device whether one was not finite."""
        found: dict[Any, Any] = {}
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if not allow_fp16 and grad.dtype is core.float16:
                        fail(
                            ValueError,
                            "GradScaler.unscale_",
                            "gradients of another dtype were required "
                            "(Attempting to unscale FP16 gradients.)",
                            "float16",
                            "keep parameters in float32 and use autocast",
                        )
                    if grad.device not in found:
                        found[grad.device] = found_inf.to(device=grad.device, copy=True)
                    if grad.is_sparse and not grad.is_coalesced():
                        parameter.grad = grad = (
                            grad.coalesce()
                        )  # entries of one place may overflow together
                    _amp_foreach_non_finite_check_and_unscale_(
                        [grad], found[grad.device], inv_scale
                    )
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale."""
        if not self._enabled:
            return
        scale = self._scale_tensor("GradScaler.unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            fail(
                RuntimeError,
                "GradScaler.unscale_",
                "one call was required (unscale_() has already been called on this optimizer "
                "since the last update().)",
                hint="call update() once after every step()",
            )
        if state["stage"] is OptState.STEPPED:
            fail(
                RuntimeError,
                "GradScaler.unscale_",
                "a call before step() was required (unscale_() is being called after step().)",
                hint="call it after backward() and before step()",
            )
        inverse = scale.to(core.float64).reciprocal().to(core.float32)
        none_found = core.tensor(0.0, dtype=core.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, none_found, False)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: object, **kwargs: object) -> float | None:
        """Unscale if that has not been done, and step unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            fail(
                RuntimeError,
                "GradScaler.step",
                "no closure was required (Closure use is not currently supported if GradScaler is "
                "enabled.)",
                hint="compute the loss before step() instead",
            )
        self._scale_tensor("GradScaler.step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            fail(
                RuntimeError,
                "GradScaler.step",
                "one call was required (step() has already been called since the last update().)",
                hint="call update() after every step()",
            )
        by_itself = getattr(optimizer, "_step_supports_amp_scaling", False)
        if state["stage"] is OptState.READY:
            (self._check_inf_per_device if by_itself else self.unscale_)(optimizer)
        if not state["found_inf_per_device"]:
            fail(
                AssertionError,
                "GradScaler.step",
                "gradients were required (No inf checks were recorded for this optimizer.)",
                hint="call scaler.scale(loss).backward() before step()",
            )
        result = None
        if by_itself:
            result = self._step_of_its_own(optimizer, state, args, kwargs)
        elif not any(found.item() for found in state["found_inf_per_device"].values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_of_its_own(
        self, optimizer: Any, state: dict[str, Any], args: tuple, kwargs: dict[str, Any]
    ) -> float | None:
        """The step of an optimizer that unscales and skips itself: it gets the scale and what was found."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler passes itself as a keyword argument to the optimizer, which is deprecated: "
                "an optimizer finds `grad_scale: Tensor` and `found_inf: Tensor` on itself",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        found = list(state["found_inf_per_device"].values())
        scaled = state["stage"] is OptState.READY
        optimizer.grad_scale = self._scale_tensor("GradScaler.step") if scaled else None
        optimizer.found_inf = sum(value.to(found[0].device) for value in found[1:]) + found[0]
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def _found_infinite(self) -> bool:
        """Whether any gradient since the last update was infinite or NaN."""
        found = [
            value
            for state in self._per_optimizer_states.values()
            for value in state["found_inf_per_device"].values()
        ]
        if not found:
            fail(
                AssertionError,
                "GradScaler.update",
                "a step or unscale_ before was required (No inf checks were recorded prior to "
                "update.)",
                hint="call scaler.step(optimizer) before update()",
            )
        return any(value.item() for value in found)

    def update(self, new_scale: Any = None) -> None:
        """Back the scale off after an overflow, let it grow after `growth_interval` good steps."""
        if not self._enabled:
            return
        scale, tracker = self._scale_tensor("GradScaler.update"), self._growth_tracker
        if new_scale is not None:
            if isinstance(new_scale, core.Tensor) and (
                new_scale.numel() != 1 or new_scale.requires_grad
            ):
                fail(
                    AssertionError,
                    "GradScaler.update",
                    "new_scale should be a float or a 1-element tensor with requires_grad=False",
                    new_scale,
                    hint="for example update(1024.0)",
                )
            scale.fill_(float(new_scale))
        elif self._found_infinite():
            scale.mul_(self._backoff_factor)
            tracker.fill_(0)
        else:
            good = int(tracker.item()) + 1
            if good == self._growth_interval:
                grown = scale * self._growth_factor
                if bool(grown.isfinite().item()):
                    scale.copy_(grown)
                good = 0
            tracker.fill_(good)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def get_scale(self) -> float:
        """The scale, 1.0 when disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """By how much the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by how much the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By how much the scale backs off."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by how much the scale backs off."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if self._growth_tracker is None:
            return self._init_growth_tracker
        return int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and its settings; empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state dictionary."""
        if not self._enabled:
            return
        if not state_dict:
            fail(
                RuntimeError,
                "GradScaler.load_state_dict",
                "the state of an enabled scaler was required (The source state dict is empty)",
                "{}",
                hint="make both scalers with enabled=True",
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                fail(
                    AssertionError,
                    "GradScaler",
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()",
                    hint="call update() first",
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Any]:
        """Look for infinite and NaN gradients without changing them."""
        scale = self._scale_tensor("GradScaler._check_inf_per_device")
        one = core.tensor(1.0, dtype=core.float32, device=scale.device)
        none_found = core.tensor(0.0, dtype=core.float32, device=scale.device)
        found = self._unscale_grads_(optimizer, one, none_found, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Any]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]


class ScalerOfKind(GradScaler):
    """A `GradScaler` for the kind of devices that a class names."""

    kind = ""

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_of_older_name(self.kind, "GradScaler", f"GradScaler('{self.kind}', args...)")
        super().__init__(
            self.kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
