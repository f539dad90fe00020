"""Choices by measurement, for `max_autotune`: candidates run on memory of the right sizes.

Takes: a name for what is chosen, and candidates as functions, first the one that is taken where nothing is
measured. Gives: `fastest`, the name of the one that took the least time.
Keeps true: what else the machine does is no reason for a choice: with one thread processor time counts, and
the first candidate stays unless another is faster by `LEAD`; a choice is measured once for a machine's
instruction set and number of threads, and then read from the cache on disk; results of candidates are equal
up to rounding, whichever is chosen.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from facula import core
from facula.compiler import options as config
from facula.core import logs
from facula.runtime import cache, cpu_features

log = logs.get_logger("inductor")

#: runs of each candidate; the least time counts
RUNS = 5  # speed only
#: how much faster than the first candidate another has to be: measurements differ by less
LEAD = 0.03  # speed only
_known: dict[str, str] = {}
#: how many choices were asked for
ASKED = [0]  # any value does: who looks compares it with an earlier one


def fastest(what: str, candidates: Mapping[str, Callable[[], Any]]) -> str:
    """The candidate that takes the least time; `what` names everything that times depend on."""
    ASKED[0] += 1
    facts = (what, cpu_features.detected(), str(core.get_num_threads()), *candidates)
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:40]
    if config.get("force_disable_caches"):
        return _best(_measured(candidates))
    if key not in _known:
        entry = cache.entry("tuning", key, ".txt", lambda path: _write(path, what, candidates))
        name = bytes(entry.content).decode().partition(" ")[0]
        entry.close()
        _known[key] = name if name in candidates else next(iter(candidates))
    return _known[key]


def _write(path: str, what: str, candidates: Mapping[str, Callable[[], Any]]) -> None:
    times = _measured(candidates)
    best = _best(times)
    log.info("%s: %s", what, ", ".join(f"{name} {1e3 * t:.3f} ms" for name, t in times.items()))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{best} {what}\n")


def _best(times: Mapping[str, float]) -> str:
    first = next(iter(times))
    best = min(times, key=times.__getitem__)
    return best if times[best] < (1 - LEAD) * times[first] else first


def _clock() -> Callable[[], float]:
    """Processor time where one thread does all the work: waiting for a core does not lengthen it."""
    return time.thread_time if core.get_num_threads() == 1 else time.perf_counter


def _measured(candidates: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The least time of each, taken in turn so that all see the same machine."""
    times = dict.fromkeys(candidates, float("inf"))
    clock, recording = _clock(), core.set_grad_enabled(False)
    try:
        for run in candidates.values():
            run()
        for _ in range(RUNS):
            for name, run in candidates.items():
                started = clock()
                run()
                times[name] = min(times[name], clock() - started)
    finally:
        core.set_grad_enabled(recording)
    return times
