"""Engines: what carries the messages and collectives of process groups.

Takes: the name of an engine. Gives: `Backend`, `find`, which gives the class that makes it.
Keeps true: an engine is imported when it is asked for; an engine of another package is found by its entry
point and is nothing less than those of this one.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from facula.core.errors import fail
from facula.distributed.engine import Engine, Rendezvous

__all__ = ["DEFAULT", "Backend", "find", "is_known"]

GROUP = "facula.engines"
DEFAULT = "gloo"
Maker = Callable[[Rendezvous], Engine]
#: the engines of this package: module and class
_OWN = {
    "gloo": "facula.distributed.engines.sockets:SocketEngine",
    "fake": "facula.distributed.engines.fake:FakeEngine",
    "mpi": "facula.distributed.engines.mpi:MPIEngine",
    "nccl": "facula.distributed.engines.nccl:NCCLEngine",
}
_REGISTERED: dict[str, Maker] = {}
#: engines that nobody else provides, and that a program may put its own in the place of
_REPLACEABLE = ("fake",)


@dataclass(frozen=True)
class Plugin:
    """What a program registered: the function, whether it takes a rendezvous."""

    creator_fn: Callable[..., Any]
    extended_api: bool = False


class Backend(str):
    """The name of an engine, in small letters; new ones are registered here.

    Args:
        name: in letters of any size

    Example:
        >>> facula.distributed.Backend("GLOO")
        'gloo'
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"

    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    #: the engine of each type of device, where nobody names one
    default_device_backend_map: ClassVar[dict[str, str]] = {
        "cpu": GLOO,
        "cuda": NCCL,
        "xpu": XCCL,
        "mps": GLOO,
    }
    #: the types of devices that each engine serves
    backend_capability: ClassVar[dict[str, list[str]]] = {
        GLOO: ["cpu", "cuda"], NCCL: ["cuda"], XCCL: ["xpu"], UCC: ["cpu", "cuda"], MPI: ["cpu", "cuda"],
        FAKE: ["cpu", "cuda", "hpu", "xpu"],
    }  # fmt: skip

    #: what programs registered, by name in capitals
    _plugins: ClassVar[dict[str, Plugin]] = {}

    def __new__(cls, name: str) -> Backend:
        """A name as it is compared."""
        if not isinstance(name, str):
            fail(ValueError, "Backend", "the name of a backend was required (Backend constructor parameter "
                 "must be string-ish)", type(name).__name__, hint="for example Backend('gloo')")  # fmt: skip
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls, name: str, func: Callable[..., Any], extended_api: bool = False, devices: Any = None
    ) -> None:
        """Make an engine known to `init_process_group`.

        Args:
            func: called as `func(store, rank, world_size, timeout)`; with `extended_api` as
                `func(rendezvous)` (`engine.Rendezvous`), or `func(rendezvous, options)` where it takes two. Gives an
                `engine.Engine`, which serves all groups, or the `ProcessGroup` of these ranks.
            devices: the types of devices that it serves; default: `cpu`, `cuda` and `xpu`.
        """
        key = str(name).lower()
        if key in _REGISTERED or (key in _OWN and key not in _REPLACEABLE):
            fail(RuntimeError, "Backend.register_backend", f"a name that is not taken was required ({name} "
                 "c10d backend already exist)", repr(name), hint="choose another name")  # fmt: skip
        _REGISTERED[key] = _of_rendezvous(func) if extended_api else _simple(func)
        cls._plugins[key.upper()] = Plugin(func, extended_api)
        if key not in cls.backend_list:
            setattr(cls, key.upper(), key)
            cls.backend_list.append(key)
        served = [devices] if isinstance(devices, str) else list(devices or ("cpu", "cuda", "xpu"))
        cls.backend_capability[key] = served
        if devices is not None:
            for device in served:
                cls.default_device_backend_map.setdefault(device, key)


def _simple(function: Callable[..., Any]) -> Maker:
    """A function of PyTorch's arguments as one that takes a rendezvous."""
    import datetime

    def made(rendezvous: Rendezvous) -> Engine:
        limit = datetime.timedelta(seconds=rendezvous.seconds)
        return function(rendezvous.store, rendezvous.rank, rendezvous.size, limit)

    return made


def _of_rendezvous(function: Callable[..., Any]) -> Maker:
    """A function of a rendezvous, and of options where it takes those, too."""
    if isinstance(function, type):
        return function
    known = inspect.signature(function).parameters.values()
    places = [one for one in known if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return function if len(places) < 2 else lambda rendezvous: function(rendezvous, None)


def _entry_point(name: str) -> Maker | None:
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP, name=name):
        return entry.load()
    return None


def is_known(name: str) -> bool:
    """Whether there is an engine of this name; what it stands on may be missing."""
    return name in _OWN or name in _REGISTERED or _entry_point(name) is not None


def find(name: str) -> Maker:
    """What makes the engine of this name."""
    if name in _OWN and name not in _REGISTERED:
        module, _, found = _OWN[name].partition(":")
        return getattr(importlib.import_module(module), found)
    made = _REGISTERED.get(name) or _entry_point(name)
    if made is None:
        known = sorted({*_OWN, *_REGISTERED})
        unbuilt = name in Backend.backend_list and name != Backend.UNDEFINED
        fail(
            RuntimeError if unbuilt else ValueError,
            "init_process_group",
            f"a backend out of {', '.join(known)} was required",
            f"{name!r}, which is {'not built in' if unbuilt else 'unknown (Invalid backend)'}",
            hint="backend='gloo' runs on the cpu; engines of other packages are found by the entry point "
            f"group {GROUP}, or registered by Backend.register_backend",
        )
    return made


def serves_groups(name: str) -> bool:
    """Whether what a program registered is called for each group: a function may give groups or engines, a class
    of engines serves all."""
    made = _REGISTERED.get(name)
    return made is not None and not isinstance(made, type)


def make(name: str, rendezvous: Rendezvous) -> Engine:
    """The engine of this name."""
    return checked(find(name)(rendezvous), name)


def checked(made: Any, name: str) -> Engine:
    """What a name gave, if it is an engine."""
    if not isinstance(made, Engine):
        fail(TypeError, "init_process_group", f"a facula.distributed.engine.Engine or a ProcessGroup was required of "
             f"{name!r}", type(made).__name__,
             hint="derive the engine from Engine: send, ask and close are enough")  # fmt: skip
    return made
