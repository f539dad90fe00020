"""The kinds of rendezvous that come with facula, and those of installed packages.

Takes: parameters with the name of a kind. Gives: `get_rendezvous_handler`.
Keeps true: a package's kind (entry point group `torchrun.handlers`) is loaded when it is asked for, and takes
the place of none that is here.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from facula.distributed.elastic.rendezvous import c10d_rendezvous_backend, static_tcp_rendezvous
from facula.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousParameters,
)
from facula.distributed.elastic.rendezvous.api import (
    rendezvous_handler_registry as handler_registry,
)
from facula.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

__all__ = ["get_rendezvous_handler", "handler_registry"]


def _dynamic(params: RendezvousParameters) -> RendezvousHandler:
    backend, store = c10d_rendezvous_backend.create_backend(params)
    return create_handler(store, backend, params)


handler_registry.register("c10d", _dynamic)
handler_registry.register("static", static_tcp_rendezvous.create_rdzv_handler)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """A handler of the kind that the parameters name.

    Args:
        params: as the launcher made them

    Raises:
        ValueError: there is no such kind.

    Example:
        >>> from facula.distributed.elastic.rendezvous import RendezvousParameters
        >>> from facula.distributed.elastic.rendezvous.registry import get_rendezvous_handler
        >>> get_rendezvous_handler(RendezvousParameters("static", "", "job", 1, 1, rank=0)).get_backend()
        'static'
    """
    if params.backend not in handler_registry.names():
        for entry in entry_points(group="torchrun.handlers", name=params.backend):
            handler_registry.register(entry.name, entry.load())
    return handler_registry.create_handler(params)
