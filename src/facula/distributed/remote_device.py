"""`_remote_device`: a device of a worker, by the worker's name or its rank."""

from __future__ import annotations

import re
from typing import Any

from facula import core
from facula.core.errors import fail

__all__: list[str] = []

_RANK = re.compile(r"rank:(\d+)/(.+)")


class _remote_device:  # noqa: N801 - PyTorch's name
    """A device of a worker.

    Args:
        remote_device: `cpu`, `worker0/cuda:1`, `rank:0/cpu`, or a device of this process

    Raises:
        ValueError: the text is of no such form.
    """

    def __init__(self, remote_device: str | core.device) -> None:
        text = str(remote_device)
        self._worker_name: str | None = None
        self._rank: int | None = None
        found = _RANK.fullmatch(text)
        if found is not None:
            self._rank, place = int(found[1]), found[2]
        elif "/" in text:
            self._worker_name, _, place = text.partition("/")
        else:
            # a name without a device is a worker's
            place = text if self._is_device(text) else "cpu"
            self._worker_name = None if place == text else text
        if self._worker_name == "" or not text or "/" in place or not self._is_device(place):
            fail(ValueError, "_remote_device", "worker/device, rank:number/device or a device was required (Could not "
                 "parse remote_device)", repr(text), hint="for example worker0/cpu, or rank:0/cpu")  # fmt: skip
        self._device = core.device(place)

    @staticmethod
    def _is_device(text: str) -> bool:
        try:
            core.device(text)
        except (RuntimeError, ValueError):
            return False
        return True

    def worker_name(self) -> str | None:
        """The worker's name; None where it is told by its rank, or is this one."""
        return self._worker_name

    def rank(self) -> int | None:
        """The worker's rank; None where it is told by its name, or is this one."""
        return self._rank

    def device(self) -> core.device:
        """The device there."""
        return self._device

    def __repr__(self) -> str:
        if self._worker_name is not None:
            return f"{self._worker_name}/{self._device}"
        return f"{self._device}" if self._rank is None else f"rank:{self._rank}/{self._device}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _remote_device) and self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        return self._worker_name, self._rank, self._device

    def __hash__(self) -> int:
        return hash(self._key())
