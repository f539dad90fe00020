"""What single calls of a group's methods are told, and which engine serves which device, under PyTorch's names.

Takes and gives plain values. Keeps true: an option that is not given is the group's own; the names of engines are
those of `Backend`.
"""

from __future__ import annotations

import datetime
import warnings
from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.engines import Backend
from facula.distributed.types import ReduceOp

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BackendConfig",
    "BarrierOptions", "BroadcastOptions", "GatherOptions", "ReduceOptions", "ReduceScatterOptions",
    "ScatterOptions", "supports_complex",
]  # fmt: skip

#: the time of a call that names none: the group's
_UNSET = datetime.timedelta(milliseconds=-1)


@dataclass(eq=False)
class _Options:
    """How long a call may take, and whether it waits."""

    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True  # noqa: N815 - PyTorch's name

    def __init__(self) -> None:
        for one in self.__dataclass_fields__.values():
            made: Any = one.default_factory
            setattr(self, one.name, made() if callable(made) else one.default)

    def seconds(self) -> float | None:
        """The time of this call; None for the group's."""
        return None if self.timeout == _UNSET else self.timeout.total_seconds()


class Options:
    """How a group is made: which engine, how long its collectives may take.

    Args:
        backend: the engine's name
        timeout: how long a collective may take
    """

    def __init__(
        self, backend: str, timeout: datetime.timedelta = datetime.timedelta(minutes=30)
    ) -> None:
        self.backend, self._timeout = backend, timeout
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


@dataclass(eq=False, init=False)
class AllreduceOptions(_Options):
    """How tensors become one."""

    reduceOp: Any = field(default_factory=lambda: ReduceOp.SUM)  # noqa: N815


class AllreduceCoalescedOptions(AllreduceOptions):
    """How the tensors of lists become one."""


@dataclass(eq=False, init=False)
class ReduceScatterOptions(_Options):
    """How tensors become one."""

    reduceOp: Any = field(default_factory=lambda: ReduceOp.SUM)  # noqa: N815


@dataclass(eq=False, init=False)
class ReduceOptions(_Options):
    """How tensors become one, and on which rank."""

    reduceOp: Any = field(default_factory=lambda: ReduceOp.SUM)  # noqa: N815
    rootRank: int = 0  # noqa: N815
    rootTensor: int = 0  # noqa: N815


@dataclass(eq=False, init=False)
class BroadcastOptions(_Options):
    """Which rank sends, and which tensor of its list."""

    rootRank: int = 0  # noqa: N815
    rootTensor: int = 0  # noqa: N815


@dataclass(eq=False, init=False)
class GatherOptions(_Options):
    """Which rank gets all."""

    rootRank: int = 0  # noqa: N815


class ScatterOptions(GatherOptions):
    """Which rank has all."""


class AllgatherOptions(_Options):
    """Nothing but the time."""


class AllToAllOptions(_Options):
    """Nothing but the time."""


@dataclass(eq=False, init=False)
class BarrierOptions(_Options):
    """The devices that wait, too."""

    device_ids: list[int] = field(default_factory=list)
    device: core.device | None = None


def supports_complex(reduceOp: Any) -> bool:  # noqa: N803 - PyTorch's name
    """Whether complex tensors can be combined in a way: sums and means can, what orders or takes bits can not."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG)


class BackendConfig:
    """Which engine serves which type of device.

    Args:
        backend: the name of an engine, or `device:engine,device:engine`

    Raises:
        ValueError: a pair is not one, or a device stands twice.
    """

    def __init__(self, backend: Backend | str) -> None:
        text = str(backend).lower()
        self.device_backend_map: dict[str, Backend] = {}
        if text == Backend.UNDEFINED:
            self.device_backend_map = {"cpu": Backend(Backend.default_device_backend_map["cpu"])}
        elif ":" in text:
            for pair in text.split(","):
                self._take(pair, text)
        elif text in Backend.backend_list:
            devices = Backend.backend_capability[text]
            self.device_backend_map = dict.fromkeys(devices, Backend(text))
        else:
            warnings.warn(
                f"what devices the backend {text} serves is unknown: cpu and cuda are taken; `device:backend` says it",
                stacklevel=2,
            )
            self.device_backend_map = dict.fromkeys(("cpu", "cuda", "xpu"), Backend(text))

    def _take(self, pair: str, text: str) -> None:
        device, colon, name = pair.partition(":")
        if not colon or not device or not name or ":" in name:
            fail(ValueError, "BackendConfig", "pairs of device and backend were required (Invalid device:backend "
                 "pairing)", repr(pair), hint="for example 'cpu:gloo,cuda:nccl'")  # fmt: skip
        if device in self.device_backend_map:
            fail(ValueError, "BackendConfig", "each device once was required (Duplicate device type)", repr(text),
                 hint="for example 'cpu:gloo,cuda:nccl'")  # fmt: skip
        self.device_backend_map[device] = Backend(name)

    def get_device_backend_map(self) -> dict[str, Backend]:
        """The engine of each type of device."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())
