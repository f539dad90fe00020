"""Addresses of meetings, under PyTorch's name of the module.

Takes: texts. Gives: `parse_rendezvous_endpoint`, and whether a name is this machine's.
Keeps true: nothing is kept here.
"""

from __future__ import annotations

from facula.distributed.elastic.rendezvous.api import parse_rendezvous_endpoint
from facula.distributed.elastic.rendezvous.c10d_rendezvous_backend import (
    _is_this_machine as _matches_machine_hostname,  # noqa: F401
)

__all__ = ["parse_rendezvous_endpoint"]


def _try_parse_port(port_str: str) -> int | None:
    """The number of a port; None where a text is none."""
    return int(port_str) if port_str.isascii() and port_str.isdigit() else None
