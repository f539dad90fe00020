"""Going on where a graph of pipes was.

Takes the last pipe of a graph and a number of values. Gives nothing: the pipe is moved forward.
Keeps true: the values that follow are those that would have followed, where the seeds are the same.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.data.datapipes._hook_iterator import _SnapshotState
from facula.data.graph_settings import apply_random_seed

__all__ = ["fast_forward"]


def fast_forward(datapipe: Any, n_iterations: int) -> None:
    """Read `n_iterations` values of a pipe; its next iterator goes on behind them."""
    values = iter(datapipe)
    for _ in range(n_iterations):
        try:
            next(values)
        except StopIteration:
            fail(
                RuntimeError,
                "fast_forward",
                f"Fast-forward {datapipe} by {n_iterations} iterations exceeds the number of samples "
                "available.",
                hint="the data or the steps differ from those of which the state was taken",
            )
    datapipe._fast_forward_iterator = values
    datapipe._snapshot_state = _SnapshotState.Restored


def _simple_graph_snapshot_restoration(datapipe: Any, n_iterations: int, rng: Any = None) -> None:
    """Begin anew with the seeds that `rng` gives, and read `n_iterations` values."""
    if datapipe._snapshot_state is _SnapshotState.Restored:
        fail(
            RuntimeError,
            "snapshot",
            "Snapshot restoration cannot be applied. You can only restore simple snapshot to the graph "
            "if your graph has not been restored.",
            hint="begin to iterate before restoring again",
        )
    datapipe.reset()
    apply_random_seed(datapipe, rng)
    fast_forward(datapipe, n_iterations)
