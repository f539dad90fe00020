"""The methods of remote values, under PyTorch's name of the module."""

from __future__ import annotations

from facula.distributed.rpc.rref import _Proxy as RRefProxy

__all__ = ["RRefProxy"]
