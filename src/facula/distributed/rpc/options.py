"""What `init_rpc` may be told.

Takes and gives plain values. Keeps true: PyTorch's names; what only other transports know changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["BackendType", "RpcBackendOptions", "TensorPipeRpcBackendOptions", "WorkerInfo"]

#: seconds that a call may take
DEFAULT_TIMEOUT = 60.0


class BackendType(Enum):
    """The transports by name; both are gRPC here."""

    TENSORPIPE = "grpc"
    GRPC = "grpc"


@dataclass(frozen=True)
class WorkerInfo:
    """A worker: its number and name."""

    id: int
    name: str

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


class RpcBackendOptions:
    """How calls are made."""

    def __init__(
        self,
        rpc_timeout: float = DEFAULT_TIMEOUT,
        init_method: str = "env://",
        *,
        host: str | None = None,
        tls: tuple[str, str, str] | None = None,
    ) -> None:
        """Choose time-outs and addresses.

        Args:
            rpc_timeout: seconds that a call may take; 0: any number.
            init_method: how workers find each other, as in `init_process_group`.
            host: the address that this worker listens at; default: where it reaches the store.
            tls: files of this worker's key, its certificate, and the certificates that it trusts.
        """
        self.rpc_timeout, self.init_method = rpc_timeout, init_method
        self.host, self.tls = host, tls


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """PyTorch's options; calls run in as many threads as they need, and tensors travel through memory."""

    def __init__(
        self,
        *,
        num_worker_threads: int = 16,
        rpc_timeout: float = DEFAULT_TIMEOUT,
        init_method: str = "env://",
        device_maps: dict[str, Any] | None = None,
        devices: list[Any] | None = None,
        _transports: Any = None,
        _channels: Any = None,
        host: str | None = None,
        tls: tuple[str, str, str] | None = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method, host=host, tls=tls)
        self.num_worker_threads = num_worker_threads
        self.device_maps, self.devices = device_maps or {}, devices or []

    def set_device_map(self, to: str, device_map: dict[Any, Any]) -> None:
        """Say where tensors of a device arrive at a worker; kept."""
        self.device_maps.setdefault(to, {}).update(device_map)

    def set_devices(self, devices: list[Any]) -> None:
        """Name the devices that are used; kept."""
        self.devices = devices
