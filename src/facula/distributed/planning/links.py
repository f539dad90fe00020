"""How fast ranks reach each other.

Takes: a table of links. Gives: how long an exchange of a group takes.
Keeps true: a group uses the slowest link that it needs: the first whose block of ranks holds all of it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from facula.core.errors import fail
from facula.distributed.traffic import Traffic

__all__ = ["LINKS", "Link", "read_links", "seconds"]


@dataclass(frozen=True)
class Link:
    """What connects blocks of consecutive ranks.

    ranks: how many a block has. bandwidth: bytes a second that each rank sends. latency: seconds of a message.
    """

    ranks: int
    bandwidth: float
    latency: float


#: machines of eight accelerators, and a network of 400 Gb/s for each of these
LINKS = (Link(8, 450e9, 3e-6), Link(1 << 20, 50e9, 1e-5))


def read_links(path: str | os.PathLike[str]) -> tuple[Link, ...]:
    """A table of links from a file: `[{"ranks": 8, "bandwidth": 450e9, "latency": 3e-6}, ...]`."""
    try:
        with open(path) as stream:
            found = tuple(Link(**entry) for entry in json.load(stream))
        good = bool(found) and all(
            link.ranks > 0 and link.bandwidth > 0 and link.latency >= 0 for link in found
        )
    except (ValueError, TypeError, RecursionError):
        good, found = False, ()
    if not good:
        fail(ValueError, "plan", f"a table of links was required in {os.fspath(path)}", "something else",
             'for example [{"ranks": 8, "bandwidth": 450e9, "latency": 3e-6}]')  # fmt: skip
    return tuple(sorted(found, key=lambda link: link.ranks))


def link_of(links: Sequence[Link], ranks: Sequence[int]) -> Link:
    """The link that a group uses."""
    for link in links:
        if len({rank // link.ranks for rank in ranks}) == 1:
            return link
    return links[-1]


def seconds(traffic: Traffic, links: Sequence[Link]) -> dict[tuple[int, ...], float]:
    """How long the exchanges of each group take, one behind the other."""
    found: dict[tuple[int, ...], float] = {}
    for (_, ranks), flow in traffic.flows.items():
        if len(ranks) > 1:
            link = link_of(links, ranks)
            steps = math.ceil(math.log2(len(ranks)))
            taken = flow.count * steps * link.latency + flow.sent / link.bandwidth
            found[ranks] = found.get(ranks, 0.0) + taken
    return found
